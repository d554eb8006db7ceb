//! Realisations of a profile, superposed and one span after the other.
//!
//! The order of a realisation hangs on all of it, so a whole span has to be drawn before its first request is known.
//! It is drawn block by block, each of some realisations in order of arrival; blocks are merged as requests are asked
//! for. Few stay in memory, many go to a file that has no name. All who walk over the same profile share a span's
//! blocks, and draw them together.

use std::cmp::Reverse;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::Deserialize;

use super::spill::{Block, Reader, Spill};
use super::Next;
use crate::error::{Error, Result};
use crate::sample::{check_profile, realised, ProfileSpec, Row};

/// Requests drawn at a time.
const BLOCK: u64 = 250_000;
/// Of a span with more than this, blocks go to a file.
const HELD: u64 = 2_000_000;
/// Realisations of a span are numbered from a multiple of this, so that spans never share one.
const PASS: u64 = 1 << 32;
/// How long to wait for what others draw.
const WAIT: Duration = Duration::from_millis(2);

/// The class's clock, and how often the span is realised.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockSpec {
    /// The clock runs this many times as fast, as a fraction.
    pub speedup: (u64, u64),
    /// From the begin of a span to that of the next, on that clock.
    pub pass_ns: u64,
    /// Where in a span the run begins; what is before comes after its end.
    pub start_ns: u64,
    pub n_passes: u64,
}

impl ClockSpec {
    /// An arrival of the profile's span on the faster clock.
    fn fast(&self, at: u64) -> u64 {
        let (up, down) = (u128::from(self.speedup.0), u128::from(self.speedup.1));
        ((u128::from(at) * down + up / 2) / up) as u64
    }

    /// The same from where the run begins.
    fn turned(&self, at: u64) -> u64 {
        let fast = self.fast(at);
        if fast >= self.start_ns {
            fast - self.start_ns
        } else {
            fast + self.pass_ns - self.start_ns
        }
    }
}

/// A profile and those of its spans that are in use.
#[derive(Debug)]
pub struct Realised {
    spec: ProfileSpec,
    n_requests: u64,
    spans: Mutex<HashMap<u64, Weak<Span>>>,
}

/// A span in the making, or made.
#[derive(Debug)]
struct Span {
    spec: ProfileSpec,
    n_requests: u64,
    n_copies: u64,
    copies_a_block: u64,
    work: Mutex<Work>,
}

#[derive(Debug)]
struct Work {
    /// Blocks that somebody draws or has drawn.
    n_begun: u64,
    blocks: Vec<Option<Block>>,
    n_done: usize,
    spill: Option<Spill>,
    failed: Option<Error>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Realised {
    pub fn new(spec: ProfileSpec) -> Result<Self> {
        let n_requests = check_profile(&spec)?;
        Ok(Self { spec, n_requests, spans: Mutex::new(HashMap::new()) })
    }

    fn span(&self, number: u64) -> Arc<Span> {
        let mut spans = locked(&self.spans);
        spans.retain(|_, span| span.strong_count() > 0);
        if let Some(span) = spans.get(&number).and_then(Weak::upgrade) {
            return span;
        }
        let spec = ProfileSpec { first_copy: self.spec.first_copy.wrapping_add(number * PASS), ..self.spec.clone() };
        let span = Arc::new(Span::new(spec, self.n_requests));
        spans.insert(number, Arc::downgrade(&span));
        span
    }
}

impl Span {
    fn new(spec: ProfileSpec, n_requests: u64) -> Self {
        let n_copies = spec.n_copies + u64::from(spec.part_frac > 0.0);
        let copies_a_block = (BLOCK / n_requests).max(1);
        let n_blocks = n_copies.div_ceil(copies_a_block) as usize;
        let blocks = std::iter::repeat_with(|| None).take(n_blocks).collect();
        let work = Work { n_begun: 0, blocks, n_done: 0, spill: None, failed: None };
        Self { spec, n_requests, n_copies, copies_a_block, work: Mutex::new(work) }
    }

