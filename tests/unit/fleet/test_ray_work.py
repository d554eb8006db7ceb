"""What goes to workers and comes back, without a cluster: bundles, requests in files, another core."""

from __future__ import annotations

import builtins
import os
import pickle
import signal
import subprocess
import uuid
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from planner import core
from planner.errors import RunError
from planner.fleet import draws, parts, ray_work
from planner.fleet.draws import Draw
from planner.fleet.executor import Simulation, Tally, items_to_do
from planner.fleet.layout import lay_out
from planner.fleet.local_executor import LocalExecutor
from planner.fleet.processes import below, end_below
from planner.fleet.ray_address import _version, check_answers, refusal
from planner.fleet.ray_work import Slice
from planner.fleet.storage import Folder
from planner.scenario import load
from planner.study.run import mean_lengths
from planner.study.work import Asked, simulate
from planner.traffic import streamed
from planner.traffic.schema import NO_ROW
from tests.cli.test_run import DRAWN, scenario


def simulation(n_requests: list[int], key: str = "") -> Simulation:
    draw = Draw(key or str(n_requests), None, 1, False, ((1.0,) * len(n_requests),))  # type: ignore[arg-type]
    return Simulation("", draw, ({},) * len(n_requests), ((),) * len(n_requests), 10**9, tuple(n_requests))


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=1, max_size=6), min_size=1, max_size=30), st.integers(1, 64))
def test_bundles_hold_every_cell_once_and_never_mix_simulations_of_several(
    sizes: list[list[int]], n_workers: int
) -> None:
    simulations = [simulation(each, key=str(ix)) for ix, each in enumerate(sizes)]
    items = items_to_do(simulations, [])
    made = ray_work.bundles(items, simulations, n_workers, lambda _: False)
    assert [item for bundle in made for item in bundle] == items
    assert sorted(items) == [(s, c) for s, each in enumerate(sizes) for c in range(len(each))]
    for bundle in made:
        assert 1 <= len(bundle) <= ray_work.MOST_IN_BUNDLE
        kinds = {s if simulations[s].n_cells > 1 else None for s, _ in bundle}
        assert len(kinds) == 1
        cost_s = [simulations[s].cost_s(c) for s, c in bundle]
        assert len(bundle) == 1 or sum(cost_s) <= ray_work.BUNDLE_S
    costs = [max(simulations[s].cost_s(c) for c in range(simulations[s].n_cells)) for s, _ in items]
    assert costs == sorted(costs, reverse=True)


def test_ten_thousand_small_cells_are_few_bundles_and_a_few_are_spread() -> None:
    small = [simulation([1000], key=str(ix)) for ix in range(10_000)]
    items = items_to_do(small, [])
    assert len(ray_work.bundles(items, small, 2, lambda _: False)) <= 110  # 5 ms each, half a second a bundle
    few = ray_work.bundles(items[:40], small[:40], 8, lambda _: False)
    assert len(few) >= 8


def test_progress_is_simulated_time() -> None:
    simulations = [simulation([10, 10]), simulation([30])]
    tally = Tally(simulations, [(0, 1), (1, 0)])
    assert (tally.progress().done_s, tally.progress().total_s, tally.progress().n_cells_done) == (1.0, 3.0, 1)
    tally.at((1, 0), 5 * 10**8)
    assert tally.progress().done_s == 1.5
    tally.done((1, 0))
    tally.done((1, 0))
    assert (tally.progress().done_s, tally.progress().n_cells_done) == (2.0, 2)


@pytest.mark.parametrize("where", ["disk", "address"])
def test_a_cell_reads_its_own_rows_of_the_file_of_all(tmp_path: Path, where: str) -> None:
    asked = load(scenario(tmp_path, DRAWN + "\n    prefix_reuse: 40 %"))
    folder = Folder.of(tmp_path / "parts" if where == "disk" else f"memory://{uuid.uuid4().hex}")
    draw = Draw("0" * 64, asked, 3, True, ((1.0, 2.0, 0.0, 1.0),))
    by_reference = ray_work.drawn(draw)
    in_files = ray_work.laid_down(draw, folder)
    assert folder.names() == ["requests-0000000000000000-3-blocks.parquet", "requests-0000000000000000-3.parquet"]
    for (facts, cell), place in zip(by_reference, in_files, strict=True):
        read = ray_work.read(place)
        assert place.facts == facts
        assert_frame_equal(read.frame, cell.frame)
        assert read.runs is not None
        assert_frame_equal(read.runs, cell.runs)  # type: ignore[arg-type]
        assert read.rows is not None
        assert read.rows.to_list() == cell.rows.to_list()  # type: ignore[union-attr]
    assert sum(isinstance(place, Slice) and place.n for place in in_files) == sum(facts.n_requests)
    assert in_files[2].n == 0
    assert NO_ROW not in pl.concat([cell.rows for _, cell in by_reference if cell.rows is not None]).to_list()


