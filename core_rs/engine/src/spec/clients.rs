//! What clients do when they wait long.

use serde::Deserialize;

/// How a client tries again.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrySpec {
    /// How often.
    pub n: u32,
    /// From the failure to the first retry; each further wait is `factor` times as long as the one before.
    pub backoff_ns: u64,
    #[serde(default = "one")]
    pub factor: f64,
}

fn one() -> f64 {
    1.0
}

impl RetrySpec {
    /// The wait before retry `attempt` (0 is the first).
    pub fn wait_ns(&self, attempt: u32) -> u64 {
        let mut wait = self.backoff_ns as f64;
        for _ in 0..attempt {
            wait *= self.factor;
        }
        wait as u64
    }
}
