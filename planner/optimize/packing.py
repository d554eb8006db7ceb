"""Replicas on racks: how many of each size stand on which rack, and what is left of its domains.

Largest first, each in the first rack and domain with room: that packs sizes which divide each other without loss. Where
other sizes do not go that way (a rack of 72 chips takes 24 and three times 16, but two times 24 first leave room for
one 16), whole racks are chosen by a small integer program over the fullest ways to carve one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.optimize.linear import Program, Stop
from planner.optimize.patterns import patterns


@dataclass(slots=True)
class Packed:
    """Racks with replicas on them."""

    counts: list[dict[int, int]]
    """Replicas of each rack, by option."""
    free: list[list[int]]
    """Chips left of each rack's domains."""

    def place(self, option: int, chips: int) -> bool:
        """Put one more replica in the first domain with room; whether there was one."""
        for rack, domains in enumerate(self.free):
            for d, room in enumerate(domains):
                if room >= chips:
                    domains[d] -= chips
                    self.counts[rack][option] = self.counts[rack].get(option, 0) + 1
                    return True
        return False


def packed(domains: Sequence[int], n_racks: int, wanted: Mapping[int, int], chips: Mapping[int, int]) -> Packed | None:
    """So many replicas of each option on so many racks; None where they do not fit. `chips` are those of a replica."""
    found = Packed([{} for _ in range(n_racks)], [list(domains) for _ in range(n_racks)])
    order = sorted(wanted, key=lambda o: (-chips[o], o))
    if all(found.place(o, chips[o]) for o in order for _ in range(wanted[o])):
        return found
    return _by_whole_racks(domains, n_racks, {o: wanted[o] for o in order if wanted[o]}, chips)


def _by_whole_racks(
    domains: Sequence[int], n_racks: int, wanted: Mapping[int, int], chips: Mapping[int, int]
) -> Packed | None:
    options = list(wanted)
    ways = patterns(domains, [chips[o] for o in options])
    program = Program()
    used = [program.column(0, n_racks, is_whole=True) for _ in ways]
    program.row(dict.fromkeys(used, 1.0), n_racks, n_racks)
    for place, o in enumerate(options):
        program.row({u: float(way[place]) for u, way in zip(used, ways, strict=True)}, lower=wanted[o])
    answer = program.solve(Stop(0.0))
    if not answer.values:
        return None
    left = dict(wanted)
    found = Packed([], [])
    for u, way in zip(used, ways, strict=True):
        for _ in range(round(answer.values[u])):
            row = {o: min(n, left[o]) for o, n in zip(options, way, strict=True) if n and left[o]}
            free = _inside(tuple(domains), tuple(chips[o] for o, n in row.items() for _ in range(n)))
            if free is None:  # no way to carve a rack is one that its domains do not take
                return None
            for o, n in row.items():
                left[o] -= n
            found.counts.append(row)
            found.free.append(list(free))
    return found


def _inside(free: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """What is left of a rack's domains with replicas of these sizes in them, largest first; None where they do not fit.

    >>> _inside((10, 8), (6, 4, 4, 4))
    (0, 0)
    """
    if not sizes:
        return free
    for d in dict.fromkeys(free):
        if d >= sizes[0]:
            at = free.index(d)
            found = _inside((*free[:at], d - sizes[0], *free[at + 1 :]), sizes[1:])
            if found is not None:
                return found
    return None
