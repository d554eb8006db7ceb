use super::*;
use crate::samples::{deepseek_on_gb300, gpt_oss_on_gb200, llama_on_h100};
use crate::step::Load;

fn habits() -> Habits {
    Habits {
        interference: 1.0,
        first_token_s: 20e-3,
        first_token_launches: 2.0,
        first_token_unlike_s: 1e-3,
        first_token_steps: 3.0,
        first_token_dp_steps: 5.0,
        lone_prompt: 1.5,
        burst: 0.1,
        cache_wait: 1.0,
        handover_s: 40e-3,
        handover_steps: 4.0,
        split_burst: 0.1,
        split_prefill_gain: 1.25,
    }
}

fn spec(deployment: &DeploymentSpec, prefill: Option<Layout>) -> SteadySpec {
    let name = || "x".to_owned();
    SteadySpec {
        chips: [(name(), deployment.chip.clone())].into(),
        models: [(name(), deployment.model.clone())].into(),
        engines: [(name(), deployment.engine.clone())].into(),
        habits: [(name(), habits())].into(),
        groups: vec![Group {
            chip: name(),
            model: name(),
            engine: name(),
            precision: deployment.precision.clone(),
            serving: deployment.serving.clone(),
            layout: deployment.layout,
            prefill,
            prefill_chip: None,
            prefill_engine: None,
            prefill_precision: None,
        }],
        by_rules: false,
    }
}

fn row(concurrency: f64) -> SteadyRow {
    SteadyRow {
        group_ix: 0,
        input_tokens: 1000.0,
        output_tokens: 500.0,
        concurrency,
        prefill_workers: 1.0,
        decode_workers: 1.0,
        held_steps: 0.0,
        in_step: 0.0,
    }
}

fn point(deployment: &DeploymentSpec, concurrency: f64) -> SteadyPoint {
    run(&spec(deployment, None), &[row(concurrency)]).unwrap().points[0]
}

#[test]
fn whole_batches_take_the_time_of_their_step() {
    for deployment in [llama_on_h100(2), deepseek_on_gb300(8, 1), deepseek_on_gb300(1, 8), gpt_oss_on_gb200(4, 1)] {
        let model = StepModel::new(&deployment).unwrap();
        for n_seqs in [8_u64, 64, 256] {
            let (context, window) = (4000, model.window_tokens().min(4000));
            let step = model.step(&Load {
                n_seqs,
                context_tokens: n_seqs * context,
                window_tokens: n_seqs * window,
                n_growing_in_window: 0,
                chunks: &[],
            });
            let mean = model.decode_s(n_seqs as f64, context as f64);
            assert!((mean / (step.time_fs.base as f64 / 1e15) - 1.0).abs() < 1e-9, "{n_seqs}");
        }
    }
}

#[test]
fn a_lone_client_waits_for_its_prompt_and_its_steps() {
    // One client: no burst, no cache limit. Step at 1000 + 500/2 = 1250 tokens of context:
    // launch 200 us + 32 x 20 us = 840 us; weights 7,504,658,432 x 2 bytes / (3350e9 x 0.8) = 5,600.49 us; keys and
    // values (32 x 1250 + 32) x 4096 bytes / (3350e9 x 0.75) = 65.26 us: 6,505.75 us.
    // Prompt: 2 x (7,504,658,432 - 128,256 x 4096) x 1000 + 2 x 128,256 x 4096 + 32 x 500,500 x 16,384 operations
    // = 14.2221e12 over 989e12 x 0.5 = 28.761 ms.
    let found = point(&llama_on_h100(1), 1.0);
    let (launch, weights) = (840e-6, 7_504_658_432.0 * 2.0 / (3350e9 * 0.8));
    let step = launch + weights + 40_032.0 * 4096.0 / (3350e9 * 0.75);
    let params = 7_504_658_432.0 - 128_256.0 * 4096.0;
    let flops: f64 = 2.0 * params * 1000.0 + 2.0 * 128_256.0 * 4096.0 + 32.0 * 500_500.0 * 16_384.0;
    let prompt: f64 = flops / (989e12 * 0.5);
    assert!((prompt - 28.761e-3).abs() < 1e-5, "{prompt}");
    let life = |tpot: f64, ttft: f64| 500.0 * tpot / (500.0 * tpot + ttft);
    // No prompt but its own, which is over when it decodes.
    let tpot = step;
    assert!((found.tpot_s / tpot - 1.0).abs() < 1e-6);
    let ttft = 20e-3 + 2.0 * launch + 3.0 * tpot + launch + 1.5 * prompt;
    assert!((found.ttft_s / ttft - 1.0).abs() < 1e-6, "{} {ttft}", found.ttft_s);
    assert!((found.n_seqs - life(tpot, ttft)).abs() < 1e-3);
    assert!((found.output_tokens_per_s - found.n_seqs / tpot).abs() < 1e-3);
}

