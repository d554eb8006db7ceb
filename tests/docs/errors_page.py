"""`docs/reference/errors.md`: the kinds of error, and every notice that a result or a command may carry."""

from __future__ import annotations

import ast
from pathlib import Path

from planner.errors import PlannerError

PACKAGE = Path(__file__).resolve().parents[2] / "planner"
_HEAD = """# Errors and notices

What can go wrong, what does it end with, and what is a warning about? An error names every fault at once, each as
`file:line:column: path: what; way out`. With `--json` the object has `error.kind`, `error.code`, `error.faults` and
`error.hint`.

This page is made from the code by `make docs`.

## Errors

| code | kind | exit | |
|---|---|---|---|
"""
_USAGE = """| `usage` | | 2 | The command line itself is wrong: an unknown verb, flag or value. |
| `interrupted` | | 130 | Ctrl-C; what is finished is kept. |
| `bug` | | 1 | Anything else: a fault in planner; `-v` prints where. |

## Notices

Notices travel in the result (`notices`) and are printed as warnings; they change no exit status.

| code | says, for example |
|---|---|
"""


def kinds() -> list[type[PlannerError]]:
    """Every kind of error, in the order of the file."""
    import planner.model.infer  # noqa: F401  a kind of error may be defined where it is raised

    found, todo = [], [PlannerError]
    while todo:
        kind = todo.pop(0)
        children = sorted(kind.__subclasses__(), key=lambda each: each.__qualname__)
        todo += children
        if kind is not PlannerError:
            found.append(kind)
    return [kind for kind in found if kind.__module__ == "planner.errors"]


def notices() -> dict[str, str]:
    """Code -> message of every `Notice` that is written out in the code; what is put in is shown as `...`."""
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant | ast.JoinedStr | ast.BinOp)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Notice"
                and len(node.args) == 2
                and isinstance(node.args[0], ast.Constant)
            ):
                said = node.args[1]
                message = _message(named.get(said.id, said) if isinstance(said, ast.Name) else said)
                known = found.get(str(node.args[0].value), "")
                found[str(node.args[0].value)] = max(known, message, key=len)
    return dict(sorted(found.items()))


def _message(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _message(node.left) + _message(node.right)
    return "..."


def page() -> str:
    """The page, as Markdown."""
    rows = [
        f"| `{kind.code}` | `{kind.__name__}` | {kind.exit_status} | {' '.join((kind.__doc__ or '').split())} |"
        for kind in kinds()
    ]
    said = [
        f"| `{code}` | {'worded by the case' if message == '...' else message.replace('|', chr(92) + '|')} |"
        for code, message in notices().items()
    ]
    return _HEAD + "\n".join(rows) + "\n" + _USAGE + "\n".join(said) + "\n"
