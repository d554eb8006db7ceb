"""Makes `planner/report/runtime/vega.js.gz`, the runtime that pages carry, of two packages as they were published.

    npm pack vega@6.4.0 vega-interpreter@2.3.2
    python -m tests.page.runtime vega-6.4.0.tgz vega-interpreter-2.3.2.tgz

Nothing is altered but that the interpreter, a module, becomes a function around the same text. Each package has to have
the digest that the registry gives for it, and the same packages give the same bytes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

HOME = Path(__file__).resolve().parents[2] / "planner" / "report" / "runtime"
PACKAGES = {
    "vega-6.4.0.tgz": (
        "package/build/vega.min.js",
        "rHXCq2LpEWCLMjXBEj7hocY9G0/i5TGYRayGGSj06VTF4+l2IG2Z7oeZKCjWbUh/7hTE/mVhbaOPB72wCElh6g==",
    ),
    "vega-interpreter-2.3.2.tgz": (
        "package/build/vega-interpreter.js",
        "JDAoi3taFcCDLujZG84TNNUXdkAZ5WsSHssx8lWVYaxb9Slsjk7v7PtRIYXpSlUwLaKGRBqoJ9KDs36Z0eMEIw==",
    ),
}
"""Package -> its file that is used, and the package's SHA-512 as the registry states it."""


def text_of(package: Path) -> str:
    """The file of a package, which has to be the one that was published."""
    file, digest = PACKAGES[package.name]
    found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    if found != digest:
        raise ValueError(f"{package.name} is not the package that was published: sha512-{found}")
    with tarfile.open(package) as archive:
        member = archive.extractfile(file)
        assert member is not None
        return re.sub(r"\n//# sourceMappingURL=.*\s*$", "\n", member.read().decode("utf-8"))


def joined(vega: str, interpreter: str, licences: str) -> str:
    """One script: the licences, Vega, and its interpreter as `vega.expressionInterpreter`."""
    imports = re.fullmatch(
        r"import (\{[^}]*\}) from 'vega-util';\n(.*)\nexport \{ (\w+) as (\w+) \};\s*", interpreter, re.S
    )
    assert imports is not None
    names, body, inside, outside = imports.groups()
    assert "*/" not in licences
    return f"/*\n{licences}*/\n{vega}\n;(() => {{\nconst {names} = vega;\n{body}\nvega.{outside} = {inside};\n}})();\n"


def main(paths: Sequence[str]) -> None:
    """Write the runtime."""
    vega, interpreter = (text_of(Path(path)) for path in paths)
    text = joined(vega, interpreter, (HOME / "LICENCES.txt").read_text(encoding="utf-8"))
    packed = gzip.compress(text.encode("utf-8"), 9, mtime=0)
    (HOME / "vega.js.gz").write_bytes(packed)
    print(f"{len(text):,} characters, {len(packed):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
