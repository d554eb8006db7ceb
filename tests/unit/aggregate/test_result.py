"""A result from hand-made simulations: its tree, its tables, and its way to disk and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from planner import Result
from planner.aggregate import columns, metrics
from planner.aggregate.cost_parts import PARTS
from planner.aggregate.inputs import VariantRun
from planner.aggregate.result_schema import result_schema
from planner.aggregate.summary import summarise
from planner.core import SimTables
from planner.errors import Notice, RunError, ScenarioError
from planner.fleet.fleet import Fleet
from tests import fleets
from tests.fleets import FINANCE, NS, class_counts, fleet, placed, pool, scenario, sim, variant, work

FLEET = fleet(pool("toy", [placed()]), pool("spare"))


def simulated(*, attained: int = 99, ttft: float = 0.25, input_tokens: int = 7200, n_rejected: int = 0) -> SimTables:
    """An hour: 100 requests of 72 + 36 tokens; half of the hour in steps, a quarter of them prefill; 400 W a chip."""
    steps: dict[str, float] = {
        "busy_s": 1800,
        "prefill_s": 450,
        "decode_s": 1350,
        "prefill_j": 450 * 8 * 400,
        "decode_j": 1350 * 8 * 400,
        "memory_s": 1000,
        "compute_s": 800,
        "kv_token_s": 360_000,
        "input_tokens": input_tokens,
        "output_tokens": 3600,
    }
    offered = 100 + n_rejected
    latencies = {
        (0, 0, "ttft"): [ttft] * 100,
        (0, 0, "tpot"): [0.01] * 100,
        (0, 0, "e2e"): [0.6] * 100,
        (0, 0, "queue"): [0.02] * 100,
        (0, 0, "itl"): [0.01] * 300,
    }
    counts = class_counts(
        offered=offered,
        completed=100,
        rejected=n_rejected,
        attained=attained,
        input_tokens=input_tokens,
        output_tokens=3600,
    )
    return sim(
        classes=[counts],
        deployments=work(steps),
        windows=work({"window_ix": 3, **steps}),
        latencies=latencies,
        class_windows=[{"class_ix": 0, "window_ix": 3, "offered": offered, "completed": 100, "attained": attained}],
    )


def nothing_done() -> SimTables:
    return sim(classes=[class_counts(offered=5, unfinished=5, input_tokens=50, output_tokens=5)], deployments=work({}))


def summed(*sims: SimTables, of: Fleet = FLEET) -> dict[str, Any]:
    return summarise(variant(of, *sims), FINANCE).tree


def result(*runs: VariantRun) -> Result:
    return Result.of(runs or [variant(FLEET, simulated(), simulated(ttft=0.35))], inputs="sha256:abc")


def leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, (*path, key))
    elif isinstance(tree, list):
        for value in tree:
            yield from leaves(value, (*path, "[]"))
    else:
        yield path, tree


def test_figures_by_hand() -> None:
    tree = summed(simulated())
    assert tree["requests"] == {
        "offered": 100,
        "completed": 100,
        "rejected": 0,
        "retried": 0,
        "lost": 0,
        "timed_out": 0,
        "cancelled": 0,
        "unfinished": 0,
        "failed_rows": 0,
    }
    assert tree["tokens"] == {"input": 7200, "output": 3600}
    toy, spare = tree["pools"]["toy"], tree["pools"]["spare"]
    assert (toy["busy_frac"], toy["kv_frac"], toy["idle_chips"], toy["replicas"]) == (0.5, 0.1, 0, 1)
    assert (toy["tokens_per_s_in"], toy["tokens_per_s_out"]) == (2.0, 1.0)
    assert (toy["bottleneck"], spare["bottleneck"]) == ("memory", "none")
    assert (spare["busy_frac"], spare["idle_chips"], spare["replicas"]) == (None, 8, 0)
    # Chips 0.5 x 400 + 0.5 x 100 = 250 W each: 2000 W; rest 1200 + (2000 - 800)/4 = 1500 W.
    assert toy["rack_it_w"]["mean"] == pytest.approx(3500)
    assert spare["rack_it_w"]["mean"] == pytest.approx(2000)
    assert tree["fleet"]["facility_w"]["mean"] == pytest.approx(5500 * 1.2)
    assert tree["energy"]["it_kwh"] == pytest.approx(5.5)
    assert tree["energy"]["facility_kwh"] == pytest.approx(6.6)
    # A quarter of the steps' energy and time is prefill; the spare rack is shared alike.
    joules = 6.6 * 3.6e6
    assert tree["energy"]["j_per_token_in"] == pytest.approx(joules / 4 / 7200)
    assert tree["energy"]["j_per_token_out"] == pytest.approx(joules * 3 / 4 / 3600)
    assert tree["energy"]["j_per_token_all"] == pytest.approx(joules / 10_800)
    assert tree["carbon"]["operational_kgco2e"] == pytest.approx(6.6 * 0.4)
    assert tree["carbon"]["kgco2e_per_mtok_out_whole"] == pytest.approx(6.6 * 0.4 / 0.0036)
    usd = tree["cost"]["usd_per_h"]
    assert usd == pytest.approx(toy["usd_per_h"] + spare["usd_per_h"])
    assert tree["cost"]["idle_usd_per_h"] == pytest.approx(toy["usd_per_h"] / 2 + spare["usd_per_h"])
    assert tree["cost"]["usd_per_mtok_in"] == pytest.approx(usd / 4 / 0.0072)
    assert tree["cost"]["usd_per_mtok_out"] == pytest.approx(usd * 3 / 4 / 0.0036)
    assert tree["cost"]["usd_per_mtok_all"] == pytest.approx(usd / 0.0108)
    assert tree["cost"]["usd_per_mtok_out_whole"] == pytest.approx(usd / 0.0036)
    assert tree["fleet"]["tokens_per_s_per_chip_all"] == pytest.approx(3.0 / 16)
    chat = tree["classes"]["chat"]
    assert (chat["offered"], chat["attainment_frac"], chat["verdict"]) == (100, 0.99, "met")
    assert (chat["ttft_s"]["p95"], chat["rate_req_per_s"]) == (0.25, pytest.approx(100 / 3600))


def test_rejected_requests_are_offered_and_not_attained() -> None:
    chat = summed(simulated(n_rejected=100))["classes"]["chat"]
    assert chat["attainment_frac"] == 99 / 200
    assert chat["verdict"] == "missed"
    assert [limit["met"] for limit in chat["limits"]] == [False, False]


def test_means_over_seeds_and_sums_of_counts() -> None:
    tree = summed(simulated(), simulated(ttft=0.27, input_tokens=7300))
    assert tree["requests"]["offered"] == 200
    assert tree["tokens"] == {"input": 14_500, "output": 7200}
    assert tree["classes"]["chat"]["ttft_s"]["mean"] == pytest.approx(0.26)
    assert tree["classes"]["chat"]["offered"] == 100
    half = 6.3138 * 0.01  # t(1) x s / sqrt(2), s = 0.02 / sqrt(2)
    assert tree["low"]["classes"]["chat"]["ttft_s"]["mean"] == pytest.approx(0.26 - half)
    assert tree["high"]["classes"]["chat"]["ttft_s"]["mean"] == pytest.approx(0.26 + half)
    assert [seed["classes"]["chat"]["ttft_s"]["mean"] for seed in tree["seeds"]] == [0.25, 0.27]
    assert [seed["run"]["seed"] for seed in tree["seeds"]] == [1, 2]
    assert tree["cost"]["parts"]["racks"] == tree["seeds"][0]["cost"]["parts"]["racks"]


def test_low_and_high_mirror_every_number() -> None:
    tree = summed(simulated(), simulated(ttft=0.35))
    figures = {
        path: value for path, value in leaves(tree) if path[0] not in {"low", "high", "interval", "seeds", "notices"}
    }
    low, high = dict(leaves(tree["low"])), dict(leaves(tree["high"]))
    numbers = {
        path for path, value in figures.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
    assert numbers <= set(low)
    assert set(low) == set(high)
    for path in numbers:
        assert low[path] <= figures[path] <= high[path], path
    alone = summed(simulated())
    assert alone["interval"]["over"] == "batches"
    assert {value for path, value in leaves(alone["low"]) if path[2:3] == ("ttft_s",)} == {None}
    assert set(dict(leaves(alone["low"]))) == set(low)


def test_a_value_missing_in_one_seed_has_no_mean() -> None:
    tree = summed(simulated(), nothing_done())
    assert tree["classes"]["chat"]["ttft_s"]["mean"] is None
    assert tree["classes"]["chat"]["verdict"] == "missed"
    assert tree["requests"]["completed"] == 100


def test_nothing_completed_is_a_whole_result(tmp_path: Path) -> None:
    found = result(variant(FLEET, nothing_done()))
    tree = found.to_json()
    assert found.n_completed == 0
    assert found.n_missed == 3  # two limits and the attainment
    assert tree["classes"]["chat"]["ttft_s"] == dict.fromkeys(metrics.STATISTICS)
    assert tree["classes"]["chat"]["attainment_frac"] == 0.0
    assert {tree["cost"][name] for name in tree["cost"] if name.startswith("usd_per_mtok")} == {None}
    assert tree["cost"]["usd_per_h"] > 0
    assert tree["pools"]["toy"]["busy_frac"] == 0.0
    found.save(tmp_path / "r")
    assert Result.load(tmp_path / "r").to_json() == tree
    jsonschema.validate(json.loads((tmp_path / "r" / "result.json").read_text()), result_schema())


def test_every_figure_is_in_the_glossary_and_the_other_way_round() -> None:
    stars = {"classes": "classes.*", "pools": "pools.*", "sites": "sites.*"}
    tree = summed(simulated())
    named = {metric.path for metric in metrics.METRICS}
    found = set()
    for place, value in leaves(
        {key: tree[key] for key in tree if key not in {"low", "high", "interval", "seeds", "run"}}
    ):
        path = (stars[place[0]], *place[2:]) if place[0] in stars and len(place) > 2 else place
        names = {".".join(path), ".".join(path[:-1]), ".".join(path).replace(".[].", "[]."), ".".join(path[:2])}
        known = names & named
        found |= known
        if not known and isinstance(value, int | float) and path[0] != "notices":
            assert "deployments" in path, path
    assert named - found == set()


def test_schema_holds(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(result_schema())
    strict = jsonschema.Draft202012Validator(result_schema())
    other = replace(scenario(WITHOUT_LIMITS), name="other")
    two = [variant(FLEET, simulated()), variant(FLEET, simulated(), asked=other)]
    for at, runs in enumerate([two[:1], two]):
        result(*runs).save(tmp_path / str(at))
        body = json.loads((tmp_path / str(at) / "result.json").read_text())
        assert list(strict.iter_errors(body)) == []
        del body["result"]["variants" if at else "cost"]
        assert list(strict.iter_errors(body))


WITHOUT_LIMITS = fleets.SCENARIO.replace(", slo: interactive", "").replace(
    "slo:\n  interactive: {ttft: {p95: 500 ms}, tpot: {p95: 20 ms}, attainment: 99 %}\n", ""
)


def test_a_class_without_limits_has_no_verdict() -> None:
    tree = summarise(variant(FLEET, simulated(), asked=scenario(WITHOUT_LIMITS)), FINANCE).tree
    assert (tree["classes"]["chat"]["verdict"], tree["classes"]["chat"]["attainment_frac"], tree["verdict"]) == (
        None,
    ) * 3
    assert tree["classes"]["chat"]["limits"] == []


def test_same_inputs_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        result().save(tmp_path / name, log=f"took {name}\n")
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted(
        [f"{name}.parquet" for name in columns.TABLES if name not in columns.ON_DEMAND]
        + ["result.json", "manifest.json", "scenario.resolved.yaml", "log.txt"]
    )
    for name in files:
        same = (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        assert same is (name != "log.txt"), name


def test_every_table_has_variant_and_seed() -> None:
    for name, table in result().tables.items():
        assert table.columns[:2] == ["variant", "seed"], name
        assert set(table["seed"].to_list()) <= {1, 2}


def test_load_gives_back_what_was_saved(tmp_path: Path) -> None:
    found = result()
    found.save(tmp_path / "deep" / "r")
    again = Result.load(tmp_path / "deep" / "r")
    assert again.variants == found.variants
    assert again.inputs == "sha256:abc"
    assert again.scenarios == found.scenarios
    for name, table in found.tables.items():
        assert again.tables[name].equals(table)


def test_nothing_half_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> dict[str, str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("planner.aggregate.store.scenario_files", broken)
    with pytest.raises(OSError, match="No space"):
        result().save(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_replaced_only_if_it_is_a_result(tmp_path: Path) -> None:
    place = tmp_path / "r"
    result().save(place)
    with pytest.raises(RunError, match="is there already"):
        result().save(place)
    result(variant(FLEET, nothing_done())).save(place, is_replacing=True)
    assert Result.load(place).n_completed == 0
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    other = tmp_path / "home"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    with pytest.raises(RunError, match="no result"):
        result().save(other, is_replacing=True)
    assert (other / "thesis.txt").read_text() == "precious"
    (tmp_path / "empty").mkdir()
    result().save(tmp_path / "empty")
    assert Result.load(tmp_path / "empty").n_completed == 200


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "r"
    result().save(place)
    (place / "pools.parquet").unlink()
    (place / "costs.parquet").write_bytes(b"PAR1")
    with pytest.raises(RunError) as caught:
        Result.load(place)
    assert [fault.what for fault in caught.value.faults] == [
        f"{place}/costs.parquet was changed after it was written",
        f"{place}/pools.parquet is missing",
    ]


def test_a_later_version_is_refused_by_name(tmp_path: Path) -> None:
    place = tmp_path / "r"
    result().save(place)
    manifest = json.loads((place / "manifest.json").read_text())
    (place / "manifest.json").write_text(json.dumps(manifest | {"schema": "planner.result/7"}))
    with pytest.raises(RunError, match=r"version 7, this planner reads version 1"):
        Result.load(place)
    (place / "manifest.json").write_text(json.dumps(manifest | {"files": {"../r/pools.parquet": "sha256:0"}}))
    with pytest.raises(RunError, match="is no file name"):
        Result.load(place)
    (place / "manifest.json").write_text("{")
    with pytest.raises(RunError, match="is damaged"):
        Result.load(place)


def test_no_result_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no result"):
        Result.load(tmp_path)
    (tmp_path / "manifest.json").write_text('{"schema": "npm"}')
    with pytest.raises(ScenarioError, match="no result"):
        Result.load(tmp_path)


def test_notices_are_said_once() -> None:
    notice = Notice("gap", "chat: nine days of silence")
    traffic = fleets.Traffic(notices=(notice,), failed_rows=3)
    found = result(variant(FLEET, simulated(), simulated(), traffic=traffic))
    assert found.notices.count(notice) == 1
    assert found.to_json()["requests"]["failed_rows"] == 6


def test_warm_up_is_not_measured() -> None:
    asked = scenario(fleets.SCENARIO, "run.warmup=30 min")
    tree = summarise(
        variant(FLEET, simulated(), asked=asked, traffic=fleets.Traffic(length_ns=3600 * NS)), FINANCE
    ).tree
    assert tree["pools"]["toy"]["busy_frac"] == 1.0  # 1,800 s of steps in the half hour that is measured
    assert tree["run"]["warmup_s"] == 1800.0


# -- one figure as a table ---------------------------------------------------------------------------------------------


def test_metric_of_the_whole() -> None:
    table = result().metric("usd_per_mtok_all")
    assert table.columns == ["variant", "value", "low", "high"]
    assert table["value"].to_list() == [result().to_json()["cost"]["usd_per_mtok_all"]]


def test_metric_by_class_pool_part_and_seed() -> None:
    found = result()
    assert found.metric("ttft_s.p95")["class"].to_list() == ["chat"]
    assert found.metric("ttft_s", by="class")["statistic"].to_list() == list(metrics.STATISTICS)
    assert found.metric("usd_per_h", by="pool")["pool"].to_list() == ["toy", "spare"]
    parts = found.metric("usd_per_h", by="part")
    assert parts["part"].to_list() == list(PARTS)
    assert parts["value"].drop_nulls().sum() == pytest.approx(found.to_json()["cost"]["usd_per_h"])
    by_seed = found.metric("facility_w.peak", by=["pool", "seed"])
    assert by_seed.select("pool", "seed").rows() == [("toy", 1), ("spare", 1), ("toy", 2), ("spare", 2)]
    assert "low" not in by_seed.columns


def test_metric_over_windows() -> None:
    found = result()
    busy = found.metric("busy_frac", by="pool", over="window")
    assert busy.row(0) == ("base", 1, "toy", 3, 180.0, 1800 / 60)
    assert found.metric("offered", over="window")["class"].to_list() == ["chat", "chat"]


@pytest.mark.parametrize(
    ("name", "by", "over", "said"),
    [
        ("usd_per_mtok", None, None, "usd_per_mtok_"),
        ("ttft_s.p42", None, None, "ttft_s.p"),
        ("busy_frac", "class", None, "by class"),
        ("usd_per_h", "rack", None, "no figures by 'rack'"),
        ("busy_frac", None, "windows", "did you mean window"),
        ("ttft_s", "part", None, "only usd_per_h"),
        ("ttft_s", None, "window", "over windows"),
    ],
)
def test_metric_that_is_not_there(name: str, by: str | None, over: str | None, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        result().metric(name, by=by, over=over)
    assert said in str(caught.value)
