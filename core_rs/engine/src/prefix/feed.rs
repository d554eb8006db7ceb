//! Prompt hashes as they come: fed beside the requests, read when a request arrives.

/// Hashes of the rows that have any, in the order of rows.
#[derive(Debug, Clone, Default)]
pub struct HashFeed {
    /// Row, and where its hashes begin.
    starts: Vec<(u64, usize)>,
    hashes: Vec<u64>,
}

impl HashFeed {
    /// The last row that has hashes.
    pub fn last_row(&self) -> Option<u64> {
        self.starts.last().map(|&(row, _)| row)
    }

    /// One more hash of `row`, which is the last row or a later one. Returns how many it has now.
    pub fn push(&mut self, row: u64, hash: u64) -> usize {
        if self.last_row() != Some(row) {
            self.starts.push((row, self.hashes.len()));
        }
        self.hashes.push(hash);
        self.starts.last().map_or(0, |&(_, start)| self.hashes.len() - start)
    }

    /// The hashes of `row`.
    pub fn of(&self, row: u64) -> &[u64] {
        match self.starts.binary_search_by_key(&row, |&(row, _)| row) {
            Ok(at) => {
                let end = self.starts.get(at + 1).map_or(self.hashes.len(), |&(_, start)| start);
                &self.hashes[self.starts[at].1..end]
            }
            Err(_) => &[],
        }
    }

    /// Rows below `row` will not be asked for again.
    pub fn drop_before(&mut self, row: u64) {
        let n = self.starts.partition_point(|&(at, _)| at < row);
        // Seldom, so that it costs nothing a row.
        if n < 4096 || 2 * n < self.starts.len() {
            return;
        }
        let gone = self.starts.get(n).map_or(self.hashes.len(), |&(_, start)| start);
        self.hashes.drain(..gone);
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
            for hash in 0..row % 4 {
                assert_eq!(feed.push(row, row * 10 + hash), hash as usize + 1);
            }
            if row % 1000 == 999 {
                feed.drop_before(row - 500);
            }
        }
        assert!(feed.starts.len() < 15_000);
        for row in 19_400..20_000 {
            assert_eq!(feed.of(row).len() as u64, row % 4);
            assert!(feed.of(row).iter().enumerate().all(|(at, &hash)| hash == row * 10 + at as u64));
        }
    }
}
