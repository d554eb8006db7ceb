use super::*;

const S: u64 = 1_000_000_000;

fn spec(law: Law) -> ArrivalSpec {
    ArrivalSpec {
        seed: 7,
        key: 1,
        law,
        rate_req_per_s: 40.0,
        burstiness: None,
        burst: None,
        shape: None,
        length_ns: 3_600 * S,
    }
}

fn bursts(size: f64, decay_ns: f64) -> ArrivalSpec {
    ArrivalSpec { burst: Some(Burst { size, decay_ns }), ..spec(Law::Hawkes) }
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n)
}

/// Requests in each window.
fn counts(times: &[u64], window_ns: u64, length_ns: u64) -> Vec<f64> {
    let mut counts = vec![0.0; (length_ns / window_ns) as usize];
    for time in times {
        if let Some(count) = counts.get_mut((time / window_ns) as usize) {
            *count += 1.0;
        }
    }
    counts
}

#[test]
fn weibull_gaps_have_the_rate_and_the_burstiness() {
    for cv in [0.0, 0.3, 1.0, 2.5] {
        let times = arrivals(&ArrivalSpec { burstiness: Some(cv), ..spec(Law::Weibull) }).unwrap();
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let (mean, variance) = mean_and_variance(&gaps);
        assert!((mean / 25e6 - 1.0).abs() < 0.03, "{cv}: {mean}");
        assert!((variance.sqrt() / mean - cv).abs() < 0.03 * cv.max(0.1), "{cv}: {}", variance.sqrt() / mean);
    }
}

#[test]
fn a_weibull_shape_of_one_is_exponential() {
    assert!((weibull_power(1.0).unwrap() - 1.0).abs() < 1e-9);
    assert!((weibull_power(5.0_f64.sqrt()).unwrap() - 0.5).abs() < 1e-9); // shape 1/2: G(5)/G(3)^2 - 1 = 24/4 - 1
    assert!(weibull_power(1e12).is_err());
}

#[test]
fn bursts_have_the_rate_and_the_dispersion_of_their_size() {
    for size in [1.0, 2.0, 6.0] {
        let length_ns = 40_000 * S;
        let times = arrivals(&ArrivalSpec { length_ns, ..bursts(size, 0.1e9) }).unwrap();
        // Windows much longer than a burst: variance / mean of the counts is the square of the size.
        let (mean, variance) = mean_and_variance(&counts(&times, 20 * S, length_ns));
        assert!((mean / 800.0 - 1.0).abs() < 0.02, "{size}: {mean}");
        assert!((variance / mean / (size * size) - 1.0).abs() < 0.12, "{size}: {}", variance / mean);
        assert!(times.is_sorted());
    }
}

#[test]
fn bursts_are_in_full_swing_from_the_first_instant() {
    // The first second of 2,000 runs, against the rate: no ramp.
    let n: usize =
        (0..2_000).map(|seed| arrivals(&ArrivalSpec { seed, length_ns: S, ..bursts(8.0, 0.5e9) }).unwrap().len()).sum();
    assert!((n as f64 / 80_000.0 - 1.0).abs() < 0.04, "{n}");
}

#[test]
fn a_longer_run_begins_with_the_shorter_one() {
    for law in [ArrivalSpec { burstiness: Some(2.5), ..spec(Law::Weibull) }, bursts(4.0, 1e9)] {
        let long = arrivals(&law).unwrap();
        let short = arrivals(&ArrivalSpec { length_ns: 60 * S, ..law }).unwrap();
        assert_eq!(long[..short.len()], short[..]);
        assert!(long[short.len()] > 60 * S);
    }
}

#[test]
fn a_shape_moves_arrivals_and_keeps_their_law() {
    let shape = ShapeSpec {
        step_ns: 600 * S,
        factors: vec![1.0, 3.0, 0.0, 2.0],
        start_ns: 0,
        regions: vec![],
        growth_frac: 0.0,
    };
    let shaped = ArrivalSpec { shape: Some(shape), length_ns: 24_000 * S, ..spec(Law::Poisson) };
    let times = arrivals(&shaped).unwrap();
    let counts = counts(&times, 600 * S, shaped.length_ns);
    for (k, factor) in [1.0, 3.0, 0.0, 2.0].into_iter().enumerate() {
        let mine: f64 = counts.iter().skip(k).step_by(4).sum();
        assert!((mine - 240_000.0 * factor / 1.5).abs() < 4.0 * 240_000_f64.sqrt(), "{k}: {mine}");
    }
    // 10 periods of 2,400 s at 40 requests a second.
    assert!((times.len() as f64 - 960_000.0).abs() < 4.0 * 960_000_f64.sqrt());
    assert!(times.is_sorted() && times[times.len() - 1] <= shaped.length_ns);
    // The same draws as without the shape, moved: as many of them by the end of each period.
    let even = arrivals(&ArrivalSpec { length_ns: 2_400 * S, ..spec(Law::Poisson) }).unwrap();
    assert!(times.partition_point(|t| *t <= 2_400 * S).abs_diff(even.len()) <= 1);
}

#[test]
fn wrong_laws_are_refused() {
    for wrong in [
        spec(Law::Weibull),
        spec(Law::Hawkes),
        ArrivalSpec { burstiness: Some(-1.0), ..spec(Law::Weibull) },
        ArrivalSpec { burstiness: Some(2.0), ..bursts(2.0, 1e9) },
        ArrivalSpec { burst: Some(Burst { size: 2.0, decay_ns: 1e9 }), ..spec(Law::Poisson) },
        bursts(0.9, 1e9),
        bursts(2.0, 0.0),
        bursts(f64::INFINITY, 1e9),
        bursts(1e6, 1e15),
    ] {
        assert!(arrivals(&wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn some_at_a_time_are_the_same_as_all_at_once() {
    let factors = vec![1.0, 0.0, 3.0];
    let shape = ShapeSpec { step_ns: 600 * S, factors, start_ns: 0, regions: Vec::new(), growth_frac: 0.5 };
    for spec in [
        spec(Law::Poisson),
        ArrivalSpec { burstiness: Some(2.0), shape: Some(shape), ..spec(Law::Gamma) },
        ArrivalSpec { burstiness: Some(0.5), ..spec(Law::Weibull) },
        bursts(6.0, 2e9),
    ] {
        let whole = arrivals(&spec).unwrap();
        for most in [1, 999, 1 << 20] {
            let mut some = Arrivals::new(&spec).unwrap();
            let mut found = Vec::new();
            loop {
                let next = some.next(most).unwrap();
                found.extend_from_slice(&next);
                if next.len() < most {
                    break;
                }
            }
            assert_eq!(found, whole);
            assert!(some.next(most).unwrap().is_empty());
        }
    }
}