#[test]
fn a_full_cache_makes_clients_wait() {
    let mut deployment = llama_on_h100(1);
    deployment.chip.memory_bytes = 24e9;
    let few = point(&deployment, 4.0);
    let many = point(&deployment, 400.0);
    assert!(many.cache_seqs < 100.0 && many.n_seqs <= many.cache_seqs);
    // 400 clients over the cache wait a generation for every cache-full ahead of them.
    assert!(many.ttft_s > (400.0 - many.cache_seqs) / many.cache_seqs * 500.0 * many.tpot_s);
    assert!(few.ttft_s < 1.0);
}

#[test]
fn a_saturated_prefill_pool_sets_the_pace() {
    let deployment = llama_on_h100(1);
    let split = spec(&deployment, Some(deployment.layout));
    let short = SteadyRow { output_tokens: 100.0, ..row(300.0) };
    let found = run(&split, &[row(8.0), short]).unwrap().points;
    assert!(found[0].prefill_busy_frac < 0.3 && found[1].prefill_busy_frac > 1.0);
    // No prompt among the decoding steps: the time between tokens is the plain step.
    let model = StepModel::new(&deployment).unwrap();
    let step = model.decode_s(found[0].n_seqs, 1250.0);
    assert!((found[0].tpot_s / step - 1.0).abs() < 1e-3);
    // Throughput times prompt time over the gain and its share of a step's launches is at most the pool's whole time, and
    // near it: 8.192 prompts share a step.
    let prompt = model.prompt(1000.0);
    let busy = found[1].output_tokens_per_s / 100.0 * (prompt.together_s / 1.25 + prompt.base_s / 8.192);
    assert!((0.8..1.01).contains(&busy), "{busy}");
}

#[test]
fn the_first_wave_at_a_prompt_pool_waits_for_half_of_it() {
    // 100 clients at two workers, 50 each. 8.192 prompts share a step, which takes D(8.192) = launch + 8.192 own, and one
    // is completed every D / 8.192. The first of a worker's 50 are in D, the other 41.808 wait for half of theirs:
    // D + 0.5 x 41.808 x D / 8.192. With a share of 1 that is all of the wait.
    let deployment = llama_on_h100(1);
    let mut split = spec(&deployment, Some(deployment.layout));
    let habits = split.habits.get_mut("x").unwrap();
    (habits.split_burst, habits.split_prefill_gain, habits.lone_prompt) = (1.0, 1.0, 1.0);
    (habits.first_token_s, habits.handover_s, habits.handover_steps) = (0.0, 0.0, 0.0);
    let asked = SteadyRow { output_tokens: 2000.0, prefill_workers: 2.0, ..row(100.0) };
    let first = run(&split, &[asked]).unwrap().points[0].ttft_s;
    let prompt = StepModel::new(&deployment).unwrap().prompt(1000.0);
    let step_s = prompt.base_s + 8.192 * prompt.own_s;
    assert!((first / (step_s + 0.5 * 41.808 * step_s / 8.192) - 1.0).abs() < 1e-9, "{first}");
    // A tenth of the requests are in it; the others wait for little more than their own prompt at such a load.
    split.habits.get_mut("x").unwrap().split_burst = 0.0;
    let later = run(&split, &[asked]).unwrap().points[0].ttft_s;
    assert!((1.0..1.5).contains(&(later / (prompt.base_s + prompt.own_s))), "{later}");
    split.habits.get_mut("x").unwrap().split_burst = 0.1;
    let mean = run(&split, &[asked]).unwrap().points[0].ttft_s;
    assert!((mean / (0.9 * later + 0.1 * first) - 1.0).abs() < 1e-3, "{mean}");
}

