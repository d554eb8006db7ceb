"""The page: every number is that of `result.json`, every text is text, and it needs nothing from anywhere."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from planner import Result
from planner.aggregate.store import load
from planner.report import page as page_module
from planner.report import page_evidence, page_levels, page_live
from planner.report.figures import registry
from planner.report.page import page
from planner.report.page_html import View, esc
from planner.report.verdict import binding
from tests import reviews
from tests.fleets import variant as hand_made
from tests.reviews import HOSTILE, Read, at
from tests.unit.aggregate.test_result import nothing_done


@pytest.fixture(scope="module")
def one() -> Result:
    return reviews.one()


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return reviews.several(tmp_path_factory.mktemp("several"))


@pytest.fixture(scope="module")
def pages(one: Result, several: Result) -> dict[str, str]:
    return {"one": page(one), "several": page(several)}


@pytest.fixture(scope="module", params=["one", "several"])
def shown(request: pytest.FixtureRequest, pages: dict[str, str]) -> tuple[Read, Any, str]:
    result: Result = request.getfixturevalue(request.param)
    return Read(pages[request.param]), result.to_json(), pages[request.param]


def test_every_number_is_that_of_the_result(shown: tuple[Read, Any, str]) -> None:
    read, tree, _ = shown
    placed = [(attrs, text) for attrs, text in read.data if "data-at" in attrs]
    assert len(placed) > 40
    for attrs, text in placed:
        value = at(tree, attrs["data-at"])
        if value is None:
            assert (attrs["value"], text) == ("", "-")
        else:
            assert float(attrs["value"]) == value, attrs
            assert text not in {"", "-"}


def test_no_figure_of_the_answer_stands_without_its_place(one: Result, pages: dict[str, str]) -> None:
    read = Read(pages["one"])
    tree = one.variants["base"]
    names = [tree["title"], tree["question"], *tree["classes"], *tree["pools"]]
    names += [pool["rack"] for pool in tree["pools"].values()]
    names += [
        word
        for pool in tree["pools"].values()
        for each in pool["deployments"]
        for word in (each["model"], each["precision"], each["engine"])
    ]
    names += [f"{limit['metric']} {limit['quantile']}" for c in tree["classes"].values() for limit in c["limits"]]
    names += ["CO2", "A million"]
    for part in ("base--answer", "base--fleet", "base--slo", "base--headline"):
        words = read.words[part]
        for name in sorted(names, key=len, reverse=True):
            words = words.replace(name, "")
        assert not re.search(r"\d", words), (part, words)


def test_it_asks_no_network_and_runs_its_own_two_scripts_alone(shown: tuple[Read, Any, str]) -> None:
    read, _, text = shown
    assert {tag for tag, _ in read.tags}.isdisjoint({"iframe", "object", "embed", "form", "img", "base"})
    for tag, attrs in read.tags:
        assert not [name for name in attrs if name.startswith("on")]
        for name in ("src", "srcset", "xlink:href", "action"):
            assert name not in attrs
        if "href" in attrs:
            is_followed = (tag, attrs.get("rel")) == ("a", "noopener noreferrer") and attrs["href"].startswith(
                "https://"
            )
            assert attrs["href"].startswith(("#", "data:,")) or is_followed
    assert "url(" not in text
    assert "@import" not in text
    assert len(text.encode()) < 2_000_000
    policy = next(attrs["content"] for tag, attrs in read.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    for part in ("default-src 'none'", "connect-src 'none'", "base-uri 'none'", "form-action 'none'"):
        assert part in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'sha256-" in policy
    code = [body for kind, body in scripts(text) if kind == ""]
    packed = [body for kind, body in scripts(text) if kind == "text/plain"]
    assert (len(code), len(packed)) == (1, 1)
    whole = gzip.decompress(base64.b64decode(packed[0])).decode()
    asked = [f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in (*code, whole)]
    assert policy.split("script-src ")[1].split() == asked


def scripts(text: str) -> list[tuple[str, str]]:
    """Type and body of each script element."""
    return re.findall(r'<script(?: type="([^"]*)"[^>]*)?>(.*?)</script>', text, re.S)


def test_what_figures_are_made_of_is_data_that_ends_no_script(shown: tuple[Read, Any, str]) -> None:
    _, tree, text = shown
    bodies = [body for kind, body in scripts(text) if kind == "application/json"]
    assert len(bodies) == 6 * len(tree.get("variants", {"": 0})) + 1
    for body in bodies:
        assert not set("<>&") & set(body)
        json.loads(body)
    one = page_live.data({"name": "</script><!-- <script> & \u2028"})
    assert not set("<>&\u2028") & set(one)
    assert json.loads(one) == {"name": "</script><!-- <script> & \u2028"}


def test_the_runtime_is_the_one_that_was_published() -> None:
    whole = page_live._runtime()
    for words in ("Vega 6.4.0", "University of Washington Interactive Data Lab", "Mike Bostock"):
        assert words in whole[:8000]
    assert "vega.expressionInterpreter = expression" in whole
    assert "</script" not in page_live._script()


def test_each_figure_is_told_as_a_table_too(shown: tuple[Read, Any, str]) -> None:
    _, _, text = shown
    for name in registry.SIX:
        assert f"<code>figures/{name}.parquet</code>" in text
    assert text.count("The same as a table") == text.count('class="spec"')


def test_markup_and_control_characters_are_shown_as_text(pages: dict[str, str]) -> None:
    text = re.sub(r"<script[^>]*>.*?</script>", "", pages["several"], flags=re.S)
    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in pages["several"]
    read = Read(pages["several"])
    assert read.headings[0] == HOSTILE.replace("\x1b", "\\x1b")


def test_its_parts_come_in_the_order_of_a_review(pages: dict[str, str]) -> None:
    whole = Read(pages["one"]).headings
    wanted = [
        "The question and the answer",
        "Fleet",
        "Service levels",
        "Headline",
        "Figures",
        "Traffic",
        "Evidence",
        "Left out",
        "Sources",
        "Again",
    ]
    assert [heading for heading in whole if heading in wanted] == wanted
    headings = Read(pages["several"]).headings
    assert headings.count("Fleet") == 3
    assert headings.index("Side by side") < headings.index("Fleet")


def test_each_figure_is_named_and_told_in_words(shown: tuple[Read, Any, str]) -> None:
    read, tree, _ = shown
    n = len(tree.get("variants", {"": 0}))
    drawn = [attrs for tag, attrs in read.tags if tag == "svg"]
    assert len(drawn) == 6 * n
    assert all(attrs["role"] == "img" and len(attrs["aria-label"]) > 20 for attrs in drawn)
    ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    labels = {attrs["aria-labelledby"] for _, attrs in read.tags if "aria-labelledby" in attrs}
    assert labels <= set(ids)


def test_tables_have_heads_and_captions(shown: tuple[Read, Any, str]) -> None:
    read, _, _ = shown
    tags = [tag for tag, _ in read.tags]
    assert tags.count("table") == tags.count("caption") > 3
    assert all("scope" in attrs for tag, attrs in read.tags if tag == "th")
    assert all(attrs.get("tabindex") == "0" for tag, attrs in read.tags if attrs.get("class") == "scroll")


def test_the_verdict_names_class_metric_pool_and_time(several: Result, pages: dict[str, str]) -> None:
    found = binding(several, "base")
    assert found is not None
    assert (found.klass, found.pool) == ("code", "jalapeno")
    assert several.variants["base"]["classes"]["code"]["limits"][found.limit_ix]["metric"] == "tpot"
    words = " ".join(Read(pages["several"]).words["base--answer"].split())
    assert "No. code misses: the time per output token" in words
    assert "chat holds its limits" in words
    assert "on pool jalapeno" in words
    assert "h of the run" in words


def test_a_run_that_holds_says_what_is_tightest(pages: dict[str, str]) -> None:
    words = " ".join(Read(pages["one"]).words["base--answer"].split())
    assert words.startswith("The question and the answer Does one rack hold")
    assert "Yes. Every limit holds. The tightest is the time to first token of chat" in words


def test_nothing_completed_gives_a_page_that_says_so() -> None:
    from tests.unit.aggregate.test_result import FLEET

    result = Result.of([hand_made(FLEET, nothing_done())], inputs="sha256:0")
    text = page(result)
    words = " ".join(Read(text).words["base--answer"].split())
    assert "Nothing completed. Of requests offered none completed" in words
    assert text.count("nothing to show") >= 1


def test_it_is_made_of_what_is_on_disk_and_gives_the_same_bytes(
    one: Result, pages: dict[str, str], tmp_path: Path
) -> None:
    one.save(tmp_path / "r")
    assert page(load(tmp_path / "r")) == pages["one"]


def test_a_section_may_be_added_and_may_be_absent(one: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    sections = (*page_module.AFTER_VARIANTS, lambda _: None, lambda _: "<section>a plan</section>")
    monkeypatch.setattr(page_module, "AFTER_VARIANTS", sections)
    assert "<section>a plan</section>" in page(one)


def test_it_is_made_in_three_seconds(several: Result) -> None:
    start = time.process_time()
    page(several)
    assert time.process_time() - start < 3


def test_sources_are_told_by_what_they_are(one: Result, pages: dict[str, str]) -> None:
    read = Read(pages["one"])
    assert "Sources" in read.headings
    targets = {attrs["id"] for _, attrs in read.tags if "id" in attrs}
    asked = {attrs["href"][1:] for tag, attrs in read.tags if tag == "a" and attrs["href"].startswith("#source")}
    assert len(asked) > 5
    assert asked <= targets
    from planner.facts import catalog

    for name, source in catalog.load().sources().items():
        if f"source--{name}" in targets:
            assert esc(source.title) in pages["one"], name
            assert esc(source.where) in pages["one"], name
    older = replace(one, tables={name: table for name, table in one.tables.items() if name != "sources"})
    assert "Sources" not in Read(page(older)).headings
    assert page_evidence._where('x.com/" onclick="a') == "x.com/&quot; onclick=&quot;a"


def test_room_for_more_is_shown_where_it_was_found(one: Result, pages: dict[str, str]) -> None:
    assert "Room for more" not in pages["one"]
    breaks = {"class": "chat", "metric": "ttft", "quantile": "p95"}
    found = {"multiplier": 36.6, "low": 36.5, "high": 36.7, "breaks": breaks}
    tree = {**one.variants["base"], "headroom": found}
    text = page(replace(one, variants={"base": tree}))
    assert '<data value="36.6" data-at="/headroom/multiplier">36.6</data>' in text
    assert "then chat ttft p95 breaks" in text
    none = {**one.variants["base"], "headroom": dict.fromkeys(found)}
    assert "no end" in page(replace(one, variants={"base": none}))


@pytest.mark.slow
def test_a_large_page_is_made_in_three_seconds_too() -> None:
    result = reviews.large()
    start = time.process_time()
    text = page(result)
    assert time.process_time() - start < 3
    assert len(text) < 2_000_000


def test_of_many_classes_the_tightest_are_shown_and_the_rest_is_folded(one: Result) -> None:
    tree = one.variants["base"]
    chat = tree["classes"]["chat"]
    classes = {}
    for ix in range(40):
        limits = [{**limit, "margin_frac": (ix + 1) / 50} for limit in chat["limits"]]
        classes[f"class {ix}"] = {**chat, "limits": limits}
    classes["late"] = {
        **chat,
        "verdict": "missed",
        "limits": [{**chat["limits"][0], "met": False, "margin_frac": -1.0}],
    }
    result = replace(one, variants={"base": {**tree, "classes": classes, "low": None, "high": None}})
    text = page_levels.limits(View(result, "base", result.variants["base"], registry.look_of(result)))
    assert text is not None
    shown, folded = text.split("<summary>31 further classes, which hold their limits")
    assert re.findall(r'<th scope="row"[^>]*>([^<]*)</th>', shown)[0] == "late"
    assert ">class 8<" in shown
    assert ">class 9<" not in shown
    assert all(f">class {ix}<" in folded for ix in range(9, 40))


CHECKED = """\
schema: 1
title: Checked
traffic:
  chat: {model: gpt-oss-120b, arrivals: poisson, rate: 60 req/s, input: 600 tok, output: 120 tok, slo: quick}
