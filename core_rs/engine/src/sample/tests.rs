use super::*;

fn arrival_spec(law: Law, burstiness: Option<f64>) -> ArrivalSpec {
    ArrivalSpec {
        seed: 7,
        key: 1,
        law,
        rate_req_per_s: 40.0,
        burstiness,
        burst: None,
        shape: None,
        length_ns: 3_600_000_000_000,
    }
}

fn mean_and_cv(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let var = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    (mean, var.sqrt() / mean)
}

fn gaps(times: &[u64]) -> Vec<f64> {
    times.windows(2).map(|w| (w[1] - w[0]) as f64).collect()
}

#[test]
fn poisson_gaps_have_the_rate_and_a_cv_of_one() {
    let times = arrivals(&arrival_spec(Law::Poisson, None)).unwrap();
    let (mean, cv) = mean_and_cv(&gaps(&times));
    assert!((mean / 25e6 - 1.0).abs() < 0.01, "{mean}"); // 1 s / 40 = 25 ms
    assert!((cv - 1.0).abs() < 0.01, "{cv}");
}

#[test]
fn gamma_gaps_have_the_burstiness() {
    for burstiness in [0.0, 0.5, 1.0, 2.5] {
        let times = arrivals(&arrival_spec(Law::Gamma, Some(burstiness))).unwrap();
        let (mean, cv) = mean_and_cv(&gaps(&times));
        assert!((mean / 25e6 - 1.0).abs() < 0.03, "{burstiness}: {mean}");
        assert!((cv - burstiness).abs() < 0.03 * burstiness.max(0.1), "{burstiness}: {cv}");
    }
}

#[test]
fn a_longer_run_has_the_shorter_one_as_its_head() {
    let long = arrivals(&arrival_spec(Law::Gamma, Some(2.5))).unwrap();
    let short = arrivals(&ArrivalSpec { length_ns: 60_000_000_000, ..arrival_spec(Law::Gamma, Some(2.5)) }).unwrap();
    assert_eq!(long[..short.len()], short[..]);
    assert!(long[short.len()] > 60_000_000_000);
}

#[test]
fn wrong_arrivals_are_refused() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e12] {
        assert!(arrivals(&ArrivalSpec { rate_req_per_s: rate, ..arrival_spec(Law::Poisson, None) }).is_err());
    }
    assert!(arrivals(&arrival_spec(Law::Gamma, None)).is_err());
    assert!(arrivals(&arrival_spec(Law::Poisson, Some(2.0))).is_err());
    assert!(arrivals(&arrival_spec(Law::Gamma, Some(f64::NAN))).is_err());
}

fn length_spec(input: Dist, output: Dist) -> LengthSpec {
    LengthSpec { seed: 7, key: 1, first: 0, n: 100_000, input, output, context_tokens: None }
}

fn quantile(values: &[u32], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    f64::from(sorted[(q * (sorted.len() - 1) as f64) as usize])
}

#[test]
fn lognormal_lengths_have_the_median_and_the_p95() {
    let input = Dist::Lognormal { median: 1200.0, p95: 8000.0 };
    let drawn = lengths(&length_spec(input, Dist::Uniform { low: 3, high: 5 })).unwrap();
    assert!((quantile(&drawn.input_tokens, 0.5) / 1200.0 - 1.0).abs() < 0.02);
    assert!((quantile(&drawn.input_tokens, 0.95) / 8000.0 - 1.0).abs() < 0.03);
    for tokens in 3..=5 {
        let n = drawn.output_tokens.iter().filter(|t| **t == tokens).count();
        assert!(n.abs_diff(33_333) < 600, "{tokens}: {n}");
    }
    assert!(drawn.output_tokens.iter().all(|t| (3..=5).contains(t)));
}

#[test]
fn empirical_lengths_follow_the_weights() {
    let dist = Dist::Empirical { tokens: vec![10, 20, 30], weights: Some(vec![1.0, 0.0, 3.0]) };
    let drawn = lengths(&length_spec(dist, Dist::Fixed { tokens: 9 })).unwrap();
    let n10 = drawn.input_tokens.iter().filter(|t| **t == 10).count();
    assert!(n10.abs_diff(25_000) < 600, "{n10}");
    assert!(!drawn.input_tokens.contains(&20));
    assert!(drawn.output_tokens.iter().all(|t| *t == 9));
}

