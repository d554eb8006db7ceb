"""The catalogue: names -> typed things, read from `data/` only when asked for, and a person's own files read alike."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from planner import yaml_tree
from planner.errors import FactError, Fault, near
from planner.facts import schema, tables
from planner.facts.fact import Fact
from planner.facts.headline import Headline, read_headline
from planner.facts.loose import read_loose
from planner.facts.reading import Reader
from planner.facts.schema import Chip, Engine, Key, Model, Rack, ScaleOut, ScaleUp, Section, Serving, Site
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
    "sources",
    "traffic",
    "demand",
)
"""Folders of the catalogue, in the order in which they are listed."""
_CHECKPOINT_SUFFIXES = ("-instruct", "-thinking", "-it", "-fp8", "-2507", "-0528", "-base")

T = TypeVar("T")
Facts = dict[str, Fact]


@dataclass(frozen=True, slots=True)
class Source:
    """Where facts come from; `read` says how much of it was read: full, table, abstract, excerpt, no."""

    name: str
    title: str
    where: str
    kind: str
    read: str
    date: str
    note: str


@dataclass(frozen=True, slots=True)
class ChipPrice:
    """What a chip costs to own or rent; table `tables.CHIP_PRICE`. A missing key means no figure was found."""

    name: str
    facts: Facts
    rental_observed: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Prices:
    """All money facts but finance: per chip, capital cost per watt, token list prices."""

    chips: Mapping[str, ChipPrice]
    capex_usd_per_w: Facts
    tokens: tuple[Fact, ...]


@dataclass(slots=True)
class Catalog:
    """The facts below one folder. Every accessor raises `FactError` for an unknown name or a wrong file."""

    data: Path = DATA
    _cache: dict[tuple[str, str], Any] = field(default_factory=dict)

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of one kind, sorted."""
        if kind not in KINDS:
            raise FactError(f"unknown kind of facts '{kind}'{near(kind, KINDS)}")
        return tuple(sorted(path.stem for path in (self.data / kind).glob("*.yaml")))

    def chip(self, name: str, *, base: Path | None = None) -> Chip:
        """A chip by name, or a person's own file (`./my-chip.yaml`, relative to `base`)."""
        return self._thing("chips", name, read_chip, base)

    def rack(self, name: str, *, base: Path | None = None) -> Rack:
        """A rack by name, or a person's own file; its chip must be known too."""
        return self._thing("racks", name, functools.partial(read_rack, chips=self.names("chips")), base)

    def model(self, name: str, *, base: Path | None = None) -> Model:
        """A model by name, alias or checkpoint (`org/Name-Instruct`), or a person's own file."""
        if not _is_file(name) and name not in self.names("models"):
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
        chips = {name: self.chip_price(name) for name in self.names("prices") if name not in _PRICE_TABLES}
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

    def sources(self) -> dict[str, Source]:
        """Every source by id."""
        return self._thing("sources", "bibliography", read_sources, None)

    def profile(self, name: str) -> dict[str, Any]:
        """A traffic profile: nested mappings and lists with a `Fact` wherever the file has a grade."""
        return self._thing("traffic", name, read_loose, None)

    def demand(self, name: str) -> dict[str, Any]:
        """Demand over days, read as a profile is."""
        return self._thing("demand", name, read_loose, None)

    def any(self, kind: str, name: str) -> Any:
        """Whatever stands under a kind and name, for `catalog show`."""
        if name not in self.names(kind) and kind != "models":
            raise FactError(Fault(f"no {name!r} among {kind}" + near(name, self.names(kind))))
        by_kind: dict[str, Callable[[str], Any]] = {
            "chips": self.chip,
            "racks": self.rack,
            "models": self.model,
            "sites": self.site,
            "engines": self.engine,
            "serving": self.serving,
            "headline": self.headline,
            "traffic": self.profile,
            "demand": self.demand,
            "sources": lambda _: self.sources(),
            "reliability": lambda n: self.reliability()[n],
            "general": lambda n: self._thing("general", n, read_table(_GENERAL_TABLES[n], "general"), None),
            "prices": self._price,
        }
        return by_kind[kind](name)

    def _price(self, name: str) -> Any:
        if name == "finance":
            return self.finance()
        if name in _PRICE_TABLES:
            return self.prices().tokens if name == "tokens" else self.prices().capex_usd_per_w
        return self.chip_price(name)

    def _thing(self, kind: str, name: str, build: Callable[[Reader, Node, str], T], base: Path | None) -> T:
        if _is_file(name):
            path = Path(name) if base is None else base / name
            return build_file(yaml_tree.read_file(path, error=FactError), path.stem, build)
        found: T | None = self._cache.get((kind, name))
        if found is None:
            path = self.data / kind / f"{name}.yaml"
            if name not in self.names(kind):
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
    """A person's own chip, rack, model, engine, site or serving file, named after the file."""
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


