"""Measured serving points: a table read with named rules, and the core's steady states of its deployments.

A row is a benchmark run: one deployment at one concurrency (`docs/explanation/validation.md` has the columns). What the
table leaves open is settled by rules that are named here, once:

- `one_worker`: a split deployment without worker counts has one worker a pool.
- `eight_bit_cache`: keys and values are 8 bits beside fp8 and fp4 weights, as the benchmark's recipes set them.
- `server_batch`: the server is set up to hold 1,024 sequences in each attention group.
- `crosses_domains`: a measured layout may be wider than a scale-up domain.
- `pooled_engine`: an engine that the catalogue does not have takes the mean of those measured.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import core
from planner.errors import FactError, Fault, Notice, near
from planner.facts import catalog
from planner.model.coefficients import ENGINES, POOLED
from planner.model.recipes import held_steps, is_in_step
from planner.model.spec import deployment_spec
from planner.model.text_table import text_table, with_numbers

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

__all__ = ["MEASURED", "Points", "place", "read_points", "steady", "whole_row"]

NEEDED = ("model", "chip", "backend", "precision", "mode", "isl_mean", "osl_mean", "concurrency")
"""Columns that every table has."""
POOLS = {
    "agg": ("chips", "attention_dp", "pp"),
    "disagg": (
        *("prefill_chips", "prefill_attention_dp", "prefill_pp"),
        *("decode_chips", "decode_attention_dp", "decode_pp"),
    ),
}
"""Columns of a mode's layout: rows need those of the chips; the degrees are 1 where nothing is said."""
_SIDES = {"agg": ("",), "disagg": ("prefill_", "decode_")}
_DEGREES = ("chips", "attention_dp", "pp")
WORKERS = ("prefill_workers", "decode_workers")
DRAFTS = ("draft_tokens", "draft_acceptance", "draft_cost")
"""Speculative decoding: tokens drafted a step, the chance that one is accepted after those before it, and what drafting
one takes as a share of a step.
"""
OPTIONAL = ("point", "deployment", "harness", "measured_on", "clean", "ttft_ms", "tpot_ms", *WORKERS, *DRAFTS)
MEASURED = ("ttft_ms", "tpot_ms")
SERVER_BATCH = 1024
_INFINITE = float("inf")
_NUMBERS = (*NEEDED[5:], *POOLS["agg"], *POOLS["disagg"], *WORKERS, *DRAFTS, *MEASURED)
_TEXTS = ("point", "deployment", "model", "chip", "backend", "precision", "mode", "harness", "measured_on")


@dataclass(frozen=True, slots=True)
class Points:
    """Rows of a table, in its order, and the groups (deployments) that they belong to."""

    rows: list[dict[str, Any]]
    group_ix: list[int]
    """Group of each row; -1 where a row cannot be one, for the reason in `refusals`."""
    groups: list[dict[str, Any]]
    """Groups of `steady_spec`, chips and models by name."""
    refusals: list[str]
    """Why a row has no group; empty where it has."""
    chips: dict[str, Any]
    models: dict[str, Any]

    def column(self, name: str) -> list[Any]:
        """The values of a column, in row order."""
        return [row[name] for row in self.rows]

    def numbers(self, name: str) -> np.ndarray:
        """A numeric column; NaN where it is empty."""
        import numpy as np

        return np.array([np.nan if row[name] is None else float(row[name]) for row in self.rows])


def read_points(path: Path) -> Points:
    """The points of a CSV file; rows that cannot be placed keep a reason instead of a deployment.

    Raises:
        FactError: the file cannot be read, a column is missing, or a number is not one.
    """
    table = text_table(path, "points", NEEDED, (*NEEDED, *POOLS["agg"], *POOLS["disagg"], *OPTIONAL))
    faults: list[Fault] = []
    if "measured_on" in table.columns:
        faults.extend(_undated(table["measured_on"].to_list(), path))
    try:
        table = with_numbers(table, path, _NUMBERS)
    except FactError as error:
        faults.extend(error.faults)
    if faults:
        raise FactError(*faults)
    return place([whole_row(row) for row in table.iter_rows(named=True)])


def _undated(texts: Sequence[str | None], path: Path) -> Iterator[Fault]:
    for line, text in enumerate(texts, start=2):
        try:
            datetime.datetime.fromisoformat(text or "2026-01-01")
        except ValueError:
            what, out = f"'{text}' is not a date", "write 2026-03-18, or leave the cell empty"
            yield Fault(what, out, path="measured_on", file=str(path), line=line)


