"""What makes the figures of a page live: their specifications as data, the runtime, and the policy that lets it run.

The page has one runtime (`runtime/vega.js.gz`, Vega as published) and one script of ours (`runtime/page.js`). Both are
named by their digests in the page's policy, so that nothing else runs, whatever stands in a title; Vega reads its
expressions with an interpreter, so that none is compiled; and the policy forbids every request.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from planner.report.figures import style
from planner.report.figures.style import Look

if TYPE_CHECKING:
    from planner.report.figures.live import Time

__all__ = ["POLICY_STILL", "data", "policy", "pools", "scripts", "specification"]

POLICY_STILL = (
    "default-src 'none'; connect-src 'none'; base-uri 'none'; form-action 'none'; "
    "style-src 'unsafe-inline'; img-src data:"
)
"""Of a page without a script: nothing is loaded from anywhere, whatever stands in a title."""


def policy() -> str:
    """Of a page with live figures: its two scripts run, no other, and nothing is loaded from anywhere."""
    allowed = " ".join(f"'sha256-{_digest(text)}'" for text in (_script(), _runtime()))
    return f"{POLICY_STILL}; script-src {allowed}"


def data(thing: Any) -> str:
    """JSON for a script element: no text in it can end the element or begin another."""
    text = json.dumps(thing, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def specification(vega: Mapping[str, Any], time: Time | None) -> str:
    """The element that a figure's live drawing is made of."""
    told = style.live(vega)
    if told.get("config") == style.live_config():
        del told["config"]
    axis = None if time is None else {"end": float(f"{time.at(time.end_s) or 1.0:.6g}")}
    return f'<script type="application/json" class="spec">{data({"vega": told, "time": axis})}</script>'


def pools(look: Look, names: Sequence[str]) -> str:
    """The pools that may be picked out, as an attribute's value: name, name as shown, class of its colour."""
    from html import escape

    from planner.words import plain

    ix = {name: at for at, name in enumerate(look.pools)}
    return escape(json.dumps([[name, plain(name), f"p{ix[name] % len(style.POOLS)}"] for name in names]), quote=True)


def scripts() -> str:
    """What stands at the end of a page with live figures."""
    return (
        f'<script type="application/json" id="look">{data(style.live_config())}</script>\n'
        f'<script type="text/plain" id="runtime">{_packed()}</script>\n'
        f"<script>{_script()}</script>\n"
    )


def _file(name: str) -> bytes:
    return resources.files("planner.report").joinpath("runtime", name).read_bytes()


@cache
def _script() -> str:
    return _file("page.js").decode("utf-8")


@cache
def _packed() -> str:
    return base64.b64encode(_file("vega.js.gz")).decode("ascii")


@cache
def _runtime() -> str:
    return gzip.decompress(_file("vega.js.gz")).decode("utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
