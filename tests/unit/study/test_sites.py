"""Several sites: pools stand where they are said to, every site pays its own price, and the sites sum to the fleet."""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner import load, run
from planner.errors import Infeasible, ScenarioError
from planner.study.headroom import headroom
from tests.smalls import at_sites

BY_POOL = """sites:
  east: {pools: [a], power_price: 0.10 USD/kWh, carbon: 400 gCO2e/kWh, pue: 1.5}
  west: {pools: [b], power_price: 0.02 USD/kWh, carbon: 20 gCO2e/kWh, pue: 1.1}"""
ONE = "site: {power_price: 0.10 USD/kWh, carbon: 400 gCO2e/kWh, pue: 1.5}"
ALIKE = """sites:
  east: {pools: [a], power_price: 0.10 USD/kWh, carbon: 400 gCO2e/kWh, pue: 1.5}
  west: {pools: [b], power_price: 0.10 USD/kWh, carbon: 400 gCO2e/kWh, pue: 1.5}"""


def figures(sites: str, *sets: str) -> dict[str, Any]:
    return run(load("-", stdin_text=at_sites(sites), sets=sets)).to_json()


def test_the_sites_sum_to_the_fleet() -> None:
    for sites in (BY_POOL, ONE):
        tree = figures(sites)
        rows = list(tree["sites"].values())
        for figure, (section, key) in {
            "racks": ("fleet", "racks"),
            "provisioned_w": ("fleet", "provisioned_w"),
            "it_kwh": ("energy", "it_kwh"),
            "facility_kwh": ("energy", "facility_kwh"),
            "operational_kgco2e": ("carbon", "operational_kgco2e"),
            "usd_per_h": ("cost", "usd_per_h"),
        }.items():
            assert math.fsum(row[figure] for row in rows) == pytest.approx(tree[section][key], rel=1e-12), figure
        energy = math.fsum(row["energy_usd_per_h"] for row in rows)
        assert energy == pytest.approx(tree["cost"]["parts"]["energy"], rel=1e-12)
        for base in ("rack_it_w", "facility_w"):
            mean = math.fsum(row[base]["mean"] for row in rows)
            assert mean == pytest.approx(tree["fleet"][base]["mean"], rel=1e-12)


def test_each_site_has_its_own_price_carbon_and_pue() -> None:
    sites = figures(BY_POOL)["sites"]
    for name, price, carbon, pue in (("east", 0.10, 0.4, 1.5), ("west", 0.02, 0.02, 1.1)):
        site = sites[name]
        kw = site["rack_it_w"]["mean"] * pue / 1000
        assert site["facility_w"]["mean"] == pytest.approx(kw * 1000)
        assert site["energy_usd_per_h"] == pytest.approx(kw * price, abs=1e-8)
        assert site["operational_kgco2e"] == pytest.approx(kw * 7 / 3600 * carbon)


def nearly(tree: Any, key: str = "") -> Any:
    """The tree, with money to nine digits."""
    if isinstance(tree, dict):
        return {name: nearly(value, name) for name, value in tree.items()}
    return pytest.approx(tree, rel=1e-9) if key.startswith("usd") and tree is not None else tree


def test_sites_alike_are_one_site() -> None:
    one, two = figures(ONE), figures(ALIKE)
    # Energy is billed by site in nano-dollars, so money may differ in the last of them.
    for section in ("requests", "tokens", "classes", "pools", "energy", "carbon"):
        assert one[section] == nearly(two[section]), section
    parts_one, parts_two = one["cost"]["parts"], two["cost"]["parts"]
    for part in ("racks", "network", "energy", "upkeep"):
        assert parts_one[part] == parts_two[part]
    # A demand charge is for the peak of each meter: two meters may peak in different windows.
    assert parts_two["demand"] >= parts_one["demand"]


def test_shares_split_every_pool_into_whole_racks() -> None:
    sites = BY_POOL.replace("pools: [a]", "share: 50 %").replace("pools: [b]", "share: 50 %")
    text = at_sites(sites).replace("hgx-b200, count: 1", "hgx-b200, count: 4")
    tree = run(load("-", stdin_text=text)).to_json()
    assert {name: pool["racks"] for name, pool in tree["pools"].items()} == {
        "a@east": 1,
        "a@west": 1,
        "b@east": 2,
        "b@west": 2,
    }
    assert [site["racks"] for site in tree["sites"].values()] == [3, 3]
    with pytest.raises(ScenarioError, match=r"50 % of the 1 racks of pool 'b' is 0\.5 racks"):
        figures(sites)


