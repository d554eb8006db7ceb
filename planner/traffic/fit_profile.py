"""Fits a profile to a recorded trace: the compact statistics under `planner/facts/data/traffic`.

A profile says how a service's requests come and how long they are, without any of its requests. The core realises
it (`core_rs/engine/src/sample/profile.rs`), which is also what the fit compares with the record:

1. Requests with one stamp are a batch. The gaps between batches become a quantile table, fine in its upper tail (a
   dozen silences make up nearly all the variance of a bursty service); batch sizes become a histogram.
2. Both are laid out in time by the ranks of a latent Gaussian series. Its trend is the mean normal score of the
   record in parts of equal count, kept only if the dispersion of counts doubles from 60 s to 300 s windows. The
   trend's gain and two autoregressions are the ones, among those tried, under which realisations disperse most like
   the record over windows of 1, 3, 10, 60 and 300 s.
3. Lengths become runs of equal spacing, finer in the upper tail, with frequent values kept apart; the pairing of
   inputs and outputs becomes a contingency table of their ranks.

Repeat it, with the trace at hand, by `write("trace.csv", "profile.yaml", title="...", source="...")`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.traffic import profiles, trace
from planner.traffic.fact_text import yaml_text
from planner.traffic.inspect import gap_cv, prefix_hits
from planner.traffic.schema import Trace

if TYPE_CHECKING:
    import polars as pl

    Array = np.ndarray[Any, np.dtype[Any]]

WINDOWS_S = (1, 3, 10, 60, 300)
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_WEIGHTS = np.array([1.0, 1.0, 1.0, 1.0, 0.3])
"""Of the windows in the fit: an hour has only twelve of 300 s."""
_MAX_TREND, _TREND_ITEMS = 24, 100
_N_CELLS = 16
_SEEDS = range(8)
_KEY = 1
_SHORT, _LONG = (2.0, 6.0, 20.0), (60.0, 200.0, 600.0)
_SHARES = (0.0, 0.03, 0.1, 0.2, 0.3, 0.45)
_GAINS = (1.0, 1.2, 1.4)


def write(path: str | Path, out: str | Path, *, title: str, source: str) -> None:
    """Fits the trace at `path` and writes the profile's file at `out`; `source` is the id of the trace's source."""
    found = trace.read(path)
    tree = fit(found)
    whence = {
        "grade": "measured",
        "source": source,
        "note": "fitted by planner/traffic/fit_profile.py to a recorded trace that is not shipped",
        "file": Path(path).name,
        "digest": found.digest,
    }
    head = {"schema": "traffic/1", "title": title, "fitted_to": whence}
    tree["arrivals"]["span"] = f"{tree['arrivals']['span']!r} s"
    tree["arrivals"] = {"note": "tables as recorded; the two orders are fitted", **tree["arrivals"]}
    sections = {key: {"grade": "measured", "source": source, **value} for key, value in tree.items()}
    Path(out).write_text(yaml_text(head | sections), encoding="utf-8")


def fit(found: Trace) -> dict[str, Any]:
    """The sections of a profile's file: `measured` (what the record shows), `arrivals`, `lengths`, `prefixes`."""
    requests = found.requests
    arrivals = requests["arrival_ns"].to_numpy()
    times, sizes = np.unique(arrivals, return_counts=True)
    gaps_s = np.diff(times) / 1e9
    inputs, outputs = (requests[name].to_numpy().astype(np.int64) for name in ("input_tokens", "output_tokens"))
    fitted: dict[str, Any] = {
        "span": found.span_ns / 1e9,
        "gap_quantiles_s": gap_table(gaps_s),
        "batch_sizes": np.bincount(sizes).tolist(),
        "gap_order": {"white": 1.0},
        "size_order": {"white": 1.0},
    }
    lengths = {
        "input_runs": length_runs(inputs),
        "output_runs": length_runs(outputs),
        "joint": joint_table(inputs, outputs),
    }
    series, name = (gaps_s, "gap_order") if sizes.max() == 1 else (sizes, "size_order")
    fitted[name] = fit_order(fitted, lengths, name, arrivals, series)
    tree: dict[str, Any] = {"measured": measured(requests), "arrivals": fitted, "lengths": lengths}
    if found.block_tokens is not None:
        tree["prefixes"] = prefix_reuse(requests, found.block_tokens)
    return tree


