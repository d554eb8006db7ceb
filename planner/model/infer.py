"""Jalapeño's posterior: which undisclosed values agree with the published figures, and with the floors under them.

A point of the parameter space is a standard normal in each unknown. Points are drawn from the prior, then in rounds
from Gaussians fitted to what was found, and weighted by prior x likelihood over the mixture that they were drawn from
(adaptive multiple importance sampling, Cornuet et al. 2012). A residual r = log(model / published) has two parts: what
the model gets wrong for every chip, and what it gets wrong for this one. The reference of the same figure, through the
same model, tells of the first, so

    r | r_reference ~ normal(share x r_reference, scale^2 (1 - share^2))

`scale` is what the calibration is off by on chips that a fold left out (half the 80 % range over 1.2816), split
deployments, at low concurrency for the two latencies and above 128 for the peak. `SHARE` of that variance is taken to
be common to both sides: the layout search, the benchmark and the model's structure are, stack and silicon are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner import core
from planner.facts import catalog
from planner.facts.headline import Headline, Target
from planner.model import systems
from planner.model.calibration import Calibration
from planner.model.figures import Figures, figures
from planner.model.sweep import Lengths, Pool, System, pool, sweep
from planner.model.unknowns import CHIP, chip_spec, engine_spec, habits, share_of, unknowns, values_of

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

__all__ = [
    "FITTED",
    "PRECISION",
    "SHARE",
    "Side",
    "at_its_best",
    "document",
    "figure_name",
    "figures_of",
    "infer",
    "iso",
    "lengths_of",
    "member_system",
    "reference_points",
    "side",
]

FITTED = ("min_tbt", "min_e2e_latency", "peak_mixed_tps_per_kw")
SHARE = 1.0 / 3.0
LARGE_DOMAIN = 64.0
"""Chips at least of the likeliest member's domain: its vendor speaks of a large connectivity domain."""
N_FIRST, N_ROUND, ROUNDS = 1000, 700, 5
N_MEMBERS = 64
PRECISION = "fp4"
MEASURABLE = 0.02
"""Runs of one stack differ by this much in time between tokens."""
_FROM_PRIOR = 0.15
_SHRUNK = 0.3
"""Share of a fitted covariance that is its diagonal."""
_LEAST_ESS = 120.0
"""A round's weights are tempered until so many points count."""
_POLISH = ((0.5, 60), (0.35, 60), (0.25, 60), (0.18, 60), (0.12, 60), (0.08, 60))
"""Width of the steps around the best point, and how many of them, in turn."""
_SWEEP: dict[str, Any] = {"regimes": ("closed_loop",), "clients": [1, *(1 << i for i in range(6, 16))]}
"""The sweep of a member while sampling: lone requests and the loads of a peak; what is shown is the full one."""


@dataclass(frozen=True, slots=True)
class Side:
    """The figures of one chip for one model, in the units of the headline."""

    values: Mapping[str, float]
    figures: Figures


def lengths_of(headline: Headline) -> Lengths:
    """The published runs' lengths."""
    at = headline.conditions
    return Lengths(at["isl_framework_tokens"].number, at["osl_framework_tokens"].number, at["range_ratio"].number)


def side(points: pl.DataFrame, lengths: Lengths, rated_w: float) -> Side | None:
    """The published metrics of a sweep, per kW of rated package power."""
    found = figures(points, lengths.mixed_per_output)
    if found is None:
        return None
    values = (found.min_tbt_s, found.min_e2e_s, found.peak_mixed_tok_s_chip / rated_w * 1e3)
    return Side(dict(zip(FITTED, values, strict=True)), found)


def iso(one: Side, target: Target, rated_w: float) -> float:
    """Mixed tokens per second and kW at the target's time between tokens; a side that does not reach it is taken at its
    own best.
    """
    assert target.at_tbt_s is not None
    rate = one.figures.curve.at(target.at_tbt_s)
    return (one.figures.curve.mixed_tok_s_chip[0] if rate is None else rate) / rated_w * 1e3


