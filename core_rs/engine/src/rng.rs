//! Counter-based random streams: the n-th draw of a stream is a pure function of (seed, purpose, a, b, n).
//!
//! Each draw is one Philox-4x32-10 block (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), so
//! streams never depend on who else drew, on threads or on the machine. `exp ln pow` come from the pure-Rust `libm`.

/// What a stream is for; part of its key, so that two uses never share numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    Arrivals = 1,
    InputLength = 2,
    OutputLength = 3,
    Rotation = 4,
    Thinning = 5,
    RouteShare = 6,
    RouterChoice = 7,
    Profile = 8,
    Turns = 9,
    Pause = 10,
    Prefix = 11,
    Posterior = 12,
    Failure = 13,
    /// 14 to 19 are left for what replicas draw.
    Cell = 20,
}

const M0: u32 = 0xD251_1F53;
const M1: u32 = 0xCD9E_8D57;
const W0: u32 = 0x9E37_79B9;
const W1: u32 = 0xBB67_AE85;

/// One Philox-4x32-10 block.
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let p0 = u64::from(M0) * u64::from(counter[0]);
        let p1 = u64::from(M1) * u64::from(counter[2]);
        counter =
            [(p1 >> 32) as u32 ^ counter[1] ^ key[0], p1 as u32, (p0 >> 32) as u32 ^ counter[3] ^ key[1], p0 as u32];
        key = [key[0].wrapping_add(W0), key[1].wrapping_add(W1)];
    }
    counter
}

/// SplitMix64 finaliser (Steele, Lea, Flood, OOPSLA 2014): folds the parts of a key into 64 well-mixed bits.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A stream of draws; `position` can be set, so any draw can be had without the ones before it.
#[derive(Debug, Clone)]
pub struct Stream {
    key: [u32; 2],
    lane: u64,
    pub position: u64,
}

/// The streams of one purpose for one `a`, say of a class, from which those of many `b` are taken.
#[derive(Debug, Clone, Copy)]
pub struct Streams {
    key: [u32; 2],
    lanes: u64,
}

impl Streams {
    pub fn new(seed: u64, purpose: Purpose, a: u64) -> Self {
        let k = mix(mix(seed) ^ mix(u64::from(purpose as u32)));
        Self { key: [k as u32, (k >> 32) as u32], lanes: mix(k ^ a) }
    }

    /// The stream for the pair (`a`, `b`).
    pub fn of(&self, b: u64) -> Stream {
        Stream { key: self.key, lane: mix(self.lanes.wrapping_add(b)), position: 0 }
    }
}

impl Stream {
    /// The stream of `purpose` under `seed`, for the pair (`a`, `b`): class and copy, say, or class and request.
    pub fn new(seed: u64, purpose: Purpose, a: u64, b: u64) -> Self {
        Streams::new(seed, purpose, a).of(b)
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let c = [self.position as u32, (self.position >> 32) as u32, self.lane as u32, (self.lane >> 32) as u32];
        self.position = self.position.wrapping_add(1);
        let r = philox(c, self.key);
        u64::from(r[0]) | u64::from(r[1]) << 32
    }

    /// Uniform in the open interval (0, 1), 52 bits: neither end can come, so `ln` is safe.
    pub fn uniform(&mut self) -> f64 {
        ((self.next_u64() >> 12) as f64 + 0.5) / 4_503_599_627_370_496.0
    }

    /// Uniform integer in 0..n (Lemire's multiply-shift; the bias is below n / 2^64).
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Standard exponential, by inversion.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.uniform())
    }

    /// Standard normal (Box-Muller, the cosine half, so that one value takes exactly two draws).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(2.0 * std::f64::consts::PI * self.uniform())
    }

    /// Gamma with the given shape and scale 1 (Marsaglia and Tsang, ACM TOMS 26, 2000; shape < 1 by the power boost).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::pow(self.uniform(), 1.0 / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            if libm::log(self.uniform()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_known_answers() {
        // Random123's kat_vectors for philox4x32 with 10 rounds.
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    #[test]
    fn a_stream_depends_on_its_whole_key_only() {
        let first = |s, p, a, b| Stream::new(s, p, a, b).next_u64();
        let base = first(1, Purpose::Arrivals, 0, 0);
        assert_eq!(base, first(1, Purpose::Arrivals, 0, 0));
        for other in [
            first(2, Purpose::Arrivals, 0, 0),
            first(1, Purpose::InputLength, 0, 0),
            first(1, Purpose::Arrivals, 1, 0),
            first(1, Purpose::Arrivals, 0, 1),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn moments() {
        let n = 200_000;
        let mut s = Stream::new(3, Purpose::Arrivals, 0, 0);
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let e: Vec<f64> = (0..n).map(|_| s.exponential()).collect();
        assert!((mean(&e) - 1.0).abs() < 0.01);
        let g: Vec<f64> = (0..n).map(|_| s.gamma(0.16)).collect(); // CV 2.5 has shape 1/6.25
        assert!((mean(&g) - 0.16).abs() < 0.005);
        let z: Vec<f64> = (0..n).map(|_| s.normal()).collect();
        assert!(mean(&z).abs() < 0.01);
        assert!((mean(&z.iter().map(|x| x * x).collect::<Vec<_>>()) - 1.0).abs() < 0.02);
    }
}
