//! Tables of several cells as the one that they would be together, whatever the order in which they come.

use std::collections::BTreeMap;

use super::exact::WorkRows;
use super::query::{Merged, SketchRows};
use super::{sketch_table, Column, SketchOf, Table};

/// Rows of some cells, read from their tables.
#[derive(Debug)]
pub enum Part {
    /// Counters: the columns that tell rows apart, then those that are added up.
    Counts {
        keys: Vec<Vec<u64>>,
        sums: Vec<Vec<u64>>,
    },
    Work(WorkRows),
    Sketches(SketchRows),
}

/// The table of all parts, which must be of one kind; `names` are the columns of counters, keys first.
pub fn merge(parts: Vec<Part>, names: &[&str]) -> Table {
    let mut counts: BTreeMap<Vec<u64>, Vec<u64>> = BTreeMap::new();
    let mut work: Vec<WorkRows> = Vec::new();
    let mut sketches: BTreeMap<[u16; 3], Merged> = BTreeMap::new();
    let mut n_keys = None;
    let (mut has_work, mut has_sketches) = (false, false);
    for part in parts {
        match part {
            Part::Counts { keys, sums } => {
                n_keys = Some(keys.len());
                add_counts(&mut counts, &keys, &sums);
            }
            Part::Work(rows) => {
                has_work = true;
                work.push(rows);
            }
            Part::Sketches(rows) => {
                has_sketches = true;
                for at in 0..rows.class_ix.len() {
                    let key = [rows.class_ix[at], rows.pool_ix[at], rows.metric_ix[at]];
                    sketches.entry(key).or_default().add(&rows, at);
                }
            }
        }
    }
    if has_work {
        return merged_work(work).table();
    }
    if has_sketches {
        let all: Vec<SketchOf> = sketches
            .iter()
            .map(|(&key, merged)| {
                let (is_bucket, entries) = merged.rows();
                SketchOf { key, is_bucket, entries, sum_fs: merged.sum_fs }
            })
            .collect();
        return sketch_table(&all);
    }
    count_table(&counts, n_keys.unwrap_or(0), names)
}

fn add_counts(all: &mut BTreeMap<Vec<u64>, Vec<u64>>, keys: &[Vec<u64>], sums: &[Vec<u64>]) {
    for at in 0..keys.first().map_or(0, Vec::len) {
        let key = keys.iter().map(|column| column[at]).collect();
        let row = all.entry(key).or_insert_with(|| vec![0; sums.len()]);
        for (total, column) in row.iter_mut().zip(sums) {
            *total += column[at];
        }
    }
}

fn count_table(all: &BTreeMap<Vec<u64>, Vec<u64>>, n_keys: usize, names: &[&str]) -> Table {
    let mut table = Table::default();
    for (at, name) in names.iter().enumerate() {
        let column: Vec<u64> =
            all.iter().map(|(key, sums)| if at < n_keys { key[at] } else { sums[at - n_keys] }).collect();
        table = match *name {
            "class_ix" => table.with(name, Column::U32(column.iter().map(|&v| v as u32).collect())),
            _ => table.with(name, Column::U64(column)),
        };
    }
    table
}

/// Rows of the same deployment and window become one; each part's rows need no order.
fn merged_work(parts: Vec<WorkRows>) -> WorkRows {
    let mut rows: Vec<_> = parts.into_iter().flat_map(|part| part.rows).collect();
    // As `take` gives them: by deployment, the span first, then the windows.
    rows.sort_by_key(|(key, _)| (key.0, key.1.wrapping_add(1)));
    let mut merged: Vec<((u32, u64), crate::meter::Work)> = Vec::new();
    for (key, work) in rows {
        match merged.last_mut() {
            Some((last, sum)) if *last == key => sum.add(&work),
            _ => merged.push((key, work)),
        }
    }
    WorkRows { rows: merged }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Work;

    #[test]
    fn work_adds_up_beyond_64_bits_whatever_the_order() {
        let big = Work { busy_ns: i128::from(u64::MAX), decode_fs: -1, steps: 3, ..Work::default() };
        let rows = |window: u64, n: usize| WorkRows { rows: vec![((1, window), big.clone()); n] };
        let parts = |order: [u64; 3]| order.map(|window| Part::Work(rows(window, 2))).into_iter().collect::<Vec<_>>();
        let merged = merge(parts([7, u64::MAX, 2]), &[]);
        assert_eq!(merged, merge(parts([2, 7, u64::MAX]), &[]));
        let column = |name: &str| merged.columns.iter().find(|(n, _)| n == name).unwrap().1.clone();
        assert_eq!(column("window_ix"), Column::U64(vec![u64::MAX, 2, 7]));
        assert_eq!(column("busy_ns_hi"), Column::U64(vec![1; 3])); // 2 (2^64 - 1) = 2^64 + (2^64 - 2)
        assert_eq!(column("busy_ns_lo"), Column::U64(vec![u64::MAX - 1; 3]));
        assert_eq!(
            (column("decode_fs_hi"), column("decode_fs_lo")),
            (Column::U64(vec![u64::MAX; 3]), Column::U64(vec![u64::MAX - 1; 3]))
        );
        assert_eq!(column("steps"), Column::U64(vec![6; 3]));
    }

    #[test]
    fn counters_add_up_by_their_keys() {
        let part = |keys: Vec<u64>, sums: Vec<u64>| Part::Counts { keys: vec![keys], sums: vec![sums] };
        let merged = merge(vec![part(vec![2, 0], vec![5, 1]), part(vec![0], vec![10])], &["class_ix", "offered"]);
        assert_eq!(merged.columns[0].1, Column::U32(vec![0, 2]));
        assert_eq!(merged.columns[1].1, Column::U64(vec![11, 5]));
    }
}
