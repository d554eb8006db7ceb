"""`planner init`: a shipped scenario is copied with what it extends, and nothing is overwritten unasked."""

from __future__ import annotations

import contextlib
import errno
import io
import json
from pathlib import Path

import pytest

from planner.cli.main import run
from planner.scenario import load, shipped

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


def planner(*arguments: str) -> tuple[int, str, str]:
    """The entry point in this process: status, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
        run(arguments)
    return int(end.value.code or 0), out.getvalue(), err.getvalue()


def test_the_first_example_is_copied_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = planner("init")
    assert (status, err) == (0, "")
    assert "wrote 01-one-rack.yaml" in out
    assert "next: planner check 01-one-rack.yaml" in out
    assert "02-mixed-fleet Chat and coding" in " ".join(out.split())
    assert (tmp_path / "01-one-rack.yaml").read_bytes() == (SCENARIOS / "01-one-rack.yaml").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["01-one-rack.yaml"]


def test_the_next_step_can_be_typed_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "next: planner check 'my fleet/01-one-rack.yaml'" in planner("init", "my fleet")[1]


@pytest.mark.parametrize("name", ["03-buy-plan", "buy-plan", "03", "03-buy-plan.yaml", "scenarios/03-buy-plan.yaml"])
def test_an_example_comes_with_what_it_extends(tmp_path: Path, name: str) -> None:
    status, out, _ = planner("init", str(tmp_path / "new" / "folder"), "--example", name, "--json")
    made = json.loads(out)
    assert (status, made["schema"]) == (0, "planner.init/1")
    assert [Path(path).name for path in made["result"]["wrote"]] == ["03-buy-plan.yaml", "02-mixed-fleet.yaml"]
    assert load(made["result"]["wrote"][0]).title == "What to buy for next year's growth"


def test_nothing_is_overwritten_unless_forced(tmp_path: Path) -> None:
    target = tmp_path / "01-one-rack.yaml"
    assert planner("init", str(tmp_path))[0] == 0
    assert planner("init", str(tmp_path))[0] == 0  # the same content may stand there
    target.write_text("mine")
    status, out, err = planner("init", str(tmp_path))
    assert (status, out, target.read_text()) == (2, "", "mine")
    assert "is there already; --force overwrites it" in err
    assert planner("init", str(tmp_path), "--force")[0] == 0
    assert target.read_text() == shipped.text("01-one-rack")


def test_what_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert planner("init", str(tmp_path / "file"))[0] == 2
    status, _, err = planner("init", str(tmp_path), "--example", "mixed-flet")
    assert status == 2
    assert "did you mean 02-mixed-fleet" in err
    assert planner("init", str(tmp_path / "file" / "below"))[0] in {2, 5}
    (tmp_path / "01-one-rack.yaml").mkdir()
    assert planner("init", str(tmp_path))[0] == 2


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    status, out, err = planner("init", str(tmp_path))
    assert (status, out) == (5, "")
    assert "cannot be written: No space left on device" in err
    assert list(tmp_path.iterdir()) == []


def test_the_packaged_examples_are_the_shipped_scenarios() -> None:
    on_disk = {path.stem: path.read_text(encoding="utf-8") for path in SCENARIOS.glob("*.yaml")}
    assert {name: shipped.text(name) for name in shipped.names()} == on_disk


def test_list() -> None:
    status, out, _ = planner("init", "--example", "list")
    assert status == 0
    assert all(name in out for name in shipped.names())
