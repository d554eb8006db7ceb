//! Which replica gets a request: what a real router knows (prompts and queue states), never true output lengths.
//!
//! One file for each way to choose; `signals.rs` has what they look at.

mod affine;
mod cheapest;
mod draws;
mod signals;
mod slo;

use crate::class_meter::Metric;
use crate::inbox::Asked;
use crate::placed::Deployment;
use crate::rng::{Purpose, Stream};
use crate::spec::{RouterKind, RouterOptions, SimSpec};

use signals::Signals;

/// Replicas that may serve a share of a class.
struct Target {
    deployments: Vec<usize>,
    /// Requests that were sent here in turn.
    n_turns: u64,
}

/// What a class allows.
struct Class {
    /// Upper ends of the shares of its targets.
    ends: Vec<f64>,
    targets: Vec<Target>,
    ttft_limit_ns: Option<u64>,
    /// By pool; none where empty.
    round_trip_ns: Vec<u32>,
}

/// A request as the router sees it.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    pub asked: Asked,
    /// How often it was sent before.
    pub attempt: u32,
    /// The head of its prompt, where prompts are told apart.
    pub prefix: Option<u64>,
}

impl Ask {
    /// The draws of this request for `purpose`.
    fn stream(&self, seed: u64, purpose: Purpose) -> Stream {
        let attempt = u64::from(self.attempt) << 32;
        Stream::new(seed, purpose, u64::from(self.asked.class) | attempt, self.asked.row)
    }
}

/// The router of one cell.
pub struct Router {
    kind: RouterKind,
    options: RouterOptions,
    seed: u64,
    classes: Vec<Class>,
    signals: Signals,
    /// cheapest-first: outstanding tokens at which a replica of each deployment is full.
    full_tokens: Vec<u64>,
}

impl Router {
    /// A router for a checked spec; replicas are numbered deployment by deployment.
    pub fn new(spec: &SimSpec, deployments: &[Deployment]) -> Self {
        let classes = spec.classes.iter().map(|class| {
            let mut end = 0.0;
            let ends = class.targets.iter().map(|target| {
                end += target.share.unwrap_or(1.0);
                end
            });
            let targets = class.targets.iter();
            let limits = class.limits.iter().filter(|limit| limit.metric == Metric::Ttft);
            Class {
                ends: ends.collect(),
                targets: targets.map(|t| Target { deployments: t.deployments.clone(), n_turns: 0 }).collect(),
                ttft_limit_ns: limits.map(|limit| limit.limit_ns).min(),
                round_trip_ns: class.round_trip_ns.clone(),
            }
        });
        let full = |d: &Deployment| (d.model.kv_capacity_tokens() as f64 * spec.router_options.spill_frac) as u64;
        Self {
            kind: spec.router,
            options: spec.router_options.clone(),
            seed: spec.seed,
            classes: classes.collect(),
            signals: Signals::new(spec),
            full_tokens: deployments.iter().map(full).collect(),
        }
    }

    /// Choose a replica for a request and note that it goes there; none if none is up, or none would do.
    pub fn choose(&mut self, ask: &Ask, deployments: &[Deployment]) -> Option<u32> {
        let class = &mut self.classes[usize::from(ask.asked.class)];
        let at = if class.targets.len() == 1 {
            0
        } else {
            let draw = ask.stream(self.seed, Purpose::RouteShare).uniform();
            class.ends.iter().position(|&end| draw < end).unwrap_or(class.targets.len() - 1)
        };
        let target = &mut class.targets[at];
        let among = &target.deployments;
        let input = self.kind.weight(ask.asked.input_tokens);
        let signals = &self.signals;
        let replica = match self.kind {
            RouterKind::RoundRobin => {
                let replica = signals.nth_up(among, target.n_turns);
                target.n_turns += 1;
                replica
            }
            RouterKind::Random => draws::any(signals, among, &mut ask.stream(self.seed, Purpose::RouterChoice)),
            RouterKind::PowerOfTwo => {
                draws::better_of_two(signals, among, &mut ask.stream(self.seed, Purpose::RouterChoice))
            }
            RouterKind::LeastOutstandingTokens | RouterKind::LeastRequests => signals.least(among),
            RouterKind::PrefixAffine | RouterKind::SessionAffine => {
                let is_prefix = self.kind == RouterKind::PrefixAffine;
                let key = ask.prefix.filter(|_| is_prefix).or(ask.asked.session);
                affine::named(signals, among, key, self.seed, input, self.options.most_percent)
            }
            RouterKind::SloAware => {
                let (limit, away) = (class.ttft_limit_ns, &class.round_trip_ns);
                slo::soonest(signals, among, deployments, &self.options, limit, away, input)
            }
            RouterKind::CheapestFirst => cheapest::first_with_room(signals, among, &self.full_tokens, input),
        }?;
        self.signals.sent(replica, input);
        Some(replica)
    }

    /// Choose who takes over from a prefill replica: of `among` the one with the fewest outstanding tokens.
    pub fn choose_decode(&mut self, among: &[usize], input_tokens: u32) -> Option<u32> {
        let replica = self.signals.least(among)?;
        let input = self.kind.weight(input_tokens);
        self.signals.sent(replica, input);
        self.signals.first_token(replica, input);
        Some(replica)
    }

    /// The replica that is likely to be chosen next, if that can be told before the request is there.
    pub fn likely(&self) -> Option<u32> {
        self.signals.least(&self.classes.first()?.targets.first()?.deployments)
    }

    /// A request that was sent to `replica` has its first token.
    pub fn first_token(&mut self, replica: u32, input_tokens: u32) {
        self.signals.first_token(replica, self.kind.weight(input_tokens));
    }

    /// Whether first tokens change what this router sees.
    pub fn needs_first_tokens(&self) -> bool {
        self.kind == RouterKind::SloAware
    }

    /// A request that was sent to `replica` has ended there, with or without a first token.
    pub fn ended(&mut self, replica: u32, input_tokens: u32, has_first_token: bool) {
        self.signals.ended(replica, self.kind.weight(input_tokens), has_first_token);
    }

    /// `replica` takes requests, or none any more.
    pub fn set_up(&mut self, replica: u32, is_up: bool) {
        self.signals.set_up(replica, is_up);
    }

    /// Requests on the replicas of `deployment`.
    pub fn n_requests(&self, deployment: usize) -> u64 {
        self.signals.n_requests(deployment)
    }
}
