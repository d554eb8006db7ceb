//! What one step of a replica costs: time, energy, bytes and operations, as lines in the step index.
//!
//! ```text
//! time = launch + max(memory, compute) + network
//! ```
//! With the composition fixed, context grows by one token a sequence and step, so every term is linear in the step
//! index; `max()` makes the whole piecewise linear, and `valid_steps` says how far a piece reaches.

use crate::cost::Touched;
use crate::deployment::DeploymentSpec;
use crate::error::Result;
use crate::kv::KvModel;
use crate::memory::MemoryPlan;
use crate::power::PowerModel;
use crate::speculation::{Pace, SpeculationSpec};

mod line;
mod mean;
mod narrow;
mod part;
mod stages;
mod table;
#[cfg(test)]
mod tests;

use line::{round, NEAR};
pub use line::{Line, Whole};
pub use mean::PromptCost;
use narrow::Narrow;
use part::{ChunkSums, Decoders, Part, PartLine, Work};
use stages::Stages;
pub use table::{table, Loads};

/// Femtoseconds in a second, femtojoules in a joule.
const FEMTO: f64 = 1e15;

/// One request's part of its prompt in this step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    pub tokens: u64,
    /// Tokens of the request already in the cache.
    pub past_tokens: u64,
}

/// What a step has to do.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// Decoding sequences.
    pub n_seqs: u64,
    /// Sum over them of the tokens attended, the one being processed included.
    pub context_tokens: u64,
    /// Sum of min(context, window); 0 when the model has no window.
    pub window_tokens: u64,
    /// How many of them still have context < window.
    pub n_growing_in_window: u64,
    pub chunks: &'a [Chunk],
}

/// Which side of max(memory, compute) rules a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Memory,
    Compute,
}

/// The cost of a step of the whole replica, and of the steps after it while the composition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLine<T = i128> {
    pub time_fs: Line<T>,
    pub energy_fj: Line<T>,
    pub bytes: Line<T>,
    pub flops: Line<T>,
    pub bound: Bound,
    /// Parts of the time of step 0: launch + max(memory, compute) + network.
    pub launch_fs: T,
    pub memory_fs: T,
    pub compute_fs: T,
    pub network_fs: T,
    /// Of the time, what a power cap adds.
    pub capped_fs: Line<T>,
    /// The lines hold for steps 0..`valid_steps`; `u64::MAX` if for ever.
    pub valid_steps: u64,
}

impl<T: Whole> StepLine<T> {
    /// The first step only.
    #[inline]
    pub fn first(mut self) -> Self {
        for line in [&mut self.time_fs, &mut self.energy_fj, &mut self.bytes, &mut self.flops, &mut self.capped_fs] {
            line.slope = T::default();
        }
        Self { valid_steps: 1, ..self }
    }
}

impl StepLine {
    /// The step waits `fs` for a link, drawing `parked_uw` all the while.
    pub fn wait(&mut self, fs: i128, parked_uw: u64) {
        self.time_fs.base += fs;
        self.network_fs += fs;
        self.energy_fj.base += fs * i128::from(parked_uw) / 1_000_000;
    }

    /// This step follows on `share` of another.
    fn after(&mut self, other: &Self, share: f64) {
        let part = |line: Line| Line::of(line.base as f64 * share, line.slope as f64 * share);
        let of = |fs: i128| round(fs as f64 * share);
        self.time_fs = self.time_fs.plus(part(other.time_fs));
        self.energy_fj = self.energy_fj.plus(part(other.energy_fj));
        self.bytes = self.bytes.plus(part(other.bytes));
        self.flops = self.flops.plus(part(other.flops));
        self.launch_fs += of(other.launch_fs);
        self.memory_fs += of(other.memory_fs);
        self.compute_fs += of(other.compute_fs);
        self.network_fs += of(other.network_fs);
        self.capped_fs = self.capped_fs.plus(part(other.capped_fs));
        self.valid_steps = self.valid_steps.min(other.valid_steps);
    }
}

/// The coefficients of a deployment, ready to cost steps.
#[derive(Debug, Clone)]
pub struct StepModel {
    n_chips: u64,
    unlike_layers: f64,
    /// Of the whole, in seconds.
    launch_s: f64,
    dp: u64,
    pp: u64,
    touched: Touched,
    /// All layers, of which a token passes each once.
    whole: Part,
    /// The layers by stage, where there are several.
    stages: Option<Stages>,
    power: PowerModel,
    kv: KvModel,
    plan: MemoryPlan,
    chunk_tokens: f64,
    attention_apart: bool,
    speculation: Option<SpeculationSpec>,
    narrow: Option<Narrow>,
}