def at_its_best(one: Side, rated_w: float) -> float:
    """The same of a reference at its best time between tokens, give or take what a benchmark can measure: the last
    percent of it doubles the chips, and nobody would run it so.
    """
    rate = one.figures.curve.at(one.figures.min_tbt_s * (1.0 + MEASURABLE))
    assert rate is not None
    return rate / rated_w * 1e3


def figure_name(model: str, metric: str) -> str:
    """Name of a figure of a member."""
    return f"{model}/{metric}"


def figures_of(
    member: Mapping[str, float], pools: Mapping[str, Pool], headline: Headline, calibration: Calibration
) -> dict[str, float]:
    """Every figure of the headline that a member makes, by the full sweep; 0 for a model that does not fit."""
    lengths = lengths_of(headline)
    rated_w = headline.rated_power_w[CHIP].number
    found: dict[str, Side | None] = {}
    for target in headline.targets:
        found[target.model] = found.get(target.model) or side(
            sweep(member_system(member, pools[target.model], calibration), lengths, regimes=("closed_loop",)),
            lengths,
            rated_w,
        )
    made = {}
    for target in headline.targets:
        one = found[target.model]
        assert one is not None, "a member of weight holds every model"
        value = one.values[target.metric] if target.metric in FITTED else iso(one, target, rated_w)
        made[figure_name(target.model, target.metric)] = float(f"{value:.5g}")
    return made


def reference_points(chip: str, model: str, lengths: Lengths, calibration: Calibration) -> pl.DataFrame:
    """The closed loops of a reference: of all stacks that were measured with the model, or else the pooled model."""
    import polars as pl

    facts = catalog.load()
    held = pool(facts.chip(chip), facts.model(model), precision=PRECISION)
    stacks = systems.measured(held, calibration, PRECISION) or [systems.pooled(held, calibration)]
    return pl.concat([sweep(system, lengths, regimes=("closed_loop",)) for system in stacks])


def member_system(member: Mapping[str, float], base: Pool, calibration: Calibration) -> System:
    """The system of a member; its cache format is that of the published runs, which a plan need not share."""
    precision = {**base.spec["precision"], "kv_bytes_per_element": member["run.kv_bytes_per_element"]}
    spec = {**base.spec, "chip": chip_spec(member, base.spec["chip"]), "precision": precision}
    found = systems.written(replace(base, spec=spec), habits(member, calibration.habits[systems.POOLED]))
    return replace(found, engine_spec=engine_spec(member, base.spec["engine"]))


@dataclass(frozen=True, slots=True)
class _Judge:
    """The likelihood of a member."""

    headline: Headline
    lengths: Lengths
    calibration: Calibration
    pools: Mapping[str, Pool]
    centres: Mapping[str, float]
    """By target: where the log residual is expected."""
    scales: Mapping[str, float]
    floors: Mapping[str, float]
    """By model: bytes a second that the chips of a lone decoding replica have at least."""

    def __call__(self, point: Sequence[float]) -> float:
        """Log likelihood; minus infinity where nothing fits or a floor is broken."""
        member = values_of(point)
        found: dict[str, Side] = {}
        for name, base in self.pools.items():
            points = sweep(member_system(member, base, self.calibration), self.lengths, **_SWEEP)
            one = side(points, self.lengths, self.headline.rated_power_w[CHIP].number)
            floor = self.floors[name]
            if one is None or one.figures.chips_at_min_tbt * member["chip.memory_bytes_per_s"] < floor:
                return -math.inf
            found[name] = one
        total = 0.0
        for target in self.headline.targets:
            if target.metric in FITTED and target.value is not None:
                residual = math.log(found[target.model].values[target.metric] / target.value)
                total -= 0.5 * ((residual - self.centres[target.id]) / self.scales[target.id]) ** 2
        return total


