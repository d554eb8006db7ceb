//! One serving copy: its queue, its running batch, and the jump from one change of composition to the next.
//!
//! With the same sequences decoding and no prefill chunk, steps follow one line (`step.rs`), so any number of them is
//! one stretch. The line is anchored where the composition last changed; cutting a stretch changes nothing.

mod admit;
mod ahead;
mod decode;
mod early;
mod ends;
mod form;
mod handover;
mod kinks;
mod leave;
mod preempt;
mod queue;
mod share;

use crate::blocks::Blocks;
use crate::class_meter::{ClassMeter, Limit};
use crate::few::Few;
use crate::gaps::LongestGaps;
use crate::leg::Leg;
use crate::meter::{Clock, DeploymentMeter, Stretch};
use crate::near;
use crate::placed::Deployment;
use crate::policy::Policy;
use crate::request::Leaving;
use crate::slab::Slab;
use crate::spec::Role;
use crate::speculation::Pace;
use crate::step::Chunk;
use crate::time::NEVER;
use crate::timeline::Timeline;

pub use early::Horizon;
pub use leave::Withdrawn;

use ahead::Ahead;
use decode::surplus;
use ends::Ends;
use handover::Handover;
use kinks::Kinks;
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
    /// Chunks of the step that is being formed.
    pub chunks: &'a mut Vec<Chunk>,
    /// Room for the sequences that leave at an instant.
    pub ending: &'a mut Vec<u32>,
}

/// Cache lines of a replica, and those that an arrival needs.
const LINES: usize = size_of::<Replica>().div_ceil(near::LINE_BYTES);
const ARRIVAL_LINES: usize = 4;
const _: () = assert!(LINES == 8, "what each event needs of a replica stands in eight cache lines");

/// Ends of which the requests are asked for ahead.
const ENDS_AHEAD: usize = 3;

/// What each event needs stands in a few cache lines, and what an arrival needs in the first of them: with thousands of
/// replicas none of them is near the processor when its turn comes.
#[repr(C, align(64))]
pub struct Replica {
    /// Tokens that decoding sequences were given so far, each the same: one a step, without drafts.
    counter: u64,
    waiting: Waiting,
    /// In order of admission.
    prefilling: Few,
    /// The decode counter at which decoding sequences end.
    decoding: Ends,
    /// How many sequences still make `window_sum` grow.
    n_growing: u32,
    /// No request came during the last step with prompts.
    is_calm: bool,
    /// The steps under way.
    running: Option<Leg>,
    /// KV tokens of the decoding sequences, and of the prompts being prefilled.
    kv_tokens: u64,
    reserved_tokens: u64,
    /// Sum of min(context, window) of the next decode step.
    window_sum: u64,
    blocks: Blocks,
    /// Decoding sequences of the measured span, by class.
    n_decoding_in_span: ByClass,
    pace: Pace,
    kinks: Kinks,
    seldom: Box<Seldom>,
}

/// What only some deployments and classes have: looked at only where they do.
#[derive(Default)]
struct Seldom {
    /// How long the next step waits for the host link.
    stall_fs: i128,
    /// Sequences swapped in or handed over for the step under way: their gap is not that step.
    resumed: Few,
    /// Running requests whose client has gone.
    parting: Few,
    gaps: LongestGaps,
    ahead: Ahead,
    handover: Handover,
    /// Running requests by class; kept only where some class has a batch cap.
    n_running_of: Vec<u64>,
}

impl Replica {
    pub fn new(deployment: &Deployment, policy: &Policy) -> Self {
        let n_classes = policy.level.len();
        Self {
            running: None,
            counter: 0,
            kv_tokens: 0,
            reserved_tokens: 0,
            window_sum: 0,
            n_growing: 0,
            is_calm: true,
            decoding: Ends::default(),
            waiting: Waiting::new(policy.n_levels),
            prefilling: Few::default(),
            n_decoding_in_span: ByClass::new(n_classes),
            pace: deployment.pace,
            kinks: Kinks::default(),
            blocks: deployment.blocks(),
            seldom: Box::new(Seldom {
                n_running_of: if policy.has_caps { vec![0; n_classes] } else { Vec::new() },
                ..Seldom::default()
            }),
        }
    }

    /// No step is under way.
    pub fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Ask for the memory of all that an event needs of this replica.
    pub fn fetch(&self) {
        near::fetch_lines(&self.counter, LINES);
    }

    /// For what an arrival needs.
    pub fn fetch_for_arrival(&self) {
        near::fetch_lines(&self.counter, ARRIVAL_LINES);
    }

