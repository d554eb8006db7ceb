"""The limits of a simulation, class by class, and of what has to hold besides: capacity kept free, racks out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planner.aggregate import intervals, slo
from planner.aggregate.slo import Counts

if TYPE_CHECKING:
    from planner.aggregate.inputs import Check, SeedRun, VariantRun
    from planner.scenario import Scenario

Tree = dict[str, Any]


def judged_classes(scenario: Scenario, seed: SeedRun) -> Tree:
    """The limits of each class in one simulation, and whether they hold."""
    rows = {row["class_ix"]: row for row in seed.sim.classes.to_dicts()}
    classes: Tree = {}
    for ix, (name, traffic) in enumerate(scenario.traffic.items()):
        row = rows[ix]
        counts = Counts.of(row)
        limits = scenario.slo[traffic.slo] if traffic.slo is not None else None
        figures: Tree = {
            "tasks": counts.tasks,
            "offered": counts.offered,
            "completed": counts.completed,
            "attained": counts.attained,
            "attainment_frac": slo.attainment(counts, limits),
            "attainment_limit_frac": limits.attainment_frac if limits is not None else None,
            "limits": slo.judged_limits(seed.sim.sketches, ix, counts, limits) if limits is not None else [],
        }
        classes[name] = figures | {"verdict": slo.verdict(figures)}
    return classes


def judge_means(classes: Tree, by_seed: Sequence[Tree]) -> None:
    """Limits and verdict of each class, of the means over the seeds; `classes` holds the means and is completed."""
    for name, figures in classes.items():
        figures["limits"] = [
            slo.means_judged([each[name]["limits"][ix] for each in by_seed], limit)
            for ix, limit in enumerate(figures["limits"])
        ]
        figures["verdict"] = slo.verdict(figures)


def judged_over(scenario: Scenario, seeds: Sequence[SeedRun]) -> Tree:
    """The limits of each class in the mean over the seeds, and whether they hold."""
    by_seed = [judged_classes(scenario, seed) for seed in seeds]
    classes: Tree = intervals.over_seeds(by_seed, intervals.mean)
    judge_means(classes, by_seed)
    return classes


def judged_run(run: VariantRun) -> Tree:
    """What the verdict of a run is made of, in the shape of `result.json`: `verdict`, `classes`, and `checks`."""
    classes = judged_over(run.scenario, run.seeds)
    checks = [check_figures(run.scenario, check) for check in run.checks]
    verdicts = [figures["verdict"] for figures in (*classes.values(), *checks)]
    return {"verdict": slo.verdict_of_all(verdicts), "classes": classes, "checks": checks}


def check_figures(scenario: Scenario, check: Check) -> Tree:
    """Whether the limits hold with something changed; where nothing can be simulated, they do not."""
    limited = [name for name, traffic in scenario.traffic.items() if traffic.slo is not None]
    classes: Tree = {}
    if check.seeds:
        classes = judged_over(scenario, check.seeds)
    verdicts = [figures["verdict"] for figures in classes.values()]
    return {
        "kind": check.kind,
        "label": check.label,
        "load_factor": check.load_factor,
        "racks_out": dict(check.racks_out),
        "verdict": slo.verdict_of_all(verdicts) if check.seeds else "missed" if limited else None,
        "reason": check.reason or None,
        "classes": classes,
    }
