//! One request's life: waiting -> prefilling -> decoding -> gone, with a way back to waiting by preemption.

use crate::inbox::Asked;
use crate::prefix::NONE;
use crate::time::NEVER;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fate {
    Completed = 0,
    Rejected = 1,
    Unfinished = 2,
    /// Its client gave up before the first token.
    TimedOut = 3,
    /// Its client went away, or a request that it would have followed failed.
    Cancelled = 4,
}

/// Whether its client still waits for a request that a replica works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    Stays,
    /// It was sent again meanwhile.
    Again,
    Ends(Fate),
    /// Its slot is free.
    IsGone,
}

/// No replica.
pub const NOWHERE: u32 = u32::MAX;

/// What is so of a request or not, in one byte.
#[derive(Debug, Clone, Copy, Default)]
struct Marks(u8);

impl Marks {
    /// It arrived in [warmup, length): its latencies and its attainment count.
    const IN_SPAN: u8 = 1;
    /// Its keys and values are in host memory.
    const SWAPPED: u8 = 2;
    /// It has joined a step.
    const STARTED: u8 = 4;
    /// It was worked on before, and began anew.
    const ANEW: u8 = 8;
    /// Its client is away from where it was sent.
    const FAR: u8 = 16;

    fn has(self, mark: u8) -> bool {
        self.0 & mark > 0
    }

    fn set(&mut self, mark: u8, is_so: bool) {
        self.0 = self.0 & !mark | if is_so { mark } else { 0 };
    }
}

/// A request that is in the system. It leaves no trace here once it is done; `meter.rs` has counted it by then.
///
/// What each of its events needs is in its first cache line; what is seldom needed is behind it.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Request {
    pub arrival_ns: u64,
    /// When its first token came; set once. `NEVER` before.
    pub first_token_ns: u64,
    /// The replica's decode counter when it (last) began to decode.
    pub decode_from: u64,
    /// Its place in the order of admission, unique in the cell: the youngest is preempted first. `u64::MAX` while it
    /// does not run, so that what was noted of an earlier stay is known to be stale.
    pub admission: u64,
    pub input_tokens: u32,
    pub output_tokens: u32,
    /// Output tokens that the client has.
    pub generated: u32,
    /// Tokens to prefill: the prompt, and after a preemption what was generated too.
    pub target: u32,
    pub prefilled: u32,
    /// Tokens of the step under way that are of its prompt, or are computed again.
    pub chunk: u32,
    /// Blocks of the sliding layers, taken whole at admission for the length that the sequence will reach.
    pub window_blocks: u32,
    pub class: u16,
    marks: Marks,
    pub leaving: Leaving,
    /// Prompt tokens that were computed, or found in the cache, before it began anew.
    computed: u32,
    /// From its client to where it was sent and back: what the client waits beside what passes there.
    round_trip_ns: u32,
    /// Its place in the order of arrival; the key of its random draws.
    pub row: u64,
    /// When it first joined a step; `NEVER` before, and where nobody asks for it.
    pub start_ns: u64,
    /// When its latest token came, kept up to date only where a gap can be interrupted (preemption); `NEVER` where that is
    /// its first.
    latest_token_ns: u64,
    /// The number of this sending, unique in the cell; `u64::MAX` once its client has turned away.
    pub stamp: u64,
    pub session: Option<u64>,
    /// When it was sent to its replica.
    pub sent_ns: u64,
    /// When its replica first looked at it; kept where steps are formed ahead or rows are kept, `NEVER` elsewhere.
    pub seen_ns: u64,
    /// The longest gap between its tokens before `decode_from`.
    pub longest_gap_ns: u64,
    /// Blocks that it holds through the prefix cache; the rest of its blocks are its own.
    pub shared_blocks: u64,
    /// What it gave up when it was preempted, and how many hashes it held before it: there it may find its tokens again.
    pub own_entry: u32,
    pub own_after: u32,
    /// Prompt tokens that it found in the cache instead of computing them.
    pub cached: u32,
    /// How often it was sent before.
    pub attempt: u32,
    /// Where it was sent, and the prefill replica that still holds its prompt after it was handed over.
    pub replica: u32,
    pub source: u32,
}

impl Request {
    pub fn new(asked: &Asked, in_span: bool, arrival_ns: u64) -> Self {
        Self {
            row: asked.row,
            class: asked.class,
            marks: Marks(if in_span { Marks::IN_SPAN } else { 0 }),
            arrival_ns,
            input_tokens: asked.input_tokens,
            output_tokens: asked.output_tokens,
            window_blocks: 0,
            shared_blocks: 0,
            own_entry: NONE,
            own_after: 0,
            cached: 0,
            generated: 0,
            target: asked.input_tokens,
            prefilled: 0,
            chunk: 0,
            computed: 0,
            seen_ns: NEVER,
            start_ns: NEVER,
            first_token_ns: NEVER,
            latest_token_ns: NEVER,
            admission: u64::MAX,
            decode_from: 0,
            longest_gap_ns: 0,
            session: asked.session,
            sent_ns: arrival_ns,
            attempt: 0,
            stamp: 0,
            round_trip_ns: 0,
            replica: NOWHERE,
            source: NOWHERE,
            leaving: Leaving::Stays,
        }
    }

