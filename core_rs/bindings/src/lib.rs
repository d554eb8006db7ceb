//! `planner._core`: the engine as Python sees it. Translation only; `planner/core.py` is its one caller.

mod arrow;
mod error;

use std::sync::Arc;

use engine::cell::Sim as EngineSim;
use engine::deployment::DeploymentSpec;
use engine::inbox::Requests;
use engine::offered::{Beside, Offered as EngineOffered, OfferedSpec, Realised as EngineRealised, Recorded, Seen};
use engine::sample::{ProfileSpec, SampleSpec};
use engine::spec::SimSpec;
use engine::split::SplitSpec;
use engine::steady::{SteadyRow, SteadySpec};
use engine::step::{self, Loads, StepModel};
use engine::table::{self, Part, SketchRows, WorkRows};
use pyo3::prelude::*;

use crate::arrow::{Columns, Table};
use crate::error::{guard, EngineError};

/// The simulation of one cell; see `core_rs/engine/src/cell.rs`.
#[pyclass(module = "planner._core")]
struct Sim {
    sim: EngineSim,
}

#[pymethods]
impl Sim {
    #[new]
    fn new(py: Python<'_>, spec: &[u8]) -> PyResult<Self> {
        let sim = py.detach(|| guard(|| EngineSim::new(SimSpec::from_json(spec)?)))?;
        Ok(Self { sim })
    }

    fn feed(&mut self, py: Python<'_>, requests: &Bound<'_, PyAny>) -> PyResult<()> {
        let columns = Columns::read(requests)?;
        let requests = Requests {
            arrival_ns: columns.u64("arrival_ns")?,
            class_ix: columns.u16("class_ix")?,
            input_tokens: columns.u32("input_tokens")?,
            output_tokens: columns.u32("output_tokens")?,
            after_row: columns.u64_if("after_row")?,
            delay_ns: columns.u64_if("delay_ns")?,
            session: columns.u64_if("session")?,
        };
        py.detach(|| guard(|| self.sim.feed(&requests)))
    }

    fn feed_blocks(&mut self, py: Python<'_>, blocks: &Bound<'_, PyAny>) -> PyResult<()> {
        let columns = Columns::read(blocks)?;
        let (row, hash) = (columns.u64("row")?, columns.u64("hash")?);
        let n = if columns.has("n") { columns.u32("n")? } else { Vec::new() };
        py.detach(|| guard(|| self.sim.feed_blocks(&row, &hash, &n)))
    }

    fn end_of_requests(&mut self) {
        self.sim.end_of_requests();
    }

    fn advance(&mut self, py: Python<'_>, budget: u64) -> PyResult<(u64, u64, bool)> {
        let progress = py.detach(|| guard(|| self.sim.advance(budget)))?;
        Ok((progress.now_ns, progress.n_events, progress.is_done))
    }

    fn take(&self, py: Python<'_>, what: &str) -> PyResult<Table> {
        Table::new(py.detach(|| guard(|| table::take(&self.sim, what)))?)
    }
}

/// What a deployment takes and holds, as JSON.
#[pyfunction]
fn plan(spec: &[u8]) -> PyResult<String> {
    guard(|| {
        let plan = engine::deployment::plan(&DeploymentSpec::from_json(spec)?)?;
        serde_json::to_string(&plan).map_err(|e| engine::error::Error::input("plan", e.to_string()))
    })
}

/// The cost of steps, a load each.
#[pyfunction]
fn step_times(py: Python<'_>, spec: &[u8], batches: &Bound<'_, PyAny>) -> PyResult<Table> {
    let columns = Columns::read(batches)?;
    let (n_seqs, context, window, growing) = (
        columns.u64_shared("n_seqs")?,
        columns.u64_shared("context_tokens")?,
        columns.u64_shared("window_tokens")?,
        columns.u64_shared("n_growing_in_window")?,
    );
    let (chunk, past) = (columns.u64_shared("chunk_tokens")?, columns.u64_shared("chunk_past_tokens")?);
    let load_ix = if columns.has("load_ix") { Some(columns.u64_shared("load_ix")?) } else { None };
    let found = py.detach(|| {
        guard(|| {
            let loads = Loads {
                load_ix: load_ix.as_deref().unwrap_or(&[]),
                n_seqs: &n_seqs,
                context_tokens: &context,
                window_tokens: &window,
                n_growing_in_window: &growing,
                chunk_tokens: &chunk,
                chunk_past_tokens: &past,
            };
            Ok(step::table(&StepModel::new(&DeploymentSpec::from_json(spec)?)?, &loads))
        })
    })?;
    Table::new(found)
}

/// What is wrong and the way out.
type Reason = (String, String);