/// What a step does for each decoding sequence.
#[derive(Debug, Clone, Copy)]
struct Draft {
    /// Tokens that it works on: the next one and those drafted.
    verified: f64,
    /// Tokens that it gives on average, by which contexts grow.
    kept: f64,
}

impl Draft {
    const NONE: Self = Self { verified: 1.0, kept: 1.0 };
}

impl StepModel {
    /// The coefficients of `spec`; an error if it is wrong or does not fit.
    pub fn new(spec: &DeploymentSpec) -> Result<Self> {
        spec.validate()?;
        Self::with_plan(spec, MemoryPlan::new(spec)?)
    }

    /// The same where a measured run shows that it fits: reserves give way to the cache, as long as the weights and one
    /// chunk of prompt fit.
    pub fn squeezed(spec: &DeploymentSpec) -> Result<Self> {
        spec.validate()?;
        let plan = MemoryPlan::new(spec).or_else(|_| {
            let mut tight = spec.clone();
            tight.serving.runtime_reserve_bytes = 0.0;
            tight.serving.collective_buffer_bytes = 0.0;
            tight.serving.collective_buffer_pair_bytes = None;
            tight.serving.activation_bytes = Some(0.0);
            tight.serving.max_batch = tight.serving.max_batch.min(64 * tight.layout.dp);
            MemoryPlan::new(&tight)
        })?;
        Self::with_plan(spec, plan)
    }

    fn with_plan(spec: &DeploymentSpec, plan: MemoryPlan) -> Result<Self> {
        let kv = KvModel::new(&spec.model, &spec.layout, &spec.precision, &spec.serving);
        let whole = Part::new(spec, &kv)?;
        Ok(Self {
            n_chips: spec.layout.n_chips(),
            unlike_layers: spec.model.unlike_layers() as f64,
            launch_s: whole.launch_fs as f64 / FEMTO,
            dp: spec.layout.dp,
            pp: spec.layout.pp,
            touched: Touched::new(spec),
            stages: Stages::new(spec, &whole),
            whole,
            power: PowerModel::new(spec)?,
            kv,
            plan,
            chunk_tokens: spec.serving.chunk_tokens as f64,
            attention_apart: spec.engine.attention_apart,
            speculation: spec.serving.speculation,
            narrow: None,
        })
    }

    /// The cost of the step of `load`, and of the steps that follow it.
    ///
    /// An attention group serves whole sequences and prompts: time is that of the busiest group, which has
    /// ceil(sequences / dp) of them at the mean context, and the largest chunk or its even share of all chunks.
    ///
    /// With drafts, each sequence has 1 + draft tokens verified, which attend to each other too; its keys and values are
    /// read once. Contexts grow by the mean of what is kept. Where drafting costs, it goes before, a token at a time.
    #[expect(clippy::inline_always, reason = "what is not asked for of a step is not computed")]
    #[inline(always)]
    pub fn step(&self, load: &Load) -> StepLine {
        let Some(spec) = &self.speculation else { return self.cost(load, Draft::NONE) };
        let kept = Pace::new(Some(spec)).mean();
        let mut line = self.cost(load, Draft { verified: spec.verified_tokens() as f64, kept });
        if spec.draft_cost_frac > 0.0 && load.n_seqs > 0 {
            let one = self.cost(&Load { chunks: &[], ..*load }, Draft { verified: 1.0, kept });
            line.after(&one, spec.draft_tokens as f64 * spec.draft_cost_frac);
        }
        line
    }

    /// The same in 64 bits where they are known to hold all of it (`ready`), and no drafts, stages or power cap are in it.
    #[expect(clippy::inline_always, reason = "what is not asked for of a step is not computed")]
    #[inline(always)]
    pub fn step_narrow(&self, load: &Load) -> Option<StepLine<i64>> {
        let narrow = self.narrow.as_ref()?;
        let count = narrow.count(load)?;
        let decoders = count.decoders(self, load);
        let share = count.group_share;
        if load.chunks.is_empty() {
            let none = ChunkSums::default();
            let work = self.whole.work_of::<false>(&self.kv, &decoders, share, count.touched, &none, &none);
            return Some(self.line(&decoders, share, &work));
        }
        let (all, group) = self.chunk_sums(load.chunks);
        let touched = self.touched.frac(decoders.routed.saturating_add(all.tokens as u64));
        let work = self.whole.work_of::<true>(&self.kv, &decoders, share, touched, &all, &group);
        self.is_narrow(&decoders, &work).then(|| self.line(&decoders, share, &work))
    }