#[test]
fn a_pair_beyond_the_context_is_drawn_again_and_counted() {
    let mut spec = length_spec(Dist::Uniform { low: 1, high: 100 }, Dist::Uniform { low: 1, high: 100 });
    let free = lengths(&spec).unwrap();
    spec.context_tokens = Some(120);
    let held = lengths(&spec).unwrap();
    let mut n_redrawn = 0;
    for k in 0..free.redraws.len() {
        assert!(held.input_tokens[k] + held.output_tokens[k] <= 120);
        if free.input_tokens[k] + free.output_tokens[k] <= 120 {
            assert_eq!((held.input_tokens[k], held.output_tokens[k]), (free.input_tokens[k], free.output_tokens[k]));
            assert_eq!(held.redraws[k], 0);
        } else {
            assert!(held.redraws[k] > 0);
            n_redrawn += 1;
        }
    }
    // 6,760 of the 10,000 pairs fit.
    assert!(n_redrawn > 30_000, "{n_redrawn}");
    // Nothing fits: the last draw is kept, after a bounded number of tries; fixed lengths are not tried again.
    spec.context_tokens = Some(1);
    spec.n = 2;
    assert_eq!(lengths(&spec).unwrap().redraws, [MAX_REDRAWS; 2]);
    let fixed = LengthSpec { input: Dist::Fixed { tokens: 9 }, output: Dist::Fixed { tokens: 1 }, ..spec };
    assert_eq!(lengths(&fixed).unwrap().redraws, [0; 2]);
}

#[test]
fn one_request_does_not_depend_on_how_many_are_drawn() {
    let spec = length_spec(Dist::Lognormal { median: 9.0, p95: 90.0 }, Dist::Lognormal { median: 9.0, p95: 90.0 });
    let few = lengths(&LengthSpec { n: 10, ..spec.clone() }).unwrap();
    let many = lengths(&spec).unwrap();
    assert_eq!(few.input_tokens, many.input_tokens[..10]);
    let later = lengths(&LengthSpec { first: 7, n: 3, ..spec.clone() }).unwrap();
    assert_eq!(later.output_tokens, many.output_tokens[7..10]);
    assert_ne!(many.input_tokens, many.output_tokens);
}

#[test]
fn wrong_lengths_are_refused() {
    let fine = Dist::Fixed { tokens: 1 };
    for dist in [
        Dist::Lognormal { median: 0.0, p95: 10.0 },
        Dist::Lognormal { median: 10.0, p95: 10.0 },
        Dist::Uniform { low: 0, high: 10 },
        Dist::Uniform { low: 11, high: 10 },
        Dist::Fixed { tokens: 0 },
        Dist::Empirical { tokens: vec![], weights: None },
        Dist::Empirical { tokens: vec![0], weights: None },
        Dist::Empirical { tokens: vec![1], weights: Some(vec![0.0]) },
        Dist::Empirical { tokens: vec![1], weights: Some(vec![1.0, 1.0]) },
    ] {
        assert!(lengths(&length_spec(dist.clone(), fine.clone())).is_err(), "{dist:?}");
    }
}

#[test]
fn copies_turn_but_the_first() {
    let spec = RotationSpec { seed: 3, key: 5, n_copies: 1_000, modulus_ns: 1_000 };
    let shifts = rotations(&spec).unwrap();
    assert_eq!(shifts[0], 0);
    assert!(shifts.iter().all(|s| *s < 1_000));
    assert!(shifts[1..].iter().sum::<u64>().abs_diff(499_500) < 30_000);
    assert!(rotations(&RotationSpec { modulus_ns: 0, ..spec }).is_err());
}

#[test]
fn thinning_keeps_a_share_and_is_nested() {
    let spec = ThinningSpec { seed: 3, key: 5, copy: 2, n: 100_000, keep_frac: 0.3 };
    let kept = thinning(&spec).unwrap();
    assert!(kept.len().abs_diff(30_000) < 600);
    let more = thinning(&ThinningSpec { keep_frac: 0.6, ..spec.clone() }).unwrap();
    assert!(kept.iter().all(|row| more.binary_search(row).is_ok()));
    assert_eq!(thinning(&ThinningSpec { keep_frac: 1.0, ..spec.clone() }).unwrap().len(), 100_000);
    assert!(thinning(&ThinningSpec { keep_frac: 1.5, ..spec }).is_err());
}

fn profile_json() -> serde_json::Value {
    serde_json::json!({
        "kind": "profile", "seed": 1, "key": 2, "first_copy": 0, "n_copies": 3, "part_frac": 0.0, "context_tokens": null,
        "span_ns": 60_000_000_000_u64,
        "gap_quantiles": [[0.0, 1e6], [0.5, 1e8], [1.0, 2e9]],
        "gap_order": {"trend": [0.2, -0.2], "white": 1.0, "ar": [[0.5, 20.0]]},
        "batch_sizes": [0, 80, 10],
        "size_order": {"trend": [], "white": 1.0, "ar": []},
        "input_runs": [[1, 50, 50], [60, 60, 50]],
        "output_runs": [[5, 9, 60], [1000, 2000, 40]],
        "joint": [[50, 0], [10, 40]],
    })
}

fn read(value: &serde_json::Value) -> std::result::Result<SampleSpec, serde_json::Error> {
    serde_json::from_str(&value.to_string())
}

