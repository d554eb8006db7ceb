"""How a verb answers: one text or one JSON object on stdout, everything else on stderr, and the exit status.

Only this file and `main.py` print or exit. Text from files is data: control characters never reach a terminal.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn, TypeVar, cast

import click

from planner.errors import Notice, PlannerError
from planner.words import plain

F = TypeVar("F", bound=Callable[..., Any])

SHARED = ("verbose", "quiet", "as_json", "color")
EXIT_SURROUNDINGS = 5
EXIT_INTERRUPTED = 130


@dataclass(slots=True)
class Settings:
    """The flags that the group and every verb share; a verb's own win over the group's."""

    verbose: bool = False
    quiet: bool = False
    as_json: bool = False
    color: str = "auto"

    @property
    def has_color(self) -> bool:
        """Colour on a terminal without NO_COLOR, unless a flag says otherwise."""
        if self.color == "auto":
            return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        return self.color == "always"


def planner_version() -> str:
    """Version of the installed distribution."""
    try:
        return version("jalapeno-fleet-planner")
    except PackageNotFoundError:
        return "unknown"


def shared_options(function: F) -> F:
    """Adds `-v -q --json --color --version` to a command or group."""
    for option in (
        click.version_option(planner_version(), "--version", prog_name="planner"),
        click.option("--color", type=click.Choice(["auto", "always", "never"]), default=None, help="Colour [auto]."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text."),
        click.option("-q", "--quiet", is_flag=True, help="No progress, no warnings."),
        click.option("-v", "--verbose", is_flag=True, help="Say more, and where a fault of planner arose."),
    ):
        function = option(function)
    return function


def settings(**given: Any) -> Settings:
    """What the group and the verb were told together; the verb's flags are laid over the group's."""
    base = click.get_current_context().find_object(Settings) or Settings()
    return Settings(
        verbose=base.verbose or bool(given.get("verbose")),
        quiet=base.quiet or bool(given.get("quiet")),
        as_json=base.as_json or bool(given.get("as_json")),
        color=given.get("color") or base.color,
    )


def verb(schema: str) -> Callable[[F], F]:
    """Gives a command the shared flags (as the keyword `to`) and turns errors into messages and exit statuses.

    `schema` names the JSON object that the verb prints.
    """

    def wrap(function: F) -> F:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            to = settings(**{name: kwargs.pop(name) for name in SHARED})
            try:
                return function(*args, to=to, **kwargs)
            except PlannerError as error:
                fail(schema, error, to)
            except KeyboardInterrupt as stop:
                leave_at_once(schema, to, str(stop))
            except BrokenPipeError:
                quiet_exit()
            except click.ClickException:
                raise
            except Exception as error:
                if to.verbose:
                    traceback.print_exc()
                what = (
                    f"a fault in planner: {type(error).__name__}: {error}; run again with -v and report what it prints"
                )
                fail_with(schema, "bug", what, 1, to)

        return cast(F, shared_options(run))

    return wrap


def reply(
    schema: str,
    result: Any,
    text: str,
    to: Settings,
    *,
    warnings: Iterable[Notice] = (),
    inputs: str | None = None,
) -> None:
    """Prints the answer: `result` as JSON, or `text` with the warnings on stderr."""
    notices = list(warnings)
    if to.as_json:
        body = {"inputs": inputs, "warnings": [asdict(notice) for notice in notices], "result": result}
        _print_json(_envelope(schema, ok=True) | body)
        return
    for notice in notices:
        warn(notice.message, to)
    say(text, to)


def warn(message: str, to: Settings) -> None:
    """A warning on stderr."""
    if not to.quiet:
        click.echo(f"warning: {plain(message)}", err=True)


def say(text: str, to: Settings) -> None:
    """Lines on stdout, verdicts coloured where that is wanted; a reader that went away ends the program quietly."""
    lines = "\n".join(plain(line, keep="\t") for line in text.split("\n"))
    if to.has_color:
        lines = re.sub(
            r"\b(MISSED|met)\b", lambda m: click.style(m[0], fg="red" if m[0] == "MISSED" else "green"), lines
        )
    with answering():
        click.echo(lines, color=to.has_color)


def fail(schema: str, error: PlannerError, to: Settings, *, result: Any = None) -> NoReturn:
    """Says what is wrong, every fault on a line of its own, and ends with the error's exit status; `result` is what was
    found all the same.
    """
    if to.as_json:
        faults = [asdict(fault) | {"message": str(fault)} for fault in error.faults]
        body = {
            "kind": type(error).__name__,
            "code": error.code,
            "message": str(error),
            "faults": faults,
            "hint": error.hint,
        }
        _print_json(_failed(schema, body) | {"result": result})
    else:
        for line in str(error).splitlines():
            click.echo(f"error: {plain(line)}", err=True)
    raise SystemExit(error.exit_status)


def fail_with(schema: str, code: str, message: str, status: int, to: Settings) -> NoReturn:
    """Says what went wrong where there is no `PlannerError` for it, and ends with `status`."""
    if to.as_json:
        _print_json(_failed(schema, {"kind": code, "code": code, "message": message, "faults": [], "hint": ""}))
    else:
        click.echo(plain(message) if status == EXIT_INTERRUPTED else f"error: {plain(message)}", err=True)
    raise SystemExit(status)


def leave_at_once(schema: str, to: Settings, way_on: str = "") -> NoReturn:
    """After Ctrl-C: say so and end without waiting for threads that are still at work; none of them writes files."""
    try:
        fail_with(schema, "interrupted", f"interrupted; {way_on}" if way_on else "interrupted", EXIT_INTERRUPTED, to)
    except SystemExit:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_INTERRUPTED)


@contextmanager
def answering() -> Iterator[None]:
    """Around all that writes to stdout: ends quietly when its reader went away, with 5 when it takes no more."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        quiet_exit()
    except OSError as error:
        _silence_stdout()
        click.echo(f"error: the answer cannot be written to stdout: {error.strerror or error}", err=True)
        raise SystemExit(EXIT_SURROUNDINGS) from None


def quiet_exit() -> NoReturn:
    """The reader of stdout went away: end without a word."""
    _silence_stdout()
    raise SystemExit(0)


def _silence_stdout() -> None:
    """What is still in the buffer goes nowhere, so that the last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _envelope(schema: str, *, ok: bool) -> dict[str, Any]:
    return {"schema": schema, "ok": ok, "planner": planner_version()}


def _failed(schema: str, error: dict[str, Any]) -> dict[str, Any]:
    return _envelope(schema, ok=False) | {"inputs": None, "warnings": [], "error": error, "result": None}


def _print_json(envelope: dict[str, Any]) -> None:
    text = json.dumps(envelope, ensure_ascii=False, allow_nan=False, indent=2)
    with answering():
        click.echo(text)
