"""Every layout of a model on a chip under every load that it can hold: closed loops and saturation, costed by the core.

Layouts are powers of two, tp x dp up to the scale-up domain, in one pipeline stage or in as many as are asked for;
experts are spread as widely as they divide. A replica
that does prompts and outputs alike is `agg`; `disagg` has a pool of prompts beside each pool of outputs, with workers
in the ratios of `RATIOS`. In the regime `closed_loop` a fixed number of clients start together, as a benchmark does;
`saturated` is the same loop of a replica that does both, long after its first wave: every step carries the prompts that
replace what ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planner import core
from planner.errors import Notice
from planner.facts import catalog
from planner.facts.schema import Chip, Model
from planner.model.spec import deployment_spec
from planner.model.stacks import LEVELS, features, label

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

__all__ = ["Lengths", "Pool", "System", "pool", "sweep"]

REGIMES = ("closed_loop", "saturated")
GROUP_BATCH = 1024
"""Sequences that each attention group of a server is set up for."""
MOST_CLIENTS = 1 << 17
RATIOS = ((1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (1, 2), (1, 4))
"""Workers of the pools of prompts and of outputs."""
_DEGREES = ("tp", "dp", "pp")
_PREFILL_ROOM = 2
"""Pools of prompts have at most this many times the chips that the model needs."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths that are uniform between `range_frac` x nominal and nominal."""

    input_tokens: float
    output_tokens: float
    range_frac: float = 1.0

    @property
    def mean_input(self) -> float:
        """Mean prompt."""
        return self.input_tokens * 0.5 * (1.0 + self.range_frac)

    @property
    def mean_output(self) -> float:
        """Mean output."""
        return self.output_tokens * 0.5 * (1.0 + self.range_frac)

    @property
    def mixed_per_output(self) -> float:
        """Input and output tokens for each output token."""
        return (self.mean_input + self.mean_output) / self.mean_output


@dataclass(frozen=True, slots=True)
class Pool:
    """A chip with the parts of a deployment spec that do not depend on the layout."""

    chip: Chip
    model: Model
    spec: Mapping[str, Any]
    precision_words: str
    notices: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class System:
    """A pool's chip under one serving stack, and what the sweep should call it."""

    pool: Pool
    stack: str
    """measured | pooled | inferred"""
    engine: str
    engine_spec: Mapping[str, Any]
    habits: Mapping[str, float]
    corrections: Mapping[str, Sequence[Mapping[str, Mapping[str, float]]]] = field(default_factory=dict)
    """Stack corrections of a calibration, by metric; none for a stack that was not measured."""
    offsets: Mapping[str, float] = field(default_factory=dict)
    """Logarithm of what times take over the model's on chips of this vendor, by metric; none is 0."""
    precision: str = "fp4"
    """Of the measured stacks that the corrections belong to."""
    modes: tuple[str, ...] = ("agg", "disagg")
    has_attention_dp: bool = True
    """Whether layouts with attention data parallelism are tried."""
    prefill: Pool | None = None
    """Another chip for the prompts."""
    prefill_engine_spec: Mapping[str, Any] | None = None


def pool(
    chip: Chip,
    model: Model,
    *,
    precision: str | None = None,
    kv_dtype: str | None = "fp8",
    speculation: Mapping[str, float] | None = None,
) -> Pool:
    """The pool of a chip for a model; keys and values are 8 bits unless asked otherwise, as the benchmarks run.

    Raises:
        FactError: a fact that is needed has no value, or a format is unknown.
    """
    facts = catalog.load()
    spec, words, notices = deployment_spec(
        chip,
        model,
        engine=facts.engine(chip.engine),
        serving=facts.serving(),
        tp=1,
        precision=precision,
        kv_dtype=kv_dtype,
        speculation=speculation,
    )
    return Pool(chip, model, spec, words, notices)


