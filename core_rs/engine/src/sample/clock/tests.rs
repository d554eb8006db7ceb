use super::*;

const H: u64 = 3_600_000_000_000;

fn shape(factors: &[f64]) -> ShapeSpec {
    ShapeSpec { step_ns: H, factors: factors.to_vec(), start_ns: 0, regions: vec![], growth_frac: 0.0 }
}

fn law_hours(spec: &ShapeSpec, length_ns: u64) -> f64 {
    Clock::new(spec, length_ns).unwrap().law_length_ns().unwrap() as f64 / H as f64
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} is not {b}");
}

#[test]
fn the_integral_is_the_sum_of_the_factors_over_their_mean() {
    let spec = shape(&[2.0, 1.0, 0.0, 5.0]); // mean 2
    close(law_hours(&spec, H), 1.0);
    close(law_hours(&spec, 2 * H), 1.5);
    close(law_hours(&spec, 3 * H), 1.5);
    close(law_hours(&spec, 4 * H), 4.0);
    close(law_hours(&spec, 7 * H / 2), 1.5 + 1.25);
    close(law_hours(&spec, 41 * H), 41.0);
    close(law_hours(&ShapeSpec { start_ns: 3 * H, ..spec }, H), 2.5);
}

#[test]
fn growth_is_exact_over_a_year() {
    let spec = ShapeSpec { growth_frac: 0.4, ..shape(&[1.0]) };
    let year = 8_760 * H;
    // The integral of 1.4^t over one year is 0.4 / ln 1.4.
    close(law_hours(&spec, year) / 8_760.0, 0.4 / libm::log(1.4));
    let shrinking = ShapeSpec { growth_frac: -0.5, ..shape(&[1.0]) };
    close(law_hours(&shrinking, year) / 8_760.0, 0.5 / libm::log(2.0));
}

#[test]
fn regions_are_the_shape_at_other_times() {
    let factors = [0.0, 4.0, 2.0, 2.0];
    let spec = ShapeSpec { regions: vec![(0.75, 0), (0.25, H + H / 2)], ..shape(&factors) };
    // 0.75 x the shape and 0.25 x the shape 1.5 h later, each with a mean of 2.
    let own = |t: f64| factors[t.rem_euclid(4.0) as usize] / 2.0;
    let mut sum = 0.0;
    for half in 0..16 {
        let t = f64::from(half) / 2.0;
        sum += 0.5 * (0.75 * own(t) + 0.25 * own(t - 1.5));
        close(law_hours(&spec, u64::from(half as u32 + 1) * H / 2), sum);
    }
}

#[test]
fn the_inverse_undoes_the_integral() {
    let growing = ShapeSpec { growth_frac: 1.5, start_ns: 5 * H / 2, ..shape(&[2.0, 1.0, 0.0, 5.0]) };
    for spec in [shape(&[2.0, 1.0, 0.0, 5.0]), growing] {
        let mut clock = Clock::new(&spec, 100 * H).unwrap();
        let mut last = 0;
        for k in 0..3_000 {
            let real = k * 100 * H / 3_000;
            let law = Clock::new(&spec, real).unwrap().law_length_ns().unwrap();
            let found = clock.real_ns(law);
            let again = Clock::new(&spec, found).unwrap().law_length_ns().unwrap();
            assert!(law.abs_diff(again) <= 10_000, "{real}: {law} {again}"); // 10 us of two days
            assert!(found >= last && found <= 100 * H);
            last = found;
        }
    }
}

#[test]
fn wrong_shapes_are_refused() {
    let fine = shape(&[1.0, 2.0]);
    for wrong in [
        shape(&[]),
        shape(&[0.0, 0.0]),
        shape(&[1.0, -1.0]),
        shape(&[f64::NAN]),
        ShapeSpec { step_ns: 0, ..fine.clone() },
        ShapeSpec { step_ns: u64::MAX, ..fine.clone() },
        ShapeSpec { regions: vec![(0.5, 0)], ..fine.clone() },
        ShapeSpec { growth_frac: -1.0, ..fine.clone() },
        ShapeSpec { step_ns: 1_000, ..fine },
    ] {
        assert!(Clock::new(&wrong, 1_000 * H).is_err(), "{wrong:?}");
    }
    let explosive = ShapeSpec { growth_frac: 1e9, ..shape(&[1.0]) };
    assert!(Clock::new(&explosive, 50_000 * H).unwrap().law_length_ns().is_err());
}
