"""Sections 1, 2 and 4 of the page: the answer, the fleet, the headline figures."""

from __future__ import annotations

from collections.abc import Sequence

from planner.aggregate import slo
from planner.report.page_horizon import sites
from planner.report.page_html import View, anchor, esc, section, table
from planner.report.verdict import Binding, binding, word

__all__ = ["answer", "fleet", "headline"]

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
    question = f'<p class="question">{esc(view.tree["question"])}</p>' if view.tree["question"] else ""
    mark = {"met": "met", "missed": "missed"}.get(view.tree["verdict"] or "", "open")
    lead = f'<p class="verdict {mark}"><strong>{_lead(view)}</strong> {" ".join(sentences(view))}</p>'
    return section("The question and the answer", question + lead, at=anchor(view.name, "answer"), level=view.level)


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
            "for them, or run.length and run.drain are too short. There is no latency and no cost of a token."
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


def fleet(view: View) -> str | None:
    """A row for each pool: racks, what stands on them, how much of the load it takes, how busy it is."""
    whole = view.tree["fleet"]["tokens_per_s_out"]
    rows = []
    for name, pool in view.tree["pools"].items():
        at = ("pools", name)
        part = pool["tokens_per_s_out"] / whole if whole and pool["tokens_per_s_out"] is not None else 0.0
        ix = list(view.look.pools).index(name)
        bar = f'<span class="bar p{ix % 6}" style="width:{part * 100:.1f}%" aria-hidden="true"></span>'
        rows.append(
            [
                view.swatch(name),
                f'<span class="sub">{view.num("count", *at, "racks")} x</span> {esc(pool["rack"])}',
                view.num("count", *at, "chips"),
                view.num("count", *at, "idle_chips"),
                f'{view.num("tokens_per_s", *at, "tokens_per_s_out")}<span class="track">{bar}</span>',
                view.num("share", *at, "busy_frac"),
                view.num("power", *at, "rack_it_w", "mean"),
                view.num("money", *at, "usd_per_h"),
                esc(pool["bottleneck"]),
                _deployments(view, name),
            ]
        )
    head = ["Pool", "Racks", "Chips", "Idle", "Tokens out", "Busy", "IT power", "Cost an hour", "Bound by"]
    body = table("The fleet by pool", [*head, "What stands on it"], rows, words=(0, 1, 8, 9)) + sites(view)
    return section("Fleet", body, at=anchor(view.name, "fleet"), level=view.level)


def _deployments(view: View, pool: str) -> str:
    lines = []
    for ix, each in enumerate(view.tree["pools"][pool]["deployments"]):
        at = ("pools", pool, "deployments", ix)
        degrees = " ".join(
            f"{key}{view.num('count', *at, key)}"
            for key in ("tp", "dp", "pp", "ep")
            if key == "tp" or each.get(key, 1) > 1
        )
        lines.append(
            f"{view.num('count', *at, 'replicas')} x {esc(each['model'])} on {view.num('count', *at, 'chips')} chips "
            f'<span class="sub">{degrees}, {esc(each["precision"])}, {esc(each["engine"])}</span>'
        )
    return f'<div class="wrap">{"<br>".join(lines) or "nothing"}</div>'


def headline(view: View) -> str | None:
    """The figures that a meeting asks for."""
    cards = [
        ("A million output tokens", "USD/Mtok, whole cost", "plain", ("cost", "usd_per_mtok_out_whole")),
        ("A million tokens, in and out", "USD/Mtok, whole cost", "plain", ("cost", "usd_per_mtok_all")),
        ("An hour of the fleet", "cost, used or not", "money", ("cost", "usd_per_h")),
        ("of which idle", "cost an hour of time without a step", "money", ("cost", "idle_usd_per_h")),
        ("Power, mean", "at the meter", "power", ("fleet", "facility_w", "mean")),
        ("Power, peak", "at the meter, highest window", "power", ("fleet", "facility_w", "peak")),
        ("Power, provisioned", "rated racks x PUE", "power", ("fleet", "provisioned_w")),
        ("Energy a token out", "J/token, facility", "plain", ("energy", "j_per_token_out_whole")),
        ("Carbon", "a million output tokens, running and making", "mass_co2", ("carbon", "kgco2e_per_mtok_out_whole")),
        ("Tokens out", "of the whole fleet", "tokens_per_s", ("fleet", "tokens_per_s_out")),
    ]
    parts = []
    for title, unit, kind, path in cards:
        interval = view.interval(kind, *path) if view.has_intervals else ""
        between = f'<dd class="between">{interval}</dd>' if interval and "provisioned" not in title else ""
        parts.append(
            f'<div><dt>{esc(title)}</dt><dd class="big">{view.num(kind, *path)}</dd>'
            f'<dd class="unit">{esc(unit)}</dd>{between}{_over_facts(view, kind, path)}</div>'
        )
    parts.append(_headroom(view))
    assumed = _interval_of(view) + _samples_of(view)
    if view.tree["evidence"]["assumed_frac"] is not None:
        assumed += (
            f'<p class="note">{view.num("share", "evidence", "assumed_frac")} of the swing of this cost is of facts '
            "that are assumed or undisclosed; section Evidence names them.</p>"
        )
    body = f'<dl class="cards">{"".join(parts)}</dl>{assumed}{_by_class(view)}'
    return section("Headline", body, at=anchor(view.name, "headline"), level=view.level)


