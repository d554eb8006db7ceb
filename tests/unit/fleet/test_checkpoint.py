"""Where parts are kept: on a disk and at an address, one driver at a time, and what is torn, altered or foreign."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from planner.aggregate.result import Result
from planner.errors import RunError, ScenarioError
from planner.fleet import checkpoint, lock, parts
from planner.fleet.checkpoint import Checkpoint
from planner.fleet.executor import Progress
from planner.fleet.lock import NAME, Lock
from planner.fleet.storage import Folder
from planner.scenario import Scenario, load
from planner.study import answer as study
from planner.study import run as road
from tests.cli.test_run import scenario

CELLS = "run: {length: 30 s, seed: 2, seeds: 3}"


def asked(folder: Path, *sets: str) -> list[Scenario]:
    path = Path(scenario(folder, run="length: 30 s, seed: 2, seeds: 3"))
    path.write_text(path.read_text().replace("fleet:\n", "fleet:\n  cell_replicas: 3\n"))
    return [load(str(path), sets=sets)]  # 8 replicas: 3 cells and 3 seeds are 9 parts


@pytest.fixture(params=["disk", "address"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "out") if request.param == "disk" else f"memory://{uuid.uuid4().hex}/out"


class Stop(Exception):
    pass


def interrupted(folder: Path, place: str, after: int, monkeypatch: pytest.MonkeyPatch, *sets: str) -> list[bytes]:
    """A run that ends with its `after`-th part; gives the parts."""
    keep = Checkpoint.keep
    seen: list[bytes] = []

    def stopping(self: Checkpoint, packed: bytes) -> None:
        keep(self, packed)
        seen.append(packed)
        if len(seen) == after:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "keep", stopping)
        with pytest.raises(Stop):
            study.answer(asked(folder, *sets), out=place, workers=1)
    return seen


def same(one: Result, other: Result) -> None:
    assert one.to_json() == other.to_json()
    for name, table in one.tables.items():
        assert_frame_equal(table, other.tables[name])


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the cells that are simulated from here on."""
    from planner import core

    done: list[int] = []
    simulate = core.simulate_cell

    def counting(*given, **options):  # type: ignore[no-untyped-def]
        done.append(1)
        return simulate(*given, **options)

    monkeypatch.setattr(core, "simulate_cell", counting)
    return done


