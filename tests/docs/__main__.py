"""Write the generated pages and the output of commands in pages: `make docs`."""

from __future__ import annotations

from tests.docs import outputs
from tests.docs.outputs import DOCS
from tests.docs.pages import PAGES

for name, page in PAGES.items():
    (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
    (DOCS / name).write_text(page(), encoding="utf-8")
for path in outputs.pages():
    text = path.read_text(encoding="utf-8")
    new = outputs.renewed(text)
    path.write_text(new, encoding="utf-8")
