"""Faults that only show when sections are read together, or beside the catalogue and the files that are named."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from planner.errors import FactError, Fault, Notice, near
from planner.facts import catalog
from planner.scenario import sites
from planner.scenario.files import is_file, locate, references
from planner.scenario.schema import Question
from planner.scenario.section import Loc, Trouble, shown
from planner.scenario.tree import Tree

_MAX_REQUESTS = 1e9
_LIST = "planner catalog list shows the names"
_SUFFIXES = (".yaml", ".yml", ".json", ".csv", ".jsonl", ".parquet", ".gz", ".txt")
_KINDS = {
    "profile": ("traffic", "traffic profile", True),
    "model": ("models", "model", True),
    "rack": ("racks", "rack", True),
    "engine": ("engines", "serving engine", False),
    "site": ("sites", "site", False),
    "demand": ("demand", "demand of a service", False),
    "lengths": ("", "file of lengths", True),
}
"""Kind of reference -> the catalogue's kind, how people call it, whether it may be a file."""


def sections(data: Mapping[str, Any]) -> Iterator[Trouble]:
    """Faults between the sections of a merged scenario, as plain values; wrong shapes are another's to report."""
    traffic, fleet = _map(data, "traffic"), _map(data, "fleet")
    limits, pools = _map(data, "slo"), _map(fleet, "pools")
    deployed = {name: _deployed(pool, {"mixed", "prefill"}) for name, pool in pools.items()}
    is_open = any(_as_map(pool).get("deploy") == "any" for pool in pools.values())
    routes = _map(fleet, "routes")
    for name, found in traffic.items():
        klass = _as_map(found)
        slo, model = klass.get("slo"), klass.get("model")
        if isinstance(slo, str) and slo not in limits:
            yield Trouble(("traffic", name, "slo"), f"no limits are named {shown(slo)}{near(slo, limits)}")
        is_served = is_open or not pools or any(_is_in(model, models) for models in deployed.values())
        if isinstance(model, str) and not is_served:
            yield Trouble(
                ("traffic", name, "model"),
                f"no pool deploys {shown(model)}, which class {shown(name)} needs",
                "add {model, chips} to the `deploy` of a pool",
            )
    for name, route in routes.items():
        yield from _route(name, route, traffic, pools, deployed)
    yield from _pools_named(data, pools)
    yield from _round_trips(data, traffic)
    yield from _length(data, traffic)
    yield from _growth(data, traffic)
    yield from _by_period(data, pools)
    yield from _start(data)


def _route(
    name: str, route: Any, traffic: Mapping[str, Any], pools: Mapping[str, Any], deployed: Mapping[str, set[Any]]
) -> Iterator[Trouble]:
    loc: Loc = ("fleet", "routes", name)
    if name not in traffic:
        yield Trouble(loc, f"no class of traffic is named {shown(name)}{near(name, traffic)}")
        return
    model = _as_map(traffic[name]).get("model")
    names: list[tuple[str, Loc]] = [(route, loc)] if isinstance(route, str) else []
    if isinstance(route, (list, tuple)):
        names = [(pool, (*loc, i)) for i, pool in enumerate(route)]
    elif isinstance(route, Mapping):
        names = [(pool, (*loc, pool)) for pool in route]
    for pool, at in names:
        if isinstance(pool, str) and pool not in pools:
            yield Trouble(at, f"no pool is named {shown(pool)}{near(pool, pools)}")
        elif (
            isinstance(pool, str)
            and _as_map(pools[pool]).get("deploy") != "any"
            and not _is_in(model, deployed.get(pool, set()))
        ):
            what = f"pool {shown(pool)} does not deploy {shown(model)}, the model of class {shown(name)}"
            yield Trouble(at, what, "add it to the `deploy` of that pool, or take the pool out of the route")


def _deployed(pool: Any, roles: set[str]) -> set[Any]:
    """The models that a pool deploys in one of some roles."""
    entries = map(_as_map, _list(_as_map(pool), "deploy"))
    return {str(entry.get("model")) for entry in entries if _is_in(entry.get("role", "mixed"), roles)}


def _decodes(pool: Any, model: Any) -> bool:
    return _as_map(pool).get("deploy") == "any" or _is_in(model, _deployed(pool, {"mixed", "decode"}))


def _is_in(name: Any, names: Collection[str]) -> bool:
    """Whether `name` is one of the names; what is no text at all is none."""
    return isinstance(name, str) and name in names


