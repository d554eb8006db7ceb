"""Section 1 of the page: the question, and the answer in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.aggregate import slo
from planner.report.page_headline import price
from planner.report.page_html import View, anchor, esc, section
from planner.report.verdict import Binding, binding, word

if TYPE_CHECKING:
    from planner.aggregate.result import Result

__all__ = ["answer", "question", "shared_question"]

MOST_NAMED = 3
"""Classes that the answer names; the table has all."""
_METRICS = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "itl": "gap between tokens",
    "e2e": "end-to-end time",
    "queue": "wait",
    "task": "task time",
}
_BOTTLENECKS = {
    "memory": "bound by memory bandwidth",
    "compute": "bound by arithmetic",
    "network": "bound by its links",
    "launch": "bound by launches",
    "queue": "with requests queueing",
    "kv": "short of KV cache",
    "power": "slowed by a power cap",
    "none": "without work",
}


def answer(view: View) -> str | None:
    """The question, and the verdict in a sentence."""
    asked = view.tree["question"] if shared_question(view.result) is None else None
    mark = {"met": "met", "missed": "missed"}.get(view.tree["verdict"] or "", "open")
    lead = f'<p class="verdict {mark}"><strong>{_lead(view)}</strong> {" ".join(sentences(view))}</p>'
    body = f"{question(asked)}{lead}{price(view)}"
    return section("The question and the answer", body, at=anchor(view.name, "answer"), level=view.level)


def question(asked: str | None) -> str:
    """What is asked, as a line; nothing where the scenario asks nothing."""
    return f'<p class="question">{esc(asked)}</p>' if asked else ""


def shared_question(result: Result) -> str | None:
    """What all of several variants ask: it stands once, below the title."""
    asked = {tree["question"] for tree in result.variants.values()}
    return asked.pop() if len(result.variants) > 1 and len(asked) == 1 else None


def _lead(view: View) -> str:
    if not view.tree["requests"]["completed"]:
        return "Nothing completed."
    return f"{word(view.tree)}."


def sentences(view: View) -> Sequence[str]:
    """The verdict, sentence by sentence, as HTML."""
    requests = view.tree["requests"]
    if not requests["offered"]:
        return ["No request was offered: raise the rate, or run.length."]
    if not requests["completed"]:
        return [
            f"Of {view.num('count', 'requests', 'offered')} requests offered none completed: the fleet is too small "
            "for them, or run.length and run.drain are too short. What was computed of them by the end "
            "has a cost, no answer has a latency."
        ]
    found = binding(view.result, view.name)
    if found is None:
        return [
            "No class has limits, so nothing is judged: "
            f"{view.num('count', 'requests', 'completed')} of {view.num('count', 'requests', 'offered')} requests "
            f"completed at {view.num('money', 'cost', 'usd_per_h')} an hour."
        ]
    return [*_said(view, found), *_checks_missed(view), _where(view, found), *_over_hours(view)]


def _said(view: View, found: Binding) -> list[str]:
    classes = view.tree["classes"]
    missed = [name for name, figures in classes.items() if slo.n_missed(figures)]
    held = [name for name, figures in classes.items() if figures["limits"] and not slo.n_missed(figures)]
    said = [_missed(view, name) for name in missed[:MOST_NAMED]]
    if len(missed) > MOST_NAMED:
        said.append("Further classes miss their limits, too.")
    if not missed:
        limit = view.at("classes", found.klass, "limits", found.limit_ix)
        at = ("classes", found.klass, "limits", found.limit_ix)
        lead = "Every limit holds" if view.tree["verdict"] == "met" else "Every limit of the run as it is holds"
        said.append(
            f"{lead}. The tightest is the {_metric(limit['metric'], limit['quantile'])} of "
            f"{esc(found.klass)}: {view.num('time', *at, 'value')} against {view.num('time', *at, 'limit')}, "
            f"{view.num('margin', *at, 'margin_frac')} to spare."
        )
    elif held:
        names = _and([f"<b>{esc(name)}</b>" for name in held]) if len(held) <= MOST_NAMED else "All others"
        said.append(f"{names} {'holds its' if len(held) == 1 else 'hold their'} limits.")
    return said


def _checks_missed(view: View) -> list[str]:
    """A sentence for each case that has to hold besides and does not: capacity kept free, racks out."""
    said = []
    for check in view.tree.get("checks", ()):
        if check["verdict"] == "missed":
            missed = [name for name, figures in check["classes"].items() if figures["verdict"] == "missed"]
            who = _and([f"<b>{esc(name)}</b>" for name in missed]) if missed else "the fleet"
            how = "misses its limits" if len(missed) == 1 else "miss their limits" if missed else "cannot serve at all"
            said.append(f"With {esc(check['label'])}, {who} {how}.")
    return said


def _over_hours(view: View) -> list[str]:
    """A sentence for each class that misses in some hours of the horizon, or one that none does."""
    found = view.tree.get("horizon")
    if not found:
        return []
    hours = view.num("count", "horizon", "hours")
    said = [
        f"Over the horizon <b>{esc(name)}</b> misses in "
        f"{view.num('count', 'horizon', 'classes', name, 'hours_missed')} of {hours} hours."
        for name, figures in found["classes"].items()
        if figures["hours_missed"]
    ]
    return said[:MOST_NAMED] or [f"Over the horizon every limit holds in all {hours} hours that have figures."]


def _missed(view: View, name: str) -> str:
    figures = view.tree["classes"][name]
    parts = []
    for ix, limit in enumerate(figures["limits"]):
        at = ("classes", name, "limits", ix)
        if limit["met"] is False and limit["value"] is None:
            parts.append(
                f"its {_metric(limit['metric'], limit['quantile'])} was never reached (limit "
                f"{view.num('time', *at, 'limit')})"
            )
        elif limit["met"] is False:
            parts.append(
                f"the {_metric(limit['metric'], limit['quantile'])} is {view.num('time', *at, 'value')} against "
                f"{view.num('time', *at, 'limit')}"
            )
    asked, reached = figures["attainment_limit_frac"], figures["attainment_frac"]
    if asked is not None and reached is not None and reached < asked:
        parts.append(
            f"{view.num('share', 'classes', name, 'attainment_frac')} of its requests are inside where "
            f"{view.num('share', 'classes', name, 'attainment_limit_frac')} are asked for"
        )
    return f"<b>{esc(name)}</b> misses: {_and(parts)}."


def _where(view: View, found: Binding) -> str:
    """Pool and hour."""
    limit = view.at("classes", found.klass, "limits", found.limit_ix)
    parts = []
    if found.pool is not None:
        at = ("pools", found.pool)
        parts.append(
            f"on pool {view.swatch(found.pool)}, busy {view.num('share', *at, 'busy_frac')} of the time and "
            f"{_BOTTLENECKS[view.at(*at, 'bottleneck')]}"
        )
    if found.start_s is not None and found.end_s is not None:
        has_seconds = any(round(end) % 60 for end in (found.start_s, found.end_s))
        start, end = (_clock(at, has_seconds=has_seconds) for at in (found.start_s, found.end_s))
        when = f"between {start} and {end} h of the run"
        parts.append(f"most {when}" if found.is_worst else f"with most load {when}")
    what = f"What binds is {esc(found.klass)}'s {_metric(limit['metric'], limit['quantile'])}"
    if not any(slo.n_missed(figures) for figures in view.tree["classes"].values()):  # it was named as the tightest
        what = "It binds"
    return f"{what} {', '.join(parts)}." if parts else f"{what}."


def _clock(seconds: float, *, has_seconds: bool) -> str:
    whole = round(seconds)
    text = f"{whole // 3600}:{whole // 60 % 60:02d}" + (f":{whole % 60:02d}" if has_seconds else "")
    return f"<time>{text}</time>"


def _metric(metric: str, quantile: str) -> str:
    return f'{_METRICS[metric]} <span class="q">({esc(metric)} {esc(quantile)})</span>'


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
