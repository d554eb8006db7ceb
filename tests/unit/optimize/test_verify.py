"""How a plan is judged: by fewer simulations than a run of all seeds takes again, with the same verdict."""

from __future__ import annotations

import pytest

from planner import load, run
from planner.optimize.verify import _of_seeds, _together, misses_of
from tests.smalls import small

RUN = "length: 8 s, warmup: 1 s, seed: 5, seeds: 3"


@pytest.mark.parametrize("rate", ["80 req/s", "700 req/s"])
def test_a_first_seed_and_the_rest_are_judged_as_all_seeds_together(rate: str) -> None:
    scenario = load("-", stdin_text=small(rate=rate, longest=300, run=RUN))
    whole = run(scenario).to_json()
    parts = [run(_of_seeds(scenario, first, n)).to_json() for first, n in ((5, 1), (6, 2))]
    together = _together(*parts)
    for name, figures in whole["classes"].items():
        assert together["classes"][name] == figures
    assert misses_of(together, 0) == misses_of(whole, 0)
