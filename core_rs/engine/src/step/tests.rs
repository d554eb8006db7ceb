use super::*;
use crate::rng::{Purpose, Stream};
use crate::samples::{deepseek_on_gb300, gpt_oss_on_gb200, llama_70b, llama_on_h100};

fn decode(n_seqs: u64, context: u64, window: u64) -> Load<'static> {
    let window_tokens = n_seqs * context.min(window);
    let n_growing_in_window = if context < window { n_seqs } else { 0 };
    Load { n_seqs, context_tokens: n_seqs * context, window_tokens, n_growing_in_window, chunks: &[] }
}

fn deployments() -> Vec<DeploymentSpec> {
    vec![
        llama_on_h100(1),
        llama_on_h100(8),
        llama_70b(85_899_345_920.0, 4),
        deepseek_on_gb300(8, 1),
        deepseek_on_gb300(2, 4),
        deepseek_on_gb300(1, 16),
        gpt_oss_on_gb200(4, 1),
        gpt_oss_on_gb200(2, 2),
    ]
}

fn random_load<'a>(dice: &mut Stream, window: u64, chunks: &'a mut Vec<Chunk>) -> Load<'a> {
    let n_seqs = dice.below(257);
    let context = 1 + dice.below(20_000);
    for _ in 0..dice.below(3) {
        chunks.push(Chunk { tokens: 1 + dice.below(2048), past_tokens: dice.below(30_000) });
    }
    Load { chunks, ..decode(n_seqs, context, window) }
}

#[test]
fn a_line_is_the_step_recomputed() {
    let mut dice = Stream::new(11, Purpose::RouterChoice, 0, 0);
    for spec in deployments() {
        let model = StepModel::new(&spec).unwrap();
        let window = model.window_tokens();
        for _ in 0..200 {
            let n_seqs = 1 + dice.below(256);
            let context = 1 + dice.below(4000);
            let line = model.step(&decode(n_seqs, context, window));
            let reach = if context < window { window - context } else { 100_000 };
            let i = dice.below(reach.min(line.valid_steps));
            let again = model.step(&decode(n_seqs, context + i, window));
            // Half a unit for each rounding, and what a double cannot hold.
            let near = |a: i128, b: i128| (a - b).abs() <= i128::from(i) + 2 + a / 1_000_000_000_000_000;
            assert!(near(line.time_fs.at(i), again.time_fs.base), "{line:?} at {i}: {again:?}");
            let drift = (line.energy_fj.at(i) - again.energy_fj.base).abs() as f64;
            let watts = spec.layout.n_chips() as f64 * spec.chip.max_w;
            assert!(drift <= (i + 2) as f64 * watts, "{drift}");
            assert!(near(line.bytes.at(i), again.bytes.base));
            assert!(near(line.flops.at(i), again.flops.base));
            assert_eq!(line.bound, again.bound);
        }
    }
}

#[test]
fn a_line_ends_where_max_changes_sides() {
    // Many sequences at a short context compute; as the context grows, reading it takes over.
    let mut spec = llama_on_h100(1);
    spec.engine.compute_eff_frac = 0.02;
    let model = StepModel::new(&spec).unwrap();
    let line = model.step(&decode(256, 10, 0));
    assert_eq!(line.bound, Bound::Compute);
    let n = line.valid_steps;
    assert!(n > 10 && n < 100_000, "{n}");
    assert_eq!(model.step(&decode(256, 10 + n - 1, 0)).bound, Bound::Compute);
    assert_eq!(model.step(&decode(256, 10 + n, 0)).bound, Bound::Memory);
}

#[test]
fn parts_make_the_whole_and_none_beats_the_roofline() {
    let mut dice = Stream::new(12, Purpose::RouterChoice, 0, 0);
    for spec in deployments() {
        let model = StepModel::new(&spec).unwrap();
        let n = spec.layout.n_chips() as f64;
        let fastest = spec.chip.flop_per_s.fp4.or(spec.chip.flop_per_s.fp8).unwrap();
        for _ in 0..300 {
            let mut chunks = Vec::new();
            let line = model.step(&random_load(&mut dice, model.window_tokens(), &mut chunks));
            let whole = line.launch_fs + line.memory_fs.max(line.compute_fs) + line.network_fs;
            assert_eq!(line.time_fs.base, whole);
            let time_s = line.time_fs.base as f64 / FEMTO;
            assert!(time_s >= line.bytes.base as f64 / (n * spec.chip.memory_bytes_per_s));
            assert!(time_s >= line.flops.base as f64 / (n * fastest));
            assert_eq!(line.network_fs == 0, n == 1.0);
        }
    }
}

