//! Which cell of a fleet a request goes to: drawn for each request, session or chain, in proportion to given weights.

use std::collections::HashMap;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::rng::{Purpose, Streams};

/// How requests are dealt out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitSpec {
    pub seed: u64,
    /// By class: the key under which it draws.
    pub keys: Vec<u64>,
    /// By class: the weight of each cell, 0 or more, some above 0.
    pub weights: Vec<Vec<f64>>,
}

/// Which cell each request, session or chain of a class goes to.
#[derive(Debug, Clone)]
pub struct Dealer {
    streams: Vec<Streams>,
    ends: Vec<Vec<f64>>,
}

impl Dealer {
    pub fn new(spec: &SplitSpec) -> Result<Self> {
        let streams = spec.keys.iter().map(|key| Streams::new(spec.seed, Purpose::Cell, *key)).collect();
        Ok(Self { streams, ends: ends_of(spec)? })
    }

    /// The cell of the `number`-th of a class.
    pub fn cell(&self, class: usize, number: u64) -> u32 {
        let ends = &self.ends[class];
        let draw = self.streams[class].of(number).uniform();
        ends.partition_point(|&end| end <= draw).min(ends.len() - 1) as u32
    }
}

/// The cell of each row. Rows of a session, and rows that follow one another, go to the same cell.
///
/// The draw of a row is a pure function of the seed, its class's key, and its number among the free requests, sessions
/// and chains of the class, so other classes may come and go. `session` and `after_row` are empty, or `u64::MAX` for
/// nobody's session and for a row that follows none.
pub fn split(spec: &SplitSpec, class_ix: &[u16], session: &[u64], after_row: &[u64]) -> Result<Vec<u32>> {
    let dealer = Dealer::new(spec)?;
    let fits = |len: usize| len == 0 || len == class_ix.len();
    if !fits(session.len()) || !fits(after_row.len()) {
        return Err(Error::input("requests", "columns must be of equal length"));
    }
    let mut n_before = vec![0u64; spec.keys.len()];
    let mut of_session: HashMap<(u16, u64), u32> = HashMap::new();
    let mut cells: Vec<u32> = Vec::with_capacity(class_ix.len());
    for (row, &class) in class_ix.iter().enumerate() {
        if usize::from(class) >= n_before.len() {
            return Err(Error::input("class_ix", format!("row {row}: no such class")));
        }
        let mine = session.get(row).copied().unwrap_or(u64::MAX);
        if mine != u64::MAX {
            if let Some(&cell) = of_session.get(&(class, mine)) {
                cells.push(cell);
                continue;
            }
        }
        let before = after_row.get(row).copied().unwrap_or(u64::MAX);
        let cell = match cells.get(usize::try_from(before).unwrap_or(usize::MAX)) {
            Some(&cell) => cell,
            None if before != u64::MAX => {
                return Err(Error::input("after_row", format!("row {row}: must be an earlier row")));
            }
            None => {
                let number = &mut n_before[usize::from(class)];
                *number += 1;
                dealer.cell(usize::from(class), *number - 1)
            }
        };
        if mine != u64::MAX {
            of_session.insert((class, mine), cell);
        }
        cells.push(cell);
    }
    Ok(cells)
}

/// Upper ends of the cells' shares, by class; the last cell with a weight ends at infinity.
fn ends_of(spec: &SplitSpec) -> Result<Vec<Vec<f64>>> {
    if spec.keys.len() != spec.weights.len() {
        return Err(Error::input("keys, weights", "need one for each class"));
    }
    let of_class = |weights: &Vec<f64>| {
        let total: f64 = weights.iter().sum();
        let is_usable = weights.iter().all(|w| w.is_finite() && *w >= 0.0) && total > 0.0 && total.is_finite();
        let Some(last) = weights.iter().rposition(|&w| w > 0.0).filter(|_| is_usable) else {
            return Err(Error::input("weights", "must be 0 or more, and some above 0"));
        };
        let mut sum = 0.0;
        let ends = weights.iter().enumerate().map(|(at, w)| {
            sum += w / total;
            if at >= last {
                f64::INFINITY
            } else {
                sum
            }
        });
        Ok(ends.collect())
    };
    spec.weights.iter().map(of_class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(weights: Vec<Vec<f64>>) -> SplitSpec {
        SplitSpec { seed: 1, keys: (0..weights.len() as u64).collect(), weights }
    }

    #[test]
    fn cells_get_their_shares_and_nothing_else() {
        let classes = vec![0; 40_000];
        let cells = split(&spec(vec![vec![1.0, 0.0, 3.0, 0.0]]), &classes, &[], &[]).unwrap();
        let n = |cell| cells.iter().filter(|&&c| c == cell).count();
        assert_eq!((n(1), n(3), n(0) + n(2)), (0, 0, 40_000));
        assert!(n(0).abs_diff(10_000) < 350, "{}", n(0)); // 4 standard deviations of a binomial are 346
    }

    #[test]
    fn sessions_and_chains_stay_together_and_classes_do_not_meet() {
        let none = u64::MAX;
        let half = vec![0.5, 0.5];
        let class = [0, 1, 0, 1, 0, 1, 1, 1];
        let session = [7, none, 7, none, none, none, 7, 7];
        let after = [none, none, none, 1, none, 3, none, 6];
        let cells = split(&spec(vec![half.clone(), half.clone()]), &class, &session, &after).unwrap();
        assert_eq!((cells[0], cells[1], cells[1], cells[6]), (cells[2], cells[3], cells[5], cells[7]));
        // The draws of class 1 are the same without class 0.
        let alone = SplitSpec { seed: 1, keys: vec![1], weights: vec![half] };
        let few = split(&alone, &[0; 5], &[none, none, none, 7, 7], &[none, 0, 1, none, 3]).unwrap();
        assert_eq!(few, [cells[1], cells[3], cells[5], cells[6], cells[7]]);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for weights in [vec![], vec![0.0, 0.0], vec![-1.0, 2.0], vec![f64::NAN]] {
            assert!(split(&spec(vec![weights]), &[0], &[], &[]).is_err());
        }
        assert!(split(&spec(vec![vec![1.0]]), &[1], &[], &[]).is_err());
        assert!(split(&spec(vec![vec![1.0]]), &[0, 0], &[], &[u64::MAX, 1]).is_err());
    }
}