def test_resume_does_what_is_missing_and_nothing_else(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = road.run(asked(tmp_path))
    interrupted(tmp_path, place, 4, monkeypatch)
    assert len([n for n in Folder.of(place + ".parts").names() if n.endswith(".part")]) == 4
    with pytest.raises(
        RunError, match=r"4 finished parts of an interrupted run .*--resume goes on.*--force begins anew"
    ):
        study.answer(asked(tmp_path), out=place)
    done = counted(monkeypatch)
    resumed = study.answer(asked(tmp_path), out=place, is_resuming=True)
    assert (len(done), resumed.is_reused) == (5, False)
    same(resumed.result, whole)
    assert not Folder.of(place + ".parts").exists()
    assert study.answer(asked(tmp_path), out=place).is_reused
    same(Result.load(place), whole)


SAMPLED = ("run.seeds=1", "fleet.cell_replicas=null", "run.samples=6", "run.samples_simulated=2", "fleet.spare=10 %")


@pytest.mark.parametrize("after", [3, 7])
def test_samples_and_swings_are_gone_on_with_too(tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run and its check, two samples and theirs are one list of 6; swings are another that hangs on the first."""
    place = str(tmp_path / "out")
    told: list[Progress] = []
    total = counted(monkeypatch)
    whole = road.run(asked(tmp_path, *SAMPLED), progress=told.append, workers=1)
    n_swings = len(total) - 6
    assert n_swings >= 4
    monkeypatch.undo()
    assert (told[-1].n_cells, told[-1].total_s) == (len(total), len(total) * 630.0)
    assert [each.done_s for each in told] == sorted(each.done_s for each in told)
    kept = interrupted(tmp_path, place, after, monkeypatch, *SAMPLED)
    names = [name for name in Folder.of(place + ".parts").names() if name.endswith(".part")]
    assert [name.split("-")[0] for name in names].count("run") == min(after, 6)
    assert len(names) == len(kept) == after
    done = counted(monkeypatch)
    resumed = study.answer(asked(tmp_path, *SAMPLED), out=place, is_resuming=True)
    assert len(done) == len(total) - after
    same(resumed.result, whole)


def test_force_begins_anew(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(tmp_path, place, 2, monkeypatch)
    done = counted(monkeypatch)
    assert not study.answer(asked(tmp_path), out=place, is_forced=True).is_reused
    assert len(done) == 9


def test_what_was_torn_or_altered_is_done_again(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = interrupted(tmp_path, place, 6, monkeypatch)
    folder = Folder.of(place + ".parts")
    names = [name for name in folder.names() if name.endswith(".part")]
    folder.write(names[0], folder.read(names[0])[:-7])
    folder.write(names[1], b"")
    folder.write(names[2], folder.read(names[2]).replace(b'"seed":', b'"Seed":', 1))
    folder.write("run-000000-000000-9.part", kept[3])  # a cell that is in another part too
    folder.write(".000001.part.draft", b"half written by a process that was killed")
    done = counted(monkeypatch)
    resumed = study.answer(asked(tmp_path), out=place, is_resuming=True)
    assert len(done) == 3 + 3
    same(resumed.result, road.run(asked(tmp_path)))


def test_a_changed_question_and_another_version_are_refused(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(tmp_path, place, 1, monkeypatch)
    with pytest.raises(RunError, match="answer another question: the input was changed"):
        study.answer(asked(tmp_path, "run.seed=3"), out=place, is_resuming=True)
    folder = Folder.of(place + ".parts")
    manifest = json.loads(folder.read(checkpoint.MANIFEST))
    folder.write(checkpoint.MANIFEST, json.dumps(manifest | {"core": "0.0.1 abc"}).encode())
    with pytest.raises(RunError, match=r"are from another version .*core 0\.0\.1 abc"):
        study.answer(asked(tmp_path), out=place, is_resuming=True)
    folder.write(checkpoint.MANIFEST, b"{")
    with pytest.raises(RunError, match="damaged; --force begins anew"):
        study.answer(asked(tmp_path), out=place, is_resuming=True)
    assert [n for n in folder.names() if n.endswith(".part")]
    assert NAME not in folder.names()


def test_a_run_without_a_finished_part_leaves_nothing(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "keep", stop)
    with pytest.raises(study.Interrupted) as stopped:
        study.answer(asked(tmp_path), out=place, workers=1)
    assert str(stopped.value) == ""
    assert not Folder.of(place + ".parts").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.yaml"]


def test_an_interrupt_says_how_to_go_on(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = Checkpoint.keep

    def stop(self: Checkpoint, packed: bytes) -> None:
        keep(self, packed)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "keep", stop)
        with pytest.raises(study.Interrupted, match=r"1 finished parts are kept in .*\.parts.*--resume goes on"):
            study.answer(asked(tmp_path), out=place, workers=1)
    assert not study.answer(asked(tmp_path), out=place, is_resuming=True).is_reused


def test_two_drivers_and_locks_that_are_left_over(tmp_path: Path, place: str) -> None:
    folder = Folder.of(place)
    first = Lock(folder)
    first.take()
    with pytest.raises(RunError, match=f"process {os.getpid()} on {socket.gethostname()}, is at work"):
        Lock(folder).take()
    first.release()
    second = Lock(folder)
    second.take()
    second.release()
    # Left over by a process of this machine that is no more, and by one whose number has a new holder.
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for about in ({"pid": gone.pid, "begun": "1"}, {"pid": os.getpid(), "begun": "1"}):
        folder.write(NAME, json.dumps(about | {"host": socket.gethostname()}).encode())
        third = Lock(folder)
        third.take()
        third.release()
    assert NAME not in folder.names()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("BEAT_S", 0.1), ("SILENT_S", 1.0), ("LOOK_S", 0.05)):
        monkeypatch.setattr(lock, name, value)


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")


@pytest.mark.usefixtures("quick")
def test_a_lock_of_another_machine_holds_while_its_holder_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder.of(f"memory://{uuid.uuid4().hex}")
    with monkeypatch.context() as patch:
        elsewhere(patch)
        first = Lock(folder)
        first.take()
    for _ in range(2):
        with pytest.raises(RunError, match=r"on elsewhere.*if it is gone, remove memory://.*lock\.json"):
            Lock(folder).take()
    first.release()
    assert NAME not in folder.names()
    second = Lock(folder)
    second.take()
    second.release()


@pytest.mark.usefixtures("quick")
def test_a_lock_of_another_machine_that_falls_silent_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder.of(f"memory://{uuid.uuid4().hex}")
    with monkeypatch.context() as patch:
        elsewhere(patch)
        first = Lock(folder)
        first.take()
        first._ends.set()  # its process was killed
        second = Lock(folder)
    second.take()
    said = json.loads(folder.read(NAME))
    assert said["host"] == socket.gethostname()
    first.release()  # it is alive after all: what is no longer its own it leaves alone
    assert json.loads(folder.read(NAME))["token"] == said["token"]
    second.release()
    assert NAME not in folder.names()


def test_a_driver_that_was_killed_holds_nobody_up(tmp_path: Path) -> None:
    code = "import sys,time; from planner.fleet.lock import Lock; from planner.fleet.storage import Folder\n"
    code += "lock = Lock(Folder.of(sys.argv[1])); lock.take(); print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == "held\n"
    with pytest.raises(RunError, match=f"process {holder.pid} on"):
        Lock(Folder.of(tmp_path)).take()
    holder.kill()
    holder.wait()
    lock = Lock(Folder.of(tmp_path))
    lock.take()
    lock.release()


def test_a_jump_of_the_clock_changes_nothing(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**9, -(10**9), -86_400))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    interrupted(tmp_path, place, 2, monkeypatch)
    resumed = study.answer(asked(tmp_path), out=place, is_resuming=True)
    same(resumed.result, road.run(asked(tmp_path)))


@pytest.mark.parametrize("file", ["part", "result.json"])
def test_a_full_disk_is_one_message_and_finished_parts_are_kept(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    written: list[str] = []
    if file == "part":
        replace = Path.replace

        def full(self: Path, target: Path) -> Path:
            written.append(str(target))
            if len([name for name in written if name.endswith(".part")]) > 3:
                raise OSError(28, os.strerror(28))
            return replace(self, target)

        monkeypatch.setattr(Path, "replace", full)
    else:
        write = Path.write_text

        def full_text(self: Path, text: str, **options: str) -> int:
            if self.name == "result.json":
                raise OSError(28, os.strerror(28))
            return write(self, text, **options)

        monkeypatch.setattr(Path, "write_text", full_text)
    with pytest.raises(RunError) as error:
        study.answer(asked(tmp_path), out=out, workers=1)
    assert "No space left on device" in str(error.value)
    assert f"{3 if file == 'part' else 9} finished parts are kept in {out}.parts" in str(error.value)
    assert not out.exists()
    monkeypatch.undo()
    done = counted(monkeypatch)
    resumed = study.answer(asked(tmp_path), out=out, is_resuming=True)
    assert len(done) == (6 if file == "part" else 0)
    same(resumed.result, road.run(asked(tmp_path)))
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["out"]


def test_a_folder_that_cannot_be_made_or_reached(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot write .*file/out"):
        study.answer(asked(tmp_path), out=tmp_path / "file" / "out")
    with pytest.raises(RunError, match="cannot be reached"):
        study.answer(asked(tmp_path), out="nosuchscheme://bucket/out")
    with pytest.raises(ScenarioError, match="no result of planner run"):
        Result.load("memory://nothing/there")


def test_a_result_at_an_address_is_replaced_whole_and_nothing_else_is(tmp_path: Path) -> None:
    place = f"memory://{uuid.uuid4().hex}/out"
    first = road.run(asked(tmp_path), keep_requests=True)
    first.save(place, log="one\n")
    with pytest.raises(RunError, match="is there already"):
        first.save(place)
    second = road.run(asked(tmp_path, "run.seed=9"))
    second.save(place, is_replacing=True)
    assert "requests.parquet" not in Folder.of(place).names()
    same(Result.load(place), second)
    thesis = f"memory://{uuid.uuid4().hex}/other"
    Folder.of(thesis).write("thesis.txt", b"years of work")
    with pytest.raises(RunError, match="is no result"):
        second.save(thesis, is_replacing=True)
    Folder.of(place).write("pools.parquet", b"cut short")
    with pytest.raises(RunError, match="changed after it was written"):
        Result.load(place)


def test_parts_hold_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for packed in interrupted(tmp_path, str(tmp_path / "out"), 2, monkeypatch):
        about, _ = parts.opened(packed)
        part = parts.unpack(packed)
        assert about["inputs"].startswith("sha256:")
        assert about["core"] == parts.made_by()
        assert part.tables.classes["offered"].sum() == part.facts.n_requests[part.cells[0]]
        assert isinstance(part.tables.work, pl.DataFrame)
