"""Files without a table of keys: nested facts, groups and numbers, as traffic profiles and demand use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import FactError
from planner.facts.catalog import Catalog, facts_of
from planner.facts.fact import Fact

PROFILE = """\
schema: traffic/1
title: A service
span: 1 h
rate: {value: 5.5 req/s, low: 5 req/s, high: 6 req/s, grade: measured, source: seed-000, note: mean}
gaps: {cv: 1.3, kind: gamma, grade: measured, source: seed-000}
lengths:
  edges: [1 tok, 10 tok, 100 tok]
  counts: [[1, 2], [3, 4]]
  name: 'no'
  is_joint: true
"""


@pytest.fixture
def shelf(tmp_path: Path) -> Catalog:
    (tmp_path / "traffic").mkdir()
    (tmp_path / "traffic" / "a-service.yaml").write_text(PROFILE)
    return Catalog(tmp_path)


def test_facts_where_a_grade_stands_and_plain_values_elsewhere(shelf: Catalog) -> None:
    profile = shelf.profile("a-service")
    assert profile["span"] == 3600.0
    rate = profile["rate"]
    assert isinstance(rate, Fact)
    assert (rate.number, rate.low, rate.high, rate.unit, rate.note) == (5.5, 5.0, 6.0, "req_per_s", "mean")
    assert rate.path == "traffic.a-service.rate"
    assert profile["gaps"].group == {"cv": 1.3, "kind": "gamma"}
    assert profile["gaps"].source == ("seed-000",)
    assert profile["lengths"] == {"edges": [1, 10, 100], "counts": [[1, 2], [3, 4]], "name": "no", "is_joint": True}
    assert list(facts_of(profile)) == ["rate", "gaps"]


def test_faults_have_places(shelf: Catalog) -> None:
    path = shelf.data / "traffic" / "a-service.yaml"
    path.write_text(
        PROFILE.replace("low: 5 req/s", "low: 5 GB").replace("grade: measured, source: seed-000}", "grade: x}")
    )
    with pytest.raises(FactError) as caught:
        shelf.profile("a-service")
    lines = [str(fault).removeprefix(f"{path}:") for fault in caught.value.faults]
    assert lines[0].startswith("4:31: rate.low: 'GB' is a unit of bytes where requests per second is meant")
    assert lines[1].startswith("5:37: gaps.grade: unknown grade 'x'")


def test_an_unknown_profile(shelf: Catalog) -> None:
    with pytest.raises(FactError, match=r"no 'b' among the catalogue's traffic; known: a-service"):
        shelf.profile("b")
