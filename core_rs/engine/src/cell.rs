//! A cell: an independently simulated slice of a fleet - some replicas, one router, its share of the requests.
//!
//! Three ordered streams: the agenda, arrivals, and the replicas' boundaries; at one instant in this order, and replicas
//! by number. `advance` works in slices, and where it is cut changes nothing.

mod clients;
mod feed;
mod handover;
mod operate;

use crate::agenda::{Agenda, Event};
use crate::class_meter::{ClassMeter, Limit};
use crate::error::{Error, Result};
use crate::event::IndexedHeap;
use crate::inbox::Inbox;
use crate::link::Link;
use crate::meter::{Clock, DeploymentMeter};
use crate::operation::Operation;
use crate::placed::Deployment;
use crate::policy::Policy;
use crate::prefix::HashFeed;
use crate::replica::{Desk, Horizon, Notes, Replica};
use crate::request::{Fate, Request};
use crate::router::Router;
use crate::slab::Slab;
use crate::spec::SimSpec;
use crate::step::Chunk;
use crate::time::NEVER;
use crate::timeline::Timeline;

/// A request's row, kept on demand. Times are `NEVER` where they did not come to be.
#[derive(Debug, Clone)]
pub struct RequestRow {
    pub row: u64,
    pub class: u16,
    pub replica: u32,
    pub fate: Fate,
    pub arrival_ns: u64,
    pub seen_ns: u64,
    pub start_ns: u64,
    pub first_token_ns: u64,
    pub end_ns: u64,
    pub input_tokens: u32,
    pub output_tokens: u32,
    pub generated_tokens: u32,
    pub cached_tokens: u32,
}

/// Where a simulation stands.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub now_ns: u64,
    pub n_events: u64,
    pub is_done: bool,
}

/// Events at one instant without an end in sight are a bug, not a workload: this many per request in the system.
const STUCK_EVENTS: u64 = 1_000_000;

/// From so many replicas on, reading ahead pays.
const MANY_REPLICAS: usize = 64;

/// The simulation of one cell.
pub struct Sim {
    spec: SimSpec,
    clock: Clock,
    limits: Vec<Vec<Limit>>,
    deployments: Vec<Deployment>,
    deployment_of: Vec<u32>,
    replicas: Vec<Replica>,
    router: Router,
    agenda: Agenda,
    operation: Operation,
    link: Link,
    queue: IndexedHeap<u64>,
    slab: Slab,
    inbox: Inbox,
    hashes: HashFeed,
    has_caches: bool,
    policy: Policy,
    /// Requests of chains that are set to be sent.
    n_to_send: u64,
    next_stamp: u64,
    is_fed: bool,
    is_done: bool,
    next_admission: u64,
    now_ns: u64,
    n_events: u64,
    n_at_now: u64,
    horizon: Horizon,
    ended: Vec<(u32, u64)>,
    notes: Notes,
    chunks: Vec<Chunk>,
    ending: Vec<u32>,
    pub timeline: Timeline,
    pub classes: Vec<ClassMeter>,
    pub meters: Vec<DeploymentMeter>,
    pub rows: Vec<RequestRow>,
}

