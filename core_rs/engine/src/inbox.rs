//! Requests that have not been sent yet: those that come by the clock, and those that follow others.

use crate::error::{Error, Result};

/// Requests as they come: columns of equal length, sorted by arrival.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    pub arrival_ns: Vec<u64>,
    pub class_ix: Vec<u16>,
    pub input_tokens: Vec<u32>,
    pub output_tokens: Vec<u32>,
    /// The row that each follows (`u64::MAX`: none) and how long after its end it is sent; empty = no chains.
    pub after_row: Vec<u64>,
    pub delay_ns: Vec<u64>,
    /// Whose request it is (`u64::MAX`: nobody's); empty = each chain is a session.
    pub session: Vec<u64>,
}

/// No row.
const NONE: u32 = u32::MAX;

/// What a request is when it is sent.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub row: u64,
    pub class: u16,
    pub input_tokens: u32,
    pub output_tokens: u32,
    pub session: Option<u64>,
}

/// Rows that follow one another: a forest, each tree of which is a chain.
#[derive(Debug, Default)]
struct Chains {
    first_after: Vec<u32>,
    next_after: Vec<u32>,
    head: Vec<u32>,
    /// By head: rows that have not ended, when the head was sent, and whether all went well so far.
    open: Vec<u32>,
    sent_ns: Vec<u64>,
    is_whole: Vec<bool>,
}

/// Rows yet to be sent. Rows without chains are forgotten once they are consumed.
#[derive(Debug, Default)]
pub struct Inbox {
    rows: Requests,
    first_row: u64,
    at: usize,
    last_ns: u64,
    chains: Option<Chains>,
}

impl Inbox {
    /// Take the next rows in; `has_begun` tells whether the simulation is under way.
    pub fn feed(&mut self, more: &Requests, n_classes: usize, length_ns: u64, has_begun: bool) -> Result<()> {
        let n = more.arrival_ns.len();
        let is_chained = !more.after_row.is_empty() || !more.delay_ns.is_empty();
        let fits = |len: usize| len == n || len == 0;
        if [more.class_ix.len(), more.input_tokens.len(), more.output_tokens.len()] != [n; 3]
            || !(fits(more.session.len()) && more.after_row.len() == more.delay_ns.len() && fits(more.after_row.len()))
        {
            return Err(Error::input(
                "requests",
                "columns must be of equal length; after_row and delay_ns come together",
            ));
        }
        let n_before = self.first_row + self.rows.arrival_ns.len() as u64;
        if n > 0 && n_before > 0 {
            if is_chained != self.chains.is_some() || more.session.is_empty() != self.rows.session.is_empty() {
                return Err(Error::input("requests", "must have the same columns each time"));
            }
            if is_chained && has_begun {
                return Err(Error::input(
                    "after_row",
                    "requests that follow others must be fed before the first advance",
                ));
            }
        }
        let mut before = self.last_ns;
        for i in 0..n {
            let t = more.arrival_ns[i];
            if t < before || t > length_ns {
                return Err(Error::input("arrival_ns", format!("row {i}: must not fall, nor pass the run's length")));
            }
            before = t;
            if usize::from(more.class_ix[i]) >= n_classes {
                return Err(Error::input("class_ix", format!("row {i}: no such class")));
            }
            if more.input_tokens[i] == 0 || more.output_tokens[i] == 0 {
                return Err(Error::input("input_tokens, output_tokens", format!("row {i}: must be at least 1")));
            }
            if is_chained && more.after_row[i] != u64::MAX && more.after_row[i] >= n_before + i as u64 {
                return Err(Error::input("after_row", format!("row {i}: must be an earlier row")));
            }
        }
        if is_chained && n_before + n as u64 >= u64::from(NONE) {
            return Err(Error::input("after_row", "at most 4 billion requests that follow others"));
        }
        self.last_ns = before;
        self.forget();
        if is_chained {
            self.chains.get_or_insert_with(Chains::default).link(&more.after_row);
        }
        self.rows.arrival_ns.extend_from_slice(&more.arrival_ns);
        self.rows.class_ix.extend_from_slice(&more.class_ix);
        self.rows.input_tokens.extend_from_slice(&more.input_tokens);
        self.rows.output_tokens.extend_from_slice(&more.output_tokens);
        self.rows.after_row.extend_from_slice(&more.after_row);
        self.rows.delay_ns.extend_from_slice(&more.delay_ns);
        self.rows.session.extend_from_slice(&more.session);
        Ok(())
    }