#[test]
fn power_times_time_is_energy() {
    let mut dice = Stream::new(13, Purpose::RouterChoice, 0, 0);
    for spec in deployments() {
        let model = StepModel::new(&spec).unwrap();
        let n = spec.layout.n_chips() as f64;
        for _ in 0..300 {
            let mut chunks = Vec::new();
            let line = model.step(&random_load(&mut dice, model.window_tokens(), &mut chunks));
            let power_w = line.energy_fj.base as f64 / line.time_fs.base as f64;
            assert!(power_w >= n * spec.chip.parked_w && power_w <= n * spec.chip.max_w * (1.0 + 1e-12), "{power_w}");
            // Over m steps of the line: the sums of the two integer lines, whatever the number.
            let m = i128::from(1 + dice.below(1000));
            let sum = |l: Line| m * l.base + l.slope * (m * (m - 1) / 2);
            let each: i128 = (0..m).map(|i| line.energy_fj.base + line.energy_fj.slope * i).sum();
            assert_eq!(sum(line.energy_fj), each);
        }
    }
}

#[test]
fn draw_is_capped_at_the_sustained_maximum() {
    let mut spec = llama_on_h100(1);
    spec.chip.max_w = 500.0;
    let model = StepModel::new(&spec).unwrap();
    let chunks = [Chunk { tokens: 8192, past_tokens: 0 }];
    let prefill = model.step(&Load { chunks: &chunks, ..decode(0, 0, 0) });
    assert!((prefill.energy_fj.base as f64 / (500.0 * prefill.time_fs.base as f64) - 1.0).abs() < 1e-15);
    let light = model.step(&decode(1, 100, 0));
    assert!(light.energy_fj.base < 500 * light.time_fs.base);
}

#[test]
fn one_sequence_gains_nothing_from_more_attention_groups() {
    // A prompt and its cache live in one group: its attention and dense work is not divided by dp.
    let one = StepModel::new(&deepseek_on_gb300(1, 8)).unwrap().step(&decode(1, 50_000, 0));
    let eight = StepModel::new(&deepseek_on_gb300(1, 8)).unwrap().step(&decode(8, 50_000, 0));
    assert_eq!(one.time_fs.slope, eight.time_fs.slope);
    let chunks = [Chunk { tokens: 2048, past_tokens: 0 }];
    let split = [Chunk { tokens: 256, past_tokens: 0 }; 8];
    let model = StepModel::new(&deepseek_on_gb300(1, 8)).unwrap();
    let alone = model.step(&Load { chunks: &chunks, ..decode(0, 0, 0) });
    let spread = model.step(&Load { chunks: &split, ..decode(0, 0, 0) });
    assert!(alone.compute_fs > 2 * spread.compute_fs);
}

#[test]
fn the_busiest_experts_set_the_pace() {
    let mut spec = deepseek_on_gb300(8, 1);
    let even = StepModel::new(&spec).unwrap().step(&decode(64, 1000, 0));
    spec.engine.expert_skew = 1.3;
    let skewed = StepModel::new(&spec).unwrap().step(&decode(64, 1000, 0));
    assert!(skewed.memory_fs > even.memory_fs && skewed.compute_fs > even.compute_fs);
    assert_eq!(skewed.bytes, even.bytes);
    // Without whole experts on chips there is no busiest one.
    spec.layout.ep = Some(1);
    assert_eq!(StepModel::new(&spec).unwrap().step(&decode(64, 1000, 0)).memory_fs, even.memory_fs);
}