def sweep(
    system: System,
    lengths: Lengths,
    *,
    regimes: Sequence[str] = REGIMES,
    clients: Sequence[int] | None = None,
    ratios: Sequence[tuple[int, int]] = RATIOS,
    stages: Sequence[int] = (1,),
) -> pl.DataFrame:
    """The points of one system, a row each: layout, workers, load, times in seconds, rates, draw of its chips.

    Without `clients` the loads are powers of two up to what the caches hold. `stages` are the pipeline stages to try. A
    model that no layout holds has no rows.
    """
    import polars as pl

    layouts = _layouts(int(system.pool.spec["chip"]["domain_chips"]), system.has_attention_dp, stages)
    groups = [_group(system, layout) for layout in layouts]
    agg, fits = _steady(system, groups, _rows(groups, [(1, 1)], clients), lengths, regimes)
    frames = [agg] if "agg" in system.modes else []
    fitting = [layout for layout, is_fit in zip(layouts, fits, strict=True) if is_fit]
    if "disagg" in system.modes and fitting:
        held = fitting
        if system.prefill is not None:
            held = _fitting(replace(system, pool=system.prefill, prefill=None), stages)
        pairs = [(layout, prompts) for layout in fitting for prompts in _prefill_layouts(held)]
        groups = [_group(system, layout, prompts) for layout, prompts in pairs]
        if groups:
            split, _ = _steady(system, groups, _rows(groups, ratios, clients), lengths, REGIMES[:1])
            frames.append(_best_workers(split))
    return pl.concat(frames) if frames else agg.clear()


Layout = tuple[int, int, int]
"""Degrees tp, dp, pp."""


def _layouts(domain: int, has_dp: bool, stages: Sequence[int]) -> list[Layout]:
    """Degrees, powers of two, of which those of a stage are inside the domain."""
    powers = [1 << i for i in range(domain.bit_length())]
    pairs = [(tp, dp) for tp in powers for dp in (powers if has_dp else (1,)) if tp * dp <= domain]
    return [(tp, dp, pp) for pp in stages for tp, dp in pairs]


def _fitting(system: System, stages: Sequence[int]) -> list[Layout]:
    layouts = _layouts(int(system.pool.spec["chip"]["domain_chips"]), True, stages)
    groups = [_group(system, layout) for layout in layouts]
    _, fits = _steady(system, groups, _rows(groups, [(1, 1)], (1,)), Lengths(1024, 128), REGIMES[:1])
    return [layout for layout, is_fit in zip(layouts, fits, strict=True) if is_fit]


def _prefill_layouts(fitting: Sequence[Layout]) -> list[Layout]:
    """Pools of prompts: the smallest ones that hold the model, once with most tensor and once with most data
    parallelism.
    """
    if not fitting:
        return []
    chips = {layout: layout[0] * layout[1] * layout[2] for layout in fitting}
    least = min(chips.values())
    small = [layout for layout in fitting if chips[layout] <= _PREFILL_ROOM * least]
    smallest = [layout for layout in small if chips[layout] == least]
    return sorted({max(smallest), max(small, key=lambda layout: (layout[1], -layout[0]))})


def _group(system: System, layout: Layout, prompts: Layout | None = None) -> dict[str, Any]:
    (tp, dp, pp), spec = layout, system.pool.spec
    group: dict[str, Any] = {
        "chip": "decode",
        "model": "model",
        "engine": REGIMES[0],
        "precision": spec["precision"],
        "serving": {**spec["serving"], "max_batch": GROUP_BATCH * dp * pp},
        "layout": {"tp": tp, "dp": dp, "pp": pp},
        "prefill": None,
    }
    if prompts is not None:
        group["prefill"] = dict(zip(_DEGREES, prompts, strict=True))
        if system.prefill is not None:
            group["prefill_chip"], group["prefill_engine"] = "prefill", "prefill"
            group["prefill_precision"] = system.prefill.spec["precision"]
    return group


