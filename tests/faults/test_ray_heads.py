"""Heads started as people start them: their own port and that for clients, tokens, other releases, lacking packages.

The last two need environments of their own: `OTHER_RAY=DIR BARE_RAY=DIR2 pytest tests/faults/test_ray_heads.py`, with
`python -m venv DIR && DIR/bin/pip install 'ray[client]==2.59.0'`, and in DIR2 the release that runs the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster import Driver, is_alive, same_bytes, scenario, tree, until
from tests.commandline import ENTRY, ROOT

TOKEN = "0123456789abcdef" * 4
HAS_TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
HAS_NONE = {"RAY_AUTH_MODE": "disabled"}


def free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def head(env: dict[str, str], *, bin_: Path = Path(sys.executable).parent) -> Iterator[tuple[str, str]]:
    """Addresses of a head: its own, and that for clients; at its end nothing of it runs."""
    folder = Path(tempfile.mkdtemp())  # the paths of its sockets have to be short
    port, client_port = free_ports(2)
    options = [f"--port={port}", f"--ray-client-server-port={client_port}", "--num-cpus=1", "--disable-usage-stats"]
    command = [str(bin_ / "ray"), "start", "--head", "--block", "--include-dashboard=false", *options]
    log = (folder / "head.log").open("w")
    made = subprocess.Popen(
        [*command, f"--temp-dir={folder / 'r'}"], env={**os.environ, **env}, stdout=log, stderr=log, cwd=folder
    )
    pids = [made.pid]
    try:
        until(lambda: "Ray runtime started" in (folder / "head.log").read_text(), "the head does not start")
        until(lambda: listens(client_port), "nobody listens to clients")
        pids = tree(made.pid)
        yield f"127.0.0.1:{port}", f"ray://127.0.0.1:{client_port}"
        pids = tree(made.pid)
    finally:
        for pid in pids:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        made.wait()
        log.close()
        shutil.rmtree(folder, ignore_errors=True)
    until(lambda: not any(map(is_alive, pids)), "a process of the head outlives it")


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def with_token() -> Iterator[tuple[str, str]]:
    with head(HAS_TOKEN) as made:
        yield made


def refused(file: str, out: Path, address: str, env: dict[str, str]) -> str:
    """The one line that a run is refused with."""
    command = [*ENTRY, "run", file, "-o", str(out), "--no-report", "--ray", address]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (5, ""), done
    (line,) = done.stderr.splitlines()
    assert not Path(f"{out}.parts").exists()
    return line


def test_the_head_and_its_port_for_clients_give_the_bytes_of_threads(
    with_token: tuple[str, str], tmp_path: Path
) -> None:
    file = scenario(tmp_path, seeds=2)
    Driver(file, tmp_path / "threads").end()
    for ix, address in enumerate(with_token):
        out = tmp_path / str(ix)
        Driver(file, out, "--ray", address, env={**os.environ, **HAS_TOKEN}).end()
        same_bytes(tmp_path / "threads", out)


@pytest.mark.slow
def test_a_driver_by_the_port_for_clients_is_killed_and_gone_on_with(
    with_token: tuple[str, str], tmp_path: Path
) -> None:
    file, env = scenario(tmp_path, seeds=4), {**os.environ, **HAS_TOKEN}
    Driver(file, tmp_path / "threads").end()
    driver = Driver(file, tmp_path / "out", "--ray", with_token[1], env=env)
    driver.wait_for(2)
    driver.kill()
    Driver(file, tmp_path / "out", "--ray", with_token[1], "--resume", env=env).end()
    same_bytes(tmp_path / "threads", tmp_path / "out")


@pytest.mark.parametrize("which", [0, 1])
def test_a_cluster_that_wants_a_token_is_told_from_one_that_is_gone(
    with_token: tuple[str, str], tmp_path: Path, which: int
) -> None:
    address = with_token[which]
    file = scenario(tmp_path, seeds=1)
    assert f"the Ray cluster at {address} wants a token; set RAY_AUTH_MODE=token" in refused(
        file, tmp_path / "out", address, HAS_NONE
    )
    other = HAS_TOKEN | {"RAY_AUTH_TOKEN": "f" * 64}
    assert f"the Ray cluster at {address} has another token" in refused(file, tmp_path / "out", address, other)


def test_the_two_ports_are_not_taken_for_each_other(with_token: tuple[str, str], tmp_path: Path) -> None:
    own, client = with_token
    file = scenario(tmp_path, seeds=1)
    said = refused(file, tmp_path / "out", f"ray://{own}", HAS_TOKEN)
    assert f"is not the port for clients of a Ray cluster; write {own}" in said
    said = refused(file, tmp_path / "out", client.removeprefix("ray://"), HAS_TOKEN)
    assert f"is no head of a Ray cluster; write {client}" in said


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_another_release_of_ray_is_refused(tmp_path: Path, which: int) -> None:
    there = os.environ.get("OTHER_RAY")
    if not there:
        pytest.skip("needs another release of Ray in an environment of its own: OTHER_RAY=DIR")
    with head(HAS_NONE, bin_=Path(there) / "bin") as addresses:
        said = refused(scenario(tmp_path, seeds=1), tmp_path / "out", addresses[which], HAS_NONE)
    versions = re.findall(r"\d+\.\d+\.\d+", said.split("; ")[0].replace("127.0.0.1", ""))
    assert len(set(versions)) >= 2, said
    assert said.endswith("use the same Ray and Python here and there"), said


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_what_the_workers_lack_is_named(tmp_path: Path, which: int) -> None:
    there = os.environ.get("BARE_RAY")
    if not there:
        pytest.skip("needs an environment of its own with nothing but Ray: BARE_RAY=DIR")
    with head({**HAS_NONE, "PYTHONPATH": ""}, bin_=Path(there) / "bin") as addresses:
        said = refused(scenario(tmp_path, seeds=1), tmp_path / "out", addresses[which], HAS_NONE)
    assert "the workers cannot import what planner needs: No module named " in said
    assert said.endswith("; install planner's wheel on all nodes, or use its container")