def _judge(calibration: Calibration) -> tuple[_Judge, list[dict[str, Any]]]:
    """The likelihood, and a row for each fitted figure: where its residual is expected, and how widely."""
    facts = catalog.load()
    headline = facts.headline(CHIP)
    lengths = lengths_of(headline)
    fitted = [target for target in headline.targets if target.metric in FITTED]
    references: dict[str, Side | None] = {}
    for target in fitted:
        if target.model not in references:
            points = reference_points(target.reference, target.model, lengths, calibration)
            references[target.model] = side(points, lengths, headline.rated_power_w[target.reference].number)
    rows, centres, scales = [], {}, {}
    for target in fitted:
        reference = references[target.model]
        assert reference is not None
        assert target.reference_value is not None
        off = math.log(reference.values[target.metric] / target.reference_value)
        wide = _scale(calibration, 1000.0 if target.metric == FITTED[2] else 1.0)
        centres[target.id], scales[target.id] = SHARE * off, wide * math.sqrt(1.0 - SHARE**2)
        rows.append(
            {
                "id": target.id,
                "reference_residual": round(off, 4),
                "expected_residual": round(centres[target.id], 4),
                "scale": round(scales[target.id], 4),
            }
        )
    models = list(references)
    floors = {
        str(one.group["id"]).removesuffix("-tbt-bw"): float(str(one.group["value"]))
        for one in headline.derived_lower_bounds
    }
    named = {target.id.removesuffix("-tbt"): target.model for target in fitted if target.metric == "min_tbt"}
    pools = {name: pool(facts.chip(CHIP), facts.model(name), precision=PRECISION) for name in models}
    by_model = {named[name]: floor for name, floor in floors.items()}
    return _Judge(headline, lengths, calibration, pools, centres, scales, by_model), rows


def _scale(calibration: Calibration, concurrency: float) -> float:
    """Standard deviation of the log error of split deployments on chips that folds left out."""
    from planner.model import bands

    end = bands.RANGES[bands.range_of(concurrency)]
    for one in calibration.tree["left_out"]:
        if (one["metric"], one["new"], one["mode"], one["concurrency_to"]) == ("tpot", "chip", "disagg", end):
            return math.log(one["high"] / one["low"]) / (2 * 1.2816)
    raise AssertionError("every calibration has this range")


