"""Measured points replayed in closed loop through the simulator, first wave included.

What the table leaves open beside `points.py`, by name:

- `spread_lengths`: prompts and outputs are drawn uniformly from 8/9 to 10/9 of their mean (0.8 to 1.0 of the nominal
  length), also where a table has whole numbers: loops of one length would go on in step, and measured ones do not,
  but for those that `recipes.py` names.
- `shared_link`: a split deployment hands over through all the scale-out links of its smaller side.

Between scheduler and client a first token waits for a client's fixed time and some steps, longer for a hand-over, and
for what recipes hold it back; a prompt takes longer than its arithmetic and pays launches that decoding records, and
some engines' queues are longer. Those few figures, and corrections by stack as the steady state has them, are fitted to
the simulated first tokens (`fit_simulated`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.errors import Infeasible
from planner.model.closed_loop import WAVES, Lengths, Loop, fitting, run
from planner.model.coefficients import COEFFICIENTS, ENGINES, FIRST_HABITS, POOLED, Coefficient
from planner.model.fit import SCALES, Target, minimise, weights
from planner.model.folds import KINDS, folds
from planner.model.points import Points, steady
from planner.model.recipes import held_steps, is_in_step
from planner.model.stacks import LEVELS, Design, design, effect

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Simulated", "corrected", "first_token_s", "fit_simulated", "sample", "simulate_points"]

SEED = 1
_QUEUE = Coefficient(
    "queue", "habits", True, 1.0, 0.1, 20.0, 0.7, "wait before a prompt's first step over the simulated"
)
CLIENT = (
    "first_token_s",
    "first_token_launches",
    "first_token_unlike_s",
    "first_token_steps",
    "first_token_dp_steps",
    "lone_prompt",
    "handover_s",
    "handover_steps",
    "queue",
)
"""What is fitted; all but the last are habits of the steady state, too, with the same ranges."""
_FITTED = tuple(
    (c, engine)
    for name in CLIENT
    for c in (*COEFFICIENTS, _QUEUE)
    if c.name == name
    for engine in (ENGINES if c.is_each else ("",))
)
_THREADS = 2


@dataclass(frozen=True, slots=True)
class Simulated:
    """Means over the requests of each row's run, in seconds; NaN where it was not simulated."""

    wait_s: np.ndarray
    """From arrival to the first step."""
    prefill_s: np.ndarray
    """From there to the first token."""
    tpot_s: np.ndarray
    launch_s: np.ndarray
    """Launches and latencies of a step with prompts."""
    unlike_layers: np.ndarray
    """Layers with latent or linear attention."""
    n_requests: int


def sample(points: Points, n: int | None, seed: int = SEED) -> list[int]:
    """Clean rows that have a deployment: `n` of them (all for None), chosen by a digest of seed and row."""
    rows = [i for i, row in enumerate(points.rows) if row["clean"] and points.group_ix[i] >= 0]

    def place(i: int) -> str:
        name = points.rows[i]["point"] or i
        return hashlib.sha256(f"{seed}/{name}/{i}".encode()).hexdigest()

    return rows if n is None else sorted(sorted(rows, key=place)[:n])


def simulate_points(points: Points, engines: Mapping[str, Any], rows: Sequence[int], seed: int = SEED) -> Simulated:
    """Runs each of `rows` as a closed loop of ten requests a client."""
    import numpy as np

    means = np.full((3, len(points.rows)), np.nan)
    generic = engines.get(POOLED)

    def one(i: int) -> tuple[np.ndarray, int]:
        group = points.groups[points.group_ix[i]]
        try:
            requests = run(loop(points, i, engines.get(group["engine"], generic), seed))
        except Infeasible:
            return np.full(3, np.nan), 0
        begun = requests["start_s"] - requests["arrival_s"]
        parts = (begun, requests["first_token_s"] - requests["start_s"], requests["tpot_s"])
        return np.array([part.mean() for part in parts], dtype=float), requests.height

    n_requests = 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for i, (found, n) in zip(rows, pool.map(one, rows), strict=True):
            means[:, i] = found
            n_requests += n
    wait_s, prefill_s, tpot_s = means
    # What is read here does not depend on habits: any will do.
    steps, _ = steady(points, engines, {POOLED: FIRST_HABITS})
    return Simulated(wait_s, prefill_s, tpot_s, steps["launch_s"], steps["unlike_layers"], n_requests)