def _pools_named(data: Mapping[str, Any], pools: Mapping[str, Any]) -> Iterator[Trouble]:
    for name, pool in pools.items():
        for i, deploy in enumerate(_list(_as_map(pool), "deploy")):
            target, model = _as_map(deploy).get("decode_pool"), _as_map(deploy).get("model")
            loc = ("fleet", "pools", name, "deploy", i, "decode_pool")
            if isinstance(target, str) and target not in pools:
                yield Trouble(loc, f"no pool is named {shown(target)}{near(target, pools)}")
            elif isinstance(target, str) and not _decodes(pools[target], model):
                what = f"pool {shown(target)} does not decode {shown(model)}"
                yield Trouble(loc, what, "deploy the model there, with role: decode or without a role")
    for site, found in _map(data, "sites").items():
        for i, name in enumerate(_list(_as_map(found), "pools")):
            if isinstance(name, str) and name not in pools:
                yield Trouble(("sites", site, "pools", i), f"no pool is named {shown(name)}{near(name, pools)}")


def _round_trips(data: Mapping[str, Any], traffic: Mapping[str, Any]) -> Iterator[Trouble]:
    """Ways to a site of classes that do not exist."""
    places: list[tuple[Loc, Mapping[str, Any]]] = [(("site",), _map(data, "site"))]
    places += [(("sites", name), _as_map(site)) for name, site in _map(data, "sites").items()]
    for loc, site in places:
        named = _map(site, "round_trip_by_class")
        if "round_trip" in site and traffic and traffic.keys() <= named.keys():
            yield Trouble((*loc, "round_trip"), "every class has its own in `round_trip_by_class`", "take it away")
        for name in named:
            if name not in traffic:
                what = f"no class of traffic is named {shown(name)}{near(str(name), traffic)}"
                yield Trouble((*loc, "round_trip_by_class", name), what)


def _length(data: Mapping[str, Any], traffic: Mapping[str, Any]) -> Iterator[Trouble]:
    if "length" in _map(data, "run"):
        return
    classes = {name: _as_map(klass) for name, klass in traffic.items()}
    if classes and not any("trace" in klass for klass in classes.values()):
        yield Trouble(("run",), "length is missing", "no class has a trace that gives it: write run: {length: 30 min}")
    for name, klass in classes.items():
        if str(klass.get("repeat")).lower() == "true":
            yield Trouble(
                ("traffic", name, "repeat"), "repeat has no effect here", "it fills run.length: write that too"
            )


def _start(data: Mapping[str, Any]) -> Iterator[Trouble]:
    """A begin of the run that no table over time reads."""
    sites = [_map(data, "site"), *map(_as_map, _map(data, "sites").values())]
    is_read = any(
        table in site for site in sites for table in ("power_price_by_hour", "carbon_by_hour", "pue_by_month")
    )
    if "start" in _map(data, "run") and not is_read:
        what = "no price, carbon or PUE of the site differs by hour or month"
        yield Trouble(("run", "start"), "start has no effect here", what)


def _growth(data: Mapping[str, Any], traffic: Mapping[str, Any]) -> Iterator[Trouble]:
    seen: set[str] = set()
    for i, period in enumerate(_list(data, "periods")):
        name = _as_map(period).get("name")
        if isinstance(name, str) and name in seen:
            yield Trouble(("periods", i, "name"), f"two periods are named {shown(name)}", "name each once")
        seen.add(str(name))
        for klass in _map(_as_map(period), "growth"):
            if klass not in traffic:
                what = f"no class of traffic is named {shown(klass)}{near(klass, traffic)}"
                yield Trouble(("periods", i, "growth", klass), what)


def _by_period(data: Mapping[str, Any], pools: Mapping[str, Any]) -> Iterator[Trouble]:
    """Values by period for periods that there are not."""
    known = [str(_as_map(period).get("name")) for period in _list(data, "periods")] or ["plan"]
    tables: list[tuple[Loc, Mapping[str, Any]]] = [(("goal", "budget"), _map(_map(data, "goal"), "budget"))]
    for name, pool in pools.items():
        tables += [(("fleet", "pools", name, key), _map(_as_map(pool), key)) for key in ("retire", "deliveries")]
    for loc, table in tables:
        if "value" in table:
            continue  # a quantity in its long form
        for period in table:
            if period not in known:
                what = f"no period is named {shown(period)}{near(str(period), known)}"
                way_out = "" if "periods" in data else "without periods the only one is `plan`"
                yield Trouble((*loc, period), what, way_out)


