//! Tables of numbers: what leaves the engine. The column names carry the units.

mod exact;
mod merge;
mod query;

use crate::cell::Sim;
use crate::class_meter::ClassCount;
use crate::error::{Error, Result};
use crate::meter::Work;
use crate::request::Fate;
use crate::sketch::Sketch;
use crate::steady::SteadyPoint;
use crate::time::{j_from_fj, s_from_fs, s_from_wide_ns, NEVER, NS_PER_S};

pub use exact::{finish, WorkRows};
pub use merge::{merge, Part};
pub use query::{query, Query, SketchRows};

/// A column of one type, without nulls.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
    /// 64-bit integers with nulls where there is none.
    MaybeU64(Vec<Option<u64>>),
}

/// Columns of equal length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<(String, Column)>,
}

impl Table {
    /// A table of columns and their names.
    pub fn of<const N: usize>(columns: [(&str, Column); N]) -> Self {
        Self { columns: columns.into_iter().map(|(name, column)| (name.to_owned(), column)).collect() }
    }

    fn with(mut self, name: &str, column: Column) -> Self {
        self.columns.push((name.to_owned(), column));
        self
    }

    fn f64<T>(self, name: &str, rows: &[T], value: impl Fn(&T) -> f64) -> Self {
        self.with(name, Column::F64(rows.iter().map(value).collect()))
    }

    fn u64<T>(self, name: &str, rows: &[T], value: impl Fn(&T) -> u64) -> Self {
        self.with(name, Column::U64(rows.iter().map(value).collect()))
    }

    fn u32<T>(self, name: &str, rows: &[T], value: impl Fn(&T) -> u32) -> Self {
        self.with(name, Column::U32(rows.iter().map(value).collect()))
    }
}

/// The tables of a finished simulation.
pub fn take(sim: &Sim, what: &str) -> Result<Table> {
    match what {
        "classes" => Ok(classes(sim)),
        "class_windows" => Ok(class_windows(sim)),
        "placed" => Ok(exact::placed(sim)),
        "work" => Ok(exact::work(sim)),
        "sketches" => Ok(sketches(sim)),
        "batches" => Ok(batches(sim)),
        "requests" => Ok(requests(sim)),
        "timeline" => Ok(timeline(sim)),
        other => Err(Error::input("what", format!("no table '{other}'"))),
    }
}

/// Counters by class, of all that was offered and (`span_`) of what arrived in [warmup, length).
fn classes(sim: &Sim) -> Table {
    let rows: Vec<(u32, &ClassCount, &ClassCount)> =
        sim.classes.iter().enumerate().map(|(i, c)| (i as u32, &c.all, &c.span)).collect();
    Table::default()
        .u32("class_ix", &rows, |r| r.0)
        .u64("offered", &rows, |r| r.1.offered)
        .u64("completed", &rows, |r| r.1.completed)
        .u64("rejected", &rows, |r| r.1.rejected)
        .u64("unfinished", &rows, |r| r.1.unfinished)
        .u64("timed_out", &rows, |r| r.1.timed_out)
        .u64("cancelled", &rows, |r| r.1.cancelled)
        .u64("retried", &rows, |r| r.1.retried)
        .u64("lost", &rows, |r| r.1.lost)
        .u64("input_tokens", &rows, |r| r.1.input_tokens)
        .u64("output_tokens", &rows, |r| r.1.output_tokens)
        .u64("span_offered", &rows, |r| r.2.offered)
        .u64("span_completed", &rows, |r| r.2.completed)
        .u64("span_attained", &rows, |r| r.2.attained)
        .u64("span_single_token", &rows, |r| r.2.single_token)
        .u64("span_tasks", &rows, |r| r.2.tasks)
}

