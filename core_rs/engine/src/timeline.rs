//! What replicas did and when, for drawing: a bounded list of stretches of equal steps.

/// A stretch of steps of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub replica: u32,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub n_decoding: u64,
    pub n_prompts: u64,
    pub steps: u64,
}

/// The first so many stretches of a cell, in the order in which they were counted.
#[derive(Debug, Default)]
pub struct Timeline {
    most: usize,
    pub spans: Vec<Span>,
    pub n_left_out: u64,
}

impl Timeline {
    /// One that keeps `most` stretches.
    pub fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Whether anything is kept.
    pub fn is_kept(&self) -> bool {
        self.most > 0
    }

    /// Keep a stretch. One that goes on where the last of its replica ended with the same load is a part of that.
    pub fn add(&mut self, replica: u32, begin_ns: u64, end_ns: u64, n_decoding: u64, n_prompts: u64, steps: u64) {
        if let Some(last) = self.spans.last_mut() {
            if last.replica == replica
                && (last.end_ns, last.n_decoding, last.n_prompts) == (begin_ns, n_decoding, n_prompts)
            {
                last.end_ns = end_ns;
                last.steps += steps;
                return;
            }
        }
        if self.spans.len() < self.most {
            self.spans.push(Span { replica, begin_ns, end_ns, n_decoding, n_prompts, steps });
        } else {
            self.n_left_out += 1;
        }
    }
}
