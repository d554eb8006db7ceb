"""A result: the figures of every variant, the tables behind them, and its folder on disk.

A folder is complete: reports and comparisons read nothing else. It appears by rename, and `load` checks the digest of
every file. The tables and `result.json` hold no wall time: the same inputs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.aggregate import slo
from planner.errors import Notice

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.inputs import VariantRun


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found, for one variant or several."""

    variants: Mapping[str, dict[str, Any]] = field(repr=False)
    """Figures by variant, in the shape of `result.json` (`result_schema.py`)."""
    tables: Mapping[str, pl.DataFrame] = field(repr=False)
    """The tables of `columns.TABLES`, all variants and seeds in one."""
    scenarios: Mapping[str, str] = field(repr=False)
    """The resolved scenario of each variant, as YAML, each value with its origin."""
    inputs: str = ""
    """Digest of everything that the result depends on."""
    built: Mapping[str, str] = field(default_factory=dict)
    """What it was made with: versions of planner and of the core."""
    plan: Mapping[str, Any] | None = field(default=None, repr=False)
    """What to buy, where the result is of `planner optimize`; its variants are the periods' peaks and typical days."""

    @classmethod
    def of(cls, runs: Sequence[VariantRun], *, inputs: str, curves: pl.DataFrame | None = None) -> Result:
        """The result of some simulated variants; `inputs` is the digest of what they depend on.

        `curves` is what each deployment could give at every batch (`columns.CURVES`).
        """
        from planner import core
        from planner.aggregate.summary import summarise
        from planner.aggregate.tables import tables
        from planner.facts import catalog
        from planner.scenario.dump import to_yaml

        finance = catalog.load().finance()
        variants = [summarise(run, finance) for run in runs]
        return cls(
            variants={variant.run.scenario.name: variant.tree for variant in variants},
            tables=tables(variants) | ({} if curves is None else {"curves": curves}),
            scenarios={
                run.scenario.name: to_yaml(run.scenario.tree, origins=True, beside=run.scenario.base_dir)
                for run in runs
            },
            inputs=inputs,
            built={f"core_{name}": value for name, value in core.build_info().items()},
        )

    def __repr__(self) -> str:
        found = f"{self.n_completed:,} requests completed, {self.n_missed} limits missed"
        return f"Result({', '.join(self.variants)}: {found})"

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What is worth saying about the variants, each once."""
        found = (Notice(n["code"], n["message"]) for tree in self.variants.values() for n in tree["notices"])
        return tuple(dict.fromkeys(found))

    @property
    def n_completed(self) -> int:
        """Requests completed, over all variants and seeds."""
        return sum(tree["requests"]["completed"] for tree in self.variants.values())

    @property
    def n_missed(self) -> int:
        """Limits missed, attainments included, over all variants, classes and checks."""
        return sum(slo.n_missed_of_all(tree) for tree in self.variants.values())

    def to_json(self) -> dict[str, Any]:
        """The figures as they are printed: those of the one variant, or `variants` by name; of a plan those of the peak
        that is dearest to meet, with all `variants` and the `plan`.
        """
        if self.plan is not None:
            return {**self.variants[self.plan["shown"]], "variants": dict(self.variants), "plan": dict(self.plan)}
        if len(self.variants) == 1:
            return dict(next(iter(self.variants.values())))
        return {"variants": dict(self.variants)}

    def alone(self, variant: str, *, called: str, inputs: str) -> Result:
        """One variant as a result of its own, under another name; `inputs` is the digest of what it depends on.

        It is byte for byte what a run of that variant alone gives.
        """
        import polars as pl

        tree = {**self.variants[variant], "scenario": called}
        tree["seeds"] = [{**seed, "scenario": called} for seed in tree["seeds"]]
        name = pl.lit(called).alias("variant")
        tables = {
            key: table.filter(pl.col("variant") == variant).with_columns(name) for key, table in self.tables.items()
        }
        return Result({called: tree}, tables, {called: self.scenarios[variant]}, inputs, self.built)

    def metric(self, name: str, by: str | Sequence[str] | None = None, over: str | None = None) -> pl.DataFrame:
        """A figure as a table, one row a variant: `value`, and the 90 % interval over seeds, `low` and `high`.

        `name` is one of the glossary, with its statistic if it has several: `usd_per_mtok_all`, `ttft_s.p95`,
        `facility_w.peak`. `by` is any of class, pool, part and seed; `over="window"` gives the windows of a pool's or
        class's figure, `over="hour"` and `over="day"` their sums or means, `over="sample"` a headline figure's, or an
        uncertain fact's, value in each of `run.samples`.

        Raises:
            ScenarioError: there is no such metric, or not by that.
        """
        from planner.aggregate.lookup import metric_table

        return metric_table(self, name, by=(by,) if isinstance(by, str) else tuple(by or ()), over=over)

    def figure(self, name: str, variant: str | None = None) -> Any:
        """A figure of the capacity review as an Altair chart, of the first variant unless another is named.

        Names are those of `planner report --figures`: demand, latency, operating-point, cost, busy, sensitivity, ...

        Raises:
            ScenarioError: there is no such figure or variant, or the result holds nothing for it; the message says why.
        """
        from planner.report.notebook import chart

        return chart(self, name, variant)

    def _repr_html_(self) -> str:
        """What a notebook shows: the answer, the limits and the headline."""
        from planner.report.notebook import html

        return html(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """As HTML, and as the text of the command line for who cannot show that."""
        from planner.report.text import run_report

        return {"text/html": self._repr_html_(), "text/plain": run_report(self)}

    def save(self, folder: Path | str, *, is_replacing: bool = False, log: str = "") -> None:
        """Write the folder, a path or any address that fsspec knows; it appears at once and whole. `log` is free text
        that no digest covers.

        Raises:
            RunError: something is there already and `is_replacing` is not set, or it is no result.
            OSError: the disk refused.
        """
        from planner.aggregate.store import save

        save(self, folder, is_replacing=is_replacing, log=log)

    @classmethod
    def load(cls, folder: Path | str) -> Result:
        """The result of a folder, a path or any address that fsspec knows.

        Raises:
            ScenarioError: it is no result.
            RunError: a part is missing or damaged, or a later version of planner wrote it.
        """
        from planner.aggregate.store import load

        return load(folder)