def infer(
    calibration: Calibration,
    *,
    seed: int,
    workers: int = 2,
    tick: Callable[[int, int], None] = lambda _done, _all: None,
    size: tuple[int, int, int] = (N_FIRST, N_ROUND, ROUNDS),
    polish: Sequence[tuple[float, int]] = _POLISH,
) -> dict[str, Any]:
    """Samples and weights members; the tree of the posterior's file without its head.

    `size` is the number of points of the first round and of each later one, and how many later ones there are; `polish`
    is the width and number of steps around the best point, in turn. The same seed gives the same digits whatever
    `workers`.
    """
    import numpy as np

    judge, fitted = _judge(calibration)
    table = unknowns()
    n_dim = len(table)
    moved = np.array([not one.path.startswith("rack.") and not one.path.endswith("_w") for one in table])
    n_first, n_round, n_rounds = size
    n_all = n_first + n_round * n_rounds + sum(n for _, n in polish)
    mixture: list[tuple[float, np.ndarray, np.ndarray]] = []
    points, logs = np.empty((0, n_dim)), np.empty(0)

    def normals(key: int, n: int) -> np.ndarray:
        drawn = core.sample({"kind": "normals", "seed": seed, "key": key, "n_rows": n, "n_columns": n_dim + 1})
        return drawn["value"].to_numpy().reshape(n, n_dim + 1)

    done = 0
    with ThreadPoolExecutor(workers) as threads:

        def judged(at: np.ndarray) -> np.ndarray:
            nonlocal done
            found = np.empty(len(at))
            for ix, value in enumerate(threads.map(judge, at.tolist())):
                found[ix] = value
                done += 1
                if done % 20 == 0:
                    tick(done, n_all)
            return found

        first = normals(0, n_first)[:, :n_dim]
        points, logs = first, judged(first)
        counts = [float(n_first)]
        for number in range(1, n_rounds + 1):
            weight = _tempered(logs + _log_ratio(points[:, moved], mixture, counts))
            mean = weight @ points[:, moved]
            spread = (points[:, moved] - mean) * np.sqrt(weight)[:, None]
            cov = spread.T @ spread
            cov = (1.0 - _SHRUNK) * cov + _SHRUNK * np.diag(np.diag(cov)) + 0.02 * np.eye(moved.sum())
            mixture.append((1.0 - _FROM_PRIOR, mean, cov))
            raw = normals(number, n_round)
            at = raw[:, :n_dim].copy()
            fresh = raw[:, n_dim] > _normal_quantile(_FROM_PRIOR)
            at[np.ix_(fresh, moved)] = mean + raw[np.ix_(fresh, np.append(moved, False))] @ np.linalg.cholesky(cov).T
            counts.append(float(n_round))
            points, logs = np.concatenate([points, at]), np.concatenate([logs, judged(at)])
        # The figures do not tell domains apart; the vendor does, in words.
        domain_ix = next(i for i, one in enumerate(table) if one.path == "chip.scale_up.domain_chips")
        wide = np.array([table[domain_ix].at(share_of(z)) >= LARGE_DOMAIN for z in points[:, domain_ix]])
        density = np.where(wide, logs - 0.5 * (points[:, moved] ** 2).sum(axis=1), -np.inf)
        best, best_density = points[int(np.argmax(density))], float(density.max())
        for step, (width, n) in enumerate(polish):
            around = np.tile(best, (n, 1))
            around[:, moved] += width * normals(1000 + step, n)[:, :n_dim][:, moved]
            around[:, domain_ix] = best[domain_ix]
            found = judged(around) - 0.5 * (around[:, moved] ** 2).sum(axis=1)
            if found.max() > best_density:
                best, best_density = around[int(np.argmax(found))], float(found.max())
    best = np.where(moved, best, 0.0)  # what no figure depends on stays in the middle of its range
    weight = np.exp(_below_top(logs + _log_ratio(points[:, moved], mixture, counts)))
    weight /= weight.sum()
    start = float(core.sample({"kind": "normals", "seed": seed, "key": 2000, "n_rows": 1, "n_columns": 1})["value"][0])
    chosen = _systematic(weight, N_MEMBERS - 1, share_of(start))
    members: list[dict[str, Any]] = [{"weight": 1.0 / N_MEMBERS, "values": values_of(best.tolist())}]
    members += [{"weight": count / N_MEMBERS, "values": values_of(points[ix].tolist())} for ix, count in chosen.items()]
    return {
        "error_model": {"share": round(SHARE, 4), "figures": fitted},
        "sample": {
            "n_points": len(points),
            "effective_size": round(float(1.0 / (weight**2).sum()), 1),
            "members_effective_size": round(1.0 / sum(one["weight"] ** 2 for one in members), 1),
        },
        "known": _known(points, weight, [one.path for one in table]),
        "correlated": _correlated(
            points[:, moved], weight, [one.path for one, is_in in zip(table, moved, strict=True) if is_in]
        ),
        "members": members,
    }


def document(found: Mapping[str, Any], calibration: Calibration, *, seed: int, workers: int = 2) -> dict[str, Any]:
    """The posterior's file: what `infer` found, with the figures of each member."""
    facts = catalog.load()
    headline = facts.headline(CHIP)
    models = dict.fromkeys(target.model for target in headline.targets)
    pools = {name: pool(facts.chip(CHIP), facts.model(name), precision=PRECISION) for name in models}
    values = [one["values"] for one in found["members"]]
    with ThreadPoolExecutor(workers) as threads:
        figures_by = list(threads.map(lambda one: figures_of(one, pools, headline, calibration), values))
    members = [
        {"weight": one["weight"], "values": list(one["values"].values()), "figures": list(made.values())}
        for one, made in zip(found["members"], figures_by, strict=True)
    ]
    return {
        "schema": "posterior/1",
        "title": "What OpenAI Jalapeño may be: undisclosed values that agree with the published figures",
        "made": {
            "command": f"planner posterior --seed {seed}",
            "calibration": calibration.tree["data"]["sha256"],
        },
        **{name: value for name, value in found.items() if name != "members"},
        "unknowns": list(values[0]),
        "figures": list(figures_by[0]),
        "members": members,
    }


