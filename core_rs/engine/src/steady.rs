//! A benchmark-like point without simulation: a closed loop at fixed concurrency, from the steps it is made of.
//!
//! Every client sends its next request when the last one ends; all start at once, and about ten waves follow. With `N`
//! sequences decoding in a replica (a mean, so not whole), prompts of `I` tokens and outputs of `O`, a sequence that
//! decodes sees itself and the others' mean, `B`, and no prompt of its own among theirs:
//!
//! ```text
//! tpot  = decode(B, I + O/2) + interference x ((B - 1) / O) x prompt_together    one pool does both
//!       = decode(B, I + O/2)                                                     decode pool
//! N     = min(concurrency x O tpot / (O tpot + ttft), sequences that the cache holds)        (Little's law)
//! B     = 1 + N (concurrency - 1) / concurrency, or what the cache holds
//! ttft  = first_token_s + first_token_launches x launches + first_token_steps x tpot + prompt_alone
//!       + burst x prompt_together x (concurrency - 1)                            the first wave, over ten waves
//!       + wait for the cache                                                     where concurrency exceeds it
//! ```
//! With drafts a step gives a sequence `a` tokens in the mean (`Pace::mean_steps` over the output): tpot is the step over
//! a, (B - 1) a / O prompts join it, and what waits for steps waits for whole ones.
//!
//! A server that holds prompts back for some steps adds them. Clients in step (`SteadyRow::in_step`) wait for half of all
//! prompts, and have the other half in their outputs: `burst` and `interference` are a half each.
//!
//! A split deployment has its pool of prompts in place of those terms (`prompts.rs`). The fixed point is found by damped
//! repetition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chip::{not_negative, positive, ChipSpec};
use crate::deployment::{DeploymentSpec, EngineSpec, Precision, ServingSpec};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::mean_loop::{alone_frac, mean_loop, LoopLoad};
use crate::model::ModelSpec;
use crate::step::{PromptCost, StepModel};

mod prompts;

use prompts::PromptPool;

