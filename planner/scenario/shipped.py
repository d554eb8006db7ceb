"""The shipped scenarios, readable wherever the package is installed."""

from __future__ import annotations

import re
from importlib.resources import files

from planner.errors import ScenarioError, near

DEFAULT = "01-one-rack"


def names() -> tuple[str, ...]:
    """The shipped scenarios in the order of difficulty: `01-one-rack`, ..."""
    folder = files("planner.scenario") / "examples"
    return tuple(sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml")))


def text(name: str) -> str:
    """The file of a shipped scenario."""
    return (files("planner.scenario") / "examples" / f"{name}.yaml").read_text(encoding="utf-8")


def title(name: str) -> str:
    """What a shipped scenario is about."""
    found = re.search(r"^title: (.+)$", text(name), re.MULTILINE)
    return found[1] if found else ""


def resolve(asked: str) -> str:
    """The name that is meant by `01-one-rack`, `one-rack`, `01` or `01-one-rack.yaml`. Raises `ScenarioError`."""
    bare = asked.rsplit("/", 1)[-1].removesuffix(".yaml")
    known = names()
    for name in known:
        number, _, rest = name.partition("-")
        if bare in (name, number, rest):
            return name
    raise ScenarioError(f"no example is named '{asked[:60]}'{near(bare, known)}")


def with_bases(name: str) -> tuple[str, ...]:
    """A shipped scenario and those that it extends, which have to lie beside it."""
    chain = [name]
    while found := re.search(r"^extends: \./(.+)\.yaml$", text(chain[-1]), re.MULTILINE):
        chain.append(found[1])
    return tuple(chain)
