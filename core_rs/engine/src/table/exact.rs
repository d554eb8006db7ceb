//! Work as whole numbers: what cells leave, so that adding them up in any order gives the same bytes; floats come last.
//!
//! A 128-bit sum is two columns, `NAME_hi` and `NAME_lo`, its upper and lower 64 bits (two's complement).

use super::{work as floats, Table};
use crate::cell::Sim;
use crate::error::{Error, Result};
use crate::meter::Work;

/// The row of the whole measured span among those of windows.
pub(super) const SPAN: u64 = u64::MAX;

type Wide = (&'static str, fn(&mut Work) -> &mut i128);
type Count = (&'static str, fn(&mut Work) -> &mut u64);

pub(super) const WIDE: [Wide; 15] = [
    ("busy_ns", |w| &mut w.busy_ns),
    ("down_ns", |w| &mut w.down_ns),
    ("off_ns", |w| &mut w.off_ns),
    ("prefill_fs", |w| &mut w.prefill_fs),
    ("decode_fs", |w| &mut w.decode_fs),
    ("prefill_fj", |w| &mut w.prefill_fj),
    ("decode_fj", |w| &mut w.decode_fj),
    ("bytes", |w| &mut w.bytes),
    ("flop", |w| &mut w.flops),
    ("memory_fs", |w| &mut w.memory_fs),
    ("compute_fs", |w| &mut w.compute_fs),
    ("network_fs", |w| &mut w.network_fs),
    ("launch_fs", |w| &mut w.launch_fs),
    ("power_fs", |w| &mut w.power_fs),
    ("kv_token_fs", |w| &mut w.kv_token_fs),
];
pub(super) const COUNTS: [Count; 7] = [
    ("steps", |w| &mut w.steps),
    ("input_tokens", |w| &mut w.input_tokens),
    ("output_tokens", |w| &mut w.output_tokens),
    ("recomputed_tokens", |w| &mut w.recomputed_tokens),
    ("prefix_hit_tokens", |w| &mut w.prefix_hit_tokens),
    ("cached_input_tokens", |w| &mut w.cached_input_tokens),
    ("preemptions", |w| &mut w.preemptions),
];

/// Rows of work: (deployment, window or `SPAN`) and what was done.
#[derive(Debug, Clone, Default)]
pub struct WorkRows {
    pub rows: Vec<((u32, u64), Work)>,
}

impl WorkRows {
    /// Rows from columns by name.
    pub fn read<E>(
        deployment_ix: &[u32],
        column: impl Fn(&str) -> std::result::Result<Vec<u64>, E>,
    ) -> std::result::Result<Self, E> {
        let mut rows: Vec<((u32, u64), Work)> = deployment_ix.iter().map(|&d| ((d, 0), Work::default())).collect();
        for (row, window) in rows.iter_mut().zip(column("window_ix")?) {
            row.0 .1 = window;
        }
        for (name, field) in WIDE {
            let (hi, lo) = (column(&format!("{name}_hi"))?, column(&format!("{name}_lo"))?);
            for (row, (hi, lo)) in rows.iter_mut().zip(hi.into_iter().zip(lo)) {
                *field(&mut row.1) = (u128::from(hi) << 64 | u128::from(lo)).cast_signed();
            }
        }
        for (name, field) in COUNTS {
            for (row, value) in rows.iter_mut().zip(column(name)?) {
                *field(&mut row.1) = value;
            }
        }
        Ok(Self { rows })
    }

    /// The rows as columns of whole numbers.
    pub(super) fn table(mut self) -> Table {
        let mut table =
            Table::default().u32("deployment_ix", &self.rows, |r| r.0 .0).u64("window_ix", &self.rows, |r| r.0 .1);
        for (name, field) in WIDE {
            let all: Vec<u128> = self.rows.iter_mut().map(|r| field(&mut r.1).cast_unsigned()).collect();
            table =
                table
                    .u64(&format!("{name}_hi"), &all, |v| (v >> 64) as u64)
                    .u64(&format!("{name}_lo"), &all, |v| *v as u64);
        }
        for (name, field) in COUNTS {
            let all: Vec<u64> = self.rows.iter_mut().map(|r| *field(&mut r.1)).collect();
            table = table.u64(name, &all, |v| *v);
        }
        table
    }
}

/// What each deployment of a cell is.
pub(super) fn placed(sim: &Sim) -> Table {
    let rows: Vec<_> = sim.spec().deployments.iter().zip(sim.deployments()).collect();
    let ixs: Vec<u32> = (0..rows.len() as u32).collect();
    Table::default()
        .u32("deployment_ix", &ixs, |&ix| ix)
        .u32("pool_ix", &rows, |(placed, _)| placed.pool_ix as u32)
        .u32("n_replicas", &rows, |(placed, _)| placed.n_replicas as u32)
        .u64("kv_capacity_tokens", &rows, |(_, of)| of.model.kv_capacity_tokens())
        .f64("parked_w", &rows, |(_, of)| of.model.parked_uw() as f64 / 1e6)
}

/// Work of each deployment, over the measured span and by window.
pub(super) fn work(sim: &Sim) -> Table {
    let mut rows = Vec::new();
    for (at, meter) in sim.meters.iter().enumerate() {
        rows.push(((at as u32, SPAN), meter.span.clone()));
        rows.extend(meter.windows.iter().map(|(&window, work)| ((at as u32, window), work.clone())));
    }
    WorkRows { rows }.table()
}

/// Seconds, joules and counts of rows of work: `deployments` is the measured span, `windows` the rest.
pub fn finish(what: &str, work: &WorkRows) -> Result<Table> {
    let is_span = match what {
        "deployments" => true,
        "windows" => false,
        other => return Err(Error::input("what", format!("no table '{other}'"))),
    };
    let rows: Vec<_> = work.rows.iter().filter(|row| (row.0 .1 == SPAN) == is_span).collect();
    let mut table = Table::default().u32("deployment_ix", &rows, |r| r.0 .0);
    if !is_span {
        table = table.u64("window_ix", &rows, |r| r.0 .1);
    }
    Ok(floats(table, &rows, |r| &r.1))
}
