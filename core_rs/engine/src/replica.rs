//! One serving copy: its queue, its running batch, and the jump from one change of composition to the next.
//!
//! With the same sequences decoding and no prefill chunk, steps follow one line (`step.rs`), so any number of them is
//! one stretch. The line is anchored where the composition last changed; cutting a stretch changes nothing.

mod form;
mod handover;
mod leave;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::blocks::Blocks;
use crate::class_meter::{ClassMeter, Limit};
use crate::gaps::LongestGaps;
use crate::meter::{end_of_step, steps_done, Clock, DeploymentMeter, Split, Stretch};
use crate::placed::Deployment;
use crate::request::{Leaving, Slab};
use crate::spec::Role;
use crate::step::{Chunk, Line, StepLine};
use crate::time::NEVER;
use crate::timeline::Timeline;

pub use leave::Withdrawn;

use handover::Handover;

/// What a replica says of an event that concerns the cell: slots, in order.
#[derive(Debug, Default)]
pub struct Notes {
    /// Prompts done that another replica takes over.
    pub handed: Vec<u32>,
    /// Handed-over requests that were let in: their keys and values set out.
    pub moved: Vec<u32>,
    /// Requests with their first token, if anybody wants to know.
    pub first_tokens: Vec<u32>,
    pub wants_first_tokens: bool,
    /// Requests that left because their client has gone.
    pub gone: Vec<u32>,
}

/// What a replica works on and reports to, lent by the cell for one event.
pub struct Desk<'a> {
    pub slab: &'a mut Slab,
    pub clock: &'a Clock,
    pub classes: &'a mut [ClassMeter],
    pub limits: &'a [Vec<Limit>],
    pub deployment: &'a Deployment,
    pub meter: &'a mut DeploymentMeter,
    /// Requests that ended in this event, in order, with the time of their last token.
    pub ended: &'a mut Vec<(u32, u64)>,
    pub notes: &'a mut Notes,
    pub timeline: &'a mut Timeline,
    /// The number of the replica.
    pub number: u32,
    pub next_admission: &'a mut u64,
}

/// The steps under way.
#[derive(Debug)]
struct Running {
    anchor_ns: u64,
    line: StepLine,
    kv_tokens: Line,
    /// Steps of the line that are done and counted, and where the stretch under way ends.
    done: u64,
    planned: u64,
    /// A step with prefill chunks: it runs alone, and what it would be without them.
    is_mixed: bool,
    decode_only: Option<StepLine>,
}

/// A decoding sequence that has not filled its attention window yet: the counter at which it has, and whose it is.
type Kink = Reverse<(u64, u32, u64)>;

pub struct Replica {
    waiting: VecDeque<u32>,
    /// In order of admission.
    prefilling: Vec<u32>,
    /// By the decode counter at which they end.
    decoding: BinaryHeap<Reverse<(u64, u32)>>,
    /// Decoding sequences of the measured span, by class.
    n_decoding_in_span: Vec<u64>,
    blocks: Blocks,
    /// Decode steps done so far.
    counter: u64,
    /// KV tokens of the decoding sequences, and of the prompts being prefilled.
    kv_tokens: u64,
    reserved_tokens: u64,
    /// Sum of min(context, window) of the next decode step, and how many sequences still make it grow.
    window_sum: u64,
    n_growing: u64,
    kinks: BinaryHeap<Kink>,
    running: Option<Running>,
    /// Tokens of the running step's chunks, in the order of `prefilling`.
    chunk_tokens: Vec<u32>,
    chunks: Vec<Chunk>,
    gaps: Option<LongestGaps>,
    handover: Handover,
    /// Running requests whose client has gone.
    leaving: Vec<u32>,
}

impl Replica {
    pub fn new(blocks: Blocks, n_classes: usize, tracks_gaps: bool) -> Self {
        Self {
            waiting: VecDeque::new(),
            prefilling: Vec::new(),
            decoding: BinaryHeap::new(),
            n_decoding_in_span: vec![0; n_classes],
            blocks,
            counter: 0,
            kv_tokens: 0,
            reserved_tokens: 0,
            window_sum: 0,
            n_growing: 0,
            kinks: BinaryHeap::new(),
            running: None,
            chunk_tokens: Vec::new(),
            chunks: Vec::new(),
            gaps: tracks_gaps.then(LongestGaps::default),
            handover: Handover::default(),
            leaving: Vec::new(),
        }
    }

    /// KV blocks in use.
    pub fn blocks_used(&self) -> u64 {
        self.blocks.used()
    }

