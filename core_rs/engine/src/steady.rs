//! A benchmark-like point without simulation: a closed loop at fixed concurrency, from the steps it is made of.
//!
//! Every client sends its next request when the last one ends; all start at once, and about ten waves follow. With `B`
//! sequences decoding in a replica (a mean, so not whole), prompts of `I` tokens and outputs of `O`:
//!
//! ```text
//! tpot  = decode(B, I + O/2) + interference x (B / O) x prompt_together          one pool does both
//!       = decode(B, I + O/2)                                                     decode pool
//! B     = min(concurrency x O tpot / (O tpot + ttft), sequences that the cache holds)        (Little's law)
//! ttft  = first_token_s + first_token_steps x tpot + prompt_alone
//!       + burst x prompt_together x (concurrency - 1)                            the first wave, over ten waves
//!       + wait for the cache                                                     where concurrency exceeds it
//! ```
//! A split deployment has the queue of its prefill pool in place of the burst's interference: with one prompt every
//! `s` seconds and a loop of `Z` seconds outside it, `c` clients wait `c s - Z` once the pool is saturated, rounded off
//! by `spread` of the loop around that point. The fixed point is found by damped repetition, the same number of times
//! for every row.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chip::{fraction, not_negative, positive, ChipSpec};
use crate::deployment::{DeploymentSpec, EngineSpec, Precision, ServingSpec};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::mean_loop::{mean_loop, LoopLoad};
use crate::model::ModelSpec;
use crate::step::{PromptCost, StepModel};

/// Repetitions of the fixed point; it moves by less than 1e-3 after six.
const ROUNDS: usize = 12;
/// A sequence holds its prompt and, when the next one is let in, this share of its output.
const HELD_OUTPUT: f64 = 0.75;

/// Deployments to be costed under one load each or many; chips, models and engines are named once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteadySpec {
    pub chips: BTreeMap<String, ChipSpec>,
    pub models: BTreeMap<String, ModelSpec>,
    pub engines: BTreeMap<String, EngineSpec>,
    pub habits: BTreeMap<String, Habits>,
    pub groups: Vec<Group>,
    /// Points of one pool by the replica's own rules (`mean_loop.rs`) instead of the engine's habits.
    #[serde(default)]
    pub by_rules: bool,
}

/// One deployment: a pool, or a decode pool with its prefill pool.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub chip: String,
    pub model: String,
    /// Names the engine and its habits.
    pub engine: String,
    pub precision: Precision,
    pub serving: ServingSpec,
    pub layout: Layout,
    /// Layout of a worker of the prefill pool; null = one pool does both.
    #[serde(default)]
    pub prefill: Option<Layout>,
    /// Chip and engine of the prefill pool; null = those of the decode pool. Habits are the decode pool's.
    #[serde(default)]
    pub prefill_chip: Option<String>,
    #[serde(default)]
    pub prefill_engine: Option<String>,
    /// Number formats of the prefill pool, which follow its chip; null = those of the decode pool.
    #[serde(default)]
    pub prefill_precision: Option<Precision>,
}

/// What a serving engine's scheduling and the client's view add to the steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Habits {
    /// Delay of neighbours' steps over a prompt's own time.
    pub interference: f64,
    /// Before a first token, whatever the load: client, tokenizer, scheduler.
    pub first_token_s: f64,
    /// Steps that a first token waits, and more of them with attention data parallelism, whose groups step together.
    pub first_token_steps: f64,
    pub first_token_dp_steps: f64,
    /// Time of a lone prompt over its arithmetic.
    pub lone_prompt: f64,
    /// Share of the requests that wait for a full first wave, times its mean length.
    pub burst: f64,
    /// Wait over a full generation, where the cache is the limit.
    pub cache_wait: f64,
    /// Split deployments: hand-over, in seconds and in decode steps; the burst; how much faster a pool of prompts alone
    /// runs; how far the queue's onset is rounded off, as a share of the loop.
    pub handover_s: f64,
    pub handover_steps: f64,
    pub split_burst: f64,
    pub split_prefill_gain: f64,
    pub split_spread: f64,
}

