"""The report as text: figures in three digits with units, words for verdicts, nothing that drives a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner import Result
from planner.core import SimTables
from planner.report import text
from planner.words import width
from tests import fleets
from tests.fleets import class_counts, fleet, placed, pool, scenario, sim, variant, work

LIMITS = "{ttft: {p95: 500 ms}, tpot: {p95: 20 ms}, attainment: 99 %}"


def simulated(*, attained: int = 100, tpot: float = 0.0142, **counts: int) -> SimTables:
    steps = {
        "busy_s": 2916,
        "decode_s": 2916,
        "decode_j": 2916 * 8 * 400,
        "memory_s": 2916,
        "input_tokens": 7_200_000,
        "output_tokens": 3_600_000,
    }
    values = {(0, 0, "ttft"): [0.312] * 100, (0, 0, "tpot"): [tpot] * 100}
    row = class_counts(offered=100 + sum(counts.values()), completed=100, attained=attained, **counts)
    return sim(classes=[row], deployments=work(steps), latencies=values)


def report(
    *sims: SimTables, said: str = fleets.SCENARIO, names: tuple[str, ...] = ("base",), wall_s: float | None = None
) -> str:
    runs = [variant(fleet(pool("toy", [placed()])), *sims, asked=replace(scenario(said), name=name)) for name in names]
    return text.run_report(Result.of(runs, inputs=""), wall_s=wall_s)


def test_a_report_in_full() -> None:
    lines = report(simulated(), wall_s=8.1).splitlines()
    assert lines[0] == "Toy" + " " * 53 + "1.00 h simulated in 8.10 s, 100 requests"
    assert lines[1:3] == [
        "  class   ttft p95    limit   tpot p95     limit   attained   verdict",
        "  chat      312 ms   500 ms    14.2 ms   20.0 ms      100 %   met, 29 % to spare on tpot",
    ]
    assert lines[3].split() == ["pool", "racks", "busy", "it", "power", "cost/h", "tokens", "out", "bottleneck"]
    # Chips 8 x (0.81 x 400 + 0.19 x 100) = 2744 W, rest 1200 + (2744 - 800) / 4 = 1686 W.
    cells = lines[4].split()
    assert cells[:6] == ["toy", "1", "81.0", "%", "4.43", "kW"]
    assert cells[7:] == ["USD", "1.00", "ktok/s", "memory"]
    assert lines[5] == "  toy: 1 x gpt-oss-120b on 8 chips (tp8), mxfp4 experts, bf16 rest, engine generic"
    assert "USD/Mtok out (whole cost)" in lines[6]
    assert "J/token out (whole, facility)" in lines[6]
    assert "gCO2e/Mtok out" in lines[6]
    assert "(by busy time)" in lines[7]
    assert "peak at the meter" in lines[8]
    assert lines[-1] == "left out of the carbon: making of Toy rack"
    assert lines[-2] == "left out of the cost: installation, allowance, space, demand, insurance, staff, software"


def test_a_missed_limit_says_by_how_much() -> None:
    shown = report(simulated(tpot=0.0228, attained=91))
    assert "91.0 %   MISSED tpot by 14 %, attainment of 99.0 %" in shown


def test_a_quantile_that_was_never_reached() -> None:
    shown = report(simulated(unfinished=10))
    assert "MISSED ttft (its p95 was never reached), tpot (its p95 was never reached), attainment of 99.0 %" in shown
    assert "  100 completed, 10 unfinished" in shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [(1.0, "100 %"), (0.99984, "99.98 %"), (0.99999, "99.999 %"), (0.9994, "99.9 %"), (0.0, "0 %"), (None, "-")],
)
def test_a_share_that_is_not_the_whole_never_looks_like_it(share: float | None, shown: str) -> None:
    assert text._share(share) == shown


def test_what_is_missing_is_a_dash() -> None:
    nothing = sim(classes=[class_counts(offered=5, rejected=5)], deployments=work({}))
    lines = report(nothing).splitlines()
    assert lines[2].split()[:6] == ["chat", "-", "500", "ms", "-", "20.0"]
    assert "  0 completed, 5 rejected" in lines
    assert any(line.startswith("- USD/Mtok out (whole cost)   - J/token out") for line in lines)


def test_nothing_offered_is_unknown() -> None:
    nobody = sim(classes=[class_counts()], deployments=work({}))
    assert "unknown, nothing was offered" in report(nobody)


def test_without_limits_latencies_are_shown_all_the_same() -> None:
    said = fleets.SCENARIO.replace(", slo: interactive", "").replace(f"slo:\n  interactive: {LIMITS}\n", "")
    lines = report(simulated(), said=said).splitlines()
    assert lines[2].split() == ["chat", "312", "ms", "-", "14.2", "ms", "-", "-", "no", "limits"]


def test_many_limits_get_a_line_each() -> None:
    many = "{ttft: {p50: 1 s, p95: 2 s, p99: 3 s}, tpot: {p50: 10 ms, p95: 20 ms}}"
    lines = report(simulated(), said=fleets.SCENARIO.replace(LIMITS, many)).splitlines()
    assert [line.split()[1:3] for line in lines[2:7]] == [
        ["ttft", "p50"],
        ["ttft", "p95"],
        ["ttft", "p99"],
        ["tpot", "p50"],
        ["tpot", "p95"],
    ]
    assert lines[5].split()[-1] == "MISSED"
    assert max(len(line) for line in lines[2:9]) < 80


def test_seeds_and_requests_are_counted() -> None:
    assert "3 seeds, 300 requests" in report(simulated(), simulated(), simulated())


def test_variants_stand_side_by_side() -> None:
    shown = report(simulated(), names=("base", "other"))
    assert "Toy [base]" in shown
    assert "Toy [other]" in shown
    rows = shown.split("Side by side")[1].splitlines()
    assert rows[1].split()[:2] == ["variant", "verdict"]
    assert [row.split()[:2] for row in rows[2:]] == [["base", "met"], ["other", "met"]]


def test_no_text_of_a_file_drives_the_terminal() -> None:
    hostile = "A\x1b[2J\x1b]0;gone\x07 \u202egnol \x00 \u2066x\u2069 \x9b31m"
    (run,) = [variant(fleet(pool("toy", [placed()])), simulated(), asked=replace(scenario(), title=hostile))]
    shown = text.run_report(Result.of([run], inputs=""))
    assert not any(not c.isprintable() and c != "\n" for c in shown)
    assert r"A\x1b[2J" in shown
    assert r"\u202egnol" in shown


@pytest.mark.parametrize(("word", "columns"), [("rack", 4), ("機架", 4), ("e\u0301", 1), ("ＡＢ", 4)])
def test_width_is_what_a_terminal_shows(word: str, columns: int) -> None:
    assert width(word) == columns


def test_wide_names_keep_columns_aligned() -> None:
    said = fleets.SCENARIO.replace("  chat:", "  対話:")
    lines = report(simulated(), said=said).splitlines()
    assert width(lines[1][: lines[1].index("ttft")]) + 8 == width(lines[2][: lines[2].index(" ms") + 3])


def test_samples_of_uncertain_facts_are_said() -> None:
    found = report(simulated())
    assert "samples" not in found
    tree = {
        "samples": 40,
        "infeasible": 2,
        "met_frac": 0.9,
        "level_frac": 0.9,
        "figures": {
            "cost.usd_per_mtok_out_whole": {"low": 0.5, "high": 0.75},
            "energy.j_per_token_out_whole": {"low": None, "high": None},
            "carbon.kgco2e_per_mtok_out_whole": {"low": 0.1, "high": 0.2},
        },
    }
    lines = text._uncertain(tree)
    assert lines[0].startswith("limits hold in 90.0 % of 40 samples of the uncertain facts, 2 of them with chips")
    assert lines[1] == "  90 % of them inside 0.500..0.750 USD/Mtok out, 100..200 gCO2e/Mtok out"