def test_routes_and_hand_overs_follow_the_parts_of_a_pool() -> None:
    text = """fleet:
  pools:
    p: {rack: hgx-h200, count: 2, existing: 1, deploy: [{model: gpt-oss-120b, chips: 4, role: prefill, decode_pool: d}]}
    d: {rack: hgx-h200, count: 2, deploy: [{model: gpt-oss-120b, chips: 4, role: decode}]}
    m: {rack: hgx-h200, count: 4, deploy: [{model: gpt-oss-120b, chips: 4}]}
  routes: {chat: {p: 40 %, m: 60 %}}
sites: {east: {share: 50 %}, west: {share: 50 %}}
"""
    head, tail = at_sites("").split("fleet:\n", maxsplit=1)
    s = load("-", stdin_text=head + text + tail[tail.index("run:") :])
    assert s.fleet.routes["chat"] == {"p@east": 0.2, "p@west": 0.2, "m@east": 0.3, "m@west": 0.3}
    assert s.fleet.pools["p@west"].deploy[0].decode_pool == "d@west"
    assert [s.fleet.pools[f"p@{site}"].existing for site in ("east", "west")] == [1, 0]
    assert run(s).to_json()["requests"]["completed"] > 0
    again = load("-", stdin_text=s.tree and __import__("yaml").safe_dump(s.resolved(), sort_keys=False))
    assert again.fleet == s.fleet


@pytest.mark.parametrize(
    ("sites", "what"),
    [
        ("sites: {east: {pools: [a]}}", "pool 'b' stands at no site"),
        ("sites: {east: {pools: [a, b]}, west: {pools: [b]}}", "pool 'b' stands at 'east' already"),
        ("sites: {east: {pools: [a]}, west: {pools: [c]}}", "no pool is named 'c'"),
        ("sites: {east: {share: 50 %}, west: {share: 40 %}}", "the shares sum to 90 %"),
    ],
)
def test_bad_sites(sites: str, what: str) -> None:
    with pytest.raises(ScenarioError, match=what):
        figures(sites)


def test_each_site_has_its_own_power_limit() -> None:
    with pytest.raises(Infeasible) as caught:
        figures(BY_POOL.replace("pue: 1.1}", "pue: 1.1, power_limit: 10 kW}"))
    (fault,) = caught.value.faults
    assert fault.path == "sites.west.power_limit"
    assert fault.line
    assert "above the limit of 10 kW" in fault.what
    assert "b: 0 racks" in fault.way_out
    tree = figures(BY_POOL.replace("pue: 1.1}", "pue: 1.1, power_limit: 1 MW}"))
    assert tree["sites"]["west"]["power_limit_w"] == 1e6
    assert tree["fleet"]["power_limit_w"] is None  # the other has none


def test_racks_have_to_stand_on_the_floor() -> None:
    assert figures(ONE.replace("pue: 1.5}", "pue: 1.5, positions: 3}"))["fleet"]["racks"] == 3
    with pytest.raises(Infeasible) as caught:
        figures(ONE.replace("pue: 1.5}", "pue: 1.5, positions: 2}"))
    (fault,) = caught.value.faults
    assert (fault.path, bool(fault.line)) == ("site.positions", True)
    assert "take 3 positions, 1 more than the 2 of the floor" in fault.what
    assert fault.way_out == "keep a: 1 racks or b: 0 racks, or find room for 3"
    with pytest.raises(Infeasible, match=r"sites\.east\.positions: the racks take 2 positions"):
        figures(BY_POOL.replace("pue: 1.5}", "pue: 1.5, positions: 1}"))


def test_headroom_without_a_site() -> None:
    s = load("-", stdin_text=at_sites(BY_POOL), sets=["run.length=3 s", "traffic.chat.rate=200 req/s"])
    found = {one.label: one for one in headroom(s).n1}
    assert set(found) == {"a rack of a out", "a rack of b out", "site east out", "site west out"}
    assert found["site east out"].racks_out == {"a": 2}
    edges = {label: one.edge.multiplier for label, one in found.items() if one.edge}
    assert edges["site east out"] < edges["a rack of a out"]
    assert edges["site west out"] == pytest.approx(edges["a rack of b out"], rel=0.01)
