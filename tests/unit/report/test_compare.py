"""Results side by side: differences, their intervals, what may not be compared, what differs, and rules."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import planner
from planner import Result
from planner.core import SimTables
from planner.errors import RunError, ScenarioError
from planner.fleet.fleet import Fleet
from planner.report.compare import compare
from planner.report.compare_page import write
from planner.report.compare_rows import _interval
from planner.report.compare_rows import _worlds as paired
from planner.report.compare_sides import Side, open_side
from planner.report.compare_text import comparison
from tests.fleets import SCENARIO, class_counts, fact, fleet, placed, pool, rack, scenario, sim, variant, work
from tests.unit.aggregate.test_batches import TEXT as BATCHED

TOY = fleet(pool("toy", [placed()]))
DEAR = fleet(pool("toy", [placed()], of_rack=rack(capex=fact(800_000, "racks.toy-rack.capex_usd"))))


def simulated(output_tokens: int = 3600, ttft: float = 0.25) -> SimTables:
    """Half an hour of steps in an hour."""
    steps: dict[str, float] = {"busy_s": 1800, "prefill_s": 450, "decode_s": 1350, "decode_j": 1350 * 8 * 400}
    steps |= {"prefill_j": 450 * 8 * 400, "input_tokens": 7200, "output_tokens": output_tokens}
    counts = class_counts(offered=100, completed=100, attained=99, input_tokens=7200, output_tokens=output_tokens)
    latencies = {(0, 0, "ttft"): [ttft] * 100, (0, 0, "tpot"): [0.01] * 100, (0, 0, "itl"): [0.01] * 300}
    return sim(classes=[counts], deployments=work(steps), latencies=latencies)


def result(of: Fleet, *sims: SimTables, sets: tuple[str, ...] = ()) -> Result:
    return Result.of([variant(of, *sims, asked=scenario(SCENARIO, *sets))], inputs="sha256:0")


SEEDS = (simulated(3600), simulated(3700), simulated(3500))


def test_a_difference_by_hand() -> None:
    # Racks cost 400,000 and 800,000: racks, storage and upkeep double, network and energy stay.
    found = compare(result(TOY, *SEEDS), result(DEAR, *SEEDS))
    row = found.row("cost.parts.racks")
    assert row.difference == pytest.approx(row.base)
    assert row.frac == pytest.approx(1.0)
    assert row.verdict == "worse"
    assert found.row("cost.parts.network").verdict == "same"
    assert found.row("energy.j_per_token_all").difference == 0.0
    assert found.row("fleet.racks").verdict == "same"


def test_seeds_are_paired() -> None:
    # Each seed gives 36 tokens more of 3,600: the pairs agree although the seeds differ by 200.
    more = (simulated(3636), simulated(3736), simulated(3536))
    row = compare(result(TOY, *SEEDS), result(TOY, *more)).row("fleet.tokens_per_s_out")
    assert row.difference == pytest.approx(0.01)
    assert row.low == pytest.approx(row.high)
    assert (row.verdict, row.is_sure) == ("better", True)


def test_within_noise() -> None:
    # +100, -100 and +30 tokens: the mean +10 is well inside the interval.
    other = (simulated(3700), simulated(3600), simulated(3530))
    row = compare(result(TOY, *SEEDS), result(TOY, *other)).row("fleet.tokens_per_s_out")
    assert row.low is not None
    assert row.high is not None
    assert row.low < 0 < row.high
    assert row.verdict == "within noise"
    # Sums over the seeds have the sum's interval: 30 tokens more, three times as wide.
    whole = compare(result(TOY, *SEEDS), result(TOY, *other)).row("tokens.output")
    assert whole.difference == 30
    assert whole.low is not None
    assert whole.low / 3600 == pytest.approx(3 * row.low)


def test_one_seed_has_no_interval_and_says_so() -> None:
    found = compare(result(TOY, simulated()), result(DEAR, simulated(3500)))
    row = found.row("usd_per_mtok_out_whole")
    assert (row.verdict, row.is_sure, row.low) == ("worse", False, None)
    assert "worse ?" in comparison(found)
    assert "run.seeds: 3" in comparison(found)


def test_the_way_that_is_better_is_the_glossarys() -> None:
    found = compare(result(TOY, simulated()), result(TOY, simulated(4000, ttft=0.3)))
    assert found.row("fleet.tokens_per_s_out").verdict == "better"
    assert found.row("usd_per_mtok_all").verdict == "better"
    assert found.row("ttft_s.p95").verdict == "worse"
    assert found.row("classes.chat.limits.ttft.p95").verdict == "worse"
    assert found.row("cost.used_usd_per_h").verdict == "same"


def test_figures_on_different_bases_are_not_subtracted() -> None:
    # One charges staff, the other leaves it out: no ratio of their costs; energies are still compared.
    base, other = result(TOY, simulated()), result(TOY, simulated(), sets=("cost.staff=1 MUSD/yr",))
    found = compare(base, other)
    row = found.row("cost.usd_per_h")
    assert (row.difference, row.verdict) == (None, None)
    assert row.refused == "the base leaves out staff"
    assert found.row("energy.j_per_token_all").verdict == "same"
    assert "other basis" in comparison(found)
    with pytest.raises(ScenarioError, match="cannot be compared: the base leaves out staff"):
        compare(base, other, figures=["usd_per_h"])
    with pytest.raises(ScenarioError, match="cannot be compared"):
        compare(base, other, gate=["usd_per_mtok_out <= +2 %"])
    with pytest.raises(ScenarioError, match="shared by busy-time and by output"):
        compare(base, result(TOY, simulated(), sets=("cost.allocation=output",)), figures=["usd_per_mtok_in"])


def test_spans_of_other_lengths_share_no_sums() -> None:
    found = compare(result(TOY, *SEEDS), result(TOY, *SEEDS[:2]))
    assert found.row("tokens.output").refused == "sums over 3 and 2 seeds"
    assert found.row("usd_per_mtok_all").refused == ""


def test_what_differs_is_listed_with_its_values() -> None:
    found = compare(result(TOY, simulated()), result(DEAR, simulated(), sets=("traffic.chat.rate=2 req/s",)))
    (against,) = found.against
    assert against.scenario == ({"path": "traffic.chat.rate", "base": "1 req/s", "other": "2 req/s"},)
    (price,) = [row for row in against.facts if row["path"] == "racks.toy-rack.capex_usd"]
    assert (price["base"]["value"], price["other"]["value"]) == (400_000, 800_000)
    text = comparison(found)
    assert "traffic.chat.rate: 1 req/s -> 2 req/s" in text
    assert "racks.toy-rack.capex_usd: 400,000 " in text


def test_other_requests_are_other_work() -> None:
    more = compare(result(TOY, simulated()), result(TOY, simulated(), sets=("traffic.chat.rate=2 req/s",)))
    assert more.against[0].notes == ()
    longer = compare(result(TOY, simulated()), result(TOY, simulated(), sets=("traffic.chat.input=200 tok",)))
    assert "not the work of a token of the other" in comparison(longer)


def test_text_of_a_scenario_is_data() -> None:
    evil = result(TOY, simulated(), sets=('title="A\\e[2J <script>"',))
    shown = comparison(compare(result(TOY, simulated()), evil))
    assert "\x1b" not in shown
    assert "\\x1b" in shown


def test_rules() -> None:
    base, other = result(TOY, simulated()), result(DEAR, simulated(3700))
    gates = [
        "usd_per_h <= +2 %",
        "tokens_per_s_out >= base",
        "ttft_s.p95 <= 500 ms",
        "classes.chat.limits.tpot.p95 < 5 ms",
        "verdict == met",
        "usd_per_mtok_in <= 900 USD/Mtok",
        "attainment_frac >= -1 %",
        "usd_per_task <= +5 %",
    ]
    found = compare(base, other, gate=gates)
    held = {check.rule: check.is_held for check in found.against[0].gates}
    assert [held[rule] for rule in gates] == [False, True, True, False, True, False, True, False]
    assert found.n_broken == 4  # a figure that does not exist breaks its rule, too
    limit = found.against[0].gates[0].limit
    assert limit == pytest.approx(base.variants["base"]["cost"]["usd_per_h"] * 1.02)


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        ("cheap", "is no rule"),
        ("usd_per_mtok_ou <= +2 %", "did you mean"),
        ("usd_per_h <= 3", "write"),
        ("ttft_s.p95 <= 5 W", "unit of power"),
        ("j_per_token_all <= j_per_token_out_whole", "different bases"),
        ("verdict == missed", "write 'verdict == met'"),
        ("usd_per_h == 3 USD/h", "hardly ever equal"),
        ("usd_per_h <= EUR 3", "no limit"),
    ],
)
def test_rules_that_are_none(rule: str, what: str) -> None:
    with pytest.raises(ScenarioError, match=what):
        compare(result(TOY, simulated()), result(TOY, simulated()), gate=[rule])


def test_all_faults_of_all_rules_at_once() -> None:
    with pytest.raises(ScenarioError) as caught:
        compare(result(TOY, simulated()), result(TOY, simulated()), gate=["cheap", "foo < 3", "usd_per_h <= 1"])
    assert len(caught.value.faults) == 3


def test_folders_and_variants(tmp_path: Path) -> None:
    both = Result.of(
        [variant(TOY, simulated()), variant(DEAR, simulated(), asked=replace(scenario(), name="dear"))], inputs="x"
    )
    both.save(tmp_path / "both")
    result(TOY, simulated()).save(tmp_path / "one")
    alone = planner.compare(tmp_path / "both")
    assert [(one.other.variant) for one in alone.against] == ["dear"]
    named = planner.compare(f"{tmp_path}/both:dear", f"{tmp_path}/one")
    assert named.row("cost.parts.racks").verdict == "better"
    assert planner.compare(f"{tmp_path}/one", f"{tmp_path}/both").against[0].other.variant == "base"
    with pytest.raises(ScenarioError, match="several variants"):
        planner.compare(f"{tmp_path}/both", f"{tmp_path}/one")
    with pytest.raises(ScenarioError, match="did you mean dear"):
        planner.compare(f"{tmp_path}/both:der", f"{tmp_path}/one")
    with pytest.raises(ScenarioError, match="nothing to compare"):
        planner.compare(f"{tmp_path}/one")


def test_addresses_have_colons_of_their_own(tmp_path: Path) -> None:
    both = Result.of(
        [variant(TOY, simulated()), variant(DEAR, simulated(), asked=replace(scenario(), name="dear"))], inputs="x"
    )
    both.save(tmp_path / "both")
    found = planner.compare(f"file://{tmp_path}/both:base", f"file://{tmp_path}/both:dear")
    assert found.row("cost.parts.racks").verdict == "worse"
    assert [one.other.variant for one in planner.compare(f"file://{tmp_path}/both").against] == ["dear"]


def test_a_result_of_a_later_version_is_refused(tmp_path: Path) -> None:
    result(TOY, simulated()).save(tmp_path / "one")
    manifest = tmp_path / "one" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("planner.result/1", "planner.result/7"))
    with pytest.raises(RunError, match="version 7"):
        planner.compare(f"{tmp_path}/one", f"{tmp_path}/one")


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    result(TOY, simulated()).save(tmp_path / "one")
    (tmp_path / "one" / "facts.parquet").unlink()
    with pytest.raises(RunError, match=r"facts\.parquet is missing"):
        planner.compare(f"{tmp_path}/one", f"{tmp_path}/one")


def test_the_page_is_whole_quiet_and_safe(tmp_path: Path) -> None:
    evil = result(TOY, simulated(3700), sets=('title="</title><script>alert(1)</script>"',))
    found = compare(result(TOY, simulated()), evil, gate=["usd_per_mtok_out <= +2 %"])
    html = write(found, tmp_path / "page.html").read_text()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    usd = evil.variants["base"]["cost"]["usd_per_mtok_out_whole"]
    assert f'<data value="{usd!r}">' in html
    for words in ("Headline", "Rules", "Asked differently", "Every figure", "held"):
        assert words in html
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_a_variant_may_have_a_colon_in_its_name(tmp_path: Path) -> None:
    named = [replace(scenario(SCENARIO), name=name) for name in ("base", "a/b:c")]
    both = Result.of([variant(TOY, *SEEDS, asked=asked) for asked in named], inputs="sha256:0")
    both.save(tmp_path / "run")
    side = open_side(f"{tmp_path / 'run'}:a/b:c")
    assert isinstance(side, Side)
    assert side.variant == "a/b:c"
    with pytest.raises(ScenarioError, match="has no variant 'b:c'"):
        open_side(f"{tmp_path / 'run'}:b:c")


@pytest.mark.parametrize(("operator", "is_held"), [("<=", True), ("<", False), (">=", True), (">", False)])
def test_a_rule_at_its_limit(operator: str, is_held: bool) -> None:
    found = compare(result(TOY, simulated()), result(TOY, simulated()), gate=[f"usd_per_h {operator} +0 %"])
    assert [check.is_held for check in found.against[0].gates] == [is_held]


def test_spans_are_measured_without_the_warm_up() -> None:
    short = result(TOY, simulated(), sets=("run.warmup=5 min",))
    found = compare(result(TOY, simulated(), sets=("run.warmup=10 min",)), short)
    assert "over 3000 s and over 3300 s" in found.row("tokens.output").refused


def test_pairs_of_the_same_worlds_by_hand() -> None:
    leaf = compare(result(TOY, simulated()), result(TOY, simulated())).row("cost.usd_per_h").leaf
    # Differences -5, -4 ... 15: of 21 the 5 % and 95 % quantiles are the second and the last but one; 5 are cheaper.
    worlds = paired(leaf, [(100.0, 100.0 + d) for d in range(-5, 16)])
    assert worlds is not None
    assert (worlds.n, worlds.low, worlds.high) == (21, pytest.approx(-4.0), pytest.approx(14.0))
    assert worlds.better_frac == pytest.approx(5 / 21)
    assert paired(leaf, [(1.0, 2.0)]) is None


def test_two_long_runs_are_compared_by_their_batches() -> None:
    runs = [planner.run(planner.load("-", stdin_text=BATCHED, sets=(f"run.seed={seed}",))) for seed in (1, 2)]
    trees = [each.variants["base"] for each in runs]
    assert {tree["interval"]["over"] for tree in trees} == {"batches"}
    row = compare(*runs).row("fleet.facility_w.mean")
    ends = [tuple(tree[side]["fleet"]["facility_w"]["mean"] for side in ("low", "high")) for tree in trees]
    # Both are chance, and independent: the squares of half their widths add up.
    half = math.sqrt(sum(((high - low) / 2) ** 2 for low, high in ends))
    assert row.difference is not None
    assert (row.low, row.high) == (pytest.approx(row.difference - half), pytest.approx(row.difference + half))


def test_an_end_that_is_cut_off_does_not_make_a_difference_surer() -> None:
    # 99.5 % -+ 1.5, cut off above at 100 %: the difference of two such is uncertain by 1.5 x sqrt(2).
    share: Any = SimpleNamespace(of=lambda tree: tree["x"], metric=SimpleNamespace(section="classes.*"))
    tree = {"x": 0.995, "low": {"x": 0.98}, "high": {"x": 1.0}, "seeds": [{"run": {"seed": 1}}]}
    low, high = _interval(share, tree, tree, 0.0)
    assert (low, high) == (pytest.approx(-0.015 * 2**0.5), pytest.approx(0.015 * 2**0.5))