impl Sim {
    /// A simulation of a checked spec, without requests yet.
    pub fn new(spec: SimSpec) -> Result<Self> {
        let mut deployments = Vec::new();
        let mut deployment_of = Vec::new();
        let mut replicas = Vec::new();
        let policy = Policy::new(&spec.classes, spec.keep_requests);
        for (at, placed) in spec.deployments.iter().enumerate() {
            let deployment = Deployment::new(at, placed, spec.hash_block_tokens)?;
            for _ in 0..placed.n_replicas {
                deployment_of.push(at as u32);
                replicas.push(Replica::new(&deployment, &policy));
            }
            deployments.push(deployment);
        }
        for target in spec.deployments.iter().flat_map(|placed| &placed.decode_targets) {
            deployments[*target].hands_over = true;
        }
        let router = Router::new(&spec, &deployments);
        let notes = Notes { wants_first_tokens: router.needs_first_tokens(), ..Notes::default() };
        let clock = Clock { window_ns: spec.window_ns, warmup_ns: spec.warmup_ns, length_ns: spec.length_ns };
        let limits = spec.classes.iter().map(|c| c.limits.clone()).collect();
        let operation = Operation::new(&spec);
        let is_watched = spec.timeline_rows > 0 || notes.wants_first_tokens || operation.is_eventful();
        let is_split = deployments.iter().any(|deployment| deployment.hands_over);
        let horizon = Horizon {
            is_open: !(is_watched || is_split || policy.has_leavers || policy.is_ranked || policy.has_caps),
            deadline_ns: spec.length_ns.saturating_add(spec.drain_ns),
            next_arrival_ns: 0,
            turns: 0,
        };
        let mut sim = Self {
            clock,
            limits,
            router,
            agenda: Agenda::default(),
            operation,
            link: Link::new(spec.link),
            queue: IndexedHeap::new(replicas.len()),
            classes: spec.classes.iter().map(|_| ClassMeter::new(spec.n_pools, spec.batches)).collect(),
            meters: vec![DeploymentMeter::default(); deployments.len()],
            deployments,
            deployment_of,
            replicas,
            slab: Slab::default(),
            inbox: Inbox::default(),
            hashes: HashFeed::default(),
            has_caches: spec.hash_block_tokens > 0 || spec.deployments.iter().any(|placed| placed.prefix_cache),
            policy,
            n_to_send: 0,
            next_stamp: 0,
            is_fed: false,
            is_done: false,
            next_admission: 0,
            now_ns: 0,
            n_events: 0,
            n_at_now: 0,
            horizon,
            ended: Vec::new(),
            notes,
            chunks: Vec::new(),
            ending: Vec::new(),
            timeline: Timeline::new(spec.timeline_rows),
            rows: Vec::new(),
            spec,
        };
        sim.begin_operation();
        Ok(sim)
    }

    /// The spec this runs.
    pub fn spec(&self) -> &SimSpec {
        &self.spec
    }

    /// The deployments, as laid out.
    pub fn deployments(&self) -> &[Deployment] {
        &self.deployments
    }

    /// Work through up to `budget` events.
    pub fn advance(&mut self, budget: u64) -> Result<Progress> {
        let deadline = self.spec.length_ns.saturating_add(self.spec.drain_ns);
        for _ in 0..budget {
            if self.is_done {
                break;
            }
            let arrival = self.inbox.next_ns();
            if arrival.is_none() && !self.is_fed {
                break; // the next request may come before the next event
            }
            let next = self.queue.peek();
            let (set, due) = (self.agenda.next_ns().unwrap_or(NEVER), next.map_or(NEVER, |(at, _)| at));
            let first = set.min(due).min(arrival.unwrap_or(NEVER));
            let is_idle = arrival.is_none() && self.slab.is_empty() && self.n_to_send == 0;
            if first > deadline || (is_idle && first > self.spec.length_ns) {
                self.stop(deadline);
                break;
            }
            self.tick(first)?;
            if set == first {
                self.happen(first);
            } else if arrival == Some(first) {
                self.arrive(first);
            } else if let Some((_, replica)) = next {
                self.wake(first, replica);
            }
        }
        self.meters.iter_mut().for_each(DeploymentMeter::settle);
        self.classes.iter_mut().for_each(ClassMeter::settle);
        Ok(Progress { now_ns: self.now_ns, n_events: self.n_events, is_done: self.is_done })
    }

    fn tick(&mut self, t: u64) -> Result<()> {
        self.n_events += 1;
        if t > self.now_ns {
            (self.now_ns, self.n_at_now, self.horizon.turns) = (t, 0, 0);
            return Ok(());
        }
        self.n_at_now += 1;
        if self.n_at_now > STUCK_EVENTS * (self.slab.len() as u64 + 1) {
            let what = format!("{} events at {t} ns with {} requests in the system", self.n_at_now, self.slab.len());
            return Err(Error::Stuck { what });
        }
        Ok(())
    }

