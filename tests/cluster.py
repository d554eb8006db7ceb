"""A Ray cluster of several nodes on this machine, drivers that use it, and the processes that belong to them."""

from __future__ import annotations

import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from planner.fleet.processes import below
from tests.commandline import ENTRY, ROOT

SCENARIO = """
schema: 1
title: Work for a cluster
traffic:
  chat:
    model: gpt-oss-120b
    TRAFFIC
    slo: easy
slo:
  easy: {ttft: {p95: 2 s}, tpot: {p95: 50 ms}}
fleet:
  cell_replicas: 4
  pools:
    pool: {rack: hgx-h200, count: 1, deploy: [{model: gpt-oss-120b, chips: 2}]}
run: {length: 5 min, warmup: 5 s, seed: 3, seeds: SEEDS}
"""
DRAWN = """arrivals: poisson
    rate: 40 req/s
    input: {dist: lognormal, median: 500 tok, p95: 2 ktok}
    output: {dist: lognormal, median: 100 tok, p95: 400 tok}"""
N_CELLS = 4
SEEDS = 6
MAIN = "import runpy\nrunpy.run_module('planner', run_name='__main__')"
"""Like the entry point, after other code."""


def scenario(folder: Path, *, seeds: int = SEEDS, traffic: str = DRAWN) -> str:
    """A scenario of 16 replicas in four cells."""
    path = folder / "work.yaml"
    path.write_text(SCENARIO.replace("TRAFFIC", traffic).replace("SEEDS", str(seeds)))
    return str(path)


@contextmanager
def cluster(*n_cpus: int, **system: Any) -> Iterator[Any]:
    """A head without processors and a node for each of `n_cpus`; at its end nothing of it runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        made = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "_system_config": system or None},
        )
        try:
            for n in n_cpus:
                made.add_node(num_cpus=n)
            pids = [pid for node in [made.head_node, *made.worker_nodes] for pid in tree(raylet(node))]
            yield made
            pids += [pid for node in [made.head_node, *made.worker_nodes] for pid in tree(raylet(node))]
        finally:
            made.shutdown()
    until(lambda: not any(map(is_alive, pids)), "a process of the cluster outlives it")


def raylet(node: Any) -> int:
    """The process of a node that starts its workers."""
    (found,) = node.all_processes["raylet"]
    return int(found.process.pid)


def children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdecimal() and int((path / "stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(path.name))
        except (OSError, IndexError):
            continue
    return found


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    return [pid, *below(pid)]


def workers(node: Any) -> list[int]:
    """The processes of a node that are at work on cells."""
    found = []
    for pid in children(raylet(node)):
        try:
            said = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if said.startswith(b"ray::_work"):
            found.append(pid)
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def until(is_so: Callable[[], Any], what: str, *, within_s: float = 60.0) -> Any:
    """Wait for something to be so."""
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        if found := is_so():
            return found
        time.sleep(0.05)
    raise AssertionError(what)


class Driver:
    """`planner run`, at work."""

    def __init__(self, file: str, out: Path | str, *options: str, code: str = "", **how: Any) -> None:
        self.parts = Path(f"{out}.parts".removeprefix("file://"))
        entry = ENTRY if not code else [*ENTRY[:-2], "-c", f"{code}\n{MAIN}"]
        command = [*entry, "run", file, "-o", str(out), "--keep", "requests", "--no-report", *options]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how
        )
        self.started = self.process.pid

    def n_parts(self) -> int:
        return len([p for p in self.parts.glob("*.part") if not p.name.startswith(".")]) if self.parts.is_dir() else 0

    def wait_for(self, n_parts: int) -> None:
        """Until so many parts are kept."""
        until(lambda: self.n_parts() >= n_parts or self.process.poll() is not None, "no parts come")
        assert self.process.poll() is None, self.process.communicate()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def end(self, status: int = 0, *, within_s: float = 120.0) -> tuple[str, str]:
        """Its output, once it has ended as it should."""
        said, told = self.process.communicate(timeout=within_s)
        assert self.process.returncode == status, (self.process.returncode, said, told)
        return said, told


def same_bytes(one: Path, other: Path) -> None:
    """Two results hold the same."""
    names = [*sorted(p.name for p in one.glob("*.parquet")), "result.json"]
    assert len(names) > 8
    assert [*sorted(p.name for p in other.glob("*.parquet")), "result.json"] == names
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert not Path(f"{other}.parts").exists()