    /// Of its ends, too.
    pub fn fetch_ends(&self) {
        self.decoding.fetch();
    }

    /// And of the requests that its next event is about.
    pub fn fetch_requests(&self, slab: &Slab) {
        for slot in self.decoding.next(ENDS_AHEAD).chain(self.prefilling.here()).chain(self.waiting.here()) {
            slab.fetch(slot);
        }
    }

    fn n_running(&self, deployment: &Deployment) -> u64 {
        let n_held = if deployment.hands_over { self.seldom.handover.n_held() } else { 0 };
        (self.prefilling.len() + self.decoding.len() + n_held) as u64
    }

    /// Some sequences have a first gap in the step under way that is not that step.
    fn has_resumed(&self, deployment: &Deployment) -> bool {
        (deployment.has_host || deployment.hands_over) && !self.seldom.resumed.is_empty()
    }

    /// A request arrives at `now`. Returns when this replica next needs attention: an idle one at once, but after all
    /// arrivals of the same instant, so that they share its first step.
    pub fn arrive(&mut self, slot: u32, now: u64, desk: &mut Desk<'_>) -> u64 {
        let deployment = desk.deployment;
        self.waiting.push(slot, desk.policy, desk.slab);
        if deployment.is_ahead {
            return self.arrive_ahead(slot, now, desk);
        }
        if desk.policy.notes_looks {
            desk.slab[slot].seen_ns = self.next_look(now, desk);
        }
        let can_join = self.waiting.front() == Some(slot)
            && self.n_running(deployment) < deployment.max_batch
            && self.decoding.len() as u64 * deployment.verified_tokens < deployment.chunk_tokens;
        match &self.running {
            Some(run) if !can_join => return run.end(),
            Some(run) => self.is_calm &= !run.is_alone,
            None => return now,
        }
        let next = self.reopen(now, desk).or_else(|| self.join_early(now, desk));
        next.unwrap_or_else(|| self.next_boundary(now))
    }

    /// The stretch under way ends at `now`, or an idle replica wakes. Returns when it next needs attention, if ever.
    pub fn wake(&mut self, now: u64, desk: &mut Desk<'_>) -> Option<u64> {
        let planned = self.running.as_ref().map(|run| run.planned);
        let has_chunks = self.count_steps(planned.unwrap_or(0), now, desk);
        self.look_back(desk.deployment.is_ahead);
        if self.has_resumed(desk.deployment) {
            self.count_resumed(now, desk);
        }
        // Before any sequence leaves: one whose window fills with its last token has grown until now.
        let mut is_changed = self.pass_kinks(desk.slab) || has_chunks || matches!(planned, None | Some(0));
        is_changed |= self.end_sequences(now, desk);
        if has_chunks {
            self.take_chunks(now, desk);
        }
        is_changed |= desk.policy.has_leavers && self.let_go(desk);
        is_changed |= desk.deployment.hands_over && self.take_over(desk);
        let next = self.form_step(now, is_changed, desk)?;
        Some(self.run_ahead(next, desk))
    }

    /// Time is up at `end_ns`: count the steps that are done by then, and the tokens that they gave.
    pub fn stop(&mut self, end_ns: u64, desk: &mut Desk<'_>) {
        if let Some(run) = &self.running {
            if !run.is_alone {
                let done = run.steps_done(run.done, run.planned, end_ns);
                let done_ns = run.end_of(done);
                self.count_steps(done, done_ns, desk);
            }
        }
        self.count_generated(desk);
        self.running = None;
    }

