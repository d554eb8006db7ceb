"""`docs/reviews/` of the scenarios that buy: what to order, and why.

Such an answer takes minutes, so it is not made again at each check. A page says for which scenario and which facts it
was made (digests of the resolved scenario and of the catalogue's facts); `stale` compares them with today's, and a slow
test solves the scenario again.

    python -m tests.docs.plans 12-growth 03-buy-plan
"""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import planner
from planner import Result, units
from planner.report import plan_section
from planner.report.plan_text import fixed_racks, plan_report
from planner.scenario.schema import Scenario

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "docs" / "reviews"
SETS: Mapping[str, tuple[str, ...]] = {
    "03-buy-plan": ("run.length=30 min", "run.warmup=10 min", "run.seeds=1"),
    "12-growth": (),
}
"""Scenario -> what is set beside it, so that its page is made in minutes."""
SHOWN = tuple(SETS)
_MADE_FOR = re.compile(r"^<!-- made for the scenario ([0-9a-f]+) with the facts ([0-9a-f]+) -->$", re.MULTILINE)
FACTS = ROOT / "planner" / "facts" / "data"
_NOT_IN_A_PLAN = {"demand", "headline", "published", "sources", "traffic"}
"""Folders of facts that no figure of these plans hangs on."""


def scenario(name: str) -> Scenario:
    """A shipped scenario."""
    return planner.load(ROOT / "scenarios" / f"{name}.yaml", sets=SETS[name])


def facts() -> str:
    """A digest of the facts that plans hang on: a refit of the model changes it."""
    found = hashlib.sha256()
    for path in sorted(FACTS.rglob("*.yaml")):
        where = path.relative_to(FACTS)
        if where.parts[0] not in _NOT_IN_A_PLAN:
            found.update(f"{where.as_posix()}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def stale(name: str) -> str | None:
    """Why a page is not of today, and what makes it again; None if it is."""
    found = _MADE_FOR.search((PLACE / f"{name}.md").read_text(encoding="utf-8"))
    if found is None:
        why = "it does not say for what it was made"
    elif found[1] != scenario(name).digest():
        why = "the scenario was changed since"
    elif found[2] != facts():
        why = "facts were changed since"
    else:
        return None
    return f"{why}: python -m tests.docs.plans {name}"


def answer(name: str) -> str:
    """The sentence that a page begins with, for the index."""
    text = (PLACE / f"{name}.md").read_text(encoding="utf-8")
    found = re.search(r"^\*\*(Order .*?)\*\*", text, re.MULTILINE)
    assert found is not None, name
    return found[1]


def _made(asked: Scenario) -> str:
    return f"made for the scenario {asked.digest()} with the facts {facts()}"


def page(name: str, result: Result) -> str:
    """The page of a plan, as Markdown."""
    found = result.plan
    assert found is not None
    asked = scenario(name)
    lines = [f"# {asked.question}", "", f"<!-- {_made(asked)} -->", f"**{asked.title}.**", ""]
    lines += [f"**{plan_section.order(found)}** {plan_section.answer(found)}", ""]
    lines += ["## The scenario", "", "```yaml", f'--8<-- "scenarios/{name}.yaml"', "```", ""]
    lines += ["## What to order, and when", "", *_periods(found), ""]
    lines += ["## Against other fleets", "", *_fleets(found), ""]
    lines += _worth(found)
    lines += ["## As it is printed", "", "<!-- --8<-- [start:answer] -->", "```text"]
    flags = "".join(f" --set {shlex.quote(each)}" for each in SETS[name])
    lines += [
        f"$ planner optimize scenarios/{name}.yaml{flags}",
        plan_report(result),
        "```",
        "<!-- --8<-- [end:answer] -->",
        "",
    ]
    if SETS[name]:
        lines += [
            "What is set on the command line shortens the simulations, so that this page is made in minutes. Asked as",
            "the file stands, the same search simulates longer and under more seeds, and may order otherwise.",
            "",
        ]
    lines += [
        "The page that `planner optimize` writes beside its answer has the schedule as a drawing, where each class",
        "runs, the limits of each period and every fact. Solving takes minutes, so this page is made again when the",
        "scenario or a fact changes (`python -m tests.docs.plans`), not at every check; its inputs had the digest",
        f"`{result.inputs[:19]}`.",
        "",
    ]
    return "\n".join(line.rstrip() for line in lines)


def _periods(found: dict[str, Any]) -> Iterable[str]:
    rows = [
        [
            period["name"],
            period["start"] or f"year {period['start_years']:g}",
            ", ".join(f"{n} {name}" for name, n in period["buy"].items() if n) or "nothing",
            ", ".join(f"{n} {name}" for name, n in period["fleet"].items() if n),
            units.format(period["capex_usd"], "money"),
            units.format(period["usd_per_year"], "money"),
            units.format(period["power_w"]["provisioned"], "power"),
        ]
        for period in found["periods"]
    ]
    return _table(["period", "from", "order", "racks that stand", "cash", "cost a year", "provisioned"], rows)


def _fleets(found: dict[str, Any]) -> Iterable[str]:
    rows = [["the plan", units.format(found["tco_usd"], "money"), "", ""]]
    for name, usd in found["fixed_fleets"].items():
        more = "" if usd is None else f"{(usd / found['tco_usd'] - 1) * 100:+.1f} %"
        why = found["fixed_reasons"].get(name) or fixed_racks(found, name)
        rows.append([f"`{name}`", units.format(usd, "money"), more, why])
    return _table(["fleet", "discounted cost", "more", "what it is"], rows)


def _worth(found: dict[str, Any]) -> list[str]:
    def signed(usd: float | None) -> str:
        return "-" if usd is None else f"{'+' if usd > 0 else '-' if usd < 0 else ''}{units.format(abs(usd), 'money')}"

    rows = [
        [
            one["limit"],
            one["unit"],
            signed(one["one_more"]),
            "no plan" if one["one_less"] is None else signed(one["one_less"]),
        ]
        for one in found.get("binding", [])
    ]
    if not rows:
        return []
    return ["## What the limits are worth", "", *_table(["limit", "unit", "one more", "one less"], rows), ""]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def solved(name: str) -> Result:
    """The plan of a shipped scenario, its simulated periods and all."""
    from planner.optimize.plan import optimize

    return optimize(scenario(name), workers=2)


def main(names: Sequence[str]) -> None:
    """Solve, and write the pages; of results in folders where `NAME=FOLDER` says so."""
    for each in names or SHOWN:
        name, _, folder = each.partition("=")
        result = Result.load(folder) if folder else solved(name)
        (PLACE / f"{name}.md").write_text(page(name, result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
