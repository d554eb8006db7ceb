"""What it costs, what it draws and how sure that is: in a sentence below the answer, and section 4 of the page."""

from __future__ import annotations

from collections.abc import Sequence

from planner.report.figures.series import rows_of
from planner.report.page_html import View, anchor, esc, fact_number, section, table

__all__ = ["headline", "price"]

_TOKEN_COST = ("cost", "usd_per_mtok_out_whole")


def price(view: View, lead: str = "It costs") -> str:
    """What it costs, what it draws, and how sure that is; `lead` is HTML."""
    if not view.tree["requests"]["completed"]:
        return ""
    said = (
        f"{lead} {view.num('plain', *_TOKEN_COST)} USD a million output tokens{_between(view)}, "
        f"{view.num('money', 'cost', 'usd_per_h')} an hour, and draws "
        f"{view.num('power', 'fleet', 'facility_w', 'mean')} at the meter."
    )
    if view.tree["evidence"]["assumed_frac"] is not None:
        said += (
            f" {view.num('share', 'evidence', 'assumed_frac')} of the swing of this cost is of facts that are assumed "
            f"or undisclosed{_widest(view)}."
        )
    return f'<p class="price">{said}</p>'


def _between(view: View) -> str:
    """The interval over what is uncertain in the facts, else that of the noise alone."""
    found = view.tree.get("uncertainty")
    name = ".".join(_TOKEN_COST)
    if found and name in found["figures"]:
        low, high = (view.num("plain", "uncertainty", "figures", name, side) for side in ("low", "high"))
        return f" ({low} to {high} over what is uncertain in the facts)"
    noise = view.interval("plain", *_TOKEN_COST) if view.has_intervals else ""
    return f" ({noise} by the noise of the run alone)" if noise else ""


def _widest(view: View) -> str:
    """The fact that moves the cost most."""
    seed = view.tree["run"]["seed"]
    rows = [row for row in rows_of(view.result, "facts", view.name) if row["seed"] == seed and row["swing_usd_per_h"]]
    if not rows:
        return ""
    widest = max(rows, key=lambda row: row["swing_usd_per_h"])
    ends = " to ".join(fact_number(widest, end) for end in ("low", "high"))
    return f"; it hangs most on <b>{esc(widest['path'])}</b>, {ends}"


def headline(view: View) -> str | None:
    """The figures that a meeting asks for."""
    cards = [
        ("A million output tokens", "USD/Mtok, whole cost", "plain", _TOKEN_COST),
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
    ranges = _interval_of(view) + _samples_of(view)
    body = f'<dl class="cards">{"".join(parts)}</dl>{ranges}{_by_class(view)}'
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
