//! Mean steps of closed loops: batches and lengths that are not whole, prompts by themselves, and the draw of both.

use super::{ChunkSums, Decoders, StepModel, Work, FEMTO};

/// Parts of a decode step, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodeCost {
    pub launch_s: f64,
    pub memory_s: f64,
    pub compute_s: f64,
    pub network_s: f64,
}

impl DecodeCost {
    /// The whole of it.
    pub fn time_s(&self) -> f64 {
        self.launch_s + self.memory_s.max(self.compute_s) + self.network_s
    }
}

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
    /// The mean step of `n_seqs` decoding sequences (not whole) with `context` tokens each: the busiest group has
    /// n / dp of them, and at least one.
    pub fn decode(&self, n_seqs: f64, context: f64) -> DecodeCost {
        let work = self.decode_work(n_seqs, context);
        let group_seqs = (n_seqs / self.dp as f64).max(1.0);
        DecodeCost {
            launch_s: self.launch_fs as f64 / FEMTO + self.host_sequence_s * group_seqs,
            memory_s: work.memory_s,
            compute_s: work.compute_s,
            network_s: work.network_s,
        }
    }

    fn decode_work(&self, n_seqs: f64, context: f64) -> Work {
        let kv = &self.kv;
        let n_seqs = n_seqs.max(1.0);
        let group_seqs = (n_seqs / self.dp as f64).max(1.0);
        let attended = kv.full_layers * context + kv.sliding_layers * context.min(kv.window_tokens as f64);
        let none = ChunkSums::default();
        let pairs = attended * n_seqs;
        let decoders = Decoders { n_seqs, group_seqs, verified: 1.0, pairs, query_pairs: pairs };
        self.work(&decoders, self.touched.between(n_seqs), &none, &none)
    }

    /// What one prompt of `tokens` takes: alone, and its share where every group has prompts to work on.
    pub fn prompt(&self, tokens: f64) -> PromptCost {
        let (c, m, dp) = (&self.compute.prefill, &self.memory, self.dp as f64);
        let pairs = self.kv.prompt_pairs(tokens);
        let own_s = c.rest * tokens + c.lm_head + c.pair * pairs + self.network.prompt_token_s * tokens;
        let experts_s = c.experts * tokens;
        let touched = self.touched.between(tokens);
        let base_s = self.launch_fs as f64 / FEMTO + self.network.latency_s;
        PromptCost {
            together_s: own_s / dp + experts_s,
            own_s: own_s + experts_s,
            read_s: m.rest_s + m.expert_s * (touched * self.skew).min(1.0),
            base_s: base_s * (tokens / self.chunk_tokens).ceil().max(1.0),
            work: Work {
                bytes: m.kv_bytes * 2.0 * (self.kv.full_layers + self.kv.sliding_layers) * tokens,
                rest_flops: self.compute.rest_flops * tokens + self.compute.lm_head_flops,
                expert_flops: self.compute.expert_flops * tokens,
                attention_flops: self.compute.prefill_pair_flops * pairs,
                ..Work::default()
            },
        }
    }

    /// Mean draw of a chip that decodes `n_seqs` sequences in steps of `step_s`, each with `prompts` prompts beside it.
    pub fn drawn_w(&self, n_seqs: f64, context: f64, prompts: f64, prompt: &PromptCost, step_s: f64) -> f64 {
        let p = &self.power;
        let work_j = self.decode_work(n_seqs, context).joules(p) + prompts * prompt.work.joules(p);
        (p.active_w + work_j / step_s / self.n_chips as f64).min(p.max_w)
    }

    /// How many sequences of `tokens` each the caches of all attention groups hold.
    pub fn sequences_held(&self, tokens: f64) -> f64 {
        self.plan.kv_bytes * self.dp as f64 * self.kv.shards / self.kv.bytes_held(tokens)
    }
}
