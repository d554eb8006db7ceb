//! What a router sees of the replicas: it changes when a request is sent, has its first token, or ends.

use crate::event::{IndexedHeap, Key};
use crate::spec::{RouterKind, SimSpec};

/// A replica's load; of equals, the one that waited longest for a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    pub outstanding_tokens: u64,
    pub last_chosen: u64,
}

/// Bits of `last_chosen`: a million requests a second for twelve days, to one cell.
const CHOSEN_BITS: u32 = 40;

impl Key for Load {
    #[inline]
    fn bits(self) -> u128 {
        debug_assert!(self.last_chosen < 1 << CHOSEN_BITS && self.outstanding_tokens < 1 << (96 - CHOSEN_BITS));
        u128::from(self.outstanding_tokens) << CHOSEN_BITS | u128::from(self.last_chosen)
    }

    #[inline]
    fn of(bits: u128) -> Self {
        let last_chosen = bits as u64 & ((1 << CHOSEN_BITS) - 1);
        Self { outstanding_tokens: (bits >> CHOSEN_BITS) as u64, last_chosen }
    }
}

/// Requests of a replica by whether they have their first token.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stage {
    /// Prompt tokens of those that have not.
    pub backlog_tokens: u64,
    /// Those that have, and their prompt tokens.
    pub n_decoding: u64,
    pub context_tokens: u64,
}

/// The replicas of one deployment.
struct Group {
    first: u32,
    /// Numbers of those that take requests, ascending.
    up: Vec<u32>,
    /// Those, by load; only kept where somebody asks for the least.
    loads: Option<IndexedHeap<Load>>,
    outstanding_tokens: u64,
    n_requests: u64,
}

/// What is known of all replicas.
pub struct Signals {
    groups: Vec<Group>,
    group_of: Vec<u32>,
    loads: Vec<Load>,
    /// Only kept where predictions need it.
    stages: Vec<Stage>,
    n_sent: u64,
}

impl Signals {
    pub fn new(spec: &SimSpec) -> Self {
        let mut groups = Vec::new();
        let mut group_of = Vec::new();
        for (at, placed) in spec.deployments.iter().enumerate() {
            let first = group_of.len() as u32;
            group_of.resize(group_of.len() + placed.n_replicas, at as u32);
            let up: Vec<u32> = (first..group_of.len() as u32).collect();
            let is_asked = spec.router.needs_least() || spec.deployments.iter().any(|d| d.decode_targets.contains(&at));
            let loads = is_asked.then(|| {
                let mut heap = IndexedHeap::new(up.len());
                (0..up.len() as u32).for_each(|member| heap.set(member, Load::default()));
                heap
            });
            groups.push(Group { first, up, loads, outstanding_tokens: 0, n_requests: 0 });
        }
        let n = group_of.len();
        let stages = if spec.router == RouterKind::SloAware { vec![Stage::default(); n] } else { Vec::new() };
        Self { groups, group_of, loads: vec![Load::default(); n], stages, n_sent: 0 }
    }

    pub fn load(&self, replica: u32) -> Load {
        self.loads[replica as usize]
    }

    pub fn stage(&self, replica: u32) -> Stage {
        self.stages[replica as usize]
    }

    pub fn n_requests(&self, deployment: usize) -> u64 {
        self.groups[deployment].n_requests
    }

    /// Replicas of these deployments that take requests.
    pub fn n_up(&self, among: &[usize]) -> u64 {
        among.iter().map(|&d| self.groups[d].up.len() as u64).sum()
    }

    /// Outstanding tokens of these deployments.
    pub fn outstanding_tokens(&self, among: &[usize]) -> u64 {
        among.iter().map(|&d| self.groups[d].outstanding_tokens).sum()
    }

    /// The `n`-th (modulo their number) of those that take requests, deployment by deployment.
    pub fn nth_up(&self, among: &[usize], n: u64) -> Option<u32> {
        let mut left = n.checked_rem(self.n_up(among))? as usize;
        for &d in among {
            let up = &self.groups[d].up;
            if left < up.len() {
                return Some(up[left]);
            }
            left -= up.len();
        }
        None
    }

