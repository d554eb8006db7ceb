//! Speculative decoding: a draft of tokens that one step verifies, and the clock that says how many of them are kept.
//!
//! With a draft of d tokens, each accepted with chance a where those before it were, a step gives 1 + a + ... + a^d
//! tokens on average. The clock is that mean in fixed point: every sequence of a replica gains the same tokens in a
//! step, so jumps stay closed. The variance of acceptance is left out.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The longest draft.
pub const MAX_DRAFT: u64 = 64;

/// How a deployment drafts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeculationSpec {
    /// Tokens drafted for each sequence and step.
    pub draft_tokens: u64,
    /// Chance that a drafted token is accepted, given that those before it were.
    pub acceptance_frac: f64,
    /// What drafting one token costs, as a share of a step without drafts.
    #[serde(default)]
    pub draft_cost_frac: f64,
}

impl SpeculationSpec {
    pub fn validate(&self) -> Result<()> {
        let refuse = |field: &str, what: String| Err(Error::input(format!("serving.speculation.{field}"), what));
        if self.draft_tokens > MAX_DRAFT {
            return refuse("draft_tokens", format!("must be at most {MAX_DRAFT}, got {}", self.draft_tokens));
        }
        for (field, value) in [("acceptance_frac", self.acceptance_frac), ("draft_cost_frac", self.draft_cost_frac)] {
            if !(0.0..=1.0).contains(&value) {
                return refuse(field, format!("must be from 0 to 1, got {value}"));
            }
        }
        Ok(())
    }

    /// Tokens of a sequence that a step works on.
    pub fn verified_tokens(&self) -> u64 {
        1 + self.draft_tokens
    }

    /// Mean tokens that a step gives a sequence.
    pub fn mean_tokens(&self) -> f64 {
        (0..self.draft_tokens).fold(1.0, |mean, _| 1.0 + self.acceptance_frac * mean)
    }
}

/// The clock of kept tokens, in units of 2^-20 tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    per_step: u32,
    /// What the steps so far gave beyond whole tokens.
    phase: u32,
}

/// What outputs take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanSteps {
    /// Steps of an output.
    pub steps: f64,
    /// Steps over tokens, a mean over outputs.
    pub a_token: f64,
}

/// Longer outputs take steps that are as good as a line in their length.
const FEW_TOKENS: f64 = 256.0;
const BITS: u32 = 20;
const ONE: u64 = 1 << BITS;

impl Default for Pace {
    /// A token a step.
    fn default() -> Self {
        Self { per_step: ONE as u32, phase: 0 }
    }
}

impl Pace {
    /// The clock of a deployment, at its beginning.
    pub fn new(speculation: Option<&SpeculationSpec>) -> Self {
        speculation.map_or_else(Self::default, |spec| Self {
            per_step: (spec.mean_tokens() * ONE as f64 + 0.5) as u32, // of at most 65 tokens
            phase: 0,
        })
    }

    /// A token a step, with nothing to keep in mind.
    pub fn is_plain(self) -> bool {
        self.per_step == ONE as u32
    }

    /// Where it stands within a token.
    pub fn phase(self) -> u32 {
        self.phase
    }

    /// The same clock where it stands so.
    pub fn at(self, phase: u32) -> Self {
        Self { phase, ..self }
    }

    /// Mean tokens of a step.
    pub fn mean(self) -> f64 {
        self.per_step as f64 / ONE as f64
    }

    /// Tokens that the next `steps` steps give.
    pub fn tokens(self, steps: u64) -> u64 {
        if self.is_plain() {
            return steps;
        }
        let all = u128::from(self.phase) + u128::from(steps) * u128::from(self.per_step);
        u64::try_from(all >> BITS).unwrap_or(u64::MAX)
    }

    /// The fewest steps that give `tokens` or more.
    pub fn steps_for(self, tokens: u64) -> u64 {
        if self.is_plain() {
            return tokens;
        }
        let missing = (u128::from(tokens) << BITS).saturating_sub(u128::from(self.phase));
        u64::try_from(missing.div_ceil(u128::from(self.per_step))).unwrap_or(u64::MAX)
    }

