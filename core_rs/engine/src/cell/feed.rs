//! What is handed in: requests, and the hashes of their prompts.

use super::Sim;
use crate::error::{Error, Result};
use crate::inbox::Requests;

impl Sim {
    /// Hand in the next requests; they must follow the ones before in time and lie inside the run.
    pub fn feed(&mut self, more: &Requests) -> Result<()> {
        if self.is_fed {
            return Err(Error::input("requests", "the simulation has begun to drain"));
        }
        self.inbox.feed(more, self.classes.len(), self.spec.length_ns, self.n_events > 0)
    }

    /// Hand in the hashes of prompts that were fed: `row[i]` has `hash[i]` next, which names all of the prompt before it,
    /// and the numbers that follow it, `n[i]` in all (one each where `n` is empty).
    pub fn feed_blocks(&mut self, row: &[u64], hash: &[u64], n: &[u32]) -> Result<()> {
        let size = self.spec.hash_block_tokens;
        if row.len() != hash.len() || !(n.is_empty() || n.len() == row.len()) {
            return Err(Error::input("blocks", "columns must be of equal length"));
        }
        if size == 0 && !row.is_empty() {
            return Err(Error::input("hash_block_tokens", "must be given with the hashes of prompts"));
        }
        self.hashes.drop_before(self.inbox.first_to_come());
        for (at, (&row, &hash)) in row.iter().zip(hash).enumerate() {
            let n = n.get(at).copied().unwrap_or(1);
            let Some(input) = self.inbox.input_tokens(row) else {
                return Err(Error::input("blocks.row", format!("{row}: no such request was fed, or it came already")));
            };
            if self.hashes.last_row().is_some_and(|last| row < last) {
                return Err(Error::input("blocks.row", format!("{row}: must not fall")));
            }
            if n > 0 && self.hashes.push(row, hash, n) > u64::from(input).div_ceil(size) {
                let what = format!("{row}: more than {input} prompt tokens / {size}, rounded up");
                return Err(Error::input("blocks.row", what));
            }
        }
        Ok(())
    }

    /// No more requests will come.
    pub fn end_of_requests(&mut self) {
        self.is_fed = true;
    }
}
