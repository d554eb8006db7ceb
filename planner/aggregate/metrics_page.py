"""`docs/reference/metrics.md`, made from the glossary.

python -m planner.aggregate.metrics_page > docs/reference/metrics.md
"""

from __future__ import annotations

from planner.aggregate.cost_parts import PART_FORMULAS
from planner.aggregate.metrics import METRICS, Metric

_SECTIONS: dict[str, tuple[str, str]] = {
    "requests": ("Requests", "What became of everything that was offered, over the whole run, drain included."),
    "tokens": ("Tokens", "Of everything that was offered."),
    "classes.*": ("Classes", "One set for each class of traffic, of the requests that arrive in [warmup, length)."),
    "classes.*.limits[]": ("Limits", "One row for each limit of a class."),
    "sites.*": ("Sites", "One set for each site, over [warmup, length); where there is one it is called `site`."),
    "pools.*": ("Pools", "One set for each pool, over [warmup, length). The four utilisations are never mixed."),
    "fleet": ("Fleet", "All pools together."),
    "cost": ("Cost", "Every hour of capacity held, used or not."),
    "energy": ("Energy", "Of the measured span."),
    "carbon": ("Carbon", "Of running the racks; what making them emitted is left out."),
    "evidence": ("Evidence", "How much of the cost rests on facts that nobody outside has confirmed."),
}
_HEAD = """# Metrics

What does each figure of a result mean, of what is it, and which way is better? Names are those of `result.json`;
`*` stands for a name. What does not exist is null, shown as `-`. Figures are means over the seeds; `requests` and
`tokens` are whole sums. `low` and `high` mirror the figures with the ends of the 90 % interval over the seeds.
Two figures may be put in one ratio only if they are the same metric: a J/token of all tokens and one of output tokens
are on different bases.

This page is made from `planner/aggregate/metrics.py` by `make docs`.
"""


def page() -> str:
    """The page, as Markdown."""
    parts = [_HEAD]
    for section, (title, words) in _SECTIONS.items():
        rows = [metric for metric in METRICS if metric.section == section]
        parts.append(_table(f"{title}", f"`{section}`: {words}", rows))
    parts.append(_parts())
    return "\n".join(parts)


def _table(title: str, words: str, rows: list[Metric]) -> str:
    lines = [f"## {title}", "", words, "", "| metric | unit | formula | of | better |", "|---|---|---|---|---|"]
    for metric in rows:
        name = f"`{metric.name}`" + (f"<br>{' '.join(metric.keys)}" if metric.keys else "")
        better = "" if metric.direction == "neither" else metric.direction
        unit = "" if metric.unit in {"1", "-"} else metric.unit
        lines.append(f"| {name} | {unit} | {_cell(metric.formula)} | {_cell(metric.basis)} | {better} |")
    return "\n".join([*lines, ""])


def _parts() -> str:
    lines = [
        "## Parts of the cost",
        "",
        "`cost.parts`: USD an hour; a year has 8,760 hours.",
        "",
        "| part | is |",
        "|---|---|",
    ]
    return "\n".join([*lines, *(f"| `{part}` | {_cell(text)} |" for part, text in PART_FORMULAS.items()), ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
