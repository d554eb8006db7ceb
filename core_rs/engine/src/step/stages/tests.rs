use super::*;
use crate::rng::{Purpose, Stream};
use crate::samples::{deepseek_on_gb300, gpt_oss_on_gb200, llama_70b, llama_on_h100};
use crate::step::Chunk;

fn staged(mut spec: DeploymentSpec, pp: u64) -> DeploymentSpec {
    spec.layout.pp = pp;
    spec
}

fn model(spec: &DeploymentSpec) -> StepModel {
    StepModel::new(spec).unwrap()
}

fn decode(n_seqs: u64, context: u64, window: u64) -> Load<'static> {
    Load {
        n_seqs,
        context_tokens: n_seqs * context,
        window_tokens: n_seqs * context.min(window),
        n_growing_in_window: if context < window { n_seqs } else { 0 },
        chunks: &[],
    }
}

/// 61 layers in 2 and 4 stages and 36 in 5 do not divide evenly.
fn deployments() -> Vec<DeploymentSpec> {
    vec![
        staged(llama_on_h100(1), 2),
        staged(llama_on_h100(2), 4),
        staged(llama_70b(85_899_345_920.0, 1), 3),
        staged(deepseek_on_gb300(4, 1), 2),
        staged(deepseek_on_gb300(2, 2), 4),
        staged(gpt_oss_on_gb200(1, 1), 5),
    ]
}

fn near(fs: i128, seconds: f64) {
    assert!((fs as f64 / FEMTO / seconds - 1.0).abs() < 1e-9, "{fs} fs, by hand {seconds} s");
}

/// Llama-3.1-8B on two H100, 16 layers each. A stage: 16 x 20 us of launches, 6,979,321,856 / 2 parameters of two bytes at
/// 3350e9 x 0.8; the last one also the host's 200 us and the head of 525,336,576 parameters. A hand-over of one token:
/// 6 us there, 6 us back, 8,192 bytes over 112.5e9.
#[test]
fn two_stages_by_hand() {
    let model = model(&staged(llama_on_h100(1), 2));
    let kv_s = |n: f64, context: f64| n * (context + 1.0) * 131_072.0 / 2.0 / (3350e9 * 0.75);
    let first = |n, context| 320e-6 + 6_979_321_856.0 / (3350e9 * 0.8) + kv_s(n, context);
    let last = |n, context| first(n, context) + 200e-6 + 2.0 * 525_336_576.0 / (3350e9 * 0.8);
    // One sequence: through both stages. What is read is read once.
    let one = model.step(&decode(1, 1000, 0));
    near(one.time_fs.base, first(1.0, 1000.0) + last(1.0, 1000.0) + 12e-6 + 8192.0 / 112.5e9);
    assert!((one.time_fs.slope as f64 - 131_072.0 / (3350e9 * 0.75) * FEMTO).abs() <= 2.0);
    assert_eq!(one.bytes.base, 15_009_316_864 + 1001 * 131_072);
    // Sixteen: two micro-batches of eight, and the last stage, 592 us slower than the first, sets the pace.
    let many = model.step(&decode(16, 1000, 0));
    near(many.time_fs.base, 2.0 * last(8.0, 1000.0));
    assert_eq!(many.bytes.base, 2 * 15_009_316_864 + 16 * 1001 * 131_072);
    near(many.launch_fs, 2.0 * 520e-6);
}

#[test]
fn a_line_is_the_step_recomputed() {
    let mut dice = Stream::new(21, Purpose::RouterChoice, 0, 0);
    for spec in deployments() {
        let model = model(&spec);
        let window = model.window_tokens();
        for _ in 0..200 {
            let (n_seqs, context) = (1 + dice.below(256), 1 + dice.below(4000));
            let line = model.step(&decode(n_seqs, context, window));
            let reach = if context < window { window - context } else { 100_000 };
            let i = dice.below(reach.min(line.valid_steps));
            let again = model.step(&decode(n_seqs, context + i, window));
            // A unit for each rounding of a stage, of those that come one after the other.
            let slack = i128::from((i + 2) * 2 * model.pp) + again.time_fs.base / 1_000_000_000_000_000;
            assert!((line.time_fs.at(i) - again.time_fs.base).abs() <= slack, "{line:?} at {i}: {again:?}");
            assert!(
                (line.bytes.at(i) - again.bytes.base).abs()
                    <= i128::from(i) + 2 + again.bytes.base / 1_000_000_000_000_000
            );
        }
    }
}

