"""What happens around replicas, by hand: chains, clients, routers, handing over, operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from planner import core
from planner.errors import CoreError
from tests.agreement import check
from tests.deployments import cell, requests, toy
from tests.memory import peak_bytes

MS = 10**6
NO_ROW = 2**64 - 1


def run(spec: dict[str, Any], rows: list[tuple[int, int, int, int]], *more: Any) -> core.SimTables:
    return core.simulate(spec, requests(rows, *more))


def kept(tables: core.SimTables) -> list[dict[str, Any]]:
    assert tables.requests is not None
    return list(tables.requests.iter_rows(named=True))


def with_class(spec: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return spec | {"classes": [klass | fields for klass in spec["classes"]]}


def test_a_closed_loop_never_exceeds_its_concurrency() -> None:
    clients, turns = 7, 20
    rows, links = [], []
    for row in range(clients * turns):
        rows.append((0, 0, 20 + row % 13, 1 + row % 9))
        links.append((None if row < clients else row - clients, 0))
    requests_kept = kept(run(with_class(cell([(toy(), 3)]), chains_go_on=True), rows, links))
    moments = sorted([(row["arrival_ns"], 1) for row in requests_kept] + [(row["end_ns"], -1) for row in requests_kept])
    level = most = 0
    for _, change in moments:  # at one instant the ends come first
        level += change
        most = max(most, level)
    assert most == clients
    assert len(requests_kept) == clients * turns


def test_a_task_lasts_from_its_first_arrival_to_its_last_token() -> None:
    spec = cell(toy())
    tables = run(spec, [(5 * MS, 0, 50, 3)] * 3, [(None, 0), (0, 30 * MS), (1, 40 * MS)])
    rows = kept(tables)
    assert rows[1]["arrival_ns"] == rows[0]["end_ns"] + 30 * MS
    (task,) = core.quantiles(tables.sketches, [core.Query(0, "task", None)])
    assert task == pytest.approx((rows[2]["end_ns"] - rows[0]["arrival_ns"]) / 1e9, rel=1e-9)


def test_the_rest_of_a_broken_chain_is_offered_and_cancelled_at_once() -> None:
    too_large = (0, 0, 200_000, 1)
    counts = run(cell(toy()), [too_large, (0, 0, 5, 5), (0, 0, 5, 5)], [(None, 0), (0, 0), (1, 0)]).classes.row(
        0, named=True
    )
    assert (counts["offered"], counts["rejected"], counts["cancelled"]) == (3, 1, 2)
    goes_on = run(
        with_class(cell(toy()), chains_go_on=True), [too_large, (0, 0, 5, 5)], [(None, 0), (0, 0)]
    ).classes.row(0, named=True)
    assert (goes_on["completed"], goes_on["rejected"]) == (1, 1)


def test_chains_are_refused_where_they_cannot_be_sent() -> None:
    with pytest.raises(CoreError, match="must be an earlier row"):
        run(cell(toy()), [(0, 0, 5, 5), (0, 0, 5, 5)], [(1, 0), (None, 0)])


def split(link: dict[str, Any] | None = None, **chosen: Any) -> dict[str, Any]:
    """A prefill replica before a decode replica."""
    spec = cell([(toy(**chosen), 1), (toy(**chosen), 1)], link=link)
    spec["deployments"][0] |= {"role": "prefill", "decode_targets": [1]}
    spec["deployments"][1] |= {"role": "decode"}
    return with_class(spec, targets=[{"deployments": [0], "share": None}])


def test_zero_transfer_is_aggregated_where_nobody_meets() -> None:
    rows = [(at * 400 * MS, 0, 20 + 7 * at, 1 + 3 * at) for at in range(12)]
    names = ["start_ns", "first_token_ns", "end_ns"]
    whole, parted = run(cell(toy()), rows), run(split(), rows)
    assert whole.requests is not None
    assert parted.requests is not None
    assert parted.requests.select(names).equals(whole.requests.select(names))


def test_the_second_token_waits_for_the_link_and_the_first_does_not() -> None:
    """Case C45, prefill emitting the first token: the transfer shows in the gap, and blocks are held on both sides."""
    plan = core.plan(toy())
    rows = [(0, 0, 256, 2), (0, 0, 256, 2)]
    n_bytes = 256 * plan["kv_bytes_per_token"]
    link = {"bytes_per_s": n_bytes / 0.5, "latency_ns": 3 * MS}  # 500 ms each
    parted, free = kept(run(split(link), rows)), kept(run(split(), rows))
    assert [row["first_token_ns"] for row in parted] == [row["first_token_ns"] for row in free]
    step = free[1]["end_ns"] - free[1]["first_token_ns"]
    first = parted[0]["end_ns"] - parted[0]["first_token_ns"]
    assert first == pytest.approx(503 * MS + step, rel=0.001)
    # The second prompt, done earlier than that, waits for the first to be off the link.
    assert parted[1]["first_token_ns"] < parted[0]["first_token_ns"] + 500 * MS
    assert parted[1]["end_ns"] == pytest.approx(parted[0]["first_token_ns"] + 1003 * MS + step, rel=0.001)


def test_a_decode_pool_holds_the_prompt_during_the_transfer() -> None:
    """With room for one prompt only, the second is not even on its way before the first has ended."""
    link = {"bytes_per_s": 256 * core.plan(toy())["kv_bytes_per_token"] / 0.05}
    spec = split(link)
    spec["deployments"][1]["deployment"] = toy(blocks=18)
    rows = kept(run(spec, [(0, 0, 256, 4), (0, 0, 256, 4)]))
    assert rows[1]["end_ns"] > rows[0]["end_ns"] + 50 * MS


def test_scale_events_at_constant_load_are_none() -> None:
    """Case C35: two replicas at 0.70 of what they hold, a limit of 0.80: both stay."""
    spec = cell([(toy(max_batch=10), 4)], length_ns=2_000 * MS)
    spec["deployments"][0]["autoscale"] = {"min": 2, "max": 4, "target_ppm": 800_000, "delay_ns": 50 * MS}
    rows, links = [], []
    for row in range(14 * 60):  # 14 of 20 places, always
        rows.append((0, 0, 20, 40))
        links.append((None if row < 14 else row - 14, 0))
    tables = run(with_class(spec, chains_go_on=True), rows, links)
    down = tables.deployments["down_s"].item()
    assert down == pytest.approx(2 * 2.0)  # the two others, all the time


def test_a_replica_that_fails_hands_its_requests_on() -> None:
    spec = cell([(toy(), 2)])
    spec["deployments"][0]["outages"] = [{"at_ns": 30 * MS, "length_ns": 10**9, "first": 0, "n_replicas": 1}]
    tables = run(spec, [(0, 0, 50, 100)] * 6)
    counts = tables.classes.row(0, named=True)
    assert (counts["completed"], counts["lost"], counts["retried"]) == (6, 3, 3)
    assert {row["replica_ix"] for row in kept(tables)} == {1}


def test_what_a_request_saw_before_its_replica_failed_counts_in_its_limit() -> None:
    """A long prompt between its tokens is its longest gap; the replica fails once that is over, another serves."""
    spec = cell([(toy(), 2)]) | {"router": "round-robin"}
    spec["deployments"][0]["outages"] = [{"at_ns": 220 * MS, "length_ns": 10**9, "first": 0, "n_replicas": 1}]
    rows = [(0, 0, 5, 100), (0, 0, 5, 1), (5 * MS, 0, 40, 1)]
    seen = check(spec, rows).rows[0]
    assert max(seen.gaps) > max(seen.gaps[1 - len(seen.times) :])
    for limit_ns, attained in ((max(seen.gaps), 3), (max(seen.gaps) - 1, 2)):
        limited = with_class(spec, limits=[{"metric": "itl", "limit_ns": limit_ns}])
        assert check(limited, rows).counts[0]["attained"] == attained


def test_lone_replica_down_turns_away_unless_clients_try_again() -> None:
    spec = cell(toy())
    spec["deployments"][0]["outages"] = [{"at_ns": 0, "length_ns": 500 * MS, "first": 0, "n_replicas": 1}]
    assert run(spec, [(MS, 0, 5, 5)]).classes["rejected"].item() == 1
    retries = {"n": 3, "backoff_ns": 100 * MS, "factor": 2.0}
    (row,) = kept(run(with_class(spec, retries=retries), [(MS, 0, 5, 5)]))
    assert row["start_ns"] == MS + (100 + 200 + 400) * MS
    assert row["fate"] == 0


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"autoscale": {"min": 2, "max": 1, "target_ppm": 1, "delay_ns": 1}}, "autoscale"),
        ({"outages": [{"at_ns": 0, "length_ns": 1, "first": 1, "n_replicas": 1}]}, "replicas that there are"),
        ({"failures": [{"mean_ns": 0, "repair_ns": 1, "n_together": 1}]}, "above 0"),
        ({"failures": [{"mean_ns": 5, "repair_ns": 1, "n_together": 1}]}, "1 ms or more"),
        ({"role": "prefill"}, "decode_targets"),
        ({"role": "decode"}, "takes no prompts"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], says: str) -> None:
    spec = cell(toy())
    spec["deployments"][0] |= fields
    with pytest.raises(CoreError, match=says):
        run(spec, [(0, 0, 5, 5)])


def streamed(n: int, slice_rows: int = 100_000) -> Iterator[pl.DataFrame]:
    for first in range(0, n, slice_rows):
        rows = pl.int_range(first, first + slice_rows, eager=True, dtype=pl.UInt64)
        yield pl.DataFrame(
            {
                "arrival_ns": rows * 10 * MS,
                "class_ix": pl.repeat(0, slice_rows, dtype=pl.UInt16, eager=True),
                "input_tokens": pl.repeat(2, slice_rows, dtype=pl.UInt32, eager=True),
                "output_tokens": pl.repeat(1, slice_rows, dtype=pl.UInt32, eager=True),
            }
        )


@pytest.mark.parametrize(("is_streamed", "is_flat"), [(True, True), (False, False)])
def test_memory_does_not_grow_with_the_number_of_requests(*, is_streamed: bool, is_flat: bool) -> None:
    """Three quarters of two million rows are 27 MB in columns alone; handed over in one piece, they show."""

    def peak(n: int) -> int:
        frames = f"streamed({n})" if is_streamed else f"pl.concat(streamed({n}))"
        return peak_bytes(
            "import polars as pl\nfrom planner import core\nfrom tests.deployments import cell, toy\n"
            "from tests.unit.test_cell import streamed\n"
            "spec = cell(toy(), keep_requests=False, window_ns=10**14, length_ns=10**15)\n"
            f"assert core.simulate(spec, {frames}).classes['completed'].item() == {n}\n"
        )

    grown = peak(2_000_000) - peak(500_000)
    assert (grown < 12_000_000) == is_flat, grown


def downtimes(key: int | None) -> list[list[float]]:
    """By deployment, the time that its first group is down, window by window."""
    spec = cell([(toy(), 2), (toy(), 4)], window_ns=100 * MS, length_ns=20_000 * MS, drain_ns=0)
    for placed, n_together in zip(spec["deployments"], (1, 2), strict=True):
        failure = {"mean_ns": 900 * MS, "repair_ns": 70 * MS, "n_together": n_together}
        placed["failures"] = [failure if key is None else failure | {"key": key}]
        placed["cold_start_ns"] = 11 * MS
    windows = core.simulate(spec, requests([])).windows
    found = []
    for ix, n_together in enumerate((1, 2)):
        mine = dict(windows.filter(pl.col("deployment_ix") == ix).select("window_ix", "down_s").iter_rows())
        found.append([round(mine.get(window, 0.0) / n_together, 9) for window in range(200)])
    return found


def test_groups_of_one_key_fail_together_over_deployments() -> None:
    one, other = downtimes(7)
    assert one == other
    assert sum(one) > 1.0
    assert downtimes(8) != downtimes(7)
    apart = downtimes(None)
    assert apart[0] != apart[1]
    assert apart[0] != one


def test_what_is_down_is_off_once_it_has_drained() -> None:
    spec = cell(toy(), length_ns=1000 * MS, drain_ns=0)
    spec["deployments"][0]["maintenance"] = [{"at_ns": 30 * MS, "length_ns": 600 * MS, "first": 0, "n_replicas": 1}]
    tables = run(spec, [(0, 0, 50, 30)])
    (end,) = [row["end_ns"] for row in kept(tables)]
    work = tables.deployments.row(0, named=True)
    assert 30 * MS < end < 630 * MS
    assert work["down_s"] == 0.6
    assert work["off_s"] == (630 * MS - end) / 1e9
    # A failure takes the step with it: off from that instant on.
    spec["deployments"][0] |= {"maintenance": [], "outages": spec["deployments"][0]["maintenance"]}
    work = run(spec, [(0, 0, 50, 30)]).deployments.row(0, named=True)
    assert (work["down_s"], work["off_s"]) == (0.6, 0.6)


def test_tasks_that_the_end_of_the_run_cuts_off_are_none() -> None:
    spec = with_class(cell(toy(), length_ns=200 * MS), limits=[])
    late, too_large = (150 * MS, 0, 50, 3), (0, 0, 900_000, 3)
    rows = [(0, 0, 50, 3), (0, 0, 50, 3), too_large, (0, 0, 50, 3), late, late]
    # A whole task; one whose first turn failed; one whose second turn would come too late.
    links: list[tuple[int | None, int]] = [(None, 0), (0, MS), (None, 0), (2, 0), (None, 0), (4, 100 * MS)]
    counts = run(spec, rows, links).classes.row(0, named=True)
    assert counts["span_tasks"] == 2
    assert (counts["offered"], counts["cancelled"], counts["rejected"]) == (5, 1, 1)