/// Benchmark-like points, a row each, and for each group why it cannot run, as (what, way out).
#[pyfunction]
fn steady(py: Python<'_>, spec: &[u8], rows: &Bound<'_, PyAny>) -> PyResult<(Table, Vec<Option<Reason>>)> {
    let columns = Columns::read(rows)?;
    let group_ix = columns.u64("group_ix")?;
    let (input, output) = (columns.f64("input_tokens")?, columns.f64("output_tokens")?);
    let concurrency = columns.f64("concurrency")?;
    let (prefill, decode) = (columns.f64("prefill_workers")?, columns.f64("decode_workers")?);
    let (held, in_step) = (columns.f64_if("held_steps")?, columns.f64_if("in_step")?);
    let found = py.detach(|| {
        guard(|| {
            let spec: SteadySpec =
                serde_json::from_slice(spec).map_err(|e| engine::error::Error::input("steady", e.to_string()))?;
            let rows: Vec<SteadyRow> = (0..group_ix.len())
                .map(|i| SteadyRow {
                    group_ix: group_ix[i],
                    input_tokens: input[i],
                    output_tokens: output[i],
                    concurrency: concurrency[i],
                    prefill_workers: prefill[i],
                    decode_workers: decode[i],
                    held_steps: held.get(i).copied().unwrap_or(0.0),
                    in_step: in_step.get(i).copied().unwrap_or(0.0),
                })
                .collect();
            engine::steady::run(&spec, &rows)
        })
    })?;
    Ok((
        Table::new(table::steady(&found.points))?,
        found.refusals.into_iter().map(|r| r.map(error::in_words)).collect(),
    ))
}

/// Random arrivals and lengths.
#[pyfunction]
fn sample(py: Python<'_>, spec: &[u8]) -> PyResult<Table> {
    let sampled = py.detach(|| {
        guard(|| {
            let spec: SampleSpec =
                serde_json::from_slice(spec).map_err(|e| engine::error::Error::input("sample", e.to_string()))?;
            engine::sample::run(&spec)
        })
    })?;
    Table::new(sampled)
}

/// A profile of which several walk over the same realisations; see `core_rs/engine/src/offered/realised.rs`.
#[pyclass(module = "planner._core", frozen)]
struct Realised {
    realised: Arc<EngineRealised>,
}

#[pymethods]
impl Realised {
    #[new]
    fn new(spec: &[u8]) -> PyResult<Self> {
        let realised = guard(|| {
            let spec: ProfileSpec =
                serde_json::from_slice(spec).map_err(|e| engine::error::Error::input("profile", e.to_string()))?;
            EngineRealised::new(spec)
        })?;
        Ok(Self { realised: Arc::new(realised) })
    }
}

/// The requests of some cells, drawn as they are asked for; see `core_rs/engine/src/offered.rs`.
#[pyclass(module = "planner._core")]
struct Offered {
    offered: EngineOffered,
}

#[pymethods]
impl Offered {
    #[new]
    fn new(spec: &[u8], beside: Vec<Option<Bound<'_, PyAny>>>, cells: Vec<u32>, keeps_rows: bool) -> PyResult<Self> {
        let mut things = Vec::new();
        for each in beside {
            things.push(match each {
                None => Beside::Nothing,
                Some(each) => match each.cast::<Realised>() {
                    Ok(found) => Beside::Realised(Arc::clone(&found.get().realised)),
                    Err(_) => Beside::Rows(Arc::new(recorded(&Columns::read(&each)?)?)),
                },
            });
        }
        let offered = guard(|| {
            let spec: OfferedSpec =
                serde_json::from_slice(spec).map_err(|e| engine::error::Error::input("offered", e.to_string()))?;
            EngineOffered::new(&spec, things, cells, keeps_rows)
        })?;
        Ok(Self { offered })
    }

    fn next(&mut self, py: Python<'_>, most: usize) -> PyResult<(Table, Vec<u64>, bool)> {
        let mut batch = py.detach(|| guard(|| self.offered.next(most)))?;
        let counts = std::mem::take(&mut batch.counts);
        let is_over = batch.is_over;
        Ok((Table::new(batch.table())?, counts, is_over))
    }

    fn expected(&self) -> Vec<f64> {
        self.offered.expected()
    }

    fn seen(&self) -> Vec<Vec<(u64, u64, u64)>> {
        let row = |seen: &Seen| (seen.n, seen.n_redrawn, seen.shortest_kv_tokens);
        self.offered.seen().iter().map(|classes| classes.iter().map(row).collect()).collect()
    }
}

fn recorded(columns: &Columns) -> PyResult<Recorded> {
    Ok(Recorded {
        arrival_ns: columns.u64("arrival_ns")?,
        input_tokens: columns.u32("input_tokens")?,
        output_tokens: columns.u32("output_tokens")?,
    })
}

