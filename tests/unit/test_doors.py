"""One door a border: who may import the core, who may import ray, who may print, exit or read the environment."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "planner"
FILES = sorted(ROOT.rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def called(tree: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


TREES = {name(path): ast.parse(path.read_text()) for path in FILES}


def test_only_core_imports_the_extension():
    assert [file for file, tree in TREES.items() if "planner._core" in imported(tree)] == ["core.py"]


def test_only_the_door_to_ray_imports_it():
    users = [file for file, tree in TREES.items() if any(m.split(".")[0] == "ray" for m in imported(tree))]
    assert users == ["fleet/ray_door.py"]


def test_only_the_command_line_prints_exits_and_reads_the_environment():
    forbidden = {"print", "sys.exit", "exit", "click.echo", "os.getenv", "os.environ.get"}
    faults = {file: called(tree) & forbidden for file, tree in TREES.items() if not file.startswith("cli/")}
    assert {file: calls for file, calls in faults.items() if calls} == {}


def test_no_library_file_is_long():
    long = {name(path): n for path in FILES if (n := len(path.read_text().splitlines())) > 500}
    assert long == {}, "past 500 lines look for the second subject inside"
