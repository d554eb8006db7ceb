"""Laws of merging and of the way from file to scenario and back, for trees and scenarios drawn at random."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from planner.errors import Fault, ScenarioError
from planner.scenario import load
from planner.scenario.dump import to_yaml
from planner.scenario.tree import Origin, Tree, merge, prune, put, show, steps

KEYS = st.sampled_from("abcd")
HERE = Origin("file")


def tree_of(value: Any, origin: Origin = HERE) -> Tree:
    if isinstance(value, dict):
        return Tree({key: tree_of(child, origin) for key, child in value.items()}, origin)
    if isinstance(value, list):
        return Tree([tree_of(child, origin) for child in value], origin)
    return Tree(value, origin)


def trees(*, nulls: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    scalars: st.SearchStrategy[Any] = st.sampled_from(["1", "2", "x"])
    leaves = st.one_of(scalars, st.lists(scalars, max_size=2), *([st.none()] if nulls else []))
    return st.dictionaries(
        KEYS, st.recursive(leaves, lambda inner: st.dictionaries(KEYS, inner, max_size=3)), max_size=4
    )


def plain(tree: Tree) -> object:
    return prune(tree).plain()


def origins(tree: Tree) -> dict[tuple[str | int, ...], Origin]:
    return {path: leaf.origin for path, leaf in prune(tree).leaves()}


@given(trees(), trees(), trees())
def test_merging_is_associative(a: Any, b: Any, c: Any) -> None:
    x, y, z = (tree_of(value, Origin(name)) for value, name in zip((a, b, c), "xyz", strict=True))
    left, right = merge(merge(x, y), z), merge(x, merge(y, z))
    assert plain(left) == plain(right)
    assert list(origins(left).items()) == list(origins(right).items())  # the order of keys too


@given(trees())
def test_merging_with_nothing_and_with_itself_changes_nothing(a: Any) -> None:
    x, nothing = tree_of(a), Tree({}, HERE)
    assert plain(merge(x, nothing)) == plain(merge(nothing, x)) == plain(merge(x, x)) == plain(x)


@given(trees(nulls=False), trees(nulls=False))
def test_what_lies_above_is_there_and_the_rest_is_from_below(a: Any, b: Any) -> None:
    merged = merge(tree_of(a), tree_of(b))
    for path, leaf in tree_of(b).leaves():
        if leaf.value != {}:
            here = merged.at(path)
            assert here is not None
            assert here.plain() == leaf.plain()
    over = {path for path, leaf in tree_of(b).leaves() if leaf.value != {}}
    empty = {path for path, leaf in tree_of(b).leaves() if leaf.value == {}}  # a map too: it replaces what is none
    for path, leaf in tree_of(a).leaves():
        is_covered = any(path[: len(o)] == o or o[: len(path)] == path for o in over)
        is_covered |= any(o[: len(path)] == path for o in empty)
        if not is_covered and leaf.value != {}:
            here = merged.at(path)
            assert here is not None
            assert here.plain() == leaf.plain()


@given(trees(nulls=False), KEYS)
def test_null_removes_the_key_and_nothing_else(a: dict[str, Any], key: str) -> None:
    merged = plain(merge(tree_of(a), tree_of({key: None})))
    assert merged == {name: value for name, value in a.items() if name != key}


@given(trees(nulls=False), trees(nulls=False), KEYS)
def test_what_comes_back_after_a_null_is_fresh(a: Any, b: Any, key: str) -> None:
    removed = merge(tree_of(a), tree_of({key: None}))
    back = plain(merge(removed, tree_of({key: b})))
    assert isinstance(back, dict)
    assert back[key] == b


@given(
    trees(nulls=False), st.lists(st.tuples(st.lists(KEYS, min_size=1, max_size=3), st.sampled_from("123")), max_size=4)
)
def test_values_at_paths_that_do_not_touch_may_be_put_in_any_order(a: Any, values: list[tuple[list[str], str]]) -> None:
    paths = [tuple(path) for path, _ in values]
    pairs = itertools.combinations(paths, 2)
    assume(not any(p[: len(q)] == q or q[: len(p)] == p for p, q in pairs))
    start = tree_of(a)
    results = []
    for order in itertools.permutations(values):
        tree = start
        for path, value in order:
            tree = put(tree, tuple(path), Tree(value, HERE))
        results.append(tree.plain())
    assert all(result == results[0] for result in results)
    for path, value in values:
        here: Any = results[0]
        for step in path:
            here = here[step]
        assert here == value


@given(st.lists(st.one_of(st.text(min_size=1, max_size=8), st.integers(0, 99)), min_size=1, max_size=4))
def test_a_path_is_read_as_it_is_shown(path: list[str | int]) -> None:
    assume(isinstance(path[0], str))
    assert steps(show(tuple(path))) == tuple(path)


# -- whole scenarios ---------------------------------------------------------------------------------------------------

NAMES = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=10)
TITLES = st.text(min_size=1, max_size=40).filter(lambda text: text.strip() and "\x00" not in text)


@st.composite
def quantities(draw: st.DrawFn, units: str, most: int = 1000) -> str:
    number = draw(st.one_of(st.integers(1, most), st.floats(0.001, most).map(lambda x: f"{x:.4g}")))
    return f"{number} {draw(st.sampled_from(units.split()))}"


@st.composite
def dists(draw: st.DrawFn) -> Any:
    a, b = sorted(draw(st.lists(st.integers(1, 100_000), min_size=2, max_size=2, unique=True)))
    return draw(
        st.sampled_from(
            [
                f"{a} tok",
                {"dist": "fixed", "value": f"{a} tok"},
                {"dist": "lognormal", "median": f"{a} tok", "p95": f"{b} tok"},
                {"dist": "uniform", "low": f"{a} tok", "high": f"{b} tok"},
                {"dist": "empirical", "values": [f"{a} tok", f"{b} tok"], "weights": [1, 2.5]},
            ]
        )
    )


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """A right scenario as a plain tree."""
    limits = draw(st.lists(NAMES, min_size=1, max_size=2, unique=True))
    pools = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    made: dict[str, Any] = {"title": draw(TITLES), "traffic": {}, "slo": {}, "fleet": {"pools": {}}, "run": {}}
    for name in limits:
        made["slo"][name] = {"ttft": {"p95": draw(quantities("ms s min"))}, "attainment": "99 %"}
    for name in pools:
        made["fleet"]["pools"][name] = {
            "rack": draw(st.sampled_from(["jalapeno-rack", "gb300-nvl72", "hgx-h200"])),
            "count": draw(st.integers(1, 100)),
            "deploy": [{"model": "qwen3-8b", "chips": draw(st.integers(1, 8))}],
        }
    if draw(st.booleans()):
        made["fleet"]["pools"][pools[0]]["capex"] = {"value": draw(quantities("kUSD/rack MUSD/rack")), "note": "no"}
    for name in draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)):
        made["traffic"][name] = {
            "model": "qwen3-8b",
            "arrivals": "gamma",
            "rate": draw(quantities("req/s req/min")),
            "burstiness": draw(st.integers(1, 9)),
            "input": draw(dists()),
            "output": draw(dists()),
            "slo": draw(st.sampled_from(limits)),
        }
    made["run"] = {"length": draw(quantities("h", 5)), "seed": draw(st.integers(0, 10**9))}
    made["site"] = draw(st.sampled_from([{}, {"grid": "no"}, {"pue": 1.25}, {"power_price": "0.08 USD/kWh"}]))
    return made


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_resolving_is_idempotent(tree: dict[str, Any]) -> None:
    first = load("-", stdin_text=yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))
    for text in (
        to_yaml(first.tree),
        to_yaml(first.tree, origins=True),
        yaml.safe_dump(first.resolved(), sort_keys=False),
    ):
        again = load("-", stdin_text=text)
        assert again.resolved() == first.resolved()
        assert again.digest() == first.digest()
        assert (again.traffic, again.slo, again.fleet, again.site, again.run) == (
            first.traffic,
            first.slo,
            first.fleet,
            first.site,
            first.run,
        )


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios(), st.integers(1, 500), st.integers(0, 99))
def test_a_value_is_the_same_by_override_by_set_and_in_the_file(tree: dict[str, Any], count: int, seed: int) -> None:
    pool = next(iter(tree["fleet"]["pools"]))
    path = show(("fleet", "pools", pool, "count"))
    text = yaml.safe_dump(tree, sort_keys=False)
    by_set = load("-", stdin_text=text, sets=[f"{path}={count}", f"run.seed={seed}"])
    variants = {"overrides": {"o": {path: count}, "p": {"run.seed": seed}}, "scenarios": {"v": ["p", "o"]}}
    by_override = load("-", stdin_text=yaml.safe_dump({**tree, **variants}, sort_keys=False), variant="v")
    tree["fleet"]["pools"][pool]["count"] = count
    tree["run"]["seed"] = seed
    written = load("-", stdin_text=yaml.safe_dump(tree, sort_keys=False))
    assert by_set.resolved() == by_override.resolved() == written.resolved()
    assert by_set.digest() == by_override.digest() == written.digest()


def faults_of(text: str) -> tuple[Fault, ...]:
    try:
        load("-", stdin_text=text)
    except ScenarioError as error:
        return error.faults
    return ()


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert all(fault.what for fault in faults_of(text))


SMALL = (Path(__file__).resolve().parents[2] / "scenarios" / "01-one-rack.yaml").read_text(encoding="utf-8")


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, len(SMALL) - 1), st.integers(0, 12), st.text(max_size=6))
def test_a_damaged_file_is_read_or_refused(at: int, n: int, new: str) -> None:
    assert all(fault.what for fault in faults_of(SMALL[:at] + new + SMALL[at + n :]))
