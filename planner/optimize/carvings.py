"""All the ways to carve the racks of a span: what stands is the same, replicas of one deployment stand for another's.

A carving is full where no further replica of any deployment that serves a class fits. `full` lists all of them, `near`
those that lie next to a given one, for fleets that have too many.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from planner.optimize.instance import Instance, Kind
from planner.optimize.packing import packed
from planner.optimize.patterns import MOST_PATTERNS, are_nested, patterns

Carving = tuple[tuple[int, ...], ...]
"""Replicas by kind and option."""


def serving(instance: Instance) -> set[tuple[int, int]]:
    """Deployments that some class can use."""
    return {(k, o) for way in instance.ways for k, o, _ in way.takes}


def full(instance: Instance, racks: Sequence[int], *, most: int) -> list[Carving] | None:
    """All full carvings of so many racks of each kind; None where there are more than `most`."""
    used = serving(instance)
    by_kind = []
    for k, kind in enumerate(instance.kinds):
        own = _full(kind, racks[k], _chosen(kind, k, used), most=most)
        if own is None:
            return None
        by_kind.append(own)
    if math.prod(len(own) for own in by_kind) > most:
        return None
    return list(itertools.product(*by_kind))


def _full(kind: Kind, n_racks: int, chosen: Sequence[int], *, most: int) -> list[tuple[int, ...]] | None:
    fixed = [(option.per_rack or 0) * n_racks for option in kind.options]
    if not chosen or not n_racks:
        return [tuple(fixed)]
    each = patterns(kind.domains, [kind.options[o].chips for o in chosen])
    if len(each) == MOST_PATTERNS:
        return None
    found = {(0,) * len(chosen)}
    for _ in range(n_racks):
        found = {tuple(a + b for a, b in zip(one, way, strict=True)) for one in found for way in each}
        if len(found) > most:
            return None
    carved = []
    for counts in sorted(found, reverse=True):
        row = list(fixed)
        for o, n in zip(chosen, counts, strict=True):
            row[o] = n
        carved.append(tuple(row))
    return carved


def near(instance: Instance, racks: Sequence[int], centre: Carving, *, most: int) -> list[Carving]:
    """At most `most` carvings of the same racks, those that differ least from `centre` first, itself among them."""
    used = serving(instance)
    chosen = [_chosen(kind, k, used) for k, kind in enumerate(instance.kinds)]
    found, seen = [centre], {centre}
    for one in found:  # grows meanwhile
        for k, kind in enumerate(instance.kinds):
            for row in _swapped(kind, racks[k], one[k], chosen[k]):
                other = (*one[:k], row, *one[k + 1 :])
                if other not in seen:
                    seen.add(other)
                    found.append(other)
        if len(found) >= most:
            break
    return found[:most]


def _swapped(kind: Kind, n_racks: int, row: tuple[int, ...], chosen: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Carvings with the least number of replicas of one deployment turned into those of another."""
    for a, b in itertools.permutations(chosen, 2):
        chips = math.lcm(kind.options[a].chips, kind.options[b].chips)
        less, more = chips // kind.options[a].chips, chips // kind.options[b].chips
        if row[a] < less:
            continue
        made = list(row)
        made[a] -= less
        made[b] += more
        if fits(kind, n_racks, made, chosen):
            yield tuple(made)


def fits(kind: Kind, n_racks: int, row: Sequence[int], chosen: Sequence[int]) -> bool:
    """Whether so many chosen replicas go on the racks."""
    sizes = sorted({kind.options[o].chips for o in chosen})
    if are_nested(sizes):
        for size in sizes:
            held = n_racks * sum(room // size * size for room in kind.domains)
            if sum(kind.options[o].chips * row[o] for o in chosen if kind.options[o].chips >= size) > held:
                return False
        return True
    chips = {o: kind.options[o].chips for o in chosen}
    return packed(kind.domains, n_racks, {o: row[o] for o in chosen}, chips) is not None


def _chosen(kind: Kind, k: int, used: set[tuple[int, int]]) -> list[int]:
    return [o for o, option in enumerate(kind.options) if option.per_rack is None and (k, o) in used]
