"""Write the generated reference pages: `make docs`."""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import PAGES

DOCS = Path(__file__).resolve().parents[2] / "docs"

for name, page in PAGES.items():
    (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
    (DOCS / name).write_text(page(), encoding="utf-8")
