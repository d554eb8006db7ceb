"""The page in a real browser: nothing logged, nothing asked for, all drawn, at desktop and phone width, in print, dark.

`KEEP_SCREENSHOTS=DIR` keeps the pictures and the print, to look at.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner import Result
from planner.report.frontier_figure import save
from planner.report.write import write_page
from planner.study.frontier import frontier
from tests import reviews
from tests.page import browser as driver
from tests.page.browser import Browser

pytestmark = pytest.mark.skipif(driver.program() is None, reason="needs Chromium, the browser, in the PATH")

WIDTHS = [1280, 390]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """Pages of results that were saved and read again, with the tree of their `result.json`."""
    folder = tmp_path_factory.mktemp("pages")
    pages = {}
    odd = (("names", reviews.odd("names")), ("forty", reviews.odd("forty classes")))
    for name, result in (("one", reviews.one()), ("several", reviews.several(folder)), *odd):
        place = folder / name
        result.save(place)
        write_page(Result.load(place), place)
        tree = json.loads((place / "result.json").read_text(encoding="utf-8"))["result"]
        pages[name] = (place / "report.html", tree)
    return pages


def keep(tab: Browser, name: str) -> None:
    if folder := os.environ.get("KEEP_SCREENSHOTS"):
        tab.screenshot(Path(folder) / f"{name}.png")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["one", "several"])
def test_page_is_quiet_whole_and_right(tab: Browser, made: dict[str, tuple[Path, Any]], name: str, width: int) -> None:
    page, tree = made[name]
    tab.open(page, width=width)
    tab.see_all()
    keep(tab, f"{name}-{width}")
    assert tab.eval("[...document.querySelectorAll('figure[data-failed]')].map(e => e.dataset.failed)") == []
    assert tab.console == []
    assert [url for url in tab.requests if not url.startswith(("data:", page.resolve().as_uri()))] == []
    assert tab.eval("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    shown = tab.eval(
        """[...document.querySelectorAll('data[data-at]')].map(e => [e.dataset.at, e.value, e.innerText])"""
    )
    assert len(shown) > 40
    for place, value, text in shown:
        want = reviews.at(tree, place)
        assert (float(value) == want and text) if want is not None else (value, text) == ("", "-"), place
    figures = tab.eval("""[...document.querySelectorAll('.is-live > .live svg')].map(e => {
        const box = e.getBoundingClientRect();
        const marks = [...e.querySelectorAll('path,line,rect')].filter(m => m.getBoundingClientRect().width > 2).length;
        return [box.width, box.height, box.right, marks, e.querySelectorAll('text').length]})""")
    assert len(figures) == 6 * len(tree.get("variants", {"": 0}))
    for wide, high, right, marks, words in figures:
        assert wide > 250
        assert high > 50
        assert right <= width
        assert marks >= 2
        assert words >= 2


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["names", "forty"])
def test_odd_names_and_many_classes_break_nothing(
    tab: Browser, made: dict[str, tuple[Path, Any]], name: str, width: int
) -> None:
    tab.open(made[name][0], width=width)
    tab.see_all()
    keep(tab, f"{name}-{width}")
    assert tab.console == []
    assert tab.eval("document.querySelectorAll('figure.is-live').length") == 6
    assert tab.eval("document.querySelectorAll('figure[data-failed]').length") == 0
    assert tab.eval("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"


def test_words_in_figures_can_be_read_on_a_phone(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["several"][0], width=390)
    tab.see_all()
    heights = tab.eval(
        """[...document.querySelectorAll('.live svg text')].map(e => e.getBoundingClientRect().height)"""
    )
    assert min(height for height in heights if height) > 8


def test_no_words_of_a_figure_are_cut_off(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["several"][0], width=1280)
    tab.see_all()
    cut = tab.eval("""[...document.querySelectorAll('.live svg')].flatMap(svg => {
        const box = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].filter(t => {
            const b = t.getBoundingClientRect();
            return b.width && (b.left < box.left - 3 || b.right > box.right + 3 || b.bottom > box.bottom + 3);
        }).map(t => t.textContent)})""")
    assert cut == []


def test_a_dark_screen_gets_a_dark_page(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    def colours(*, is_dark: bool) -> tuple[Any, Any]:
        tab.open(made["one"][0], width=1280, is_dark=is_dark)
        tab.see_all()
        keep(tab, f"one-{'dark' if is_dark else 'light'}")
        paper = tab.eval("getComputedStyle(document.body).backgroundColor")
        words = tab.eval("getComputedStyle(document.querySelector('.live svg text')).fill")
        return paper, words

    light, dark = colours(is_dark=False), colours(is_dark=True)
    assert light[0] == "rgb(255, 255, 255)"
    assert dark[0] == "rgb(18, 22, 29)"
    assert light[1] != dark[1]


def test_markup_in_a_title_is_shown_and_not_run(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["several"][0], width=1280)
    assert tab.eval("document.querySelector('h1').innerText") == reviews.HOSTILE.replace("\x1b", "\\x1b")
    assert tab.eval("document.images.length") == 0
    tab.see_all()
    kinds = tab.eval("[...document.scripts].map(e => e.type)")
    assert kinds.count("") == 2  # the page's own, and the runtime that it unpacked
    assert set(kinds) == {"", "application/json", "text/plain"}


FIRST = "document.querySelectorAll('.live')[0]"


def box(tab: Browser, what: str) -> list[float]:
    """Left, top, width and height of an element, in the window."""
    found: list[float] = tab.eval(
        f"(() => {{const r = {what}.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]}})()"
    )
    return found


def settle(tab: Browser) -> None:
    """Until what was asked for is drawn."""
    tab.eval("new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 100))")


def middle(tab: Browser, what: str) -> None:
    """Scroll an element to the middle of the window."""
    tab.eval(f"{what}.scrollIntoView({{block: 'center'}})")
    settle(tab)


def test_without_a_script_the_still_drawings_are_there(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["several"][0], width=1280, has_script=False)
    keep(tab, "several-still")
    seen = tab.eval("[...document.querySelectorAll('svg.fig')].map(e => e.getBoundingClientRect().height)")
    assert len(seen) == 18
    assert min(seen) > 50
    assert tab.eval("document.querySelectorAll('.live,.tools,.tip').length") == 0
    assert tab.eval("document.querySelectorAll('svg.fig[role=img][aria-label]').length") == 18
    assert tab.console == []
    tab.open(made["one"][0], width=1280)  # scripts run again


def test_the_pointer_is_told_the_figures(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["several"][0], width=1280)
    tab.see_all()
    middle(tab, FIRST)
    left, top, wide, high = box(tab, f"{FIRST}.querySelector('[class*=\" live\"] path:nth-child(3)')")
    tab.pointer("mouseMoved", left + wide / 2, top + high / 2)
    told = tab.eval("document.querySelector('.tip:not([hidden])')?.innerText")
    assert re.fullmatch(r"0:00:20 to 0:00:30\nasked: [\d.]+ k?tok/s\nof its capacity: [\d.]+ %", told), told
    tab.key("Escape")
    assert tab.eval("document.querySelector('.tip').hidden")


def test_time_is_looked_at_closer_in_all_figures_that_have_it(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["several"][0], width=1280)
    tab.see_all()
    ticks = "[...{}.querySelectorAll('.role-axis-label text')].map(e => e.textContent).sort()"
    of_busy = ticks.format("document.querySelectorAll('.live')[4]")
    before = tab.eval(of_busy)
    middle(tab, FIRST)
    left, top, wide, high = box(tab, f"{FIRST}.querySelector('[class*=\" live\"] path:nth-child(4)')")
    y = top + high / 2
    tab.pointer("mouseMoved", left + 2, y)
    tab.pointer("mousePressed", left + 2, y, is_down=True)
    tab.pointer("mouseMoved", left + 3 * wide, y, is_down=True)
    tab.pointer("mouseMoved", left + 5.5 * wide, y, is_down=True)
    keep(tab, "brush")
    tab.pointer("mouseReleased", left + 5.5 * wide, y)
    settle(tab)
    assert tab.eval(of_busy) != before
    keep(tab, "closer")
    tab.eval("document.querySelector('[aria-label=\"The whole run\"]').click()")
    settle(tab)
    assert tab.eval(of_busy) == before


def test_a_pool_can_be_picked_out(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["several"][0], width=1280)
    tab.see_all()
    faint = (
        "[...document.querySelectorAll('.live')[3].querySelectorAll('.mark-rect path')]"
        ".filter(e => e.hasAttribute('opacity') && e.getAttribute('opacity') < 0.5).length"
    )
    assert tab.eval(faint) == 0
    tab.eval("document.querySelector('.chip').click()")
    settle(tab)
    assert tab.eval(faint) == 5
    assert tab.eval("[...document.querySelectorAll('.chip')].slice(0, 2).map(e => e.ariaPressed)") == ["true", "false"]


def test_keys_walk_over_the_marks(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["one"][0], width=390)
    tab.see_all()
    tab.eval("document.querySelectorAll('.live')[3].focus()")
    tab.key("ArrowRight")
    first = tab.eval("document.querySelector('.told').textContent")
    tab.key("ArrowRight")
    second = tab.eval("document.querySelector('.told').textContent")
    assert first.startswith("racks, jalapeno, ")
    assert second.startswith("network, jalapeno, ")


def test_it_prints_on_few_sides_of_a4_with_the_answer_first(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["one"][0], width=1280, is_dark=True)  # print is light, whatever the screen is
    tab.see_all()
    pdf = tab.pdf()
    if folder := os.environ.get("KEEP_SCREENSHOTS"):
        (Path(folder) / "one.pdf").write_bytes(pdf)
    pages = len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf))
    assert 2 <= pages <= 4
    sizes = {tuple(float(n) for n in box.split()) for box in re.findall(rb"/MediaBox\s*\[([^\]]*)\]", pdf)}
    assert {(round(box[2]), round(box[3])) for box in sizes} <= {(595, 842), (594, 841), (596, 842)}
    tab._ask("Emulation.setEmulatedMedia", media="print")
    tab._ask("Emulation.setDeviceMetricsOverride", width=688, height=1020, deviceScaleFactor=1, mobile=False)
    assert tab.eval("[...document.querySelectorAll('.live,.tools')].every(e => !e.getBoundingClientRect().height)")
    # 182 x 271 mm at 96 dots an inch: what precedes the figures has to fit one side.
    assert tab.eval("document.querySelector('.breaks').getBoundingClientRect().top + scrollY") <= 1024


def test_it_can_be_walked_by_keyboard(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["several"][0], width=390)
    stops = tab.eval("""[...document.querySelectorAll('a[href],[tabindex="0"],summary')].length""")
    assert stops > 10
    assert tab.eval("""[...document.querySelectorAll('.scroll')].every(
        e => e.scrollWidth <= e.clientWidth || (e.tabIndex === 0 && e.getAttribute('aria-label')))""")
    assert tab.eval("document.querySelectorAll('header,main,footer').length") == 3
    assert tab.eval("document.querySelector('a.skip').getAttribute('href')") == "#main"


def test_a_frontier_is_as_quiet_and_live(tab: Browser, tmp_path: Path) -> None:
    page = tmp_path / "frontier.html"
    save(frontier("gpt-oss-20b", ["gb300", "jalapeno"]), page)
    tab.open(page, width=390)
    tab.see_all()
    keep(tab, "frontier-390")
    assert tab.console == []
    assert [url for url in tab.requests if not url.startswith(("data:", page.resolve().as_uri()))] == []
    assert tab.eval("document.documentElement.scrollWidth <= innerWidth")
    assert tab.eval("document.querySelectorAll('.is-live > .live svg').length") == 3
    assert tab.eval("[...document.querySelectorAll('.chip')].map(e => e.innerText)") == ["gb300", "jalapeno"]
