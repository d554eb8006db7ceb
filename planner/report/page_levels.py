"""Section 3 of the page: the limits of each class, what has to hold besides, and what became of the requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.aggregate import slo
from planner.report.page_html import View, anchor, esc, section, table

__all__ = ["limits"]

MOST_SHOWN = 10
"""Classes whose limits are not folded away."""


def limits(view: View) -> str | None:
    """A row for each limit of each class, and one for its attainment."""
    places = [
        ("classes", name, "limits", ix, "value")
        for name, each in view.tree["classes"].items()
        for ix in range(len(each["limits"]))
    ]
    has_intervals = any(view.interval("time", *path) for path in places)
    shown, folded = _ordered(view.tree["classes"])
    rows: list[list[str]] = []
    n_shown = 0
    for name in (*shown, *folded):
        figures = view.tree["classes"][name]
        for ix, limit in enumerate(figures["limits"]):
            at = ("classes", name, "limits", ix)
            met = {True: "met", False: "missed", None: "unknown"}[limit["met"]]
            row = [esc(name), f"{esc(limit['metric'])} {esc(limit['quantile'])}", _mark(met)]
            row += [view.num("time", *at, "value"), view.num("time", *at, "limit")]
            row += [_margin(view, at, limit["margin_frac"])]
            row += [view.interval("time", *at, "value")] if has_intervals else []
            rows.append([*row, esc(figures["model"])])
        rows.append(_attained(view, name, has_intervals=has_intervals))
        n_shown = len(rows) if name in shown else n_shown
    head = ["Class", "Metric", "Verdict", "Value", "Limit", "Margin", *(["Interval"] if has_intervals else []), "Model"]
    words = (0, 1, 2, len(head) - 1)
    body = table("Limits by class", head, rows[:n_shown], words=words, classes="slo")
    if folded:
        rest = table("Limits of the further classes", head, rows[n_shown:], words=words, classes="slo")
        body += f"<details><summary>{len(folded)} further classes, which hold their limits</summary>{rest}</details>"
    body += _counts(view) + _checks(view)
    return section("Service levels", body, at=anchor(view.name, "slo"), level=view.level)


def _ordered(classes: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The classes that are shown, and those that are folded away: of many, those that hold with the most to spare."""
    names = list(classes)
    if len(names) <= MOST_SHOWN:
        return names, []
    tight = {name: slo.tightest({"classes": {name: classes[name]}, "checks": []}) for name in names}

    def order(name: str) -> tuple[bool, float]:
        found = tight[name]
        margin = float("inf") if found is None else float("-inf") if found.margin_frac is None else found.margin_frac
        return not slo.n_missed(classes[name]), margin

    names.sort(key=order)
    n = max(MOST_SHOWN, sum(1 for name in names if classes[name]["verdict"] != "met"))
    return names[:n], names[n:]


def _checks(view: View) -> str:
    """What has to hold besides: capacity kept free, racks out; each class by its tightest limit."""
    rows = []
    for ix, check in enumerate(view.tree.get("checks", ())):
        for name, figures in check["classes"].items():
            at = ("checks", ix, "classes", name)
            margins = [
                (each["margin_frac"], nr)
                for nr, each in enumerate(figures["limits"])
                if each["margin_frac"] is not None
            ]
            row = [esc(check["label"]), esc(name), "-", "", "", ""]
            if margins:
                nr = min(margins)[1]
                limit, place = figures["limits"][nr], (*at, "limits", nr)
                row[2] = f"{esc(limit['metric'])} {esc(limit['quantile'])}"
                row[3:] = [
                    view.num("time", *place, "value"),
                    view.num("time", *place, "limit"),
                    _margin(view, place, limit["margin_frac"]),
                ]
            rows.append([*row, view.num("share", *at, "attainment_frac"), _mark(figures["verdict"] or "no limits")])
        if not check["classes"]:
            why = esc(check["reason"] or "")
            rows.append([esc(check["label"]), why, "-", "", "", "", "", _mark(check["verdict"] or "unknown")])
    if not rows:
        return ""
    head = ["Has to hold, too", "Class", "Tightest", "Value", "Limit", "Margin", "Attained", "Verdict"]
    return table("What has to hold besides", head, rows, words=(0, 1, 2, 7))


def _attained(view: View, name: str, *, has_intervals: bool) -> list[str]:
    figures, at = view.tree["classes"][name], ("classes", name)
    asked, reached = figures["attainment_limit_frac"], figures["attainment_frac"]
    verdict = ""
    if asked is not None and reached is not None:
        verdict = _mark("met" if reached >= asked else "missed")
    elif not figures["limits"]:
        verdict = "no limits"
    limit = view.num("share", *at, "attainment_limit_frac") if asked is not None else ""
    row = [esc(name), "attained", verdict, view.num("share", *at, "attainment_frac"), limit, ""]
    row += [view.interval("share", *at, "attainment_frac")] if has_intervals else []
    return [*row, esc(figures["model"])]


def _margin(view: View, at: tuple[str | int, ...], margin: float | None) -> str:
    text = view.num("margin", *at, "margin_frac")
    return text if margin is None else f"{text} {'spare' if margin >= 0 else 'over'}"


def _mark(verdict: str) -> str:
    """The verdict as a word; colour only underlines it."""
    return f'<span class="mark {verdict}">{verdict.upper() if verdict == "missed" else verdict}</span>'


def _counts(view: View) -> str:
    requests = view.tree["requests"]
    words = {
        "rejected": "rejected",
        "timed_out": "timed out",
        "cancelled": "cancelled",
        "unfinished": "unfinished",
        "retried": "sent again",
        "lost": "lost to failures on the way",
        "failed_rows": "trace rows refused",
    }
    parts = [f"{view.num('count', 'requests', key)} {words[key]}" for key in words if requests[key]]
    seeds = view.tree["run"]["seeds"]
    over = f", over {view.num('count', 'run', 'seeds')} seeds" if seeds > 1 else ""
    text = (
        f"{view.num('count', 'requests', 'offered')} requests offered, {view.num('count', 'requests', 'completed')} "
        f"completed{''.join(', ' + part for part in parts)}; {view.num('time', 'run', 'length_s')} simulated, measured "
        f"from {view.num('time', 'run', 'warmup_s')} on{over}."
    )
    return f'<p class="note">{text}</p>'