/// Quantiles and means of merged sketches, in seconds; none where there is no value.
#[pyfunction]
fn quantiles(sketches: &Bound<'_, PyAny>, queries: &[u8]) -> PyResult<Vec<Option<f64>>> {
    let rows = sketch_rows(&Columns::read(sketches)?)?;
    guard(|| {
        let queries: Vec<table::Query> =
            serde_json::from_slice(queries).map_err(|e| engine::error::Error::input("queries", e.to_string()))?;
        Ok(table::query(&rows, &queries))
    })
}

fn sketch_rows(columns: &Columns) -> PyResult<SketchRows> {
    Ok(SketchRows {
        class_ix: columns.u16("class_ix")?,
        pool_ix: if columns.has("pool_ix") { columns.u16("pool_ix")? } else { Vec::new() },
        metric_ix: columns.u16("metric_ix")?,
        is_bucket: columns.u16("is_bucket")?,
        key_ns: columns.u64("key_ns")?,
        count: columns.u64("count")?,
        sum_s: columns.u64("sum_s")?,
        sum_fs: columns.u64("sum_fs")?,
    })
}

fn work_rows(columns: &Columns) -> PyResult<WorkRows> {
    WorkRows::read(&columns.u32("deployment_ix")?, |name| columns.u64(name))
}

/// The table that several cells leave together, whatever the order of theirs.
#[pyfunction]
fn merge(py: Python<'_>, what: &str, tables: Vec<Bound<'_, PyAny>>) -> PyResult<Table> {
    let mut names: Vec<String> = Vec::new();
    let mut parts = Vec::new();
    for table in tables {
        let columns = Columns::read(&table)?;
        parts.push(match what {
            "work" => Part::Work(work_rows(&columns)?),
            "sketches" => Part::Sketches(sketch_rows(&columns)?),
            "classes" | "class_windows" => {
                let n_keys = if what == "classes" { 1 } else { 2 };
                let found = columns.names();
                if !names.is_empty() && names != found {
                    let same = engine::error::Error::input(what, "tables must have the same columns");
                    return Err(error::to_py(&same));
                }
                names = found;
                let all = names.iter().map(|name| columns.counts(name)).collect::<PyResult<Vec<_>>>()?;
                let sums = all[n_keys.min(all.len())..].to_vec();
                Part::Counts { keys: all.into_iter().take(n_keys).collect(), sums }
            }
            other => return Err(error::to_py(&engine::error::Error::input("what", format!("no table '{other}'")))),
        });
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Table::new(py.detach(|| guard(|| Ok(table::merge(parts, &names))))?)
}

/// Work as seconds, joules and counts: of the measured span (`deployments`) or by window (`windows`).
#[pyfunction]
fn finish(py: Python<'_>, what: &str, work: &Bound<'_, PyAny>) -> PyResult<Table> {
    let rows = work_rows(&Columns::read(work)?)?;
    Table::new(py.detach(|| guard(|| table::finish(what, &rows)))?)
}

/// The cell of each request.
#[pyfunction]
fn split(py: Python<'_>, spec: &[u8], requests: &Bound<'_, PyAny>) -> PyResult<Table> {
    let columns = Columns::read(requests)?;
    let (class_ix, session) = (columns.u16("class_ix")?, columns.u64_if("session")?);
    let after_row = columns.u64_if("after_row")?;
    let cells = py.detach(|| {
        guard(|| {
            let spec: SplitSpec =
                serde_json::from_slice(spec).map_err(|e| engine::error::Error::input("split", e.to_string()))?;
            engine::split::split(&spec, &class_ix, &session, &after_row)
        })
    })?;
    Table::new(table::Table::of([("cell_ix", table::Column::U32(cells))]))
}

/// How this core was built: version, fingerprint of its sources, profile, target.
#[pyfunction]
fn build_info() -> Vec<(&'static str, String)> {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("sources", env!("PLANNER_SOURCES").to_owned()),
        ("profile", profile.to_owned()),
        ("target", format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)),
        ("sim_spec_version", engine::spec::SPEC_VERSION.to_string()),
    ]
}

#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("EngineError", m.py().get_type::<EngineError>())?;
    m.add_class::<Sim>()?;
    m.add_class::<Table>()?;
    m.add_class::<Offered>()?;
    m.add_class::<Realised>()?;
    m.add_function(wrap_pyfunction!(plan, m)?)?;
    m.add_function(wrap_pyfunction!(step_times, m)?)?;
    m.add_function(wrap_pyfunction!(steady, m)?)?;
    m.add_function(wrap_pyfunction!(sample, m)?)?;
    m.add_function(wrap_pyfunction!(quantiles, m)?)?;
    m.add_function(wrap_pyfunction!(merge, m)?)?;
    m.add_function(wrap_pyfunction!(finish, m)?)?;
    m.add_function(wrap_pyfunction!(split, m)?)?;
    m.add_function(wrap_pyfunction!(build_info, m)?)?;
    Ok(())
}
