"""A result's folder: written beside its place and renamed, every file with its digest in `manifest.json`."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from planner.aggregate import timeline
from planner.aggregate.columns import ON_DEMAND, TABLES, schema_of
from planner.errors import Fault, RunError, ScenarioError
from planner.fleet.storage import Folder, is_address

if TYPE_CHECKING:
    import polars as pl

    from planner.aggregate.result import Result

VERSION = 1
SCHEMA = f"planner.result/{VERSION}"
MANIFEST = "manifest.json"
LOG = "log.txt"
_RESULT = "result.json"
_SCENARIO = "scenario.resolved.yaml"


def save(result: Result, place: Path | str, *, is_replacing: bool, log: str) -> None:
    """Write `result` as a folder; see `Result.save`."""
    if is_address(place) and not str(place).startswith("file://"):
        _save_at(result, Folder.of(place), is_replacing=is_replacing, log=log)
        return
    folder = Path(Folder.of(place).place)
    _check_place(folder, is_replacing=is_replacing)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _write(result, draft)
        (draft / LOG).write_text(log, encoding="utf-8")
        draft.chmod(0o777 & ~_umask())
        _put(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _save_at(result: Result, folder: Folder, *, is_replacing: bool, log: str) -> None:
    """Put all files at an address, the manifest last: without it there is no result."""
    names = folder.names()
    if names and not is_replacing:
        raise RunError(Fault(f"{folder} is there already", "choose another folder"))
    if names and MANIFEST not in names:
        raise RunError(Fault(f"{folder} is no result, so it is not replaced", "choose another folder"))
    with tempfile.TemporaryDirectory(prefix="planner.") as draft:
        _write(result, Path(draft))
        (Path(draft) / LOG).write_text(log, encoding="utf-8")
        folder.put_all(Path(draft), last=MANIFEST)
        for name in set(names) - {path.name for path in Path(draft).iterdir()}:
            folder.remove(name)


def _check_place(folder: Path, *, is_replacing: bool) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not is_replacing:
        raise RunError(Fault(f"{folder} is there already", "choose another folder"))
    if not is_result(folder):
        raise RunError(Fault(f"{folder} is no result, so it is not replaced", "choose another folder"))


def is_result(folder: Path | str) -> bool:
    """Whether a folder says that it is a result, be it whole or damaged; only such a one is ever replaced."""
    if is_address(folder):
        return MANIFEST in Folder.of(folder).names()
    return (Path(folder) / MANIFEST).is_file()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _put(draft: Path, folder: Path) -> None:
    """Rename into place; what stood there goes only once the new one can take its place."""
    if not folder.exists():
        draft.rename(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
    try:
        folder.rename(old)
        try:
            draft.rename(folder)
        except OSError:
            old.rename(folder)
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _write(result: Result, draft: Path) -> None:
    scenarios = scenario_files(list(result.variants))
    for name, file in scenarios.items():
        (draft / file).write_text(result.scenarios[name], encoding="utf-8")
    for name, table in result.tables.items():
        _write_parquet(table, draft / f"{name}.parquet")
    if "timeline" in result.tables:
        with (draft / timeline.FILE).open("w", encoding="utf-8") as trace:
            timeline.write(result.tables["timeline"], trace)
    body = {
        "schema": SCHEMA,
        "inputs": result.inputs,
        "built": dict(result.built),
        "warnings": [asdict(notice) for notice in result.notices],
        "result": result.to_json(),
    }
    (draft / _RESULT).write_text(_json(body), encoding="utf-8")
    files = {path.name: _digest(path) for path in sorted(draft.iterdir())}
    manifest = {"schema": SCHEMA, "inputs": result.inputs, "variants": scenarios, "files": files}
    (draft / MANIFEST).write_text(_json(manifest), encoding="utf-8")


def _write_parquet(table: pl.DataFrame, path: Path) -> None:
    """Write a table. Raises `OSError`, as other files do: what polars says of a full disk does not name it."""
    import polars as pl

    try:
        table.rechunk().write_parquet(path, compression="zstd", row_group_size=1 << 18)
    except pl.exceptions.PolarsError as error:
        room = os.statvfs(path.parent)
        if room.f_bavail * room.f_frsize < table.estimated_size():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
        raise OSError(errno.EIO, str(error).splitlines()[0]) from None


def scenario_files(variants: list[str]) -> dict[str, str]:
    """Where the resolved scenario of each variant stands: the first has the plain name, so that it can be run again."""
    names = [_SCENARIO, *(f"scenario.{ix}.resolved.yaml" for ix in range(1, len(variants)))]
    return dict(zip(variants, names, strict=True))


def _json(body: Mapping[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def load(place: Path | str) -> Result:
    """The result of a folder, every file checked against its digest; see `Result.load`."""
    import polars as pl

    if is_address(place) and not str(place).startswith("file://"):
        if not is_result(place):
            raise ScenarioError(Fault(f"{place} is no result of planner run", f"it has no {MANIFEST}"))
        with tempfile.TemporaryDirectory(prefix="planner.") as copy:
            Folder.of(place).get_all(Path(copy))
            return load(Path(copy))
    folder = Path(Folder.of(place).place)
    if not is_result(folder):
        raise ScenarioError(Fault(f"{folder} is no result of planner run", f"it has no {MANIFEST}"))
    manifest = _read_json(folder / MANIFEST)
    _check_version(folder, manifest)
    files = manifest.get("files")
    variants = manifest.get("variants")
    if not _is_texts(files) or not _is_texts(variants):
        raise RunError(Fault(f"{folder / MANIFEST} is damaged", "run the scenario again"))
    _check_files(
        folder, files, [*variants.values(), _RESULT, *(f"{name}.parquet" for name in TABLES if name not in ON_DEMAND)]
    )
    try:
        return _read(folder, files, variants)
    except (KeyError, TypeError, pl.exceptions.PolarsError) as error:
        raise RunError(Fault(f"{folder} is damaged: {error}", "run the scenario again")) from None


def _read(folder: Path, files: Mapping[str, str], variants: Mapping[str, str]) -> Result:
    import polars as pl

    from planner.aggregate.result import Result

    body = _read_json(folder / _RESULT)
    found = body["result"]
    tables = {}
    for name, columns in TABLES.items():
        if f"{name}.parquet" in files:
            tables[name] = pl.read_parquet(folder / f"{name}.parquet")
            if dict(tables[name].schema) != schema_of(columns):
                raise RunError(
                    Fault(f"{folder / name}.parquet has other columns than {SCHEMA}", "run the scenario again")
                )
    return Result(
        variants=found["variants"] if "variants" in found else {next(iter(variants)): found},
        tables=tables,
        scenarios={name: (folder / file).read_text(encoding="utf-8") for name, file in variants.items()},
        inputs=body["inputs"],
        built=body["built"],
        plan=found.get("plan") if "variants" in found else None,
    )


def _is_texts(value: object) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _read_json(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(Fault(f"{path} is damaged: {error}", "run the scenario again")) from None
    if not isinstance(read, dict):
        raise RunError(Fault(f"{path} is damaged: no object", "run the scenario again"))
    return read


def _check_version(folder: Path, manifest: Mapping[str, Any]) -> None:
    said = str(manifest.get("schema", ""))
    if said == SCHEMA:
        return
    kind, _, version = said.partition("/")
    if kind != "planner.result" or not version.isdecimal():
        raise ScenarioError(Fault(f"{folder} is no result of planner run", f"its {MANIFEST} says '{said[:40]}'"))
    raise RunError(
        Fault(f"{folder} is a result of version {version}, this planner reads version {VERSION}", "run it again")
    )


def _check_files(folder: Path, files: Mapping[str, str], needed: list[str]) -> None:
    """Every listed file is there and unchanged, and every needed one is listed; all faults at once."""
    faults = [Fault(f"{folder / name} is not in the manifest", "run it again") for name in needed if name not in files]
    for name, digest in files.items():
        path = folder / name
        if Path(name).name != name:
            faults.append(Fault(f"'{name[:80]}' in {folder / MANIFEST} is no file name", "run the scenario again"))
        elif not path.is_file():
            faults.append(Fault(f"{path} is missing", "run the scenario again"))
        elif _digest(path) != digest:
            faults.append(Fault(f"{path} was changed after it was written", "run the scenario again"))
    if faults:
        raise RunError(*faults)