def _over_facts(view: View, kind: str, path: Sequence[str]) -> str:
    """The interval over the uncertain facts, where the run drew samples of them."""
    found = view.tree.get("uncertainty")
    if not found or ".".join(path) not in found["figures"]:
        return ""
    at = ("uncertainty", "figures", ".".join(path))
    return f'<dd class="between facts">{view.num(kind, *at, "low")} to {view.num(kind, *at, "high")}</dd>'


def _samples_of(view: View) -> str:
    """What the ranges over the facts are."""
    found = view.tree.get("uncertainty")
    if not found:
        return ""
    met = (
        ""
        if found["met_frac"] is None
        else f" All limits hold in {view.num('share', 'uncertainty', 'met_frac')} of them."
    )
    level, n = view.num("frac", "uncertainty", "level_frac"), view.num("count", "uncertainty", "samples")
    return (
        f'<p class="note"><b>Ranges in heavier type</b> hold {level} of {n} samples of everything that is uncertain in '
        f"the facts, each run anew where it changes the speed.{met}</p>"
    )


def _interval_of(view: View) -> str:
    """What the small ranges are over."""
    about = view.tree["interval"]
    if about["over"] is None:
        return ""
    over = f"{view.num('count', 'interval', 'n')} seeds"
    if about["over"] == "batches":
        over = (
            f"{view.num('count', 'interval', 'n')} batches of {view.num('time', 'interval', 'batch_s')} of the one run"
        )
    level = view.num("frac", "interval", "level_frac")
    return f'<p class="note">Ranges are {level} intervals of the noise alone, over {over}.</p>'


def _by_class(view: View) -> str:
    """Whose cost it is."""
    rows = []
    for name in view.tree["classes"]:
        at = ("classes", name)
        rows.append(
            [
                esc(name),
                view.num("rate", *at, "rate_req_per_s"),
                view.num("rate", *at, "goodput_req_per_s"),
                view.num("money", *at, "usd_per_h"),
                view.num("plain", *at, "usd_per_mtok_out_whole"),
                view.num("plain", *at, "usd_per_mtok_all"),
                view.num("plain", *at, "usd_per_request"),
                view.num("plain", *at, "usd_per_task"),
            ]
        )
    head = ["Class", "Offered", "Inside limits", "Cost an hour", "USD/Mtok out", "USD/Mtok all", "USD a request"]
    return table("Cost by class", [*head, "USD a task"], rows)


def _headroom(view: View) -> str:
    """How many times the load still fits, where `planner headroom` found it."""
    found = view.tree.get("headroom")
    if not found:
        return ""
    if found["multiplier"] is None:
        value, unit = "no end", "times this load: nothing broke, however much was tried"
    else:
        value, unit = view.num("plain", "headroom", "multiplier"), "times this load still fits"
    parts = [f'<div><dt>Room for more</dt><dd class="big">{value}</dd><dd class="unit">{esc(unit)}</dd>']
    if found["low"] is not None and found["high"] is not None:
        low, high = (view.num("plain", "headroom", side) for side in ("low", "high"))
        parts.append(f'<dd class="between">{low} to {high}</dd>')
    if found["breaks"]:
        breaks = found["breaks"]
        what = f"{breaks['class']} {breaks['metric']} {breaks['quantile'] or ''}".rstrip()
        parts.append(f'<dd class="between">then {esc(what)} breaks</dd>')
    return "".join(parts) + "</div>"
