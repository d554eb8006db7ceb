//! What happens to replicas while they serve: failures, maintenance, and a number that follows the load.

use serde::Deserialize;

/// Replicas that are down at a known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageSpec {
    pub at_ns: u64,
    pub length_ns: u64,
    /// The first of them, counted inside the deployment, and how many.
    pub first: u32,
    pub n_replicas: u32,
}

/// Failures that come by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureSpec {
    /// Mean time from the begin, or from the end of a repair, to the next failure.
    pub mean_ns: u64,
    pub repair_ns: u64,
    /// How many neighbouring replicas fail together.
    pub n_together: u32,
    /// Failures of the same key fail together over deployments: their first replicas, their second, and so on.
    #[serde(default)]
    pub key: Option<u32>,
}

/// Replicas that are switched on and off with the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoscaleSpec {
    pub min: u32,
    pub max: u32,
    /// Requests in the system over what the replicas hold at `max_batch`, in millionths: above it one is added.
    pub target_ppm: u64,
    /// Time between two decisions.
    pub delay_ns: u64,
}

impl AutoscaleSpec {
    /// How many replicas there are after a decision with `n_requests` in the system and `n` replicas.
    ///
    /// One is taken away only where the rest would stay below the target, so a constant load never makes it swing.
    pub fn decide(&self, n_requests: u64, n: u32, max_batch: u64) -> u32 {
        let load = u128::from(n_requests) * 1_000_000;
        let room = |n: u32| u128::from(self.target_ppm) * u128::from(n) * u128::from(max_batch);
        if load > room(n) {
            (n + 1).min(self.max)
        } else if n > self.min && load < room(n - 1) {
            n - 1
        } else {
            n
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case C35: two replicas at 0.70 with a limit of 0.80 stay two; of ten one goes, of nine none.
    #[test]
    fn scale_in_never_undoes_itself() {
        let scale = AutoscaleSpec { min: 1, max: 20, target_ppm: 800_000, delay_ns: 1 };
        assert_eq!(scale.decide(140, 2, 100), 2);
        assert_eq!(scale.decide(700, 10, 100), 9);
        assert_eq!(scale.decide(700, 9, 100), 9);
        for load in 0..2_500 {
            let mut n = 10;
            let steps: Vec<u32> = std::iter::repeat_with(|| {
                n = scale.decide(load, n, 100);
                n
            })
            .take(40)
            .collect();
            assert!(steps.windows(2).skip(20).all(|pair| pair[0] == pair[1]), "load {load} swings: {steps:?}");
        }
    }
}
