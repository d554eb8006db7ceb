"""The catalogue: names -> typed things, read from `data/` only when asked for, and a person's own files read alike."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from planner import yaml_tree
from planner.errors import FactError, Fault, near
from planner.facts import tables
from planner.facts.checkpoint import read_config
from planner.facts.fact import Fact
from planner.facts.headline import Headline, read_headline
from planner.facts.loose import read_loose
from planner.facts.reading import Reader
from planner.facts.schema import Chip, Engine, Model, Rack, Serving, Site
from planner.facts.things import (
    GENERAL_TABLES,
    PRICE_TABLES,
    ChipPrice,
    Facts,
    Prices,
    Source,
    build_file,
    is_file,
    read_chip,
    read_chip_price,
    read_engine,
    read_model,
    read_published,
    read_rack,
    read_serving,
    read_site,
    read_sources,
    read_table,
    read_tokens,
)
from planner.yaml_tree import Node

DATA = Path(__file__).parent / "data"
KINDS = (
    "chips",
    "racks",
    "models",
    "sites",
    "engines",
    "serving",
    "prices",
    "reliability",
    "general",
    "headline",
    "published",
    "sources",
    "traffic",
    "demand",
)
"""Folders of the catalogue, in the order in which they are listed."""
_CHECKPOINT_SUFFIXES = ("-instruct", "-thinking", "-it", "-fp8", "-2507", "-0528", "-base")

T = TypeVar("T")


@dataclass(slots=True)
class Catalog:
    """The facts below one folder. Every accessor raises `FactError` for an unknown name or a wrong file."""

    data: Path = DATA
    _cache: dict[tuple[str, str], Any] = field(default_factory=dict)

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of one kind, sorted; of `sources` the ids."""
        if kind not in KINDS:
            raise FactError(f"unknown kind of facts '{kind}'{near(kind, KINDS)}")
        if kind == "sources":
            return tuple(sorted(self.sources()))
        return tuple(sorted(path.stem for path in (self.data / kind).glob("*.yaml")))

    def chip(self, name: str, *, base: Path | None = None) -> Chip:
        """A chip by name, or a person's own file (`./my-chip.yaml`, relative to `base`)."""
        return self._thing("chips", name, read_chip, base)

    def rack(self, name: str, *, base: Path | None = None) -> Rack:
        """A rack by name, or a person's own file; its chip must be known too."""
        return self._thing("racks", name, functools.partial(read_rack, chips=self.names("chips")), base)

    def model(self, name: str, *, base: Path | None = None) -> Model:
        """A model by name, alias or checkpoint (`org/Name-Instruct`), or a file: a person's own, or a config.json."""
        if is_file(name) and name.endswith(".json"):
            return read_config(Path(name) if base is None else base / name)
        if not is_file(name) and name not in self.names("models"):
            name = self._by_checkpoint(name)
        return self._thing("models", name, read_model, base)

    def engine(self, name: str, *, base: Path | None = None) -> Engine:
        """What a serving engine reaches and adds."""
        return self._thing("engines", name, read_engine, base)

    def site(self, name: str, *, base: Path | None = None) -> Site:
        """Electricity, carbon and PUE of a place."""
        return self._thing("sites", name, read_site, base)

    def serving(self, name: str = "default") -> Serving:
        """Limits and reserves of a serving engine that a deployment does not set."""
        return self._thing("serving", name, read_serving, None)

    def finance(self) -> Facts:
        """Life, discount, upkeep, network and the like; table `tables.FINANCE`."""
        return self._thing("prices", "finance", read_table(tables.FINANCE, "prices"), None)

    def general(self) -> Facts:
        """Power, carbon and efficiency facts that belong to no one thing; tables `GENERAL`, `EFFICIENCY`."""
        power = self._thing("general", "power", read_table(tables.GENERAL, "general"), None)
        return power | self._thing("general", "efficiency", read_table(tables.EFFICIENCY, "general"), None)

    def formats(self) -> Facts:
        """Number formats: bytes per parameter, compute rate, published float form; table `tables.FORMATS`."""
        return self._thing("general", "formats", read_table(tables.FORMATS, "general"), None)

    def reliability(self) -> dict[str, Facts]:
        """Failure, repair and yield: what a run of others saw, and `defaults`; tables `tables.RELIABILITY`."""
        return {
            name: self._thing("reliability", name, read_table(keys, "reliability"), None)
            for name, keys in tables.RELIABILITY.items()
        }

    def prices(self) -> Prices:
        """Chip, data-centre and token prices."""
        chips = {name: self.chip_price(name) for name in self.names("prices") if name not in PRICE_TABLES}
        return Prices(
            chips,
            self._thing("prices", "capex-per-watt", read_table(tables.CAPEX_PER_WATT, "prices"), None),
            self._thing("prices", "tokens", read_tokens, None),
        )

    def chip_price(self, name: str) -> ChipPrice:
        """What one chip costs to own or rent."""
        return self._thing("prices", name, read_chip_price, None)

    def headline(self, name: str = "jalapeno") -> Headline:
        """The published headline figures with their conditions, checks and conflicts."""
        return self._thing("headline", name, read_headline, None)

    def published(self, vendor: str) -> tuple[Fact, ...]:
        """Serving figures that others published of a vendor's chips; groups of `tables.PUBLISHED`, none if none are."""
        found: tuple[Fact, ...] = ()
        if vendor in self.names("published"):
            found = self._thing("published", vendor, read_published, None)
        return found

    def sources(self) -> dict[str, Source]:
        """Every source by id."""
        return self._thing("sources", "bibliography", read_sources, None)

    def profile(self, name: str) -> dict[str, Any]:
        """A traffic profile: nested mappings and lists with a `Fact` wherever the file has a grade."""
        return self._thing("traffic", name, functools.partial(read_loose, kind="traffic"), None)

    def demand(self, name: str) -> dict[str, Any]:
        """Demand over days, read as a profile is."""
        return self._thing("demand", name, functools.partial(read_loose, kind="demand"), None)

    def title(self, kind: str, name: str) -> str:
        """What a file says that it is, or ''."""
        if kind == "sources":
            return self.sources()[name].title
        node = yaml_tree.read_file(self.data / kind / f"{name}.yaml", error=FactError)
        head = node.value if isinstance(node.value, dict) else {}
        return next((str(head[key].value) for key in ("title", "hf_id") if key in head), "")

    def any(self, kind: str, name: str) -> Any:
        """Whatever stands under a kind and name, for `catalog show`."""
        if kind != "models" and name not in self.names(kind):
            raise FactError(Fault(f"no {name!r} among the catalogue's {kind}" + near(name, self.names(kind))))
        by_kind: dict[str, Callable[[str], Any]] = {
            "chips": self.chip,
            "racks": self.rack,
            "models": self.model,
            "sites": self.site,
            "engines": self.engine,
            "serving": self.serving,
            "headline": self.headline,
            "published": self.published,
            "traffic": self.profile,
            "demand": self.demand,
            "sources": lambda n: self.sources()[n],
            "reliability": lambda n: self.reliability()[n],
            "general": lambda n: self._thing("general", n, read_table(GENERAL_TABLES[n], "general"), None),
            "prices": self._price,
        }
        return by_kind[kind](name)

    def _price(self, name: str) -> Any:
        if name == "finance":
            return self.finance()
        if name in PRICE_TABLES:
            return self.prices().tokens if name == "tokens" else self.prices().capex_usd_per_w
        return self.chip_price(name)

    def _thing(self, kind: str, name: str, build: Callable[[Reader, Node, str], T], base: Path | None) -> T:
        if is_file(name):
            path = Path(name) if base is None else base / name
            return build_file(yaml_tree.read_file(path, error=FactError), path.stem, build)
        found: T | None = self._cache.get((kind, name))
        if found is None:
            path = self.data / kind / f"{name}.yaml"
            if not path.is_file() or "/" in name:
                raise FactError(Fault(f"no {name!r} among the catalogue's {kind}" + near(name, self.names(kind))))
            shown = str(path.relative_to(self.data.parents[2])) if path.is_relative_to(DATA) else str(path)
            found = build_file(yaml_tree.read_file(path, name=shown, error=FactError), name, build)
            self._cache[kind, name] = found
        return found

    def _by_checkpoint(self, name: str) -> str:
        wanted = checkpoint_key(name)
        spellings: dict[str, str] = {}
        for known in self.names("models"):
            model = self._thing("models", known, read_model, None)
            variants = model.variants.value if model.variants else ()
            for spelling in (model.hf_id, *model.aliases, *(variants if isinstance(variants, tuple) else ())):
                spellings.setdefault(checkpoint_key(spelling), known)
        if wanted in spellings:
            return spellings[wanted]
        names = self.names("models")
        raise FactError(Fault(f"no {name!r} among the catalogue's models" + near(name, [*names, *spellings])))


