//! One serving copy: its queue, its running batch, and the jump from one change of composition to the next.
//!
//! With the same sequences decoding and no prefill chunk, steps follow one line (`step.rs`), so any number of them is
//! one stretch. The line is anchored where the composition last changed; cutting a stretch changes nothing.

mod admit;
mod ahead;
mod decode;
mod early;
mod form;
mod handover;
mod leave;
mod preempt;
mod queue;
mod share;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::blocks::Blocks;
use crate::class_meter::{ClassMeter, Limit};
use crate::gaps::LongestGaps;
use crate::meter::{end_of_step, steps_done, Clock, DeploymentMeter, Split, Stretch};
use crate::placed::Deployment;
use crate::policy::Policy;
use crate::request::{Leaving, Slab};
use crate::spec::Role;
use crate::speculation::Pace;
use crate::step::{Chunk, StepLine};
use crate::time::NEVER;
use crate::timeline::Timeline;

pub use early::Horizon;
pub use leave::Withdrawn;

use ahead::Ahead;
use decode::surplus;
use handover::Handover;
use queue::Waiting;

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
    pub policy: &'a Policy,
    pub deployment: &'a Deployment,
    pub meter: &'a mut DeploymentMeter,
    /// Requests that ended in this event, in order, with the time of their last token.
    pub ended: &'a mut Vec<(u32, u64)>,
    pub notes: &'a mut Notes,
    pub timeline: &'a mut Timeline,
    /// The number of the replica.
    pub number: u32,
    pub horizon: Horizon,
    pub next_admission: &'a mut u64,
}

/// The steps under way.
#[derive(Debug)]
struct Running {
    anchor_ns: u64,
    line: StepLine,
    /// The clock of tokens at the anchor, and the KV tokens held then.
    pace: Pace,
    kv_tokens: u64,
    /// Steps of the line that are done and counted, and where the stretch under way ends.
    done: u64,
    planned: u64,
    /// A step with prefill chunks, or one that waits for the host link: it runs alone.
    is_alone: bool,
    /// It was formed before its anchor.
    is_early: bool,
    /// What it would be without its chunks, where both chunks and decoding sequences are in it.
    decode_only: Option<Split>,
}

/// A decoding sequence that has not filled its attention window yet: the counter at which it has, and whose it is.
type Kink = Reverse<(u64, u32, u64)>;

pub struct Replica {
    waiting: Waiting,
    /// In order of admission.
    prefilling: Vec<u32>,
    /// By the decode counter at which they end.
    decoding: BinaryHeap<Reverse<(u64, u32)>>,
    /// Decoding sequences of the measured span, by class.
    n_decoding_in_span: Vec<u64>,
    /// Running requests by class; kept only where some class has a batch cap.
    n_running_of: Vec<u64>,
    /// Sequences that leave at this instant.
    ending: Vec<u32>,
    /// Sequences swapped in or handed over for the step under way: their gap is not that step.
    resumed: Vec<u32>,
    /// How long the next step waits for the host link.
    stall_fs: i128,
    ahead: Ahead,
    blocks: Blocks,
    /// Tokens that decoding sequences were given so far, each the same: one a step, without drafts.
    counter: u64,
    pace: Pace,
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
    parting: Vec<u32>,
    /// No request came during the last step with prompts.
    is_calm: bool,
}

impl Replica {
    pub fn new(deployment: &Deployment, policy: &Policy, tracks_gaps: bool) -> Self {
        let n_classes = policy.level.len();
        Self {
            waiting: Waiting::new(policy.n_levels),
            prefilling: Vec::new(),
            decoding: BinaryHeap::new(),
            n_decoding_in_span: vec![0; n_classes],
            n_running_of: vec![0; n_classes],
            ending: Vec::new(),
            resumed: Vec::new(),
            stall_fs: 0,
            ahead: Ahead::default(),
            blocks: deployment.blocks(),
            counter: 0,
            pace: deployment.pace,
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
            parting: Vec::new(),
            is_calm: true,
        }
    }

    /// No step is under way.
    pub fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Read a field in each part of this replica, so that what is far from the processor comes in one go and not part
    /// by part; changes nothing.
    pub fn touch(&self) -> u64 {
        let mut seen = self.counter ^ self.kv_tokens ^ self.stall_fs as u64 ^ self.blocks.used();
        if let Some(run) = &self.running {
            let line = &run.line;
            seen ^= run.anchor_ns ^ run.planned ^ line.valid_steps ^ u64::from(run.decode_only.is_some());
            seen ^=
                (line.time_fs.base ^ line.energy_fj.base ^ line.bytes.base ^ line.flops.base ^ line.launch_fs) as u64;
        }
        let sizes = self.handover.n_held() + self.parting.len() + self.ending.capacity() + self.chunks.capacity();
        seen ^ (sizes + self.prefilling.len() + self.n_decoding_in_span.len() + self.kinks.len()) as u64
    }

    /// The same of what this replica points to, and of the sequence that ends next.
    pub fn touch_far(&self, slab: &Slab) -> u64 {
        let mut seen = self.blocks.touch() ^ self.n_decoding_in_span.first().copied().unwrap_or(0);
        seen ^= u64::from(self.prefilling.first().copied().unwrap_or(0) ^ self.waiting.front().unwrap_or(0));
        if let Some(&Reverse((_, slot, _))) = self.kinks.peek() {
            seen ^= u64::from(slot);
        }
        if let Some(&Reverse((_, slot))) = self.decoding.peek() {
            let request = &slab[slot];
            seen ^= request.admission ^ request.arrival_ns ^ u64::from(request.input_tokens) ^ request.row;
        }
        seen
    }