def loop(points: Points, i: int, engine: Any, seed: int = SEED) -> Loop:
    """The closed loop of row `i`.

    Raises:
        Infeasible: its deployment does not fit.
    """
    row, group = points.rows[i], points.groups[points.group_ix[i]]
    placed = {
        "chip": points.chips[group["chip"]],
        "model": points.models[group["model"]],
        "engine": engine,
        **{name: group[name] for name in ("precision", "serving", "layout")},
    }
    prefill, link = None, None
    workers = {side: int(row[f"{side}_workers"] or 1) for side in ("prefill", "decode")}
    if group["prefill"] is not None:
        prefill = fitting({**placed, "layout": group["prefill"]})
        chips = min(
            workers[side] * layout["tp"] * layout["dp"] * layout["pp"]
            for side, layout in (("prefill", group["prefill"]), ("decode", group["layout"]))
        )
        chip = placed["chip"]
        latency_ns = round(chip["scale_out_latency_s"] * 1e9)
        link = {"bytes_per_s": chip["scale_out_bytes_per_s"] * chips, "latency_ns": latency_ns}
    return Loop(
        fitting(placed),
        max(round(row["concurrency"]), 1),
        _lengths(row["isl_mean"], is_alike=is_in_step(row)),
        _lengths(row["osl_mean"], is_alike=is_in_step(row)),
        n_replicas=workers["decode"] if prefill is not None else 1,
        prefill=prefill,
        n_prefill=workers["prefill"],
        link=link,
        n_requests=WAVES * max(round(row["concurrency"]), 1),
        seed=seed,
    )


def _lengths(mean: float, *, is_alike: bool) -> Lengths:
    if is_alike:
        return Lengths(round(mean), round(mean))
    return Lengths(max(round(mean * 8 / 9), 1), max(round(mean * 10 / 9), 1))


def first_token_s(points: Points, simulated: Simulated, client: Mapping[str, Mapping[str, float]]) -> np.ndarray:
    """The first token as the client sees it; `client` has the fitted figures by engine, `generic` for others."""
    import numpy as np

    by_row = [client.get(row["backend"] or "", client[POOLED]) for row in points.rows]
    values = np.array([[one.get(name, 1.0) for name in CLIENT] for one in by_row])
    return _seen(points, simulated, values)


def _seen(points: Points, simulated: Simulated, values: np.ndarray) -> np.ndarray:
    import numpy as np

    base_s, launches, unlike_s, steps, dp_steps, lone, handover_s, handover_steps, queue = values.T
    layouts = [points.groups[ix]["layout"] if ix >= 0 else None for ix in points.group_ix]
    is_dp = np.array([layout is not None and layout["dp"] > 1 for layout in layouts])
    is_split = np.array([ix >= 0 and points.groups[ix]["prefill"] is not None for ix in points.group_ix])
    held = np.zeros(len(points.rows))
    for i, row in enumerate(points.rows):
        # As in the steady state, a lone client's prompt comes when nothing runs that it could be held back for.
        if points.group_ix[i] >= 0 and row["concurrency"] > 1.0:
            held[i] = held_steps(row)
    waits = steps + dp_steps * is_dp + handover_steps * is_split + held
    at_scheduler = queue * simulated.wait_s + lone * simulated.prefill_s
    unrecorded_s = ~is_split * (launches * simulated.launch_s + unlike_s * simulated.unlike_layers)
    seen: np.ndarray = at_scheduler + base_s + unrecorded_s + handover_s * is_split + waits * simulated.tpot_s
    return seen


