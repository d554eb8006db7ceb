"""One figure out of a result, as a table: what `Result.metric` gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.aggregate import rollup
from planner.aggregate.metrics import METRICS, Metric
from planner.errors import Fault, ScenarioError, near

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

SECTIONS = {"class": "classes", "pool": "pools", "site": "sites", "part": "cost"}
"""What a figure can be split by -> the section that has it so."""
_WINDOW_TABLES = {"pool": "windows", "class": "class_windows"}


def metric_table(result: Result, name: str, *, by: tuple[str, ...], over: str | None) -> pl.DataFrame:
    """See `Result.metric`."""
    for each in by:
        if each not in {*SECTIONS, "seed"}:
            raise ScenarioError(Fault(f"no figures by '{each}'{near(each, [*SECTIONS, 'seed'])}"))
    if over is not None:
        if over == "sample":
            return _over_samples(result, name)
        if over not in {"window", *rollup.SPANS}:
            raise ScenarioError(Fault(f"no figures over '{over}'{near(over, ['window', *rollup.SPANS, 'sample'])}"))
        return _over_windows(result, name, by, over)
    split = next((each for each in by if each in SECTIONS), None)
    metric, keys = _find(name, split)
    split = split or next((each for each, section in SECTIONS.items() if metric.section == f"{section}.*"), None)
    is_by_seed = "seed" in by
    rows = []
    for variant, tree in result.variants.items():
        for seed in tree["seeds"] if is_by_seed else [tree]:
            for labels, path in _places(seed, metric, keys, split):
                row: dict[str, Any] = {"variant": variant, **labels, "value": _at(seed, path)}
                if is_by_seed:
                    row["seed"] = seed["run"]["seed"]
                else:
                    row |= {end: _at(tree[end], path) for end in ("low", "high")}
                rows.append(row)
    return _frame(rows, split, is_by_seed=is_by_seed, has_statistic=bool(metric.keys) and split != "part")


def _find(name: str, split: str | None) -> tuple[Metric, tuple[str, ...]]:
    """The glossary row that a name means, split so, and which of its statistics (all when none is named)."""
    if split == "part":
        if name not in {"usd_per_h", "cost.usd_per_h", "cost.parts", "parts"}:
            raise ScenarioError(Fault(f"no '{name}' by part; only usd_per_h is split so"))
        parts = next(m for m in METRICS if m.path == "cost.parts")
        return parts, parts.keys
    wanted = f"{SECTIONS[split]}.*" if split else None
    fits = [m for m in METRICS if m.unit != "-" and "[]" not in m.section and wanted in (None, m.section)]
    found = [(m, rest) for m in fits if (rest := _rest(name, m)) is not None]
    if not found:
        names = [f"{m.name}.{key}" for m in fits for key in m.keys] + [m.name for m in fits]
        raise ScenarioError(Fault(f"no metric '{name}'{f' by {split}' if split else ''}{near(name, names)}"))
    found.sort(key=lambda pair: "*" in pair[0].section)
    return found[0]


def _rest(name: str, metric: Metric) -> tuple[str, ...] | None:
    for head in (metric.path, metric.name):
        if name == head:
            return metric.keys
        if name.startswith(f"{head}.") and name.removeprefix(f"{head}.") in metric.keys:
            return (name.removeprefix(f"{head}."),)
    return None


def _places(
    tree: Mapping[str, Any], metric: Metric, keys: Sequence[str], split: str | None
) -> Iterator[tuple[dict[str, str], tuple[str, ...]]]:
    """Labels and path of every figure that is asked for."""
    section = metric.section.removesuffix(".*")
    heads = [(section, name) for name in tree[section]] if metric.section.endswith(".*") else [(section,)]
    for head in heads:
        labels = {split: head[1]} if split and len(head) > 1 else {}
        for key in keys or ("",):
            label = {"part" if split == "part" else "statistic": key} if key else {}
            yield labels | label, (*head, metric.name, *([key] if key else []))


def _at(tree: Any, path: Sequence[str]) -> float | None:
    for key in path:
        tree = tree[key]
    return None if tree is None else float(tree)


def _frame(rows: list[dict[str, Any]], split: str | None, *, is_by_seed: bool, has_statistic: bool) -> pl.DataFrame:
    import polars as pl

    schema: dict[str, Any] = {"variant": pl.String}
    if split:
        schema[split] = pl.String
    if is_by_seed:
        schema["seed"] = pl.UInt64
    if has_statistic:
        schema["statistic"] = pl.String
    schema["value"] = pl.Float64
    if not is_by_seed:
        schema |= {"low": pl.Float64, "high": pl.Float64}
    return pl.DataFrame([[row[column] for column in schema] for row in rows], schema=schema, orient="row")


def _over_windows(result: Result, name: str, by: tuple[str, ...], over: str) -> pl.DataFrame:
    """Rows of a pool's or class's windows, or hours or days of them.

    A window without a row had no work, and the pool was parked.
    """
    tables = [(split, result.tables[table]) for split, table in _WINDOW_TABLES.items() if not by or split in by]
    for split, table in tables:
        if name in table.columns and name not in {"variant", "seed", split, "window_ix", "start_s"}:
            if over == "window":
                return table.select("variant", "seed", split, "window_ix", "start_s", value=name)
            return _rolled(result, table, split, name, over)
    known = [column for _, table in tables for column in table.columns[5:]]
    raise ScenarioError(Fault(f"no figure '{name}' over windows{near(name, known)}"))


def _over_samples(result: Result, name: str) -> pl.DataFrame:
    """The value of a headline figure, or of an uncertain fact, in each sample; null where the replicas do not fit."""
    import polars as pl

    from planner.aggregate.leaves import leaves, matching

    table = result.tables.get("samples")
    if table is None:
        raise ScenarioError(Fault("the result has no samples", "run it with --set run.samples=64"))
    known = table["name"].unique(maintain_order=True).to_list()
    wanted = [name] if name in known else []
    for tree in result.variants.values():
        wanted += [leaf.path for leaf in matching(name, leaves(tree)) if leaf.path in known]
    if not wanted:
        raise ScenarioError(Fault(f"no samples of '{name}'{near(name, known)}"))
    found = table.filter(pl.col("name").is_in(list(dict.fromkeys(wanted))))
    return found.select("variant", "sample_ix", "member", "name", "value")


def _rolled(result: Result, table: pl.DataFrame, split: str, name: str, over: str) -> pl.DataFrame:
    """Hours or days of a table of windows."""
    some = next(iter(result.variants.values()))["run"]["window_s"]
    n_windows = {
        (variant, seed["run"]["seed"]): -int(-seed["run"]["length_s"] // seed["run"]["window_s"])
        for variant, tree in result.variants.items()
        for seed in tree["seeds"]
    }
    if any(tree["run"]["window_s"] != some for tree in result.variants.values()):
        raise ScenarioError(Fault("the variants have windows of unlike widths", "ask for each by itself"))
    chosen = table.lazy().select("variant", "seed", split, "window_ix", name)
    rolled = rollup.rollup(chosen, n_in=rollup.windows_in(over, some), n_windows=n_windows, window_s=some)
    named = rolled.rename({"span_ix": f"{over}_ix", name: "value"})
    return named.select("variant", "seed", split, f"{over}_ix", "start_s", "value").collect(engine="streaming")
