"""`planner trace make`: the requests that a scenario draws, written as a trace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli import output
from planner.cli.asked import one_variant, seed, values
from planner.errors import Notice

if TYPE_CHECKING:
    from planner.scenario import Scenario
    from planner.traffic.write import Form

SCHEMA = "planner.trace/1"
_FORMS = ("parquet", "csv", "jsonl")
EPILOG = """\b
Examples:
  planner trace make scenarios/01-one-rack.yaml -o requests.csv
  planner trace make scenarios/04-agents.yaml --set run.length='10 min' -o tasks.jsonl
"""


@click.command("make", epilog=EPILOG)
@click.argument("scenario")
@one_variant("A variant of the file.")
@values()
@seed("The seed")
@click.option("--to", "form", type=click.Choice(_FORMS), help="What to write [as the file's name ends].")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="File to write; - is stdout.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@output.verb(SCHEMA)
def command(
    scenario: str,
    name: str | None,
    sets: tuple[str, ...],
    seed: int | None,
    form: Form | None,
    out: Path,
    force: bool,
    *,
    to: output.Settings,
) -> None:
    """Write the requests that a run of SCENARIO (a file, or - for stdin) would offer, under one seed.

    Requests that wait for others, as the turns of a session do, say for which row and how long; their arrival is
    the begin of the session. Prompts with known prefixes have block hashes (not in CSV).
    """
    from planner.scenario import load, read_stdin
    from planner.traffic import write
    from planner.traffic.made import make

    is_stream = str(out) == "-"
    form = form or _form(out)
    if is_stream and (to.as_json or form == "parquet"):
        raise click.UsageError("-o - writes requests as text: not with --json, not for parquet")
    loaded = load(scenario, sets=sets, variant=name, stdin_text=read_stdin() if scenario == "-" else None)
    chosen = loaded.run.seed if seed is None else seed
    requests, traffic = make(loaded, chosen, prefixes=form != "csv")
    notices = [*traffic.notices, *_losses(loaded, form)]
    if is_stream:
        for notice in notices:
            output.warn(notice.message, to)
        with output.answering():
            write.dump(requests, sys.stdout.buffer, form)
        return
    write.write(requests, out, form, replace=force)
    result: dict[str, Any] = {
        "path": str(out),
        "form": form,
        "scenario": loaded.name,
        "seed": chosen,
        "n_requests": requests.height,
        "by_class": dict(requests["class"].value_counts().sort("class").iter_rows()),
        "sum_input_tokens": int(requests["input_tokens"].sum()),
        "sum_output_tokens": int(requests["output_tokens"].sum()),
        "duration_s": traffic.length_ns / 1e9,
    }
    if "session_id" in requests.columns:
        result["n_sessions"] = requests["session_id"].drop_nulls().n_unique()
    text = f"wrote {out}   {requests.height:,} requests of {loaded.title}, seed {chosen}"
    output.reply(SCHEMA, result, text, to, warnings=notices, inputs=f"sha256:{loaded.digest()}")


def _form(out: Path) -> Form:
    """What a file's name asks for."""
    match out.suffix:
        case ".parquet":
            return "parquet"
        case ".jsonl":
            return "jsonl"
        case ".csv":
            return "csv"
    if str(out) == "-":
        return "csv"
    raise click.UsageError(f"what to write as {out.name}? say --to {', --to '.join(_FORMS)}")


def _losses(scenario: Scenario, form: Form) -> list[Notice]:
    """What a reader of the written file will not find there."""
    classes = scenario.traffic.values()
    knows = any(c.prefix_reuse_frac is not None or c.sessions or c.agents for c in classes)
    if form != "csv" or not knows:
        return []
    return [Notice("no_hash_ids", "CSV has no place for block hashes: they are left out; jsonl and parquet keep them")]