def whole_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """One row; what a table does not have is None."""
    typed: dict[str, Any] = {name: row.get(name) for name in (*_TEXTS, *_NUMBERS)}
    typed["backend"] = typed["backend"] and str(typed["backend"]).lower()
    typed["clean"] = str(row.get("clean") or "true").lower() in {"true", "1", "yes"}
    return typed


def place(rows: list[dict[str, Any]]) -> Points:
    """Rows to deployments: each distinct one is built once."""
    groups: list[dict[str, Any]] = []
    chips: dict[str, Any] = {}
    models: dict[str, Any] = {}
    known: dict[tuple[Any, ...], tuple[int, str]] = {}
    group_ix, refusals = [], []
    for row in rows:
        why = _incomplete(row)
        if why:
            group_ix.append(-1)
            refusals.append(why)
            continue
        named = ("chip", "model", "backend", "precision", "mode", *POOLS[row["mode"]], *DRAFTS)
        key = tuple(row.get(name) for name in named)
        if key not in known:
            try:
                group = _group(row, chips, models)
            except FactError as error:
                known[key] = (-1, str(error))
            else:
                known[key] = (len(groups), "")
                groups.append(group)
        ix, why = known[key]
        group_ix.append(ix)
        refusals.append(why)
    return Points(rows, group_ix, groups, refusals, chips, models)


def _incomplete(row: Mapping[str, Any]) -> str:
    """What a row lacks to be a deployment under a load, or an empty text."""
    empty = [name for name in NEEDED if row[name] is None]
    if not empty and row["mode"] not in POOLS:
        return f"mode '{row['mode']}'" + near(row["mode"], POOLS)
    if not empty:
        empty = [name for name in POOLS[row["mode"]] if name.endswith("chips") and row[name] is None]
    if empty:
        return f"no {', '.join(empty)}"
    wrong = [name for name in (*NEEDED[5:], *WORKERS) if row[name] is not None and not 0 < row[name] < _INFINITE]
    if wrong:
        return f"{', '.join(wrong)} must be positive"
    return next((why for side in _SIDES[row["mode"]] if (why := _undivided(row, side))), "") or _undrafted(row)


def _undrafted(row: Mapping[str, Any]) -> str:
    """Why a row's drafts cannot be, or an empty text; the core has the ranges."""
    given = [name for name in DRAFTS if row.get(name) is not None]
    missing = [name for name in DRAFTS[:2] if given and name not in given]
    if missing:
        return f"{given[0]} without {', '.join(missing)}: acceptance has to be known"
    if given and row["draft_tokens"] % 1:
        return f"draft_tokens {row['draft_tokens']:g}: must be whole"
    return ""


def _speculation(row: Mapping[str, Any]) -> dict[str, float] | None:
    if row.get("draft_tokens") is None:
        return None
    tokens, acceptance, cost = (row.get(name) or 0.0 for name in DRAFTS)
    return {"draft_tokens": int(tokens), "acceptance_frac": acceptance, "draft_cost_frac": cost}


def _undivided(row: Mapping[str, Any], side: str) -> str:
    """Why the chips of a pool are not laid out as its columns say, or an empty text."""
    given = {name: row[f"{side}{name}"] for name in _DEGREES if row.get(f"{side}{name}") is not None}
    wrong = [f"{side}{name} {value:g}" for name, value in given.items() if not (value >= 1 and value % 1 == 0)]
    if wrong:
        return f"{', '.join(wrong)}: must be whole and positive"
    groups = given.get("attention_dp", 1.0)
    if "pp" in given and given["chips"] % (groups * given["pp"]):
        return f"{side}pp {given['pp']:g}: {side}chips must be a multiple of {side}attention_dp x {side}pp"
    if given["chips"] % groups:
        return f"{side}attention_dp {groups:g}: {side}chips must be a multiple of it, not {given['chips']:g}"
    return ""


