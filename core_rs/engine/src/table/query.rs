//! Quantiles and means read off the rows of merged sketches.

use crate::sketch;
use crate::time::{s_from_fs, NS_PER_S};

/// Rows of sketches, as `take(sim, "sketches")` gives them, of any number of pools, cells and seeds.
#[derive(Debug, Clone, Default)]
pub struct SketchRows {
    pub class_ix: Vec<u16>,
    /// Empty where pools are not told apart.
    pub pool_ix: Vec<u16>,
    pub metric_ix: Vec<u16>,
    pub is_bucket: Vec<u16>,
    pub key_ns: Vec<u64>,
    pub count: Vec<u64>,
    pub sum_s: Vec<u64>,
    pub sum_fs: Vec<u64>,
}

/// What to read off the merged sketch of a class and metric.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    pub class_ix: u16,
    pub metric_ix: u16,
    /// 0..1; none asks for the mean.
    pub quantile: Option<f64>,
    /// Members of the population below every value (they count as met), and its size; none = only those with a value.
    pub n_low: u64,
    pub n_total: Option<u64>,
}

/// Answers in seconds, in the order of the queries; none where there is no value.
pub fn query(rows: &SketchRows, queries: &[Query]) -> Vec<Option<f64>> {
    let mut merged: std::collections::BTreeMap<(u16, u16), Merged> = std::collections::BTreeMap::new();
    for at in 0..rows.class_ix.len() {
        merged.entry((rows.class_ix[at], rows.metric_ix[at])).or_default().add(rows, at);
    }
    let read: std::collections::BTreeMap<_, _> = merged.iter().map(|(key, m)| (*key, m.rows())).collect();
    queries
        .iter()
        .map(|q| {
            let key = (q.class_ix, q.metric_ix);
            let of = merged.get(&key)?;
            let (is_bucket, rows) = read.get(&key)?;
            match q.quantile {
                None => (of.count > 0).then(|| s_from_fs(of.sum_fs) / of.count as f64),
                Some(quantile) => {
                    let n_total = q.n_total.unwrap_or(of.count);
                    sketch::quantile(*is_bucket, rows, q.n_low, n_total, quantile).map(|ns| ns / NS_PER_S as f64)
                }
            }
        })
        .collect()
}

/// Rows of one sketch, or of several that become one.
#[derive(Default)]
pub(super) struct Merged {
    pub count: u64,
    pub sum_fs: i128,
    values: Vec<(u64, u64)>,
    buckets: Vec<(u64, u64)>,
}

impl Merged {
    /// Take in row `at`.
    pub fn add(&mut self, rows: &SketchRows, at: usize) {
        self.count += rows.count[at];
        self.sum_fs += i128::from(rows.sum_s[at]) * i128::from(NS_PER_S) * 1_000_000 + i128::from(rows.sum_fs[at]);
        let list = if rows.is_bucket[at] == 0 { &mut self.values } else { &mut self.buckets };
        list.push((rows.key_ns[at], rows.count[at]));
    }

    /// Exact while all of it was kept exactly and is few; else buckets.
    pub fn rows(&self) -> (bool, Vec<(u64, u64)>) {
        let is_bucket = !self.buckets.is_empty() || self.count > sketch::EXACT_MAX;
        let mut by_key: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
        for &(value, n) in &self.values {
            *by_key.entry(if is_bucket { u64::from(sketch::bucket(value)) } else { value }).or_default() += n;
        }
        for &(bucket, n) in &self.buckets {
            *by_key.entry(bucket).or_default() += n;
        }
        (is_bucket, by_key.into_iter().collect())
    }
}
