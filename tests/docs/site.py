"""How the documentation is put in order: folders as a reader needs them, pages by their names."""

from __future__ import annotations

from typing import Any

ORDER = ("tutorial", "howto", "reviews", "reference", "explanation")
TITLES = {"howto": "How to", "reviews": "Reviews"}


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    """Called by mkdocs once every page has its place."""
    names = {name: ix for ix, name in enumerate(ORDER)}

    def folder(item: Any) -> str:
        children = getattr(item, "children", None)
        return children[0].file.src_uri.split("/")[0] if children else ""

    nav.items.sort(key=lambda item: names.get(folder(item), -1 if not getattr(item, "children", None) else len(names)))
    for item in nav.items:
        if folder(item) in TITLES:
            item.title = TITLES[folder(item)]
    return nav
