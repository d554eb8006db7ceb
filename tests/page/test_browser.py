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
from planner.report.write import write_page
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
    for name, result in (("one", reviews.one()), ("several", reviews.several(folder))):
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
    keep(tab, f"{name}-{width}")
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
    figures = tab.eval("""[...document.querySelectorAll('svg.fig')].map(e => {
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


def test_words_in_figures_can_be_read_on_a_phone(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["several"][0], width=390)
    heights = tab.eval("""[...document.querySelectorAll('svg.fig text')].map(e => e.getBoundingClientRect().height)""")
    assert min(height for height in heights if height) > 8


def test_no_words_of_a_figure_are_cut_off(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["several"][0], width=1280)
    cut = tab.eval("""[...document.querySelectorAll('svg.fig')].flatMap(svg => {
        const box = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].filter(t => {
            const b = t.getBoundingClientRect();
            return b.width && (b.left < box.left - 3 || b.right > box.right + 3 || b.bottom > box.bottom + 3);
        }).map(t => t.textContent)})""")
    assert cut == []


def test_a_dark_screen_gets_a_dark_page(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    def colours(*, is_dark: bool) -> tuple[Any, Any]:
        tab.open(made["one"][0], width=1280, is_dark=is_dark)
        keep(tab, f"one-{'dark' if is_dark else 'light'}")
        paper = tab.eval("getComputedStyle(document.body).backgroundColor")
        words = tab.eval("getComputedStyle(document.querySelector('svg.fig text')).fill")
        return paper, words

    light, dark = colours(is_dark=False), colours(is_dark=True)
    assert light[0] == "rgb(255, 255, 255)"
    assert dark[0] == "rgb(18, 22, 29)"
    assert light[1] != dark[1]


def test_markup_in_a_title_is_shown_and_not_run(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["several"][0], width=1280)
    assert tab.eval("document.querySelector('h1').innerText") == reviews.HOSTILE.replace("\x1b", "\\x1b")
    assert tab.eval("document.scripts.length + document.images.length") == 0


def test_it_prints_on_few_sides_of_a4_with_the_answer_first(tab: Browser, made: dict[str, tuple[Path, Any]]) -> None:
    tab.open(made["one"][0], width=1280, is_dark=True)  # print is light, whatever the screen is
    pdf = tab.pdf()
    if folder := os.environ.get("KEEP_SCREENSHOTS"):
        (Path(folder) / "one.pdf").write_bytes(pdf)
    pages = len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf))
    assert 2 <= pages <= 4
    sizes = {tuple(float(n) for n in box.split()) for box in re.findall(rb"/MediaBox\s*\[([^\]]*)\]", pdf)}
    assert {(round(box[2]), round(box[3])) for box in sizes} <= {(595, 842), (594, 841), (596, 842)}
    tab._ask("Emulation.setEmulatedMedia", media="print")
    tab._ask("Emulation.setDeviceMetricsOverride", width=688, height=1020, deviceScaleFactor=1, mobile=False)
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