@functools.cache
def load() -> Catalog:
    """The shipped catalogue; files are read when they are asked for."""
    return Catalog()


def read_file(path: Path | str, kind: str) -> Chip | Rack | Model | Engine | Site | Serving:
    """A person's own chip, rack, model (or config.json), engine, site or serving file, named after the file."""
    catalog = load()
    readers: dict[str, Callable[[Reader, Node, str], Any]] = {
        "chip": read_chip,
        "rack": functools.partial(read_rack, chips=catalog.names("chips")),
        "model": read_model,
        "engine": read_engine,
        "site": read_site,
        "serving": read_serving,
    }
    one = kind if kind in readers else kind.removesuffix("s")
    if one not in readers:
        raise FactError(f"a file cannot hold '{kind}'{near(kind, readers)}")
    path = Path(path)
    if one == "model" and path.suffix == ".json":
        return read_config(path)
    found: Chip | Rack | Model | Engine | Site | Serving = build_file(
        yaml_tree.read_file(path, error=FactError), path.stem, readers[one]
    )
    return found


def checkpoint_key(name: str) -> str:
    """Spellings of one checkpoint fall together: owner and training suffixes removed, lower case.

    >>> checkpoint_key("Qwen/Qwen3-30B-A3B-Instruct-2507")
    'qwen3-30b-a3b'
    """
    key = name.rsplit("/", 1)[-1].casefold()
    while (suffix := next((s for s in _CHECKPOINT_SUFFIXES if key.endswith(s) and key != s), None)) is not None:
        key = key.removesuffix(suffix)
    return key


def facts_of(thing: Any) -> dict[str, Fact]:
    """Every fact inside a thing by the path of its attribute (`scale_up.latency_s`), in the order of the schema."""
    found: dict[str, Fact] = {}

    def visit(value: Any, path: str) -> None:
        if isinstance(value, Fact):
            found[path] = value
        elif isinstance(value, dict):
            for key, child in value.items():
                visit(child, f"{path}.{key}" if path else str(key))
        elif isinstance(value, list | tuple):
            for i, child in enumerate(value):
                visit(child, f"{path}[{i}]")
        elif is_dataclass(value):
            for part in fields(value):
                visit(getattr(value, part.name), f"{path}.{part.name}" if path else part.name)

    visit(thing, "")
    return found
