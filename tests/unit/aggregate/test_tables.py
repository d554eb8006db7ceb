"""Tables of a result, a window at a time, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner import Result
from tests.fleets import class_counts, fleet, placed, pool, rack, sim, variant, work

# One replica of 8 chips in a rack of 16, busy 30 s and 15 s of two windows of a minute; PUE 1.25.
ROWS = [{"window_ix": 0, "busy_s": 30.0, "decode_s": 30.0}, {"window_ix": 2, "busy_s": 15.0, "decode_s": 15.0}]


@pytest.fixture(scope="module")
def result() -> Result:
    of = fleet(pool("toy", [placed()], of_rack=rack(n_chips=16)), pue=1.25)
    done = sim(
        classes=[class_counts(offered=2, completed=2)],
        deployments=work({"busy_s": 45.0, "decode_s": 45.0}),
        windows=work(*ROWS),
        class_windows=[{"class_ix": 0, "window_ix": 0, "offered": 1}, {"class_ix": 0, "window_ix": 2, "offered": 1}],
    )
    return Result.of([variant(of, done)], inputs="sha256:0")


def test_windows_are_of_the_chips_that_serve(result: Result) -> None:
    windows = result.tables["windows"]
    by_start = dict(zip(windows["start_s"].to_list(), windows["busy_frac"].to_list(), strict=True))
    # Of 8 chips x 60 s, not of the 16 that stand there: 240 / 480 and 120 / 480.
    assert by_start[0.0] == pytest.approx(0.5)
    assert by_start[120.0] == pytest.approx(0.25)


def test_the_meter_reads_what_the_racks_draw_times_pue(result: Result) -> None:
    windows = result.tables["windows"]
    assert min(windows["rack_it_w"]) > 0
    for it_w, facility_w in windows.select("rack_it_w", "facility_w").iter_rows():
        assert facility_w == pytest.approx(1.25 * it_w)


def test_windows_of_classes_begin_where_those_of_pools_do(result: Result) -> None:
    assert result.tables["class_windows"]["start_s"].to_list() == [0.0, 120.0]


def test_tables_are_the_same_from_disk(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "r")
    again = Result.load(tmp_path / "r")
    assert again.tables.keys() == result.tables.keys()
    assert all(again.tables[name].equals(frame) for name, frame in result.tables.items())
