"""How to run, not what: the flags that every verb that simulates shares."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from planner.fleet.executor import Executor

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class HowToRun:
    """What the shared flags said."""

    out: str | None
    """Folder or fsspec address of the result; None where the verb chooses it."""
    workers: int | None
    """Simulations side by side; None is the processors there are."""
    ray: str | None
    """`new`, `auto` or an address; None is threads of this process."""
    is_resuming: bool
    is_forced: bool
    gate: bool

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        """The executor that was asked for; it is closed at the end. Raises `RunError` if it cannot be had."""
        from planner.fleet.checkpoint import ENDING
        from planner.fleet.executors import opened

        # An address, file:///... among them, is one that all nodes reach; a path is this machine's own.
        shared = f"{self.out}{ENDING}" if self.out is not None and "://" in self.out else None
        with opened(workers=self.workers, ray=self.ray, shared=shared) as made:
            yield made


_OPTIONS = (
    click.option("-o", "--out", metavar="DIR", help="Folder of the result, or an address as s3://bucket/run."),
    click.option("-j", "--workers", type=click.IntRange(1), help="Simulations side by side [processors]."),
    click.option("--ray", metavar="new|auto|ADDRESS", help="Simulate on a Ray cluster, not on threads."),
    click.option("--resume", is_flag=True, help="Go on with an interrupted run: do only what is missing."),
    click.option("--force", is_flag=True, help="Simulate again, over a result that is there."),
    click.option("--gate", is_flag=True, help="Exit 3 when a limit is missed."),
)


def how_to_run(function: F) -> F:
    """Adds `-o -j --ray --resume --force --gate` to a command, which gets them as the keyword `how`."""

    @functools.wraps(function)
    def command(*args: Any, **kwargs: Any) -> Any:
        how = HowToRun(
            out=kwargs.pop("out"),
            workers=kwargs.pop("workers"),
            ray=kwargs.pop("ray"),
            is_resuming=kwargs.pop("resume"),
            is_forced=kwargs.pop("force"),
            gate=kwargs.pop("gate"),
        )
        if how.is_resuming and how.is_forced:
            raise click.UsageError("--resume and --force exclude each other: go on with what is there, or begin anew")
        return function(*args, how=how, **kwargs)

    wrapped = command
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return cast(F, wrapped)
