"""Runs on a cluster of real Ray processes: the same bytes as on threads, whoever is killed when."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import (
    N_CELLS,
    SEEDS,
    Driver,
    cluster,
    is_alive,
    raylet,
    same_bytes,
    scenario,
    tree,
    until,
    workers,
)
from tests.commandline import ROOT, planner

pytestmark = [pytest.mark.filterwarnings("ignore")]
ALL = SEEDS * N_CELLS


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    with cluster(1, 1) as made:
        yield made


def victims(made: Any) -> list[int]:
    return [pid for node in made.worker_nodes for pid in workers(node)]


def test_the_same_bytes_as_on_threads_and_nothing_on_stdout_but_the_answer(
    two_nodes: Any, work: str, undisturbed: Path, tmp_path: Path
) -> None:
    said, told = Driver(work, tmp_path / "out", "--ray", two_nodes.address).end()
    same_bytes(undisturbed, tmp_path / "out")
    assert said.startswith("Work for a cluster")
    assert all(line.startswith("warning: ") for line in told.splitlines()), told
    assert len(set(told.splitlines())) == len(told.splitlines())


def test_a_worker_and_then_the_driver_are_killed(two_nodes: Any, work: str, undisturbed: Path, tmp_path: Path) -> None:
    dice = random.Random(1)
    driver = Driver(work, tmp_path / "out", "--ray", two_nodes.address)
    driver.wait_for(dice.randrange(1, 3))
    os.kill(dice.choice(until(lambda: victims(two_nodes), "nobody works")), signal.SIGKILL)
    driver.wait_for(driver.n_parts() + dice.randrange(1, 3))
    driver.kill()
    assert 2 <= driver.n_parts() < ALL
    refused = planner("run", work, "-o", str(tmp_path / "out"), "--keep", "requests", "--ray", two_nodes.address)
    assert (refused.returncode, "--resume goes on" in refused.stderr) == (5, True)
    Driver(work, tmp_path / "out", "--ray", two_nodes.address, "--resume").end()
    same_bytes(undisturbed, tmp_path / "out")


def test_ctrl_c_keeps_what_is_finished_and_threads_can_go_on(
    two_nodes: Any, work: str, undisturbed: Path, tmp_path: Path
) -> None:
    driver = Driver(work, tmp_path / "out", "--ray", two_nodes.address)
    driver.wait_for(2)
    driver.process.send_signal(signal.SIGINT)
    _, told = driver.end(130, within_s=30)
    assert f"finished parts are kept in {tmp_path / 'out'}.parts: the same command with --resume goes on" in told
    assert "Traceback" not in told
    until(lambda: not victims(two_nodes), "work goes on after Ctrl-C", within_s=30)
    Driver(work, tmp_path / "out", "--resume").end()
    same_bytes(undisturbed, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [1.5, 2.5, 3.5, 5.0])
def test_ctrl_c_while_a_cluster_is_started_leaves_nothing_of_it(work: str, tmp_path: Path, after_s: float) -> None:
    driver = Driver(work, tmp_path / "out", "--ray", "new", "-j", "2")
    time.sleep(after_s)
    pids = tree(driver.started)
    driver.process.send_signal(signal.SIGINT)
    _, told = driver.end(130, within_s=30)
    assert told.startswith("interrupted")
    assert len(told.splitlines()) == 1
    until(lambda: not any(map(is_alive, pids)), "processes outlive Ctrl-C", within_s=10)


def test_requests_of_a_trace_go_as_files_or_by_reference(two_nodes: Any, tmp_path: Path) -> None:
    rows = [f"{k * 0.05:.2f},{200 + k * 37 % 900},{5 + k * 13 % 90}" for k in range(1200)]
    (tmp_path / "trace.csv").write_text("\n".join(["arrival_s,input_tokens,output_tokens", *rows]) + "\n")
    file = scenario(tmp_path, seeds=1, traffic="trace: ./trace.csv")
    Driver(file, tmp_path / "threads").end()
    Driver(file, tmp_path / "reference", "--ray", two_nodes.address).end()
    same_bytes(tmp_path / "threads", tmp_path / "reference")
    Driver(file, f"file://{tmp_path / 'files'}", "--ray", two_nodes.address).end()
    same_bytes(tmp_path / "threads", tmp_path / "files")


LOSE = """
import sys
from planner.fleet import ray_door
ray, n_lost = ray_door.ray, 0
class Holder:
    def hold(self, value):
        return [ray.put(value)]