    /// Ready for many steps of up to `max_batch` sequences.
    pub fn ready(mut self, max_batch: u64) -> Self {
        self.narrow = Narrow::new(&self, max_batch);
        self
    }

    #[expect(clippy::inline_always, reason = "what is not asked for of a step is not computed")]
    #[inline(always)]
    fn cost(&self, load: &Load, draft: Draft) -> StepLine {
        if let Some(stages) = &self.stages {
            return self.cost_in_stages(stages, load, draft);
        }
        let (decoders, work) = self.work(load, draft);
        self.line(&decoders, decoders.group_share(), &work)
    }

    /// What a load comes to.
    #[expect(clippy::inline_always, reason = "what is not asked for of a step is not computed")]
    #[inline(always)]
    fn work(&self, load: &Load, draft: Draft) -> (Decoders, Work) {
        let (all, group) = self.chunk_sums(load.chunks);
        let mut decoders = self.decoders(load, draft);
        if self.dp > 1 {
            decoders.group_seqs = load.n_seqs.div_ceil(self.dp) as f64;
        }
        let touched = self.touched.frac(decoders.routed.saturating_add(all.tokens as u64));
        let work = self.whole.work(&self.kv, &decoders, touched, &all, &group);
        (decoders, work)
    }

    /// What that takes.
    #[expect(clippy::inline_always, reason = "what is not asked for of a step is not computed")]
    #[inline(always)]
    fn line<T: Whole>(&self, decoders: &Decoders, group_share: f64, work: &Work) -> StepLine<T> {
        let (m, c) = (&self.whole.memory, &self.whole.compute);
        let line = self.whole.line(decoders, group_share, work, self.attention_apart);
        let bytes_slope = m.kv_bytes * decoders.pairs_slope;
        let attention_flops_slope = c.decode_pair_flops * (decoders.verified * decoders.pairs_slope);
        self.powered(line, work, bytes_slope, attention_flops_slope)
    }

    /// The decoding sequences of a load, all in one attention group.
    #[expect(clippy::inline_always, reason = "what is not asked for of a step is not computed")]
    #[inline(always)]
    fn decoders(&self, load: &Load, draft: Draft) -> Decoders {
        let (kv, n_seqs) = (&self.kv, load.n_seqs as f64);
        // Pairs of (token, token attended) over all layers; the new tokens' keys and values are written, too.
        let pairs = kv.full_layers * load.context_tokens as f64 + kv.sliding_layers * load.window_tokens as f64;
        let growing = kv.full_layers * n_seqs + kv.sliding_layers * load.n_growing_in_window as f64;
        let verified = draft.verified;
        Decoders {
            n_seqs,
            group_seqs: n_seqs,
            verified,
            routed: load.n_seqs.saturating_mul(verified as u64),
            pairs,
            query_pairs: verified * pairs + growing * (0.5 * verified * (verified - 1.0)),
            pairs_slope: growing * draft.kept,
        }
    }

    /// A line of time with what it draws: held to the power cap, energy within the sustained maximum.
    #[expect(clippy::inline_always, reason = "what is not asked for of a step is not computed")]
    #[inline(always)]
    fn powered<T: Whole>(
        &self,
        line: PartLine<T>,
        work: &Work,
        bytes_slope: f64,
        attention_flops_slope: f64,
    ) -> StepLine<T> {
        let p = &self.power;
        let work_j = work.joules(p);
        let work_slope_j = p.j_per_byte * bytes_slope + p.j_per_flop_attention * attention_flops_slope;
        let own_fs = line.time_fs;
        let (time_fs, power_steps) = self.throttle(own_fs, work_j, work_slope_j);
        let capped_fs = Line { base: time_fs.base - own_fs.base, slope: time_fs.slope - own_fs.slope };
        let (energy_fj, energy_steps) = self.energy(time_fs, work_j, work_slope_j);
        StepLine {
            time_fs,
            energy_fj,
            bytes: Line::of(work.bytes, bytes_slope),
            flops: Line::of(work.rest_flops + work.expert_flops + work.attention_flops, attention_flops_slope),
            bound: line.bound,
            launch_fs: line.launch_fs,
            memory_fs: line.memory_fs,
            compute_fs: line.compute_fs,
            network_fs: line.network_fs,
            capped_fs,
            valid_steps: line.valid_steps.min(energy_steps).min(power_steps),
        }
    }

    /// Tokens of one step: a micro-batch's for each pipeline stage.
    pub fn step_tokens(&self) -> u64 {
        (self.chunk_tokens as u64).saturating_mul(self.pp)
    }