    /// The most steps that give no more than `tokens`.
    pub fn steps_within(self, tokens: u64) -> u64 {
        if self.is_plain() {
            return tokens;
        }
        let below = ((u128::from(tokens) + 1) << BITS) - 1 - u128::from(self.phase);
        u64::try_from(below / u128::from(self.per_step)).unwrap_or(u64::MAX)
    }

    /// The steps that give `tokens` tokens or more, a mean over outputs of whole lengths around it and over sequences that
    /// begin anywhere in the clock's round or, a share `alone_frac` of them where nobody else decodes, at its beginning.
    /// A token a step, without drafts.
    pub fn mean_steps(self, tokens: f64, alone_frac: f64) -> MeanSteps {
        if self.is_plain() {
            return MeanSteps { steps: tokens, a_token: 1.0 };
        }
        if tokens > FEW_TOKENS {
            let steps = (tokens - 0.5 * (1.0 - alone_frac)) / self.mean() + 0.5;
            return MeanSteps { steps, a_token: steps / tokens };
        }
        // Outputs that differ by a ninth either way, as benchmarks have them; the first token comes with the prompt.
        let output = tokens + 1.0;
        let least = ((output * 8.0 / 9.0).round() - 1.0).max(1.0) as u64;
        let most = ((output * 10.0 / 9.0).round() - 1.0).max(least as f64) as u64;
        let (mut steps, mut a_token) = (0.0, 0.0);
        for whole in least..=most {
            let one = alone_frac * self.at(0).steps_for(whole) as f64 + (1.0 - alone_frac) * self.steps_anywhere(whole);
            steps += one;
            a_token += one / whole as f64;
        }
        let (n, middle) = ((most - least + 1) as f64, 0.5 * (least + most) as f64);
        // The lengths are whole, their mean is not.
        MeanSteps { steps: steps / n * (tokens / middle), a_token: a_token / n }
    }

    /// The mean steps of an output that begins anywhere in the clock's round: the last one is needed where what came
    /// before it, and the token begun, are too few.
    fn steps_anywhere(self, tokens: u64) -> f64 {
        let tokens = tokens as f64;
        let most = (tokens / self.mean()).ceil().max(1.0);
        let enough = (1.0 - (tokens - (most - 1.0) * self.mean())).clamp(0.0, 1.0);
        if most > 1.0 {
            most - enough
        } else {
            1.0
        }
    }

    /// Do `steps` steps; returns the tokens that they gave.
    pub fn advance(&mut self, steps: u64) -> u64 {
        if self.is_plain() {
            return steps;
        }
        let all = u128::from(self.phase) + u128::from(steps) * u128::from(self.per_step);
        self.phase = ((all as u64) & (ONE - 1)) as u32;
        (all >> BITS) as u64
    }

    /// Nobody decodes: the next to begin has whole steps before it.
    pub fn restart(&mut self) {
        self.phase = 0;
    }