def gone(ref):
    # The same object, held by a process that dies: every node lives, and nothing can make it again.
    holder = ray.remote(num_cpus=0)(Holder).remote()
    (held,) = ray.get(holder.hold.remote(ray.get(ref)))
    ray.kill(holder)
    return held
send = ray_door.SEND
def losing(*given, **options):
    global n_lost
    n_lost += 1
    if n_lost > 2:
        return send(*given, **options)
    print("lost", n_lost, file=sys.stderr)
    HOW
ray_door.SEND = losing
"""


@pytest.mark.parametrize(
    ("send", "how"),
    [
        pytest.param("send_draw", "return [gone(ref) for ref in send(*given, **options)]", marks=pytest.mark.slow),
        ("send_work", "note, result = send(*given, **options); return note, gone(result)"),
        pytest.param("send_merge", "return gone(send(*given, **options))", marks=pytest.mark.slow),
    ],
    ids=["requests", "parts of a simulation", "parts that were merged"],
)
def test_objects_are_lost_while_every_node_lives(
    two_nodes: Any, work: str, undisturbed: Path, tmp_path: Path, send: str, how: str
) -> None:
    code = LOSE.replace("SEND", send).replace("HOW", how)
    where = f"file://{tmp_path / 'out'}" if send == "send_work" else tmp_path / "out"  # else the driver has the parts
    _, told = Driver(work, where, "--ray", two_nodes.address, code=code).end()
    assert "lost 2" in told
    same_bytes(undisturbed, tmp_path / "out")


def test_workers_put_parts_where_they_reach_and_a_killed_driver_is_gone_on_with(
    two_nodes: Any, work: str, undisturbed: Path, tmp_path: Path
) -> None:
    never = "from planner.fleet.checkpoint import Checkpoint\ndel Checkpoint.keep"
    driver = Driver(work, f"file://{tmp_path / 'out'}", "--ray", two_nodes.address, code=never)
    driver.wait_for(3)
    driver.kill()
    assert 3 <= driver.n_parts() < ALL
    Driver(work, f"file://{tmp_path / 'out'}", "--ray", two_nodes.address, "--resume", code=never).end()
    same_bytes(undisturbed, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "file://"])
def test_what_is_kept_of_a_lost_result_is_read_and_not_done_again(
    two_nodes: Any, work: str, undisturbed: Path, tmp_path: Path, kind: str
) -> None:
    twice = """
from planner.fleet import ray_bundles
ray_bundles.SLOW_S = 1e9
send_work, begun = ray_door.send_work, set()
def noting(order, *given, **options):
    for cell in order.cells:
        if (cell.simulation, cell.cell) in begun:
            print("twice", cell.simulation, cell.cell, file=sys.stderr)
        begun.add((cell.simulation, cell.cell))
    return send_work(order, *given, **options)
ray_door.send_work = noting
"""
    code = LOSE.replace("SEND", "send_merge").replace("HOW", "return gone(send(*given, **options))") + twice
    _, told = Driver(work, f"{kind}{tmp_path / 'out'}", "--ray", two_nodes.address, code=code).end()
    assert "lost 2" in told
    assert "twice" not in told
    same_bytes(undisturbed, tmp_path / "out")


@pytest.mark.slow
def test_progress_is_that_of_the_clock_inside_a_cell(two_nodes: Any, tmp_path: Path) -> None:
    """One cell, long enough to be asked several times how far it is."""
    code = """
import sys
from planner import load
from planner.fleet.executors import opened
from planner.study.run import run
told = []
with opened(ray=sys.argv[2]) as executor:
    run(load(sys.argv[1]), executor=executor, progress=told.append)
