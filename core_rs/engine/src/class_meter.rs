//! What the simulation counts of its requests: counters and latency sketches by class.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::batches::{Batches, Latencies};
use crate::leg::Leg;
use crate::meter::{Between, Clock};
use crate::request::{Fate, Request};

/// A latency metric; the order is the code that crosses the border.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    Ttft,
    Tpot,
    Itl,
    E2e,
    Queue,
    /// From the first request of a chain to the last token of its last.
    Task,
}

/// How many metrics there are.
pub const N_METRICS: usize = 6;

/// Counters of a class: of all that was offered, and of what arrived in the measured span.
#[derive(Debug, Clone, Default)]
pub struct ClassCount {
    pub offered: u64,
    pub completed: u64,
    pub rejected: u64,
    pub unfinished: u64,
    pub timed_out: u64,
    pub cancelled: u64,
    /// Sent again, by the client or because a failure took it; not offered again.
    pub retried: u64,
    /// Taken by a failure of its replica.
    pub lost: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub attained: u64,
    /// Done with one output token: they have no TPOT and hold any TPOT limit.
    pub single_token: u64,
    /// Chains that began, but not those of which the run's end cut off the rest; closed loops have none.
    pub tasks: u64,
}

/// Counters of a class in one window, by the time of what happened.
#[derive(Debug, Clone, Default)]
pub struct ClassWindow {
    pub offered: u64,
    pub completed: u64,
    pub rejected: u64,
    pub timed_out: u64,
    pub cancelled: u64,
    pub retried: u64,
    pub lost: u64,
    pub attained: u64,
}

impl ClassWindow {
    fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.completed += other.completed;
        self.rejected += other.rejected;
        self.timed_out += other.timed_out;
        self.cancelled += other.cancelled;
        self.retried += other.retried;
        self.lost += other.lost;
        self.attained += other.attained;
    }
}

/// The account of one class. What is counted is in its windows once it is settled.
#[derive(Debug, Clone)]
pub struct ClassMeter {
    pub all: ClassCount,
    pub span: ClassCount,
    pub windows: BTreeMap<u64, ClassWindow>,
    /// Of requests that arrived in the measured span.
    pub latencies: Latencies,
    /// What happened last, all of it between the same two cuts.
    open: Between,
    last: ClassWindow,
}

impl ClassMeter {
    pub fn new(n_pools: usize, batches: Option<Batches>) -> Self {
        Self {
            all: ClassCount::default(),
            span: ClassCount::default(),
            windows: BTreeMap::new(),
            latencies: Latencies::new(n_pools, batches),
            open: Between::default(),
            last: ClassWindow::default(),
        }
    }

    fn counts(&mut self, in_span: bool, each: impl Fn(&mut ClassCount)) {
        each(&mut self.all);
        if in_span {
            each(&mut self.span);
        }
    }

    fn window(&mut self, clock: &Clock, t_ns: u64) -> &mut ClassWindow {
        if !self.open.contains(t_ns) {
            self.settle();
            self.open = clock.stretch_around(t_ns);
        }
        &mut self.last
    }

    /// Put what happened into its window.
    pub fn settle(&mut self) {
        if !self.open.contains(self.open.from_ns) {
            return;
        }
        let last = std::mem::take(&mut self.last);
        self.windows.entry(self.open.window).or_default().add(&last);
        self.open = Between::default();
    }

    pub fn add_offered(&mut self, clock: &Clock, t_ns: u64, in_span: bool, input_tokens: u32, output_tokens: u32) {
        self.counts(in_span, |c| {
            c.offered += 1;
            c.input_tokens += u64::from(input_tokens);
            c.output_tokens += u64::from(output_tokens);
        });
        self.window(clock, t_ns).offered += 1;
        if in_span {
            self.latencies.count(t_ns, |c| c.offered += 1);
        }
    }

    /// A request ended at `t_ns` without having been completed.
    pub fn add_failed(&mut self, clock: &Clock, t_ns: u64, in_span: bool, fate: Fate) {
        self.counts(in_span, |c| match fate {
            Fate::Completed => c.completed += 1,
            Fate::Rejected => c.rejected += 1,
            Fate::Unfinished => c.unfinished += 1,
            Fate::TimedOut => c.timed_out += 1,
            Fate::Cancelled => c.cancelled += 1,
        });
        match fate {
            Fate::Completed | Fate::Unfinished => {}
            Fate::Rejected => self.window(clock, t_ns).rejected += 1,
            Fate::TimedOut => self.window(clock, t_ns).timed_out += 1,
            Fate::Cancelled => self.window(clock, t_ns).cancelled += 1,
        }
    }

