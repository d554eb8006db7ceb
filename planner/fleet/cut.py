"""Cutting a fleet into cells: proportional slices of every deployment, a router each, and the share of each class.

All works on the core's spec of the whole fleet (`cells.sim_spec`). Replicas are dealt out one deployment after the
other, so that cells differ by one replica at most; a cell's replicas of a deployment are neighbours, so racks and
known outages stay in few cells. The link between prefill and decode pools and the bounds of autoscaling are split
likewise; failures draw from streams of each cell's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.errors import Notice

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cutting:
    """How many replicas of each deployment each cell has."""

    replicas: tuple[tuple[int, ...], ...]
    """By cell and deployment."""
    weights: tuple[tuple[float, ...], ...]
    """By class and cell: in proportion to what the class's requests are dealt out."""
    notices: tuple[Notice, ...] = ()

    @property
    def n_cells(self) -> int:
        return len(self.replicas)


def plan(spec: Spec, cell_replicas: int | None) -> Cutting:
    """Cells of at most `cell_replicas` replicas each; None is one cell.

    Fewer and larger ones where prefill replicas would else be without replicas to hand over to.
    """
    placed = spec["deployments"]
    total = sum(p["n_replicas"] for p in placed)
    wanted = 1 if cell_replicas is None else max(1, -(-total // cell_replicas))
    n_cells = min(wanted, _most_cells(placed))
    notices = []
    if n_cells < wanted:
        message = f"{n_cells} cells rather than {wanted}: each needs a prefill replica and one that it hands over to"
        notices.append(Notice("cells", message))
    replicas = _deal(placed, n_cells)
    if n_cells > 1:
        notices += _raised(placed, replicas)
    return Cutting(replicas, tuple(_weights(each, placed, replicas) for each in spec["classes"]), tuple(notices))


def _most_cells(placed: Sequence[Spec]) -> int:
    most: int = sum(p["n_replicas"] for p in placed)
    for p in placed:
        if p.get("role") == "prefill" and p["n_replicas"]:
            most = min(most, p["n_replicas"], max(placed[to]["n_replicas"] for to in p["decode_targets"]))
    return max(1, most)


def _deal(placed: Sequence[Spec], n_cells: int) -> tuple[tuple[int, ...], ...]:
    """An equal part to each cell; what is left of a deployment goes on where that of the one before stopped."""
    columns = []
    first = 0
    for p in placed:
        base, rest = divmod(p["n_replicas"], n_cells)
        columns.append([base + ((cell - first) % n_cells < rest) for cell in range(n_cells)])
        first = (first + rest) % n_cells
    return tuple(zip(*columns, strict=True))


def _weights(cls: Spec, placed: Sequence[Spec], replicas: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """What the router of the whole fleet, drawing any replica, would send to the replicas of each cell."""
    found = [0.0] * len(replicas)
    for target in cls["targets"]:
        share = 1.0 if target["share"] is None else target["share"]
        total = sum(placed[d]["n_replicas"] for d in target["deployments"])
        for cell, mine in enumerate(replicas):
            found[cell] += share * sum(mine[d] for d in target["deployments"]) / total
    return tuple(found)


def _raised(placed: Sequence[Spec], replicas: Sequence[Sequence[int]]) -> list[Notice]:
    """Says where every cell's least replica that stays on makes more of them than were asked for."""
    found = []
    for d, p in enumerate(placed):
        n_with = sum(1 for mine in replicas if mine[d])
        if "autoscale" in p and p["autoscale"]["min"] < n_with:
            asked = p["autoscale"]["min"]
            found.append(
                Notice("cells", f"autoscale.min is {asked}, and each of {n_with} cells keeps at least one replica on")
            )
    return found


def cells(spec: Spec, cutting: Cutting) -> list[dict[str, Any]]:
    """The spec of each cell; that of the whole fleet if it is one."""
    if cutting.n_cells == 1:
        return [dict(spec)]
    placed = spec["deployments"]
    before = [0] * len(placed)
    made = []
    for cell, mine in enumerate(cutting.replicas):
        made.append(
            {
                **spec,
                "seed": cell_seed(spec["seed"], cell),
                "classes": [_class(each, placed, mine) for each in spec["classes"]],
                "deployments": [_placed(p, placed, mine, d, before[d]) for d, p in enumerate(placed)],
            }
        )
        if "link" in spec:
            made[-1]["link"] = _link(spec["link"], placed, mine)
        if "timeline_rows" in spec:
            made[-1]["timeline_rows"] = max(1, spec["timeline_rows"] // cutting.n_cells)
        before = [n + m for n, m in zip(before, mine, strict=True)]
    return made


def cell_seed(seed: int, cell: int) -> int:
    """The seed under which a cell draws what only it draws: failures, and the choices of its router."""
    return int.from_bytes(hashlib.sha256(f"{seed} cell {cell}".encode()).digest()[:8], "little") >> 1


def numbers(cutting: Cutting) -> list[list[int]]:
    """The numbers in the whole fleet of each cell's replicas, in the cell's order."""
    found: list[list[int]] = [[] for _ in cutting.replicas]
    first = 0
    for counts in zip(*cutting.replicas, strict=True):
        for cell, n in enumerate(counts):
            found[cell] += range(first, first + n)
            first += n
    return found


def _class(cls: Spec, placed: Sequence[Spec], mine: Sequence[int]) -> dict[str, Any]:
    """The class with the targets that have replicas here, and their part of the shares."""
    targets, parts = [], []
    for target in cls["targets"]:
        here = [d for d in target["deployments"] if mine[d]]
        if here and target["share"] != 0:
            total = sum(placed[d]["n_replicas"] for d in target["deployments"])
            targets.append({"deployments": here, "share": None})
            parts.append((1.0 if target["share"] is None else target["share"]) * sum(mine[d] for d in here) / total)
    if not targets:
        # No request of the class comes here; the core wants a target all the same.
        anyone = next(d for d, n in enumerate(mine) if n and placed[d].get("role") != "decode")
        targets = [{"deployments": [anyone], "share": None}]
    elif len(targets) > 1:
        whole = sum(parts)
        targets = [{**target, "share": part / whole} for target, part in zip(targets, parts, strict=True)]
    return {**cls, "targets": targets}


def _placed(p: Spec, placed: Sequence[Spec], mine: Sequence[int], d: int, before: int) -> dict[str, Any]:
    """The deployment's replicas `before` to `before + mine[d]`."""
    n = mine[d]
    found = {**p, "n_replicas": n}
    for key in ("outages", "maintenance"):
        if key in p:
            found[key] = [part for outage in p[key] if (part := _outage(outage, before, n)) is not None]
    if "decode_targets" in p:
        found["decode_targets"] = [to for to in p["decode_targets"] if mine[to]] or p["decode_targets"]
    if "autoscale" in p:
        if n:
            found["autoscale"] = _autoscale(p["autoscale"], p["n_replicas"], before, n)
        else:
            del found["autoscale"]
    if not n:
        for key in ("role", "decode_targets", "failures"):
            found.pop(key, None)
    return found


def _outage(outage: Spec, before: int, n: int) -> dict[str, Any] | None:
    first = max(outage["first"], before)
    last = min(outage["first"] + outage["n_replicas"], before + n)
    return {**outage, "first": first - before, "n_replicas": last - first} if last > first else None


def _autoscale(scale: Spec, total: int, before: int, n: int) -> dict[str, Any]:
    """The part of the bounds that falls on the replicas from `before` on, at least one."""

    def part(bound: int) -> int:
        return (before + n) * bound // total - before * bound // total

    least = max(1, part(scale["min"]))
    return {**scale, "min": least, "max": max(least, part(scale["max"]))}


def _link(link: Spec, placed: Sequence[Spec], mine: Sequence[int]) -> dict[str, Any]:
    """The link in proportion to the chips that hand over."""

    def chips(n_of: Sequence[int]) -> int:
        found = 0
        for p, n in zip(placed, n_of, strict=True):
            if p.get("role") == "prefill":
                layout = p["deployment"]["layout"]
                found += n * layout["tp"] * layout.get("dp", 1) * layout.get("pp", 1)
        return found

    share = chips(mine) / chips([p["n_replicas"] for p in placed])
    return {**link, "bytes_per_s": link["bytes_per_s"] * share}
