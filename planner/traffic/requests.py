"""The road from a scenario's classes to the requests that are simulated."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, Notice, TrafficError
from planner.facts import catalog
from planner.scenario.files import is_file
from planner.scenario.schema import Scenario, TrafficClass
from planner.traffic import blocks, chains, profiles, recorded, synthetic, transform
from planner.traffic.offered import ClassTraffic, ScenarioTraffic, merged

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ClassTraffic", "ScenarioTraffic", "class_key", "for_class", "for_class_sample", "for_scenario"]

_COLUMNS = ("arrival_ns", "input_tokens", "output_tokens")
_SAMPLED = 10_000
_NO_LAW: dict[str, Any] = {"burstiness": None, "burst": None, "regions": {}}


def for_scenario(scenario: Scenario, seed: int, *, prefixes: bool = False) -> ScenarioTraffic:
    """All requests of `scenario` under `seed`, with the blocks of their prompts if `prefixes` are asked for.

    A class's requests depend on its own section, its name and the seed. Without `run.length` the run is as long as
    the longest trace.

    Raises:
        TrafficError: a trace cannot be used, two traces have blocks of unlike sizes, or no length is known.
    """
    asked_ns = None if scenario.run.length_s is None else round(scenario.run.length_s * 1e9)
    made: dict[str, ClassTraffic] = {}
    block_tokens = None
    has_sessions = any(cls.sessions or cls.agents for cls in scenario.traffic.values())
    drawn_tokens = blocks.SESSION_BLOCK_TOKENS if has_sessions else blocks.GROUP_BLOCK_TOKENS
    # Classes with a trace first: the others last as long as the longest of them, and take their size of blocks.
    for name, cls in sorted(scenario.traffic.items(), key=lambda item: item[1].trace is None):
        length_ns = asked_ns
        if length_ns is None and cls.trace is None:
            length_ns = max((c.span_ns for c in made.values()), default=None)
            if length_ns is None:
                raise TrafficError(
                    Fault("no class has a trace that gives the length", "write run: {length: 30 min}", path="run")
                )
        made[name] = for_class(
            cls,
            name=name,
            seed=seed,
            length_ns=length_ns,
            base_dir=scenario.base_dir,
            prefixes=prefixes,
            block_tokens=block_tokens or drawn_tokens,
        )
        found = made[name].block_tokens
        if found and block_tokens not in (None, found):
            what = f"its prefixes are in blocks of {found} tokens, those of another trace in blocks of {block_tokens}"
            raise TrafficError(Fault(what, "set prefix_cache: false, or take one away", path=f"traffic.{name}.trace"))
        block_tokens = found or block_tokens
    classes = {name: made[name] for name in scenario.traffic}
    length_ns = asked_ns if asked_ns is not None else max(c.span_ns for c in classes.values())
    frame, runs = merged(list(classes.values()))
    return ScenarioTraffic(frame, length_ns, classes, runs, block_tokens)


def for_class(
    cls: TrafficClass,
    *,
    name: str,
    seed: int,
    length_ns: int | None,
    base_dir: Path = Path(),
    prefixes: bool = False,
    block_tokens: int = blocks.GROUP_BLOCK_TOKENS,
) -> ClassTraffic:
    """The requests of class `name`: drawn, realised from a profile, or read from a trace and reshaped.

    `length_ns` cuts arrivals (that instant included); None keeps a trace's whole span. Sessions that start by then
    are whole. `prefixes` asks for the blocks of the prompts, drawn ones of `block_tokens` each.

    Raises:
        TrafficError: the trace cannot be used, or the class is drawn and no length is given.
    """
    if cls.trace is None:
        made = _drawn(cls, name=name, seed=seed, length_ns=length_ns, base_dir=base_dir)
    elif is_file(cls.trace):
        made = _recorded(cls, name=name, seed=seed, length_ns=length_ns, base_dir=base_dir, prefixes=prefixes)
    else:
        made = _profiled(cls, name=name, seed=seed, length_ns=length_ns, base_dir=base_dir)
    return _with_prefixes(made, cls, name=name, seed=seed, block_tokens=block_tokens) if prefixes else made


def _with_prefixes(made: ClassTraffic, cls: TrafficClass, *, name: str, seed: int, block_tokens: int) -> ClassTraffic:
    """The traffic with the blocks of its prompts, where something is known of them."""
    key = class_key(name)
    if "hash_ids" in made.frame.columns:
        if cls.prefix_reuse_frac is not None:
            what = "the trace says which prompts repeat which"
            raise TrafficError(Fault(what, "take prefix_reuse away", path=f"traffic.{name}.prefix_reuse"))
        return replace(made, frame=_plain(made.frame), runs=blocks.of_trace(made.frame))
    if cls.prefix_reuse_frac is not None:
        runs, drawn_frac = blocks.of_groups(made.frame, cls.prefix_reuse_frac, block_tokens, key=key, seed=seed)
        notices = made.notices
        if abs(drawn_frac - cls.prefix_reuse_frac) > 0.01:
            message = (
                f"{drawn_frac * 100:.1f} % of the input tokens repeat a prefix: few or short prompts allow no more"
            )
            notices = (*notices, Notice("prefix_reuse", message))
        return replace(made, runs=runs, block_tokens=block_tokens, notices=notices)
    if cls.sessions is not None or cls.agents is not None:
        runs = blocks.of_sessions(made.frame, chains.head_tokens(cls), block_tokens)
        return replace(made, runs=runs, block_tokens=block_tokens)
    return made


def for_class_sample(cls: TrafficClass, *, name: str = "", seed: int, base_dir: Path = Path()) -> pl.DataFrame:
    """Lengths of a class's requests for means and shapes (`input_tokens output_tokens`): one span, or 10,000 draws."""
    context = context_tokens(cls, base_dir)
    if cls.sessions is not None or cls.agents is not None:
        assert cls.rate_req_per_s is not None
        even = cls.model_copy(update={"arrivals": "poisson", "shape": None, "growth_frac_per_year": None, **_NO_LAW})
        span_ns = round(_SAMPLED / cls.rate_req_per_s * 1e9)
        found, _ = chains.draw(
            even, key=class_key(name), seed=seed, length_ns=span_ns, base_dir=base_dir, context_tokens=context
        )
    elif cls.trace is None:
        found = synthetic.draw_lengths(
            cls, key=class_key(name), seed=seed, n=_SAMPLED, base_dir=base_dir, context_tokens=context
        )
    elif is_file(cls.trace):
        found = recorded.rows_of(cls, name, base_dir)[1]
    else:
        found = profiles.realise(_profile(cls.trace), key=class_key(name), seed=seed, context_tokens=context)
    return found.select("input_tokens", "output_tokens")


