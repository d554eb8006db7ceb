"""A scenario written out for the search: pools that are shared out over sites one by one, `deploy: any` as a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.errors import Fault, Infeasible
from planner.facts import catalog
from planner.fleet.layout import domains_of, entry_wish, rack_and_chip
from planner.scenario.load import rebuilt
from planner.scenario.sites import place_of, written
from planner.study.run import mean_lengths

if TYPE_CHECKING:
    from planner.scenario import Scenario
    from planner.scenario.tree import Steps

OFFERED = 2
"""Sizes of a replica that are offered of a model: those with most output tokens per second and chip."""


def written_out(scenario: Scenario) -> Scenario:
    """The scenario with every pool at one site, and every `deploy` a list.

    Raises:
        Infeasible: no model of the traffic fits a domain of racks that leave their deployments open.
    """
    return with_menus(_with_pools_at_sites(scenario))


def _with_pools_at_sites(scenario: Scenario) -> Scenario:
    """Sites with shares as sites with pools: what stands at each of them under a name of its own, `POOL@SITE`."""
    shared = [name for name, site in scenario.sites.items() if site.share_frac is not None]
    plain = scenario.resolved()["fleet"]["pools"]
    parts = {own: written(own, scenario.sites) for own in scenario.fleet.pools if own not in plain}
    if not shared:
        return scenario
    changes: dict[Steps, Any] = {("fleet", "pools", name): None for name in dict.fromkeys(parts.values())}
    for own, name in parts.items():
        pool = scenario.fleet.pools[own]
        made = {**plain[name], "count": pool.count}
        if pool.existing or "existing" in made:
            made["existing"] = pool.existing
        if isinstance(made["deploy"], list):
            made["deploy"] = [
                {**entry, "decode_pool": laid.decode_pool} if "decode_pool" in entry else entry
                for entry, laid in zip(made["deploy"], pool.deploy, strict=True)
            ]
        changes["fleet", "pools", own] = made
    for cls, route in scenario.fleet.routes.items():
        changes["fleet", "routes", cls] = list(route)
    for name in shared:
        changes["sites", name, "share"] = None
        changes["sites", name, "pools"] = [own for own in parts if place_of(own, scenario.sites) == name]
    return rebuilt(scenario, changes, name=scenario.name)


def with_menus(scenario: Scenario) -> Scenario:
    """The scenario with every `deploy: any` as a list.

    For each model those sizes of a replica (1, 2, 4, ... chips) that fit memory and hold the tightest TPOT limit, and
    of them the two with most tokens per second and chip by the closed step model.

    Raises:
        Infeasible: no model of the traffic fits a domain of such racks.
    """
    plain = scenario.resolved()["fleet"]["pools"]
    changes: dict[Steps, Any] = {}
    for name, pool in plain.items():
        if pool["deploy"] == "any":
            changes["fleet", "pools", name, "deploy"] = _menu(scenario, name)
    if not changes:
        return scenario
    return rebuilt(scenario, changes, name=scenario.name)


def _menu(scenario: Scenario, name: str) -> list[dict[str, Any]]:
    from planner.model.choose import choose
    from planner.scenario.schema import Deploy

    pool = scenario.fleet.pools[name]
    rack, chip = rack_and_chip(pool, scenario.base_dir)
    facts, lengths = catalog.load(), mean_lengths(scenario)
    most = max(domains_of(rack, chip))
    sizes = [2**n for n in range(10) if 2**n <= most]
    menu: list[dict[str, Any]] = []
    for model_name in dict.fromkeys(cls.model for cls in scenario.traffic.values()):
        model = facts.model(model_name, base=scenario.base_dir)
        engine = facts.engine(chip.engine, base=scenario.base_dir)
        found: list[tuple[bool, float, int]] = []
        for chips in sizes:
            entry = Deploy.model_validate({"model": model_name, "chips": str(chips)})
            try:
                choice = choose(chip, model, engine, facts.serving(), entry_wish(scenario, entry, lengths))
            except Infeasible:
                continue
            found.append((choice.is_inside, choice.tokens_per_s / chips, chips))
        best = sorted(found, key=lambda one: (not one[0], -one[1], one[2]))[:OFFERED]
        menu += [{"model": model_name, "chips": chips} for _, _, chips in sorted(best, key=lambda one: -one[2])]
    if not menu:
        what = f"no model of the traffic fits the {most}-chip domain of {rack.name}"
        raise Infeasible(Fault(what, "take the pool away", path=f"fleet.pools.{name}.deploy"))
    return menu
