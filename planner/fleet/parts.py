"""Parts of a simulation: the tables of some of its cells, and how they travel and are kept as bytes.

A packed part is one line of JSON (what it is, the digest of the rest) and the tables as Arrow streams one after the
other. `unpack` refuses what was torn or altered.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from planner import core
from planner.errors import Notice
from planner.fleet import draws
from planner.fleet.draws import DrawnFacts
from planner.traffic.streamed import Seen

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "planner.part/3"
_TABLES = ("classes", "class_windows", "placed", "work", "sketches", "requests", "timeline", "batches")


@dataclass(frozen=True, slots=True)
class Part:
    """The tables of some cells of a simulation, merged."""

    inputs: str
    """Digest of the question that it belongs to."""
    stage: str
    """The list of work that it belongs to: a run has one for what is asked, others for what is found out after that."""
    simulation: int
    """Its place in that list."""
    seed: int
    cells: tuple[int, ...]
    facts: DrawnFacts
    """Of the requests of the whole simulation; `seen` is of these cells."""
    tables: core.CellTables


class Damaged(Exception):
    """The bytes are no part, or were torn or altered."""


def merge(parts: Sequence[Part]) -> Part:
    """Some parts of one simulation as one, whatever their order."""
    if len(parts) == 1:
        return parts[0]
    cells = tuple(sorted(cell for part in parts for cell in part.cells))
    facts = draws.joined([part.facts for part in parts])
    return replace(parts[0], cells=cells, facts=facts, tables=core.merge([part.tables for part in parts]))


def pack(part: Part) -> bytes:
    """A part as bytes."""
    frames = {name: frame for name in _TABLES if (frame := getattr(part.tables, name)) is not None}
    bodies = {name: _written(frame) for name, frame in frames.items()}
    body = b"".join(bodies.values())
    about = {
        "schema": SCHEMA,
        "inputs": part.inputs,
        "core": made_by(),
        "stage": part.stage,
        "simulation": part.simulation,
        "seed": part.seed,
        "cells": part.cells,
        "facts": asdict(part.facts),
        "n_events": part.tables.n_events,
        "tables": {name: len(written) for name, written in bodies.items()},
    }
    return _sealed(about, body)


def _sealed(about: dict[str, Any], body: bytes) -> bytes:
    text = json.dumps(about, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(text.encode() + b"\n" + body).hexdigest()
    return f'{{"sha256":"{digest}","part":{text}}}\n'.encode() + body


def unpack(packed: bytes) -> Part:
    """The part that was packed. Raises `Damaged`."""
    about, body = opened(packed)
    import polars as pl

    frames: dict[str, pl.DataFrame] = {}
    at = 0
    for name, size in about["tables"].items():
        frames[name] = pl.read_ipc_stream(io.BytesIO(body[at : at + size]))
        at += size
    facts = about["facts"]
    known = DrawnFacts(
        length_ns=facts["length_ns"],
        failed_rows=facts["failed_rows"],
        notices=tuple(Notice(n["code"], n["message"]) for n in facts["notices"]),
        block_tokens=facts["block_tokens"],
        n_requests=tuple(facts["n_requests"]),
        shortest_kv_tokens=tuple(facts["shortest_kv_tokens"]),
        is_sampled=facts["is_sampled"],
        seen=tuple(Seen(**each) for each in facts["seen"]),
    )
    tables = core.CellTables(
        **{name: frames.get(name) for name in _TABLES},  # type: ignore[arg-type]
        n_events=about["n_events"],
    )
    where = (about["inputs"], about["stage"], about["simulation"], about["seed"], tuple(about["cells"]))
    return Part(*where, known, tables)


def opened(packed: bytes) -> tuple[dict[str, Any], bytes]:
    """What a packed part says of itself, and its tables, once the digest was found right. Raises `Damaged`."""
    line, _, body = packed.partition(b"\n")
    head, _, text = line.partition(b',"part":')
    try:
        said = json.loads(head + b"}")["sha256"]
    except (ValueError, KeyError, TypeError):
        raise Damaged("it does not begin as a part does") from None
    if said != hashlib.sha256(text[:-1] + b"\n" + body).hexdigest() or text[-1:] != b"}":
        raise Damaged("its content does not have the digest that was written with it")
    about: dict[str, Any] = json.loads(text[:-1])
    if about.get("schema") != SCHEMA:
        raise Damaged(f"it is of another version: {about.get('schema')}")
    return about, body


def about(packed: bytes) -> dict[str, Any]:
    """What a packed part that was just made says of itself."""
    found: dict[str, Any] = json.loads(packed[: packed.index(b"\n")])["part"]
    return found


def made_by() -> str:
    """Version and fingerprint of the core."""
    info = core.build_info()
    return f"{info['version']} {info['sources'][:16]}"


def _written(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.rechunk().write_ipc_stream(file, compression="zstd")
    return file.getvalue()