def names(tree: Tree, base_dir: Path) -> Iterator[Trouble | Fault]:
    """Faults of the names and files that a scenario refers to, and of what a person's own files hold."""
    shelf = catalog.load()
    for path, reference in references(tree):
        kind, noun, may_be_file = _KINDS[reference.kind]
        text = reference.text
        if is_file(text) and not may_be_file:
            yield Trouble(path, f"{shown(text)} is a file where the name of a {noun} is meant", _LIST)
        elif is_file(text):
            missing = list(_file(path, text, noun, base_dir))
            yield from missing or _inside(reference.kind, text, base_dir)
        elif not kind:
            yield Trouble(path, f"{shown(text)} is no file", f"a file is written ./{text.lstrip('/')}")
        else:
            known = shelf.names(kind)
            if text not in known:
                what = f"no {noun} is named {shown(text)}"
                if may_be_file and ("/" in text or text.endswith(_SUFFIXES)):
                    yield Trouble(path, what, f"a file is written ./{text}")
                else:
                    yield Trouble(path, what + near(text[:100], known))


def _file(path: Loc, text: str, noun: str, base_dir: Path) -> Iterator[Trouble]:
    where = locate(text, base_dir)
    if not isinstance(where, Path):
        return
    try:
        if where.is_dir():
            yield Trouble(path, f"{shown(text)} is a folder, not the file of a {noun}", "name one file in it")
        elif not where.exists():
            siblings = [f"./{p.name}" for p in where.parent.iterdir() if p.is_file()] if where.parent.is_dir() else []
            hint = near(text, siblings) if siblings else f"; it is looked for as {where}"
            yield Trouble(path, f"no such file: {shown(text)}{hint}")
    except (OSError, ValueError) as error:
        yield Trouble(path, f"{shown(text)} cannot be read", str(getattr(error, "strerror", error)).lower())


def _inside(kind: str, text: str, base_dir: Path) -> Iterator[Fault]:
    """Faults of the facts in a person's own file."""
    shelf = catalog.load()
    read = {"rack": shelf.rack, "model": shelf.model}.get(kind)
    if read is not None:
        try:
            read(text, base=base_dir)
        except FactError as error:
            yield from error.faults


def values(question: Question) -> Iterator[Trouble]:
    """Faults between values of different sections, once all of them are right by themselves."""
    yield from sites.faults(question)
    length_s = question.run.length_s
    for name, klass in question.traffic.items() if question.run.split_s is not None else ():
        if klass.arrivals == "closed":
            what = "a closed loop cannot be cut in time: what its clients are at hangs on all that was before"
            way_out = "take run.split away: run.seeds of a shorter run tell as much of a load that never changes, and "
            way_out += "fleet.cell_replicas cuts the fleet instead"
            yield Trouble(("traffic", name, "arrivals"), what, way_out)
    for name, klass in question.traffic.items():
        if klass.rate_req_per_s is not None and length_s is not None:
            expected = klass.rate_req_per_s * length_s
            if expected > _MAX_REQUESTS:
                yield Trouble(
                    ("traffic", name, "rate"),
                    f"rate x run.length is {expected:.2g} requests a seed",
                    f"at most {_MAX_REQUESTS:.0e} are simulated: shorten the run",
                )

    for name, klass in question.traffic.items():
        limits = question.slo[klass.slo].limits if klass.slo in question.slo else ()
        if any(limit.metric == "task" for limit in limits) and klass.sessions is None and klass.agents is None:
            what = f"{shown(klass.slo)} limits task, and the class has neither sessions nor agents"
            yield Trouble(("traffic", name, "slo"), what, "limit e2e, or say of what tasks consist")
    if question.fleet.router.rejects and not any(
        limit.metric == "ttft" for k in question.traffic.values() if k.slo for limit in question.slo[k.slo].limits
    ):
        what = "rejects has no effect here"
        yield Trouble(("fleet", "router", "rejects"), what, "no class has a limit on ttft that a request could miss")


def notices(question: Question) -> Iterator[Notice]:
    """What stands in the scenario and serves nothing: no fault, since a variant may use it, but worth saying."""
    used = {klass.slo for klass in question.traffic.values()}
    for name in question.slo:
        if name not in used:
            yield Notice("slo_unused", f"no class uses the limits {shown(name)}")
    models = {klass.model for klass in question.traffic.values()}
    for name, pool in question.fleet.pools.items():
        if pool.deploy and not any(deploy.model in models for deploy in pool.deploy):
            yield Notice("pool_unused", f"pool {shown(name)} serves no class; its racks are billed and powered")


def _as_map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _map(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return _as_map(data.get(key))


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []
