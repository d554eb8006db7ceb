"""Runs whose folder is in an object store: a real client (s3fs), a real server (moto), killed, torn, gone on with.

Both are large, so they are not among the tools of development: `pip install s3fs 'moto[server]'` has these tests run.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import SEEDS, Driver, cluster, until
from tests.commandline import ENTRY, ROOT

s3fs = pytest.importorskip("s3fs", reason="needs s3fs and moto[server]")
moto_server = pytest.importorskip("moto.server", reason="needs s3fs and moto[server]")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    """A file system with the bucket `runs`; processes that are started find it by their environment."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    env = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        fs = s3fs.S3FileSystem()
        fs.mkdir("runs")
        yield fs
        server.stop()


def kept(store: Any, name: str) -> list[str]:
    store.invalidate_cache()
    return sorted(store.glob(f"runs/{name}.parts/*.part"))


def same_bytes(one: Path, store: Any, name: str) -> None:
    store.invalidate_cache()
    there = {str(path).rsplit("/", 1)[-1]: path for path in store.ls(f"runs/{name}", detail=False)}
    files = sorted(path.name for path in one.iterdir() if path.name != "log.txt")
    assert sorted(there.keys() - {"log.txt"}) == files
    for file in files:
        assert store.cat_file(there[file]) == (one / file).read_bytes(), file
    assert not kept(store, name)


def test_a_killed_driver_is_gone_on_with_and_a_torn_part_is_done_again(
    store: Any, work: str, undisturbed: Path
) -> None:
    driver = Driver(work, "s3://runs/torn", "-j", "1")
    until(lambda: len(kept(store, "torn")) >= 4 or driver.process.poll() is not None, "no parts come")
    driver.process.send_signal(signal.SIGSTOP)  # it must not be done before the second one has looked
    assert driver.process.poll() is None
    second = subprocess.run(
        [*ENTRY, "run", work, "-o", "s3://runs/torn", "--keep", "requests", "--no-report", "--resume"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (second.returncode, "is at work" in second.stderr) == (5, True), second
    driver.kill()
    names = kept(store, "torn")
    assert 4 <= len(names) < SEEDS * 4
    store.pipe_file(names[0], store.cat_file(names[0])[:-9])
    store.pipe_file(names[1], b"")
    Driver(work, "s3://runs/torn", "--resume").end()
    same_bytes(undisturbed, store, "torn")


def test_workers_of_a_cluster_put_their_parts_there(store: Any, work: str, undisturbed: Path) -> None:
    never = "from planner.fleet.checkpoint import Checkpoint\ndel Checkpoint.keep"
    with cluster(1, 1) as made:
        driver = Driver(work, "s3://runs/ray", "--ray", made.address, code=never)
        until(lambda: len(kept(store, "ray")) >= 3 or driver.process.poll() is not None, "no parts come")
        driver.kill()
        assert kept(store, "ray")
        Driver(work, "s3://runs/ray", "--ray", made.address, "--resume", code=never).end()
    same_bytes(undisturbed, store, "ray")


@pytest.mark.parametrize(
    ("place", "says"), [("s3://nobody/out", "s3://nobody/out.parts"), ("s3://", "'s3://' names no folder")]
)
def test_a_bucket_that_is_not_there_is_one_message(store: Any, work: str, place: str, says: str) -> None:
    command = [*ENTRY, "run", work, "-o", place, "--no-report"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (5, ""), done
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    store.invalidate_cache()
    assert not store.exists("nobody")


def test_a_server_that_is_gone_is_one_message(store: Any, work: str) -> None:
    env = {**os.environ, "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1"}
    command = [*ENTRY, "run", work, "-o", "s3://runs/out", "--no-report"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (5, ""), done
    assert "127.0.0.1:1" in done.stderr
    assert len(done.stderr.splitlines()) == 1