def class_key(name: str) -> int:
    """The number under which a class draws: its name's, so that other classes may come and go."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


def _drawn(cls: TrafficClass, *, name: str, seed: int, length_ns: int | None, base_dir: Path) -> ClassTraffic:
    if length_ns is None:
        raise TrafficError(Fault("drawn requests need a length of time", "write run: {length: 30 min}", path="run"))
    context = context_tokens(cls, base_dir)
    key = class_key(name)
    if cls.arrivals == "closed":
        n_closed = chains.closed_requests(cls, length_ns, key=key, seed=seed, base_dir=base_dir)
        transform.too_many(n_closed, path=f"traffic.{name}")
    transform.too_many((cls.rate_req_per_s or 0.0) * length_ns / 1e9, path=f"traffic.{name}")
    if chains.is_chained(cls):
        chained, notices = chains.draw(
            cls, key=key, seed=seed, length_ns=length_ns, base_dir=base_dir, context_tokens=context
        )
        return ClassTraffic(chained, length_ns, notices=notices)
    frame, n_redrawn = synthetic.draw(
        cls, key=key, seed=seed, length_ns=length_ns, base_dir=base_dir, context_tokens=context
    )
    return ClassTraffic(_plain(frame), length_ns, notices=synthetic.redrawn_notice(n_redrawn, frame.height, context))


def _profiled(cls: TrafficClass, *, name: str, seed: int, length_ns: int | None, base_dir: Path) -> ClassTraffic:
    import polars as pl

    spec = profile_of(cls, name)
    context = context_tokens(cls, base_dir)
    n_requests = sum(size * count for size, count in enumerate(spec["batch_sizes"]))
    span_ns = transform.faster_ns(spec["span_ns"], cls.speedup)
    n_passes = 1 + (length_ns // (span_ns + 1) if cls.repeat and length_ns is not None else 0)
    transform.too_many(n_requests * cls.scale * n_passes, path=f"traffic.{name}")
    parts = []
    for number in range(n_passes):
        drawn = profiles.realise(
            spec, key=class_key(name), seed=seed, scale=cls.scale, number=number, context_tokens=context
        )
        begun = transform.begun_at(transform.faster(drawn, cls.speedup), round(cls.start_s * 1e9), span_ns + 1)
        parts.append(begun.with_columns(pl.col("arrival_ns") + number * (span_ns + 1)))
    frame = pl.concat(parts) if len(parts) > 1 else parts[0]
    n_redrawn = int((frame["redraws"] > 0).sum())
    if length_ns is not None:
        frame = transform.cut(frame, length_ns)
    return ClassTraffic(
        _plain(frame),
        span_ns + 1 if length_ns is None else length_ns,
        notices=synthetic.redrawn_notice(n_redrawn, frame.height, context),
    )


def _recorded(
    cls: TrafficClass, *, name: str, seed: int, length_ns: int | None, base_dir: Path, prefixes: bool
) -> ClassTraffic:
    found, rows, span_ns = recorded.rows_of(cls, name, base_dir, prefixes=prefixes)
    frame = transform.copies(rows, cls.scale, span_ns=span_ns, key=class_key(name), seed=seed)
    frame = transform.begun_at(frame, round(cls.start_s * 1e9), span_ns)
    if length_ns is not None:
        if cls.repeat and length_ns >= span_ns:
            frame = transform.repeat(frame, span_ns, length_ns)
        frame = transform.cut(frame, length_ns)
    if not frame.height:
        raise recorded.nothing_left(name, None if length_ns is None else length_ns / 1e9, found.path)
    return ClassTraffic(
        frame,
        span_ns if length_ns is None else length_ns,
        failed_rows=sum(found.rejected.values()),
        notices=recorded.notices(found, rows),
        digest=found.digest,
        block_tokens=found.block_tokens or 0 if prefixes else 0,
    )


def profile_of(cls: TrafficClass, name: str) -> dict[str, Any]:
    """The statistics of a class's profile. Raises `TrafficError` where the class asks for what only files have."""
    assert cls.trace is not None
    asked = {"class_column": cls.class_column, "model_column": cls.model_column, "format": cls.format}
    mapped = [key for key, value in (asked | {"idle_cap": cls.idle_cap_s}).items() if value is not None]
    if mapped:
        way_out = "take it away, or name a file as ./trace.csv"
        raise TrafficError(
            *(
                Fault(f"{key} belongs to trace files; {cls.trace} is a profile", way_out, path=f"traffic.{name}.{key}")
                for key in mapped
            )
        )
    return _profile(cls.trace)


@functools.lru_cache(maxsize=16)
def _profile(name: str) -> dict[str, Any]:
    return profiles.load(name)


def context_tokens(cls: TrafficClass, base_dir: Path) -> int | None:
    """The context of the class's model in tokens; None where it is not known."""
    context = catalog.load().model(cls.model, base=base_dir).context_tokens
    return None if context is None or context.used is None else int(context.number)


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.select(pl.col("arrival_ns").cast(pl.Int64), *_COLUMNS[1:])