fn class_windows(sim: &Sim) -> Table {
    let rows: Vec<_> = sim
        .classes
        .iter()
        .enumerate()
        .flat_map(|(i, c)| c.windows.iter().map(move |(w, row)| (i as u32, *w, row)))
        .collect();
    Table::default()
        .u32("class_ix", &rows, |r| r.0)
        .u64("window_ix", &rows, |r| r.1)
        .u64("offered", &rows, |r| r.2.offered)
        .u64("completed", &rows, |r| r.2.completed)
        .u64("rejected", &rows, |r| r.2.rejected)
        .u64("timed_out", &rows, |r| r.2.timed_out)
        .u64("cancelled", &rows, |r| r.2.cancelled)
        .u64("retried", &rows, |r| r.2.retried)
        .u64("lost", &rows, |r| r.2.lost)
        .u64("attained", &rows, |r| r.2.attained)
}

fn work<T>(table: Table, rows: &[T], of: impl Fn(&T) -> &Work) -> Table {
    table
        .f64("busy_s", rows, |r| s_from_wide_ns(of(r).busy_ns))
        .f64("prefill_s", rows, |r| s_from_fs(of(r).prefill_fs))
        .f64("decode_s", rows, |r| s_from_fs(of(r).decode_fs))
        .f64("prefill_j", rows, |r| j_from_fj(of(r).prefill_fj))
        .f64("decode_j", rows, |r| j_from_fj(of(r).decode_fj))
        .f64("bytes", rows, |r| of(r).bytes as f64)
        .f64("flop", rows, |r| of(r).flops as f64)
        .f64("memory_s", rows, |r| s_from_fs(of(r).memory_fs))
        .f64("compute_s", rows, |r| s_from_fs(of(r).compute_fs))
        .f64("network_s", rows, |r| s_from_fs(of(r).network_fs))
        .f64("launch_s", rows, |r| s_from_fs(of(r).launch_fs))
        .f64("power_s", rows, |r| s_from_fs(of(r).power_fs))
        .f64("kv_token_s", rows, |r| s_from_fs(of(r).kv_token_fs))
        .u64("steps", rows, |r| of(r).steps)
        .u64("input_tokens", rows, |r| of(r).input_tokens)
        .u64("output_tokens", rows, |r| of(r).output_tokens)
        .u64("recomputed_tokens", rows, |r| of(r).recomputed_tokens)
        .u64("prefix_hit_tokens", rows, |r| of(r).prefix_hit_tokens)
        .u64("cached_input_tokens", rows, |r| of(r).cached_input_tokens)
        .u64("preemptions", rows, |r| of(r).preemptions)
        .f64("down_s", rows, |r| s_from_wide_ns(of(r).down_ns))
        .f64("off_s", rows, |r| s_from_wide_ns(of(r).off_ns))
}

/// One row a kept value or bucket: what `quantiles` reads back.
fn sketches(sim: &Sim) -> Table {
    let mut found = Vec::new();
    for (class, meter) in sim.classes.iter().enumerate() {
        for (pool, by_metric) in meter.latencies.of_span().iter().enumerate() {
            for (metric, sketch) in by_metric.iter().enumerate() {
                let (is_bucket, entries) = sketch.rows();
                let key = [class as u16, pool as u16, metric as u16];
                found.push(SketchOf { key, is_bucket, entries, sum_fs: sketch.sum_fs() });
            }
        }
    }
    sketch_table(&found)
}

/// The sketches of batches, all pools together: `class_ix` is batch x classes + class, and behind the metrics come the
/// counts, each as a sketch of so many zeros.
fn batches(sim: &Sim) -> Table {
    let n_classes = sim.classes.len();
    let mut found = Vec::new();
    for (class, meter) in sim.classes.iter().enumerate() {
        for (batch, (sketches, count)) in meter.latencies.of_batches().enumerate() {
            let place = (batch * n_classes + class) as u16;
            let counts = count.all().map(Sketch::of_zeros);
            for (metric, sketch) in sketches.iter().chain(&counts).enumerate() {
                let (is_bucket, entries) = sketch.rows();
                found.push(SketchOf { key: [place, 0, metric as u16], is_bucket, entries, sum_fs: sketch.sum_fs() });
            }
        }
    }
    found.sort_by_key(|sketch| sketch.key);
    sketch_table(&found)
}

/// The sketch of a class, pool and metric.
struct SketchOf {
    key: [u16; 3],
    is_bucket: bool,
    entries: Vec<(u64, u64)>,
    sum_fs: i128,
}

