//! Sessions of several turns: conversations and agents, whose prompts grow by what was said before.

use serde::Deserialize;

use super::arrivals::{arrivals, ArrivalSpec};
use super::lengths::{fits, Dist, Drawer};
use super::pauses::Pause;
use super::{MAX_REDRAWS, MAX_REQUESTS};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::table::{Column, Table};

/// A row without a predecessor has this in `after_row`.
pub const NO_ROW: u64 = u64::MAX;
/// Turns of one session are numbered below this.
const MAX_TURNS: u64 = 1 << 20;

/// How many turns a session has.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "dist", rename_all = "snake_case", deny_unknown_fields)]
pub enum Turns {
    /// At least one; each may be the last with the same chance.
    Geometric {
        mean: f64,
    },
    Fixed {
        value: u64,
    },
}

impl Turns {
    fn check(&self) -> Result<()> {
        match self {
            Self::Geometric { mean } if mean.is_finite() && *mean >= 1.0 => Ok(()),
            Self::Fixed { value } if (1..=MAX_TURNS).contains(value) => Ok(()),
            _ => Err(Error::input("turns", format!("no such number of turns: {self:?}"))),
        }
    }

    fn draw(&self, stream: &mut Stream) -> u64 {
        match self {
            Self::Geometric { mean } if *mean > 1.0 => {
                let more = stream.exponential() / -libm::log1p(-1.0 / mean);
                (more as u64).saturating_add(1).min(MAX_TURNS)
            }
            Self::Geometric { .. } => 1,
            Self::Fixed { value } => *value,
        }
    }
}

/// Sessions that start by an arrival law; all their requests, those asked after the run's length included.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionSpec {
    /// How sessions start; its rate is sessions a second.
    pub starts: ArrivalSpec,
    pub turns: Turns,
    /// From the end of an answer to the next turn.
    pub pause: Pause,
    /// What a turn adds to the session.
    pub input: Dist,
    pub output: Dist,
    /// At the head of each session's first prompt.
    pub head_tokens: u32,
    /// A session that would pass it ends.
    pub context_tokens: Option<u64>,
}

/// Requests, session by session in order of their start; turns of a session follow each other.
#[derive(Debug, Clone, Default)]
pub struct Sessions {
    /// When the session starts, for all its turns.
    pub arrival_ns: Vec<u64>,
    /// The session so far and what the turn adds.
    pub input_tokens: Vec<u32>,
    pub output_tokens: Vec<u32>,
    pub after_row: Vec<u64>,
    pub delay_ns: Vec<u64>,
    pub session: Vec<u64>,
    /// Of a first turn: how often it was drawn again to fit the context.
    pub redraws: Vec<u32>,
    /// Of a last turn: further turns that the context has no room for.
    pub lost_turns: Vec<u32>,
}

impl Sessions {
    pub(super) fn table(self) -> Table {
        Table::of([
            ("arrival_ns", Column::U64(self.arrival_ns)),
            ("input_tokens", Column::U32(self.input_tokens)),
            ("output_tokens", Column::U32(self.output_tokens)),
            ("after_row", Column::U64(self.after_row)),
            ("delay_ns", Column::U64(self.delay_ns)),
            ("session", Column::U64(self.session)),
            ("redraws", Column::U32(self.redraws)),
            ("lost_turns", Column::U32(self.lost_turns)),
        ])
    }
}

/// All requests of the sessions that start within the run; turn t of session s depends on (seed, key, s, 0..=t) only.
pub fn sessions(spec: &SessionSpec) -> Result<Sessions> {
    spec.turns.check()?;
    spec.pause.check()?;
    let (input, output) = (Drawer::new(&spec.input, "input")?, Drawer::new(&spec.output, "output")?);
    // A prompt has to fit its column, whatever the model says.
    let context = spec.context_tokens.unwrap_or(u64::from(u32::MAX)).min(u64::from(u32::MAX));
    let (seed, key) = (spec.starts.seed, spec.starts.key);
    let mut all = Sessions::default();
    for (number, start_ns) in (0_u64..).zip(arrivals(&spec.starts)?) {
        let n_turns = spec.turns.draw(&mut Stream::new(seed, Purpose::Turns, key, number));
        let mut so_far = u64::from(spec.head_tokens);
        for turn in 0..n_turns {
            let draw = number.wrapping_mul(MAX_TURNS).wrapping_add(turn);
            let mut of_input = Stream::new(seed, Purpose::InputLength, key, draw);
            let mut of_output = Stream::new(seed, Purpose::OutputLength, key, draw);
            let mut redraws = 0;
            let (added, answer) = loop {
                let pair = (input.draw(&mut of_input), output.draw(&mut of_output));
                let prompt = so_far + u64::from(pair.0);
                if turn > 0 || redraws == MAX_REDRAWS || fits(prompt, pair.1, Some(context)) {
                    break pair;
                }
                redraws += 1;
            };
            let prompt = so_far + u64::from(added);
            if turn > 0 && !fits(prompt, answer, Some(context)) {
                if let Some(lost) = all.lost_turns.last_mut() {
                    *lost = (n_turns - turn) as u32;
                }
                break;
            }
            if all.session.len() as u64 >= MAX_REQUESTS {
                return Err(Error::input("rate_req_per_s", "too many requests in one run"));
            }
            let row = all.session.len() as u64;
            let pause = match turn {
                0 => 0,
                _ => spec.pause.draw(&mut Stream::new(seed, Purpose::Pause, key, draw)),
            };
            all.arrival_ns.push(start_ns);
            all.input_tokens.push(u32::try_from(prompt).unwrap_or(u32::MAX));
            all.output_tokens.push(answer);
            all.after_row.push(if turn == 0 { NO_ROW } else { row - 1 });
            all.delay_ns.push(pause);
            all.session.push(number);
            all.redraws.push(redraws);
            all.lost_turns.push(0);
            so_far = prompt + u64::from(answer);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
