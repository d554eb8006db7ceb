"""Several sites: which pool stands where, and pools that stand at several as one pool at each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from planner.scenario.section import Trouble, shown

if TYPE_CHECKING:
    from planner.facts.schema import Fact
    from planner.scenario.schema import Question
    from planner.scenario.sections_cost import Site, SiteShare
    from planner.scenario.sections_fleet import FleetSpec, Pool

AT = "@"
_EXACT = 1e-9
_COUNTED = ("outages", "maintenance", "autoscale")
"""Keys of a pool that count replicas of it, so that they have no meaning for a share of it."""


def place_of(pool: str, sites: Mapping[str, SiteShare]) -> str:
    """The site where a pool stands; the first where nothing says it."""
    for name, site in sites.items():
        if pool in (site.pools or ()) or pool.endswith(f"{AT}{name}"):
            return name
    return next(iter(sites))


def round_trips(pool: str, traffic: Iterable[str], site: Site, sites: Mapping[str, SiteShare]) -> dict[str, Fact]:
    """How far each class's clients are from a pool; none of those that nothing is said of."""
    place = sites[place_of(pool, sites)] if sites else site
    found = {name: place.round_trip_by_class.get(name, place.round_trip_s) for name in traffic}
    return {name: fact for name, fact in found.items() if fact is not None}


def written(pool: str, sites: Mapping[str, SiteShare]) -> str:
    """The name under which a pool stands in the file: without the site that was put to it."""
    name, at, site = pool.rpartition(AT)
    return name if at and site in sites else pool


def spread(fleet: FleetSpec, sites: Mapping[str, SiteShare]) -> FleetSpec:
    """The fleet with each pool that is shared out over sites as `POOL@SITE`, one at each.

    Routes lead to all parts of a pool, shares by their racks. What a prefill pool hands over stays at its site where
    the decode pool stands there too.
    """
    shares = {name: site.share_frac for name, site in sites.items() if site.share_frac is not None}
    named = {pool for site in sites.values() for pool in site.pools or ()}
    split = [name for name in fleet.pools if name not in named] if shares else []
    if not split:
        return fleet
    pools: dict[str, Pool] = {}
    parts: dict[str, dict[str, int]] = {}
    for name, pool in fleet.pools.items():
        if name not in split:
            pools[name] = pool
            continue
        left = pool.existing
        parts[name] = {}
        for site, share in shares.items():
            count = round(pool.count * share)
            existing = min(left, count)
            left -= existing
            parts[name][f"{name}{AT}{site}"] = count
            pools[f"{name}{AT}{site}"] = pool.model_copy(update={"count": count, "existing": existing})
    for name, pool in pools.items():
        site = name.rpartition(AT)[2]
        deploy = tuple(
            entry.model_copy(update={"decode_pool": f"{entry.decode_pool}{AT}{site}"})
            if entry.decode_pool in parts and name not in fleet.pools
            else entry
            for entry in pool.deploy
        )
        pools[name] = pool.model_copy(update={"deploy": deploy})
    routes = {
        name: {part: own for pool, share in route.items() for part, own in _routed(pool, share, parts)}
        for name, route in fleet.routes.items()
    }
    return fleet.model_copy(update={"pools": pools, "routes": routes})


def _routed(
    pool: str, share: float | None, parts: Mapping[str, Mapping[str, int]]
) -> Iterator[tuple[str, float | None]]:
    counts = parts.get(pool)
    if counts is None:
        yield pool, share
        return
    total = sum(counts.values())
    for part, count in counts.items():
        if share is None:
            yield part, None
        elif count:
            yield part, share * count / total


def faults(question: Question) -> Iterator[Trouble]:
    """Pools that stand nowhere or twice, and shares that cut through a rack."""
    sites, fleet = question.sites, question.fleet
    if not sites:
        return
    shares = {name: site.share_frac for name, site in sites.items() if site.share_frac is not None}
    seen: dict[str, str] = {}
    for name, site in sites.items():
        for ix, pool in enumerate(site.pools or ()):
            if pool in seen:
                yield Trouble(
                    ("sites", name, "pools", ix),
                    f"pool {shown(pool)} stands at {shown(seen[pool])} already",
                    "name it at one site",
                )
            seen.setdefault(pool, name)
    left = [name for name in fleet.pools if name not in seen]
    if left and not shares:
        what = f"pool {shown(left[0])} stands at no site" if len(left) == 1 else f"{len(left)} pools stand at no site"
        yield Trouble(("sites",), what, "name each in the `pools` of a site, or give the sites shares")
    for name in left if shares else []:
        yield from _split_faults(name, fleet.pools[name], shares)
    yield from _far(question, seen)


def _split_faults(name: str, pool: Pool, shares: Mapping[str, float]) -> Iterator[Trouble]:
    if pool.count_range is not None:
        what = "racks to be chosen cannot be shared out over sites"
        yield Trouble(("fleet", "pools", name, "count"), what, "name the pool in the `pools` of a site")
    for site, share in shares.items():
        racks = pool.count * share
        if abs(racks - round(racks)) > _EXACT * max(1, pool.count):
            what = f"{share * 100:g} % of the {pool.count} racks of pool {shown(name)} is {racks:g} racks"
            yield Trouble(("sites", site, "share"), what, f"such as {_nearest(pool.count, share)}, or `pools`")
    for key in _COUNTED:
        if getattr(pool, key):
            what = f"it counts replicas of a pool that stands at {len(shares)} sites"
            yield Trouble(("fleet", "pools", name, key), what, "name the pool in the `pools` of a site")


def _nearest(count: int, share: float) -> str:
    return f"{max(1, round(count * share)) * 100 / count:.4g} %" if count else "100 %"


def _far(question: Question, seen: Mapping[str, str]) -> Iterator[Trouble]:
    """Prompts that are handed over from site to site need a link that someone gave."""
    if question.fleet.kv_link_bytes_per_s is not None:
        return
    for name, pool in question.fleet.pools.items():
        for ix, entry in enumerate(pool.deploy):
            other = entry.decode_pool
            if other is not None and seen.get(name) != seen.get(other):
                what = f"its prompts are handed over to pool {shown(other)} at another site"
                at = ("fleet", "pools", name, "deploy", ix, "decode_pool")
                yield Trouble(at, what, "give the link: fleet.kv_link: 12.5 GB/s")
