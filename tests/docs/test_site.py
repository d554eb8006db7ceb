"""The documentation: generated pages and printed output are of today, the site builds strictly and asks no network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import planner
from planner.aggregate.metrics import METRICS
from planner.cli.main import VERBS
from tests.docs import errors_page, outputs
from tests.docs.outputs import DOCS, ROOT
from tests.docs.pages import PAGES


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_of_today(name: str) -> None:
    stands = (DOCS / name).read_text(encoding="utf-8")
    assert outputs.same(stands) == outputs.same(PAGES[name]()), "run make docs"


@pytest.mark.parametrize("path", outputs.pages(), ids=lambda path: path.name)
def test_output_in_pages_is_of_today(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert outputs.same(outputs.renewed(text)) == outputs.same(text), "run make docs"


def test_everything_public_is_documented() -> None:
    def page(name: str) -> str:
        return (DOCS / "reference" / name).read_text(encoding="utf-8")

    missing = [name for name in planner.__all__ if f"planner.{name}" not in page("python-api.md")]
    missing += [verb for verb in VERBS if f"## planner {verb}" not in page("cli.md")]
    missing += [metric.name for metric in METRICS if f"`{metric.name}`" not in page("metrics.md")]
    missing += [kind.code for kind in errors_page.kinds() if f"| `{kind.code}` |" not in page("errors.md")]
    missing += [code for code in errors_page.notices() if f"| `{code}` |" not in page("errors.md")]
    assert missing == []


def test_every_page_starts_with_a_heading_and_code_blocks_are_closed() -> None:
    for path in DOCS.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# "), path
        assert len(re.findall(r"^```", text, re.MULTILINE)) % 2 == 0, path


def test_site_builds_strictly_and_needs_no_network(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(list(DOCS.rglob("*.md")))
    for path in pages:
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:link|script|img|iframe)[^>]+(?:href|src)="(https?:[^"]+)"', text)
        assert [url for url in loaded if "canonical" not in url] == [], path
    assert "Does one rack hold my chat service?" in (tmp_path / "site" / "tutorial" / "01-first-rack.html").read_text()
    navigation = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    for path in DOCS.rglob("*.md"):
        assert f'href="{path.relative_to(DOCS).with_suffix(".html")}"' in navigation, f"{path} is not in the navigation"


def test_notebook_runs(tmp_path: Path) -> None:
    notebook = DOCS / "tutorial" / "first-rack.ipynb"
    source = json.loads(notebook.read_text(encoding="utf-8"))
    assert all(not cell.get("outputs") for cell in source["cells"]), "saved without its outputs"
    script = f"""
import nbformat
from nbclient import NotebookClient
read = nbformat.read({str(notebook)!r}, as_version=4)
where = {{"metadata": {{"path": {str(notebook.parent)!r}}}}}
NotebookClient(read, timeout=120, kernel_name="python3", resources=where).execute()
nbformat.write(read, {str(tmp_path / "done.ipynb")!r})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    made = json.loads((tmp_path / "done.ipynb").read_text(encoding="utf-8"))
    shown = [each["data"] for cell in made["cells"] for each in cell.get("outputs", ()) if "data" in each]
    assert any("planner-result" in "".join(data.get("text/html", "")) for data in shown)
    assert sum("vega" in json.dumps(data) for data in shown) == 2