impl Habits {
    fn validate(&self) -> Result<()> {
        for (field, value) in [
            ("habits.lone_prompt", self.lone_prompt),
            ("habits.split_prefill_gain", self.split_prefill_gain),
            ("habits.cache_wait", self.cache_wait),
        ] {
            positive(field, value)?;
        }
        for (field, value) in [
            ("habits.interference", self.interference),
            ("habits.first_token_s", self.first_token_s),
            ("habits.first_token_steps", self.first_token_steps),
            ("habits.first_token_dp_steps", self.first_token_dp_steps),
            ("habits.burst", self.burst),
            ("habits.handover_s", self.handover_s),
            ("habits.handover_steps", self.handover_steps),
            ("habits.split_burst", self.split_burst),
        ] {
            not_negative(field, value)?;
        }
        fraction("habits.split_spread", self.split_spread)
    }
}

/// One load on a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyRow {
    pub group_ix: u64,
    /// Mean lengths.
    pub input_tokens: f64,
    pub output_tokens: f64,
    /// Requests in flight over the whole deployment.
    pub concurrency: f64,
    /// Workers of each pool; prefill counts only where the group has a prefill pool.
    pub prefill_workers: f64,
    pub decode_workers: f64,
}

/// What a load comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyPoint {
    pub ttft_s: f64,
    pub tpot_s: f64,
    /// Output tokens per second over the whole deployment.
    pub output_tokens_per_s: f64,
    /// Sequences decoding in a replica, and how many its cache holds.
    pub n_seqs: f64,
    pub cache_seqs: f64,
    /// Work of the prefill pool over its time; above 1 it is the limit. 0 with one pool.
    pub prefill_busy_frac: f64,
    /// Mean draw of a chip of the decoding pool.
    pub chip_w: f64,
}

impl SteadyPoint {
    const NONE: Self = Self {
        ttft_s: f64::NAN,
        tpot_s: f64::NAN,
        output_tokens_per_s: f64::NAN,
        n_seqs: f64::NAN,
        cache_seqs: f64::NAN,
        prefill_busy_frac: f64::NAN,
        chip_w: f64::NAN,
    };
}

/// The points of `rows`, and for each group why it cannot run (a row of such a group has no numbers).
pub struct Steady {
    pub points: Vec<SteadyPoint>,
    pub refusals: Vec<Option<Error>>,
}

struct Pools<'a> {
    decode: StepModel,
    prefill: Option<StepModel>,
    habits: &'a Habits,
}

