//! How the router of a cell chooses, and the link over which prompts are handed over.

use serde::Deserialize;

/// How a cell chooses a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouterKind {
    /// Each replica in turn.
    RoundRobin,
    /// Any replica, drawn for each request.
    Random,
    /// Of two drawn replicas the one whose unfinished requests have fewer prompt tokens.
    PowerOfTwo,
    /// The replica whose unfinished requests have the fewest prompt tokens.
    LeastOutstandingTokens,
    /// The replica with the fewest unfinished requests.
    LeastRequests,
    /// The replica that the head of the prompt names, unless it has far more to do than the others.
    PrefixAffine,
    /// The replica that the session names, unless it has far more to do than the others.
    SessionAffine,
    /// The replica with the least predicted time to the first token, of those with the least to do.
    SloAware,
    /// The first deployment of the target that is not full.
    CheapestFirst,
}

impl RouterKind {
    /// What a request of so many prompt tokens counts as outstanding.
    pub fn weight(self, input_tokens: u32) -> u64 {
        if self == Self::LeastRequests {
            1
        } else {
            u64::from(input_tokens)
        }
    }

    /// Whether it asks for the replica with the least to do.
    pub fn needs_least(self) -> bool {
        !matches!(self, Self::RoundRobin | Self::Random | Self::PowerOfTwo)
    }
}

/// What a router does in the cases that its kind leaves open.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouterOptions {
    /// slo-aware: how many replicas of each deployment it predicts for.
    pub n_candidates: usize,
    /// slo-aware: turn away what no candidate is predicted to serve within the limit.
    pub rejects: bool,
    /// affine: percent of the mean outstanding tokens beyond which a replica is passed over.
    pub most_percent: u64,
    /// cheapest-first: share of the cache which outstanding prompts may fill before the next deployment is tried.
    pub spill_frac: f64,
}

impl Default for RouterOptions {
    fn default() -> Self {
        Self { n_candidates: 4, rejects: false, most_percent: 150, spill_frac: 0.5 }
    }
}

/// The link between prefill and decode replicas, shared by the whole cell.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    pub bytes_per_s: f64,
    #[serde(default)]
    pub latency_ns: u64,
}

/// What a deployment's replicas do of a request's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Prompt and answer.
    #[default]
    Mixed,
    /// The prompt and the first token; the rest is handed over.
    Prefill,
    /// What prefill replicas hand over.
    Decode,
}
