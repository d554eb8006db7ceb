use std::sync::Arc;

use super::*;
use crate::sample::{arrivals, lengths, profile, ArrivalSpec, Dist, Law as Kind, LengthSpec, ProfileSpec};
use crate::split::split;

fn by_law(rate: f64) -> LawSpec {
    LawSpec {
        arrivals: ArrivalSpec {
            seed: 5,
            key: 7,
            law: Kind::Gamma,
            rate_req_per_s: rate,
            burstiness: Some(2.0),
            burst: None,
            shape: None,
            length_ns: 100_000_000_000,
        },
        input: Dist::Lognormal { median: 100.0, p95: 900.0 },
        output: Dist::Uniform { low: 3, high: 9 },
        context_tokens: Some(800),
    }
}

fn a_profile() -> ProfileSpec {
    let order = r#"{"trend": [0.0, 1.0], "white": 1.0, "ar": [[0.5, 20.0]]}"#;
    let text = format!(
        r#"{{"seed": 1, "key": 2, "first_copy": 0, "n_copies": 9, "part_frac": 0.4, "context_tokens": null,
        "span_ns": 60000000000, "gap_quantiles": [[0.0, 1e6], [0.5, 1e8], [1.0, 1e9]], "gap_order": {order},
        "batch_sizes": [0, 80, 10], "size_order": {order}, "input_runs": [[1, 90, 100]],
        "output_runs": [[5, 5, 40], [6, 60, 60]], "joint": [[100]]}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn recorded() -> Recorded {
    let arrival_ns = vec![0, 10, 10, 500, 999];
    Recorded { arrival_ns, input_tokens: vec![1, 2, 3, 4, 5], output_tokens: vec![6, 7, 8, 9, 10] }
}

fn one_class(source: SourceSpec, length_ns: u64) -> OfferedSpec {
    OfferedSpec { classes: vec![source], length_ns, split: None }
}

fn all(mut offered: Offered, most: usize) -> Batch {
    let mut whole = Batch { counts: vec![0; offered.seen().len()], ..Batch::default() };
    loop {
        let batch = offered.next(most).unwrap();
        whole.counts.iter_mut().zip(&batch.counts).for_each(|(sum, n)| *sum += n);
        whole.arrival_ns.extend(&batch.arrival_ns);
        whole.class_ix.extend(&batch.class_ix);
        whole.input_tokens.extend(&batch.input_tokens);
        whole.output_tokens.extend(&batch.output_tokens);
        if batch.is_over {
            return whole;
        }
    }
}

#[test]
fn what_is_drawn_by_law_is_what_sampling_gives() {
    let law = by_law(40.0);
    let times = arrivals(&law.arrivals).unwrap();
    let spec = LengthSpec {
        seed: 5,
        key: 7,
        first: 0,
        n: times.len() as u64,
        input: law.input.clone(),
        output: law.output.clone(),
        context_tokens: law.context_tokens,
    };
    let drawn = lengths(&spec).unwrap();
    let spec = one_class(SourceSpec::Law(Box::new(law)), 100_000_000_000);
    let offered = Offered::new(&spec, vec![Beside::Nothing], vec![0], false).unwrap();
    assert!((offered.expected()[0] - 4000.0).abs() < 1e-6);
    let found = all(offered, 333);
    assert_eq!(found.arrival_ns, times);
    assert_eq!((found.input_tokens, found.output_tokens), (drawn.input_tokens, drawn.output_tokens));
}

#[test]
fn copies_are_turned_round_their_span_and_come_again() {
    let spec = CopySpec { seed: 3, key: 4, span_ns: 1000, start_ns: 300, n_whole: 4, part_frac: 0.5, n_passes: 3 };
    let shifts = rotations_of(&spec);
    let kept = crate::sample::thinning(&crate::sample::ThinningSpec { seed: 3, key: 4, copy: 4, n: 5, keep_frac: 0.5 });
    let rows = recorded();
    let mut wanted = Vec::new();
    for pass in 0..3_u64 {
        let mut one: Vec<(u64, u32)> = Vec::new();
        for (copy, shift) in shifts.iter().enumerate() {
            let mine: Vec<usize> = match copy {
                4 => kept.as_ref().unwrap().iter().map(|row| *row as usize).collect(),
                _ => (0..5).collect(),
            };
            one.extend(mine.iter().map(|row| ((rows.arrival_ns[*row] + shift + 700) % 1000, rows.input_tokens[*row])));
        }
        one.sort_by_key(|row| row.0);
        wanted.extend(one.into_iter().map(|(at, input)| (pass * 1000 + at, input)));
    }
    wanted.retain(|row| row.0 <= 2400);
    let asked = one_class(SourceSpec::Copies(spec.clone()), 2400);
    let beside = || vec![Beside::Rows(Arc::new(recorded()))];
    for most in [1, 7, 1000] {
        let found = all(Offered::new(&asked, beside(), vec![0], false).unwrap(), most);
        let pairs: Vec<(u64, u32)> = found.arrival_ns.into_iter().zip(found.input_tokens).collect();
        assert_eq!(pairs, wanted);
    }
    let unsorted = Recorded { arrival_ns: vec![5, 4], input_tokens: vec![1, 1], output_tokens: vec![1, 1] };
    for bad in [unsorted, Recorded { arrival_ns: vec![1000], input_tokens: vec![1], output_tokens: vec![1] }] {
        assert!(Offered::new(&asked, vec![Beside::Rows(Arc::new(bad))], vec![0], false).is_err());
    }
}

fn rotations_of(spec: &CopySpec) -> Vec<u64> {
    let asked = crate::sample::RotationSpec { seed: spec.seed, key: spec.key, n_copies: 5, modulus_ns: spec.span_ns };
    crate::sample::rotations(&asked).unwrap()
}

#[test]
fn realisations_are_those_of_the_profile_on_a_faster_clock() {
    let spec = a_profile();
    let start_ns = 7_000_000_000;
    let clock = ClockSpec { speedup: (5, 2), pass_ns: 24_000_000_001, start_ns, n_passes: 2 };
    let mut wanted = Vec::new();
    for pass in 0..2_u64 {
        let drawn = profile(&ProfileSpec { first_copy: pass << 32, ..spec.clone() }).unwrap();
        let on_clock = |at: &u64| ((2 * at + 2) / 5 + 17_000_000_001) % 24_000_000_001;
        let mut one: Vec<(u64, u32)> = drawn.arrival_ns.iter().map(on_clock).zip(drawn.input_tokens).collect();
        one.sort_by_key(|row| row.0);
        wanted.extend(one.into_iter().map(|(at, input)| (pass * 24_000_000_001 + at, input)));
    }
    let asked = one_class(SourceSpec::Profile(clock), u64::MAX);
    let shared = Arc::new(Realised::new(spec).unwrap());
    let offered = || Offered::new(&asked, vec![Beside::Realised(Arc::clone(&shared))], vec![0], false).unwrap();
    assert!((offered().expected()[0] - 1880.0).abs() < 1e-6);
    // Side by side, as threads do it.
    std::thread::scope(|scope| {
        for most in [13, 100_000] {
            let (offered, wanted) = (offered(), &wanted);
            scope.spawn(move || {
                let found = all(offered, most);
                let pairs: Vec<(u64, u32)> = found.arrival_ns.into_iter().zip(found.input_tokens).collect();
                assert_eq!(&pairs, wanted);
            });
        }
    });
}

#[test]
fn cells_have_what_the_split_says_and_equal_times_stand_in_the_order_of_classes() {
    let split_spec = SplitSpec { seed: 9, keys: vec![7, 8], weights: vec![vec![1.0, 2.0, 1.0], vec![0.0, 1.0, 1.0]] };
    let copies = CopySpec { seed: 3, key: 4, span_ns: 1000, start_ns: 0, n_whole: 300, part_frac: 0.0, n_passes: 1 };
    let classes = vec![SourceSpec::Copies(copies.clone()), SourceSpec::Copies(copies)];
    let spec = OfferedSpec { classes, length_ns: 1000, split: Some(split_spec.clone()) };
    let rows = Arc::new(recorded());
    let beside = || vec![Beside::Rows(Arc::clone(&rows)), Beside::Rows(Arc::clone(&rows))];
    let whole = all(Offered::new(&OfferedSpec { split: None, ..spec.clone() }, beside(), vec![0], false).unwrap(), 50);
    let pairs: Vec<(u64, u16)> = whole.arrival_ns.iter().copied().zip(whole.class_ix.iter().copied()).collect();
    assert!(pairs.is_sorted());
    let cells = split(&split_spec, &whole.class_ix, &[], &[]).unwrap();
    for asked in [vec![0, 1, 2], vec![2], vec![1, 0]] {
        let found = all(Offered::new(&spec, beside(), asked.clone(), true).unwrap(), 100_000);
        let mut wanted = Vec::new();
        for cell in &asked {
            wanted.extend((0..cells.len()).filter(|row| cells[*row] == *cell).map(|row| whole.arrival_ns[row]));
        }
        assert_eq!(found.arrival_ns, wanted);
        assert_eq!(found.counts.iter().sum::<u64>(), wanted.len() as u64);
    }
    for wrong in [vec![3], vec![1, 1]] {
        assert!(Offered::new(&spec, beside(), wrong, true).is_err());
    }
    assert!(Offered::new(&spec, vec![Beside::Nothing, Beside::Nothing], vec![0], false).is_err());
}

#[test]
fn what_is_spilled_is_read_again() {
    let rows: Vec<(u64, u32, u32, u32)> =
        (0..5000).map(|k| (u64::MAX / 5000 * u64::from(k), k, u32::MAX - k, k % 7)).collect();
    let mut spill = super::spill::Spill::new().unwrap();
    let blocks: Vec<_> = rows.chunks(1700).map(|some| spill.write(some).unwrap()).collect();
    for first in [0, 1, 700, 1699] {
        let mut found = Vec::new();
        for (block, wanted) in blocks.iter().zip(rows.chunks(1700)) {
            let begin = wanted.get(first).map_or(u64::MAX, |row| row.0);
            let held = super::spill::Block::Held(Arc::new(wanted.to_vec()));
            let mut readers = [block, &held].map(|each| each.reader(Some(&spill), |row| row.0 >= begin).unwrap());
            while let Some(row) = readers[0].take().unwrap() {
                assert_eq!(readers[1].take().unwrap(), Some(row));
                found.push(row);
            }
            assert_eq!(readers[1].take().unwrap(), None);
        }
        let turned = rows.chunks(1700).flat_map(|some| {
            let at = first.min(some.len());
            some[at..].iter().chain(&some[..at]).copied()
        });
        assert!(turned.eq(found));
    }
}
