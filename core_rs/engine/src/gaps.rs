//! The longest gap between tokens that a sequence saw, without looking at each step.
//!
//! All sequences that decode on a replica see each of its steps, so one stack of ever smaller maxima serves them all.

use crate::step::Line;
use crate::time::ns_from_fs;

/// (decode counter after the step, its duration), durations falling from bottom to top.
#[derive(Debug, Clone, Default)]
pub struct LongestGaps {
    stack: Vec<(u64, u64)>,
}

impl LongestGaps {
    /// Steps of a line were done, up to `to`, and the decode counter stands at `counter` now.
    pub fn add_steps(&mut self, time_fs: Line, to: u64, counter: u64) {
        let at = |i: u64| ns_from_fs(time_fs.base + time_fs.slope * i128::from(i));
        // A line never falls, so its last step is its longest.
        let longest = at(to - 1);
        while self.stack.last().is_some_and(|&(_, gap)| gap <= longest) {
            self.stack.pop();
        }
        self.stack.push((counter, longest));
    }

    /// No sequence decodes any more.
    pub fn clear(&mut self) {
        self.stack.clear();
    }

    /// The longest step since the decode counter stood at `counter`; 0 if there was none.
    pub fn longest_after(&self, counter: u64) -> u64 {
        let first = self.stack.partition_point(|&(after, _)| after <= counter);
        self.stack.get(first).map_or(0, |&(_, gap)| gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn agrees_with_looking_at_each_step() {
        let mut dice = Stream::new(4, Purpose::RouterChoice, 0, 0);
        let mut gaps = LongestGaps::default();
        let mut each: Vec<u64> = Vec::new();
        for _ in 0..300 {
            let line =
                Line { base: i128::from(dice.below(90)) * 1_000_000, slope: i128::from(dice.below(3)) * 1_000_000 };
            let n = 1 + dice.below(5);
            gaps.add_steps(line, 2 + n, each.len() as u64 + n);
            each.extend((2..2 + n).map(|i| ns_from_fs(line.base + line.slope * i128::from(i))));
            let since = dice.below(each.len() as u64 + 1);
            assert_eq!(gaps.longest_after(since), each[since as usize..].iter().copied().max().unwrap_or(0));
        }
    }
}