def _normal_quantile(share: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(share)


def _log_ratio(
    points: np.ndarray, mixture: Sequence[tuple[float, np.ndarray, np.ndarray]], counts: Sequence[float]
) -> np.ndarray:
    """Log of prior over the mixture of everything that was drawn from."""
    import numpy as np

    total = sum(counts)
    prior = -0.5 * (points**2).sum(axis=1)
    drawn = counts[0] + sum(n * (1.0 - share) for n, (share, _, _) in zip(counts[1:], mixture, strict=True))
    parts = [np.full(len(points), math.log(drawn / total))]
    for n, (share, mean, cov) in zip(counts[1:], mixture, strict=True):
        chol = np.linalg.cholesky(cov)
        off = np.linalg.solve(chol, (points - mean).T)
        log = -0.5 * (off**2).sum(axis=0) - np.log(np.diag(chol)).sum()
        parts.append(log - prior + math.log(n * share / total))
    stacked = np.array(parts)
    top = stacked.max(axis=0)
    ratio: np.ndarray = -(top + np.log(np.exp(stacked - top).sum(axis=0)))
    return ratio


def _below_top(logs: np.ndarray) -> np.ndarray:
    import numpy as np

    finite: np.ndarray = logs - logs[np.isfinite(logs)].max()
    return finite


def _tempered(logs: np.ndarray) -> np.ndarray:
    """Weights, flattened by a power below 1 while too few points count."""
    import numpy as np

    log = _below_top(logs)
    power = 1.0
    while True:
        weight: np.ndarray = np.where(np.isfinite(log), np.exp(power * np.where(np.isfinite(log), log, 0.0)), 0.0)
        weight /= weight.sum()
        if 1.0 / (weight**2).sum() >= _LEAST_ESS or power < 0.05:
            return weight
        power *= 0.8


def _systematic(weight: np.ndarray, n: int, start: float) -> dict[int, int]:
    """Systematic resampling: how often each point is taken, by its index."""
    import numpy as np

    ends = np.cumsum(weight)
    marks = (np.arange(n) + start) / n * ends[-1]
    taken: dict[int, int] = {}
    for ix in np.minimum(np.searchsorted(ends, marks), len(weight) - 1).tolist():
        taken[ix] = taken.get(ix, 0) + 1
    return taken


def _known(points: np.ndarray, weight: np.ndarray, paths: Sequence[str]) -> list[dict[str, Any]]:
    """How much narrower each unknown is than before: its spread in prior standard deviations, and its middle."""
    import numpy as np

    found = []
    for column, path in enumerate(paths):
        values = points[:, column]
        mean = float(weight @ values)
        spread = math.sqrt(max(float(weight @ (values - mean) ** 2), 0.0))
        order = np.argsort(values, kind="stable")
        ends = np.cumsum(weight[order])
        low, middle, high = (
            values_of(np.full(len(paths), values[order][np.searchsorted(ends, q)]).tolist())[path]
            for q in (0.1, 0.5, 0.9)
        )
        found.append({"path": path, "spread": round(spread, 2), "low": low, "median": middle, "high": high})
    return found


def _correlated(
    points: np.ndarray, weight: np.ndarray, paths: Sequence[str], least: float = 0.25
) -> list[dict[str, Any]]:
    """Pairs of unknowns that the figures tie together, the strongest first."""
    import numpy as np

    off = points - weight @ points
    cov = (off * weight[:, None]).T @ off
    size = np.sqrt(np.diag(cov))
    corr = cov / np.outer(size, size)
    pairs = [
        {"a": paths[i], "b": paths[j], "correlation": round(float(corr[i, j]), 2)}
        for i in range(len(paths))
        for j in range(i + 1, len(paths))
        if abs(corr[i, j]) >= least
    ]
    return sorted(pairs, key=lambda one: (-abs(one["correlation"]), one["a"], one["b"]))
