"""Small purchases as plain numbers: random ones for agreement with brute force, and one large one of the bench."""

from __future__ import annotations

import random
from dataclasses import replace

from planner.optimize.instance import Instance, Kind, Option, Place, Span, Way
from planner.optimize.why import at_demand


def small(seed: int) -> Instance:
    """Up to 4 kinds of racks, counts up to 4, one span, one to three classes; some cannot be served at all."""
    draw = random.Random(seed)
    n_kinds, n_classes = draw.randint(1, 4), draw.randint(1, 3)
    classes = [f"c{ix}" for ix in range(n_classes)]
    kinds = []
    for k in range(n_kinds):
        options = [Option("a", 4, parked_w=draw.choice([0.0, 50.0])), Option("b", 8)][: draw.randint(1, 2)]
        if draw.random() < 0.4:
            options = [Option("f", 8, per_rack=draw.randint(1, 3))]
        kinds.append(
            Kind(
                name=f"k{k}",
                domains=draw.choice([(8,), (8, 8), (12,)]),
                options=tuple(options),
                rated_w=draw.choice([10e3, 25e3]),
                rest_w=3e3,
                capex_usd=draw.uniform(1e5, 1e6),
                new_usd_per_year={"racks": draw.uniform(2e4, 3e5), "upkeep": 1e4},
                owned_usd_per_year={"upkeep": 1e4},
                existing=(draw.choice([0, 0, 1]),),
                least=0,
                most=draw.randint(1, 4 if n_kinds < 4 else 2),
                vendor=draw.choice(["x", "y"]),
            )
        )
    ways = []
    for name in classes:
        for k, kind in enumerate(kinds):
            for o, option in enumerate(kind.options):
                if draw.random() < 0.7:
                    takes = ((k, o, 1 / draw.uniform(2.0, 20.0)),)
                    ways.append(Way(f"{name} on {kind.name} {option.name}", name, takes, ((k, draw.uniform(1, 50)),)))
    demand = {name: draw.uniform(1.0, 30.0) for name in classes}
    mean = {name: value * 0.6 for name, value in demand.items()}
    return Instance(
        kinds=tuple(kinds),
        ways=tuple(ways),
        spans=(Span("now", 0.0, 4.0, 3.2, demand, mean),),
        places=(Place(power_w=draw.choice([None, 60e3, 100e3]), usd_per_kwh=0.1, kgco2e_per_kwh=0.3),),
        spare_frac=draw.choice([0.0, 0.1]),
        budget_usd=draw.choice([None, 2e6]),
        racks_down=0,
    )


def scaled(instance: Instance, factor: int) -> Instance:
    """So many times the demand, power, racks and deliveries."""
    kinds = tuple(
        replace(
            kind,
            most=kind.most * factor,
            most_bought=tuple(None if n is None else n * factor for n in kind.most_bought),
        )
        for kind in instance.kinds
    )
    places = tuple(
        replace(place, power_w=None if place.power_w is None else place.power_w * factor) for place in instance.places
    )
    return replace(at_demand(instance, factor), kinds=kinds, places=places)


def large(n_kinds: int = 6, n_classes: int = 12, n_spans: int = 8, n_places: int = 2, seed: int = 1) -> Instance:
    """Growth over some years at several sites, every kind able to serve most classes; supply and power bind."""
    draw = random.Random(seed)
    classes = [f"m{ix // 3}.tier{ix % 3}" for ix in range(n_classes)]
    places = tuple(
        Place(f"site{p}", power_w=6e6, usd_per_kwh=0.06 + 0.03 * p, kgco2e_per_kwh=0.3) for p in range(n_places)
    )
    base = [(draw.uniform(0.4e6, 3.5e6), draw.choice([8, 64, 72]), draw.uniform(0.8, 2.5)) for _ in range(n_kinds)]
    speed = [[draw.uniform(0.5, 1.5) for _ in range(n_classes)] for _ in range(n_kinds)]
    kinds, ways = [], []
    for p, place in enumerate(places):
        for b, (capex, chips, each) in enumerate(base):
            k = len(kinds)
            options = tuple(Option(f"m{m}", 8 if chips > 8 else 4, parked_w=200.0) for m in range(n_classes // 3))
            kinds.append(
                Kind(
                    name=f"kind{b}.{place.name}",
                    domains=(chips,),
                    options=options,
                    site=place.name,
                    rated_w=chips * 1.5e3,
                    rest_w=chips * 0.4e3,
                    capex_usd=capex,
                    new_usd_per_year={"racks": capex * 0.25, "upkeep": capex * 0.05},
                    owned_usd_per_year={"upkeep": capex * 0.05},
                    existing=tuple([2 if b == 0 and p == 0 else 0] * n_spans),
                    most=60,
                    first_span=2 if b == 3 else 0,
                    most_bought=tuple([12] * n_spans),
                )
            )
            for c, name in enumerate(classes):
                if draw.random() < 0.8:
                    per_replica = 20 * each * speed[b][c] * (1.0, 0.5, 0.25)[c % 3] * capex / chips / 2e4
                    ways.append(Way(f"{name}@{k}", name, ((k, c // 3, 1 / per_replica),), ((k, 40.0),)))
    spans = []
    weight = 1.0
    for t in range(n_spans):
        growth = 1.0 + 0.35 * t
        demand = {name: (60.0 + 25 * (c % 5)) * growth for c, name in enumerate(classes)}
        weight /= 1.045
        spans.append(
            Span(f"h{t}", t / 2, (t + 1) / 2, weight / 2, demand, {name: v * 0.6 for name, v in demand.items()})
        )
    return Instance(tuple(kinds), tuple(ways), tuple(spans), places, spare_frac=0.05)
