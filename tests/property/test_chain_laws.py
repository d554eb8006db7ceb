"""Laws of requests that wait for others and of shared prefixes, over random classes and mixtures of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from planner.scenario.schema import TrafficClass
from planner.traffic import blocks
from planner.traffic.offered import merged
from planner.traffic.requests import for_class
from planner.traffic.schema import NO_ROW, NO_SESSION

S = 10**9
LENGTHS = st.one_of(
    st.integers(1, 400).map(lambda n: f"{n} tok"),
    st.integers(1, 300).map(lambda n: {"dist": "uniform", "low": f"{n} tok", "high": f"{3 * n} tok"}),
)
PAUSES = st.one_of(
    st.integers(0, 9).map(lambda n: f"{n} s"),
    st.integers(1, 9).map(lambda n: {"dist": "exponential", "mean": f"{n} s"}),
    st.integers(1, 9).map(lambda n: {"dist": "lognormal", "median": f"{n} s", "p95": f"{5 * n} s"}),
)
TURNS = st.one_of(
    st.integers(1, 6).map(lambda n: {"dist": "fixed", "value": n}),
    st.floats(1, 6).map(lambda mean: {"dist": "geometric", "mean": repr(mean)}),
)


@st.composite
def classes(draw: st.DrawFn) -> TrafficClass:
    """A class of any kind that is drawn."""
    keys: dict[str, Any] = {"model": "gpt-oss-120b", "input": draw(LENGTHS), "output": draw(LENGTHS)}
    kind = draw(st.sampled_from(["open", "reuse", "sessions", "agents", "closed"]))
    if kind == "closed":
        keys |= {"arrivals": "closed", "concurrency": draw(st.integers(1, 9)), "think": draw(PAUSES)}
        keys["requests"] = draw(st.integers(keys["concurrency"], 60))
        return TrafficClass.model_validate(keys)
    law = draw(st.sampled_from(["poisson", "gamma", "weibull", "hawkes"]))
    keys |= {"arrivals": law, "rate": f"{draw(st.integers(1, 8))} req/s"}
    if law in ("gamma", "weibull"):
        keys["burstiness"] = repr(draw(st.floats(0.1, 4)))
    if law == "hawkes":
        keys["burst"] = {"size": repr(draw(st.floats(1, 8))), "decay": f"{draw(st.integers(1, 5))} s"}
    if draw(st.booleans()):
        keys["shape"] = [repr(v) for v in draw(st.lists(st.floats(0.1, 9), min_size=1, max_size=24))]
    if kind == "reuse":
        keys["prefix_reuse"] = f"{draw(st.integers(0, 100))} %"
    if kind == "sessions":
        keys["sessions"] = {"turns": draw(TURNS), "think": draw(PAUSES), "system": f"{draw(st.integers(1, 500))} tok"}
    if kind == "agents":
        keys["agents"] = {"steps": draw(TURNS), "tool": draw(PAUSES)}
    return TrafficClass.model_validate(keys)


@given(st.lists(classes(), min_size=1, max_size=3), st.integers(0, 2**32))
def test_chains_and_blocks_hold_together_in_any_mixture(found: list[TrafficClass], seed: int) -> None:
    made = [
        for_class(cls, name=f"c{ix}", seed=seed, length_ns=20 * S, base_dir=Path(), prefixes=True)
        for ix, cls in enumerate(found)
    ]
    frame, runs = merged(made)
    assert frame.height == sum(c.frame.height for c in made)
    assert frame["arrival_ns"].is_sorted()
    assert (frame["arrival_ns"] <= 20 * S).all()
    if "after_row" in frame.columns:
        frame = frame.with_row_index("row")
        later = frame.filter(pl.col("after_row") != NO_ROW)
        before = frame[later["after_row"].cast(pl.Int64)]
        assert (before["row"] < later["row"]).all()
        assert (before["arrival_ns"] <= later["arrival_ns"]).all()
        assert (before["session"] == later["session"]).all()
        assert (before["class_ix"] == later["class_ix"]).all()
        assert later["after_row"].is_unique().all()  # chains never fork
        assert frame.filter(pl.col("after_row") == NO_ROW)["delay_ns"].sum() == 0
        in_session = later.filter(pl.col("session") != NO_SESSION)
        past = frame[in_session["after_row"].cast(pl.Int64)]
        assert (in_session["input_tokens"] > past["input_tokens"] + past["output_tokens"]).all()
    if runs is not None:
        assert runs["row"].is_sorted()
        single = blocks.expand(runs)
        held = single.group_by("row").agg(pl.len(), pl.col("hash").n_unique().alias("different"))
        assert (held["len"] == held["different"]).all()
        assert (held["len"] <= frame["input_tokens"][held["row"].cast(pl.Int64)] // 32).all()
        # A hash names a block and all before it: it has one predecessor, wherever it stands.
        pairs = (
            single.with_columns(pl.col("hash").shift().over("row").alias("before")).select("hash", "before").unique()
        )
        assert pairs["hash"].is_unique().all()