/// Costs every row.
///
/// # Errors
/// The spec itself is wrong: an unknown name, a habit out of range, a row of no group or without tokens.
pub fn run(spec: &SteadySpec, rows: &[SteadyRow]) -> Result<Steady> {
    spec.habits.values().try_for_each(Habits::validate)?;
    let mut pools = Vec::with_capacity(spec.groups.len());
    let mut refusals = Vec::with_capacity(spec.groups.len());
    for group in &spec.groups {
        match group.pools(spec) {
            Ok(pool) => {
                pools.push(Some(pool));
                refusals.push(None);
            }
            Err(error @ Error::Infeasible { .. }) => {
                pools.push(None);
                refusals.push(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    let mut points = Vec::with_capacity(rows.len());
    for (i, row) in rows.iter().enumerate() {
        for (field, value) in [
            ("input_tokens", row.input_tokens),
            ("output_tokens", row.output_tokens),
            ("concurrency", row.concurrency),
            ("prefill_workers", row.prefill_workers),
            ("decode_workers", row.decode_workers),
        ] {
            positive(&format!("row {i}: {field}"), value)?;
        }
        let pool = usize::try_from(row.group_ix).ok().and_then(|at| pools.get(at));
        let Some(pool) = pool else {
            return Err(Error::input(format!("row {i}: group_ix"), format!("no group {}", row.group_ix)));
        };
        let point = |pool: &Pools<'_>| if spec.by_rules { pool.by_rules(row) } else { pool.point(row) };
        points.push(pool.as_ref().map_or(SteadyPoint::NONE, point));
    }
    Ok(Steady { points, refusals })
}

impl Group {
    fn pools<'a>(&self, spec: &'a SteadySpec) -> Result<Pools<'a>> {
        if self.serving.speculation.is_some() {
            return Err(Error::input("groups.serving.speculation", "the steady state has no drafts; simulate"));
        }
        let deployment = |chip: &str, engine: &str, precision: &Precision, layout: Layout| -> Result<StepModel> {
            StepModel::squeezed(&DeploymentSpec {
                chip: found(&spec.chips, chip, "chip")?.clone(),
                model: found(&spec.models, &self.model, "model")?.clone(),
                precision: precision.clone(),
                layout,
                engine: found(&spec.engines, engine, "engine")?.clone(),
                serving: self.serving.clone(),
            })
        };
        let prefill = |layout: Layout| {
            deployment(
                self.prefill_chip.as_ref().unwrap_or(&self.chip),
                self.prefill_engine.as_ref().unwrap_or(&self.engine),
                self.prefill_precision.as_ref().unwrap_or(&self.precision),
                layout,
            )
        };
        Ok(Pools {
            decode: deployment(&self.chip, &self.engine, &self.precision, self.layout)?,
            prefill: self.prefill.map(prefill).transpose()?,
            habits: found(&spec.habits, &self.engine, "habits")?,
        })
    }
}

fn found<'a, T>(table: &'a BTreeMap<String, T>, name: &str, what: &str) -> Result<&'a T> {
    table.get(name).ok_or_else(|| Error::input(format!("groups.{what}"), format!("'{name}' is not in the spec")))
}

