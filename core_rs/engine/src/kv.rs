//! Key-value bytes: what a token leaves in the cache, and what a step reads and writes of it.

use crate::deployment::{Precision, ServingSpec};
use crate::layout::Layout;
use crate::model::{Attention, ModelSpec};

/// What the cache keeps, for a model under a layout: one place for capacity and for step time.
#[derive(Debug, Clone, PartialEq)]
pub struct KvModel {
    /// One layer, one token, one copy.
    pub layer_token_bytes: f64,
    pub full_layers: f64,
    pub sliding_layers: f64,
    /// 0 when the model has no window.
    pub window_tokens: u64,
    /// Chips of a tensor-parallel group that hold different parts of a token.
    pub shards: f64,
    pub block_tokens: u64,
}

impl KvModel {
    /// The cache of `model` under `layout`.
    pub fn new(model: &ModelSpec, layout: &Layout, precision: &Precision, serving: &ServingSpec) -> Self {
        let elements = match model.attention {
            Attention::Gqa { n_kv_heads, head_dim } => 2 * n_kv_heads * head_dim,
            Attention::Mla { kv_lora_rank, qk_rope_head_dim, .. } => kv_lora_rank + qk_rope_head_dim,
        };
        let (full_layers, sliding_layers) = model.full_and_sliding_layers();
        Self {
            layer_token_bytes: elements as f64 * precision.kv_bytes_per_element,
            full_layers,
            sliding_layers,
            window_tokens: model.sliding.as_ref().map_or(0, |s| s.window_tokens),
            shards: layout.kv_shards(model) as f64,
            block_tokens: serving.block_tokens,
        }
    }

    /// Bytes of one more token of context past every window, one copy.
    pub fn bytes_per_token(&self) -> f64 {
        self.full_layers * self.layer_token_bytes
    }

    /// Bytes of the whole cache of a sequence of `context_tokens`, one copy: sliding layers hold min(context, window).
    pub fn bytes_at(&self, context_tokens: u64) -> f64 {
        let windowed = context_tokens.min(self.window_tokens) as f64;
        (self.full_layers * context_tokens as f64 + self.sliding_layers * windowed) * self.layer_token_bytes
    }

    /// Blocks that a sequence of `context_tokens` occupies. A block is `block_tokens` tokens in every full layer; what
    /// the sliding layers hold is counted in the same blocks, rounded up, so that one free list serves both.
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

    /// Pairs of (new token, token attended) of a prompt chunk, summed over the layers.
    pub fn chunk_pairs(&self, tokens: u64, past_tokens: u64) -> f64 {
        let (tokens, past) = (tokens as f64, past_tokens as f64);
        let full = tokens * (past + 0.5 * (tokens + 1.0));
        if self.sliding_layers == 0.0 {
            return self.full_layers * full;
        }
        let windowed = self.window_pairs(past + tokens) - self.window_pairs(past);
        self.full_layers * full + self.sliding_layers * windowed
    }

    /// The same of a whole prompt whose length is a mean, so not whole.
    pub fn prompt_pairs(&self, tokens: f64) -> f64 {
        self.full_layers * 0.5 * tokens * (tokens + 1.0) + self.sliding_layers * self.window_pairs(tokens)
    }

    /// Bytes of the cache of a sequence whose length is a mean, one copy.
    pub fn bytes_held(&self, tokens: f64) -> f64 {
        let windowed = tokens.min(self.window_tokens as f64);
        (self.full_layers * tokens + self.sliding_layers * windowed) * self.layer_token_bytes
    }

    /// Tokens written and read for a prompt chunk, summed over the layers: every new token is written once, and every
    /// token that one of them attends to is read once.
    pub fn chunk_moves(&self, tokens: u64, past_tokens: u64) -> f64 {
        let (tokens, past) = (tokens as f64, past_tokens as f64);
        let attended = (past + tokens).min(self.window_tokens as f64 + tokens - 1.0);
        self.full_layers * (past + 2.0 * tokens) + self.sliding_layers * (attended + tokens)
    }

    /// Sum over positions 1..=`tokens` of min(position, window).
    fn window_pairs(&self, tokens: f64) -> f64 {
        let window = self.window_tokens as f64;
        let inside = tokens.min(window);
        0.5 * inside * (inside + 1.0) + (tokens - inside) * window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_sums_agree_with_counting_each_token() {
        let kv = KvModel {
            layer_token_bytes: 2.0,
            full_layers: 3.0,
            sliding_layers: 5.0,
            window_tokens: 8,
            shards: 1.0,
            block_tokens: 16,
        };
        for (tokens, past) in
            [(1_u64, 0_u64), (4, 0), (8, 0), (9, 0), (20, 0), (1, 7), (1, 8), (3, 6), (5, 30), (1, 200)]
        {
            let (mut full, mut windowed) = (0, 0);
            let mut first_attended = u64::MAX;
            for position in (past + 1)..=(past + tokens) {
                full += position;
                windowed += position.min(8);
                first_attended = first_attended.min(position.saturating_sub(8) + 1);
            }
            let pairs = 3 * full + 5 * windowed;
            assert_eq!(kv.chunk_pairs(tokens, past), pairs as f64, "{tokens} after {past}");
            let moves = 3 * (tokens + past + tokens) + 5 * (tokens + past + tokens + 1 - first_attended);
            assert_eq!(kv.chunk_moves(tokens, past), moves as f64, "{tokens} after {past}");
        }
    }

    #[test]
    fn a_chunked_prompt_attends_as_much_as_a_whole_one() {
        let kv = KvModel {
            layer_token_bytes: 2.0,
            full_layers: 1.0,
            sliding_layers: 1.0,
            window_tokens: 100,
            shards: 1.0,
            block_tokens: 16,
        };
        let whole = kv.chunk_pairs(1000, 0);
        let parts: f64 = (0..10).map(|i| kv.chunk_pairs(100, 100 * i)).sum();
        assert_eq!(whole, parts);
    }

    #[test]
    fn windows_take_blocks_too() {
        // Five sliding layers beside three full ones: 100 tokens in each are 500 / 3 tokens of the full ones.
        let kv = KvModel {
            layer_token_bytes: 2.0,
            full_layers: 3.0,
            sliding_layers: 5.0,
            window_tokens: 100,
            shards: 1.0,
            block_tokens: 16,
        };
        assert_eq!(kv.blocks_for(0), 0);
        assert_eq!(kv.blocks_for(1), 1 + 1);
        assert_eq!(kv.blocks_for(100), 7 + 11);
        assert_eq!(kv.blocks_for(1600), 100 + 11);
        assert_eq!(kv.longest_in(111), 1600);
        assert_eq!(kv.longest_in(110), 1584);
        assert_eq!(kv.longest_in(0), 0);
        // Blocks never hold less than the bytes.
        for tokens in 0..500 {
            assert!(kv.blocks_for(tokens) as f64 * 16.0 * 6.0 >= kv.bytes_at(tokens), "{tokens}");
        }
    }
}
