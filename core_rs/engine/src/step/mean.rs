//! Mean steps of closed loops: batches and lengths that are not whole, prompts by themselves, and the draw of both.

use super::{ChunkSums, Decoders, StepModel, Work, FEMTO};
use crate::speculation::{MeanSteps, Pace};

/// What a prompt takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PromptCost {
    /// Seconds of the replica, where every attention group has prompts.
    pub together_s: f64,
    /// Seconds of a prompt by itself: arithmetic and links of one group.
    pub own_s: f64,
    /// Seconds to read the weights once.
    pub read_s: f64,
    /// Launches and latencies of its steps.
    pub base_s: f64,
    /// The same of one step, the steps of a prompt by itself in its attention group, and the prompts that a step has
    /// room for.
    pub step_base_s: f64,
    pub n_steps: f64,
    pub a_step: f64,
    /// Attention groups, and what of `own_s` is the experts', which they share.
    pub groups: f64,
    pub experts_s: f64,
    /// Prompts that are in different stages at a time.
    pub in_flight: f64,
    pub(crate) work: Work,
}

impl PromptCost {
    /// Time of a lone prompt: `factor` over its arithmetic (`gain` times faster in a pool of prompts) or one reading of
    /// the weights, whichever is longer, beside its launches.
    pub fn alone_s(&self, factor: f64, gain: f64) -> f64 {
        self.base_s + factor * (self.own_s / gain).max(self.read_s)
    }
}

impl StepModel {
    /// Seconds of the mean step of `n_seqs` decoding sequences (not whole) with `context` tokens each: the busiest group
    /// has n / dp of them, and at least one.
    pub fn decode_s(&self, n_seqs: f64, context: f64) -> f64 {
        self.mean_step(n_seqs, context).0
    }

    /// The seconds of a mean step, and its amounts: the drafted tokens are verified, and were drafted before.
    fn mean_step(&self, n_seqs: f64, context: f64) -> (f64, Work) {
        let Some(drafts) = &self.speculation else { return self.mean_verified(n_seqs, context, 1.0) };
        let (step_s, work) = self.mean_verified(n_seqs, context, drafts.verified_tokens() as f64);
        let share = drafts.draft_tokens as f64 * drafts.draft_cost_frac;
        if share == 0.0 {
            return (step_s, work);
        }
        let (one_s, one) = self.mean_verified(n_seqs, context, 1.0);
        (step_s + share * one_s, work.and(&one, share))
    }

    fn mean_verified(&self, n_seqs: f64, context: f64, verified: f64) -> (f64, Work) {
        let kv = &self.kv;
        let n_seqs = n_seqs.max(1.0);
        let window = kv.window_tokens as f64;
        let attended = kv.full_layers * context + kv.sliding_layers * context.min(window);
        let growing = kv.full_layers + if context < window { kv.sliding_layers } else { 0.0 };
        let pairs = attended * n_seqs;
        let decoders = Decoders {
            n_seqs,
            group_seqs: (n_seqs / self.dp as f64).max(1.0),
            verified,
            routed: 0,
            pairs,
            query_pairs: verified * pairs + growing * n_seqs * (0.5 * verified * (verified - 1.0)),
            pairs_slope: 0.0,
        };
        if let Some(stages) = &self.stages {
            return self.mean_in_stages(stages, &decoders);
        }
        let none = ChunkSums::default();
        let work = self.whole.work(kv, &decoders, self.touched.between(n_seqs * verified), &none, &none);
        (self.whole.seconds(&decoders, &work), work)
    }

    /// The steps that give `tokens` tokens in the mean: fewer with drafts. Of the sequences that begin, a share
    /// `alone_frac` finds nobody decoding.
    pub fn steps_for(&self, tokens: f64, alone_frac: f64) -> MeanSteps {
        Pace::new(self.speculation.as_ref()).mean_steps(tokens, alone_frac)
    }

    /// Tokens of a sequence that a step works on.
    pub fn verified_tokens(&self) -> u64 {
        self.speculation.map_or(1, |drafts| drafts.verified_tokens())
    }

    /// What one prompt of `tokens` takes: alone, and its share where every group has prompts to work on.
    pub fn prompt(&self, tokens: f64) -> PromptCost {
        let (whole, dp, pp) = (&self.whole, self.dp as f64, self.pp as f64);
        let (c, m) = (&whole.compute.prefill, &whole.memory);
        let pairs = self.kv.prompt_pairs(tokens);
        let mut own_s = c.rest * tokens + c.lm_head + c.pair * pairs + whole.network.prompt_token_s * tokens;
        let experts_s = c.experts * tokens;
        let mut base_s = whole.launch_fs as f64 / FEMTO + whole.network.latency_s;
        if let Some(stages) = &self.stages {
            own_s += stages.prompt_token_s() * tokens;
            base_s += stages.latency_s();
        }
        PromptCost {
            together_s: (own_s / dp + experts_s) / pp,
            own_s: own_s + experts_s,
            read_s: whole.read_s(self.touched.between(tokens)),
            base_s: base_s * (tokens / self.chunk_tokens).ceil().max(1.0),
            step_base_s: base_s,
            n_steps: (tokens / self.prompt_chunk_tokens() as f64).ceil().max(1.0),
            a_step: self.chunk_tokens / tokens,
            groups: dp,
            experts_s,
            in_flight: pp,
            work: Work {
                bytes: m.kv_bytes * 2.0 * (self.kv.full_layers + self.kv.sliding_layers) * tokens,
                rest_flops: whole.compute.rest_flops * tokens + whole.compute.lm_head_flops,
                expert_flops: whole.compute.expert_flops * tokens,
                attention_flops: whole.compute.prefill_pair_flops * pairs,
                ..Work::default()
            },
        }
    }

    /// Mean draw of a chip that decodes `n_seqs` sequences in steps of `step_s`, each with `prompts` prompts beside it.
    pub fn drawn_w(&self, n_seqs: f64, context: f64, prompts: f64, prompt: &PromptCost, step_s: f64) -> f64 {
        let p = &self.power;
        let work_j = self.mean_step(n_seqs, context).1.joules(p) + prompts * prompt.work.joules(p);
        (p.active_w + work_j / step_s / self.n_chips as f64).min(p.max_w)
    }

    /// How many sequences of `tokens` each the caches of all attention groups hold.
    pub fn sequences_held(&self, tokens: f64) -> f64 {
        self.plan.kv_bytes * self.dp as f64 * self.kv.shards / (self.kv.bytes_held(tokens) * self.plan.layers_frac)
    }
}
