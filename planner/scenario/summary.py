"""A scenario in a few lines for people: classes, pools, run and variants."""

from __future__ import annotations

from collections.abc import Sequence

from planner import units
from planner.scenario.schema import Deploy, Dist, Pool, Scenario, Slo, TrafficClass


def text(scenario: Scenario, file: str) -> str:
    """What a scenario asks, as a block of lines headed by its title."""
    name = "" if scenario.name == "base" else f" [{scenario.name}]"
    lines = [f"{file}{name}: {scenario.title}"]
    if scenario.question:
        lines.append(f"  {scenario.question}")
    limits = {name: _limits(slo) for name, slo in scenario.slo.items()}
    classes = [
        (name, klass.model, _traffic(klass), limits.get(klass.slo or "", "no limits"))
        for name, klass in scenario.traffic.items()
    ]
    lines += _table(("class", "model", "traffic", "limits"), classes)
    pools = [(name, pool.rack, _count(pool), _deployed(pool.deploy)) for name, pool in scenario.fleet.pools.items()]
    lines += _table(("pool", "rack", "racks", "deployments"), pools)
    lines.append(f"  run: {_run(scenario)}")
    if scenario.variants:
        lines.append(f"  scenarios: {', '.join(scenario.variants)}")
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their longest value; the last is free."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head) - 1)]
    return [
        "  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in (head, *rows)
    ]


def _traffic(klass: TrafficClass) -> str:
    if klass.trace is not None:
        parts = [klass.trace]
        parts += [f"x {klass.scale:g}"] if klass.scale != 1 else []
        parts += [f"{klass.speedup:g} times faster"] if klass.speedup != 1 else []
        return " ".join(parts)
    spread = klass.arrivals if klass.burstiness is None else f"{klass.arrivals} (CV {klass.burstiness:g})"
    return f"{spread} {units.format(klass.rate_req_per_s, 'rate')}, {_dist(klass.input)} in, {_dist(klass.output)} out"


def _dist(dist: Dist | None) -> str:
    if dist is None:
        return "-"
    match dist.kind:
        case "lognormal":
            return f"{_tokens(dist.median)}..{_tokens(dist.p95)} (p50..p95)"
        case "uniform":
            return f"{_tokens(dist.low)}..{_tokens(dist.high)}"
        case "fixed":
            return _tokens(dist.value)
    return dist.file or f"{len(dist.values or ())} lengths"


def _tokens(n: int | None) -> str:
    return units.format(n, "tokens")


def _limits(slo: Slo) -> str:
    parts = [f"{limit.metric} {limit.label} {units.format(limit.limit_s, 'time')}" for limit in slo.limits]
    if slo.attainment_frac is not None:
        parts.append(f"{slo.attainment_frac * 100:g} % inside")
    return ", ".join(parts)


def _count(pool: Pool) -> str:
    return str(pool.count) if pool.count_range is None else f"{pool.count_range.min}..{pool.count_range.max}"


def _deployed(deploy: tuple[Deploy, ...]) -> str:
    parts = []
    for entry in deploy:
        share = "rest" if entry.per_rack is None else f"{entry.per_rack} a rack"
        role = "" if entry.role == "mixed" else f" {entry.role}"
        parts.append(f"{entry.model}{role} on {entry.chips} chips ({share})")
    return ", ".join(parts) or "any"


def _run(scenario: Scenario) -> str:
    run = scenario.run
    length = "the length of the trace" if run.length_s is None else units.format(run.length_s, "time")
    warmup = f", warm-up {units.format(run.warmup_s, 'time')}" if run.warmup_s else ""
    seeds = f"seed {run.seed}" if run.seeds == 1 else f"{run.seeds} seeds from {run.seed}"
    return f"{length}{warmup}, {seeds}"
