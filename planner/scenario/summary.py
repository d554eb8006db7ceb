"""A scenario in a few lines for people: classes, pools, run and variants, quantities as the file writes them."""

from __future__ import annotations

from collections.abc import Sequence

from planner.scenario.schema import Deploy, Pool, Scenario, Slo, TrafficClass
from planner.scenario.tree import Tree


def text(scenario: Scenario, file: str) -> str:
    """What a scenario asks, as a block of lines headed by its title."""
    name = "" if scenario.name == "base" else f" [{scenario.name}]"
    lines = [f"{file}{name}: {scenario.title}"]
    if scenario.question:
        lines.append(f"  {scenario.question}")
    lines += _table(
        ("class", "model", "arrivals", "input", "output", "limits"),
        [_class(scenario, name, klass) for name, klass in scenario.traffic.items()],
    )
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


def _said(scenario: Scenario, *path: str) -> str:
    """A quantity as the file writes it; `-` where it is absent."""
    found = scenario.tree.at(path)
    if found is not None and isinstance(found.value, dict):
        found = found.value.get("value")
    return str(found.value) if found is not None else "-"


def _class(scenario: Scenario, name: str, klass: TrafficClass) -> tuple[str, ...]:
    if klass.trace is not None:
        arrivals = klass.trace
        arrivals += f", {klass.scale:g} seeded copies" if klass.scale > 1 else ""
        arrivals += f", thinned to {klass.scale:.3g} of it" if klass.scale < 1 else ""
        arrivals += f", {klass.speedup:g} times as fast" if klass.speedup != 1 else ""
    else:
        arrivals = _drawn(scenario, name, klass)
    lengths = (_lengths(scenario.tree.at(("traffic", name, key))) for key in ("input", "output"))
    limits = "none" if klass.slo is None else _limits(scenario, klass.slo, scenario.slo[klass.slo])
    return (name, klass.model, arrivals, *lengths, limits)


def _drawn(scenario: Scenario, name: str, klass: TrafficClass) -> str:
    """How drawn requests arrive."""
    if klass.arrivals == "closed":
        return f"closed, {klass.concurrency:,} at a time"
    parts = [f"{klass.arrivals} {_said(scenario, 'traffic', name, 'rate')}"]
    if klass.burstiness is not None:
        parts.append(f"CV {klass.burstiness:g}")
    if klass.burst is not None:
        parts.append(f"bursts of {klass.burst.size:g}")
    if klass.shape is not None:
        parts.append(f"shape {klass.shape.demand or f'of {len(klass.shape.factors or ())} factors'}")
    if klass.sessions is not None:
        parts.append(f"sessions of {klass.sessions.turns.mean_turns:g} turns")
    if klass.agents is not None:
        parts.append(f"tasks of {klass.agents.steps.mean_turns:g} steps")
    return ", ".join(parts)


def _lengths(dist: Tree | None) -> str:
    """The spread of lengths in short: `median 1200 tok, p95 8 ktok`, or `100 tok..2 ktok` from low to high."""
    if dist is None:
        return "as recorded"
    keys = dist.keys
    if "median" in keys:
        return f"median {keys['median'].plain()}, p95 {keys['p95'].plain()}"
    ends = [str(keys[key].plain()) for key in ("low", "high", "value", "file") if key in keys]
    if ends:
        return "..".join(ends)
    values = keys["values"].plain() if "values" in keys else None
    return f"{len(values)} lengths" if isinstance(values, list) else str(dist.plain())


def _limits(scenario: Scenario, name: str, slo: Slo) -> str:
    parts = [
        f"{limit.metric} {limit.label} {_said(scenario, 'slo', name, limit.metric, limit.label)}"
        for limit in slo.limits
    ]
    if slo.attainment_frac is not None:
        parts.append(f"{_said(scenario, 'slo', name, 'attainment')} inside all")
    return ", ".join(parts)


def _count(pool: Pool) -> str:
    return str(pool.count) if pool.count_range is None else f"{pool.count_range.min}..{pool.count_range.max}"


def _deployed(deploy: tuple[Deploy, ...]) -> str:
    parts = []
    for entry in deploy:
        share = "the rest" if entry.per_rack is None else f"{entry.per_rack} a rack"
        role = "" if entry.role == "mixed" else f" {entry.role}"
        parts.append(f"{entry.model}{role} on {entry.chips} chips ({share})")
    return ", ".join(parts) or "any"


def _run(scenario: Scenario) -> str:
    run = scenario.run
    length = "the length of the trace" if run.length_s is None else _said(scenario, "run", "length")
    warmup = f", warm-up {_said(scenario, 'run', 'warmup')}" if run.warmup_s else ""
    seeds = f"seed {run.seed}" if run.seeds == 1 else f"{run.seeds} seeds from {run.seed}"
    return f"{length}{warmup}, {seeds}"