    fn n_running(&self) -> u64 {
        (self.prefilling.len() + self.decoding.len() + self.handover.n_held()) as u64
    }

    /// A request arrives at `now`. Returns when this replica next needs attention: an idle one at once, but after all
    /// arrivals of the same instant, so that they share its first step.
    pub fn arrive(&mut self, slot: u32, now: u64, desk: &mut Desk<'_>) -> u64 {
        let deployment = desk.deployment;
        self.waiting.push(slot, desk.policy, desk.slab);
        if deployment.is_ahead {
            return self.arrive_ahead(slot, now, desk);
        }
        let can_join = self.waiting.front() == Some(slot)
            && self.n_running() < deployment.max_batch
            && self.decoding.len() as u64 * deployment.verified_tokens < deployment.chunk_tokens;
        match &self.running {
            Some(run) if !can_join => return end_of_step(run.anchor_ns, &run.line, run.planned),
            Some(run) => self.is_calm &= !run.is_alone,
            None => return now,
        }
        let next = self.reopen(now, desk).or_else(|| self.join_early(now, desk));
        next.unwrap_or_else(|| self.next_boundary(now))
    }

    /// The stretch under way ends at `now`, or an idle replica wakes. Returns when it next needs attention, if ever.
    pub fn wake(&mut self, now: u64, desk: &mut Desk<'_>) -> Option<u64> {
        let planned = self.running.as_ref().map(|run| run.planned);
        let has_chunks = self.count_steps(planned.unwrap_or(0), desk);
        self.look_back(desk.deployment.is_ahead);
        self.count_resumed(now, desk);
        // Before any sequence leaves: one whose window fills with its last token has grown until now.
        let mut is_changed = self.pass_kinks(desk.slab) || has_chunks || matches!(planned, None | Some(0));
        is_changed |= self.end_sequences(now, desk);
        if has_chunks {
            self.take_chunks(now, desk);
        }
        is_changed |= !self.parting.is_empty() && self.let_go(desk);
        is_changed |= self.take_over(desk);
        let next = self.form_step(now, is_changed, desk)?;
        Some(self.run_ahead(next, desk))
    }

    /// Time is up at `end_ns`: count the steps that are done by then, and the tokens that they gave.
    pub fn stop(&mut self, end_ns: u64, desk: &mut Desk<'_>) {
        if let Some(run) = &self.running {
            if !run.is_alone {
                let done = steps_done(run.anchor_ns, &run.line, run.done, run.planned, end_ns);
                self.count_steps(done, desk);
            }
        }
        self.count_generated(desk);
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
        let tokens = if n_decoding > 0 { self.pace.advance(steps) } else { 0 };
        let counter = self.counter + tokens;
        let surplus = surplus(&self.decoding, &self.blocks, self.counter, counter, desk.slab);
        let (mut fresh, mut again, mut first_tokens) = (0, 0, 0);
        for (&slot, &tokens) in self.prefilling.iter().zip(&self.chunk_tokens) {
            let request = &mut desk.slab[slot];
            let new = request.prefill(tokens);
            fresh += u64::from(new);
            again += u64::from(tokens - new);
            first_tokens += u64::from(request.prefilled == request.target);
        }
        let split = match &run.decode_only {
            _ if self.chunks.is_empty() || !run.is_alone => Split::Decode,
            Some(alone) => *alone,
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
                pace: run.pace,
                kv_tokens: run.kv_tokens,
                input_tokens: fresh,
                recomputed_tokens: again,
                first_tokens,
                surplus_tokens: surplus.tokens,
            },
        );
        for (class, &weight) in self.n_decoding_in_span.iter().enumerate() {
            if weight > 0 {
                desk.classes[class].add_gaps(desk.deployment.pool, run.line.time_fs, run.done, to, weight);
            }
        }
        if let Some(gaps) = &mut self.gaps {
            gaps.add_steps(run.line.time_fs, to, counter);
        }
        self.blocks.advance(self.counter, counter, surplus.blocks);
        self.counter = counter;
        self.kv_tokens += n_decoding * tokens;
        self.window_sum += self.n_growing * tokens;
        run.done = to;
        let is_alone = run.is_alone;
        if desk.timeline.is_kept() {
            let (begin, end) =
                (end_of_step(run.anchor_ns, &run.line, to - steps), end_of_step(run.anchor_ns, &run.line, to));
            let n_prompts = if is_alone { self.chunk_tokens.len() as u64 } else { 0 };
            desk.timeline.add(desk.number, begin, end, n_decoding, n_prompts, steps);
        }
        is_alone
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
                self.hand_over(slot, desk);
            } else if request.generated == request.output_tokens || desk.deployment.role == Role::Prefill {
                request.decode_from = self.counter;
                let held = u64::from(request.target);
                self.retire(slot, held, desk);
                finish(slot, now, desk);
            } else {
                self.start_decoding(slot, desk);
            }
        }
    }

    /// The step under way is done: sequences swapped in for it have their token, after a gap that is not a step.
    fn count_resumed(&mut self, now: u64, desk: &mut Desk<'_>) {
        while let Some(slot) = self.resumed.pop() {
            let request = &mut desk.slab[slot];
            let gap = now - request.last_token_ns;
            request.longest_gap_ns = request.longest_gap_ns.max(gap);
            if request.in_span {
                self.n_decoding_in_span[usize::from(request.class)] += 1;
                desk.classes[usize::from(request.class)].add_gap(desk.deployment.pool, gap);
            }
        }
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