def _rows(
    groups: Sequence[Mapping[str, Any]], ratios: Sequence[tuple[int, int]], clients: Sequence[int] | None
) -> dict[str, np.ndarray]:
    """Group, workers and clients of each row; a group's caches are not asked yet, so rows may hold too much."""
    import numpy as np

    table = []
    loads = clients or [1 << i for i in range(MOST_CLIENTS.bit_length())]
    for ix, group in enumerate(groups):
        lanes = group["layout"]["dp"] * group["layout"]["pp"]
        for prefill, decode in ratios if group["prefill"] else [(0, 1)]:
            most = GROUP_BATCH * lanes * decode
            table += [(ix, prefill, decode, load) for load in loads if load <= most]
    columns = np.array(table, dtype=float).T
    return dict(zip(("group_ix", "prefill_workers", "decode_workers", "concurrency"), columns, strict=True))


def _steady(
    system: System,
    groups: list[dict[str, Any]],
    rows: Mapping[str, np.ndarray],
    lengths: Lengths,
    regimes: Sequence[str],
) -> tuple[pl.DataFrame, list[bool]]:
    """Points of all rows that fit and are not far beyond the caches, in each regime; and which groups fit."""
    import numpy as np
    import polars as pl

    engines = {name: dict(system.engine_spec) for name in REGIMES}
    habits = {REGIMES[0]: dict(system.habits), REGIMES[1]: {**system.habits, "burst": 0.0}}
    chips = {"decode": system.pool.spec["chip"]}
    if system.prefill is not None and system.prefill_engine_spec is not None:
        chips["prefill"] = system.prefill.spec["chip"]
        engines["prefill"], habits["prefill"] = dict(system.prefill_engine_spec), dict(system.habits)
    n_rows = len(rows["group_ix"])
    frame = pl.DataFrame(
        {
            "group_ix": pl.Series(rows["group_ix"]).cast(pl.UInt64),
            "input_tokens": np.full(n_rows, lengths.mean_input),
            "output_tokens": np.full(n_rows, lengths.mean_output),
            "concurrency": rows["concurrency"],
            "prefill_workers": np.maximum(rows["prefill_workers"], 1.0),
            "decode_workers": rows["decode_workers"],
        }
    )
    frames: list[pl.DataFrame] = []
    refusals: list[tuple[str, str] | None] = []
    for regime in regimes:
        spec = {
            "chips": chips,
            "models": {"model": system.pool.spec["model"]},
            "engines": engines,
            "habits": habits,
            "groups": [{**group, "engine": regime} for group in groups],
        }
        found, refusals = core.steady(spec, frame)
        frames.append(_points(system, groups, rows, found, lengths, regime))
    return pl.concat(frames), [refusal is None for refusal in refusals]


