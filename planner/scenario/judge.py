"""One merged question, checked: typed where it is right, and every fault with its place in a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from planner.errors import Fault, near
from planner.scenario import checks
from planner.scenario.files import canonical, rebase
from planner.scenario.layers import FILE, shape_at
from planner.scenario.schema import Question
from planner.scenario.section import Loc, Trouble, shown
from planner.scenario.shape import Fields, known
from planner.scenario.tree import Tree, show
from planner.scenario.unsupported import fault_at

_MAX_LISTED = 200


@dataclass(frozen=True, slots=True)
class Judged:
    """A merged tree, its typed question where it has no fault, and its faults."""

    tree: Tree
    question: Question | None
    faults: tuple[Fault, ...]


def judge(tree: Tree, base_dir: Path) -> Judged:
    tree = canonical(rebase(tree, base_dir))
    data = tree.plain()
    assert isinstance(data, dict)
    named = list(islice(checks.names(tree, base_dir), _MAX_LISTED))
    faults = [one for one in named if isinstance(one, Fault)]
    found = [one for one in named if isinstance(one, Trouble)]
    unknown = {trouble.loc for trouble in found}
    found.extend(one for one in islice(checks.sections(data), _MAX_LISTED) if one.loc not in unknown)
    question = None
    try:
        question = Question.model_validate(data)
    except ValidationError as error:
        found[:0] = read_error(error)
    else:
        found.extend(checks.values(question))
    faults.extend(placed(tree, trouble) for trouble in found)
    faults.sort(key=lambda f: (f.file, f.line or 0, f.col or 0))
    return Judged(tree, question, tuple(faults))


def read_error(error: ValidationError) -> Iterator[Trouble]:
    """Pydantic's lines in planner's words; of very many only the first."""
    lines = error.errors(include_url=False)
    if len(lines) > _MAX_LISTED:
        yield Trouble((), f"{len(lines):,} values are wrong, of which {_MAX_LISTED} are listed")
    said = {(line["loc"], line["ctx"]["what"]) for line in lines if line["type"] == "scenario" and "ctx" in line}
    for line in lines[:_MAX_LISTED]:
        loc, context = line["loc"], line.get("ctx", {})
        match line["type"]:
            case "scenario":
                yield Trouble(loc, context["what"], context["way_out"])
            case "missing" if (loc[:-1], f"{loc[-1]} is missing") in said:
                pass  # the section's own rule says what asks for it
            case "missing":
                yield Trouble(loc[:-1], f"{loc[-1]} is missing", f"add it: {meaning(loc[:-1], str(loc[-1]))}")
            case "extra_forbidden":
                parent = shape_at(loc[:-1], FILE)
                hint = near(str(loc[-1])[:100], known(parent) if parent else ())
                yield Trouble(loc, f"unknown key {shown(loc[-1])}{hint}")
            case "literal_error":
                choices = str(context.get("expected")).replace(" or ", ", ").replace("'", "").split(", ")
                hint = near(str(line["input"])[:100], choices)
                yield Trouble(loc, f"{shown(line['input'])} is not one of the known values{hint}")
            case "dict_type":
                yield Trouble(loc, f"a map of names is meant, not {shown(line['input'])}", "write name: value lines")
            case "tuple_type" | "list_type":
                yield Trouble(loc, f"a list is meant, not {shown(line['input'])}", "write it in brackets: [...]")
            case _:
                yield Trouble(loc, line["msg"])


def meaning(at: Loc, key: str) -> str:
    """What a key of the section at `at` holds, in the first sentence of its documentation."""
    shape = shape_at(at, FILE)
    fields = shape.section.model_fields if isinstance(shape, Fields) else {}
    said = next((field.description for name, field in fields.items() if key == (field.alias or name)), None)
    return " ".join((said or f"a value of {key}").split()).partition(". ")[0].rstrip(".")


def placed(tree: Tree, trouble: Trouble) -> Fault:
    """A trouble with the place of the nearest value that stands in the file."""
    at_key = trouble.loc[-1:] == ("[key]",) or trouble.what.startswith("unknown key")
    loc = tuple(step for step in trouble.loc if step != "[key]")
    for n in range(len(loc), -1, -1):
        here = tree.at(loc[:n])
        if here is not None:
            is_inside = n < len(loc) or trouble.what.endswith(("is missing", "are missing"))
            fault = fault_at(here, loc, trouble.what, trouble.way_out, at_key=at_key or is_inside)
            return replace(fault, path=show(loc))
    raise AssertionError("the top of a tree has a place")
