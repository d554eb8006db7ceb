"""Finding a Ray cluster: whether any answers at an address, what a refusal means, the package for its workers."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from planner.errors import Fault, RunError


def refusal(address: str, error: BaseException) -> Fault:
    text = first_line(error)
    if "ersion mismatch" in str(error):
        said = " ".join(line.strip() for line in str(error).splitlines())[:400]
        return Fault(f"the cluster runs another version: {said}", "use the same Ray and Python here and there")
    if address == "auto":
        return Fault("no Ray cluster runs here", "--ray new starts one; or start one with ray start --head")
    if address == "new":
        return Fault(f"no Ray cluster could be started: {text}", "see the logs below /tmp/ray, or run without --ray")
    return Fault(
        f"the Ray cluster at {address} cannot be used: {text}", "run planner on a node of it, or use ray://HOST:10001"
    )


def check_answers(address: str) -> None:
    """Refuse an address at which nothing speaks as a cluster does; Ray itself would wait for minutes."""
    kind, _, rest = address.rpartition("://")
    host, _, port = rest.partition("/")[0].rpartition(":")
    if kind not in ("", "ray") or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        what = f"'{address}' is no address of a Ray cluster"
        raise RunError(Fault(what, "write new, auto, HOST:6379 or ray://HOST:10001"))
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=10) as line:
            line.settimeout(10)
            # Clusters speak gRPC: to the greeting of HTTP/2 they answer with a frame of settings (type 4).
            line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            said = line.recv(9)
    except OSError as error:
        what = f"no Ray cluster answers at {address}: {error.strerror or error}"
        raise RunError(Fault(what, "check the address and that the cluster runs")) from None
    is_tls = said[:1] == b"\x15"
    if not is_tls and said[3:4] != b"\x04":
        raise RunError(Fault(f"what answers at {address} is no Ray cluster", "check host and port"))


def package(folder: Path) -> str:
    """A copy of this package for workers; a checkout's list of files to ignore does not reach it."""
    home = Path(__file__).resolve().parents[1]
    shutil.copytree(home, folder / home.name, ignore=shutil.ignore_patterns("__pycache__"))
    return str(folder / home.name)


def first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]


def given_up(n_tries: int, what: str, lost: Exception) -> RunError:
    """Workers died again and again on the same thing."""
    return RunError(
        Fault(
            f"workers died {n_tries} times on the same {what}: {lost}",
            "give them more memory, fewer workers at a time (-j), or smaller cells (fleet.cell_replicas)",
        )
    )
