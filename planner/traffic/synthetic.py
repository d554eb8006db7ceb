"""Drawn traffic: arrivals and lengths of a class by law, through the core's counter-based streams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import core
from planner.errors import Fault, Notice, TrafficError
from planner.scenario.schema import Dist, TrafficClass
from planner.traffic import cells, csv_rows, laws, source

if TYPE_CHECKING:
    import polars as pl


def draw(
    cls: TrafficClass, *, key: int, seed: int, length_ns: int, base_dir: Path, context_tokens: int | None = None
) -> tuple[pl.DataFrame, int]:
    """Requests (`arrival_ns input_tokens output_tokens`) up to `length_ns`, and how many were drawn again.

    `key` names the class for the random streams. A request longer than `context_tokens` is drawn again. Request k
    depends on (seed, key, k) only.
    """
    import polars as pl

    spec = laws.arrivals(cls, key=key, seed=seed, length_ns=length_ns)
    arrivals = core.sample({"kind": "arrivals", **spec})
    lengths = draw_lengths(cls, key=key, seed=seed, n=arrivals.height, base_dir=base_dir, context_tokens=context_tokens)
    n_redrawn = int((lengths["redraws"] > 0).sum())
    return pl.concat([arrivals, lengths.drop("redraws")], how="horizontal"), n_redrawn


def draw_lengths(
    cls: TrafficClass,
    *,
    key: int,
    seed: int,
    n: int,
    base_dir: Path,
    context_tokens: int | None = None,
) -> pl.DataFrame:
    """`n` requests: `input_tokens output_tokens`, and in `redraws` how often each was drawn again."""
    assert cls.input is not None
    assert cls.output is not None
    return core.sample(
        {
            "kind": "lengths",
            "seed": seed,
            "key": key,
            "n": n,
            "input": dist_spec(cls.input, base_dir),
            "output": dist_spec(cls.output, base_dir),
            "context_tokens": context_tokens,
        }
    )


def redrawn_notice(n_redrawn: int, n: int, context: int | None) -> tuple[Notice, ...]:
    """What to say about requests that were drawn again."""
    if not n_redrawn:
        return ()
    message = (
        f"{n_redrawn:,} of {n:,} drawn requests were longer than the model's context of {context:,} and drawn again"
    )
    return (Notice("redrawn", message),)


def dist_spec(dist: Dist, base_dir: Path) -> dict[str, Any]:
    """A distribution of lengths as the core reads it."""
    match dist.kind:
        case "lognormal":
            return {"dist": "lognormal", "median": dist.median, "p95": dist.p95}
        case "uniform":
            return {"dist": "uniform", "low": dist.low, "high": dist.high}
        case "fixed":
            return {"dist": "fixed", "tokens": dist.value}
        case "empirical":
            values = lengths_file(base_dir / dist.file) if dist.file is not None else list(dist.values or ())
            return {"dist": "empirical", "tokens": values, "weights": list(dist.weights) if dist.weights else None}


def lengths_file(path: Path) -> list[int]:
    """The lengths in a file of one a line, blank lines and comments left out.

    Raises:
        TrafficError: lines that are no whole number of tokens of at least 1, all of them named.
    """
    lines, _ = csv_rows.lines_of(source.load(path))
    found = cells.tokens(lines["text"].str.strip_chars())
    wrong = lines.filter(found.fill_null(0) < 1)
    if wrong.height:
        faults = [
            Fault(
                f"{text.strip()[:40]!r} is not a length", "one whole number of tokens a line", file=str(path), line=line
            )
            for line, text in wrong.head(20).iter_rows()
        ]
        raise TrafficError(*faults)
    return [int(value) for value in found.to_list()]