#[test]
fn prompts_are_held_back_while_others_decode() {
    let split = spec(&llama_on_h100(1), None);
    let found = run(
        &split,
        &[row(8.0), SteadyRow { held_steps: 20.0, ..row(8.0) }, row(1.0), SteadyRow { held_steps: 20.0, ..row(1.0) }],
    )
    .unwrap()
    .points;
    let steps = (found[1].ttft_s - found[0].ttft_s) / found[1].tpot_s;
    assert!((steps - 20.0).abs() < 0.2, "{steps}");
    assert_eq!(found[2], found[3]);
}

#[test]
fn clients_in_step_share_the_prompts_between_waiting_and_decoding() {
    // 64 clients with 500 tokens each: half of 64 prompts before a first token, half of them in the output.
    let split = spec(&llama_on_h100(1), None);
    let asked = SteadyRow { in_step: 1.0, ..row(64.0) };
    let found = run(&split, &[asked]).unwrap().points[0];
    let model = StepModel::new(&llama_on_h100(1)).unwrap();
    let together_s = model.prompt(1000.0).together_s;
    // A sequence sees itself and what the 63 others have in the mean.
    let others = found.n_seqs * 63.0 / 64.0;
    let step_s = model.decode_s(1.0 + others, 1250.0);
    assert!((found.tpot_s / (step_s + 0.5 * others / 500.0 * together_s) - 1.0).abs() < 1e-6);
    assert!(found.ttft_s > 31.5 * together_s && found.ttft_s < 36.0 * together_s);
}

#[test]
fn better_hardware_is_never_slower_and_more_clients_never_faster() {
    for deployment in [llama_on_h100(2), deepseek_on_gb300(8, 1), gpt_oss_on_gb200(1, 4)] {
        let mut before = 0.0;
        for concurrency in [1.0, 3.0, 16.0, 100.0, 700.0] {
            let plain = point(&deployment, concurrency);
            assert!(plain.tpot_s >= before * (1.0 - 1e-3), "{concurrency}");
            before = plain.tpot_s;
            let improvements: [fn(&mut DeploymentSpec); 3] = [
                |d| d.chip.memory_bytes_per_s *= 2.0,
                |d| {
                    d.chip.flop_per_s.bf16 *= 2.0;
                    d.chip.flop_per_s.fp8 = d.chip.flop_per_s.fp8.map(|f| 2.0 * f);
                    d.chip.flop_per_s.fp4 = d.chip.flop_per_s.fp4.map(|f| 2.0 * f);
                },
                |d| d.chip.scale_up_bytes_per_s *= 2.0,
            ];
            for improve in improvements {
                let mut better = deployment.clone();
                improve(&mut better);
                let better = point(&better, concurrency);
                assert!(better.output_tokens_per_s >= plain.output_tokens_per_s * (1.0 - 1e-3), "{concurrency}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_named_and_the_rest_is_answered() {
    let mut two = spec(&llama_on_h100(1), None);
    let mut small = llama_on_h100(1).chip;
    small.memory_bytes = 10e9;
    two.chips.insert("small".to_owned(), small);
    let mut group = two.groups[0].clone();
    group.chip = "small".to_owned();
    two.groups.push(group);
    let found = run(&two, &[row(4.0), SteadyRow { group_ix: 1, ..row(4.0) }]).unwrap();
    assert!(found.points[0].tpot_s > 0.0 && found.points[1].tpot_s.is_nan());
    assert!(found.refusals[0].is_none());
    assert!(found.refusals[1].as_ref().unwrap().to_string().starts_with("weights: "));
}

#[test]
fn wrong_rows_and_names_are_refused() {
    let plain = spec(&llama_on_h100(1), None);
    let refused = |spec: &SteadySpec, row: SteadyRow| match run(spec, &[row]) {
        Err(Error::Input { field, .. }) => field,
        _ => panic!("not refused"),
    };
    assert_eq!(refused(&plain, SteadyRow { group_ix: 1, ..row(1.0) }), "row 0: group_ix");
    assert_eq!(refused(&plain, row(0.0)), "row 0: concurrency");
    assert_eq!(refused(&plain, SteadyRow { output_tokens: f64::NAN, ..row(1.0) }), "row 0: output_tokens");
    let mut wrong = plain.clone();
    wrong.groups[0].engine = "y".to_owned();
    assert_eq!(refused(&wrong, row(1.0)), "groups.engine");
    let mut wrong = plain;
    wrong.habits.get_mut("x").unwrap().burst = -1.0;
    assert_eq!(refused(&wrong, row(1.0)), "habits.burst");
}