    /// Whether no request waits or runs here.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.handover.incoming.is_empty() && self.n_running() == 0
    }

    fn n_running(&self) -> u64 {
        (self.prefilling.len() + self.decoding.len() + self.handover.n_held()) as u64
    }

    /// A request arrives at `now`. Returns when this replica next needs attention: an idle one at once, but after all
    /// arrivals of the same instant, so that they share its first step.
    pub fn arrive(&mut self, slot: u32, now: u64, deployment: &Deployment) -> u64 {
        self.waiting.push_back(slot);
        let can_join = self.waiting.len() == 1
            && self.n_running() < deployment.max_batch
            && (self.decoding.len() as u64) < deployment.chunk_tokens;
        match &self.running {
            Some(run) if !can_join => end_of_step(run.anchor_ns, &run.line, run.planned),
            _ => self.next_boundary(now),
        }
    }

    /// The stretch under way ends at `now`, or an idle replica wakes. Returns when it next needs attention, if ever.
    pub fn wake(&mut self, now: u64, desk: &mut Desk<'_>) -> Option<u64> {
        let planned = self.running.as_ref().map(|run| run.planned);
        let has_chunks = self.count_steps(planned.unwrap_or(0), desk);
        // Before any sequence leaves: one whose window fills with its last token has grown until now.
        let mut is_changed = self.pass_kinks(desk.slab) || has_chunks || planned.is_none();
        while let Some(&Reverse((end, slot))) = self.decoding.peek() {
            if end != self.counter {
                break;
            }
            self.decoding.pop();
            self.stop_decoding(slot, desk);
            finish(slot, now, desk);
            is_changed = true;
        }
        if has_chunks {
            self.take_chunks(now, desk);
        }
        is_changed |= !self.leaving.is_empty() && self.let_go(desk);
        is_changed |= self.take_over(desk);
        self.form_step(now, is_changed, desk)
    }

    /// Time is up at `end_ns`: count the steps that are done by then, and the tokens that they gave.
    pub fn stop(&mut self, end_ns: u64, desk: &mut Desk<'_>) {
        if let Some(run) = &self.running {
            if !run.is_mixed {
                let done = steps_done(run.anchor_ns, &run.line, run.done, run.planned, end_ns);
                self.count_steps(done, desk);
            }
        }
        for Reverse((_, slot)) in &self.decoding {
            let request = &mut desk.slab[*slot];
            request.generated += (self.counter - request.decode_from) as u32;
        }
        self.running = None;
    }

    /// Count the steps of the running line up to `to`; true if it was a step with prefill chunks.
    fn count_steps(&mut self, to: u64, desk: &mut Desk<'_>) -> bool {
        let Some(run) = &mut self.running else { return false };
        let steps = to - run.done;
        if steps == 0 {
            return false;
        }
        let n_decoding = self.decoding.len() as u64;
        let (mut fresh, mut again, mut first_tokens) = (0, 0, 0);
        for (&slot, &tokens) in self.prefilling.iter().zip(&self.chunk_tokens) {
            let request = &mut desk.slab[slot];
            let new = request.prefill(tokens);
            fresh += u64::from(new);
            again += u64::from(tokens - new);
            first_tokens += u64::from(request.prefilled == request.target);
        }
        let split = match &run.decode_only {
            _ if !run.is_mixed => Split::Decode,
            Some(alone) => Split::Mixed(alone),
            None => Split::Prefill,
        };
        desk.meter.add_stretch(
            desk.clock,
            &Stretch {
                anchor_ns: run.anchor_ns,
                line: &run.line,
                split,
                from: run.done,
                to,
                n_decoding,
                kv_tokens: run.kv_tokens,
                input_tokens: fresh,
                recomputed_tokens: again,
                first_tokens,
            },
        );
        for (class, &weight) in self.n_decoding_in_span.iter().enumerate() {
            if weight > 0 {
                desk.classes[class].add_gaps(desk.deployment.pool, run.line.time_fs, run.done, to, weight);
            }
        }
        if let Some(gaps) = &mut self.gaps {
            gaps.add_steps(run.line.time_fs, run.done, to, self.counter);
        }
        self.blocks.advance(self.counter, steps);
        self.counter += steps;
        self.kv_tokens += n_decoding * steps;
        self.window_sum += self.n_growing * steps;
        run.done = to;
        let (is_mixed, anchor_ns) = (run.is_mixed, run.anchor_ns);
        if desk.timeline.is_kept() {
            let (begin, end) = (end_of_step(anchor_ns, &run.line, to - steps), end_of_step(anchor_ns, &run.line, to));
            let n_prompts = if is_mixed { self.chunk_tokens.len() as u64 } else { 0 };
            desk.timeline.add(desk.number, begin, end, n_decoding, n_prompts, steps);
        }
        if !self.handover.newcomers.is_empty() {
            let end = end_of_step(anchor_ns, &run.line, to);
            self.greet(end, desk);
        }
        is_mixed
    }

    /// The running step's chunks are done: those whose prompt is complete give a token and decode on.
    fn take_chunks(&mut self, now: u64, desk: &mut Desk<'_>) {
        let pool = desk.deployment.pool;
        let prefilling = std::mem::take(&mut self.prefilling);
        self.chunk_tokens.clear();
        for slot in prefilling {
            let request = &mut desk.slab[slot];
            if request.prefilled < request.target {
                self.prefilling.push(slot);
                continue;
            }
            self.reserved_tokens -= u64::from(request.target);
            request.generated += 1;
            if request.generated == 1 {
                if request.first_token_ns == NEVER {
                    request.first_token_ns = now;
                    if request.in_span {
                        desk.classes[usize::from(request.class)].add_first_token(pool, request);
                    }
                }
                if desk.notes.wants_first_tokens {
                    desk.notes.first_tokens.push(slot);
                }
            } else {
                let gap = now - request.last_token_ns;
                request.longest_gap_ns = request.longest_gap_ns.max(gap);
                if request.in_span {
                    desk.classes[usize::from(request.class)].add_gap(pool, gap);
                }
            }
            request.last_token_ns = now;
            let is_handed = desk.deployment.role == Role::Prefill && request.leaving == Leaving::Stays;
            if request.generated < request.output_tokens && is_handed {
                self.reserved_tokens += u64::from(request.target);
                request.source_blocks = self.blocks.blocks_of(u64::from(request.target)) + request.window_blocks;
                request.admission = u64::MAX;
                desk.notes.handed.push(slot);
            } else if request.generated == request.output_tokens || desk.deployment.role == Role::Prefill {
                self.blocks.give(self.blocks.blocks_of(u64::from(request.target)) + request.window_blocks);
                request.decode_from = self.counter;
                finish(slot, now, desk);
            } else {
                self.start_decoding(slot, desk);
            }
        }
    }

    fn start_decoding(&mut self, slot: u32, desk: &mut Desk<'_>) {
        let request = &mut desk.slab[slot];
        request.decode_from = self.counter;
        let kv = u64::from(request.target);
        self.kv_tokens += kv;
        self.blocks.start_decoding(kv, self.counter);
        let left = u64::from(request.output_tokens - request.generated);
        self.decoding.push(Reverse((self.counter + left, slot)));
        self.n_decoding_in_span[usize::from(request.class)] += u64::from(request.in_span);
        if let Some(window) = desk.deployment.window_tokens {
            self.window_sum += (kv + 1).min(window);
            if kv + 1 < window {
                self.n_growing += 1;
                self.kinks.push(Reverse((self.counter + window - kv - 1, slot, request.admission)));
            }
        }
    }

    /// Take a sequence (already off the heap) out of the decoding account, with its blocks; its tokens are updated.
    fn stop_decoding(&mut self, slot: u32, desk: &mut Desk<'_>) {
        let request = &mut desk.slab[slot];
        request.generated += (self.counter - request.decode_from) as u32;
        let kv = u64::from(request.input_tokens) + u64::from(request.generated) - 1;
        self.kv_tokens -= kv;
        self.blocks.stop_decoding(kv, self.counter);
        self.blocks.give(self.blocks.blocks_of(kv) + request.window_blocks);
        self.n_decoding_in_span[usize::from(request.class)] -= u64::from(request.in_span);
        if let Some(gaps) = &self.gaps {
            request.longest_gap_ns = request.longest_gap_ns.max(gaps.longest_after(request.decode_from));
        }
        if let Some(window) = desk.deployment.window_tokens {
            self.window_sum -= (kv + 1).min(window);
            self.n_growing -= u64::from(kv + 1 < window);
        }
        request.admission = u64::MAX; // makes its kink stale
    }

    /// Sequences whose window is full now stop growing; true if there was one.
    fn pass_kinks(&mut self, slab: &Slab) -> bool {
        let mut is_changed = false;
        while let Some(&Reverse((at, slot, admission))) = self.kinks.peek() {
            let is_stale = slab[slot].admission != admission;
            if !is_stale && at > self.counter {
                break;
            }
            self.kinks.pop();
            if !is_stale {
                self.n_growing -= 1;
                is_changed = true;
            }
        }
        is_changed
    }
}

/// `slot` has its last token.
fn finish(slot: u32, now: u64, desk: &mut Desk<'_>) {
    let request = &mut desk.slab[slot];
    request.admission = u64::MAX;
    if request.leaving != Leaving::Stays {
        desk.ended.push((slot, now));
        return;
    }
    let limits = &desk.limits[usize::from(request.class)];
    let longest = request.longest_gap_ns;
    desk.classes[usize::from(request.class)].add_completed(
        desk.clock,
        desk.deployment.pool,
        request,
        now,
        longest,
        limits,
    );
    desk.ended.push((slot, now));
}
