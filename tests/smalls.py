"""A small chat service as scenario text: one class on a few racks, simulated in milliseconds."""

from __future__ import annotations

ONE_POOL = "    a: {rack: hgx-h200, count: 2, deploy: [{model: gpt-oss-120b, chips: 4}]}\n"
TWO_POOLS = ONE_POOL + "    b: {rack: hgx-b200, count: 1, deploy: [{model: gpt-oss-120b, chips: 4}]}\n"


def small(
    *,
    rate: str = "80 req/s",
    longest: int = 60,
    limits: str = "ttft: {p95: 300 ms}, e2e: {p99: 2 s}, attainment: 90 %",
    pools: str = ONE_POOL,
    run: str = "length: 8 s, warmup: 1 s, seeds: 2",
    more: str = "",
) -> str:
    """The text; `longest` is the most output tokens of a request, `more` are further sections."""
    return f"""
schema: 1
title: small
traffic:
  chat:
    model: gpt-oss-120b
    arrivals: poisson
    rate: {rate}
    input: 800 tok
    output: {{dist: uniform, low: 10 tok, high: {longest} tok}}
    slo: easy
slo:
  easy: {{{limits}}}
fleet:
  pools:
{pools}run: {{{run}}}
{more}"""


def at_sites(sites: str) -> str:
    """The service on two pools, `a` with two racks and `b` with one, at the sites that the section describes."""
    limits = "ttft: {p95: 300 ms}, e2e: {p99: 2 s}"
    more = f"{sites}\ncost: {{demand: 10 USD/kW-month}}\n"
    return small(limits=limits, pools=TWO_POOLS, run="length: 8 s, warmup: 1 s", more=more)