    /// A request is sent again at `t_ns`, or will be.
    pub fn add_retried(&mut self, clock: &Clock, t_ns: u64, in_span: bool) {
        self.counts(in_span, |c| c.retried += 1);
        self.window(clock, t_ns).retried += 1;
    }

    /// A failure took a request at `t_ns`.
    pub fn add_lost(&mut self, clock: &Clock, t_ns: u64, in_span: bool) {
        self.counts(in_span, |c| c.lost += 1);
        self.window(clock, t_ns).lost += 1;
    }

    /// A chain begins at `begin_ns`.
    pub fn add_chain(&mut self, begin_ns: u64, in_span: bool) {
        self.counts(in_span, |c| c.tasks += 1);
        if in_span {
            self.latencies.count(begin_ns, |c| c.tasks += 1);
        }
    }

    /// The rest of a chain that began at `begin_ns` is not sent: it is none.
    pub fn cut_chain(&mut self, begin_ns: u64, in_span: bool) {
        self.counts(in_span, |c| c.tasks -= 1);
        if in_span {
            self.latencies.count(begin_ns, |c| c.tasks -= 1);
        }
    }

    /// A chain that began in the measured span is done, on `pool`.
    pub fn add_task(&mut self, pool: usize, begin_ns: u64, task_ns: u64) {
        self.latencies.add(pool, Metric::Task, begin_ns, task_ns);
    }

    /// A request ended at `end_ns` on `pool`; its limits say whether it attained.
    pub fn add_completed(&mut self, clock: &Clock, pool: usize, request: &Request, end_ns: u64, limits: &[Limit]) {
        let gaps = u64::from(request.output_tokens) - 1;
        let decode_ns = end_ns - request.first_token_ns;
        let attained = limits.iter().all(|limit| match limit.metric {
            Metric::Ttft => request.waited_ns(request.first_token_ns) <= limit.limit_ns,
            Metric::Tpot => u128::from(decode_ns) <= u128::from(limit.limit_ns) * u128::from(gaps),
            Metric::E2e => request.waited_ns(end_ns) <= limit.limit_ns,
            Metric::Itl | Metric::Queue => is_within(request, limit),
            Metric::Task => true,
        });
        self.counts(request.in_span(), |c| {
            c.completed += 1;
            c.attained += u64::from(attained);
            c.single_token += u64::from(gaps == 0);
        });
        let window = self.window(clock, end_ns);
        window.completed += 1;
        window.attained += u64::from(attained);
        if request.in_span() {
            let came_ns = request.arrival_ns;
            match (decode_ns + gaps / 2).checked_div(gaps) {
                Some(tpot_ns) => self.latencies.add(pool, Metric::Tpot, came_ns, tpot_ns),
                None => self.latencies.count(came_ns, |c| c.single_token += 1),
            }
            self.latencies.add(pool, Metric::E2e, came_ns, request.waited_ns(end_ns));
        }
    }

    /// The first token of a request of the measured span.
    pub fn add_first_token(&mut self, pool: usize, request: &Request) {
        self.latencies.add(pool, Metric::Ttft, request.arrival_ns, request.waited_ns(request.first_token_ns));
    }

    /// A request of the measured span joined its first step, `queue_ns` after it came.
    pub fn add_start(&mut self, pool: usize, request: &Request, queue_ns: u64) {
        self.latencies.add(pool, Metric::Queue, request.arrival_ns, queue_ns);
    }

    /// Gaps between tokens: `weight` sequences of the measured span went through steps of a leg, `between_ns` the end
    /// of the one before them and that of their last.
    pub fn add_gaps(&mut self, pool: usize, leg: &Leg, steps: Range<u64>, between_ns: (u64, u64), weight: u64) {
        self.latencies.add_gaps(pool, leg, steps, between_ns, weight);
    }

    /// One gap, to a token at `end_ns`, that was not a single step: a preemption lay in it.
    pub fn add_gap(&mut self, pool: usize, end_ns: u64, gap_ns: u64) {
        self.latencies.add_gap(pool, end_ns, gap_ns);
    }
}

/// The limits of which a request keeps the figure apart from what each of its events needs.
#[cold]
#[inline(never)]
fn is_within(request: &Request, limit: &Limit) -> bool {
    match limit.metric {
        Metric::Itl => request.longest_gap_ns <= limit.limit_ns,
        _ => request.start_ns - request.arrival_ns <= limit.limit_ns,
    }
}

/// What a request of a class must hold to attain.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    pub metric: Metric,
    pub limit_ns: u64,
}