    /// Draw one more block, or see whether the others are done; true once all are.
    fn prepare(&self) -> Result<bool> {
        let number = {
            let mut work = locked(&self.work);
            if let Some(error) = &work.failed {
                return Err(error.clone());
            }
            if work.n_done == work.blocks.len() {
                return Ok(true);
            }
            work.n_begun += 1;
            work.n_begun - 1
        };
        let first = number * self.copies_a_block;
        if first >= self.n_copies {
            std::thread::sleep(WAIT);
            return Ok(false);
        }
        let last = (first + self.copies_a_block).min(self.n_copies);
        let rows = realised(&self.spec, first..last, self.n_requests);
        let mut work = locked(&self.work);
        let block = if self.n_copies.saturating_mul(self.n_requests) <= HELD {
            Ok(Block::Held(Arc::new(rows)))
        } else {
            work.spilled(&rows)
        };
        match block {
            Ok(block) => {
                work.blocks[number as usize] = Some(block);
                work.n_done += 1;
                Ok(work.n_done == work.blocks.len())
            }
            Err(error) => {
                work.failed = Some(error.clone());
                Err(error)
            }
        }
    }
}

impl Work {
    fn spilled(&mut self, rows: &[Row]) -> Result<Block> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill::new()?),
        };
        spill.write(rows)
    }
}

/// The walk over a profile's spans.
pub struct Realisations {
    clock: ClockSpec,
    all: Arc<Realised>,
    pass: u64,
    span: Option<Arc<Span>>,
    /// The blocks of the span, once it is made, and the next request of each as (arrival in the span on the class's clock,
    /// on the profile's, block).
    readers: Vec<Reader>,
    next: BinaryHeap<Reverse<(u64, u64, u32)>>,
    is_made: bool,
}

impl Realisations {
    pub fn new(clock: &ClockSpec, all: Arc<Realised>) -> Result<Self> {
        if clock.speedup.0 == 0 || clock.speedup.1 == 0 || clock.start_ns >= clock.pass_ns {
            return Err(Error::input("speedup, pass_ns", "numbers above 0 are meant, and a start inside"));
        }
        let (readers, next) = (Vec::new(), BinaryHeap::new());
        Ok(Self { clock: clock.clone(), all, pass: 0, span: None, readers, next, is_made: false })
    }

    pub fn next(&mut self) -> Result<Next> {
        loop {
            if let Some(Reverse((at, ..))) = self.next.peek() {
                return Ok(Next::At(self.pass.saturating_mul(self.clock.pass_ns).saturating_add(*at)));
            }
            if self.is_made {
                self.pass += 1;
                (self.is_made, self.span) = (false, None);
                self.readers.clear();
            }
            if self.pass >= self.clock.n_passes {
                return Ok(Next::Over);
            }
            let span = match &self.span {
                Some(span) => Arc::clone(span),
                None => Arc::clone(self.span.insert(self.all.span(self.pass))),
            };
            if !span.prepare()? {
                return Ok(Next::Later);
            }
            self.is_made = true;
            self.begin(&span)?;
        }
    }

    fn begin(&mut self, span: &Span) -> Result<()> {
        let work = locked(&span.work);
        for (number, block) in (0..).zip(work.blocks.iter().flatten()) {
            let clock = &self.clock;
            let mut reader = block.reader(work.spill.as_ref(), |row| clock.fast(row.0) >= clock.start_ns)?;
            if let Some(row) = reader.peek()? {
                self.next.push(Reverse((clock.turned(row.0), row.0, number)));
            }
            self.readers.push(reader);
        }
        Ok(())
    }

    /// About how many requests come by `length_ns`: of a part of a span as many as in one realisation.
    pub fn expected(&self, length_ns: u64) -> f64 {
        let spec = &self.all.spec;
        let a_pass = self.all.n_requests as f64 * (spec.n_copies as f64 + spec.part_frac);
        let (whole, rest_ns) = (length_ns / self.clock.pass_ns, length_ns % self.clock.pass_ns);
        if whole >= self.clock.n_passes {
            return a_pass * self.clock.n_passes as f64;
        }
        let one = ProfileSpec { n_copies: 1, part_frac: 0.0, ..spec.clone() };
        let n_early =
            realised(&one, 0..1, self.all.n_requests).iter().filter(|row| self.clock.turned(row.0) <= rest_ns).count();
        a_pass * (whole as f64 + n_early as f64 / self.all.n_requests as f64)
    }

    pub fn take(&mut self) -> Result<(u32, u32, u32)> {
        let Some(Reverse((_, _, number))) = self.next.peek().copied() else { return Ok((0, 0, 0)) };
        let reader = &mut self.readers[number as usize];
        let Some(row) = reader.take()? else { return Ok((0, 0, 0)) };
        let following = reader.peek()?;
        if let Some(mut top) = self.next.peek_mut() {
            if let Some(row) = following {
                (top.0 .0, top.0 .1) = (self.clock.turned(row.0), row.0);
            } else {
                PeekMut::pop(top);
            }
        }
        Ok((row.1, row.2, row.3))
    }
}