#[test]
fn a_realisation_keeps_its_tables() {
    let SampleSpec::Profile(spec) = read(&profile_json()).unwrap() else { panic!("a profile was meant") };
    let drawn = profile(&spec).unwrap();
    assert_eq!(drawn.arrival_ns.len(), 300);
    assert!(drawn.arrival_ns.is_sorted() && drawn.arrival_ns[299] <= spec.span_ns);
    let n = |values: &[u32], low, high| values.iter().filter(|t| (low..=high).contains(*t)).count();
    assert_eq!(n(&drawn.input_tokens, 1, 50), 150);
    assert_eq!(n(&drawn.input_tokens, 60, 60), 150);
    assert_eq!(n(&drawn.output_tokens, 1000, 2000), 120);
    for (input, output) in drawn.input_tokens.iter().zip(&drawn.output_tokens) {
        assert!(*input == 60 || *output <= 9, "the joint table has no short input with a long output");
    }
    let single = profile(&ProfileSpec { n_copies: 1, ..spec.clone() }).unwrap();
    assert_eq!(single.arrival_ns.windows(2).filter(|w| w[0] == w[1]).count(), 10);
    // Copy 1 is the same alone and in company.
    let second = profile(&ProfileSpec { first_copy: 1, n_copies: 1, ..spec.clone() }).unwrap();
    assert!(second.arrival_ns.iter().all(|t| drawn.arrival_ns.binary_search(t).is_ok()));
    assert_ne!(single.arrival_ns, second.arrival_ns);
    let part = profile(&ProfileSpec { part_frac: 0.5, ..spec.clone() }).unwrap();
    assert!((320..380).contains(&part.arrival_ns.len()), "{}", part.arrival_ns.len());
    let held = profile(&ProfileSpec { context_tokens: Some(100), ..spec }).unwrap();
    assert!(held.input_tokens.iter().zip(&held.output_tokens).all(|(i, o)| i + o <= 100));
    assert_eq!(held.redraws.iter().filter(|r| **r > 0).count(), 120);
}

#[test]
fn tables_that_disagree_are_refused() {
    for (field, value) in [
        ("span_ns", serde_json::json!(0)),
        ("batch_sizes", serde_json::json!([1, 100])),
        ("batch_sizes", serde_json::json!([0, 99])),
        ("gap_quantiles", serde_json::json!([[0.0, 1.0], [0.9, 2.0]])),
        ("gap_quantiles", serde_json::json!([[0.0, 3.0], [1.0, 2.0]])),
        ("gap_order", serde_json::json!({"trend": [], "white": -1.0, "ar": []})),
        ("input_runs", serde_json::json!([[0, 50, 100]])),
        ("output_runs", serde_json::json!([[1, 50, 99]])),
        ("joint", serde_json::json!([[50, 0], [50]])),
        ("part_frac", serde_json::json!(1.5)),
    ] {
        let mut spec = profile_json();
        spec[field] = value;
        assert!(run(&read(&spec).unwrap()).is_err(), "{field}");
    }
}

#[test]
fn the_door_reads_json_and_refuses_unknown_keys() {
    let table = run(&read(
        &serde_json::json!({"kind": "rotations", "seed": 1, "key": u64::MAX, "n_copies": 2, "modulus_ns": 9}),
    )
    .unwrap());
    assert_eq!(table.unwrap().columns[0].0, "shift_ns");
    for wrong in [
        serde_json::json!({"kind": "rotations", "seed": 1, "key": 1, "n_copies": 2, "modulus_ns": 9, "colour": 1}),
        serde_json::json!({"kind": "lengths", "seed": 1, "key": 1, "n": 1, "context_tokens": null,
            "input": {"dist": "fixed", "tokens": 1, "high": 2}, "output": {"dist": "fixed", "tokens": 1}}),
        serde_json::json!({"kind": "wave", "seed": 1}),
    ] {
        assert!(read(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_row_of_normals_depends_on_its_own_number_only() {
    let draw = |n_rows: u64, key: u64| {
        let spec = serde_json::json!({"kind": "normals", "seed": 1, "key": key, "n_rows": n_rows, "n_columns": 3});
        match &run(&read(&spec).unwrap()).unwrap().columns[0] {
            (name, Column::F64(values)) if name == "value" => values.clone(),
            other => panic!("{other:?}"),
        }
    };
    let (few, many) = (draw(2, 0), draw(2000, 0));
    assert_eq!(few, many[..6]);
    assert_ne!(few, draw(2, 1));
    let mean = many.iter().sum::<f64>() / many.len() as f64;
    let square = many.iter().map(|x| x * x).sum::<f64>() / many.len() as f64;
    assert!(mean.abs() < 0.05 && (square - 1.0).abs() < 0.05);
    let spec = serde_json::json!({"kind": "normals", "seed": 1, "key": 0, "n_rows": u64::MAX, "n_columns": 3});
    assert!(run(&read(&spec).unwrap()).is_err());
}
