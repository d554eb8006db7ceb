//! The requests of some cells, drawn as they are asked for: what is held of them does not grow with their number.
//!
//! Classes are sources of requests in order of arrival: drawn by law (`law.rs`), copies of recorded rows (`copies.rs`)
//! or realisations of a profile (`realised.rs`). They are merged, each request is dealt out to a cell, and those of the
//! cells that were asked for are given. Whoever asks for other cells draws the same requests again: arrivals must be
//! gone through by all, lengths are drawn only for one's own.

mod copies;
mod law;
mod realised;
mod spill;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::split::{Dealer, SplitSpec};
use crate::table::{Column, Table};

pub use copies::{CopySpec, Recorded};
pub use law::LawSpec;
pub use realised::{ClockSpec, Realised};

use copies::Copies;
use law::Law;
use realised::Realisations;

/// What is offered, by class.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferedSpec {
    pub classes: Vec<SourceSpec>,
    /// Arrivals stop here, that instant included.
    pub length_ns: u64,
    /// How requests are dealt out to cells; absent for one cell.
    pub split: Option<SplitSpec>,
}

/// Where the requests of a class come from.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum SourceSpec {
    Law(Box<LawSpec>),
    /// The rows are handed in beside.
    Copies(CopySpec),
    /// The profile's realisations are handed in beside.
    Profile(ClockSpec),
}

/// What stands beside a class's spec.
#[derive(Debug, Clone)]
pub enum Beside {
    Nothing,
    Rows(Arc<Recorded>),
    Realised(Arc<Realised>),
}

/// What a source has next.
enum Next {
    /// A request at that time.
    At(u64),
    /// Nothing more.
    Over,
    /// Not known yet: ask again.
    Later,
}

/// A class's requests in order of arrival.
enum Source {
    Law(Box<Law>),
    Copies(Copies),
    Realised(Box<Realisations>),
}

impl Source {
    fn next(&mut self) -> Result<Next> {
        match self {
            Self::Law(law) => law.next(),
            Self::Copies(copies) => Ok(copies.next()),
            Self::Realised(realised) => realised.next(),
        }
    }

    /// About how many requests come by `length_ns`.
    fn expected(&self, length_ns: u64) -> f64 {
        match self {
            Self::Law(law) => law.expected(),
            Self::Copies(copies) => copies.expected(length_ns),
            Self::Realised(realised) => realised.expected(length_ns),
        }
    }

    /// Take the next request, the `k`-th of its class: prompt, answer and redraws, 0 where it is not wanted.
    fn take(&mut self, k: u64, is_mine: bool) -> Result<(u32, u32, u32)> {
        match self {
            Self::Law(law) => Ok(law.take(k, is_mine)),
            Self::Copies(copies) => Ok(copies.take()),
            Self::Realised(realised) => realised.take(),
        }
    }
}

/// What was seen of a class's requests, those of one's own cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    pub n: u64,
    pub n_redrawn: u64,
    /// Tokens in the KV cache of the request that needs least; 0 without requests.
    pub shortest_kv_tokens: u64,
}

struct Class {
    source: Source,
    /// Requests of all cells so far.
    n: u64,
    next_ns: Option<u64>,
    is_over: bool,
}

/// Some requests, those of a cell together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// How many each asked cell has, in the order in which cells were asked for.
    pub counts: Vec<u64>,
    pub arrival_ns: Vec<u64>,
    pub class_ix: Vec<u16>,
    pub input_tokens: Vec<u32>,
    pub output_tokens: Vec<u32>,
    /// Among the requests of all cells; empty unless asked for.
    pub row: Vec<u64>,
    /// No more will come.
    pub is_over: bool,
}

impl Batch {
    /// As columns; with rows if there are any.
    pub fn table(self) -> Table {
        let mut table = Table::of([
            ("arrival_ns", Column::U64(self.arrival_ns)),
            ("class_ix", Column::U16(self.class_ix)),
            ("input_tokens", Column::U32(self.input_tokens)),
            ("output_tokens", Column::U32(self.output_tokens)),
        ]);
        if !self.row.is_empty() {
            table.columns.push(("row".to_owned(), Column::U64(self.row)));
        }
        table
    }
}

/// The walk over what is offered to some cells.
pub struct Offered {
    classes: Vec<Class>,
    length_ns: u64,
    dealer: Option<Dealer>,
    /// By cell: its place among those asked for.
    place: Vec<Option<u32>>,
    /// By cell asked for and class.
    seen: Vec<Vec<Seen>>,
    keeps_rows: bool,
    n_rows: u64,
}