#[test]
fn a_table_is_its_loads() {
    let model = StepModel::new(&gpt_oss_on_gb200(4, 1)).unwrap();
    let chunks = [Chunk { tokens: 64, past_tokens: 10 }, Chunk { tokens: 5, past_tokens: 0 }];
    let load = |chunks| Load { n_seqs: 3, context_tokens: 900, window_tokens: 300, n_growing_in_window: 1, chunks };
    let steps = [model.step(&load(&chunks[..1])), model.step(&load(&[])), model.step(&load(&chunks))];
    let loads = Loads {
        load_ix: &[7, 8, 7, 7],
        n_seqs: &[3; 4],
        context_tokens: &[900; 4],
        window_tokens: &[300; 4],
        n_growing_in_window: &[1; 4],
        chunk_tokens: &[64, 0, 64, 5],
        chunk_past_tokens: &[10, 10, 10, 0],
    };
    let found = table(&model, &loads);
    let times: Vec<f64> = steps.iter().map(|step| step.time_fs.base as f64 / FEMTO).collect();
    assert_eq!(found.columns[0], ("time_s".to_owned(), crate::table::Column::F64(times)));
    let valid: Vec<u64> = steps.iter().map(|step| step.valid_steps).collect();
    assert_eq!(found.columns[15], ("valid_steps".to_owned(), crate::table::Column::U64(valid)));
}

#[test]
fn blocks_of_a_long_table_are_in_their_places() {
    // More loads than one thread takes, and a last block that is not full.
    let model = StepModel::new(&llama_on_h100(1)).unwrap();
    let n_seqs: Vec<u64> = (0..150_001).map(|i| 1 + i % 257).collect();
    let context: Vec<u64> = n_seqs.iter().zip(0..).map(|(n, i)| n * (1 + i % 5000)).collect();
    let none = vec![0; n_seqs.len()];
    let loads = Loads {
        load_ix: &[],
        n_seqs: &n_seqs,
        context_tokens: &context,
        window_tokens: &none,
        n_growing_in_window: &none,
        chunk_tokens: &none,
        chunk_past_tokens: &none,
    };
    let found = table(&model, &loads);
    let crate::table::Column::F64(times) = &found.columns[0].1 else { panic!() };
    for i in (0..n_seqs.len()).step_by(997).chain([4095, 4096, 150_000]) {
        let load = Load { context_tokens: context[i], ..decode(n_seqs[i], 1, 0) };
        assert_eq!(times[i], model.step(&load).time_fs.base as f64 / FEMTO, "{i}");
    }
}

#[test]
fn rounds_half_away_from_zero_and_saturates() {
    let tricky = [
        0.0,
        0.499_999_999_999_999_94,
        0.5,
        1.5,
        2.5,
        4_503_599_627_370_495.5,
        4_503_599_627_370_497.0,
        9e18,
        9.1e18,
        3e30,
    ];
    for value in tricky {
        assert_eq!(round(value), value.round() as i128, "{value}");
        assert_eq!(round(-value), (-value).round() as i128, "-{value}");
    }
    assert_eq!((round(f64::INFINITY), round(f64::NAN)), (round(1e36), 0));
}

#[test]
fn a_power_cap_slows_steps_as_much_as_it_has_to() {
    let mut dice = Stream::new(5, Purpose::RouterChoice, 0, 0);
    for free_spec in deployments() {
        let free = StepModel::new(&free_spec).unwrap();
        let mut spec = free_spec.clone();
        let cap_w = spec.chip.parked_w + 0.3 * (spec.chip.low_load_w - spec.chip.parked_w);
        spec.serving.power_cap_w = Some(cap_w);
        let capped = StepModel::new(&spec).unwrap();
        let n = free.n_chips() as f64;
        for _ in 0..100 {
            let mut chunks = Vec::new();
            let load = random_load(&mut dice, free.window_tokens(), &mut chunks);
            let (as_is, slow) = (free.step(&load), capped.step(&load));
            let watts = |line: &StepLine, i: u64| line.energy_fj.at(i) as f64 / line.time_fs.at(i) as f64;
            for i in [0, slow.valid_steps.min(300) - 1] {
                assert!(watts(&slow, i) <= cap_w * n * (1.0 + 1e-6), "{} over {cap_w}", watts(&slow, i) / n);
            }
            if slow.time_fs.base > as_is.time_fs.base {
                assert!((watts(&slow, 0) / (cap_w * n) - 1.0).abs() < 1e-6);
            } else {
                assert_eq!(slow.time_fs.base, as_is.time_fs.base);
            }
        }
    }
}

