"""Small results to show: two real runs of seconds, one with three variants and a title that wants to be markup."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import planner
from planner import Result

ROOT = Path(__file__).resolve().parents[1]
HOSTILE = "<script>alert(1)</script> & \"quoted\" '=1+1' \x1b[2J <img src=x onerror=alert(2)>"

TWO_POOLS = """\
schema: 1
title: Two pools
question: Which pool takes which class?
traffic:
  chat: {model: gpt-oss-120b, arrivals: poisson, rate: 60 req/s, input: 600 tok, output: 120 tok, slo: quick}
  code: {model: kimi-k2.5, arrivals: gamma, burstiness: 2, rate: 3 req/s, input: 8 ktok, output: 600 tok, slo: slow}
slo:
  quick: {ttft: {p95: 500 ms}, tpot: {p95: 20 ms}, attainment: 99 %}
  slow: {ttft: {p95: 3 s}, tpot: {p95: 2 ms}, e2e: {p99: 60 s}}
fleet:
  pools:
    jalapeno:
      rack: jalapeno-rack
      count: 1
      deploy: [{model: kimi-k2.5, chips: 16, per_rack: 2}, {model: gpt-oss-120b, chips: 8}]
    gb300: {rack: gb300-nvl72, count: 1, deploy: [{model: gpt-oss-120b, chips: 4}]}
run: {length: 3 min, warmup: 20 s, window: 10 s, seed: 3, seeds: 2}
overrides:
  cheap: {fleet.pools.jalapeno.capex: 0.4 MUSD/rack}
  dear: {fleet.pools.jalapeno.capex: 1.4 MUSD/rack}
scenarios:
  cheap_racks: [cheap]
  dear_racks: [dear]
"""


def one() -> Result:
    """One pool, one class, one seed, all limits held."""
    sets = ("run.length=3 min", "run.warmup=30 s", "run.window=10 s")
    return planner.run(planner.load(ROOT / "scenarios" / "01-one-rack.yaml", sets=sets), workers=1)


def several(folder: Path) -> Result:
    """Two pools and classes, two seeds, three variants, a limit missed, and the hostile title."""
    path = folder / "two-pools.yaml"
    path.write_text(TWO_POOLS, encoding="utf-8")
    sets = (f"title={json.dumps(HOSTILE)}",)
    names = ("base", "cheap_racks", "dear_racks")
    return planner.run([planner.load(path, variant=name, sets=sets) for name in names], workers=1)


LONG, OTHER_WAY, MARKUP, MIXED = "W" * 64, "שלום الس", "</script><b>&", "a/b~c.d é\u0301 日本語"
_ODD = {
    "names": ([LONG, OTHER_WAY, MARKUP, MIXED], ["p" + LONG[1:], OTHER_WAY, MARKUP, MIXED], "5 req/s", "20 tok", 60),
    "forty classes": ([f"class {ix}" for ix in range(40)], ["a"], "0.5 req/s", "20 tok", 60),
    "one window": (["c"], ["a"], "5 req/s", "20 tok", 10),
    "one token": (["c"], ["a"], "5 req/s", "1 tok", 60),
    "one request": (["c"], ["a", "b"], "0.02 req/s", "20 tok", 60),
    "none served": (["c"], ["a"], "5 req/s", "4000 tok", 1),
}
ODD = tuple(_ODD)
"""Results at the edges: names that are long, run the other way or want to be markup, many classes, next to nothing."""


def odd(kind: str) -> Result:
    """One of `ODD`."""
    classes, pools, rate, output, length_s = _ODD[kind]
    tree: dict[str, Any] = {
        "schema": 1,
        "title": f"{OTHER_WAY}\u202e\x07 {kind} {MARKUP}",
        "question": f"{LONG} {HOSTILE}?",
        "traffic": {
            name: {"model": "gpt-oss-120b", "arrivals": "poisson", "rate": rate}
            | {"input": "600 tok", "output": output, "slo": "quick"}
            for name in classes
        },
        "slo": {"quick": {"ttft": {"p95": "500 ms"}, "tpot": {"p95": "20 ms"}}},
        "fleet": {
            "pools": {
                name: {"rack": "jalapeno-rack", "count": 1, "deploy": [{"model": "gpt-oss-120b", "chips": 8}]}
                for name in pools
            }
        },
        "run": {
            "length": f"{length_s} s",
            "warmup": "0 s",
            "window": "10 s" if length_s > 1 else "1 s",
            "drain": "1 s",
        },
    }
    if length_s == 1:
        tree["run"]["drain"] = "0 s"
    return planner.run(planner.load("-", stdin_text=json.dumps(tree)), workers=1)


def large() -> Result:
    """Twelve classes on nine pools over three days of minutes: what a page is made of at its largest."""
    models = ("gpt-oss-120b", "llama-3.1-8b", "qwen3-32b")
    racks = (("jalapeno-rack", 4), ("gb300-nvl72", 4), ("hgx-h200", 2))
    tree = {
        "schema": 1,
        "title": "Large",
        "traffic": {
            f"class-{ix:02d}": {"model": models[ix % 3], "arrivals": "poisson", "rate": "0.02 req/s"}
            | {"input": "600 tok", "output": "60 tok", "slo": "quick"}
            for ix in range(12)
        },
        "slo": {"quick": {"ttft": {"p95": "500 ms"}, "tpot": {"p95": "20 ms"}, "e2e": {"p99": "60 s"}}},
        "fleet": {
            "pools": {
                f"pool-{ix}": {"rack": racks[ix % 3][0], "count": 1}
                | {"deploy": [{"model": models[ix // 3], "chips": racks[ix % 3][1]}]}
                for ix in range(9)
            }
        },
        "run": {"length": "72 h", "warmup": "20 min", "window": "1 min"},
    }
    return planner.run(planner.load("-", stdin_text=json.dumps(tree)), workers=2)


def at(tree: Any, pointer: str) -> Any:
    """The value at a JSON pointer."""
    for key in pointer.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        tree = tree[int(name)] if isinstance(tree, list) else tree[name]
    return tree


class Read(HTMLParser):
    """What stands on a page: `<data>` with its place, headings, tags, and the text outside of `<data>` by section."""

    VOID = frozenset({"meta", "link", "br", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.data: list[tuple[dict[str, str], str]] = []
        self.headings: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: dict[str, str] = {}
        self._open: list[tuple[str, dict[str, str]]] = []
        self.feed(text)
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append((tag, found))
        if tag not in self.VOID:
            self._open.append((tag, found))
        if tag == "data":
            self.data.append((found, ""))
        if tag in {"h1", "h2", "h3", "h4"}:
            self.headings.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1][0] == tag, f"</{tag}> where {self._open[-1][0]} is open"
        self._open.pop()

    def handle_data(self, text: str) -> None:
        names = [tag for tag, _ in self._open]
        if names and names[-1] in {"h1", "h2", "h3", "h4"}:
            self.headings[-1] += text
        if "data" in names:
            found, before = self.data[-1]
            self.data[-1] = (found, before + text)
            return
        section = next((attrs["aria-labelledby"] for tag, attrs in reversed(self._open) if tag == "section"), "")
        if not {"time", "style", "script"} & set(names) and ("span", {"class": "q"}) not in self._open:
            self.words[section] = self.words.get(section, "") + text + "\n"