def test_cells_that_go_together_come_back_as_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a worker of a cluster does it: what it is sent has been pickled, and what it sends back is packed."""
    asked = load(scenario(tmp_path, DRAWN), sets=["fleet.cell_replicas=2"])
    fleet = lay_out(asked, mean_lengths(asked))
    caught: list[Simulation] = []

    class Catching(LocalExecutor):
        def run(self, simulations: Any, **more: Any) -> Any:
            caught.extend(simulations)
            return super().run(simulations, **more)

    (held,) = simulate([Asked(asked, fleet)], executor=Catching(2))
    (simulation,) = caught
    assert simulation.n_cells > 2
    monkeypatch.setattr(streamed, "LEAST", 0)
    items = [(0, cell) for cell in range(simulation.n_cells)]
    made = ray_work.bundles(items, [simulation], 2, lambda _: True)
    assert [len(each) for each in made] == [-(-len(items) // 2), len(items) // 2]
    flow = draws.flow(simulation.draw)
    done = []
    for some in made:
        order = ray_work.Order("", 0, parts.made_by(), tuple(ray_work.cell_of(item, simulation) for item in some))
        told: list[tuple[int, int]] = []
        sent = pickle.loads(pickle.dumps((order, flow)))
        note, each = ray_work.work(sent[0], [sent[1]] * len(some), progress=lambda *at, told=told: told.append(at))
        assert note.n_bytes == len(each.packed[0])
        assert told
        done.append(each)
    whole = ray_work.unpacked(ray_work.merged(done).packed[0])
    assert whole.cells == tuple(range(simulation.n_cells))
    facts = draws.told(simulation.draw, whole.facts)
    assert facts.notices == held.seeds[0].traffic.notices
    assert facts.shortest_kv_tokens == held.seeds[0].traffic.shortest_kv_tokens
    for name in ("classes", "class_windows", "deployments", "windows", "sketches"):
        assert_frame_equal(getattr(core.finish(whole.tables), name), getattr(held.seeds[0].sim, name))


def test_another_core_does_not_work() -> None:
    ray_work.check_core(parts.made_by())
    with pytest.raises(RunError, match=r"a worker has core .*, the driver has 9\.9 abc; install the same planner"):
        ray_work.work(ray_work.Order("", 0, "9.9 abc", ()), [])


@pytest.mark.parametrize(
    ("address", "error", "says"),
    [
        ("10.0.0.7:6379", RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.1"), "Ray: 2.1"),
        ("auto", ConnectionError("Could not find any running Ray instance"), "no Ray cluster runs here; --ray new"),
        ("new", SystemExit(15), "no Ray cluster could be started"),
        ("10.0.0.7:6379", TimeoutError("GCS"), "the Ray cluster at 10.0.0.7:6379 cannot be used: GCS"),
    ],
)
def test_what_ray_refuses_is_said_in_a_line(address: str, error: BaseException, says: str) -> None:
    said = str(refusal(address, error))
    assert says in said
    assert "\n" not in said


@pytest.mark.parametrize(("n_dead", "n_tried"), [(0, 1), (2, 3), (9, 4)])
def test_a_process_for_clients_that_dies_as_it_starts_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, n_dead: int, n_tried: int
) -> None:
    ray_door = pytest.importorskip("planner.fleet.ray_door")
    tried: list[int] = []

    def connect(**_: object) -> None:
        tried.append(1)
        if len(tried) <= n_dead:
            raise ConnectionAbortedError("Initialization failure from server:\nTraceback:\n  line\nserver failed.\n")

    monkeypatch.setattr("ray.init", connect)
    monkeypatch.setattr("ray.shutdown", lambda: None)
    monkeypatch.setattr(ray_door, "check_answers", lambda *_, **__: None)
    if n_dead < ray_door.TRIES:
        ray_door._connect("ray://host:10001", None, None)
    else:
        with pytest.raises(RunError, match=r"cannot be used: server failed\.; see the logs of its head"):
            ray_door._connect("ray://host:10001", None, None)
    assert len(tried) == n_tried


def test_of_the_processes_below_those_that_were_there_before_are_left() -> None:
    with subprocess.Popen(["sleep", "60"]) as before:
        others = below(os.getpid())
        with subprocess.Popen(["sleep", "60"]) as since:
            end_below(os.getpid(), but=others)
            assert since.wait(10) == -signal.SIGKILL
            assert before.poll() is None
        before.kill()


def test_ports_that_are_none_are_refused_without_a_look() -> None:
    for address in ("host", "host:", "host:0", "host:99999", "ftp://host:1", ":6379"):
        with pytest.raises(RunError, match="is no address of a Ray cluster"):
            check_answers(address, version="2.60.0", token={})


def test_the_version_in_a_heads_answer() -> None:
    # What heads of 2.59 and 2.60 were seen to answer: status 0, version, the nodes asked for.
    assert _version(b"\n\x00\x12\x062.60.0 \x01") == "2.60.0"
    assert _version(b"\n\x00\x12\x062.59.0") == "2.59.0"
    for cut in (b"", b"\n", b"\n\x00", b"\x08\x01\x12\x062.60.0", b"\x12\xff\x01"):
        assert _version(cut) == ""


def test_threads_import_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.fleet.executors import opened

    importing = builtins.__import__

    def without(name: str, *given: Any, **options: Any) -> Any:
        assert name.split(".", maxsplit=1)[0] != "ray", "threads need no Ray"
        return importing(name, *given, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with opened(workers=1) as executor:
        assert executor.facts([]) == []
