//! Which replica gets a request: what a real router knows (prompts and queue states), never true output lengths.

use crate::event::IndexedHeap;
use crate::rng::{Purpose, Stream};
use crate::spec::{RouterKind, SimSpec};

/// A replica's load as the router sees it; of equals, the one that waited longest for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    outstanding_tokens: u64,
    last_chosen: u64,
}

struct Target {
    /// First replica and count of each deployment.
    ranges: Vec<(u32, u32)>,
    deployments: Vec<usize>,
    n_replicas: u32,
    turn: u32,
}

/// The router of one cell.
pub struct Router {
    kind: RouterKind,
    seed: u64,
    /// By class: upper ends of the shares, and its targets.
    classes: Vec<(Vec<f64>, Vec<Target>)>,
    /// By deployment, over its own replicas.
    loads: Vec<IndexedHeap<Load>>,
    of_replica: Vec<Load>,
    first_replica: Vec<u32>,
    n_chosen: u64,
}

impl Router {
    /// A router for a checked spec; replicas are numbered deployment by deployment.
    pub fn new(spec: &SimSpec) -> Self {
        let mut first_replica = Vec::new();
        let mut n_replicas = 0u32;
        let mut loads = Vec::new();
        for placed in &spec.deployments {
            first_replica.push(n_replicas);
            n_replicas += placed.n_replicas as u32;
            let mut heap = IndexedHeap::new(placed.n_replicas);
            for replica in 0..placed.n_replicas as u32 {
                heap.set(replica, Load { outstanding_tokens: 0, last_chosen: 0 });
            }
            loads.push(heap);
        }
        let classes = spec
            .classes
            .iter()
            .map(|class| {
                let mut end = 0.0;
                let ends = class.targets.iter().map(|t| {
                    end += t.share.unwrap_or(1.0);
                    end
                });
                let ends = ends.collect();
                let targets = class.targets.iter().map(|t| {
                    let ranges: Vec<(u32, u32)> = t
                        .deployments
                        .iter()
                        .map(|&d| (first_replica[d], spec.deployments[d].n_replicas as u32))
                        .collect();
                    Target {
                        n_replicas: ranges.iter().map(|r| r.1).sum(),
                        ranges,
                        deployments: t.deployments.clone(),
                        turn: 0,
                    }
                });
                (ends, targets.collect())
            })
            .collect();
        let of_replica = vec![Load { outstanding_tokens: 0, last_chosen: 0 }; n_replicas as usize];
        Self { kind: spec.router, seed: spec.seed, classes, loads, of_replica, first_replica, n_chosen: 0 }
    }

    /// Choose a replica for a request of `class` and note that it goes there.
    pub fn choose(&mut self, class: u16, row: u64, input_tokens: u32) -> u32 {
        let (ends, targets) = &mut self.classes[usize::from(class)];
        let at = if targets.len() == 1 {
            0
        } else {
            let draw = Stream::new(self.seed, Purpose::RouteShare, u64::from(class), row).uniform();
            ends.iter().position(|&end| draw < end).unwrap_or(targets.len() - 1)
        };
        let target = &mut targets[at];
        let replica = match self.kind {
            RouterKind::RoundRobin => {
                let mut left = target.turn;
                target.turn = (target.turn + 1) % target.n_replicas;
                let mut chosen = target.ranges[0].0;
                for &(first, n) in &target.ranges {
                    if left < n {
                        chosen = first + left;
                        break;
                    }
                    left -= n;
                }
                return chosen;
            }
            RouterKind::LeastOutstandingTokens => {
                let least = target.deployments.iter().filter_map(|&d| {
                    self.loads[d].peek().map(|(load, replica)| (load, self.first_replica[d] + replica))
                });
                least.min().map_or(target.ranges[0].0, |(_, replica)| replica)
            }
        };
        self.n_chosen += 1;
        self.of_replica[replica as usize].last_chosen = self.n_chosen;
        self.change(replica, |tokens| tokens + u64::from(input_tokens));
        replica
    }

    /// A request that was sent to `replica` has ended.
    pub fn ended(&mut self, replica: u32, input_tokens: u32) {
        if self.kind == RouterKind::LeastOutstandingTokens {
            self.change(replica, |tokens| tokens - u64::from(input_tokens));
        }
    }

    fn change(&mut self, replica: u32, to: impl Fn(u64) -> u64) {
        let load = &mut self.of_replica[replica as usize];
        load.outstanding_tokens = to(load.outstanding_tokens);
        let deployment = self.first_replica.partition_point(|&first| first <= replica) - 1;
        self.loads[deployment].set(replica - self.first_replica[deployment], *load);
    }
}
