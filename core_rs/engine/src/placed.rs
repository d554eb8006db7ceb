//! A deployment as the simulator uses it: its step model and limits, shared by all of its replicas.

use crate::blocks::Blocks;
use crate::error::{Error, Result};
use crate::leg::{Alone, Leg};
use crate::request::Request;
use crate::spec::{PlacedSpec, Preemption, Role};
use crate::speculation::Pace;
use crate::step::{Chunk, Load, StepLine, StepModel};
use crate::time::{j_from_fj, s_from_fs};

/// The largest step that a deployment may come to: beyond it a unit is wrong, and 128-bit sums could run over.
const MAX_STEP_S: f64 = 1e5;
const MAX_STEP_J: f64 = 1e12;
const FS_PER_S: f64 = 1e15;

/// What all replicas of a deployment share.
pub struct Deployment {
    pub pool: usize,
    pub model: StepModel,
    pub max_batch: u64,
    /// Tokens of one step, which pipeline stages cut into micro-batches.
    pub chunk_tokens: u64,
    /// Tokens of one micro-batch: the same, where there is one stage.
    pub batch_tokens: u64,
    /// The most of a step that one prompt takes: it runs in one attention group, and the groups share the step.
    pub prompt_chunk_tokens: u64,
    pub window_tokens: Option<u64>,
    /// Tokens of each decoding sequence that a step works on, and the clock of those it keeps.
    pub verified_tokens: u64,
    pub pace: Pace,
    /// Blocks that admission leaves free while anything runs.
    pub watermark_blocks: u64,
    pub has_cache: bool,
    /// A step is formed while the one before it runs.
    pub is_ahead: bool,
    /// Prompts are not cut into chunks.
    pub has_whole_prompts: bool,
    /// Preempted sequences go to host memory while it has room.
    pub swaps: bool,
    /// It hands prompts over, or takes them.
    pub hands_over: bool,
    /// Steps may wait for the link to host memory.
    pub has_host: bool,
    /// What a hash stands for.
    pub hash_tokens: u64,
    /// How long a block is on the link to host memory.
    pub host_block_fs: i128,
    host_blocks: u64,
    block_tokens: u64,
    pub role: Role,
    pub decode_targets: Vec<usize>,
    /// Of the whole replica: what is handed over for each token of a prompt.
    pub kv_bytes_per_token: f64,
}

impl Deployment {
    /// The `at`-th deployment of a checked spec.
    pub fn new(at: usize, placed: &PlacedSpec, hash_tokens: u64) -> Result<Self> {
        let model = StepModel::new(&placed.deployment)?.ready(placed.deployment.serving.max_batch);
        let serving = &placed.deployment.serving;
        let block_bytes = model.kv_bytes_per_token() * serving.block_tokens as f64;
        let host_block_fs = placed.host_link_bytes_per_s.map_or(0.0, |rate| block_bytes / rate * FS_PER_S);
        let deployment = Self {
            pool: placed.pool_ix,
            max_batch: serving.max_batch,
            chunk_tokens: model.step_tokens(),
            batch_tokens: serving.chunk_tokens,
            prompt_chunk_tokens: model.prompt_chunk_tokens(),
            window_tokens: Some(model.window_tokens()).filter(|&window| window > 0),
            verified_tokens: serving.speculation.map_or(1, |spec| spec.verified_tokens()),
            pace: Pace::new(serving.speculation.as_ref()),
            watermark_blocks: (placed.watermark_frac * model.kv_blocks() as f64) as u64,
            has_cache: placed.prefix_cache,
            is_ahead: placed.async_scheduling,
            has_whole_prompts: placed.whole_prompts,
            swaps: placed.preemption == Preemption::Swap,
            hands_over: placed.role != Role::Mixed || !placed.decode_targets.is_empty(),
            has_host: placed.host_kv_bytes > 0.0,
            hash_tokens,
            host_block_fs: (host_block_fs.round() as i128).max(1),
            host_blocks: (placed.host_kv_bytes / block_bytes) as u64,
            block_tokens: serving.block_tokens,
            role: placed.role,
            decode_targets: placed.decode_targets.clone(),
            kv_bytes_per_token: model.kv_bytes_per_token(),
            model,
        };
        deployment.check_largest_step(at)?;
        let (longest, most) = (deployment.model.max_sequence_tokens(), deployment.prompt_chunk_tokens);
        if placed.whole_prompts && longest > most {
            let what = format!("a sequence may have {longest} tokens, and a step takes {most} of a prompt");
            return Err(Error::input(format!("deployments[{at}].whole_prompts"), what));
        }
        Ok(deployment)
    }

