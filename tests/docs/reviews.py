"""`docs/reviews/`: the shipped scenarios and what they answer today, a small page each."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import planner
from planner import Result
from planner.report.figures import registry
from planner.report.page_answer import sentences
from planner.report.page_html import View
from planner.report.text import run_report
from planner.report.verdict import word
from tests.docs import plans

ROOT = Path(__file__).resolve().parents[2]
SHOWN: Mapping[str, tuple[str, ...]] = {
    "01-one-rack": ("base",),
    "02-mixed-fleet": ("base", "nvidia_only"),
    "04-agents": ("base", "gb300", "no_prefix_cache"),
    "05-disaggregated": ("base", "reverse", "mixed", "slow_link"),
    "06-service-tiers": ("base", "own_replicas"),
    "08-jalapeno-or-gb300": ("base", "gb300", "fast", "fast_gb300", "ultra_fast", "ultra_fast_gb300"),
    "10-two-sites": ("base",),
}
"""Scenario -> the variants that its page shows."""


@cache
def result(name: str) -> Result:
    """The answer to a shipped scenario; one seed is enough for its page."""
    file = ROOT / "scenarios" / f"{name}.yaml"
    scenarios = [planner.load(file, variant=each, sets=("run.seeds=1",)) for each in SHOWN[name]]
    return planner.run(scenarios, workers=2)


def page(name: str) -> str:
    """The page of a scenario, as Markdown."""
    found = result(name)
    first = next(iter(found.variants.values()))
    lines = [f"# {first['question']}", "", f"**{first['title']}.**", ""]
    look = registry.look_of(found)
    for variant, tree in found.variants.items():
        said = " ".join(sentences(View(found, variant, tree, look)))
        label = f"`{variant}`: " if len(found.variants) > 1 else ""
        lines += [f"- {label}**{word(tree)}.** {_plain(said)}"]
    lines += ["", "## The scenario", "", "```yaml", f'--8<-- "scenarios/{name}.yaml"', "```", ""]
    lines += ["## The figures", "", "```text", run_report(found), "```", ""]
    flags = "" if len(found.variants) == 1 else " --all"
    lines += [
        f"`planner run scenarios/{name}.yaml{flags} --set run.seeds=1` makes them, and the page with the figures and",
        "the evidence beside them. This page is made by `make docs`.",
        "",
    ]
    return "\n".join(line.rstrip() for line in lines)


def index() -> str:
    """The list of reviews."""
    lines = ["# What do the shipped scenarios answer?", "", "| scenario | question | answer |", "|---|---|---|"]
    for name in SHOWN:
        found = result(name)
        first = next(iter(found.variants.values()))
        verdicts = ", ".join(
            f"{variant} {'no limits' if tree['verdict'] is None else tree['verdict']}"
            for variant, tree in found.variants.items()
        )
        lines.append(f"| [{name}]({name}.md) | {first['question']} | {verdicts} |")
    for name in plans.SHOWN:
        lines.append(f"| [{name}]({name}.md) | {plans.scenario(name).question} | {plans.answer(name)} |")
    lines = [*lines[:4], *sorted(lines[4:])]
    return "\n".join([*lines, "", "This page is made by `make docs`.", ""])


def _plain(text: str) -> str:
    """HTML of the verdict as Markdown text."""
    bold = re.sub(r"</?b>", "**", text)
    return html.unescape(re.sub(r"<[^>]+>", "", bold)).replace("|", "\\|")