def build_file(node: Node, name: str, build: Callable[[Reader, Node, str], T]) -> T:
    """Builds a thing from the tree of its file; raises `FactError` with every fault of the file."""
    reader = Reader(node.file)
    try:
        thing = build(reader, node, name)
    except (TypeError, KeyError):  # a needed fact is missing: said by a fault already
        if not reader.faults:
            raise
        raise FactError(*reader.faults) from None
    if reader.faults:
        raise FactError(*reader.faults)
    return thing


# -- one reader for each kind of file ----------------------------------------------------------------------------------


def read_chip(reader: Reader, node: Node, name: str) -> Chip:
    """A chip; its dense rates must stand in the ratios that dense rates have."""
    facts, texts = _parts(reader, node, name, schema.CHIP, "chips", ("title",), ("vendor", "status", "engine"))
    flops = facts.get("flop_per_s", {})
    _check_ratios(reader, node, flops)
    for section, cls in (("scale_up", ScaleUp), ("scale_out", ScaleOut)):
        facts[section] = cls(**facts[section])
    return Chip(name=name, **facts, **{key: text for key, text in texts.items() if text or key == "title"})


def read_rack(reader: Reader, node: Node, name: str, *, chips: Sequence[str] = ()) -> Rack:
    """A rack; its chip is a catalogue name or a file beside it."""
    facts, texts = _parts(reader, node, name, schema.RACK, "racks", ("title", "chip"), ())
    chip = texts["chip"]
    if _is_file(chip):
        texts["chip"] = str(Path(node.file).parent / chip)
    elif chip and chips and chip not in chips and isinstance(node.value, dict):
        reader.fault(node.value["chip"], f"no chip '{chip}' in the catalogue{near(chip, chips)}", path="chip")
    for low, high in (("idle", "typical"), ("typical", "rated")):
        _check_order(reader, node, facts, low, high)
    return Rack(name=name, **facts, **texts)


def read_model(reader: Reader, node: Node, name: str) -> Model:
    """A model."""
    facts, texts = _parts(reader, node, name, schema.MODEL, "models", (), ("hf_id",), also=("aliases",))
    items = node.value if isinstance(node.value, dict) else {}
    aliases = reader.texts(items["aliases"], "aliases") if "aliases" in items else ()
    if {"n_kv_heads", "head_dim"} - facts.keys() and "mla" not in facts:
        reader.fault(node, "missing 'kv_heads' and 'head_dim', or 'mla'", "say how keys and values are kept")
    return Model(name=name, aliases=aliases, **facts, **texts)


def read_engine(reader: Reader, node: Node, name: str) -> Engine:
    """Engine facts."""
    facts, texts = _parts(reader, node, name, schema.ENGINE, "engines", ("title",), ())
    return Engine(name=name, **facts, **texts)


def read_serving(reader: Reader, node: Node, name: str) -> Serving:
    """Serving defaults."""
    facts, texts = _parts(reader, node, name, schema.SERVING, "serving", ("title",), ())
    return Serving(name=name, **facts, **texts)


def read_site(reader: Reader, node: Node, name: str) -> Site:
    """A site."""
    facts, texts = _parts(reader, node, name, schema.SITE, "sites", ("title",), ())
    return Site(name=name, **facts, **texts)


def read_table(keys: Sequence[Key | Section], kind: str) -> Callable[[Reader, Node, str], Facts]:
    """A reader of a table of facts: attribute -> Fact, nested ones with a dotted attribute."""

    def read(reader: Reader, node: Node, name: str) -> Facts:
        facts, _ = _parts(reader, node, name, keys, kind, ("title",), ())
        flat: Facts = {}
        for attr, value in facts.items():
            if isinstance(value, dict):
                flat.update({f"{attr}.{inner}": fact for inner, fact in value.items()})
            else:
                flat[attr] = value
        return flat

    return read


def read_chip_price(reader: Reader, node: Node, name: str) -> ChipPrice:
    """Prices of one chip."""
    key = tables.RENTAL
    facts, _ = _parts(reader, node, name, tables.CHIP_PRICE, "prices", ("title",), (), also=(key.key,))
    observed = _each(reader, node, key, f"prices.{name}")
    return ChipPrice(name, facts, observed)