def fit_simulated(
    points: Points,
    engines: Mapping[str, Any],
    tick: Callable[[str, int, int], None] = lambda _what, _done, _all: None,
) -> dict[str, Any]:
    """The part of a calibration on simulated first tokens: client figures, stack corrections, errors on folds."""
    import numpy as np

    rows = points.rows
    tick("simulated points", 0, 1)
    found = simulate_points(points, engines, [i for i, ix in enumerate(points.group_ix) if ix >= 0])
    engine_ix = np.array([ENGINES.index(row["backend"]) if row["backend"] in ENGINES else 0 for row in rows])
    places = [[j for j, (c, _) in enumerate(_FITTED) if c.name == name] for name in CLIENT]
    columns = np.array([[at[ix] if len(at) > 1 else at[0] for at in places] for ix in engine_ix])
    measured = np.log(points.numbers("ttft_ms") / 1e3)
    known = np.isfinite(measured) & np.isfinite(found.wait_s) & np.isfinite(found.tpot_s)
    target = Target(np.where(known, measured, np.nan), design(rows, LEVELS["ttft"]), SCALES["ttft"])
    weight = weights([str(row["deployment"]) for row in rows])

    def predict(theta: np.ndarray) -> tuple[np.ndarray]:
        return (np.log(_seen(points, found, np.exp(theta)[columns])),)

    table = np.array([[c.start, c.low, c.high, c.spread] for c, _ in _FITTED])
    prior = (np.log(table[:, 0]), np.log(table[:, 1]), np.log(table[:, 2]), table[:, 3])
    whole = minimise(predict, [target], weight, prior=prior)
    residuals = {kind: np.full(len(rows), np.nan) for kind in KINDS}
    for fold in folds(rows):
        kept = np.where(fold.is_out, 0.0, weight)
        part = minimise(predict, [target], kept, prior=prior, start=whole.theta)
        off = target.measured - predict(part.theta)[0] - target.design.matrix @ part.effects[0]
        residuals[fold.kind][fold.is_out] = off[fold.is_out]
    tick("simulated points", 1, 1)
    return {
        "waves": WAVES,
        "seed": SEED,
        "client": _client(np.exp(whole.theta)),
        "corrections": _levels(target.design, whole.effects[0]),
        "errors": [one for kind in KINDS for one in _errors(rows, kind, residuals[kind])],
    }


def _client(values: np.ndarray) -> dict[str, dict[str, float]]:
    by_engine: dict[str, dict[str, float]] = {engine: {} for engine in ENGINES}
    for (coefficient, engine), value in zip(_FITTED, values, strict=True):
        for name in (engine,) if engine else ENGINES:
            by_engine[name][coefficient.name] = float(f"{value:.5g}")
    mean = {name: sum(by_engine[engine][name] for engine in ENGINES) / len(ENGINES) for name in CLIENT}
    return {**by_engine, POOLED: {name: float(f"{value:.5g}") for name, value in mean.items()}}


def _levels(made: Design, effects: np.ndarray) -> list[dict[str, dict[str, float]]]:
    levels: list[dict[str, dict[str, float]]] = [{} for _ in LEVELS["ttft"]]
    for (level_ix, name, feature), value in zip(made.names, effects, strict=True):
        if round(float(value), 4) != 0.0:
            levels[level_ix].setdefault(name, {})[feature] = round(float(value), 4)
    return levels


def _errors(rows: Sequence[Mapping[str, Any]], kind: str, off: np.ndarray) -> list[dict[str, Any]]:
    import numpy as np

    ape = np.abs(np.exp(-off) - 1.0)
    mode = np.array([row["mode"] for row in rows])
    groups = [("all", "", np.isfinite(ape)), *(("mode", m, np.isfinite(ape) & (mode == m)) for m in ("agg", "disagg"))]
    return [
        {
            "metric": "ttft",
            "new": kind,
            "by": by,
            "value": value,
            "n": int(inside.sum()),
            "median": round(float(np.median(ape[inside])), 4),
            "mean": round(float(np.mean(ape[inside])), 4),
        }
        for by, value, inside in groups
        if inside.any()
    ]


def corrected(
    points: Points, values: np.ndarray, metric: str, known: Sequence[Mapping[str, Mapping[str, float]]]
) -> np.ndarray:
    """`values` times the corrections of each row's stack."""
    import numpy as np

    log = np.zeros(len(points.rows))
    at = [i for i, ix in enumerate(points.group_ix) if ix >= 0]
    log[at] = effect([points.rows[i] for i in at], LEVELS[metric], known)
    found: np.ndarray = values * np.exp(log)
    return found