    /// What is set for now happens.
    fn happen(&mut self, t: u64) {
        let Some(event) = self.agenda.pop() else { return };
        match event {
            Event::OutageBegins { outage } => self.begin_outage(outage as usize, t),
            Event::OutageEnds { outage } => self.end_outage(outage as usize, t),
            Event::Started { replica } => self.serve(replica, t),
            Event::Scale { deployment } => self.scale(deployment as usize, t),
            Event::IsSent { row } => {
                self.n_to_send -= 1;
                self.send(self.inbox.asked(row), t);
            }
            Event::TimesOut { slot, stamp, .. } if self.is_current(slot, stamp) => self.times_out(slot, t),
            Event::IsCancelled { slot, stamp, .. } if self.is_current(slot, stamp) => self.is_cancelled(slot, t),
            Event::IsDelivered { slot, stamp, .. } if self.is_current(slot, stamp) => self.deliver(slot, t),
            Event::IsSentAgain { slot, stamp, .. } if self.is_current(slot, stamp) => self.dispatch(slot, t),
            _ => {} // of a request that is no more
        }
    }

    /// A replica has come to a boundary.
    fn wake(&mut self, t: u64, replica: u32) {
        self.horizon.turns = self.horizon.turns.max(replica + 1);
        match self.at_desk(replica, |replica, desk| replica.wake(t, desk)) {
            Some(next) => self.queue.set(replica, next),
            None => self.queue.remove(replica),
        }
        if self.replicas.len() >= MANY_REPLICAS {
            self.look_ahead();
        }
        if self.operation.is_eventful() {
            self.watch(replica, t);
        }
        self.heed(replica, t);
    }

    /// Ask for what the next events need while this one is worked on: with many replicas, most of it is not in the
    /// processor's caches.
    fn look_ahead(&mut self) {
        let [near, middle, far] = self.queue.risen();
        if let Some(replica) = far {
            self.replicas[replica as usize].fetch();
        }
        if let Some(replica) = middle {
            let replica = &self.replicas[replica as usize];
            replica.fetch();
            replica.fetch_ends();
        }
        if let Some(replica) = near {
            self.replicas[replica as usize].fetch_requests(&self.slab);
        }
        if let Some(next) = self.router.likely() {
            self.replicas[next as usize].fetch_for_arrival();
        }
    }

    fn at_desk<T>(&mut self, replica: u32, work: impl FnOnce(&mut Replica, &mut Desk<'_>) -> T) -> T {
        let deployment = self.deployment_of[replica as usize] as usize;
        let mut desk = Desk {
            slab: &mut self.slab,
            clock: &self.clock,
            classes: &mut self.classes,
            limits: &self.limits,
            policy: &self.policy,
            deployment: &self.deployments[deployment],
            meter: &mut self.meters[deployment],
            ended: &mut self.ended,
            notes: &mut self.notes,
            timeline: &mut self.timeline,
            number: replica,
            horizon: self.horizon,
            next_admission: &mut self.next_admission,
            chunks: &mut self.chunks,
            ending: &mut self.ending,
        };
        work(&mut self.replicas[replica as usize], &mut desk)
    }

    /// The run is over: nothing is left to happen, or the drain is. What is still in the system is unfinished.
    fn stop(&mut self, deadline: u64) {
        for replica in 0..self.replicas.len() as u32 {
            self.at_desk(replica, |replica, desk| replica.stop(deadline, desk));
        }
        for slot in self.slab.live() {
            self.is_left(slot);
        }
        self.end_operation();
        self.rows.sort_unstable_by_key(|row| row.row);
        self.is_done = true;
    }

    fn keep_row(&mut self, request: &Request, fate: Fate, end_ns: u64) {
        if !self.spec.keep_requests {
            return;
        }
        self.rows.push(RequestRow {
            row: request.row,
            class: request.class,
            replica: request.replica,
            fate,
            arrival_ns: request.arrival_ns,
            seen_ns: request.seen_ns,
            start_ns: request.start_ns,
            first_token_ns: request.first_token_ns,
            end_ns,
            input_tokens: request.input_tokens,
            output_tokens: request.output_tokens,
            generated_tokens: request.generated,
            cached_tokens: request.cached,
        });
    }
}
