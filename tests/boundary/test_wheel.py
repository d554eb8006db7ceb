"""The wheel: put into an environment of its own it runs outside the checkout, with all that belongs to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.commandline import ROOT

pytestmark = pytest.mark.slow
HERE = Path(sys.executable).parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment's scripts. What planner depends on is this environment's, planner is the wheel's."""
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [HERE / "maturin", "build", "--profile", "dev", "--out", folder / "dist"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    venv.create(folder / "env", with_pip=True)
    scripts = folder / "env" / "bin"
    (wheel,) = (folder / "dist").glob("*.whl")
    subprocess.run([scripts / "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    where = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    mine, theirs = (
        subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
        for python in (sys.executable, scripts / "python")
    )
    (Path(theirs) / "rest.pth").write_text(f"{mine}\n")
    return scripts


def of_wheel(scripts: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [scripts / "planner", *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


def test_all_that_is_read_at_run_time_is_in_it(installed: Path) -> None:
    (wheel,) = (installed.parents[1] / "dist").glob("*.whl")
    there = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "planner"
    kept = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    missing = {str(path.relative_to(ROOT)) for path in kept if path.suffix != ".so"} - there
    assert not missing
    assert "-abi3-" in wheel.name


def test_it_runs_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    told = of_wheel(installed, "doctor", cwd=tmp_path)
    assert f"in {installed.parent}/lib" in told.stdout, told
    assert of_wheel(installed, "init", ".", cwd=tmp_path).returncode == 0
    short = ("--set", "run.length=30 s", "--set", "run.warmup=5 s")
    done = of_wheel(installed, "run", "01-one-rack.yaml", *short, "-o", "out", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (0, True), done
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert 'id="runtime"' in page
    done = of_wheel(
        installed, "run", "01-one-rack.yaml", *short, "-o", "ray", "--no-report", "--ray", "new", cwd=tmp_path
    )
    assert done.returncode == 0, done
    assert (tmp_path / "ray" / "result.json").read_bytes() == (tmp_path / "out" / "result.json").read_bytes()
