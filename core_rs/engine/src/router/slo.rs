//! The replica with the soonest predicted first token, of those with the least to do.

use super::signals::{Signals, Stage};
use crate::placed::Deployment;
use crate::spec::RouterOptions;
use crate::step::{Chunk, Load};

/// Of `n_candidates` of each deployment the one with the least predicted time to the first token, the way to its pool
/// and back (`round_trip_ns`) included; of equals the one with the lower number. None where that is beyond the limit and the router turns such requests away.
pub fn soonest(
    signals: &Signals,
    among: &[usize],
    deployments: &[Deployment],
    options: &RouterOptions,
    limit_ns: Option<u64>,
    round_trip_ns: &[u32],
    input_tokens: u64,
) -> Option<u32> {
    let fs = |ns: u64| i128::from(ns) * crate::time::FS_PER_NS;
    let away = |d: usize| round_trip_ns.get(deployments[d].pool).map_or(0, |&ns| fs(u64::from(ns)));
    let candidates = among.iter().flat_map(|&d| {
        let few = signals.few_of(d, options.n_candidates.max(1));
        few.into_iter().map(move |(_, replica)| {
            (away(d) + ttft_fs(&deployments[d], &signals.stage(replica), input_tokens), replica)
        })
    });
    let (ttft, replica) = candidates.min()?;
    let is_late = limit_ns.is_some_and(|limit| ttft > fs(limit));
    (!(is_late && options.rejects)).then_some(replica)
}

/// Time to work off the prompts that wait and this one in full chunks, one for each pipeline stage, beside the requests
/// that decode there.
fn ttft_fs(deployment: &Deployment, stage: &Stage, input_tokens: u64) -> i128 {
    let todo = stage.backlog_tokens + input_tokens;
    let n = stage.n_decoding;
    let context_tokens = stage.context_tokens + n;
    let window = deployment.window_tokens.map_or(0, |window| context_tokens.min(n.saturating_mul(window)));
    let most = deployment.batch_tokens;
    let step_fs = |tokens: u64| {
        let chunk = |at: u64| Chunk { tokens: (tokens - at * most).min(most), past_tokens: 0 };
        let one = [chunk(0)];
        let several: Vec<Chunk> =
            if tokens > most { (0..tokens.div_ceil(most)).map(chunk).collect() } else { Vec::new() };
        let chunks = if tokens > most { &several[..] } else { &one[..usize::from(tokens > 0)] };
        let load = Load { n_seqs: n, context_tokens, window_tokens: window, n_growing_in_window: 0, chunks };
        deployment.step(&load).time_fs.base
    };
    let (whole, rest) = (todo / deployment.chunk_tokens, todo % deployment.chunk_tokens);
    let full = if whole > 0 { i128::from(whole) * step_fs(deployment.chunk_tokens) } else { 0 };
    full + if rest > 0 { step_fs(rest) } else { 0 }
}
