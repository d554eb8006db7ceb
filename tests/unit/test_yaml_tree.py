"""YAML as text with places: nothing is guessed, nothing is expanded, every fault has line and column."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner import yaml_tree
from planner.errors import FactError, ScenarioError


def read(text: str) -> yaml_tree.Node:
    return yaml_tree.read(text, file="f.yaml")


def faults(text: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        read(text)
    return [str(fault) for fault in caught.value.faults]


def test_plain_scalars_stay_text_and_only_null_is_null() -> None:
    tree = read("a: no\nb: 1e9\nc: 0x10\nd: ~\ne:\nf: null\ng: 'null'\nh: 2026-12-31\ni: 1:30\n")
    assert tree.plain() == {
        "a": "no",
        "b": "1e9",
        "c": "0x10",
        "d": None,
        "e": None,
        "f": None,
        "g": "null",
        "h": "2026-12-31",
        "i": "1:30",
    }


def test_quoted_text_is_told_from_plain() -> None:
    tree = read("a: 'x'\nb: x\nc: \"\"\nd: |\n  x\n")
    assert isinstance(tree.value, dict)
    assert {key: node.is_quoted for key, node in tree.value.items()} == {"a": True, "b": False, "c": True, "d": True}
    assert tree.value["c"].value == ""


def test_every_value_and_key_knows_its_place() -> None:
    tree = read("a:\n  - b: 1\n    é: {c: 2}\n")
    places = {path: (node.line, node.col, node.key_line, node.key_col) for path, node in tree.walk()}
    assert places == {
        "": (1, 1, None, None),
        "a": (2, 3, 1, 1),
        "a[0]": (2, 5, None, None),
        "a[0].b": (2, 8, 2, 5),
        "a[0].é": (3, 8, 3, 5),
        "a[0].é.c": (3, 12, 3, 9),
    }


def test_dotted_keys_stay_whole() -> None:
    assert read("fleet.pools.a.count: 3\n").plain() == {"fleet.pools.a.count": "3"}


def test_all_duplicates_are_named_with_both_places() -> None:
    assert faults("a: 1\na: 2\nb: {c: 1, c: 2}\n") == [
        "f.yaml:2:1: a: 'a' is written twice, first at line 1, column 1; keep one of them",
        "f.yaml:3:11: b.c: 'c' is written twice, first at line 3, column 5; keep one of them",
    ]


def test_anchors_aliases_and_tags_are_refused_together() -> None:
    found = faults("a: &x [1]\nb: *x\nc: !!python/object:os.system x\nd: !!str 1\n")
    assert [fault.split(":")[1] for fault in found] == ["1", "2", "3", "4"]
    assert "anchor '&x' is not read" in found[0]
    assert "alias '*x' is not read" in found[1]
    assert "tag 'tag:yaml.org,2002:python/object:os.system' is not read" in found[2]


def test_a_bomb_of_aliases_costs_nothing() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)]
    assert len(faults("\n".join(lines))) == 40 + 78


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "a: " + "{a: " * 100_000, "a:\n" + "".join(" " * i + "- \n" for i in range(90))]
)
def test_deep_nesting_is_refused(text: str) -> None:
    assert any("nested more than" in fault or "not valid YAML" in fault or "a list" in fault for fault in faults(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.yaml: the file is empty; write `key: value` lines"),
        ("# nothing\n", "f.yaml: the file is empty; write `key: value` lines"),
        ("- a\n", "f.yaml:1:1: the file holds a list at the top; write `key: value` lines"),
        ("a\n", "f.yaml:1:1: the file holds a single value at the top; write `key: value` lines"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document starts here; keep one document in a file"),
        ("? [1]\n: 2\n", "f.yaml:1:3: a key is a mapping or a list; keys are plain words"),
        ("~: 2\n", "f.yaml:1:1: ~: a value has no key; write `key: value`"),
    ],
)
def test_shapes_that_are_no_mapping(text: str, message: str) -> None:
    assert faults(text) == [message]


@pytest.mark.parametrize(
    ("text", "place"),
    [("a: b: c\n", "1:5"), ("a: 1\n\tb: 2\n", "2:1"), ("a: [1, 2\n", "2:1"), ("a: 'x\n", "2:1"), ("a: \x07\n", "1:4")],
)
def test_broken_syntax_has_a_place(text: str, place: str) -> None:
    (fault,) = faults(text)
    assert fault.startswith(f"f.yaml:{place}: ")
    assert "not valid YAML" in fault


def test_a_lone_surrogate_is_a_fault() -> None:
    assert "not valid YAML" in faults("a: \ud800\n")[0]


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_file_reads_with_windows_line_ends_and_a_mark(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: no\r\n")
    tree = yaml_tree.read_file(tmp_path / "a.yaml")
    assert tree.plain() == {"a": "1", "b": "no"}
    assert tree.file == str(tmp_path / "a.yaml")


def message(path: Path) -> str:
    with pytest.raises(FactError) as caught:
        yaml_tree.read_file(path, name="x.yaml", error=FactError)
    return str(caught.value)


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    (tmp_path / "rack.yaml").write_text("a: 1")
    assert message(tmp_path / "racks.yaml") == "x.yaml: no such file; did you mean rack.yaml?"
    assert message(tmp_path / "gone" / "a.yaml") == "x.yaml: no such file; check the path"
    assert message(tmp_path) == "x.yaml: is a folder, not a file; name a YAML file in it"
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
    assert message(tmp_path / "latin.yaml") == "x.yaml:2:7: not UTF-8 text (byte 0xe9); save the file as UTF-8"
    (tmp_path / "big.yaml").write_bytes(b"#" * (yaml_tree.MAX_BYTES + 1))
    assert message(tmp_path / "big.yaml") == "x.yaml: the file has 8,000,001 bytes; at most 8,000,000 are read"
    os.mkfifo(tmp_path / "pipe.yaml")
    assert message(tmp_path / "pipe.yaml") == "x.yaml: is not a regular file; write - to read from stdin"
    assert "cannot be read" in message(Path("a\0b.yaml"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1")
    path.chmod(0)
    assert message(path) == "x.yaml: cannot be read: permission denied"
