//! Key-value bytes of a token, and how many tokens and blocks the memory left for them holds.

use crate::layout::Layout;
use crate::model::{Attention, ModelSpec};

/// What the cache keeps, for a model under a layout: one function for capacity and for step time.
#[derive(Debug, Clone, PartialEq)]
pub struct KvModel {
    /// One layer, one token, one copy.
    pub layer_token_bytes: f64,
    pub full_layers: f64,
    pub sliding_layers: f64,
    pub window_tokens: u64,
    pub block_tokens: u64,
    /// Chips of a tensor-parallel group that hold different parts of it.
    pub shards: f64,
}

impl KvModel {
    /// The cache of `model` under `layout` at `bytes_per_element`.
    pub fn new(model: &ModelSpec, layout: &Layout, bytes_per_element: f64, block_tokens: u64) -> Self {
        let elements = match model.attention {
            Attention::Gqa { n_kv_heads, head_dim } => 2 * n_kv_heads * head_dim,
            Attention::Mla { kv_lora_rank, qk_rope_head_dim, .. } => kv_lora_rank + qk_rope_head_dim,
        };
        let (full_layers, sliding_layers) = model.full_and_sliding_layers();
        Self {
            layer_token_bytes: elements as f64 * bytes_per_element,
            full_layers,
            sliding_layers,
            window_tokens: model.sliding.as_ref().map_or(0, |s| s.window_tokens),
            block_tokens,
            shards: layout.kv_shards(model) as f64,
        }
    }

    /// Bytes of one more token of context past every window, one copy.
    pub fn bytes_per_token(&self) -> f64 {
        self.full_layers * self.layer_token_bytes
    }

    /// The same on one chip of the tensor-parallel group.
    pub fn chip_bytes_per_token(&self) -> f64 {
        self.bytes_per_token() / self.shards
    }

    /// Bytes of the whole cache of a sequence of `context_tokens`, one copy: sliding layers hold min(context, window).
    pub fn bytes_at(&self, context_tokens: u64) -> f64 {
        let windowed = context_tokens.min(self.window_tokens) as f64;
        (self.full_layers * context_tokens as f64 + self.sliding_layers * windowed) * self.layer_token_bytes
    }

    /// Blocks that a sequence of `context_tokens` occupies. A block is `block_tokens` in every full layer; what the
    /// sliding layers hold is counted in the same blocks, rounded up, so one free list serves both.
    pub fn blocks_for(&self, context_tokens: u64) -> u64 {
        let full = context_tokens.div_ceil(self.block_tokens);
        if self.sliding_layers == 0.0 {
            return full;
        }
        let windowed = context_tokens.min(self.window_tokens) as f64 * self.sliding_layers / self.full_layers;
        full + (windowed / self.block_tokens as f64).ceil() as u64
    }

    /// The longest sequence that `blocks` blocks hold.
    pub fn longest_in(&self, blocks: u64) -> u64 {
        let (mut low, mut high) = (0, blocks.saturating_mul(self.block_tokens));
        while low < high {
            let middle = high - (high - low) / 2;
            if self.blocks_for(middle) <= blocks {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }
}