    /// The `n`-th (modulo their number) of all replicas, or the next one that takes requests.
    pub fn next_up(&self, among: &[usize], draw: impl FnOnce(u64) -> u64) -> Option<u32> {
        let end = |d: usize| self.groups.get(d + 1).map_or(self.group_of.len() as u32, |next| next.first);
        let n_all: u64 = among.iter().map(|&d| u64::from(end(d) - self.groups[d].first)).sum();
        let mut left = draw(n_all);
        for (at, &d) in among.iter().enumerate() {
            let n = u64::from(end(d) - self.groups[d].first);
            if left < n {
                let wanted = self.groups[d].first + left as u32;
                let up = &self.groups[d].up;
                let place = up.partition_point(|&replica| replica < wanted);
                let later = among[at + 1..].iter().chain(&among[..=at]).find_map(|&d| self.groups[d].up.first());
                return up.get(place).or(later).copied();
            }
            left -= n;
        }
        None
    }

    /// The one with the least to do.
    pub fn least(&self, among: &[usize]) -> Option<u32> {
        among.iter().filter_map(|&d| self.least_of(d)).min().map(|(_, replica)| replica)
    }

    /// The one of a deployment with the least to do.
    pub fn least_of(&self, deployment: usize) -> Option<(Load, u32)> {
        let group = &self.groups[deployment];
        group.loads.as_ref()?.peek().map(|(load, member)| (load, group.first + member))
    }

    /// The `n` of a deployment with the least to do.
    pub fn few_of(&self, deployment: usize, n: usize) -> Vec<(Load, u32)> {
        let group = &self.groups[deployment];
        let mut found = Vec::with_capacity(n.min(group.up.len()));
        if let Some(heap) = &group.loads {
            heap.least(n, &mut found);
        }
        for (_, member) in &mut found {
            *member += group.first;
        }
        found
    }

    pub fn sent(&mut self, replica: u32, input_tokens: u64) {
        self.n_sent += 1;
        let group = &mut self.groups[self.group_of[replica as usize] as usize];
        group.n_requests += 1;
        group.outstanding_tokens += input_tokens;
        let load = &mut self.loads[replica as usize];
        load.last_chosen = self.n_sent;
        load.outstanding_tokens += input_tokens;
        if let Some(stage) = self.stages.get_mut(replica as usize) {
            stage.backlog_tokens += input_tokens;
        }
        self.renew(replica);
    }

    pub fn first_token(&mut self, replica: u32, input_tokens: u64) {
        if let Some(stage) = self.stages.get_mut(replica as usize) {
            stage.backlog_tokens -= input_tokens;
            stage.n_decoding += 1;
            stage.context_tokens += input_tokens;
        }
    }

    pub fn ended(&mut self, replica: u32, input_tokens: u64, has_first_token: bool) {
        let group = &mut self.groups[self.group_of[replica as usize] as usize];
        group.n_requests -= 1;
        group.outstanding_tokens -= input_tokens;
        self.loads[replica as usize].outstanding_tokens -= input_tokens;
        if let Some(stage) = self.stages.get_mut(replica as usize) {
            if has_first_token {
                stage.n_decoding -= 1;
                stage.context_tokens -= input_tokens;
            } else {
                stage.backlog_tokens -= input_tokens;
            }
        }
        self.renew(replica);
    }

    pub fn set_up(&mut self, replica: u32, is_up: bool) {
        let group = &mut self.groups[self.group_of[replica as usize] as usize];
        match (group.up.binary_search(&replica), is_up) {
            (Err(place), true) => group.up.insert(place, replica),
            (Ok(place), false) => {
                group.up.remove(place);
            }
            _ => return,
        }
        let member = replica - group.first;
        if let Some(heap) = &mut group.loads {
            if is_up {
                heap.set(member, self.loads[replica as usize]);
            } else {
                heap.remove(member);
            }
        }
    }

    /// Put a replica where its load belongs, if it takes requests.
    fn renew(&mut self, replica: u32) {
        let group = &mut self.groups[self.group_of[replica as usize] as usize];
        if let Some(heap) = &mut group.loads {
            heap.change(replica - group.first, self.loads[replica as usize]);
        }
    }
}