    /// The most of a step that one prompt takes: it runs in one attention group of one micro-batch.
    pub fn prompt_chunk_tokens(&self) -> u64 {
        (self.chunk_tokens as u64).div_ceil(self.dp)
    }

    /// Layers whose attention is a latent's or recurrent.
    pub fn unlike_layers(&self) -> f64 {
        self.unlike_layers
    }

    /// Attention groups.
    pub fn dp(&self) -> u64 {
        self.dp
    }

    /// Sequences that are worked on apart from each other: those of an attention group in a micro-batch are not.
    pub fn lanes(&self) -> u64 {
        self.dp.saturating_mul(self.pp)
    }

    /// The time of a step under the power cap, and the steps that this holds for: long enough that active draw and work
    /// come to no more than the cap.
    fn throttle<T: Whole>(&self, time_fs: Line<T>, work_j: f64, work_slope_j: f64) -> (Line<T>, u64) {
        let Some(cap_w) = self.power.cap_w else { return (time_fs, u64::MAX) };
        let room_w = (cap_w - self.power.active_w) * self.n_chips as f64;
        let least = Line::of(work_j / room_w * FEMTO, work_slope_j / room_w * FEMTO);
        if time_fs.base >= least.base {
            (time_fs, time_fs.steps_above(&least))
        } else {
            (least, least.steps_above(&time_fs))
        }
    }

    /// Energy as a line, and the steps it holds for: active draw for the time plus the work done, or the sustained
    /// maximum for the time where that is less.
    #[expect(clippy::inline_always, reason = "what is not asked for of a step is not computed")]
    #[inline(always)]
    fn energy<T: Whole>(&self, time_fs: Line<T>, work_j: f64, work_slope_j: f64) -> (Line<T>, u64) {
        let n = self.n_chips as f64;
        let (base_fs, slope_fs) = (time_fs.base.float(), time_fs.slope.float());
        let active_w = self.power.active_w * n;
        let max_w = self.power.max_w * n;
        let (base_fj, slope_fj) = (active_w * base_fs + work_j * FEMTO, active_w * slope_fs + work_slope_j * FEMTO);
        let drawn = Line::of(base_fj, slope_fj);
        if base_fj + 1.0 <= max_w * base_fs && slope_fj + 1.0 <= max_w * slope_fs {
            return (drawn, u64::MAX); // below the maximum, whichever way they are rounded, and it goes away from it
        }
        let most = Line::of(max_w * base_fs, max_w * slope_fs);
        if drawn.base <= most.base {
            (drawn, most.steps_above(&drawn))
        } else {
            (most, drawn.steps_above(&most))
        }
    }

    /// Sums over the chunks: of all, and of the busiest attention group.
    #[expect(clippy::inline_always, reason = "what is not asked for of a step is not computed")]
    #[inline(always)]
    fn chunk_sums(&self, chunks: &[Chunk]) -> (ChunkSums, ChunkSums) {
        let (all, largest) = ChunkSums::of(&self.kv, chunks);
        (all, largest.or_share(&all, self.dp as f64))
    }

    /// Tokens of context that the caches of all attention groups hold.
    pub fn kv_capacity_tokens(&self) -> u64 {
        self.plan.kv_capacity_tokens
    }

    /// Blocks in the caches of all attention groups.
    pub fn kv_blocks(&self) -> u64 {
        self.plan.kv_blocks
    }

    /// Longest sequence that can be served.
    pub fn max_sequence_tokens(&self) -> u64 {
        self.plan.max_sequence_tokens
    }

    /// Blocks that a sequence of `context_tokens` occupies, those of its windows included.
    pub fn blocks_for(&self, context_tokens: u64) -> u64 {
        self.kv.blocks_for(context_tokens)
    }

    /// Bytes of a token in the full layers, one copy.
    pub fn kv_bytes_per_token(&self) -> f64 {
        self.kv.bytes_per_token()
    }

    /// The attention window; 0 when every layer attends to everything.
    pub fn window_tokens(&self) -> u64 {
        self.kv.window_tokens
    }

    /// Memory of one chip by part.
    pub fn memory(&self) -> &MemoryPlan {
        &self.plan
    }

    /// Chips of the replica.
    pub fn n_chips(&self) -> u64 {
        self.n_chips
    }

    /// Draw of the replica with no request, in microwatts, which are femtojoules a nanosecond.
    pub fn parked_uw(&self) -> u64 {
        self.power.parked_uw(self.n_chips)
    }
}
