//! Requests drawn by law.

use serde::Deserialize;

use super::Next;
use crate::error::Result;
use crate::sample::{ArrivalSpec, Arrivals, Dist, LengthDrawer, LengthSpec};

/// Arrivals drawn at a time.
const AT_ONCE: usize = 4096;

/// When the requests of a class come, and how long they are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LawSpec {
    pub arrivals: ArrivalSpec,
    pub input: Dist,
    pub output: Dist,
    pub context_tokens: Option<u64>,
}

pub struct Law {
    arrivals: Arrivals,
    lengths: LengthDrawer,
    drawn: Vec<u64>,
    at: usize,
    is_last: bool,
}

impl Law {
    pub fn new(spec: &LawSpec) -> Result<Self> {
        let lengths = LengthDrawer::new(&LengthSpec {
            seed: spec.arrivals.seed,
            key: spec.arrivals.key,
            first: 0,
            n: 0,
            input: spec.input.clone(),
            output: spec.output.clone(),
            context_tokens: spec.context_tokens,
        })?;
        Ok(Self { arrivals: Arrivals::new(&spec.arrivals)?, lengths, drawn: Vec::new(), at: 0, is_last: false })
    }

    /// About how many requests come.
    pub fn expected(&self) -> f64 {
        self.arrivals.mean()
    }

    pub fn next(&mut self) -> Result<Next> {
        if self.at == self.drawn.len() && !self.is_last {
            self.drawn = self.arrivals.next(AT_ONCE)?;
            self.is_last = self.drawn.len() < AT_ONCE;
            self.at = 0;
        }
        Ok(self.drawn.get(self.at).map_or(Next::Over, |at| Next::At(*at)))
    }

    pub fn take(&mut self, k: u64, is_mine: bool) -> (u32, u32, u32) {
        self.at += 1;
        if is_mine {
            self.lengths.of(k)
        } else {
            (0, 0, 0)
        }
    }
}
