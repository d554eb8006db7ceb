"""Section 2 of the page: the fleet."""

from __future__ import annotations

from planner.report.page_horizon import sites
from planner.report.page_html import View, anchor, esc, section, table

__all__ = ["fleet"]


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
            f"{view.num('count', *at, 'replicas')} x {esc(each['model'])} on {view.num('count', *at, 'chips')} "
            f"chip{'s' * (each['chips'] != 1)} "
            f'<span class="sub">{degrees}, {esc(each["precision"])}, {esc(each["engine"])}</span>'
        )
    return f'<div class="wrap">{"<br>".join(lines) or "nothing"}</div>'