inside = [each.done_s for each in told if each.n_cells_done == 0 and 0 < each.done_s < each.total_s]
assert len(set(inside)) >= 2, told[-1]
assert inside == sorted(inside)
"""
    file = scenario(tmp_path, seeds=1)
    path = Path(file)
    path.write_text(path.read_text().replace("cell_replicas: 4", "cell_replicas: 16").replace("5 min", "1500 min"))
    done = subprocess.run(
        [sys.executable, "-c", code, file, two_nodes.address], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@contextmanager
def answering(reply: bytes) -> Iterator[int]:
    """A port at which something answers that is no cluster."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                line, _ = server.accept()
            except OSError:
                return
            with line:
                line.recv(100)
                line.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.close()
            thread.join()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1"),
        ("ray://127.0.0.1:1", "no Ray cluster answers at ray://127.0.0.1:1"),
        ("nowhere", "'nowhere' is no address of a Ray cluster; write new, auto, HOST:6379 or ray://HOST:10001"),
        ("http://127.0.0.1:80", "is no address of a Ray cluster"),
        ("HTTP", "is no Ray cluster; check host and port"),
        ("SILENT", "is no Ray cluster; check host and port"),
    ],
)
def test_an_address_without_a_cluster_is_refused_at_once(work: str, tmp_path: Path, address: str, says: str) -> None:
    replies = {"HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n", "SILENT": b""}
    begun_s = time.monotonic()
    with answering(replies.get(address, b"")) as port:
        address = f"127.0.0.1:{port}" if address in replies else address
        done = planner("run", work, "-o", str(tmp_path / "out"), "--ray", address)
        if address != f"127.0.0.1:{port}":
            socket.create_connection(("127.0.0.1", port)).close()
    assert (done.returncode, done.stdout) == (5, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert time.monotonic() - begun_s < 20
    assert not (tmp_path / "out.parts").exists()


def test_what_is_wrong_with_the_input_is_said_as_on_threads(two_nodes: Any, tmp_path: Path) -> None:
    # Both seeds draw prompts that fit nothing but only the second seed's are drawn by workers alone.
    traffic = "arrivals: poisson\n    rate: 1 req/s\n    input: 130 ktok\n    output: 100 ktok"
    file = scenario(tmp_path, seeds=2, traffic=traffic)
    done = planner("run", file, "-o", str(tmp_path / "out"), "--ray", two_nodes.address)
    assert done.returncode in (2, 4), done
    assert "traffic.chat" in done.stderr
    same = planner("run", file, "-o", str(tmp_path / "out2"))
    assert (same.returncode, same.stderr) == (done.returncode, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_nodes_are_killed_and_replaced(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    work, undisturbed = scenario(tmp_path, seeds=20), tmp_path / "threads"
    Driver(work, undisturbed).end()
    with cluster(1, 1) as made:
        driver = Driver(work, tmp_path / "out", "--ray", made.address)
        for _ in range(2):
            driver.wait_for(driver.n_parts() + dice.randrange(1, 6))
            node = dice.choice(sorted(made.worker_nodes, key=raylet))
            made.remove_node(node, allow_graceful=False)
            made.add_node(num_cpus=1)
        driver.end(within_s=200)
        same_bytes(undisturbed, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_drivers_and_workers_are_killed_again_and_again(
    two_nodes: Any, work: str, undisturbed: Path, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    resume: list[str] = []
    for _ in range(4):
        driver = Driver(work, tmp_path / "out", "--ray", two_nodes.address, *resume)
        try:
            driver.wait_for(driver.n_parts() + dice.randrange(1, 5))
            if dice.random() < 0.5 and (found := victims(two_nodes)):
                os.kill(dice.choice(found), signal.SIGKILL)
                time.sleep(dice.random())
        except AssertionError:
            break  # it was done before it could be killed
        driver.kill()
        resume = ["--resume"] if driver.n_parts() else []
    if driver.process.returncode:
        Driver(work, tmp_path / "out", "--ray", two_nodes.address, *resume).end()
    same_bytes(undisturbed, tmp_path / "out")


@pytest.mark.slow
def test_a_worker_that_stands_still_holds_nobody_up(
    two_nodes: Any, work: str, undisturbed: Path, tmp_path: Path
) -> None:
    driver = Driver(work, tmp_path / "out", "--ray", two_nodes.address)
    driver.wait_for(2)
    still = until(lambda: victims(two_nodes), "nobody works")[0]
    os.kill(still, signal.SIGSTOP)
    try:
        driver.end(within_s=120)
    finally:
        if is_alive(still):
            os.kill(still, signal.SIGCONT)
    same_bytes(undisturbed, tmp_path / "out")


@pytest.mark.slow
def test_a_cluster_of_its_own_ends_with_a_driver_that_is_killed(work: str, tmp_path: Path) -> None:
    driver = Driver(work, tmp_path / "out", "--ray", "new", "-j", "2")
    driver.wait_for(1)
    pids = tree(driver.started)
    assert len(pids) > 4
    driver.kill()
    until(lambda: not any(map(is_alive, pids)), "processes outlive their driver", within_s=180)


@pytest.mark.slow
@pytest.mark.parametrize("jump_s", [86_400, -86_400])
@pytest.mark.parametrize("n_read", [1, 2, 3, None])
def test_a_jump_of_the_clock_changes_nothing(
    two_nodes: Any, work: str, undisturbed: Path, tmp_path: Path, n_read: int | None, jump_s: int
) -> None:
    """While Ray connects, at the n-th time that it looks at the clock, by which it measures how long it has waited; or
    again and again while it works.
    """
    jumps = f"""
import time
from planner.fleet import ray_door
clock, init, n_read, n = time.time, ray_door.ray.init, {n_read}, 0
def jumping():
    global n
    n += 1
    return clock() + (({jump_s} if n >= n_read else 0) if n_read else (-1) ** n * {jump_s})
def connected(**given):
    if n_read:
        time.time = jumping
        return init(**given)
    made = init(**given)
    time.time = jumping
    return made
ray_door.ray.init = connected
"""
    Driver(work, tmp_path / "out", "--ray", two_nodes.address, code=jumps).end()
    same_bytes(undisturbed, tmp_path / "out")


@pytest.mark.slow
def test_a_worker_out_of_memory_is_sent_smaller_bundles(
    two_nodes: Any, work: str, undisturbed: Path, tmp_path: Path
) -> None:
    """The worker has no memory for the first bundle that it gets, as if another process had taken it."""
    note = tmp_path / "note"
    code = f"""
from pathlib import Path
from planner.fleet import ray_door, ray_work
def hungry(order, own, *refs):
    note = Path({str(note)!r})
    if not note.exists():
        note.write_text(str(len(order.cells)))
        raise MemoryError("no more")
    given = iter(refs)
    return ray_work.work(order, [next(given) if each is None else each for each in own])
ray_door._work = ray_door.ray.remote(num_cpus=1, num_returns=2)(hungry)
"""
    Driver(work, tmp_path / "out", "--ray", two_nodes.address, code=code).end()
    assert note.exists()
    same_bytes(undisturbed, tmp_path / "out")


@pytest.mark.slow
def test_nodes_without_memory_end_the_run_with_a_word(work: str, tmp_path: Path) -> None:
    with cluster(1, memory_usage_threshold=0.01, memory_monitor_refresh_ms=100) as made:
        _, told = Driver(work, tmp_path / "out", "--ray", made.address).end(5)
    assert "low on memory" in told
    assert len(told.splitlines()) == 1


@pytest.mark.slow
def test_workers_without_this_planner_are_given_it(
    two_nodes: Any, work: str, undisturbed: Path, tmp_path: Path
) -> None:
    code = f"""
from pathlib import Path
from planner.fleet import ray_door, ray_work
look, seen = ray_door._without_planner, []
def lacking():
    seen.append(1)
    return look() if len(seen) > 1 else "none"
ray_door._without_planner = lacking
def noting(order, own, *refs):
    import sys
    Path({str(tmp_path / "note")!r}).write_text("\\n".join(sys.path))
    given = iter(refs)
    return ray_work.work(order, [next(given) if each is None else each for each in own])
ray_door._work = ray_door.ray.remote(num_cpus=1, num_returns=2)(noting)
"""
    Driver(work, tmp_path / "out", "--ray", two_nodes.address, code=code).end()
    same_bytes(undisturbed, tmp_path / "out")
    given = [Path(entry) for entry in (tmp_path / "note").read_text().splitlines() if "py_modules" in entry]
    assert any((entry / "planner" / "_core.abi3.so").is_file() for entry in given)


@pytest.mark.slow
def test_a_cell_that_kills_its_workers_is_given_up_with_a_word(two_nodes: Any, work: str, tmp_path: Path) -> None:
    code = """
import os
from planner.fleet import ray_bundles, ray_door
def deadly(*given):
    os._exit(1)
ray_door._work = ray_door.ray.remote(num_cpus=1, num_returns=2)(deadly)
ray_bundles.TRIES = 1
"""
    driver = Driver(work, tmp_path / "out", "--ray", two_nodes.address, code=code)
    _, told = driver.end(5)
    assert "workers died" in told
    assert "fleet.cell_replicas" in told
    assert not driver.parts.exists()


@pytest.mark.slow
def test_a_full_disk_keeps_what_is_finished(two_nodes: Any, work: str, undisturbed: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(small)], check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        driver = Driver(work, small / "out", "--ray", two_nodes.address)
        _, told = driver.end(5)
        assert "No space left on device" in told
        assert "finished parts are kept" in told
        assert 0 < driver.n_parts() < ALL
        subprocess.run(["mount", "-o", "remount,size=100m", str(small)], check=True)
        Driver(work, small / "out", "--ray", two_nodes.address, "--resume").end()
        same_bytes(undisturbed, small / "out")
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        done = planner("run", work, "-o", str(small / "other"), "--ray", two_nodes.address)
        assert (done.returncode, "Read-only file system" in done.stderr) == (5, True)
        assert len(done.stderr.splitlines()) == 1
    finally:
        subprocess.run(["umount", str(small)], check=True)
