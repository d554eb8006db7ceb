//! Which replicas serve: outages that are known or drawn, maintenance, and a number that follows the load.

use crate::rng::{Purpose, Stream};
use crate::spec::{AutoscaleSpec, PlacedSpec, SimSpec};
use crate::time::NEVER;

/// Neighbouring replicas that are out together, once or again and again.
#[derive(Debug, Clone)]
pub struct Outage {
    /// Number in the cell of the first, and how many.
    pub first: u32,
    pub n_replicas: u32,
    /// They end what they have and are not lost.
    pub is_planned: bool,
    length_ns: u64,
    cold_start_ns: u64,
    when: When,
}

/// Draws of groups that fail together are apart from those of single outages.
const TOGETHER: u64 = 1 << 63;

/// When replicas are out.
#[derive(Debug, Clone, Copy)]
enum When {
    At(u64),
    /// After a drawn time of this mean, again and again; how often it was.
    Drawn {
        mean_ns: u64,
        n_before: u64,
        /// Whose draws they are: this outage's own, or those of a group that fails together.
        stream: Option<u64>,
    },
}

/// A deployment's number of replicas that follows the load.
#[derive(Debug, Clone)]
pub struct Scale {
    pub spec: AutoscaleSpec,
    pub max_batch: u64,
    /// The first of its replicas, and how many are switched on.
    pub first: u32,
    pub n_on: u32,
}

/// Who serves, and why not.
#[derive(Debug)]
pub struct Operation {
    seed: u64,
    pub outages: Vec<Outage>,
    /// By deployment.
    pub scales: Vec<Option<Scale>>,
    pub cold_start_ns: Vec<u64>,
    /// By replica: reasons for which it does not serve.
    n_reasons: Vec<u32>,
    /// By replica that does not serve: since when it has no step under way; `NEVER` while it has.
    pub off_since: Vec<u64>,
    /// By deployment: replicas that do not serve, and since when that was counted.
    down: Vec<(u64, u64)>,
}

impl Operation {
    /// The operation of a checked spec; nothing has happened yet.
    pub fn new(spec: &SimSpec) -> Self {
        let mut outages = Vec::new();
        let mut scales = Vec::new();
        let mut first = 0;
        for placed in &spec.deployments {
            outages.extend(outages_of(placed, first));
            let max_batch = placed.deployment.serving.max_batch;
            scales.push(placed.autoscale.map(|spec| Scale { spec, max_batch, first, n_on: spec.min }));
            first += placed.n_replicas as u32;
        }
        Self {
            seed: spec.seed,
            outages,
            scales,
            cold_start_ns: spec.deployments.iter().map(|placed| placed.cold_start_ns).collect(),
            n_reasons: vec![0; first as usize],
            off_since: vec![NEVER; first as usize],
            down: vec![(0, 0); spec.deployments.len()],
        }
    }

    /// When each outage begins for the first time.
    pub fn first_outages(&self) -> Vec<u64> {
        (0..self.outages.len()).map(|at| self.begins_ns(at, 0)).collect()
    }

    /// When an outage ends that begins at `t`.
    pub fn ends_ns(&self, outage: usize, t: u64) -> u64 {
        let of = &self.outages[outage];
        t.saturating_add(of.length_ns).saturating_add(of.cold_start_ns)
    }

    /// When an outage that ended at `t` begins again, if it does.
    pub fn begins_again_ns(&mut self, outage: usize, t: u64) -> Option<u64> {
        match &mut self.outages[outage].when {
            When::At(_) => None,
            When::Drawn { n_before, .. } => {
                *n_before += 1;
                Some(self.begins_ns(outage, t))
            }
        }
    }

    fn begins_ns(&self, outage: usize, after_ns: u64) -> u64 {
        match self.outages[outage].when {
            When::At(t) => t,
            When::Drawn { mean_ns, n_before, stream } => {
                let stream = stream.unwrap_or(outage as u64);
                let draw = Stream::new(self.seed, Purpose::Failure, stream, n_before).exponential();
                after_ns.saturating_add((draw * mean_ns as f64) as u64)
            }
        }
    }

    /// One more reason for a replica not to serve; true if it served until now.
    pub fn add_reason(&mut self, replica: u32) -> bool {
        self.n_reasons[replica as usize] += 1;
        self.n_reasons[replica as usize] == 1
    }

    /// Whether something may keep a replica from serving.
    pub fn is_eventful(&self) -> bool {
        !self.outages.is_empty() || self.scales.iter().any(Option::is_some)
    }

    pub fn is_down(&self, replica: u32) -> bool {
        self.n_reasons[replica as usize] > 0
    }

    /// One reason less; true if it serves now.
    pub fn take_reason(&mut self, replica: u32) -> bool {
        self.n_reasons[replica as usize] -= 1;
        self.n_reasons[replica as usize] == 0
    }

    /// Replicas of `deployment` that did not serve since the time given back; from `t` on it is `change` more of them.
    pub fn count_down(&mut self, deployment: usize, t: u64, change: i64) -> (u64, u64) {
        let (n, since) = self.down[deployment];
        self.down[deployment] = (n.saturating_add_signed(change), t);
        (n, since)
    }
}

fn outages_of(placed: &PlacedSpec, first: u32) -> Vec<Outage> {
    let cold_start_ns = placed.cold_start_ns;
    let known = placed.outages.iter().map(|o| (o, false)).chain(placed.maintenance.iter().map(|o| (o, true)));
    let mut outages: Vec<Outage> = known
        .map(|(o, is_planned)| Outage {
            first: first + o.first,
            n_replicas: o.n_replicas,
            is_planned,
            length_ns: o.length_ns,
            cold_start_ns,
            when: When::At(o.at_ns),
        })
        .collect();
    for failure in &placed.failures {
        let n = placed.n_replicas as u32;
        let (mut at, mut number) = (0, 0_u32);
        while at < n {
            outages.push(Outage {
                first: first + at,
                n_replicas: failure.n_together.min(n - at),
                is_planned: false,
                length_ns: failure.repair_ns,
                cold_start_ns,
                when: When::Drawn {
                    mean_ns: failure.mean_ns,
                    n_before: 0,
                    stream: failure.key.map(|key| TOGETHER | u64::from(key) << 32 | u64::from(number)),
                },
            });
            at = at.saturating_add(failure.n_together);
            number += 1;
        }
    }
    outages
}