    /// Count the steps of the running line up to `to`, which ends at `end_ns`; true if it was a step with prefill chunks.
    fn count_steps(&mut self, to: u64, end_ns: u64, desk: &mut Desk<'_>) -> bool {
        let Some(run) = &mut self.running else { return false };
        let from = run.done;
        let steps = to - from;
        if steps == 0 {
            return false;
        }
        let n_decoding = self.decoding.len() as u64;
        let pace = self.pace;
        let tokens = if n_decoding > 0 { self.pace.advance(steps) } else { 0 };
        let counter = self.counter + tokens;
        let surplus = surplus(&self.decoding, &self.blocks, self.counter, counter, desk.slab);
        let (mut fresh, mut again, mut first_tokens) = (0, 0, 0);
        if run.n_chunks > 0 {
            let mut at = 0;
            while let Some(slot) = self.prefilling.get(at) {
                let request = &mut desk.slab[slot];
                let new = request.prefill(request.chunk);
                fresh += u64::from(new);
                again += u64::from(request.chunk - new);
                first_tokens += u64::from(request.chunk > 0 && request.prefilled == request.target);
                at += 1;
            }
        }
        desk.meter.add_stretch(
            desk.clock,
            &Stretch {
                leg: run,
                from,
                to,
                begin_ns: run.done_ns,
                end_ns,
                n_decoding,
                pace: run.pace(pace),
                input_tokens: fresh,
                recomputed_tokens: again,
                first_tokens,
                surplus_tokens: surplus.tokens,
            },
        );
        for at in 0..desk.classes.len() {
            let weight = self.n_decoding_in_span.all()[at];
            if weight > 0 {
                let (pool, between_ns) = (desk.deployment.pool, (run.done_ns, end_ns));
                desk.classes[at].add_gaps(pool, run, from..to, between_ns, u64::from(weight));
            }
        }
        if desk.policy.has_gaps {
            self.seldom.gaps.add_steps(run.time(), to, counter);
        }
        self.blocks.advance(self.counter, counter, surplus.blocks);
        self.counter = counter;
        self.kv_tokens += n_decoding * tokens;
        self.window_sum += u64::from(self.n_growing) * tokens;
        let begin_ns = std::mem::replace(&mut run.done_ns, end_ns);
        run.done = to;
        if desk.timeline.is_kept() {
            let n_prompts = if run.is_alone { u64::from(run.n_chunks) } else { 0 };
            desk.timeline.add(desk.number, begin_ns, end_ns, n_decoding, n_prompts, steps);
        }
        run.is_alone
    }

    /// The running step's chunks are done: those whose prompt is complete give a token and decode on.
    fn take_chunks(&mut self, now: u64, desk: &mut Desk<'_>) {
        let pool = desk.deployment.pool;
        let mut at = 0;
        while let Some(slot) = self.prefilling.get(at) {
            let request = &mut desk.slab[slot];
            if request.prefilled < request.target {
                at += 1;
                continue;
            }
            self.prefilling.remove(at);
            self.reserved_tokens -= u64::from(request.target);
            request.generated += 1;
            if request.generated == 1 {
                if request.first_token_ns == NEVER {
                    request.first_token_ns = now;
                    if request.in_span() {
                        desk.classes[usize::from(request.class)].add_first_token(pool, request);
                    }
                }
                if desk.notes.wants_first_tokens {
                    desk.notes.first_tokens.push(slot);
                }
            } else {
                let gap = now - request.last_token_ns();
                request.longest_gap_ns = request.longest_gap_ns.max(gap);
                if request.in_span() {
                    desk.classes[usize::from(request.class)].add_gap(pool, now, gap);
                }
            }
            request.note_token(now);
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
        while let Some(slot) = self.seldom.resumed.pop_first() {
            let request = &mut desk.slab[slot];
            let gap = now - request.last_token_ns();
            request.longest_gap_ns = request.longest_gap_ns.max(gap);
            if request.in_span() {
                self.n_decoding_in_span.add(request.class, true);
                desk.classes[usize::from(request.class)].add_gap(desk.deployment.pool, now, gap);
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
    desk.classes[usize::from(request.class)].add_completed(desk.clock, desk.deployment.pool, request, now, limits);
    desk.ended.push((slot, now));
}

/// Classes whose counts stand in place.
const CLASSES_IN_PLACE: usize = 4;

/// A count for each class.
#[derive(Debug, Clone)]
struct ByClass {
    here: [u32; CLASSES_IN_PLACE],
    /// Where there are more classes, all of them.
    #[expect(clippy::box_collection, reason = "it is seldom there, and should take little room then")]
    apart: Option<Box<Vec<u32>>>,
}

impl ByClass {
    fn new(n_classes: usize) -> Self {
        let apart = (n_classes > CLASSES_IN_PLACE).then(|| Box::new(vec![0; n_classes]));
        Self { here: [0; CLASSES_IN_PLACE], apart }
    }

    fn all(&self) -> &[u32] {
        self.apart.as_ref().map_or(&self.here, |apart| &apart[..])
    }

    fn of(&mut self, class: u16) -> &mut u32 {
        &mut self.apart.as_mut().map_or(&mut self.here[..], |apart| &mut apart[..])[usize::from(class)]
    }

    fn add(&mut self, class: u16, counts: bool) {
        *self.of(class) += u32::from(counts);
    }

    fn take(&mut self, class: u16, counts: bool) {
        *self.of(class) -= u32::from(counts);
    }
}
