"""A result as lines of text: whether the limits hold, how busy each pool is, what power and tokens cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner import units
from planner.aggregate import slo
from planner.words import Cells, plain, table, width

if TYPE_CHECKING:
    from planner.aggregate.result import Result

Tree = Mapping[str, Any]

MOST_PAIRS = 4
"""Limits that are shown side by side; more get a line each."""
_ONE_BY_ONE = ("class", "limit", "value", "at most", "to spare", "")
_WORDS: Mapping[str | None, str] = {"met": "met", "missed": "MISSED", "unknown": "unknown", None: "no limits"}
_SHOWN_WITHOUT_LIMITS = (("ttft", "p95"), ("tpot", "p95"))


def run_report(result: Result, *, wall_s: float | None = None) -> str:
    """What a run found, a block a variant, and the variants side by side where there are several."""
    trees = list(result.variants.values())
    is_named = len(trees) > 1 or trees[0]["scenario"] != "base"
    blocks = [_variant(tree, is_named=is_named, wall_s=wall_s if tree is trees[0] else None) for tree in trees]
    if len(trees) > 1:
        blocks.append(_side_by_side(trees))
    return "\n\n".join("\n".join(block) for block in blocks)


def _variant(tree: Tree, *, is_named: bool, wall_s: float | None) -> list[str]:
    classes, pools = tree["classes"], tree["pools"]
    return [
        *_head(tree, is_named=is_named, wall_s=wall_s),
        *_class_lines(classes),
        *_checks(tree["checks"]),
        *_lost(tree["requests"]),
        *table(_pool_rows(pools), left=(0, 6)),
        *_deployments(pools),
        *_sites(tree["sites"]),
        *_headline(tree),
        *_horizon(tree["horizon"]),
    ]


def _head(tree: Tree, *, is_named: bool, wall_s: float | None) -> list[str]:
    run = tree["run"]
    simulated = f"{units.format(run['length_s'], 'time')} simulated"
    parts = [simulated if wall_s is None else f"{simulated} in {units.format(wall_s, 'time')}"]
    if run["seeds"] > 1:
        parts.append(f"{run['seeds']} seeds")
    parts.append(_several(tree["requests"]["offered"], "request"))
    title = plain(f"{tree['title']} [{tree['scenario']}]" if is_named else tree["title"])
    return [f"{title}{' ' * max(3, 56 - width(title))}{', '.join(parts)}"]


def _several(n: int, what: str) -> str:
    return f"{_count(n)} {what}{'s' * (n != 1)}"


def _class_lines(classes: Mapping[str, Tree]) -> list[str]:
    """Value beside limit for each class, or a line a limit where there are many kinds."""
    pairs = list(dict.fromkeys(_pair(limit) for figures in classes.values() for limit in figures["limits"]))
    if len(pairs) > MOST_PAIRS:
        rows = [_ONE_BY_ONE, *(row for name, figures in classes.items() for row in _limit_rows(name, figures))]
        return [*table(rows, left=(0, 1, 5)), *table(_class_rows(classes, []), left=(0, 2))]
    return table(_class_rows(classes, pairs or list(_SHOWN_WITHOUT_LIMITS)), left=(0, 2 * len(pairs or "12") + 2))


def _pair(limit: Tree) -> tuple[str, str]:
    return limit["metric"], limit["quantile"]


def _class_rows(classes: Mapping[str, Tree], pairs: Sequence[tuple[str, str]]) -> list[Cells]:
    head = ["class", *(word for metric, quantile in pairs for word in (f"{metric} {quantile}", "limit"))]
    rows: list[Cells] = [[*head, "attained", "verdict"]]
    for name, figures in classes.items():
        limits = {_pair(limit): limit for limit in figures["limits"]}
        cells = [name]
        for pair in pairs:
            limit = limits.get(pair)
            value = limit["value"] if limit else figures[f"{pair[0]}_s"][pair[1]]
            cells += [units.format(value, "time"), units.format(limit["limit"] if limit else None, "time")]
        rows.append([*cells, _share(figures["attainment_frac"]), _verdict(figures)])
    return rows


def _limit_rows(name: str, figures: Tree) -> list[Cells]:
    return [
        [
            name,
            " ".join(_pair(limit)),
            units.format(limit["value"], "time"),
            units.format(limit["limit"], "time"),
            _share(limit["margin_frac"]),
            {True: "met", False: "MISSED", None: "unknown"}[limit["met"]],
        ]
        for limit in figures["limits"]
    ]


def _verdict(figures: Tree) -> str:
    """The verdict in words, with the tightest margin or everything that was missed."""
    word = figures["verdict"]
    if word is None:
        return "no limits"
    if word == "unknown":
        return "unknown, nothing was offered"
    missed = [_missed(limit) for limit in figures["limits"] if limit["met"] is False]
    asked, reached = figures["attainment_limit_frac"], figures["attainment_frac"]
    if asked is not None and reached is not None and reached < asked:
        missed.append(f"attainment of {_share(asked)}")
    if missed:
        return f"MISSED {', '.join(missed)}"
    margins = [
        (limit["margin_frac"], limit["metric"]) for limit in figures["limits"] if limit["margin_frac"] is not None
    ]
    if not margins:
        return "met"
    spare, metric = min(margins)
    return f"met, {percent(spare)} to spare on {metric}"


def _checks(checks: Sequence[Tree]) -> list[str]:
    """What has to hold besides: capacity kept free, and the worst of the racks out."""
    lines = []
    for kind, head in (("spare", "with"), ("rack", "worst rack out:"), ("site", "worst site out:")):
        mine = [check for check in checks if check["kind"] == kind]
        if not mine:
            continue
        worst = min(mine, key=_margin)
        about = f"  {head} {worst['label']}: "
        if worst["reason"]:
            lines.append(plain(f"{about}MISSED, {worst['reason']}"))
        for name, figures in worst["classes"].items():
            attained = _share(figures["attainment_frac"])
            lines.append(plain(f"{about}{name} {_verdict(figures)}, {attained} attained"))
    return lines


def _margin(check: Tree) -> float:
    """How near a check is to being missed, or how far beyond."""
    tight = slo.tightest({"classes": check["classes"], "checks": [check] if check["reason"] else []})
    return float("inf") if tight is None else float("-inf") if tight.margin_frac is None else tight.margin_frac


def _missed(limit: Tree) -> str:
    if limit["margin_frac"] is None:
        return f"{limit['metric']} (its {limit['quantile']} was never reached)"
    return f"{limit['metric']} by {percent(-limit['margin_frac'])}"


def _lost(requests: Tree) -> list[str]:
    """Requests that did not complete, where there are any."""
    words = {
        "rejected": "rejected",
        "timed_out": "timed out",
        "cancelled": "cancelled",
        "unfinished": "unfinished",
    }
    lost = [f"{_count(requests[key])} {word}" for key, word in words.items() if requests[key]]
    if requests["retried"]:
        lost.append(f"{_count(requests['retried'])} sent again")
    if requests["lost"]:
        lost.append(f"{_count(requests['lost'])} lost to failures on the way")
    if requests["failed_rows"]:
        lost.append(f"{_count(requests['failed_rows'])} trace rows refused")
    return [f"  {_count(requests['completed'])} completed, {', '.join(lost)}"] if lost else []


def _pool_rows(pools: Mapping[str, Tree]) -> list[Cells]:
    rows: list[Cells] = [["pool", "racks", "busy", "it power", "cost/h", "tokens out", "bottleneck"]]
    for name, pool in pools.items():
        rows.append(
            [
                name,
                f"{pool['racks']:g}",
                _share(pool["busy_frac"]),
                units.format(pool["rack_it_w"]["mean"], "power"),
                units.format(pool["usd_per_h"], "money"),
                units.format(pool["tokens_per_s_out"], "tokens_per_s"),
                pool["bottleneck"],
            ]
        )
    return rows


def _deployments(pools: Mapping[str, Tree]) -> list[str]:
    lines = []
    for name, pool in pools.items():
        for each in pool["deployments"]:
            degrees = [f"tp{each['tp']}", *(f"{key}{each[key]}" for key in ("dp", "pp", "ep") if each.get(key, 1) > 1)]
            drafts = f", {each['tokens_per_step']:.4g} tokens a step by drafts" if each["tokens_per_step"] != 1 else ""
            lines.append(
                f"  {name}: {each['replicas']} x {each['model']} on {_several(each['chips'], 'chip')} "
                f"({' '.join(degrees)}), {each['precision']}, engine {each['engine']}{drafts}"
            )
        if pool["idle_chips"]:
            lines.append(f"  {name}: {_several(pool['idle_chips'], 'chip')} idle, billed and powered")
    return [plain(line) for line in lines]


def _sites(sites: Mapping[str, Tree]) -> list[str]:
    """A row a site where there are several."""
    if len(sites) < 2:
        return []
    rows: list[Cells] = [["site", "racks", "it power", "at the meter", "provisioned", "limit", "energy/h", "kgCO2e"]]
    for name, site in sites.items():
        rows.append(
            [
                name,
                f"{site['racks']:g}",
                units.format(site["rack_it_w"]["mean"], "power"),
                units.format(site["facility_w"]["mean"], "power"),
                units.format(site["provisioned_w"], "power"),
                units.format(site["power_limit_w"], "power"),
                units.format(site["energy_usd_per_h"], "money"),
                figure(site["operational_kgco2e"]),
            ]
        )
    return table(rows, left=(0,))


def _horizon(horizon: Tree | None) -> list[str]:
    """The hours of a horizon: how many hold, what they cost, and how far the surfaces are off."""
    if horizon is None:
        return []
    lines = [f"over {horizon['hours']:,} hours, on response surfaces:"]
    for name, figures in horizon["classes"].items():
        met = "no limits" if figures["hours_met"] is None else f"{figures['hours_met']:,} hours met"
        missed = f", {figures['hours_missed']:,} MISSED" if figures["hours_missed"] else ""
        rates = f"{figure(figures['mean_req_per_s'])} req/s mean, {figure(figures['peak_req_per_s'])} in the peak hour"
        lines.append(plain(f"  {name}: {met}{missed}; {rates}"))
    for one in horizon["beyond"]:
        lines.append(plain(f"  {one['pool']}: {one['hours']:,} hours are beyond the last sample and have no figures"))
    fleet, checked = horizon["fleet"], horizon["checked"]
    loads = ", ".join(
        f"{name} {_share(pool['peak_load_frac'])} of what it holds in the peak hour"
        for name, pool in horizon["pools"].items()
        if pool["peak_load_frac"] is not None
    )
    lines.append(plain(f"  {loads}"))
    lines.append(
        f"  {units.format(fleet['usd'], 'money')}, {fleet['facility_kwh'] / 1000:,.4g} MWh at the meter, "
        f"{fleet['operational_kgco2e'] / 1000:,.4g} tCO2e of electricity, "
        f"{figure(fleet['usd_per_mtok_out_whole'])} USD/Mtok out"
    )
    for off in checked["differences"]:
        lines.append(
            plain(
                f"  simulated over surface, {checked['hours']} hours: {off['class']} {off['metric']} {off['quantile']} "
                f"{_signed(off['median_frac'])} (median), {_signed(off['worst_frac'])} at most"
            )
        )
    if checked["verdicts_differ"]:
        lines.append(f"  in {checked['verdicts_differ']} of those hours the simulation says otherwise than the surface")
    return lines


def _signed(frac: float) -> str:
    return f"{frac * 100:+.0f} %"


def _headline(tree: Tree) -> list[str]:
    cost, energy = tree["cost"], tree["energy"]
    by = cost["allocation"].replace("-", " ")
    lines = [
        "   ".join(
            [
                f"{figure(cost['usd_per_mtok_out_whole'])} USD/Mtok out (whole cost)",
                f"{figure(energy['j_per_token_out_whole'])} J/token out (whole, facility)",
                f"{units.format(tree['carbon']['kgco2e_per_mtok_out_whole'], 'mass_co2')}/Mtok out",
            ]
        ),
        f"{figure(cost['usd_per_mtok_in'])} USD/Mtok in, {figure(cost['usd_per_mtok_out'])} out (by {by}), "
        f"{figure(cost['usd_per_mtok_all'])} all   {units.format(cost['usd_per_h'], 'money')}/h, of which "
        f"{units.format(cost['idle_usd_per_h'], 'money')} for idle time",
        f"{units.format(tree['fleet']['facility_w']['mean'], 'power')} mean, "
        f"{units.format(tree['fleet']['facility_w']['peak'], 'power')} peak at the meter, "
        f"{units.format(tree['fleet']['provisioned_w'], 'power')} provisioned",
    ]
    assumed = tree["evidence"]["assumed_frac"]
    if assumed is not None:
        lines.append(f"{percent(assumed)} of the cost's swing is from assumed facts")
    lines += _interval(tree)
    lines += _uncertain(tree["uncertainty"])
    if cost["left_out"]:
        lines.append(f"left out of the cost: {', '.join(cost['left_out'])}")
    if tree["carbon"]["left_out"]:
        lines.append(f"left out of the carbon: {plain(', '.join(tree['carbon']['left_out']))}")
    return lines


def _interval(tree: Tree) -> list[str]:
    """The interval of the cost of a token, and what it is taken over."""
    about, low, high = tree["interval"], tree["low"]["cost"], tree["high"]["cost"]
    ends = [side["usd_per_mtok_out_whole"] for side in (low, high)]
    if about["over"] is None or None in ends:
        return []
    over = f"{about['n']} seeds"
    if about["over"] == "batches":
        over = f"{about['n']} batches of {units.format(about['batch_s'], 'time')} of the one run"
    level = f"{about['level_frac'] * 100:.0f} %"
    return [f"{level} interval, noise alone: {figure(ends[0])} to {figure(ends[1])} USD/Mtok out (over {over})"]


def _uncertain(found: Tree | None) -> list[str]:
    """What the samples of the uncertain facts say, where they were drawn."""
    if found is None:
        return []
    shown = (
        ("cost.usd_per_mtok_out_whole", "USD/Mtok out", 1),
        ("energy.j_per_token_out_whole", "J/token out", 1),
        ("carbon.kgco2e_per_mtok_out_whole", "gCO2e/Mtok out", 1000),
    )
    ends = [
        f"{figure(each['low'] * factor)}..{figure(each['high'] * factor)} {unit}"
        for path, unit, factor in shown
        if (each := found["figures"][path])["low"] is not None
    ]
    line = f"limits hold in {_share(found['met_frac'])} of {found['samples']} samples of the uncertain facts"
    if found["infeasible"]:
        line += f", {found['infeasible']} of them with chips that do not hold the replicas"
    return [line, *([f"  {percent(found['level_frac'])} of them inside {', '.join(ends)}"] if ends else [])]


def _side_by_side(trees: Sequence[Tree]) -> list[str]:
    rows: list[Cells] = [["variant", "verdict", "cost/h", "USD/Mtok out", "J/token out", "gCO2e/Mtok out", "facility"]]
    for tree in trees:
        rows.append(
            [
                tree["scenario"],
                _WORDS[tree["verdict"]],
                units.format(tree["cost"]["usd_per_h"], "money"),
                figure(tree["cost"]["usd_per_mtok_out_whole"]),
                figure(tree["energy"]["j_per_token_out_whole"]),
                figure(_times(tree["carbon"]["kgco2e_per_mtok_out_whole"], 1000)),
                units.format(tree["fleet"]["facility_w"]["mean"], "power"),
            ]
        )
    return ["Side by side (whole cost, energy and carbon over output tokens)", *table(rows, left=(0, 1))]


# -- cells -------------------------------------------------------------------------------------------------------------


def figure(value: float | None) -> str:
    """Three significant figures; `-` for None."""
    return "-" if value is None else units.figures(value)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _share(value: float | None) -> str:
    """A share; one that is not the whole never looks like it, so that a missed 99.99 % is seen."""
    if value is None or not 0.9995 <= value < 1:
        return units.format(value, "frac")
    percents = (f"{value * 100:.{digits}f} %" for digits in range(2, 16))
    return next((text for text in percents if not text.startswith("100")), "just below 100 %")


def percent(frac: float) -> str:
    """A margin: two figures are enough."""
    return f"{frac * 100:.0f} %" if abs(frac) >= 0.1 else f"{frac * 100:.1f} %"


def _count(value: float) -> str:
    """A number of requests: whole up to six digits, then with a prefix."""
    return f"{value:,.0f}" if value < 1_000_000 else units.format(value, "tokens").removesuffix("tok")
