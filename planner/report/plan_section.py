"""The plan on the page: what is bought when, the fleet against demand, where the money goes, what a limit is worth.

Built from `Result.plan` alone. The purchase schedule is one drawing, in plain SVG: a row a pool, a bar for what stands
in each period, what is bought written in it; everything else is tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner import units
from planner.report.figures import registry
from planner.report.page_headline import price
from planner.report.page_html import View, esc, section
from planner.report.page_html import table as bare_table
from planner.report.plan_text import fixed_racks, gap

if TYPE_CHECKING:
    from planner.aggregate.result import Result
    from planner.report.figures.style import Look

_WIDTH, _LEFT, _ROW, _TOP = 720.0, 110.0, 48.0, 22.0
_MOST_LETTERS = 16
_COLOURS = 6


def plan(result: Result) -> str | None:
    """The section of a plan; None for a result that is none."""
    found = result.plan
    if found is None:
        return None
    mark = "met" if found["verified"] else "missed"
    look = registry.look_of(result)
    shown = View(result, found["shown"], result.variants[found["shown"]], look)
    lead = f"At {esc(found['shown'])} it costs"
    parts = [
        f'<p class="verdict {mark}"><strong>{esc(order(found))}</strong> {esc(answer(found))}</p>{price(shown, lead)}',
        _schedule(found, look),
        _demand(found),
        _money(found),
        _fixed(found),
        _worth(found),
        _uncertainty(found),
    ]
    return section("What to buy", "".join(part for part in parts if part), at="plan")


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[int]) -> str:
    """A table below its title."""
    return f'<h3 class="part">{esc(title)}</h3>{bare_table(title, heads, rows, words=words)}'


def _usd(value: float | None) -> str:
    return units.format(value, "money")


def order(found: Mapping[str, Any]) -> str:
    """What to order, in a sentence."""
    orders = []
    for period in found["periods"]:
        racks = " and ".join(f"{n} {name}" for name, n in period["buy"].items() if n)
        if racks:
            orders.append(racks if len(found["periods"]) == 1 else f"{racks} for {period['name']}")
    return f"Order {', '.join(orders)}." if orders else "Order nothing."


def answer(found: Mapping[str, Any]) -> str:
    proof = "verified by simulation" if found["verified"] else "NOT verified: a limit is missed in the simulation"
    if found["stopped"]:
        proof += "; the search was stopped early"
    left = ", and cheaper ones may be left (goal.tries)" if found["cheaper_left"] else ""
    cost = f"{_usd(found['tco_usd'])} discounted over {found['horizon_years']:g} years"
    proven = gap(found)
    n = found["cheaper_tried"]
    return (
        f"{cost}, {_usd(found['capex_usd'])} of cash at order, {proof}. {proven[0].upper()}{proven[1:]}; "
        f"{n} cheaper {'plan was' if n == 1 else 'plans were'} simulated beyond them{left}. Dearest to meet: "
        f"{found['shown']}."
    )


# -- the purchase schedule ---------------------------------------------------------------------------------------------


def _schedule(found: Mapping[str, Any], look: Look) -> str:
    periods = found["periods"]
    pools = [name for name in periods[0]["fleet"] if any(period["fleet"][name] for period in periods)]
    colours = {name: ix for ix, name in enumerate(dict.fromkeys([*look.pools, *periods[0]["fleet"]]))}
    end = found["horizon_years"]
    scale = (_WIDTH - _LEFT - 4) / end
    height = _TOP + _ROW * len(pools) + 6
    most = max((period["fleet"][name] for period in periods for name in pools), default=1) or 1
    shapes = []
    for period in periods:
        x, width = _LEFT + period["start_years"] * scale, period["years"] * scale
        label = esc(period["name"])
        shapes.append(f'<text x="{x + 3:.1f}" y="14" class="soft">{label}</text>')
        shapes.append(f'<line x1="{x:.1f}" y1="20" x2="{x:.1f}" y2="{height:.1f}" class="grid"/>')
        for row, name in enumerate(pools):
            n, bought = period["fleet"][name], period["buy"][name]
            if not n:
                continue
            tall = (_ROW - 18) * n / most
            y = _TOP + _ROW * (row + 1) - tall - 2
            words = f"{n}" + (f" (+{bought})" if bought else "")
            shapes.append(
                f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{max(1.0, width - 2):.1f}" height="{tall:.1f}" '
                f'class="stands k{colours[name] % _COLOURS}"><title>{esc(name)}, {label}: {esc(words)} racks</title>'
                f'</rect><text x="{x + 4:.1f}" y="{y - 4:.1f}">{words}</text>'
            )
    for row, name in enumerate(pools):
        y = _TOP + _ROW * (row + 1) - 6
        shapes.append(f'<text x="{_LEFT - 8:.0f}" y="{y:.1f}" text-anchor="end" class="soft">{esc(_cut(name))}</text>')
    rows = [
        [
            esc(period["name"]),
            esc(period["start"] or f"year {period['start_years']:g}"),
            esc(", ".join(f"{n} {name}" for name, n in period["buy"].items() if n) or "nothing"),
            esc(", ".join(f"{n} {name}" for name, n in period["fleet"].items() if n)),
            _usd(period["capex_usd"]),
            units.format(period["power_w"]["provisioned"], "power"),
            units.format(period["power_w"]["mean"], "power"),
        ]
        for period in periods
    ]
    heads = ["Period", "From", "Buy", "Racks that stand", "Cash", "Provisioned", "Mean draw"]
    words = "Racks that stand in each period by pool, and how many of them are bought"
    box = f'viewBox="0 0 {_WIDTH:.0f} {height:.0f}"'
    svg = f'<svg class="plan" role="img" aria-label="{words}" {box}>{"".join(shapes)}</svg>'
    box = f'<div class="scroll" role="region" tabindex="0" aria-label="{words}">{svg}</div>'
    return f"<figure>{box}<figcaption>{words} (+ in brackets).</figcaption></figure>" + table(
        "Purchases by period", heads, rows, words=(0, 1, 2, 3)
    )


# -- tables ------------------------------------------------------------------------------------------------------------


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}\u2026"


def _demand(found: Mapping[str, Any]) -> str:
    rows = []
    for period in found["periods"]:
        for name, peak in period["demand_req_per_s"]["peak"].items():
            capacity = period["capacity_req_per_s"].get(name)
            rows.append(
                [
                    esc(period["name"]),
                    esc(name),
                    units.format(peak, "rate"),
                    "-" if capacity is None else units.format(capacity, "rate"),
                    "-" if capacity is None else units.format(peak / capacity, "frac"),
                    esc(", ".join(f"{way} {share * 100:.4g} %" for way, share in period["shares"][name].items())),
                ]
            )
    heads = ["Period", "Class", "Demand at the peak", "The fleet holds", "Load", "Where it runs"]
    return table("The fleet against demand", heads, rows, words=(0, 1, 5))


def _money(found: Mapping[str, Any]) -> str:
    sums: dict[str, float] = {}
    for period in found["periods"]:
        worth = period["tco_usd"] / period["usd_per_year"] if period["usd_per_year"] else 0.0
        for part, usd in period["parts_usd_per_year"].items():
            if usd:
                sums[part] = sums.get(part, 0.0) + usd * worth
    whole = sum(sums.values())
    rows = []
    so_far = 0.0
    for part, usd in sorted(sums.items(), key=lambda item: -item[1]):
        start, width = 100 * so_far / whole, 100 * usd / whole
        bar = (
            f'<svg viewBox="0 0 100 8" width="160" height="10" aria-hidden="true"><rect x="{start:.2f}" y="0" '
            f'width="{width:.2f}" height="8" class="whole"/></svg>'
        )
        rows.append([esc(part), _usd(usd), units.format(usd / whole, "frac"), bar])
        so_far += usd
    rows.append(["all", _usd(whole), "100 %", ""])
    return table("Where the discounted cost goes", ["Part", "Cost", "Share", "From first to last"], rows, words=(0, 3))


def _fixed(found: Mapping[str, Any]) -> str:
    if "fixed_fleets" not in found:
        return ""
    rows = [["the plan", _usd(found["tco_usd"]), "", ""]]
    for name, usd in found["fixed_fleets"].items():
        racks = fixed_racks(found, name)
        more = "" if usd is None else f"{(usd / found['tco_usd'] - 1) * 100:+.1f} %"
        rows.append([esc(name), _usd(usd), more, esc(found["fixed_reasons"].get(name, racks))])
    for up in found.get("runner_ups", []):
        racks = ", ".join(f"{n} {pool}" for pool, n in up["racks"].items())
        rows.append(["runner-up", "", f"{up['more_frac'] * 100:+.2f} %", esc(f"{racks} (by the surfaces)")])
    return table("Against other fleets", ["Fleet", "Cost", "More", "What it is"], rows, words=(0, 3))


def _worth(found: Mapping[str, Any]) -> str:
    rows = []
    for one in found.get("binding", []):
        less = "no plan" if one["one_less"] is None else _signed(one["one_less"])
        dual = one["lp_dual_per_unit"]
        rows.append(
            [
                esc(one["limit"]),
                esc(one["unit"]),
                "-" if one["one_more"] is None else _signed(one["one_more"]),
                less,
                "-" if dual is None else _signed(dual),
            ]
        )
    if not rows:
        return ""
    heads = ["Limit", "Unit", "One more", "One less", "If racks came in parts"]
    return table("What a unit more or less of each limit changes", heads, rows, words=(0, 1))


def _signed(usd: float) -> str:
    return f"{'+' if usd > 0 else '-' if usd < 0 else ''}{_usd(abs(usd))}"


def _uncertainty(found: Mapping[str, Any]) -> str:
    under = found.get("uncertainty")
    if not under or not under["regret"]:
        return ""
    rows = [
        [esc(one["name"]), _usd(one["expected_usd"]), _usd(one["cvar_usd"]), _usd(one["worst_regret_usd"])]
        for one in under["regret"]
    ]
    level = f"{under['cvar_level_frac'] * 100:g} %"
    heads = ["Bought at the start", "Expected cost", f"Mean of the worst {level}", "Greatest regret"]
    text = (
        f"{under['samples']} samples of the uncertain facts; in {under['impossible_frac'] * 100:.0f} % of them nothing "
        "serves every class. Knowing all of them before ordering is worth "
        f"{_usd(under['perfect_information_usd'])}. Chosen: {under['chosen']}; under as many other samples it costs "
        f"{_signed(under['optimism_gap_usd'])} against those that chose it."
    )
    return f"<p>{esc(text)}</p>" + table("Regret under uncertain facts", heads, rows, words=(0,))