def _points(
    system: System,
    groups: Sequence[Mapping[str, Any]],
    rows: Mapping[str, np.ndarray],
    found: pl.DataFrame,
    lengths: Lengths,
    regime: str,
) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    ix = rows["group_ix"].astype(int)
    tp, dp, pp = (np.array([group["layout"][name] for group in groups])[ix] for name in _DEGREES)
    prompts = [group["prefill"] or dict.fromkeys(_DEGREES, 0) for group in groups]
    prefill_tp, prefill_dp, prefill_pp = (np.array([one[name] for one in prompts])[ix] for name in _DEGREES)
    decode_chips = tp * dp * pp * rows["decode_workers"]
    prefill_chips = prefill_tp * prefill_dp * prefill_pp * rows["prefill_workers"]
    chips = decode_chips + prefill_chips
    value = {name: found[name].to_numpy() for name in found.columns}
    clients = rows["concurrency"]
    is_inside = np.isfinite(value["tpot_s"]) & (clients <= value["cache_seqs"] * rows["decode_workers"])
    is_inside |= np.isfinite(value["tpot_s"]) & (clients == 1)
    off = {metric: np.exp(_correction(system, metric, clients, lengths, chips, prefill_tp)) for metric in LEVELS}
    tbt, ttft = value["tpot_s"] * off["tpot"], value["ttft_s"] * off["ttft"]
    e2e = ttft + (lengths.mean_output - 1.0) * tbt
    # Little's law; no more than the caches hold decode at once.
    rate = np.minimum(clients / e2e, value["cache_seqs"] * rows["decode_workers"] / (lengths.mean_output * tbt))
    prefill_w = _prefill_w(system, value["prefill_busy_frac"])
    table = pl.DataFrame(
        {
            "chip": np.full(len(ix), system.pool.chip.name),
            "prefill_chip": np.where(prefill_chips > 0, (system.prefill or system.pool).chip.name, ""),
            "stack": np.full(len(ix), system.stack),
            "engine": np.full(len(ix), system.engine),
            "mode": np.where(prefill_chips > 0, "disagg", "agg"),
            "regime": np.full(len(ix), regime),
            "tp": tp,
            "dp": dp,
            "pp": pp,
            "decode_workers": rows["decode_workers"].astype(int),
            "prefill_tp": prefill_tp,
            "prefill_dp": prefill_dp,
            "prefill_pp": prefill_pp,
            "prefill_workers": rows["prefill_workers"].astype(int),
            "chips": chips.astype(int),
            "concurrency": clients.astype(int),
            "n_seqs": value["n_seqs"],
            "ttft_s": ttft,
            "tbt_s": tbt,
            "e2e_s": e2e,
            "tok_s_user": 1.0 / tbt,
            "tok_s_chip": rate * lengths.mean_output / chips,
            "chip_w": value["chip_w"],
            "prefill_chip_w": prefill_w,
            "prefill_share": prefill_chips / chips,
            "prefill_busy_frac": value["prefill_busy_frac"],
        }
    )
    return table.filter(pl.Series(is_inside))


def _correction(
    system: System, metric: str, clients: np.ndarray, lengths: Lengths, chips: np.ndarray, prefill_tp: np.ndarray
) -> np.ndarray:
    """Logarithm of the vendor's and the stack's correction on each row."""
    import numpy as np

    total = np.full(len(clients), system.offsets.get(metric, 0.0))
    if metric not in system.corrections:
        return total
    for mode, at in (("agg", prefill_tp == 0), ("disagg", prefill_tp > 0)):
        if not at.any():
            continue
        row = {
            "backend": system.engine,
            "model": system.pool.model.name,
            "chip": system.pool.chip.name,
            "precision": system.precision,
            "mode": mode,
            "harness": None,
        }
        load = {"isl_mean": lengths.mean_input, "osl_mean": lengths.mean_output, "mode": mode}
        by_feature = features(
            [{**load, "concurrency": c, "chips": n} for c, n in zip(clients[at], chips[at], strict=True)]
        )
        for level, known in zip(LEVELS[metric], system.corrections[metric], strict=True):
            for name, weight in known.get(label(row, level.keys), {}).items():
                total[at] += weight * by_feature[name]
    return total


def _prefill_w(system: System, busy_frac: np.ndarray) -> np.ndarray:
    """Draw of a chip that works on prompts for a share of its time."""
    import numpy as np

    chip = (system.prefill or system.pool).spec["chip"]
    high = min(chip["high_load_w"], chip["max_w"])
    draw: np.ndarray = chip["parked_w"] + np.clip(busy_frac, 0.0, 1.0) * (high - chip["parked_w"])
    return draw


def _best_workers(split: pl.DataFrame) -> pl.DataFrame:
    """Of the worker ratios and pools of prompts for a layout and load, the one that makes most of its chips, and the
    one with the shortest time.
    """
    import polars as pl

    keys = ["regime", "tp", "dp", "pp", "concurrency"]
    split = split.with_row_index("row")
    most = split.sort(["tok_s_chip", "row"], descending=[True, False]).unique(keys, keep="first", maintain_order=True)
    least = split.sort(["e2e_s", "chips", "row"]).unique(keys, keep="first", maintain_order=True)
    return pl.concat([most, least]).unique("row", keep="first").sort("row").drop("row")
