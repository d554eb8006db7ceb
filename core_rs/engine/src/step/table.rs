//! Steps by the table: one load a row, or several rows where it has several chunks; columns of their costs come out.
//!
//! Loads are cut into blocks that threads share out by number, each written where it belongs, so the table is the same
//! whatever their number.

use std::thread::{available_parallelism, scope};

use super::{Bound, Chunk, Load, StepLine, StepModel};
use crate::table::{Column, Table};
use crate::time::{j_from_fj, s_from_fs};

/// Loads of one block.
const BLOCK: usize = 4096;
/// Blocks that a further thread is worth.
const BLOCKS_A_THREAD: usize = 16;

/// Columns of equal length: loads with at most one chunk a row, or one more chunk of the load before it.
#[derive(Debug, Clone, Copy)]
pub struct Loads<'a> {
    /// Neighbours of the same number are one load, whose figures but the chunk are those of its first row; empty = each
    /// row is one.
    pub load_ix: &'a [u64],
    pub n_seqs: &'a [u64],
    pub context_tokens: &'a [u64],
    pub window_tokens: &'a [u64],
    pub n_growing_in_window: &'a [u64],
    pub chunk_tokens: &'a [u64],
    pub chunk_past_tokens: &'a [u64],
}

/// Names of the columns of numbers, in the order in which `figures` gives them.
const FIGURES: [&str; 14] = [
    "time_s",
    "time_slope_s",
    "energy_j",
    "energy_slope_j",
    "bytes",
    "bytes_slope",
    "flop",
    "flop_slope",
    "memory_s",
    "compute_s",
    "network_s",
    "launch_s",
    "capped_s",
    "capped_slope_s",
];

fn figures(line: &StepLine) -> [f64; 14] {
    let plain = crate::sums::float;
    [
        s_from_fs(line.time_fs.base),
        s_from_fs(line.time_fs.slope),
        j_from_fj(line.energy_fj.base),
        j_from_fj(line.energy_fj.slope),
        plain(line.bytes.base),
        plain(line.bytes.slope),
        plain(line.flops.base),
        plain(line.flops.slope),
        s_from_fs(line.memory_fs),
        s_from_fs(line.compute_fs),
        s_from_fs(line.network_fs),
        s_from_fs(line.launch_fs),
        s_from_fs(line.capped_fs.base),
        s_from_fs(line.capped_fs.slope),
    ]
}

/// The part of the table that one block fills.
struct Block<'a> {
    first: usize,
    figures: Vec<&'a mut [f64]>,
    is_compute_bound: &'a mut [u64],
    valid_steps: &'a mut [u64],
}

/// The cost of the step of each load: time, energy, bytes and operations of the first step, and what each further one
/// adds.
pub fn table(model: &StepModel, loads: &Loads<'_>) -> Table {
    let starts = loads.starts();
    let n = starts.as_ref().map_or(loads.n_seqs.len(), |starts| starts.len() - 1);
    let mut columns: Vec<Vec<f64>> = FIGURES.iter().map(|_| vec![0.0; n]).collect();
    let (mut is_compute_bound, mut valid_steps) = (vec![0; n], vec![0; n]);
    let mut cut: Vec<_> = columns.iter_mut().map(|column| column.chunks_mut(BLOCK)).collect();
    let counts = is_compute_bound.chunks_mut(BLOCK).zip(valid_steps.chunks_mut(BLOCK));
    let blocks = counts.enumerate().map(|(at, (is_compute_bound, valid_steps))| Block {
        first: at * BLOCK,
        figures: cut.iter_mut().filter_map(Iterator::next).collect(),
        is_compute_bound,
        valid_steps,
    });
    let fill = |block: Block<'_>| block.fill(model, loads, starts.as_deref());
    let n_threads = available_parallelism().map_or(1, usize::from).min(n / BLOCK / BLOCKS_A_THREAD).max(1);
    if n_threads == 1 {
        blocks.for_each(fill);
    } else {
        let mut shares: Vec<Vec<Block<'_>>> = (0..n_threads).map(|_| Vec::new()).collect();
        for (at, block) in blocks.enumerate() {
            shares[at % n_threads].push(block);
        }
        scope(|threads| {
            for share in shares {
                threads.spawn(move || share.into_iter().for_each(fill));
            }
        });
    }
    let mut found = Table::default();
    for (name, column) in FIGURES.iter().zip(columns) {
        found.columns.push(((*name).to_owned(), Column::F64(column)));
    }
    found.columns.push(("is_compute_bound".to_owned(), Column::U64(is_compute_bound)));
    found.columns.push(("valid_steps".to_owned(), Column::U64(valid_steps)));
    found
}

impl Block<'_> {
    fn fill(mut self, model: &StepModel, loads: &Loads<'_>, starts: Option<&[usize]>) {
        let mut several = Vec::new();
        for at in 0..self.valid_steps.len() {
            let load = self.first + at;
            let (from, to) = starts.map_or((load, load + 1), |starts| (starts[load], starts[load + 1]));
            let line = loads.step(model, from, to, &mut several);
            // What is zero is there already: memory that is not written is never handed out by the system.
            for (column, value) in self.figures.iter_mut().zip(figures(&line)) {
                if value != 0.0 {
                    column[at] = value;
                }
            }
            if line.bound == Bound::Compute {
                self.is_compute_bound[at] = 1;
            }
            self.valid_steps[at] = line.valid_steps;
        }
    }
}

impl Loads<'_> {
    /// The first row of each load, and the end; none where each row is one.
    fn starts(&self) -> Option<Vec<usize>> {
        if self.load_ix.is_empty() {
            return None;
        }
        let is_first = |row: &usize| *row == 0 || self.load_ix[*row] != self.load_ix[*row - 1];
        Some((0..self.load_ix.len()).filter(is_first).chain([self.load_ix.len()]).collect())
    }

    /// The step of the rows `from..to`; `several` is room for its chunks.
    fn step(&self, model: &StepModel, from: usize, to: usize, several: &mut Vec<Chunk>) -> StepLine {
        let chunk = |row: usize| Chunk { tokens: self.chunk_tokens[row], past_tokens: self.chunk_past_tokens[row] };
        let one = [chunk(from)];
        let chunks = if to - from == 1 {
            &one[..usize::from(one[0].tokens > 0)]
        } else {
            several.clear();
            several.extend((from..to).map(chunk).filter(|chunk| chunk.tokens > 0));
            &several[..]
        };
        model.step(&Load {
            n_seqs: self.n_seqs[from],
            context_tokens: self.context_tokens[from],
            window_tokens: self.window_tokens[from],
            n_growing_in_window: self.n_growing_in_window[from],
            chunks,
        })
    }
}