#[test]
fn attention_apart_adds_what_else_hides_behind_the_rest() {
    let mut dice = Stream::new(12, Purpose::RouterChoice, 0, 0);
    for mut spec in deployments() {
        let together = StepModel::new(&spec).unwrap();
        spec.engine.attention_apart = true;
        let apart = StepModel::new(&spec).unwrap();
        for _ in 0..200 {
            let mut chunks = Vec::new();
            let load = random_load(&mut dice, together.window_tokens(), &mut chunks);
            let (one, two) = (together.step(&load), apart.step(&load));
            assert!(two.time_fs.base >= one.time_fs.base - 2);
            // At most both sides in full, one after the other.
            let both = one.launch_fs + one.memory_fs + one.compute_fs + one.network_fs;
            assert!(two.time_fs.base <= both + 4);
            // The line is the step recomputed.
            if load.chunks.is_empty() && load.n_seqs > 0 && together.window_tokens() == 0 {
                let i = dice.below(two.valid_steps.min(1000));
                let later = Load { context_tokens: load.context_tokens + i * load.n_seqs, ..load };
                let again = apart.step(&later).time_fs.base;
                assert!((two.time_fs.at(i) - again).abs() <= i128::from(i) + 2 + again / 1_000_000_000_000_000);
            }
        }
    }
}

#[test]
fn a_slower_stack_takes_longer_for_the_same_work() {
    let mut spec = deepseek_on_gb300(4, 2);
    let load = Load {
        n_seqs: 64,
        context_tokens: 64 * 2000,
        window_tokens: 0,
        n_growing_in_window: 0,
        chunks: &[Chunk { tokens: 512, past_tokens: 0 }],
    };
    let plain = StepModel::new(&spec).unwrap().step(&load);
    spec.engine.stack_factor = 1.25;
    let slow = StepModel::new(&spec).unwrap().step(&load);
    assert!((slow.time_fs.base as f64 / plain.time_fs.base as f64 - 1.25).abs() < 1e-9);
    assert_eq!((slow.bytes, slow.flops), (plain.bytes, plain.flops));
    spec.engine.stack_factor = 0.0;
    assert!(StepModel::new(&spec).is_err());
}

#[test]
fn a_step_in_64_bits_is_that_in_128() {
    fn narrow(line: &StepLine) -> StepLine<i64> {
        let one = |line: Line| Line { base: line.base as i64, slope: line.slope as i64 };
        StepLine {
            time_fs: one(line.time_fs),
            energy_fj: one(line.energy_fj),
            bytes: one(line.bytes),
            flops: one(line.flops),
            bound: line.bound,
            launch_fs: line.launch_fs as i64,
            memory_fs: line.memory_fs as i64,
            compute_fs: line.compute_fs as i64,
            network_fs: line.network_fs as i64,
            capped_fs: one(line.capped_fs),
            valid_steps: line.valid_steps,
        }
    }
    let mut dice = Stream::new(12, Purpose::RouterChoice, 0, 0);
    for spec in deployments() {
        let model = StepModel::new(&spec).unwrap();
        let ready = model.clone().ready(256);
        let (mut n_held, mut n_not) = (0, 0);
        for at in 0..500 {
            let mut chunks = Vec::new();
            let mut load = random_load(&mut dice, model.window_tokens(), &mut chunks);
            load.context_tokens <<= (at % 5) * 9; // up to what no cache holds, and 64 bits do not
            match ready.step_narrow(&load) {
                Some(line) => {
                    n_held += 1;
                    assert_eq!(line, narrow(&model.step(&load)));
                }
                None => n_not += 1,
            }
        }
        assert!(n_held >= 100 && n_not > 0, "{n_held} {n_not}");
    }
    let mut capped = llama_on_h100(1);
    capped.serving.power_cap_w = Some(500.0);
    assert!(StepModel::new(&capped).unwrap().ready(9).step_narrow(&decode(1, 9, 0)).is_none());
}