    fn forget(&mut self) {
        if self.chains.is_some() || self.at == 0 {
            return;
        }
        let rows = &mut self.rows;
        rows.arrival_ns.drain(..self.at);
        rows.class_ix.drain(..self.at);
        rows.input_tokens.drain(..self.at);
        rows.output_tokens.drain(..self.at);
        if !rows.session.is_empty() {
            rows.session.drain(..self.at);
        }
        self.first_row += self.at as u64;
        self.at = 0;
    }

    /// When the next request comes by the clock, if one is known.
    pub fn next_ns(&mut self) -> Option<u64> {
        if self.chains.is_some() {
            while self.rows.after_row.get(self.at).is_some_and(|&row| row != u64::MAX) {
                self.at += 1;
            }
        }
        self.rows.arrival_ns.get(self.at).copied()
    }

    /// Whether rows follow others.
    pub fn has_chains(&self) -> bool {
        self.chains.is_some()
    }

    /// Take the next request that comes by the clock.
    pub fn take(&mut self) -> Asked {
        self.at += 1;
        self.asked(self.first_row + self.at as u64 - 1)
    }

    /// Rows before it have come and are not asked for again.
    pub fn first_to_come(&self) -> u64 {
        if self.chains.is_some() {
            0
        } else {
            self.first_row + self.at as u64
        }
    }

    /// Prompt tokens of a row that is still to come.
    pub fn input_tokens(&self, row: u64) -> Option<u32> {
        let at = row.checked_sub(self.first_row)? as usize;
        self.rows.input_tokens.get(at).copied().filter(|_| at >= self.at)
    }

    /// What row `row` asks for; it must not have been forgotten.
    pub fn asked(&self, row: u64) -> Asked {
        let at = (row - self.first_row) as usize;
        Asked {
            row,
            class: self.rows.class_ix[at],
            input_tokens: self.rows.input_tokens[at],
            output_tokens: self.rows.output_tokens[at],
            session: self.session(at),
        }
    }

    fn session(&self, at: usize) -> Option<u64> {
        match (self.rows.session.get(at), &self.chains) {
            (Some(&session), _) => (session != u64::MAX).then_some(session),
            (None, Some(chains)) => Some(u64::from(chains.head[at])),
            (None, None) => None,
        }
    }

    /// A request was sent at `t`; true if a chain begins with it.
    pub fn sent(&mut self, row: u64, t: u64) -> bool {
        let Some(chains) = &mut self.chains else { return false };
        let is_head = u64::from(chains.head[row as usize]) == row;
        if is_head {
            chains.sent_ns[row as usize] = t;
        }
        is_head
    }

    /// The rows that follow `row`, with their delays, in their order.
    pub fn after(&self, row: u64) -> Vec<(u64, u64)> {
        let Some(chains) = &self.chains else { return Vec::new() };
        let mut found = Vec::new();
        let mut at = chains.first_after[row as usize];
        while at != NONE {
            found.push((u64::from(at), self.rows.delay_ns[at as usize]));
            at = chains.next_after[at as usize];
        }
        found
    }