    /// What was asked for.
    pub fn asked(&self) -> Asked {
        Asked {
            row: self.row,
            class: self.class,
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            session: self.session,
        }
    }

    /// The same request sent anew: it begins from its prompt, but its first start and first token stay its first.
    pub fn again(&self) -> Self {
        let mut again = Self {
            computed: self.computed(),
            cached: self.cached,
            start_ns: self.start_ns,
            first_token_ns: self.first_token_ns,
            longest_gap_ns: self.longest_gap_ns,
            attempt: self.attempt + 1,
            ..Self::new(&self.asked(), self.in_span(), self.arrival_ns)
        };
        again.marks.set(Marks::STARTED, self.has_started());
        again.marks.set(Marks::ANEW, true);
        again
    }

    /// Arrived in [warmup, length): its latencies and its attainment count.
    #[inline]
    pub fn in_span(&self) -> bool {
        self.marks.has(Marks::IN_SPAN)
    }

    /// Its keys and values are in host memory.
    #[inline]
    pub fn is_swapped(&self) -> bool {
        self.marks.has(Marks::SWAPPED)
    }

    pub fn set_swapped(&mut self, is_swapped: bool) {
        self.marks.set(Marks::SWAPPED, is_swapped);
    }

    /// It has joined a step, here or where it was sent before.
    #[inline]
    pub fn has_started(&self) -> bool {
        self.marks.has(Marks::STARTED)
    }

    /// It joins a step for the first time, at `now`; `is_kept` where somebody asks for that later.
    #[inline]
    pub fn note_start(&mut self, now: u64, is_kept: bool) {
        self.marks.set(Marks::STARTED, true);
        if is_kept {
            self.start_ns = now;
        }
    }

    /// Its client is `round_trip_ns` away, there and back.
    pub fn set_round_trip_ns(&mut self, round_trip_ns: u32) {
        self.round_trip_ns = round_trip_ns;
        self.marks.set(Marks::FAR, round_trip_ns > 0);
    }

    /// What its client waits beside what passes where it was sent.
    #[inline]
    pub fn round_trip_ns(&self) -> u64 {
        if self.marks.has(Marks::FAR) {
            self.far_ns()
        } else {
            0
        }
    }

    /// Not looked at where it need not be, either: it is in another cache line.
    #[cold]
    #[inline(never)]
    fn far_ns(&self) -> u64 {
        u64::from(self.round_trip_ns)
    }

    /// When the token came after which a gap is counted by itself.
    pub fn last_token_ns(&self) -> u64 {
        if self.latest_token_ns == NEVER {
            self.first_token_ns
        } else {
            self.latest_token_ns
        }
    }

    /// A token that is not one of a run of steps came at `now`.
    #[inline]
    pub fn note_token(&mut self, now: u64) {
        if now != self.first_token_ns || self.marks.has(Marks::ANEW) {
            self.latest_token_ns = now;
        }
    }

    /// From its arrival to `t_ns`, as its client sees it.
    pub fn waited_ns(&self, t_ns: u64) -> u64 {
        t_ns - self.arrival_ns + self.round_trip_ns()
    }

    /// Prompt tokens that were computed, or found in the cache, at least once.
    #[inline]
    fn computed(&self) -> u32 {
        let now = self.prefilled.min(self.input_tokens);
        if self.marks.has(Marks::ANEW) {
            self.computed_before(now)
        } else {
            now
        }
    }

    #[cold]
    #[inline(never)]
    fn computed_before(&self, now: u32) -> u32 {
        now.max(self.computed)
    }

    /// What it prefilled is lost.
    pub fn lose_prefilled(&mut self) {
        self.computed = self.computed();
        self.marks.set(Marks::ANEW, true);
        self.prefilled = 0;
    }

    /// Count `tokens` more as prefilled; returns how many of them are prompt tokens computed for the first time.
    #[inline]
    pub fn prefill(&mut self, tokens: u32) -> u32 {
        let before = self.computed();
        self.prefilled += tokens;
        self.computed() - before
    }

    /// Count its first tokens up to `reused` as found; returns how many of them are prompt tokens not seen before.
    pub fn reuse(&mut self, reused: u64) -> u64 {
        let fresh = self.prefill(reused as u32);
        self.cached += fresh;
        u64::from(fresh)
    }

    /// Count `gained` tokens of steps as generated, as far as it asked for them; returns how many are beyond that.
    pub fn take_tokens(&mut self, gained: u64) -> u64 {
        let kept = gained.min(u64::from(self.output_tokens - self.generated));
        self.generated += kept as u32;
        gained - kept
    }

    /// Tokens that it holds while it decodes, its replica's decode counter standing at `counter`.
    pub fn kv_tokens_at(&self, counter: u64) -> u64 {
        u64::from(self.input_tokens) + u64::from(self.generated) - 1 + (counter - self.decode_from)
    }

    /// Tokens the KV cache holds when the request ends: the last token is never attended to, so it needs none.
    pub fn kv_tokens_at_end(&self) -> u64 {
        u64::from(self.input_tokens) + u64::from(self.output_tokens) - 1
    }
}
