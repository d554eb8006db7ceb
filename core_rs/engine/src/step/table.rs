//! Steps by the table: one load a row, or several rows where it has several chunks.

use super::{Chunk, Load, StepLine, StepModel};

/// One row of a batch table: a load with at most one chunk, or one more chunk of the load before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Neighbours of the same number are one load, whose figures but the chunk are those of its first row.
    pub load_ix: u64,
    pub n_seqs: u64,
    pub context_tokens: u64,
    pub window_tokens: u64,
    pub n_growing_in_window: u64,
    pub chunk_tokens: u64,
    pub chunk_past_tokens: u64,
}

/// The step of each load.
pub fn table(model: &StepModel, rows: &[Row]) -> Vec<StepLine> {
    let cost = |rows: &[Row]| {
        let row = &rows[0];
        let of = |row: &Row| Chunk { tokens: row.chunk_tokens, past_tokens: row.chunk_past_tokens };
        let chunks: Vec<Chunk> = rows.iter().filter(|row| row.chunk_tokens > 0).map(of).collect();
        model.step(&Load {
            n_seqs: row.n_seqs,
            context_tokens: row.context_tokens,
            window_tokens: row.window_tokens,
            n_growing_in_window: row.n_growing_in_window,
            chunks: &chunks,
        })
    };
    rows.chunk_by(|a, b| a.load_ix == b.load_ix).map(cost).collect()
}
