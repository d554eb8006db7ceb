"""`planner check`: validate scenarios, say what each asks, which verbs each is for, and what no verb acts on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from planner.cli import output
from planner.cli.asked import ALL, VARIANTS, values
from planner.errors import Fault, Notice, ScenarioError, TrafficError
from planner.words import plain

if TYPE_CHECKING:
    from planner.scenario import Scenario
    from planner.study.preview import Preview

EPILOG = """\b
Examples:
  planner check scenarios/*.yaml
  planner check my-fleet.yaml -s nvidia_only --set run.seeds=1 --resolved
"""


@click.command("check", epilog=EPILOG)
@click.argument("files", metavar="SCENARIO...", nargs=-1, required=True)
@VARIANTS
@ALL
@values()
@click.option("--resolved", is_flag=True, help="Print the merged file, each value with where it came from.")
@output.verb("planner.check/1")
def command(
    files: tuple[str, ...],
    names: tuple[str, ...],
    is_all: bool,
    sets: tuple[str, ...],
    resolved: bool,
    *,
    to: output.Settings,
) -> None:
    """Validate each SCENARIO (a file, or - for stdin); every variant and every value of a sweep is checked.

    A scenario that `run` accepts is also laid out, and its requests that no replica can hold are counted.
    """
    from planner.scenario import load_all

    if is_all and names:
        raise click.UsageError("--all and -s exclude each other: --all checks the base scenario and every variant")
    asked = None if is_all else names or ("base",)
    faults: list[Fault] = []
    loaded: dict[str, tuple[Scenario, ...]] = {}
    for file in dict.fromkeys(files):
        try:
            loaded[file] = load_all(file, sets=sets, names=asked if names or sets else None)
        except ScenarioError as error:
            faults.extend(error.faults)
    if faults:
        raise ScenarioError(*dict.fromkeys(faults))
    scenarios = [(file, each) for file in files for each in loaded[file] if asked is None or each.name in asked]
    previews = [_preview(scenario, faults) for _, scenario in scenarios]
    if faults:
        raise TrafficError(*dict.fromkeys(faults))
    rows = list(zip(scenarios, previews, strict=True))
    result = {"scenarios": [_as_json(file, s, seen, resolved) for (file, s), seen in rows]}
    blocks = [_resolved(file, s, len(rows)) if resolved else _summary(file, s, seen) for (file, s), seen in rows]
    inputs = f"sha256:{scenarios[0][1].digest()}" if len(scenarios) == 1 else None
    warnings = _warnings(loaded)  # of every variant, unless some are named or set: those alone
    output.reply("planner.check/1", result, "\n\n".join(blocks), to, warnings=warnings, inputs=inputs)


def _preview(scenario: Scenario, faults: list[Fault]) -> Preview | None:
    """The fleet and traffic of a scenario that this version runs. Raises `Infeasible` where it cannot be laid out."""
    from planner.study.preview import preview

    if any(found.refused_by("run") for found in scenario.unsupported):
        return None
    try:
        return preview(scenario)
    except TrafficError as error:
        faults.extend(error.faults)
        return None


def _warnings(loaded: Mapping[str, Iterable[Scenario]]) -> list[Notice]:
    """What no verb acts on and what serves nothing, once each."""
    found: dict[Notice, None] = {}
    for file, scenario in ((file, each) for file, scenarios in loaded.items() for each in scenarios):
        for key in scenario.unsupported:
            if not key.key.verbs:
                found[Notice("unsupported", str(key.fault("run")))] = None
        for notice in scenario.notices:
            found[Notice(notice.code, f"{file}: {notice.message}")] = None
    return list(found)


def _as_json(file: str, scenario: Scenario, seen: Preview | None, is_resolved: bool) -> dict[str, Any]:
    from planner.scenario.unsupported import verbs_for

    made: dict[str, Any] = {
        "file": file,
        "scenario": scenario.name,
        "title": scenario.title,
        "question": scenario.question,
        "digest": f"sha256:{scenario.digest()}",
        "classes": list(scenario.traffic),
        "pools": list(scenario.fleet.pools),
        "variants": {name: list(overrides) for name, overrides in scenario.variants.items()},
        "for": list(verbs_for(scenario)),
        "unsupported": [found.path for found in scenario.unsupported if not found.key.verbs],
    }
    if seen is not None:
        made["deployments"] = [
            {"pool": p.pool, "model": p.model, "replicas": p.n_replicas, "chips": p.n_chips, "layout": p.label}
            for p in seen.fleet.placed
        ]
        made["idle_chips"] = {pool.name: pool.idle_chips for pool in seen.fleet.pools}
        made["offered"], made["too_large"] = dict(seen.offered), dict(seen.too_large)
    if is_resolved:
        made["resolved"] = scenario.resolved()
        made["origins"] = {path: str(origin) for path, origin in scenario.origins.items()}
    return made


def _resolved(file: str, scenario: Scenario, n: int) -> str:
    from planner.scenario.dump import to_yaml

    head = f"# {plain(file)}, scenario {scenario.name}\n" if n > 1 else ""
    return head + to_yaml(scenario.tree, origins=True).rstrip("\n")


def _summary(file: str, scenario: Scenario, seen: Preview | None) -> str:
    from planner.scenario import summary
    from planner.scenario.unsupported import verbs_for

    lines = [summary.text(scenario, file)]
    verbs = verbs_for(scenario)
    lines.append(f"  for: {', '.join(f'planner {verb}' for verb in verbs) or 'no verb of this version'}")
    if seen is not None:
        for pool in seen.fleet.pools:
            idle = f", of which {pool.idle_chips:,} idle" if pool.idle_chips else ""
            lines.append(f"  {pool.name}: {pool.n_chips:,} chips{idle}")
            lines += [f"    {p.n_replicas} x {p.label} on {p.n_chips} chips each" for p in pool.placed]
        lines += [
            f"  {name}: {n:,} of {seen.offered[name]:,} requests are too large for every replica and will be rejected"
            for name, n in seen.too_large.items()
            if n
        ]
    return "\n".join(lines)