    /// An empty block account of one replica.
    pub fn blocks(&self) -> Blocks {
        Blocks::new(self.model.kv_blocks(), self.block_tokens).with(self.has_cache, self.host_blocks)
    }

    /// The cost of a step.
    #[inline(never)]
    pub fn step(&self, load: &Load<'_>) -> StepLine {
        self.model.step(load)
    }

    /// Steps as `load` has them, without chunks, from `anchor_ns` on.
    #[inline(never)] // what a leg does not keep is not computed
    pub fn leg(&self, anchor_ns: u64, load: &Load<'_>, kv_tokens: u64, pace: Pace) -> Leg {
        match self.model.step_narrow(load) {
            Some(line) => Leg::of(anchor_ns, &line, None, kv_tokens, pace),
            None => Leg::new(anchor_ns, &self.step(load), None, kv_tokens, pace),
        }
    }

    /// One step as `load` has it, from `anchor_ns` on, waiting `stall_fs` for the host link first.
    #[inline(never)] // nor what the steps after it would add
    pub fn step_alone(&self, anchor_ns: u64, load: &Load<'_>, stall_fs: i128, kv_tokens: u64, pace: Pace) -> Leg {
        let is_mixed = load.n_seqs > 0 && !load.chunks.is_empty();
        if stall_fs == 0 {
            let alone = is_mixed.then(|| self.model.step_narrow(&Load { chunks: &[], ..*load }));
            if let (Some(line), None | Some(Some(_))) = (self.model.step_narrow(load), &alone) {
                let alone = alone.flatten().map(|line| Alone::of(line.time_fs.base.into(), line.energy_fj.base.into()));
                return Leg::of(anchor_ns, &line.first(), alone, kv_tokens, pace);
            }
        }
        self.wide_step_alone(anchor_ns, load, stall_fs, kv_tokens, pace)
    }

    #[cold]
    #[inline(never)]
    fn wide_step_alone(&self, anchor_ns: u64, load: &Load<'_>, stall_fs: i128, kv_tokens: u64, pace: Pace) -> Leg {
        let alone = (load.n_seqs > 0 && !load.chunks.is_empty()).then(|| {
            let line = self.model.step(&Load { chunks: &[], ..*load });
            Alone::of(line.time_fs.base, line.energy_fj.base)
        });
        let mut line = self.model.step(load).first();
        if stall_fs > 0 {
            line.wait(stall_fs, self.model.parked_uw());
        }
        Leg::new(anchor_ns, &line, alone, kv_tokens, pace)
    }

    /// Tokens that a replica holds of `request` when it is done with it: a prefill replica only its prompt.
    pub fn tokens_at_end(&self, request: &Request) -> u64 {
        match self.role {
            Role::Prefill => u64::from(request.input_tokens),
            Role::Mixed | Role::Decode => request.kv_tokens_at_end(),
        }
    }

    /// Blocks of the sliding layers that `request` takes at admission.
    pub fn window_blocks(&self, request: &Request) -> u64 {
        let tokens = self.tokens_at_end(request);
        self.model.blocks_for(tokens) - tokens.div_ceil(self.block_tokens)
    }

    /// Whole blocks of the `at`-th stretch of a prompt that a hash stands for; the last may be shorter.
    pub fn stretch_blocks(&self, at: usize, request: &Request) -> u64 {
        let begin = at as u64 * self.hash_tokens;
        (u64::from(request.input_tokens) - begin).min(self.hash_tokens) / self.block_tokens
    }

    /// A full cache, decoding, beside the longest chunk at the end of the longest prompt.
    fn check_largest_step(&self, at: usize) -> Result<()> {
        let longest = self.model.max_sequence_tokens();
        let n_seqs = self.max_batch.min(self.model.kv_blocks());
        let chunk = Chunk { tokens: self.chunk_tokens.min(longest), past_tokens: longest };
        let line = self.model.step(&Load {
            n_seqs,
            context_tokens: self.model.kv_capacity_tokens().saturating_add(n_seqs),
            window_tokens: n_seqs.saturating_mul(self.window_tokens.unwrap_or(0).min(longest)),
            n_growing_in_window: 0,
            chunks: &[chunk],
        });
        let (step_s, step_j) = (s_from_fs(line.time_fs.base), j_from_fj(line.energy_fj.base));
        if (0.0..=MAX_STEP_S).contains(&step_s) && (0.0..=MAX_STEP_J).contains(&step_j) {
            return Ok(());
        }
        let what = format!("a step of it may take {step_s:.3e} s and {step_j:.3e} J; a figure of it has a wrong unit");
        Err(Error::input(format!("deployments[{at}]"), what))
    }
}