slo:
  quick: {ttft: {p95: 500 ms}, tpot: {p95: 20 ms}}
fleet:
  survive: {racks: 1}
  pools:
    jalapeno: {rack: jalapeno-rack, count: 1, deploy: [{model: gpt-oss-120b, chips: 16}]}
run: {length: 1 min, warmup: 10 s, window: 10 s, samples: 4}
"""


def test_checks_and_samples_of_the_facts_are_on_it(tmp_path: Path) -> None:
    import planner

    (tmp_path / "s.yaml").write_text(CHECKED, encoding="utf-8")
    result = planner.run(planner.load(tmp_path / "s.yaml"), workers=1)
    read = Read(page(result))
    answer = " ".join(read.words["base--answer"].split())
    assert "No. Every limit of the run as it is holds." in answer
    assert "With a rack of jalapeno out, the fleet cannot serve at all." in answer
    assert "a rack of jalapeno out" in read.words["base--slo"]
    assert "samples of everything that is uncertain" in read.words["base--headline"]
    tree = result.to_json()
    for attrs, _ in read.data:
        if attrs.get("data-at") and (value := at(tree, attrs["data-at"])) is not None:
            assert float(attrs["value"]) == value
    places = {attrs.get("data-at") for attrs, _ in read.data}
    assert "/uncertainty/figures/cost.usd_per_mtok_out_whole/low" in places


def test_names_with_markup_are_names(tmp_path: Path) -> None:
    import planner

    text = CHECKED.replace("  chat:", '  "<b>a.b/c~d</b>":').replace("    jalapeno:", '    "<i>p&\\"q":')
    text = text.replace("  survive: {racks: 1}\n", "").replace(", samples: 4", "")
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    result = planner.run(planner.load(tmp_path / "s.yaml"), workers=1)
    made = page(result)
    assert "<b>a.b" not in made
    assert "<i>" not in made
    read = Read(made)
    places = [attrs["data-at"] for attrs, _ in read.data if attrs.get("data-at", "").startswith("/classes/")]
    assert places
    assert all(place.startswith("/classes/<b>a.b~1c~0d<~1b>/") for place in places)
    for place in places:
        at(result.to_json(), place)


def test_a_horizon_has_its_part_its_figure_and_its_sentence(one: Result) -> None:
    loads = [0.5 + hour / 1000 for hour in range(600)]
    found = {
        "hours": 600,
        "hours_beyond": 2,
        "classes": {
            "chat": {
                "hours_met": 500,
                "hours_missed": 98,
                "attainment_frac": 0.97,
                "mean_req_per_s": 40.0,
                "peak_req_per_s": 90.0,
                "worst_hour": 599,
            }
        },
        "pools": {
            "jalapeno": {"mean_load_frac": 0.8, "peak_load_frac": 1.099, "facility_w": {"mean": 2e4, "peak": 3e4}}
        },
        "fleet": {"usd": 24e3, "facility_kwh": 12e3, "operational_kgco2e": 4e3, "usd_per_mtok_out_whole": 0.7},
        "checked": {
            "hours": 24,
            "verdicts_differ": 1,
            "differences": [
                {"class": "chat", "metric": "ttft", "quantile": "p95", "median_frac": -0.1, "worst_frac": 1.5}
            ],
        },
    }
    n = len(loads)
    keys = {"variant": ["base"] * n, "seed": [1] * n, "hour": list(range(n)), "pool": ["jalapeno"] * n}
    table = pl.DataFrame({**keys, "load_frac": loads})
    tree = {**one.variants["base"], "horizon": found}
    result = replace(one, variants={"base": tree}, tables={**one.tables, "horizon_pools": table})
    text = page(result)
    read = Read(text)
    assert "Over the horizon" in read.headings
    assert "How full the pools are over the horizon" in read.headings
    assert "Over the horizon chat misses in of hours." in " ".join(read.words["base--answer"].split())
    assert len([attrs for tag, attrs in read.tags if tag == "svg"]) == 7
    for attrs, _ in read.data:
        if attrs.get("data-at") and (value := at(tree, attrs["data-at"])) is not None:
            assert float(attrs["value"]) == value
    frame = registry.frames(result, registry.select(["horizon"]))["horizon"]
    assert frame["peak_load_frac"].max() == loads[-1]
    assert frame.height == 25  # days


def test_traffic_says_what_was_copied_and_what_was_squeezed(one: Result) -> None:
    name = next(iter(one.variants))
    asked = (
        'traffic:\n  "<b>":\n    trace: ./t.csv\n    model: m\n    scale: 60\n    speedup: 2\n'
        "  drawn:\n    arrivals: poisson\n    rate: 40 req/s\n    input: {dist: fixed, value: 300 tok}\n"
    )
    html = page(replace(one, scenarios={name: asked}))
    words = " ".join(re.sub(r"<[^>]+>", " ", html[html.index("Traffic by class") :]).split())
    assert "&lt;b&gt; trace ./t.csv, scale 60: so many seeded copies, the first as recorded" in words
    assert "speedup 2: the recorded clock so many times as fast, no request more as recorded as recorded" in words
    assert "drawn arrivals poisson, rate 40 req/s dist fixed, value 300 tok as recorded" in words
