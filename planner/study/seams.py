"""How far off a run is that was cut in time (`run.split`): the two parts with the most requests, cut and whole.

Each part is simulated with the requests of a warm-up before and after it, so that it begins and ends as busy as the
whole run would be there. What is left is measured where most is at stake: the two neighbours with the most requests are
simulated once more as one, under the first seed, and their limits and the energy of their steps compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from planner.aggregate.judged import judged_classes
from planner.errors import Notice
from planner.fleet import stretches
from planner.fleet.operation import ns
from planner.fleet.stretches import Stretch
from planner.study.work import Asked, Simulate

if TYPE_CHECKING:
    from planner.aggregate.inputs import SeedRun, VariantRun
    from planner.aggregate.result import Result
    from planner.scenario import Scenario

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Seam:
    """Where a run is looked at."""

    run: VariantRun
    n_parts: int
    pair: tuple[Stretch, Stretch]
    whole: Stretch

    def asked(self) -> list[Asked]:
        """The two parts, and the two as one, under the first seed."""
        one = replace(self.run.scenario, run=self.run.scenario.run.model_copy(update={"seeds": 1}))
        return [Asked(one, self.run.fleet, "try", pieces) for pieces in (self.pair, (self.whole,))]


def with_seams(result: Result, runs: Sequence[VariantRun], simulate: Simulate) -> Result:
    """The result with `split` of each variant that was cut in time, and a notice of how far it is off."""
    seams = [seam for run in runs if (seam := _seam(run)) is not None]
    if not seams:
        return result
    trees = dict(result.variants)
    made = iter(simulate([each for seam in seams for each in seam.asked()]))
    for seam in seams:
        apart, joint = next(made), next(made)
        asked = seam.run.scenario.run
        tree = {
            "parts": seam.n_parts,
            "split_s": asked.split_s,
            "warmup_s": asked.warmup_s,
            "seam_s": seam.pair[1].begin_ns / 1e9,
            "differences": _differences(apart.scenario, apart.seeds[0], joint.seeds[0]),
            "step_energy_frac": _off(_energy(apart.seeds[0]), _energy(joint.seeds[0])),
        }
        name = seam.run.scenario.name
        notice = _notice(tree)
        said = [*trees[name]["notices"], {"code": notice.code, "message": notice.message}]
        trees[name] = {**trees[name], "split": tree, "notices": said}
    return replace(result, variants=trees)


def _seam(run: VariantRun) -> _Seam | None:
    """The seam of a run with the most requests about it; None where it was not cut."""
    asked = run.scenario.run
    if asked.split_s is None:
        return None
    length_ns = run.seeds[0].traffic.length_ns
    warmup_ns = ns(asked.warmup_s)
    cuts = stretches.plan(length_ns=length_ns, split_ns=ns(asked.split_s), warmup_ns=warmup_ns)
    if len(cuts) < 2:
        return None
    at = _busiest(run.seeds[0], cuts, ns(asked.window_s))
    first, second = cuts[at : at + 2]
    whole = stretches.stretch(first.begin_ns, second.end_ns, length_ns=length_ns, warmup_ns=warmup_ns)
    return _Seam(run, len(cuts), (first, second), whole)


def _busiest(seed: SeedRun, cuts: Sequence[Stretch], window_ns: int) -> int:
    """Where the two neighbours begin that were offered the most, the first of equals."""
    rows = seed.sim.class_windows.select("window_ix", "offered").iter_rows()
    offered = [0] * len(cuts)
    for window_ix, n in rows:
        at = window_ix * window_ns
        offered[max(ix for ix, piece in enumerate(cuts) if piece.begin_ns <= at)] += n
    pairs = [a + b for a, b in pairwise(offered)]
    return pairs.index(max(pairs))


def _differences(scenario: Scenario, apart: SeedRun, joint: SeedRun) -> list[Tree]:
    """Every limit of every class, and the attainment, in parts and whole."""
    found = []
    cut, whole = judged_classes(scenario, apart), judged_classes(scenario, joint)
    for name in scenario.traffic:
        for a, b in zip(cut[name]["limits"], whole[name]["limits"], strict=True):
            found.append(_row(name, a["metric"], a["quantile"], a["value"], b["value"]))
        if cut[name]["attainment_frac"] is not None:
            values = (cut[name]["attainment_frac"], whole[name]["attainment_frac"])
            found.append(_row(name, "attainment", None, *values))
    return found


def _row(name: str, metric: str, quantile: str | None, cut: float | None, whole: float | None) -> Tree:
    return {
        "class": name,
        "metric": metric,
        "quantile": quantile,
        "cut": cut,
        "whole": whole,
        "frac": _off(cut, whole),
    }


def _off(cut: float | None, whole: float | None) -> float | None:
    return None if cut is None or not whole else cut / whole - 1


def _energy(seed: SeedRun) -> float:
    work = seed.sim.deployments
    return math.fsum([*work["prefill_j"].to_list(), *work["decode_j"].to_list()])


def _notice(tree: Tree) -> Notice:
    offs = [
        f"{' '.join(part for part in (row['class'], row['metric'], row['quantile']) if part)} {row['frac']:+.2%}"
        for row in tree["differences"]
        if row["frac"] is not None
    ]
    energy = tree["step_energy_frac"]
    if energy is not None:
        offs.append(f"energy of steps {energy:+.2%}")
    message = (
        f"the run was cut into {tree['parts']} parts; at the seam with the most requests ({tree['seam_s']:,.9g} s) the "
        f"parts over the whole: {', '.join(offs)}"
    )
    return Notice("seam", message)
