"""Demand over days as facts: against the statistics it was made from, and by its own laws."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.errors import FactError
from planner.facts import catalog
from planner.traffic import demand

SERVICES = ("deepseek-r1", "m-large", "m-mid", "m-small", "mm-image")


@pytest.mark.parametrize("name", SERVICES)
def test_demand_holds_its_laws(name: str) -> None:
    found = demand.load(name)
    assert found.window_s == 600
    assert found.span_s == 86_400 * (1 if name in {"deepseek-r1", "mm-image"} else 14)
    assert all(rate >= 0 for rate in found.rate_req_per_s)
    assert len(found.dispersion) == len(found.rate_req_per_s)
    assert found.frame().height == len(found.rate_req_per_s)
    for lengths in (found.input, found.output):
        if lengths is not None:
            shares, tokens = zip(*lengths.quantiles, strict=True)
            assert list(shares) == sorted(set(shares))
            assert list(tokens) == sorted(tokens)
            assert tokens[-1] <= lengths.max_tokens


def test_known_figures() -> None:
    assert tuple(catalog.load().names("demand")) == SERVICES
    r1, large = demand.load("deepseek-r1"), demand.load("m-large")
    assert r1.input is not None
    assert large.output is not None
    assert (r1.input.mean_tokens, round(r1.peak_to_mean, 1)) == (1268.2, 2.7)
    assert (large.output.mean_tokens, round(large.mean_req_per_s)) == (155.1, 196)
    assert demand.load("mm-image").input is None  # not recorded, and so not 0
    with pytest.raises(FactError, match="did you mean m-large"):
        demand.load("m-larg")


def test_the_facts_are_the_statistics(shared: Path, tmp_path: Path) -> None:
    services = json.loads((shared / "traces/demand.json").read_text())["services"]
    assert set(services) == set(SERVICES)
    for name, service in services.items():
        found = demand.load(name)
        assert found.rate_req_per_s == pytest.approx(service["rate_req_per_s"], rel=1e-4)
        assert found.dispersion == pytest.approx(service["dispersion"], rel=5e-3)
    written = demand.write_all(shared / "traces/demand.json", tmp_path)
    for path in written:
        assert path.read_text() == (catalog.DATA / "demand" / path.name).read_text()