    /// The rest of the chain of `row` is not sent any more; gives its first row, and when that was sent, if all went well
    /// so far and this was not known.
    pub fn cut(&mut self, row: u64) -> Option<(u64, u64)> {
        let chains = self.chains.as_mut()?;
        let head = chains.head[row as usize] as usize;
        std::mem::take(&mut chains.is_whole[head]).then_some((head as u64, chains.sent_ns[head]))
    }

    /// `row` has ended, well or not; gives when its chain was begun if with it the whole chain has ended well.
    pub fn ended(&mut self, row: u64, is_well: bool) -> Option<u64> {
        let chains = self.chains.as_mut()?;
        let head = chains.head[row as usize] as usize;
        chains.open[head] -= 1;
        chains.is_whole[head] &= is_well;
        (chains.open[head] == 0 && chains.is_whole[head]).then_some(chains.sent_ns[head])
    }
}

impl Chains {
    /// Hang the next rows in. Those that follow one row stand in their order.
    fn link(&mut self, after_row: &[u64]) {
        let mut last_after = vec![NONE; self.head.len() + after_row.len()];
        for &after in after_row {
            let row = self.head.len() as u32;
            self.first_after.push(NONE);
            self.next_after.push(NONE);
            self.open.push(0);
            self.sent_ns.push(0);
            self.is_whole.push(true);
            let head = if after == u64::MAX { row } else { self.head[after as usize] };
            self.head.push(head);
            self.open[head as usize] += 1;
            if after == u64::MAX {
                continue;
            }
            let mut last = last_after[after as usize];
            if last == NONE {
                last = self.first_after[after as usize];
                while last != NONE && self.next_after[last as usize] != NONE {
                    last = self.next_after[last as usize];
                }
            }
            if last == NONE {
                self.first_after[after as usize] = row;
            } else {
                self.next_after[last as usize] = row;
            }
            last_after[after as usize] = row;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(after: &[u64]) -> Requests {
        let n = after.len();
        Requests {
            arrival_ns: (0..n as u64).collect(),
            class_ix: vec![0; n],
            input_tokens: vec![5; n],
            output_tokens: vec![1; n],
            after_row: after.to_vec(),
            delay_ns: vec![7; n],
            session: Vec::new(),
        }
    }

    #[test]
    fn a_chain_ends_with_its_last_row() {
        let none = u64::MAX;
        let mut inbox = Inbox::default();
        inbox.feed(&rows(&[none, 0, 0]), 1, 100, false).unwrap();
        inbox.feed(&Requests { arrival_ns: vec![8, 9], ..rows(&[0, none]) }, 1, 100, false).unwrap();
        assert_eq!(inbox.next_ns(), Some(0));
        assert_eq!(inbox.take().row, 0);
        inbox.sent(0, 3);
        assert_eq!(inbox.next_ns(), Some(9));
        assert_eq!(inbox.after(0), [(1, 7), (2, 7), (3, 7)]);
        assert_eq!((inbox.ended(0, true), inbox.ended(2, true), inbox.ended(3, true)), (None, None, None));
        assert_eq!(inbox.ended(1, true), Some(3));
        assert_eq!(inbox.take().session, Some(4));
        assert!(inbox.feed(&rows(&[none]), 1, 100, true).is_err());
    }

    #[test]
    fn consumed_rows_are_forgotten() {
        let mut inbox = Inbox::default();
        let plain = |arrival_ns: Vec<u64>| {
            let n = arrival_ns.len();
            Requests { arrival_ns, after_row: vec![], delay_ns: vec![], ..rows(&vec![0; n]) }
        };
        for batch in 0..5 {
            inbox.feed(&plain(vec![batch, batch]), 1, 100, batch > 0).unwrap();
            assert_eq!(inbox.next_ns(), Some(batch));
            assert_eq!((inbox.take().row, inbox.take().row), (2 * batch, 2 * batch + 1));
            assert_eq!(inbox.rows.arrival_ns.len(), 2);
        }
        assert!(inbox.feed(&plain(vec![3]), 1, 100, true).is_err());
    }
}