def _group(row: Mapping[str, Any], chips: dict[str, Any], models: dict[str, Any]) -> dict[str, Any]:
    """The group of a row; its chip and model join the tables."""
    facts = catalog.load()
    chip, model = facts.chip(row["chip"]), facts.model(row["model"])
    engine = facts.engine(row["backend"] if is_known(row["backend"]) else POOLED)

    def built(side: str) -> dict[str, Any]:
        degree, stages = int(row[f"{side}attention_dp"] or 1), int(row.get(f"{side}pp") or 1)
        tp = max(1, int(row[f"{side}chips"]) // (degree * stages))
        kv_dtype = "fp8" if row["precision"] in {"fp8", "fp4"} else "bf16"
        spec, _, _ = deployment_spec(
            chip,
            model,
            engine=engine,
            serving=facts.serving(),
            tp=tp,
            dp=degree,
            pp=stages,
            precision=row["precision"],
            kv_dtype=kv_dtype,
            max_batch=SERVER_BATCH * degree,
            speculation=_speculation(row),
        )
        spec["layout"]["crosses_domains"] = True
        return spec

    if row["mode"] == "agg":
        spec, prefill = built(""), None
    else:
        spec, prefill = built("decode_"), built("prefill_")["layout"]
    chips.setdefault(chip.name, spec["chip"])
    models.setdefault(model.name, spec["model"])
    return {
        "chip": chip.name,
        "model": model.name,
        "engine": row["backend"],
        "precision": spec["precision"],
        "serving": spec["serving"],
        "layout": spec["layout"],
        "prefill": prefill,
    }


def is_known(engine: str) -> bool:
    """Whether the catalogue has a serving engine of this name."""
    try:
        catalog.load().engine(engine)
    except FactError:
        return False
    return True


def pooled_engines(points: Points) -> tuple[Notice, ...]:
    """Engines of a table that the catalogue does not have, and what stands in for them."""
    found: dict[str, int] = {}
    for row, ix in zip(points.rows, points.group_ix, strict=True):
        if ix >= 0 and not is_known(row["backend"]):
            found[row["backend"]] = found.get(row["backend"], 0) + 1
    return tuple(
        Notice(
            "pooled_engine",
            f"{n} row{'s' * (n > 1)} with engine '{name}': pooled figures, and the band of an engine that was never"
            f" measured{near(name, ENGINES)}",
        )
        for name, n in sorted(found.items())
    )


def steady_spec(points: Points, engines: Mapping[str, Any], habits: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of `core.steady` for these points under these engines; one that is not among them is `POOLED`."""
    names = {group["engine"] for group in points.groups}
    return {
        "chips": points.chips,
        "models": points.models,
        "engines": {name: engines.get(name, engines.get(POOLED)) for name in names},
        "habits": {name: habits.get(name, habits.get(POOLED)) for name in names},
        "groups": points.groups,
    }


def loads(points: Points) -> tuple[pl.DataFrame, list[int]]:
    """The rows that have a group as loads for `core.steady`, and which rows they are."""
    import polars as pl

    at = [i for i, ix in enumerate(points.group_ix) if ix >= 0]
    rows = [points.rows[i] for i in at]
    frame = pl.DataFrame(
        {
            "group_ix": pl.Series([points.group_ix[i] for i in at], dtype=pl.UInt64),
            "input_tokens": pl.Series([row["isl_mean"] for row in rows], dtype=pl.Float64),
            "output_tokens": pl.Series([row["osl_mean"] for row in rows], dtype=pl.Float64),
            "concurrency": pl.Series([row["concurrency"] for row in rows], dtype=pl.Float64),
            "prefill_workers": pl.Series([row["prefill_workers"] or 1.0 for row in rows], dtype=pl.Float64),
            "decode_workers": pl.Series([row["decode_workers"] or 1.0 for row in rows], dtype=pl.Float64),
            "held_steps": pl.Series([held_steps(row) for row in rows], dtype=pl.Float64),
            "in_step": pl.Series([float(is_in_step(row)) for row in rows], dtype=pl.Float64),
        }
    )
    return frame, at


def steady(
    points: Points,
    engines: Mapping[str, Any],
    habits: Mapping[str, Any],
    draws: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[dict[str, np.ndarray], list[str]]:
    """What the core says of each row (NaN without an answer), and why a row has none; `draws` replace chip facts."""
    import numpy as np

    frame, at = loads(points)
    spec = steady_spec(points, engines, habits)
    if draws:
        spec["chips"] = {name: {**chip, **draws.get(name, {})} for name, chip in spec["chips"].items()}
    table, by_group = core.steady(spec, frame)
    found = {}
    for name in table.columns:
        values = np.full(len(points.rows), np.nan)
        values[at] = table[name].to_numpy()
        found[name] = values
    reasons = list(points.refusals)
    for i in at:
        refusal = by_group[points.group_ix[i]]
        if refusal is not None:
            reasons[i] = "; ".join(part for part in refusal if part)
    return found, reasons