def measured(requests: pl.DataFrame) -> dict[str, Any]:
    """Figures of a record, or of a realisation, by which the two are compared."""
    arrivals = requests["arrival_ns"].to_numpy()
    duration_s = (arrivals[-1] - arrivals[0]) / 1e9
    cv = gap_cv(requests["arrival_ns"].diff().drop_nulls())
    five = np.bincount(arrivals // (300 * 10**9))
    figures: dict[str, Any] = {
        "n_requests": requests.height,
        "mean_rate_req_per_s": _short(requests.height / duration_s, 7),
        "gap_cv": None if cv is None else _short(cv, 6),
        "count_dispersion": {f"w{w}_s": _short(d, 4) for w, d in zip(WINDOWS_S, dispersion(arrivals), strict=True)},
        "rate_by_5_min_req_per_s": [_short(n / 300, 4) for n in five[:-1].tolist()],
        "input_output_rank_correlation": _short(rank_correlation(requests), 4),
    }
    for name, column in (("input_tokens", "input_tokens"), ("output_tokens", "output_tokens")):
        tokens = requests[column]
        mean = {"mean": _short(int(tokens.sum()) / tokens.len(), 6)}
        quantiles = {f"p{round(q * 100)}": tokens.quantile(q, interpolation="linear") for q in QUANTILES}
        figures[name] = mean | {key: _short(value or 0.0, 6) for key, value in quantiles.items()}
    return figures


def dispersion(arrivals: Array) -> list[float]:
    """Variance over mean of the counts in windows of `WINDOWS_S`; 1 for Poisson arrivals of a constant rate."""
    found = []
    for window in WINDOWS_S:
        counts = np.bincount(arrivals // (window * 10**9))
        found.append(float(counts.var() / counts.mean()))
    return found


def rank_correlation(requests: pl.DataFrame) -> float:
    """Spearman's correlation of input and output lengths."""
    inputs, outputs = (requests[name].rank("average").to_numpy() for name in ("input_tokens", "output_tokens"))
    return float(np.corrcoef(np.stack([inputs, outputs]))[0, 1])


def gap_table(gaps_s: Array) -> list[list[float]]:
    """Quantiles of gaps as [share below, seconds], from 0 to 1; a knot that its neighbours imply is left out."""
    ordered = np.sort(gaps_s)
    n = ordered.size
    tail = {int(k) for k in range(16)} | {round(16 * 1.25**k) for k in range(200) if 16 * 1.25**k < n / 10}
    middle = {round(n * k / 40) for k in range(1, 40)}
    ranks = sorted({n - 1 - k for k in tail} | {min(n - 1, round(k)) for k in _geometric(n)} | middle)
    knots = [(0.0, float(ordered[0]))]
    knots += [((k + 0.5) / n, float(ordered[k])) for k in ranks if 0 <= k < n]
    knots.append((1.0, float(ordered[-1])))
    kept = [knots[0]]
    for before, here, after in zip(knots, knots[1:], knots[2:], strict=False):
        del before
        low, high = kept[-1], after
        share = (here[0] - low[0]) / (high[0] - low[0])
        implied = low[1] * (high[1] / low[1]) ** share
        if abs(math.log(here[1] / implied)) > 0.002:
            kept.append(here)
    kept.append(knots[-1])
    return [[_short(p, 6), _short(v, 4)] for p, v in kept]


def _geometric(n: int) -> Iterable[float]:
    """Ranks from the shortest gap upwards, each a third more than the last."""
    rank = 1.0
    while rank < n / 20:
        yield rank
        rank *= 1.35


def length_runs(values: Array) -> list[list[int]]:
    """Lengths as [low, high, count]: frequent values by themselves, and stretches of about 1 % between them."""
    n = values.size
    found, counts = np.unique(values, return_counts=True)
    runs: list[list[int]] = []
    open_: list[int] | None = None
    done = 0
    for value, count in zip(found.tolist(), counts.tolist(), strict=True):
        from_top = n - done
        most = n / 100 if from_top > n / 50 else max(5.0, from_top / 5)
        if count >= max(5.0, most / 2.5):
            runs += [open_] if open_ else []
            runs.append([value, value, count])
            open_ = None
        elif open_ is None or open_[2] + count > most:
            runs += [open_] if open_ else []
            open_ = [value, value, count]
        else:
            open_ = [open_[0], value, open_[2] + count]
        done += count
    return [*runs, open_] if open_ else runs


def joint_table(inputs: Array, outputs: Array) -> list[list[int]]:
    """How many requests have their input in one cell of rank and their output in another, inputs down."""
    down, across = (_cells(values) for values in (inputs, outputs))
    table = np.zeros((down.max() + 1, across.max() + 1), dtype=np.int64)
    np.add.at(table, (down, across), 1)
    rows: list[list[int]] = table.tolist()
    return rows


def _cells(values: Array) -> Array:
    """The cell of rank of each value; equal values are in one cell."""
    edges = np.unique(np.quantile(values, np.arange(1, _N_CELLS) / _N_CELLS, method="inverted_cdf"))
    _, cells = np.unique(np.searchsorted(edges, values), return_inverse=True)
    return np.asarray(cells)


def fit_order(
    fitted: dict[str, Any], lengths: dict[str, Any], name: str, arrivals: Array, series: Array
) -> dict[str, Any]:
    """The latent series under which realisations disperse most like the record."""
    goal = np.log(dispersion(arrivals))
    trend = _trend(series) if goal[4] - goal[3] > math.log(2) else []
    best: tuple[float, dict[str, Any]] = (math.inf, {})
    for order in _orders(trend):
        miss = _miss({"arrivals": fitted | {name: order}, "lengths": lengths}, goal)
        best = min(best, (miss, order), key=lambda pair: pair[0])
    return best[1]


def _orders(trend: list[float]) -> Iterator[dict[str, Any]]:
    """Every latent series that is tried, each of variance 1."""
    for gain, short, long in itertools.product(_GAINS if trend else (1.0,), _SHORT, _LONG):
        raised = [_short(gain * value, 3) for value in trend]
        trend_var = float(np.var(raised)) if raised else 0.0
        for short_share, long_share in itertools.product(_SHARES, _SHARES):
            white = 1.0 - trend_var - short_share - long_share
            is_twin = (short_share == 0 and short != _SHORT[0]) or (long_share == 0 and long != _LONG[0])
            if white > 0.05 and not is_twin:
                shares = [(short_share, short), (long_share, long)]
                ar = [[_short(math.sqrt(share), 4), length] for share, length in shares if share > 0]
                yield {"trend": raised, "white": _short(math.sqrt(white), 4), "ar": ar}


def _miss(tree: dict[str, Any], goal: Array) -> float:
    """How far realisations of a profile are from the record's dispersion, as a mean square of logarithms."""
    spec = profiles.spec_of(tree)
    found = [
        np.log(dispersion(profiles.realise(spec, key=_KEY, seed=seed)["arrival_ns"].to_numpy())) for seed in _SEEDS
    ]
    error = np.mean(found, axis=0) - goal
    return float((_WEIGHTS * error * error).sum())


def _trend(series: Array) -> list[float]:
    """Mean normal score of the series in parts of equal count, about 0."""
    order = np.argsort(series, kind="stable")
    ranks = np.empty(series.size)
    ranks[order] = np.arange(series.size)
    _, inverse, counts = np.unique(series, return_inverse=True, return_counts=True)
    mean_rank = np.bincount(inverse, weights=ranks) / counts
    normal = NormalDist()
    scores = np.array([normal.inv_cdf((r + 0.5) / series.size) for r in mean_rank])[inverse]
    n_parts = max(2, min(_MAX_TREND, series.size // _TREND_ITEMS))
    means = np.array([part.mean() for part in np.array_split(scores, n_parts)])
    return [_short(v, 3) for v in (means - means.mean()).tolist()]


def prefix_reuse(requests: pl.DataFrame, block_tokens: int) -> dict[str, Any]:
    """How much of the prompts earlier prompts began with, and how long ago those were, under a cache without bounds."""
    import polars as pl

    hits = prefix_hits(requests, block_tokens)
    frame = requests.select("arrival_ns", "input_tokens", "hash_ids").with_row_index("request").with_columns(hits)
    blocks = frame.select("request", "arrival_ns", "hash_ids").explode("hash_ids").drop_nulls()
    used = blocks["hash_ids"].value_counts()["count"]
    since = blocks.select("request", since=pl.col("arrival_ns") - pl.col("arrival_ns").shift(1).over("hash_ids"))
    # The last block of the hit run is the one that tells a returning conversation from a common preamble.
    deepest = since.drop_nulls().group_by("request").agg(pl.col("since").last()).sort("request")
    deepest = deepest.join(frame, on="request").filter(pl.col("hit_tokens") > block_tokens)
    share = (frame["hit_tokens"] / frame["input_tokens"]).to_numpy()
    return {
        "block_tokens": block_tokens,
        "hit_frac_infinite_cache": _short(int(hits.sum()) / int(requests["input_tokens"].sum()), 6),
        "blocks": blocks.height,
        "distinct_blocks": used.len(),
        "used_once_frac": _short(float((used == 1).sum()) / used.len(), 4),
        "most_used_block_frac_of_requests": _short(float(used.max() or 0) / frame.height, 4),  # type: ignore[arg-type]
        "requests_beyond_first_block_frac": _short(deepest.height / frame.height, 4),
        "hit_frac_of_request": _quantiles(share),
        "reuse_after_s": _quantiles(deepest["since"].to_numpy() / 1e9),
    }


def _quantiles(values: Array) -> dict[str, float]:
    return {f"p{round(q * 100)}": _short(float(np.quantile(values, q)), 4) for q in QUANTILES}


def _short(value: float, digits: int) -> float:
    """`value` to so many significant digits, so that files are compact and their readers exact."""
    return float(f"{value:.{digits}g}")
