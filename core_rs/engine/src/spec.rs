//! What a simulation is asked for: read once from JSON, refused if anything in it is unknown or out of range.

mod clients;
mod operation;
mod routing;

use serde::Deserialize;

use crate::batches::Batches;
use crate::class_meter::{Limit, Metric};
use crate::deployment::DeploymentSpec;
use crate::error::{Error, Result};

pub use clients::RetrySpec;
pub use operation::{AutoscaleSpec, FailureSpec, OutageSpec};
pub use routing::{LinkSpec, Role, RouterKind, RouterOptions};

/// The version of the simulation spec that this build reads.
pub const SPEC_VERSION: u32 = 1;

/// Where a class may run: a set of deployments, and the share of its requests that is drawn for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    pub deployments: Vec<usize>,
    /// Of the class's requests; all targets of a class have one, or it has a single target without.
    pub share: Option<f64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    pub limits: Vec<Limit>,
    pub targets: Vec<TargetSpec>,
    /// 0 goes first. Where all are equal, it is first come, first served.
    #[serde(default)]
    pub priority: u32,
    /// The most requests that run on a replica while one of this class does.
    #[serde(default)]
    pub batch_cap: Option<u64>,
    /// A request without its first token so long after it was sent is given up.
    #[serde(default)]
    pub timeout_ns: Option<u64>,
    /// The client goes away so long after it came, whatever it has got.
    #[serde(default)]
    pub cancel_after_ns: Option<u64>,
    #[serde(default)]
    pub retries: Option<RetrySpec>,
    /// A chain goes on after a request of it that failed; otherwise the rest of it is cancelled.
    #[serde(default)]
    pub chains_go_on: bool,
    /// By pool, how long a message from its clients and the answer to it are under way; none where empty.
    #[serde(default)]
    pub round_trip_ns: Vec<u32>,
}