impl Pools<'_> {
    fn point(&self, row: &SteadyRow) -> SteadyPoint {
        let (h, input, output) = (self.habits, row.input_tokens, row.output_tokens);
        let clients = row.concurrency;
        let a_replica = clients / row.decode_workers;
        let context = input + 0.5 * output;
        let cache_seqs = self.decode.sequences_held(input + HELD_OUTPUT * output).max(1.0);
        let prompt = self.prefill.as_ref().unwrap_or(&self.decode).prompt(input);
        let beyond = (a_replica - cache_seqs).max(0.0) / cache_seqs;
        let mut n_seqs = a_replica.min(cache_seqs);
        let (mut ttft_s, mut tpot_s, mut busy) = (0.0, 0.0, 0.0);
        for _ in 0..ROUNDS {
            let step = self.decode.decode(n_seqs, context).time_s();
            let wait = |tpot: f64| h.first_token_s + beyond * output * tpot * h.cache_wait;
            if self.prefill.is_some() {
                tpot_s = step;
                let (queue_s, alone_s);
                (queue_s, alone_s, busy) = self.prefill_queue(row, &prompt, output * step);
                ttft_s = wait(step) + h.handover_s + h.handover_steps * step + alone_s + queue_s;
            } else {
                tpot_s = step + h.interference * n_seqs / output * prompt.together_s;
                let dp_steps = if self.decode.dp() > 1 { h.first_token_dp_steps } else { 0.0 };
                ttft_s = wait(tpot_s)
                    + (h.first_token_steps + dp_steps) * tpot_s
                    + prompt.alone_s(h.lone_prompt, 1.0)
                    + h.burst * prompt.together_s * (clients - 1.0);
            }
            let life_s = output * tpot_s;
            let next = (a_replica * life_s / (life_s + ttft_s)).min(cache_seqs);
            n_seqs = (n_seqs * next).sqrt();
        }
        let chip_w = self.chip_w(n_seqs, context, &prompt, output, tpot_s);
        SteadyPoint {
            ttft_s,
            tpot_s,
            output_tokens_per_s: n_seqs / tpot_s * row.decode_workers,
            n_seqs,
            cache_seqs,
            prefill_busy_frac: busy,
            chip_w,
        }
    }

    /// The mean of the replicas' own scheduling; nothing where prompts have a pool, or the cache does not hold all.
    fn by_rules(&self, row: &SteadyRow) -> SteadyPoint {
        let cache_seqs = self.decode.sequences_held(row.input_tokens + row.output_tokens);
        let clients = row.concurrency / row.decode_workers;
        if self.prefill.is_some() || clients > cache_seqs || row.output_tokens < 2.0 {
            return SteadyPoint { cache_seqs, ..SteadyPoint::NONE };
        }
        let load = LoopLoad {
            clients: clients.round().max(1.0) as u64,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            chunk_tokens: self.decode.chunk_tokens(),
        };
        let mean = mean_loop(&self.decode, &load);
        SteadyPoint {
            ttft_s: mean.ttft_s,
            tpot_s: mean.tpot_s,
            output_tokens_per_s: mean.output_tokens_per_s * row.decode_workers,
            n_seqs: mean.n_seqs,
            cache_seqs,
            ..SteadyPoint::NONE
        }
    }

    /// Seconds in the queue of the prefill pool, of a prompt there, and the share of its time that the pool works.
    fn prefill_queue(&self, row: &SteadyRow, prompt: &PromptCost, life_s: f64) -> (f64, f64, f64) {
        let h = self.habits;
        let alone_s = prompt.alone_s(h.lone_prompt, h.split_prefill_gain);
        let every_s = (prompt.together_s / h.split_prefill_gain + prompt.base_s) / row.prefill_workers;
        let (loop_s, all_s, spread_s) = (life_s + alone_s, row.concurrency * every_s, h.split_spread * life_s);
        // max(all - loop, 0), rounded off, and 0 without clients.
        let onset = |x: f64| 0.5 * (x + x.hypot(spread_s));
        let queue_s = onset(all_s - loop_s) - onset(-loop_s);
        (queue_s + h.split_burst * all_s, alone_s, all_s / loop_s)
    }

    fn chip_w(&self, n_seqs: f64, context: f64, prompt: &PromptCost, output: f64, tpot_s: f64) -> f64 {
        let prompts = if self.prefill.is_some() { 0.0 } else { n_seqs / output };
        self.decode.drawn_w(n_seqs, context, prompts, prompt, tpot_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{deepseek_on_gb300, gpt_oss_on_gb200, llama_on_h100};
    use crate::step::Load;

    fn habits() -> Habits {
        Habits {
            interference: 1.0,
            first_token_s: 20e-3,
            first_token_steps: 3.0,
            first_token_dp_steps: 5.0,
            lone_prompt: 1.5,
            burst: 0.1,
            cache_wait: 1.0,
            handover_s: 40e-3,
            handover_steps: 4.0,
            split_burst: 0.1,
            split_prefill_gain: 1.25,
            split_spread: 0.2,
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
                let mean = model.decode(n_seqs as f64, context as f64).time_s();
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
        let tpot = step + found.n_seqs / 500.0 * prompt;
        assert!((found.tpot_s / tpot - 1.0).abs() < 1e-6);
        let ttft = 20e-3 + 3.0 * tpot + launch + 1.5 * prompt;
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
        let step = model.decode(found[0].n_seqs, 1250.0).time_s();
        assert!((found[0].tpot_s / step - 1.0).abs() < 1e-3);
        // Throughput times prompt time over the gain and its launches is at most the pool's whole time, and near it.
        let prompt = model.prompt(1000.0);
        let busy = found[1].output_tokens_per_s / 100.0 * (prompt.together_s / 1.25 + prompt.base_s);
        assert!((0.8..1.01).contains(&busy), "{busy}");
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
}