def read_tokens(reader: Reader, node: Node, name: str) -> tuple[Fact, ...]:
    """Token list prices."""
    key = tables.TOKEN_PRICE
    _parts(reader, node, name, (), "prices", ("title",), (), also=(key.key,))
    return _each(reader, node, key, f"prices.{name}")


def read_sources(reader: Reader, node: Node, name: str) -> dict[str, Source]:
    """The bibliography."""
    found: dict[str, Source] = {}
    items = node.value if isinstance(node.value, dict) else {}
    for key, child in items.items():
        if key in {"schema", "title"}:
            continue
        fields = ("title", "where", "kind", "read")
        texts = {part: reader.text(child, part, is_needed=True, path=key) for part in fields}
        extra = {part: reader.text(child, part, path=key) for part in ("date", "note")}
        found[key] = Source(name=key, **texts, **extra)
    return found


_PRICE_TABLES = frozenset({"finance", "tokens", "capex-per-watt"})
_GENERAL_TABLES = {"power": tables.GENERAL, "efficiency": tables.EFFICIENCY, "formats": tables.FORMATS}


def _parts(
    reader: Reader,
    node: Node,
    name: str,
    keys: Sequence[Key | Section],
    kind: str,
    needed: Sequence[str],
    optional: Sequence[str],
    also: Sequence[str] = (),
) -> tuple[dict[str, Any], dict[str, Any]]:
    heads = ("schema", *needed, *optional)
    facts: dict[str, Any] = reader.section(node, keys, path="", home=f"{kind}.{name}", also=(*heads, *also))
    _check_schema(reader, node, kind)
    texts: dict[str, Any] = {key: reader.text(node, key, is_needed=True) for key in needed}
    texts |= {key: reader.text(node, key) for key in optional}
    return facts, texts


def _check_schema(reader: Reader, node: Node, kind: str) -> None:
    said = reader.text(node, "schema")
    if said and said != f"{kind}/1" and isinstance(node.value, dict):
        reader.fault(node.value["schema"], f"the file says '{said}'", f"here '{kind}/1' is read", path="schema")


def _each(reader: Reader, node: Node, key: Key, home: str) -> tuple[Fact, ...]:
    items = node.value if isinstance(node.value, dict) else {}
    child = items.get(key.key)
    if child is None:
        return ()
    if not isinstance(child.value, list):
        reader.fault(child, f"'{key.key}' is not a list", path=key.key)
        return ()
    return tuple(
        reader.fact(one, key, path=f"{key.key}[{i}]", home=f"{home}.{key.attr}[{i}]")
        for i, one in enumerate(child.value)
    )


def _check_ratios(reader: Reader, node: Node, flops: Mapping[str, Fact]) -> None:
    """Dense rates double with each halving of width (FP4 may be three times FP8); four times means a sparse figure."""
    rates = {name: fact.used for name, fact in flops.items()}
    section = node.value["flops_dense"].value if isinstance(node.value, dict) and "flops_dense" in node.value else None
    items = section if isinstance(section, dict) else {}

    def check(top: str, below: str, right: Sequence[float], words: str) -> None:
        high, low = rates.get(top), rates.get(below)
        if not isinstance(high, int | float) or not isinstance(low, int | float) or low <= 0:
            return
        ratio = high / low
        if not any(abs(ratio / r - 1) <= 0.02 for r in right):
            way_out = "a data sheet that prints sparse figures shows twice the dense ones; write the dense rate"
            reader.fault(items[top], f"{top} is {ratio:.3g} x {below}, not {words}", way_out, path=f"flops_dense.{top}")

    fp8 = flops.get("fp8")
    has_no_native_fp8 = fp8 is not None and "same rate as bf16" in fp8.note
    check("fp8", "bf16", (1,) if has_no_native_fp8 else (2,), "1 as its note says" if has_no_native_fp8 else "2")
    if isinstance(rates.get("fp8"), int | float):
        check("fp4", "fp8", (2, 3), "2 or 3")
    else:
        check("fp4", "bf16", (4, 6), "4 or 6")


def _check_order(reader: Reader, node: Node, facts: Mapping[str, Any], low: str, high: str) -> None:
    below, above = facts.get(f"{low}_w"), facts.get(f"{high}_w")
    if below is None or above is None or not isinstance(node.value, dict):
        return
    if isinstance(below.used, int | float) and isinstance(above.used, int | float) and below.used > above.used:
        reader.fault(node.value[low], f"{low} power is above {high} power", path=low)


def _is_file(name: str) -> bool:
    return name.startswith(("./", "../", "/")) or name.endswith((".yaml", ".yml"))