#[test]
fn no_step_beats_the_roofline_and_draws_are_in_bounds() {
    let mut dice = Stream::new(22, Purpose::RouterChoice, 0, 0);
    for spec in deployments() {
        let model = model(&spec);
        let n = spec.layout.n_chips() as f64;
        let fastest = spec.chip.flop_per_s.fp4.or(spec.chip.flop_per_s.fp8).unwrap();
        for _ in 0..300 {
            let chunks: Vec<Chunk> = (0..dice.below(6))
                .map(|_| Chunk { tokens: 1 + dice.below(2048), past_tokens: dice.below(30_000) })
                .collect();
            let load =
                Load { chunks: &chunks, ..decode(dice.below(257), 1 + dice.below(20_000), model.window_tokens()) };
            let line = model.step(&load);
            let time_s = line.time_fs.base as f64 / FEMTO;
            assert!(time_s >= line.bytes.base as f64 / (n * spec.chip.memory_bytes_per_s), "{load:?}");
            assert!(time_s >= line.flops.base as f64 / (n * fastest), "{load:?}");
            let rest_fs = line.time_fs.base - line.launch_fs - line.network_fs;
            assert!(rest_fs >= line.memory_fs.max(line.compute_fs), "{line:?}");
            let power_w = line.energy_fj.base as f64 / line.time_fs.base as f64;
            assert!(power_w >= n * spec.chip.parked_w && power_w <= n * spec.chip.max_w * (1.0 + 1e-12));
        }
    }
}

#[test]
fn one_token_gains_nothing_from_stages_and_many_sequences_do() {
    for plain in [llama_on_h100(1), llama_on_h100(2), deepseek_on_gb300(8, 1), gpt_oss_on_gb200(2, 2)] {
        let alone = model(&plain);
        let window = alone.window_tokens();
        let mut before = alone.step(&decode(1, 3000, window)).time_fs.base;
        let busy = |m: &StepModel| 512.0 / m.step(&decode(512, 3000, window)).time_fs.base as f64;
        let mut rate = busy(&alone);
        for pp in [2, 4] {
            let staged = model(&staged(plain.clone(), pp));
            let one = staged.step(&decode(1, 3000, window)).time_fs.base;
            assert!(one > before, "pp {pp}: {one} {before}");
            let transfers_fs = staged.stages.as_ref().unwrap().hand_over.latency_s * FEMTO * 1.1;
            assert!((one - alone.step(&decode(1, 3000, window)).time_fs.base) as f64 <= transfers_fs);
            assert!(busy(&staged) > rate, "pp {pp}");
            (before, rate) = (one, busy(&staged));
        }
    }
}

#[test]
fn a_prompt_takes_all_stages_and_several_fill_them() {
    let spec = staged(llama_on_h100(1), 4);
    let model = model(&spec);
    let chunk = Chunk { tokens: 2048, past_tokens: 0 };
    let of = |n: usize| model.step(&Load { chunks: &vec![chunk; n], ..decode(0, 0, 0) }).time_fs.base;
    // Four prompts are in four stages at once, of which the last takes a little longer; eight take twice as long.
    assert!(of(4) < of(1) * 101 / 100);
    assert!(of(8) > of(4) * 19 / 10 && of(8) < of(4) * 21 / 10);
    assert_eq!((model.step_tokens(), model.prompt_chunk_tokens(), model.lanes()), (4 * 8192, 8192, 4));
}

#[test]
fn drafts_and_a_power_cap_hold_in_stages_too() {
    let mut spec = staged(llama_on_h100(1), 2);
    let plain = model(&spec).step(&decode(64, 2000, 0));
    spec.serving.power_cap_w = Some(300.0);
    let capped = model(&spec).step(&decode(64, 2000, 0));
    assert!(capped.time_fs.base > plain.time_fs.base);
    assert!((capped.energy_fj.base as f64 / capped.time_fs.base as f64 / 600.0 - 1.0).abs() < 1e-6);
    spec.serving.power_cap_w = None;
    let drafts = |draft_tokens, draft_cost_frac| {
        Some(crate::speculation::SpeculationSpec { draft_tokens, acceptance_frac: 0.5, draft_cost_frac })
    };
    spec.serving.speculation = drafts(3, 0.0);
    let verified = model(&spec).step(&decode(64, 2000, 0));
    assert!(verified.time_fs.base > plain.time_fs.base);
    spec.serving.speculation = drafts(3, 0.1);
    let drafted = model(&spec).step(&decode(64, 2000, 0));
    assert!(
        (drafted.time_fs.base as f64 - verified.time_fs.base as f64 - 0.3 * plain.time_fs.base as f64).abs() < 10.0
    );
}

#[test]
fn mean_steps_are_those_of_whole_numbers() {
    for spec in deployments() {
        let model = model(&spec);
        for n in [1, model.pp, 8 * model.lanes(), 64 * model.lanes()] {
            let context = 5000;
            let step_s = model.step(&decode(n, context, model.window_tokens())).time_fs.base as f64 / FEMTO;
            // The mean step leaves out the keys and values that it writes, one token a sequence.
            let mean_s = model.decode_s(n as f64, context as f64);
            assert!((mean_s / step_s - 1.0).abs() < 1e-3, "{n}: {mean_s} {step_s}");
        }
    }
}