impl Offered {
    /// From the begin, for `cells`; without a split there is one, 0.
    pub fn new(spec: &OfferedSpec, beside: Vec<Beside>, cells: Vec<u32>, keeps_rows: bool) -> Result<Self> {
        if beside.len() != spec.classes.len() || spec.classes.len() > usize::from(u16::MAX) {
            return Err(Error::input("classes", "each has a place for what stands beside it"));
        }
        let mut classes = Vec::new();
        for (source, beside) in spec.classes.iter().zip(beside) {
            let source = match (source, beside) {
                (SourceSpec::Law(law), Beside::Nothing) => Source::Law(Box::new(Law::new(law)?)),
                (SourceSpec::Copies(copies), Beside::Rows(rows)) => Source::Copies(Copies::new(copies, rows)?),
                (SourceSpec::Profile(clock), Beside::Realised(realised)) => {
                    Source::Realised(Box::new(Realisations::new(clock, realised)?))
                }
                _ => return Err(Error::input("classes", "rows go with copies, realisations with a profile")),
            };
            classes.push(Class { source, n: 0, next_ns: None, is_over: false });
        }
        let dealer = spec.split.as_ref().map(Dealer::new).transpose()?;
        let n_cells = spec.split.as_ref().map_or(1, |split| split.weights.first().map_or(1, Vec::len));
        if spec.split.as_ref().is_some_and(|split| split.keys.len() != classes.len()) {
            return Err(Error::input("split", "need a key for each class"));
        }
        let mut place = vec![None; n_cells];
        let seen = vec![vec![Seen::default(); classes.len()]; cells.len()];
        for (at, cell) in cells.into_iter().enumerate() {
            match place.get_mut(cell as usize) {
                Some(found @ None) => *found = Some(at as u32),
                _ => return Err(Error::input("cells", format!("{cell}: each of 0..{n_cells}, at most once"))),
            }
        }
        Ok(Self { classes, length_ns: spec.length_ns, dealer, place, seen, keeps_rows, n_rows: 0 })
    }

    /// The next requests. At most `most` are gone through, those of other cells included; some may have to be prepared
    /// first, so that a call may give none although it is not over.
    pub fn next(&mut self, most: usize) -> Result<Batch> {
        let mut found = vec![Batch::default(); self.seen.len()];
        let mut is_over = false;
        for _ in 0..most {
            match self.soonest()? {
                Soonest::Class(ix) => self.one(ix, &mut found)?,
                Soonest::Later => break,
                Soonest::Over => {
                    is_over = true;
                    break;
                }
            }
        }
        Ok(joined(found, is_over))
    }

    /// About how many requests come of each class.
    pub fn expected(&self) -> Vec<f64> {
        self.classes.iter().map(|class| class.source.expected(self.length_ns)).collect()
    }

    /// By cell asked for and class, of all that `next` gave so far.
    pub fn seen(&self) -> &[Vec<Seen>] {
        &self.seen
    }

    /// The class whose request comes next, of equals the first.
    fn soonest(&mut self) -> Result<Soonest> {
        let mut found: Option<(u64, usize)> = None;
        for (ix, class) in self.classes.iter_mut().enumerate() {
            if class.is_over {
                continue;
            }
            let at = match class.next_ns {
                Some(at) => at,
                None => match class.source.next()? {
                    Next::At(at) if at <= self.length_ns => *class.next_ns.insert(at),
                    Next::At(_) | Next::Over => {
                        class.is_over = true;
                        continue;
                    }
                    Next::Later => return Ok(Soonest::Later),
                },
            };
            if found.is_none_or(|(before, _)| at < before) {
                found = Some((at, ix));
            }
        }
        Ok(found.map_or(Soonest::Over, |(_, ix)| Soonest::Class(ix)))
    }

    fn one(&mut self, ix: usize, found: &mut [Batch]) -> Result<()> {
        let class = &mut self.classes[ix];
        let cell = self.dealer.as_ref().map_or(0, |dealer| dealer.cell(ix, class.n));
        let place = self.place[cell as usize];
        let arrival_ns = class.next_ns.take().unwrap_or_default();
        let (input, output, redraws) = class.source.take(class.n, place.is_some())?;
        if let Some(at) = place {
            let need = u64::from(input) + u64::from(output) - 1;
            let seen = &mut self.seen[at as usize][ix];
            seen.shortest_kv_tokens = if seen.n == 0 { need } else { need.min(seen.shortest_kv_tokens) };
            seen.n += 1;
            seen.n_redrawn += u64::from(redraws > 0);
            let batch = &mut found[at as usize];
            batch.arrival_ns.push(arrival_ns);
            batch.class_ix.push(ix as u16);
            batch.input_tokens.push(input);
            batch.output_tokens.push(output);
            if self.keeps_rows {
                batch.row.push(self.n_rows);
            }
        }
        class.n += 1;
        self.n_rows += 1;
        Ok(())
    }
}

/// Those of all cells behind each other.
fn joined(found: Vec<Batch>, is_over: bool) -> Batch {
    let counts = found.iter().map(|batch| batch.arrival_ns.len() as u64).collect();
    let mut cells = found.into_iter();
    let mut all = cells.next().unwrap_or_default();
    for more in cells {
        all.arrival_ns.extend(more.arrival_ns);
        all.class_ix.extend(more.class_ix);
        all.input_tokens.extend(more.input_tokens);
        all.output_tokens.extend(more.output_tokens);
        all.row.extend(more.row);
    }
    Batch { counts, is_over, ..all }
}

enum Soonest {
    Class(usize),
    Later,
    Over,
}
