"""`planner trace`: what a request trace holds, and the same requests in the project's own plain form."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli import output, trace_make
from planner.errors import Notice

if TYPE_CHECKING:
    from planner.traffic.schema import Trace
    from planner.traffic.write import Form

SCHEMA = "planner.trace/1"
_FORMS = ("parquet", "csv", "jsonl")
EPILOG = """\b
Examples:
  planner trace inspect requests.csv
  planner trace convert requests.jsonl.gz --to parquet
"""
INSPECT_EPILOG = """\b
Examples:
  planner trace inspect requests.csv
  planner trace inspect export.json --format openai-usage --json
"""
CONVERT_EPILOG = """\b
Examples:
  planner trace convert requests.jsonl.gz --to parquet
  planner trace convert spend.jsonl --to csv -o -
"""
SAMPLE_EPILOG = """\b
Examples:
  planner trace sample requests.csv --every 100
  planner trace sample requests.parquet --every 10 --to parquet -o small.parquet
"""

file_argument = click.argument("file", type=click.Path(path_type=Path))
format_option = click.option(
    "--format", "format_", metavar="NAME", help="The file's format, where its content does not tell it."
)
out_option = click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="File to write [the trace's name, here]; - is stdout."
)
force_option = click.option("--force", is_flag=True, help="Write over a file that is there.")


@click.group("trace", epilog=EPILOG)
@output.shared_options
@click.pass_context
def command(ctx: click.Context, /, **shared: object) -> None:
    """Inspect, convert, sample and make request traces."""
    ctx.obj = output.settings(**shared)


command.add_command(trace_make.command)


@command.command(epilog=INSPECT_EPILOG)
@file_argument
@format_option
@output.verb(SCHEMA)
def inspect(file: Path, format_: str | None, *, to: output.Settings) -> None:
    """Say what FILE holds: its format, every refused row by reason, sums, lengths, how arrivals are spread."""
    from planner.cli.trace_text import inspected
    from planner.traffic.inspect import inspect as figures_of
    from planner.traffic.trace import read

    trace = read(file, format=format_)
    figures = figures_of(trace)
    text = inspected(file.name, figures, is_named=format_ is not None)
    output.reply(SCHEMA, figures, text, to, warnings=trace.warnings, inputs=trace.digest)


@command.command(epilog=CONVERT_EPILOG)
@file_argument
@click.option("--to", "form", type=click.Choice(_FORMS), required=True, help="What to write.")
@out_option
@format_option
@force_option
@output.verb(SCHEMA)
def convert(file: Path, form: Form, out: Path | None, format_: str | None, force: bool, *, to: output.Settings) -> None:
    """Write the requests of FILE in planner's plain form, in order of arrival; refused rows are left out."""
    _rewrite(file, form, out, format_, n=1, force=force, to=to)


@command.command(epilog=SAMPLE_EPILOG)
@file_argument
@click.option("--every", "n", type=click.IntRange(1), required=True, metavar="N", help="Keep each N-th request.")
@click.option("--to", "form", type=click.Choice(_FORMS), default="csv", show_default=True, help="What to write.")
@out_option
@format_option
@force_option
@output.verb(SCHEMA)
def sample(
    file: Path, n: int, form: Form, out: Path | None, format_: str | None, force: bool, *, to: output.Settings
) -> None:
    """Write each N-th request of FILE, in order of arrival: the same shape at an N-th of the rate."""
    _rewrite(file, form, out, format_, n=n, force=force, to=to)


def _rewrite(
    file: Path, form: Form, out: Path | None, format_: str | None, *, n: int, force: bool, to: output.Settings
) -> None:
    from planner.traffic import write
    from planner.traffic.trace import read

    is_stream = out is not None and str(out) == "-"
    if is_stream and (to.as_json or form == "parquet"):
        raise click.UsageError("-o - writes requests as text: not with --json, not for parquet")
    trace = read(file, format=format_)
    requests = write.every(write.requests_of(trace), n)
    notices = [*trace.warnings, *_losses(trace, form)]
    if is_stream:
        for notice in notices:
            output.warn(notice.message, to)
        with output.answering():
            write.dump(requests, sys.stdout.buffer, form)
        return
    path = out if out is not None else Path(f"{_stem(file)}{f'-every-{n}' if n > 1 else ''}.{form}")
    if _is_same(path, file):
        raise click.UsageError(f"{path} is the trace that is read; name another file with -o")
    write.write(requests, path, form, replace=force)
    result: dict[str, Any] = {
        "path": str(path),
        "form": form,
        "format": trace.format,
        "rows_read": trace.rows_read,
        "rejected": trace.rejected,
        "n_requests": requests.height,
        "sum_input_tokens": int(requests["input_tokens"].sum()),
        "sum_output_tokens": int(requests["output_tokens"].sum()),
        "duration_s": (int(requests["arrival_ns"][-1]) - int(requests["arrival_ns"][0])) / 1e9,
    }
    text = f"wrote {path}   {requests.height:,} of {trace.n_requests:,} requests read as {trace.format}"
    output.reply(SCHEMA, result, text, to, warnings=notices, inputs=trace.digest)


def _losses(trace: Trace, form: Form) -> list[Notice]:
    """What a reader of the written file will not find there."""
    found = []
    if trace.rejected:
        counts = ", ".join(f"{reason} {count:,}" for reason, count in trace.rejected.items())
        found.append(
            Notice("failed_rows", f"{sum(trace.rejected.values()):,} of {trace.rows_read:,} rows refused: {counts}")
        )
    if form == "csv" and "hash_ids" in trace.requests.columns:
        found.append(
            Notice("no_hash_ids", "CSV has no place for block hashes: they are left out; jsonl and parquet keep them")
        )
    return found


def _stem(file: Path) -> str:
    """The file's name without what says how it is packed."""
    name = file.name
    for suffix in (".gz", file.with_suffix("").suffix if file.suffix == ".gz" else file.suffix):
        name = name.removesuffix(suffix) if suffix else name
    return name or "trace"


def _is_same(path: Path, other: Path) -> bool:
    """Whether both names mean one file, which is then never written over."""
    return path.exists() and other.exists() and path.samefile(other)
