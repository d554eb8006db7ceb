//! One request's life: waiting -> prefilling -> decoding -> gone, with a way back to waiting by preemption.

use crate::time::NEVER;

/// A request that is in the system. It leaves no trace here once it is done; `meter.rs` has counted it by then.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its place in the order of arrival; the key of its random draws.
    pub row: u64,
    pub class: u16,
    /// Arrived in [warmup, length): its latencies and its attainment count.
    pub in_span: bool,
    pub arrival_ns: u64,
    pub input_tokens: u32,
    pub output_tokens: u32,
    /// Blocks of the sliding layers, taken whole at admission for the length that the sequence will reach.
    pub window_blocks: u64,
    /// Output tokens that the client has.
    pub generated: u32,
    /// Tokens to prefill: the prompt, and after a preemption what was generated too.
    pub target: u32,
    pub prefilled: u32,
    /// Prompt tokens that were computed at least once.
    pub computed: u32,
    /// When it first joined a step; `NEVER` before.
    pub start_ns: u64,
    /// When its first token came; set once. `NEVER` before.
    pub first_token_ns: u64,
    /// When its latest token came, kept up to date only where a gap can be interrupted (first token, preemption).
    pub last_token_ns: u64,
    /// Its place in the order of admission, unique in the cell: the youngest is preempted first. `u64::MAX` while it
    /// does not run, so that what was noted of an earlier stay is known to be stale.
    pub admission: u64,
    /// The replica's decode counter when it (last) began to decode.
    pub decode_from: u64,
    /// The longest gap between its tokens before `decode_from`.
    pub longest_gap_ns: u64,
}

impl Request {
    pub fn new(row: u64, class: u16, in_span: bool, arrival_ns: u64, input_tokens: u32, output_tokens: u32) -> Self {
        Self {
            row,
            class,
            in_span,
            arrival_ns,
            input_tokens,
            output_tokens,
            window_blocks: 0,
            generated: 0,
            target: input_tokens,
            prefilled: 0,
            computed: 0,
            start_ns: NEVER,
            first_token_ns: NEVER,
            last_token_ns: NEVER,
            admission: u64::MAX,
            decode_from: 0,
            longest_gap_ns: 0,
        }
    }

    /// Count `tokens` more as prefilled; returns how many of them are prompt tokens computed for the first time.
    pub fn prefill(&mut self, tokens: u32) -> u32 {
        self.prefilled += tokens;
        let reached = self.prefilled.min(self.input_tokens);
        let fresh = reached.saturating_sub(self.computed);
        self.computed += fresh;
        fresh
    }

    /// Tokens the KV cache holds when the request ends: the last token is never attended to, so it needs none.
    pub fn kv_tokens_at_end(&self) -> u64 {
        u64::from(self.input_tokens) + u64::from(self.output_tokens) - 1
    }
}

/// The requests in the system, in slots that are used again.
#[derive(Debug, Default)]
pub struct Slab {
    slots: Vec<Request>,
    free: Vec<u32>,
}

impl Slab {
    pub fn insert(&mut self, request: Request) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = request;
            return slot;
        }
        self.slots.push(request);
        (self.slots.len() - 1) as u32
    }

    pub fn remove(&mut self, slot: u32) {
        self.free.push(slot);
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Slots in use, ascending.
    pub fn live(&self) -> Vec<u32> {
        let mut is_free = vec![false; self.slots.len()];
        for &slot in &self.free {
            is_free[slot as usize] = true;
        }
        (0..self.slots.len() as u32).filter(|&slot| !is_free[slot as usize]).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Request;
    fn index(&self, slot: u32) -> &Request {
        &self.slots[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    fn index_mut(&mut self, slot: u32) -> &mut Request {
        &mut self.slots[slot as usize]
    }
}
