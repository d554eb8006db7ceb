"""A headless Chromium, driven by its DevTools protocol: what a page logs, asks the network for, shows and prints."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
START_S, ANSWER_S = 60.0, 60.0


def program() -> str | None:
    """Where the browser is; None where there is none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """One tab. `console` and `requests` hold what the pages opened so far logged and asked for."""

    def __init__(self, profile: Path) -> None:
        import websocket

        found = program()
        assert found is not None
        arguments = [
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            "--disable-background-networking",
            "--disable-component-update",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            arguments.insert(0, "--no-sandbox")  # Chromium refuses its sandbox to root
        self._process = subprocess.Popen([found, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.console: list[str] = []
        self.requests: list[str] = []
        self._events: list[dict[str, Any]] = []
        self._n = 0
        port, path = self._active_port(profile)
        self._socket = websocket.create_connection(
            f"ws://127.0.0.1:{port}{path}", timeout=ANSWER_S, suppress_origin=True
        )
        self._session = ""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._ask(f"{domain}.enable")

    def _active_port(self, profile: Path) -> tuple[int, str]:
        told = profile / "DevToolsActivePort"
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if told.is_file() and len(lines := told.read_text().split()) == 2:
                return int(lines[0]), lines[1]
            assert self._process.poll() is None, "the browser ended at its start"
            time.sleep(0.05)
        raise TimeoutError("the browser did not say its port")

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._n += 1
        message: dict[str, Any] = {"id": self._n, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            got = self._next()
            if got.get("id") == self._n:
                assert "error" not in got, f"{method}: {got.get('error')}"
                result: dict[str, Any] = got["result"]
                return result

    def _next(self) -> dict[str, Any]:
        got: dict[str, Any] = json.loads(self._socket.recv())
        method, params = got.get("method"), got.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(each.get("value")) for each in params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.console.append(params["exceptionDetails"]["text"])
        elif method == "Log.entryAdded":
            self.console.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        if method:
            self._events.append(got)
        return got

    def open(
        self, page: Path, *, width: int, height: int = 900, is_dark: bool = False, has_script: bool = True
    ) -> None:
        """Load a page at a size, on a light or a dark screen, with its scripts or without; forgets what earlier pages
        logged.
        """
        self._ask("Emulation.setScriptExecutionDisabled", value=not has_script)
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._ask("Emulation.setEmulatedMedia", media="", features=[scheme])
        self._ask("Page.navigate", url="about:blank")
        self.console.clear(), self.requests.clear(), self._events.clear()
        self._ask("Page.navigate", url=page.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._next()
        self.eval("document.fonts ? document.fonts.ready.then(() => true) : true")

    def eval(self, script: str) -> Any:
        """What a script finds on the page (the page itself needs none)."""
        found = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def see_all(self) -> None:
        """Scroll over the page, so that every figure comes into view, until all are live."""
        self.eval("""(async () => {
            const wait = ms => new Promise(done => setTimeout(done, ms));
            const open = () => [...document.querySelectorAll('script.spec')].map(each => each.parentElement)
                .filter(each => !each.matches('.is-live,[data-failed]'));
            for (let turn = 0; turn < 400 && open().length; turn++) {
                open()[0].scrollIntoView();
                await wait(50);
            }
            scrollTo(0, 0);
        })()""")

    def pointer(self, kind: str, x: float, y: float, *, is_down: bool = False) -> None:
        """A mouse event: mouseMoved, mousePressed or mouseReleased, at a place of the window."""
        button = {"button": "left", "buttons": int(is_down), "clickCount": 1} if kind != "mouseMoved" else {}
        if kind == "mouseMoved" and is_down:
            button = {"button": "left", "buttons": 1}
        self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def key(self, name: str) -> None:
        """A key goes down and up."""
        for kind in ("keyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def screenshot(self, path: Path) -> None:
        """The whole page as a picture."""
        got = self._ask("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(got["data"]))

    def pdf(self) -> bytes:
        """The page as it prints, on the paper that it asks for."""
        return base64.b64decode(self._ask("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        try:
            self._ask("Browser.close")
        finally:
            self._socket.close()
            self._process.wait(timeout=30)