    /// `n` sequences over a sum of steps: floor(`sum` x n x mean). The mean, so that cutting a jump changes nothing.
    pub fn grown(self, n: u64, sum: i128) -> i128 {
        if self.is_plain() {
            return i128::from(n) * sum;
        }
        let k = i128::from(n) * i128::from(self.per_step);
        let one = i128::from(ONE);
        (sum / one) * k + (sum % one) * k / one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(draft_tokens: u64, acceptance_frac: f64) -> Pace {
        Pace::new(Some(&SpeculationSpec { draft_tokens, acceptance_frac, draft_cost_frac: 0.0 }))
    }

    #[test]
    fn a_draft_gives_a_geometric_sum() {
        // 1 + 0.5 + 0.25 + 0.125 = 1.875; all accepted: d + 1; none: 1.
        assert_eq!(pace(3, 0.5).per_step, 1_966_080);
        assert_eq!(pace(3, 1.0).per_step, 4 << BITS);
        assert!(pace(3, 0.0).is_plain() && pace(0, 0.9).is_plain());
        let eight = pace(3, 0.5);
        assert_eq!((0..9).map(|n| eight.tokens(n)).collect::<Vec<_>>(), [0, 1, 3, 5, 7, 9, 11, 13, 15]);
    }

    #[test]
    fn steps_and_tokens_are_inverse_wherever_a_jump_is_cut() {
        for start in [pace(3, 0.5), pace(1, 0.7), pace(64, 0.99), pace(5, 0.01), pace(2, 0.0)] {
            for done in 0..40 {
                let mut pace = start;
                let before = pace.advance(done);
                for n in 0..60 {
                    assert_eq!(before + pace.tokens(n), start.tokens(done + n));
                    let tokens = pace.tokens(n);
                    assert!(pace.tokens(pace.steps_for(n)) >= n);
                    assert!(n == 0 || pace.tokens(pace.steps_for(n) - 1) < n);
                    assert!(pace.steps_within(tokens) >= n && pace.tokens(pace.steps_within(tokens)) == tokens);
                    assert!(pace.tokens(pace.steps_within(n) + 1) > n);
                }
            }
        }
        assert_eq!(pace(64, 1.0).tokens(u64::MAX), u64::MAX);
        assert_eq!(pace(1, 0.5).steps_for(u64::MAX), 12_297_829_382_473_034_410);
    }

    #[test]
    fn mean_steps_are_the_mean_over_where_a_sequence_begins() {
        assert_eq!(Pace::default().mean_steps(99.0, 0.0), MeanSteps { steps: 99.0, a_token: 1.0 });
        for clock in [pace(3, 0.5), pace(1, 0.7), pace(5, 0.93)] {
            for output in [2_u64, 3, 5, 9, 20, 90, 250, 900] {
                // Outputs from 8/9 to 10/9, begun after 0 to 199 steps of others, or alone.
                let lengths = (output as f64 * 8.0 / 9.0).round() as u64..=(output as f64 * 10.0 / 9.0).round() as u64;
                let n = lengths.clone().count() as f64;
                let (mut others, mut alone, mut a_token) = (0.0, 0.0, 0.0);
                for length in lengths.clone().map(|length| length.max(2)) {
                    alone += clock.steps_for(length - 1) as f64 / n;
                    for begun in 0..200 {
                        let mut clock = clock;
                        clock.advance(begun);
                        others += clock.steps_for(length - 1) as f64 / 200.0 / n;
                        a_token += clock.steps_for(length - 1) as f64 / (length - 1) as f64 / 200.0 / n;
                    }
                }
                let tokens = lengths.map(|length| length.max(2) - 1).sum::<u64>() as f64 / n;
                let near = |found: f64, asked: f64| (found / asked - 1.0).abs() < 0.006;
                let found = clock.mean_steps(tokens, 0.0);
                assert!(
                    near(found.steps, others) && near(found.a_token, a_token),
                    "{output} {found:?} {others} {a_token}"
                );
                assert!(near(clock.mean_steps(tokens, 1.0).steps, alone), "{output} {alone}");
                let half = clock.mean_steps(tokens, 0.5).steps;
                assert!(near(half, 0.5 * (others + alone)), "{output} {half}");
            }
        }
    }

    #[test]
    fn a_long_sum_does_not_run_over() {
        let pace = pace(3, 0.5);
        assert_eq!(pace.grown(8, 1 << 40), 15 << 40);
        assert_eq!(pace.grown(1, 3), 5);
        assert_eq!(pace.grown(8, 1 << 100), 15 << 100);
    }

    #[test]
    fn wrong_figures_are_named() {
        let spec = SpeculationSpec { draft_tokens: 3, acceptance_frac: 0.7, draft_cost_frac: 0.0 };
        assert!(spec.validate().is_ok());
        for (field, wrong) in [
            ("draft_tokens", SpeculationSpec { draft_tokens: 65, ..spec }),
            ("acceptance_frac", SpeculationSpec { acceptance_frac: f64::NAN, ..spec }),
            ("draft_cost_frac", SpeculationSpec { draft_cost_frac: -0.1, ..spec }),
        ] {
            assert!(wrong.validate().unwrap_err().to_string().contains(field));
        }
    }
}