/// What becomes of the keys and values of a sequence that is driven out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preemption {
    /// They are lost, and computed again.
    #[default]
    Recompute,
    /// They go to host memory while it has room.
    Swap,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacedSpec {
    pub pool_ix: usize,
    pub n_replicas: usize,
    pub deployment: DeploymentSpec,
    #[serde(default)]
    pub prefix_cache: bool,
    #[serde(default)]
    pub preemption: Preemption,
    /// Host memory of a replica for keys and values, and its link.
    #[serde(default)]
    pub host_kv_bytes: f64,
    #[serde(default)]
    pub host_link_bytes_per_s: Option<f64>,
    /// Share of the blocks that admission leaves free while anything runs.
    #[serde(default)]
    pub watermark_frac: f64,
    /// A step is formed while the one before it runs (`replica/ahead.rs`).
    #[serde(default)]
    pub async_scheduling: bool,
    /// A prompt is admitted only to a step that takes the whole of it.
    #[serde(default)]
    pub whole_prompts: bool,
    #[serde(default)]
    pub role: Role,
    /// Prefill: the deployments that take over what it hands over.
    #[serde(default)]
    pub decode_targets: Vec<usize>,
    /// From switching a replica on, or the end of its repair, to its first request.
    #[serde(default)]
    pub cold_start_ns: u64,
    /// What runs on them is lost.
    #[serde(default)]
    pub outages: Vec<OutageSpec>,
    #[serde(default)]
    pub failures: Vec<FailureSpec>,
    /// Planned: the replicas take no new requests and end those they have.
    #[serde(default)]
    pub maintenance: Vec<OutageSpec>,
    #[serde(default)]
    pub autoscale: Option<AutoscaleSpec>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimSpec {
    pub spec_version: u32,
    pub seed: u64,
    pub warmup_ns: u64,
    pub length_ns: u64,
    pub drain_ns: u64,
    pub window_ns: u64,
    pub router: RouterKind,
    pub n_pools: usize,
    /// Prompt tokens that a hash stands for; 0 = no hashes come.
    #[serde(default)]
    pub hash_block_tokens: u64,
    pub classes: Vec<ClassSpec>,
    pub deployments: Vec<PlacedSpec>,
    /// Keep a row for each request.
    pub keep_requests: bool,
    #[serde(default)]
    pub router_options: RouterOptions,
    /// Between prefill and decode replicas; without it handing over takes no time.
    #[serde(default)]
    pub link: Option<LinkSpec>,
    /// A request that a failure takes is turned away (its client may try again) rather than sent to another replica.
    #[serde(default)]
    pub lost_are_rejected: bool,
    /// Stretches of steps to keep for a timeline; those after so many are counted only.
    #[serde(default)]
    pub timeline_rows: usize,
    /// Of which the latencies are told apart.
    #[serde(default)]
    pub batches: Option<Batches>,
}

/// The longest time a simulation may span: 100 years.
const MAX_NS: u64 = 100 * 366 * 86_400 * 1_000_000_000;
/// What one cell may hold, so that a mistaken unit is refused before memory runs out.
const MAX_REPLICAS: usize = 1_000_000;
const MAX_CLASSES_X_POOLS: usize = 1_000_000;
const MAX_WINDOWS: u64 = 10_000_000;
const MAX_BLOCK_TOKENS: u64 = 65_536;
const MAX_HOST_BYTES: f64 = 1e18;
const MAX_RETRIES: u32 = 1_000;
const MAX_PERCENT: u64 = 1_000_000;
/// What happens to a replica again and again does so at most every millisecond.
const MIN_AGAIN_NS: u64 = 1_000_000;
/// ... and so often in a run at most, of each kind and deployment.
const MAX_AGAIN: u64 = 100_000_000;

impl SimSpec {
    /// Read a spec from JSON.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let spec: Self = serde_json::from_slice(bytes).map_err(|e| Error::input("spec", e.to_string()))?;
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<()> {
        let refuse = |field: &str, what: &str| Err(Error::input(field, what));
        if self.spec_version != SPEC_VERSION {
            return refuse(
                "spec_version",
                &format!("this core reads version {SPEC_VERSION}, got {}", self.spec_version),
            );
        }
        if self.warmup_ns > self.length_ns {
            return refuse("warmup_ns", "must not be above length_ns");
        }
        if self.length_ns > MAX_NS || self.drain_ns > MAX_NS {
            return refuse("length_ns, drain_ns", "must be at most 100 years");
        }
        if self.window_ns == 0 || (self.length_ns + self.drain_ns) / self.window_ns > MAX_WINDOWS {
            return refuse("window_ns", &format!("must be above 0 and cut the run into at most {MAX_WINDOWS} windows"));
        }
        if self.classes.is_empty() || self.classes.len() > usize::from(u16::MAX) {
            return refuse("classes", "must be 1 to 65535");
        }
        if self.n_pools > usize::from(u16::MAX) || self.n_pools * self.classes.len() > MAX_CLASSES_X_POOLS {
            return refuse(
                "n_pools",
                &format!("must be at most 65535, and {MAX_CLASSES_X_POOLS} with those of each class"),
            );
        }
        let n_replicas = self.deployments.iter().map(|d| d.n_replicas).fold(0, usize::saturating_add);
        if n_replicas == 0 || n_replicas > MAX_REPLICAS {
            return refuse("deployments", &format!("must have 1 to {MAX_REPLICAS} replicas; use more cells"));
        }
        for placed in &self.deployments {
            if placed.pool_ix >= self.n_pools {
                return refuse("deployments.pool_ix", "no such pool");
            }
            if placed.deployment.serving.block_tokens > MAX_BLOCK_TOKENS {
                return refuse("serving.block_tokens", &format!("must be at most {MAX_BLOCK_TOKENS}"));
            }
            self.check_cache(placed)?;
        }
        self.check_deployments()?;
        self.check_router()?;
        self.check_batches()?;
        for class in &self.classes {
            if class.batch_cap == Some(0) {
                return refuse("classes.batch_cap", "must be at least 1");
            }
            let n_shares = class.targets.iter().filter(|t| t.share.is_some()).count();
            let is_single = class.targets.len() == 1 && n_shares == 0;
            if !is_single && (n_shares != class.targets.len() || n_shares == 0) {
                return refuse("classes.targets", "need a share each, or one target without");
            }
            let total: f64 = class.targets.iter().filter_map(|t| t.share).sum();
            if n_shares > 0 && ((total - 1.0).abs() > 1e-9 || class.targets.iter().any(|t| t.share < Some(0.0))) {
                return refuse("classes.targets.share", "must be at least 0 and sum to 1");
            }
            if !class.round_trip_ns.is_empty() && class.round_trip_ns.len() != self.n_pools {
                return refuse("classes.round_trip_ns", "needs one of each pool, or none");
            }
            if class.retries.is_some_and(|r| !(1.0..=1e6).contains(&r.factor) || r.n > MAX_RETRIES) {
                return refuse("classes.retries", &format!("factor must be 1 to 1e6, n at most {MAX_RETRIES}"));
            }
            if class.limits.iter().any(|limit| limit.metric == Metric::Task) {
                return refuse("classes.limits", "task is of several requests, so none of them can hold it");
            }
            for target in &class.targets {
                let n: usize =
                    target.deployments.iter().filter_map(|&d| self.deployments.get(d)).map(|d| d.n_replicas).sum();
                if target.deployments.iter().any(|&d| d >= self.deployments.len()) || n == 0 {
                    return refuse("classes.targets.deployments", "no such deployment, or none with a replica");
                }
                if target.deployments.iter().any(|&d| self.deployments[d].role == Role::Decode) {
                    return refuse("classes.targets.deployments", "a decode deployment takes no prompts");
                }
                if (1..target.deployments.len()).any(|i| target.deployments[..i].contains(&target.deployments[i])) {
                    return refuse("classes.targets.deployments", "a deployment is listed twice");
                }
            }
        }
        Ok(())
    }

    fn check_cache(&self, placed: &PlacedSpec) -> Result<()> {
        let refuse = |field: &str, what: &str| Err(Error::input(field, what));
        let block_tokens = placed.deployment.serving.block_tokens.max(1);
        if placed.prefix_cache && !self.hash_block_tokens.is_multiple_of(block_tokens) {
            let what = format!("must be a multiple of serving.block_tokens, {block_tokens}");
            return refuse("hash_block_tokens", &what);
        }
        if !(0.0..1.0).contains(&placed.watermark_frac) {
            return refuse("deployments.watermark_frac", "must be from 0 to below 1");
        }
        if !(0.0..=MAX_HOST_BYTES).contains(&placed.host_kv_bytes) {
            return refuse("deployments.host_kv_bytes", &format!("must be from 0 to {MAX_HOST_BYTES:e}"));
        }
        if placed.host_link_bytes_per_s.is_some_and(|rate| !(1.0..=MAX_HOST_BYTES).contains(&rate)) {
            let what = format!("must be from 1 to {MAX_HOST_BYTES:e} bytes a second");
            return refuse("deployments.host_link_bytes_per_s", &what);
        }
        if placed.host_kv_bytes > 0.0 && placed.host_link_bytes_per_s.is_none() {
            return refuse("deployments.host_link_bytes_per_s", "is needed with host_kv_bytes");
        }
        if placed.preemption == Preemption::Swap && placed.host_kv_bytes == 0.0 {
            return refuse("deployments.host_kv_bytes", "is needed to swap");
        }
        Ok(())
    }

    fn check_batches(&self) -> Result<()> {
        let Some(Batches { first_ns, each_ns, n }) = self.batches else { return Ok(()) };
        if each_ns == 0 || n == 0 || u128::from(first_ns) + u128::from(each_ns) * u128::from(n) > u128::from(MAX_NS) {
            return Err(Error::input("batches", "must be some, of some length, and within 100 years"));
        }
        if n as usize * self.classes.len() > usize::from(u16::MAX)
            || n as usize * self.classes.len() * self.n_pools > MAX_CLASSES_X_POOLS
        {
            return Err(Error::input("batches.n", "too many with those of each class and pool"));
        }
        Ok(())
    }

    fn check_router(&self) -> Result<()> {
        let refuse = |field: &str, what: &str| Err(Error::input(format!("router_options.{field}"), what));
        let options = &self.router_options;
        if !(1..=MAX_REPLICAS).contains(&options.n_candidates) {
            return refuse("n_candidates", &format!("must be 1 to {MAX_REPLICAS}"));
        }
        if options.most_percent > MAX_PERCENT {
            return refuse("most_percent", &format!("must be at most {MAX_PERCENT}"));
        }
        if !(0.0..=1.0).contains(&options.spill_frac) {
            return refuse("spill_frac", "must be from 0 to 1");
        }
        Ok(())
    }

    /// How often something may happen that comes every `each_ns` at the soonest.
    fn times(&self, each_ns: u64) -> u64 {
        (self.length_ns + self.drain_ns) / each_ns.max(1)
    }

    /// What a deployment says of others and of its replicas.
    fn check_deployments(&self) -> Result<()> {
        let refuse = |at: usize, field: &str, what: &str| Err(Error::input(format!("deployments[{at}].{field}"), what));
        if self.link.is_some_and(|link| !(link.bytes_per_s > 0.0 && link.bytes_per_s.is_finite())) {
            return Err(Error::input("link.bytes_per_s", "must be above 0"));
        }
        for (at, placed) in self.deployments.iter().enumerate() {
            let is_prefill = placed.role == Role::Prefill;
            if is_prefill == placed.decode_targets.is_empty() {
                return refuse(at, "decode_targets", "belong to the role prefill, which needs one");
            }
            let takes_over =
                |&d: &usize| self.deployments.get(d).is_some_and(|to| to.role != Role::Prefill && to.n_replicas > 0);
            if !placed.decode_targets.iter().all(takes_over) {
                return refuse(
                    at,
                    "decode_targets",
                    "no such deployment, or one that only prefills, or has no replica",
                );
            }
            let n = placed.n_replicas as u64;
            let is_off = |o: &OutageSpec| u64::from(o.first) + u64::from(o.n_replicas) > n || o.length_ns == 0;
            if placed.outages.iter().chain(&placed.maintenance).any(is_off) {
                return refuse(at, "outages, maintenance", "must be of replicas that there are, and of some length");
            }
            let is_hasty = |f: &FailureSpec| f.mean_ns < MIN_AGAIN_NS || f.repair_ns == 0 || f.n_together == 0;
            if placed.failures.iter().any(is_hasty) {
                return refuse(
                    at,
                    "failures",
                    "must have a mean time of 1 ms or more, a repair time and a number above 0",
                );
            }
            let groups = |f: &FailureSpec| n.div_ceil(u64::from(f.n_together));
            if placed.failures.iter().any(|f| self.times(f.mean_ns).saturating_mul(groups(f)) > MAX_AGAIN) {
                return refuse(at, "failures", &format!("would be more than {MAX_AGAIN} in the run"));
            }
            if placed.autoscale.is_some_and(|s| {
                s.min == 0 || s.max < s.min || u64::from(s.max) > n || s.target_ppm == 0 || s.delay_ns < MIN_AGAIN_NS
            }) {
                return refuse(
                    at,
                    "autoscale",
                    "must be 1 <= min <= max <= n_replicas, with a target and a delay of 1 ms or more",
                );
            }
            if placed.autoscale.is_some_and(|s| self.times(s.delay_ns) > MAX_AGAIN) {
                return refuse(
                    at,
                    "autoscale.delay_ns",
                    &format!("would be more than {MAX_AGAIN} decisions in the run"),
                );
            }
        }
        Ok(())
    }
}
