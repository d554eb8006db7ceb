//! Prompt hashes as they come: fed beside the requests as runs of consecutive numbers, read when a request arrives.

/// `n` hashes from `first` on.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u64,
    n: u32,
}

/// Hashes of the rows that have any, in the order of rows.
#[derive(Debug, Clone, Default)]
pub struct HashFeed {
    /// Row, and where its runs begin.
    starts: Vec<(u64, usize)>,
    runs: Vec<Run>,
    /// Hashes of the last row.
    n_of_last: u64,
}

impl HashFeed {
    /// The last row that has hashes.
    pub fn last_row(&self) -> Option<u64> {
        self.starts.last().map(|&(row, _)| row)
    }

    /// `n` more hashes of `row`, which is the last row or a later one. Returns how many it has now.
    pub fn push(&mut self, row: u64, first: u64, n: u32) -> u64 {
        if self.last_row() != Some(row) {
            self.starts.push((row, self.runs.len()));
            self.n_of_last = 0;
        }
        self.runs.push(Run { first, n });
        self.n_of_last += u64::from(n);
        self.n_of_last
    }

    /// The hashes of `row`.
    pub fn of(&self, row: u64) -> impl Iterator<Item = u64> + '_ {
        let runs = match self.starts.binary_search_by_key(&row, |&(row, _)| row) {
            Ok(at) => {
                let end = self.starts.get(at + 1).map_or(self.runs.len(), |&(_, start)| start);
                &self.runs[self.starts[at].1..end]
            }
            Err(_) => &[],
        };
        runs.iter().flat_map(|run| (0..u64::from(run.n)).map(|at| run.first.wrapping_add(at)))
    }

    /// Rows below `row` will not be asked for again.
    pub fn drop_before(&mut self, row: u64) {
        let n = self.starts.partition_point(|&(at, _)| at < row);
        // Seldom, so that it costs nothing a row.
        if n < 4096 || 2 * n < self.starts.len() {
            return;
        }
        let gone = self.starts.get(n).map_or(self.runs.len(), |&(_, start)| start);
        self.runs.drain(..gone);
        self.starts.drain(..n);
        self.starts.iter_mut().for_each(|(_, start)| *start -= gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_find_their_hashes_whatever_was_dropped() {
        let mut feed = HashFeed::default();
        for row in 0..20_000_u64 {
            for run in 0..row % 4 {
                assert_eq!(feed.push(row, row * 100 + run * 3, 3), (run + 1) * 3);
            }
            if row % 1000 == 999 {
                feed.drop_before(row - 500);
            }
        }
        assert!(feed.starts.len() < 15_000);
        for row in 19_400..20_000 {
            assert!(feed.of(row).eq((0..row % 4 * 3).map(|at| row * 100 + at)));
        }
    }
}