/// Repetitions of the fixed point at most, and how far apart two are that settle it.
const MOST_ROUNDS: usize = 60;
const SETTLED: f64 = 1e-6;
/// Clients in step wait for this share of all prompts, and have as much in their outputs.
const IN_STEP: f64 = 0.5;
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
    /// Launches and latencies of a step, so many times more: prompts run without the recorded launches of decoding.
    #[serde(default)]
    pub first_token_launches: f64,
    /// More for each layer whose attention is a latent's or recurrent: prompts have kernels there that decoding has not.
    #[serde(default)]
    pub first_token_unlike_s: f64,
    /// Steps that a first token waits, and more of them with attention data parallelism, whose groups step together.
    pub first_token_steps: f64,
    pub first_token_dp_steps: f64,
    /// Time of a lone prompt over its arithmetic.
    pub lone_prompt: f64,
    /// Share of the requests that wait for a full first wave, times its mean length.
    pub burst: f64,
    /// Wait over a full generation, where the cache is the limit.
    pub cache_wait: f64,
    /// Split deployments: hand-over, in seconds and in decode steps; share of the requests in the first wave; how much
    /// faster a pool of prompts alone runs.
    pub handover_s: f64,
    pub handover_steps: f64,
    pub split_burst: f64,
    pub split_prefill_gain: f64,
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
            ("habits.first_token_launches", self.first_token_launches),
            ("habits.first_token_unlike_s", self.first_token_unlike_s),
            ("habits.first_token_steps", self.first_token_steps),
            ("habits.first_token_dp_steps", self.first_token_dp_steps),
            ("habits.burst", self.burst),
            ("habits.handover_s", self.handover_s),
            ("habits.handover_steps", self.handover_steps),
            ("habits.split_burst", self.split_burst),
        ] {
            not_negative(field, value)?;
        }
        Ok(())
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
    /// Steps for which the server holds a prompt back before it looks at it.
    pub held_steps: f64,
    /// 1 where prompts are worked on before decoding goes on and all lengths are alike, so that clients stay in step:
    /// each waits for half of all prompts, and has the other half in its output. 0 where they do not.
    pub in_step: f64,
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
    /// Of the pool that works on prompts: launches and latencies of a step, and layers with latent or recurrent attention.
    pub launch_s: f64,
    pub unlike_layers: f64,
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
        launch_s: f64::NAN,
        unlike_layers: f64::NAN,
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
        not_negative(&format!("row {i}: held_steps"), row.held_steps)?;
        if !(0.0..=1.0).contains(&row.in_step) {
            return Err(Error::input(format!("row {i}: in_step"), format!("must be from 0 to 1, got {}", row.in_step)));
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
        // Tokens that a step gives a sequence in the mean: 1 without drafts.
        let rest = (output - 1.0).max(1.0);
        // A lone client's prompt comes when nothing runs that it could be held back for.
        let held_steps = if a_replica > 1.0 { row.held_steps } else { 0.0 };
        let [interference, burst] = [h.interference, h.burst].map(|apart| apart + row.in_step * (IN_STEP - apart));
        // A sequence that decodes sees itself, and of the other clients as many as decode in the mean.
        let others_frac = 1.0 - 1.0 / a_replica.max(1.0);
        let mut n_seqs = a_replica.min(cache_seqs);
        let (mut ttft_s, mut tpot_s, mut busy) = (0.0, 0.0, 0.0);
        let (mut per_step, mut a_token) = (1.0, 1.0);
        for _ in 0..MOST_ROUNDS {
            let seen = (1.0 + n_seqs * others_frac).min(cache_seqs);
            let steps = self.decode.steps_for(rest, alone_frac(n_seqs, a_replica));
            (per_step, a_token) = (rest / steps.steps, steps.a_token);
            let step = self.decode.decode_s(seen, context);
            let wait = |tpot: f64| h.first_token_s + beyond * output * tpot * h.cache_wait;
            if self.prefill.is_some() {
                tpot_s = step / per_step;
                let pool =
                    PromptPool { habits: h, prompt: &prompt, workers: row.prefill_workers, clients: row.concurrency };
                let prompted = pool.prompted(output * tpot_s);
                busy = prompted.busy_frac;
                ttft_s = wait(tpot_s) + h.handover_s + h.handover_steps * step + prompted.ttft_s;
            } else {
                let mixed_s = step + interference * ((seen - 1.0) * per_step) / output * prompt.together_s;
                tpot_s = mixed_s / per_step;
                let dp_steps = if self.decode.dp() > 1 { h.first_token_dp_steps } else { 0.0 };
                ttft_s = wait(tpot_s)
                    + h.first_token_launches * prompt.step_base_s
                    + h.first_token_unlike_s * self.decode.unlike_layers()
                    + (h.first_token_steps + dp_steps + held_steps) * mixed_s
                    + prompt.alone_s(h.lone_prompt, 1.0)
                    + burst * prompt.together_s * (clients - 1.0);
            }
            let life_s = output * tpot_s;
            let next = (a_replica * life_s / (life_s + ttft_s)).min(cache_seqs);
            if (next / n_seqs - 1.0).abs() < SETTLED {
                break;
            }
            n_seqs = (n_seqs * next).sqrt();
        }
        let chip_w = self.chip_w(n_seqs, context, &prompt, output / per_step, tpot_s * per_step);
        SteadyPoint {
            ttft_s,
            // The mean of what requests take a token, not of all their time over all their tokens: alike without drafts.
            tpot_s: tpot_s * per_step * a_token,
            output_tokens_per_s: n_seqs / tpot_s * row.decode_workers,
            n_seqs,
            cache_seqs,
            prefill_busy_frac: busy,
            chip_w,
            launch_s: prompt.step_base_s,
            unlike_layers: self.decode.unlike_layers(),
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
            chunk_tokens: self.decode.step_tokens(),
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

    /// Draw of a chip where an output takes `steps` steps of `step_s`.
    fn chip_w(&self, n_seqs: f64, context: f64, prompt: &PromptCost, steps: f64, step_s: f64) -> f64 {
        let prompts = if self.prefill.is_some() { 0.0 } else { n_seqs / steps };
        self.decode.drawn_w(n_seqs, context, prompts, prompt, step_s)
    }
}

#[cfg(test)]
mod tests;
