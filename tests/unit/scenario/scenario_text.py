"""A small right scenario that tests change."""

from __future__ import annotations

from collections.abc import Callable

from planner.errors import Fault
from planner.scenario import Scenario

SMALL = """\
title: small
traffic:
  chat:
    model: gpt-oss-120b
    arrivals: poisson
    rate: 4 req/s
    input: {dist: lognormal, median: 1200 tok, p95: 8 ktok}
    output: 300 tok
    slo: quick
slo:
  quick: {ttft: {p95: 500 ms}, tpot: {p95: 20 ms}}
fleet:
  pools:
    a: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 8}]}
site: {grid: us-virginia}
run: {length: 10 min}
"""

Loads = Callable[..., Scenario]
Faults = Callable[..., list[Fault]]
