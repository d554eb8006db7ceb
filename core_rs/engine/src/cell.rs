//! A cell: an independently simulated slice of a fleet - some replicas, one router, its share of the requests.
//!
//! Arrivals and replicas' next events are two ordered streams; at the same instant arrivals come first, then replicas
//! by number. `advance` works in slices, and where it is cut changes nothing.

use crate::class_meter::{ClassMeter, Limit, Metric};
use crate::error::{Error, Result};
use crate::event::IndexedHeap;
use crate::meter::{Clock, DeploymentMeter};
use crate::placed::Deployment;
use crate::policy::Policy;
use crate::prefix::HashFeed;
use crate::replica::{Desk, Replica};
use crate::request::{Request, Slab};
use crate::router::Router;
use crate::spec::SimSpec;

/// Requests as they come: columns of equal length, sorted by arrival.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    pub arrival_ns: Vec<u64>,
    pub class_ix: Vec<u16>,
    pub input_tokens: Vec<u32>,
    pub output_tokens: Vec<u32>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fate {
    Completed = 0,
    Rejected = 1,
    Unfinished = 2,
}

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

/// The simulation of one cell.
pub struct Sim {
    spec: SimSpec,
    clock: Clock,
    limits: Vec<Vec<Limit>>,
    deployments: Vec<Deployment>,
    deployment_of: Vec<u32>,
    replicas: Vec<Replica>,
    /// The replica each slot's request went to.
    replica_of: Vec<u32>,
    router: Router,
    queue: IndexedHeap<u64>,
    slab: Slab,
    requests: Requests,
    hashes: HashFeed,
    policy: Policy,
    n_arrived: usize,
    is_fed: bool,
    is_done: bool,
    next_admission: u64,
    now_ns: u64,
    n_events: u64,
    n_at_now: u64,
    ended: Vec<(u32, u64)>,
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
        let policy = Policy::new(&spec.classes);
        let tracks_gaps = spec.classes.iter().any(|c| c.limits.iter().any(|l| l.metric == Metric::Itl));
        for (at, placed) in spec.deployments.iter().enumerate() {
            let deployment = Deployment::new(at, placed, spec.hash_block_tokens)?;
            for _ in 0..placed.n_replicas {
                deployment_of.push(at as u32);
                replicas.push(Replica::new(deployment.blocks(), &policy, tracks_gaps));
            }
            deployments.push(deployment);
        }
        let router = Router::new(&spec);
        let clock = Clock { window_ns: spec.window_ns, warmup_ns: spec.warmup_ns, length_ns: spec.length_ns };
        let limits = spec.classes.iter().map(|c| c.limits.clone()).collect();
        Ok(Self {
            clock,
            limits,
            router,
            queue: IndexedHeap::new(replicas.len()),
            classes: spec.classes.iter().map(|_| ClassMeter::new(spec.n_pools)).collect(),
            meters: vec![DeploymentMeter::default(); deployments.len()],
            deployments,
            deployment_of,
            replicas,
            replica_of: Vec::new(),
            slab: Slab::default(),
            requests: Requests::default(),
            hashes: HashFeed::default(),
            policy,
            n_arrived: 0,
            is_fed: false,
            is_done: false,
            next_admission: 0,
            now_ns: 0,
            n_events: 0,
            n_at_now: 0,
            ended: Vec::new(),
            rows: Vec::new(),
            spec,
        })
    }

    /// The spec this runs.
    pub fn spec(&self) -> &SimSpec {
        &self.spec
    }

    /// The deployments, as laid out.
    pub fn deployments(&self) -> &[Deployment] {
        &self.deployments
    }

    /// Hand in the next requests; they must follow the ones before in time and lie inside the run.
    pub fn feed(&mut self, more: &Requests) -> Result<()> {
        let n = more.arrival_ns.len();
        if more.class_ix.len() != n || more.input_tokens.len() != n || more.output_tokens.len() != n {
            return Err(Error::input("requests", "columns must be of equal length"));
        }
        if self.is_fed {
            return Err(Error::input("requests", "the simulation has begun to drain"));
        }
        let mut before = self.requests.arrival_ns.last().copied().unwrap_or(0);
        for i in 0..n {
            let t = more.arrival_ns[i];
            if t < before || t > self.spec.length_ns {
                return Err(Error::input("arrival_ns", format!("row {i}: must not fall, nor pass the run's length")));
            }
            before = t;
            if usize::from(more.class_ix[i]) >= self.classes.len() {
                return Err(Error::input("class_ix", format!("row {i}: no such class")));
            }
            if more.input_tokens[i] == 0 || more.output_tokens[i] == 0 {
                return Err(Error::input("input_tokens, output_tokens", format!("row {i}: must be at least 1")));
            }
        }
        self.requests.arrival_ns.extend_from_slice(&more.arrival_ns);
        self.requests.class_ix.extend_from_slice(&more.class_ix);
        self.requests.input_tokens.extend_from_slice(&more.input_tokens);
        self.requests.output_tokens.extend_from_slice(&more.output_tokens);
        Ok(())
    }

    /// Hand in the hashes of prompts that were fed: `row[i]` has `hash[i]` next, and names all of the prompt before it.
    pub fn feed_blocks(&mut self, row: &[u64], hash: &[u64]) -> Result<()> {
        let size = self.spec.hash_block_tokens;
        if row.len() != hash.len() {
            return Err(Error::input("blocks", "columns must be of equal length"));
        }
        if size == 0 && !row.is_empty() {
            return Err(Error::input("hash_block_tokens", "must be given with the hashes of prompts"));
        }
        for (&row, &hash) in row.iter().zip(hash) {
            let Some(&input) = self.requests.input_tokens.get(row as usize) else {
                return Err(Error::input("blocks.row", format!("{row}: no such request was fed")));
            };
            if (row as usize) < self.n_arrived || self.hashes.last_row().is_some_and(|last| row < last) {
                return Err(Error::input("blocks.row", format!("{row}: must not fall, nor come after its request")));
            }
            if self.hashes.push(row, hash) as u64 > u64::from(input).div_ceil(size) {
                let what = format!("{row}: more than {input} prompt tokens / {size}, rounded up");
                return Err(Error::input("blocks.row", what));
            }
        }
        Ok(())
    }

    /// No more requests will come.
    pub fn end_of_requests(&mut self) {
        self.is_fed = true;
    }

    /// Work through up to `budget` events.
    pub fn advance(&mut self, budget: u64) -> Result<Progress> {
        let deadline = self.spec.length_ns.saturating_add(self.spec.drain_ns);
        for _ in 0..budget {
            if self.is_done {
                break;
            }
            let arrival = self.requests.arrival_ns.get(self.n_arrived).copied();
            if arrival.is_none() && !self.is_fed {
                break; // the next request may come before the next event
            }
            let next = self.queue.peek();
            match (arrival, next) {
                (Some(t), other) if other.is_none_or(|(at, _)| t <= at) => self.tick(t).map(|()| self.arrive(t))?,
                (_, Some((t, replica))) if t <= deadline => self.tick(t).map(|()| self.wake(t, replica))?,
                _ => self.stop(deadline),
            }
        }
        Ok(Progress { now_ns: self.now_ns, n_events: self.n_events, is_done: self.is_done })
    }

    fn tick(&mut self, t: u64) -> Result<()> {
        self.n_events += 1;
        if t > self.now_ns {
            (self.now_ns, self.n_at_now) = (t, 0);
            return Ok(());
        }
        self.n_at_now += 1;
        if self.n_at_now > STUCK_EVENTS * (self.slab.len() as u64 + 1) {
            let what = format!("{} events at {t} ns with {} requests in the system", self.n_at_now, self.slab.len());
            return Err(Error::Stuck { what });
        }
        Ok(())
    }

    fn arrive(&mut self, t: u64) {
        let row = self.n_arrived;
        self.n_arrived += 1;
        let (class, input, output) =
            (self.requests.class_ix[row], self.requests.input_tokens[row], self.requests.output_tokens[row]);
        let in_span = self.clock.in_span(t);
        let meter = &mut self.classes[usize::from(class)];
        meter.add_offered(&self.clock, t, in_span, input, output);
        let replica = self.router.choose(class, row as u64, input);
        let deployment = &self.deployments[self.deployment_of[replica as usize] as usize];
        let mut request = Request::new(row as u64, class, in_span, t, input, output);
        if request.kv_tokens_at_end() > deployment.model.max_sequence_tokens() {
            meter.add_rejected(&self.clock, t, in_span);
            self.router.ended(replica, input);
            self.keep_row(row as u64, &request, replica, Fate::Rejected, t);
            return;
        }
        request.window_blocks = deployment.window_blocks(&request);
        let slot = self.slab.insert(request);
        if self.replica_of.len() <= slot as usize {
            self.replica_of.resize(slot as usize + 1, 0);
        }
        self.replica_of[slot as usize] = replica;
        if deployment.has_cache {
            self.slab.set_hashes(slot, self.hashes.of(row as u64));
        }
        let next = self.at_desk(replica, |replica, desk| replica.arrive(slot, t, desk));
        self.queue.set(replica, next);
    }

    fn wake(&mut self, t: u64, replica: u32) {
        match self.at_desk(replica, |replica, desk| replica.wake(t, desk)) {
            Some(next) => self.queue.set(replica, next),
            None => self.queue.remove(replica),
        }
        let ended = std::mem::take(&mut self.ended);
        for &(slot, end_ns) in &ended {
            let request = self.slab[slot].clone();
            self.router.ended(replica, request.input_tokens);
            self.keep_row(request.row, &request, replica, Fate::Completed, end_ns);
            self.slab.remove(slot);
        }
        self.ended = ended;
        self.ended.clear();
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
            next_admission: &mut self.next_admission,
        };
        work(&mut self.replicas[replica as usize], &mut desk)
    }

    /// The run is over: nothing is left to happen, or the drain is. What is still in the system is unfinished.
    fn stop(&mut self, deadline: u64) {
        for replica in 0..self.replicas.len() as u32 {
            self.at_desk(replica, |replica, desk| replica.stop(deadline, desk));
        }
        for slot in self.slab.live() {
            let request = self.slab[slot].clone();
            self.classes[usize::from(request.class)].add_unfinished(request.in_span);
            let replica = self.replica_of[slot as usize];
            self.keep_row(request.row, &request, replica, Fate::Unfinished, crate::time::NEVER);
        }
        self.rows.sort_unstable_by_key(|row| row.row);
        self.is_done = true;
    }

    fn keep_row(&mut self, row: u64, request: &Request, replica: u32, fate: Fate, end_ns: u64) {
        if !self.spec.keep_requests {
            return;
        }
        self.rows.push(RequestRow {
            row,
            class: request.class,
            replica,
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