fn sketch_table(sketches: &[SketchOf]) -> Table {
    let mut rows: Vec<([u16; 3], bool, u64, u64)> = Vec::new();
    let mut sums: Vec<(u64, u64)> = Vec::new();
    for sketch in sketches {
        for (at, &(key, n)) in sketch.entries.iter().enumerate() {
            rows.push((sketch.key, sketch.is_bucket, key, n));
            // The sketch's sum stands once, at its first row.
            sums.push(if at == 0 { split_fs(sketch.sum_fs) } else { (0, 0) });
        }
    }
    let code = |at: usize| Column::U16(rows.iter().map(|r| r.0[at]).collect());
    Table::default()
        .with("class_ix", code(0))
        .with("pool_ix", code(1))
        .with("metric_ix", code(2))
        .with("is_bucket", Column::U16(rows.iter().map(|r| u16::from(r.1)).collect()))
        .u64("key_ns", &rows, |r| r.2)
        .u64("count", &rows, |r| r.3)
        .u64("sum_s", &sums, |s| s.0)
        .u64("sum_fs", &sums, |s| s.1)
}

/// Whole seconds and the femtoseconds beyond, so that a sum stays exact in two 64-bit columns.
fn split_fs(fs: i128) -> (u64, u64) {
    let per_s = i128::from(NS_PER_S) * 1_000_000;
    ((fs / per_s) as u64, (fs % per_s) as u64)
}

/// Points of a closed loop; what a row of an infeasible group has is not a number.
pub fn steady(points: &[SteadyPoint]) -> Table {
    Table::default()
        .f64("ttft_s", points, |p| p.ttft_s)
        .f64("tpot_s", points, |p| p.tpot_s)
        .f64("output_tokens_per_s", points, |p| p.output_tokens_per_s)
        .f64("n_seqs", points, |p| p.n_seqs)
        .f64("cache_seqs", points, |p| p.cache_seqs)
        .f64("prefill_busy_frac", points, |p| p.prefill_busy_frac)
        .f64("chip_w", points, |p| p.chip_w)
        .f64("launch_s", points, |p| p.launch_s)
        .f64("unlike_layers", points, |p| p.unlike_layers)
}

fn requests(sim: &Sim) -> Table {
    let rows = &sim.rows;
    let known = |t: u64| (t != NEVER).then_some(t);
    Table::default()
        .u64("row", rows, |r| r.row)
        .with("class_ix", Column::U16(rows.iter().map(|r| r.class).collect()))
        .u32("replica_ix", rows, |r| r.replica)
        .with("fate", Column::U16(rows.iter().map(|r| r.fate as u16).collect()))
        .u64("arrival_ns", rows, |r| r.arrival_ns)
        .with("seen_ns", Column::MaybeU64(rows.iter().map(|r| known(r.seen_ns)).collect()))
        .with("start_ns", Column::MaybeU64(rows.iter().map(|r| known(r.start_ns)).collect()))
        .with("first_token_ns", Column::MaybeU64(rows.iter().map(|r| known(r.first_token_ns)).collect()))
        .with(
            "end_ns",
            Column::MaybeU64(rows.iter().map(|r| known(r.end_ns).filter(|_| r.fate == Fate::Completed)).collect()),
        )
        .u32("input_tokens", rows, |r| r.input_tokens)
        .u32("output_tokens", rows, |r| r.output_tokens)
        .u32("generated_tokens", rows, |r| r.generated_tokens)
        .u32("cached_tokens", rows, |r| r.cached_tokens)
}

/// Stretches of equal steps, in the order in which they ended; what the bound left out is `n_left_out` of each row.
fn timeline(sim: &Sim) -> Table {
    let rows = &sim.timeline.spans;
    Table::default()
        .u32("replica_ix", rows, |r| r.replica)
        .u64("begin_ns", rows, |r| r.begin_ns)
        .u64("end_ns", rows, |r| r.end_ns)
        .u64("n_decoding", rows, |r| r.n_decoding)
        .u64("n_prompts", rows, |r| r.n_prompts)
        .u64("steps", rows, |r| r.steps)
        .u64("n_left_out", rows, |_| sim.timeline.n_left_out)
}
