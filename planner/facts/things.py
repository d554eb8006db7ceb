"""Files -> typed things: one reader for each kind of file, with the checks that span several facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from planner.errors import FactError, near
from planner.facts import schema, tables
from planner.facts.fact import Fact
from planner.facts.reading import Reader
from planner.facts.schema import Chip, Engine, Key, Model, Rack, ScaleOut, ScaleUp, Section, Serving, Site
from planner.yaml_tree import Node

T = TypeVar("T")
Facts = dict[str, Fact]
PRICE_TABLES = frozenset({"finance", "tokens", "capex-per-watt"})
GENERAL_TABLES = {"power": tables.GENERAL, "efficiency": tables.EFFICIENCY, "formats": tables.FORMATS}


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


def build_file(node: Node, name: str, build: Callable[[Reader, Node, str], T]) -> T:
    """Builds a thing from the tree of its file; raises `FactError` with every fault of the file."""
    reader = Reader(node.file)
    try:
        thing = build(reader, node, name)
    except (TypeError, KeyError):  # a needed fact is missing: said by a fault already
        if not reader.faults:
            raise
    if reader.faults:
        raise FactError(*sorted(reader.faults, key=lambda fault: (fault.line or 0, fault.col or 0)))
    return thing


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
    if is_file(chip):
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


def read_published(reader: Reader, node: Node, name: str) -> tuple[Fact, ...]:
    """Figures that others published of the chips of one vendor, whose name the file has."""
    key = tables.PUBLISHED
    _parts(reader, node, name, (), "published", ("title",), (), also=(key.key,))
    return _each(reader, node, key, f"published.{name}")


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


def is_file(name: str) -> bool:
    """The name is that of a person's own file."""
    return name.startswith(("./", "../", "/")) or name.endswith((".yaml", ".yml", ".json"))
