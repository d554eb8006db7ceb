//! Copies of recorded requests, superposed: the first as recorded, each other turned round the span, the last thinned
//! where a fraction is asked for; and all of it again after the span, as often as it takes.
//!
//! Of a copy only its place in the rows is held.

use std::cmp::Reverse;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::sync::Arc;

use serde::Deserialize;

use super::Next;
use crate::error::{Error, Result};
use crate::sample::{rotations, thinning, RotationSpec, ThinningSpec};

/// Recorded requests in order of arrival.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    pub arrival_ns: Vec<u64>,
    pub input_tokens: Vec<u32>,
    pub output_tokens: Vec<u32>,
}

/// How often they come.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopySpec {
    pub seed: u64,
    pub key: u64,
    pub span_ns: u64,
    /// Where in the span the run begins; what is before comes after its end.
    pub start_ns: u64,
    /// Whole copies, and above 0 the share of one more.
    pub n_whole: u32,
    pub part_frac: f64,
    pub n_passes: u64,
}

/// The rows of whole copies and of a thinned one.
struct Lists {
    rows: Arc<Recorded>,
    kept: Vec<u32>,
}

impl Lists {
    fn len(&self, is_part: bool) -> u32 {
        if is_part {
            self.kept.len() as u32
        } else {
            self.rows.arrival_ns.len() as u32
        }
    }

    fn row(&self, is_part: bool, place: u32) -> usize {
        if is_part {
            self.kept[place as usize] as usize
        } else {
            place as usize
        }
    }
}

/// Where a copy is.
struct Copy {
    is_part: bool,
    shift_ns: u64,
    /// The place that comes first once it is turned, and how many have come in this pass.
    first: u32,
    n_done: u32,
}

impl Copy {
    fn new(lists: &Lists, is_part: bool, shift_ns: u64, span_ns: u64) -> Self {
        let (mut low, mut high) = (0, lists.len(is_part));
        while low < high {
            let middle = low + (high - low) / 2;
            if lists.rows.arrival_ns[lists.row(is_part, middle)] + shift_ns < span_ns {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Self { is_part, shift_ns, first: low, n_done: 0 }
    }

    /// The row that it has next, and when that comes in its pass.
    fn next(&self, lists: &Lists, span_ns: u64) -> Option<(usize, u64)> {
        let n = lists.len(self.is_part);
        if self.n_done == n {
            return None;
        }
        let left = n - self.first;
        let place = if self.n_done < left { self.first + self.n_done } else { self.n_done - left };
        let row = lists.row(self.is_part, place);
        let at = lists.rows.arrival_ns[row] + self.shift_ns;
        Some((row, if at >= span_ns { at - span_ns } else { at }))
    }
}

pub struct Copies {
    lists: Lists,
    span_ns: u64,
    places: Vec<Copy>,
    /// (arrival in this pass, copy) of the next request of each.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    pass: u64,
    n_passes: u64,
}

impl Copies {
    pub fn new(spec: &CopySpec, rows: Arc<Recorded>) -> Result<Self> {
        let n = rows.arrival_ns.len();
        let is_even = [rows.input_tokens.len(), rows.output_tokens.len()] == [n; 2];
        let rises = rows.arrival_ns.is_sorted() && rows.arrival_ns.last().is_none_or(|last| *last < spec.span_ns);
        if !is_even || !rises || u32::try_from(n).is_err() || spec.span_ns > 1 << 62 || spec.start_ns >= spec.span_ns {
            return Err(Error::input("rows", "columns of equal length, sorted, all before span_ns, as is the start"));
        }
        let (seed, key, n_whole) = (spec.seed, spec.key, spec.n_whole);
        let n_copies = n_whole + u32::from(spec.part_frac > 0.0);
        let shifts = rotations(&RotationSpec { seed, key, n_copies, modulus_ns: spec.span_ns })?;
        let thin = ThinningSpec { seed, key, copy: n_whole.into(), n: n as u32, keep_frac: spec.part_frac };
        let kept = if n_copies > n_whole { thinning(&thin)? } else { Vec::new() };
        let lists = Lists { rows, kept };
        let turn_ns = spec.span_ns - spec.start_ns;
        let copy = |(number, shift_ns)| {
            Copy::new(&lists, number == n_whole, (shift_ns + turn_ns) % spec.span_ns, spec.span_ns)
        };
        let places = (0..).zip(shifts).map(copy).collect();
        let next = BinaryHeap::new();
        let mut made = Self { lists, span_ns: spec.span_ns, places, next, pass: 0, n_passes: spec.n_passes };
        made.begin_pass();
        Ok(made)
    }

    /// About how many requests come by `length_ns`.
    pub fn expected(&self, length_ns: u64) -> f64 {
        let a_pass: f64 = self.places.iter().map(|copy| f64::from(self.lists.len(copy.is_part))).sum();
        a_pass * (length_ns as f64 / self.span_ns as f64).min(self.n_passes as f64)
    }

    fn begin_pass(&mut self) {
        let Self { lists, span_ns, places, next, .. } = self;
        for (number, copy) in (0..).zip(places) {
            copy.n_done = 0;
            if let Some((_, at)) = copy.next(lists, *span_ns) {
                next.push(Reverse((at, number)));
            }
        }
    }

    pub fn next(&mut self) -> Next {
        if self.next.is_empty() && self.pass + 1 < self.n_passes {
            self.pass += 1;
            self.begin_pass();
        }
        let begin_ns = self.pass.saturating_mul(self.span_ns);
        self.next.peek().map_or(Next::Over, |Reverse((at, _))| Next::At(begin_ns.saturating_add(*at)))
    }

    pub fn take(&mut self) -> (u32, u32, u32) {
        let Some(mut top) = self.next.peek_mut() else { return (0, 0, 0) };
        let copy = &mut self.places[top.0 .1 as usize];
        let Some((row, _)) = copy.next(&self.lists, self.span_ns) else { return (0, 0, 0) };
        copy.n_done += 1;
        if let Some((_, at)) = copy.next(&self.lists, self.span_ns) {
            top.0 .0 = at;
        } else {
            PeekMut::pop(top);
        }
        (self.lists.rows.input_tokens[row], self.lists.rows.output_tokens[row], 0)
    }
}
