"""The command `planner`: a group whose verbs are imported only when they are used, and how every run of it ends."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click
from click.exceptions import Abort, Exit, NoArgsIsHelpError

from planner.cli import output

# verb -> (module, one-line help); the help stands here so that `planner --help` imports no verb.
VERBS: dict[str, tuple[str, str]] = {
    "init": ("planner.cli.init", "Copy a shipped scenario to start from."),
    "check": ("planner.cli.check", "Validate scenarios; list what this version does not act on."),
    "run": ("planner.cli.run", "Simulate the fleet as given: latency limits, load, power, cost."),
    "optimize": ("planner.cli.optimize", "The racks to buy and where each class runs, proved by simulation."),
    "sweep": ("planner.cli.sweep", "The scenario at every point of its axes; the cheapest that holds its limits."),
    "headroom": ("planner.cli.headroom", "The load at which the first limit breaks, and with a rack out."),
    "compare": ("planner.cli.compare", "Results side by side: what is better beyond noise, and what differs."),
    "report": ("planner.cli.report", "The page of a result: the answer, the figures, the evidence."),
    "explain": ("planner.cli.explain", "Walk a figure back to its formula, its inputs and its facts."),
    "break-even": ("planner.cli.break_even", "The price at which two plans cost the same per token."),
    "calibrate": ("planner.cli.calibrate", "Fit the model to measured points; errors on what a fit left out."),
    "posterior": ("planner.cli.posterior", "Infer what is undisclosed of Jalapeño from its published figures."),
    "frontier": ("planner.cli.frontier", "Latency against throughput a chip, a kW and a dollar, for one model."),
    "validate": ("planner.cli.validate", "The model against published and measured figures, with its bands."),
    "catalog": ("planner.cli.catalog", "List, show and compare the facts: chips, racks, models, prices, sites."),
    "trace": ("planner.cli.trace", "Inspect, convert, sample and make request traces."),
    "schema": ("planner.cli.schema", "JSON Schema of scenarios, results and catalogue files."),
    "doctor": ("planner.cli.doctor", "Whether everything that planner needs is here."),
    "completion": ("planner.cli.completion", "The script that lets a shell complete verbs and flags."),
}
COMPLETE = "_PLANNER_COMPLETE"
"""The variable in which a shell asks for completions (`planner completion`)."""
EPILOG = """\b
Examples:
  planner init my-fleet
  planner run scenarios/02-mixed-fleet.yaml
"""


class LazyGroup(click.Group):
    """A group that knows its verbs by name and loads one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(VERBS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from planner.errors import near

            ctx.fail(f"no verb '{args[0][:60]}'{near(args[0][:60], VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


@click.group(
    "planner",
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@output.shared_options
@click.pass_context
def group(ctx: click.Context, /, **shared: object) -> None:
    """Plan the capacity of fleets that serve large language models.

    A scenario file says what is asked, a verb answers it; `planner init` copies one to start from.
    """
    ctx.obj = output.settings(**shared)


def run(arguments: Sequence[str]) -> NoReturn:
    """Runs the command with its arguments and ends the program.

    Status 0 done, 1 a fault in planner, 2 bad input or usage, 3 a limit missed with `--gate`, 4 infeasible, 5 the
    surroundings failed, 130 interrupted.
    """
    to = output.Settings(as_json="--json" in arguments)
    schema = f"planner.{next((word for word in arguments if word in VERBS), 'planner')}/1"
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held back while this was loaded (`__main__.py`)
        with output.answering(), group.make_context("planner", list(arguments)) as context:
            group.invoke(context)
    except Exit as end:
        raise SystemExit(end.exit_code) from None
    except NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        raise SystemExit(2) from None
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and error.ctx is not None and not to.as_json:
            click.echo(error.ctx.get_usage(), err=True)
        output.fail_with(schema, "usage", error.format_message(), 2, to)
    except (Abort, KeyboardInterrupt):
        output.fail_with(schema, "interrupted", "interrupted", output.EXIT_INTERRUPTED, to)
    except BrokenPipeError:
        output.quiet_exit()
    except Exception as error:  # outside a verb: one that cannot be loaded
        what = f"a fault in planner: {type(error).__name__}: {error}"
        output.fail_with(schema, "bug", what, 1, to)
    raise SystemExit(0)


def main() -> NoReturn:
    """Entry point of the command `planner`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller; without it the next file opened takes its number
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    asked = os.environ.get(COMPLETE)
    if asked:
        from click.shell_completion import shell_complete

        raise SystemExit(shell_complete(group, {}, "planner", COMPLETE, asked))
    run(sys.argv[1:])
