"""Finding a Ray cluster: whether any answers at an address, what a refusal means, the package for its workers."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from planner.errors import Fault, RunError

SAME = "use the same Ray and Python here and there"
TOKEN = "set RAY_AUTH_MODE=token, and give its token as RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"


def refusal(address: str, error: BaseException) -> Fault:
    """What it means that Ray would not connect."""
    text = last_line(error) if is_passing(error) else first_line(error)
    if "ersion mismatch" in str(error):
        said = " ".join(line.strip() for line in str(error).splitlines())[:400]
        return Fault(f"the cluster runs another version: {said}", SAME)
    if address == "auto":
        return Fault("no Ray cluster runs here", "--ray new starts one; or start one with ray start --head")
    if address == "new":
        return Fault(f"no Ray cluster could be started: {text}", "see the logs below /tmp/ray, or run without --ray")
    way_out = "run planner on a node of it, or use ray://HOST:10001"
    if address.startswith("ray://"):
        way_out = "see the logs of its head below /tmp/ray, or run planner on a node of it"
    return Fault(f"the Ray cluster at {address} cannot be used: {text}", way_out)


def is_passing(error: BaseException) -> bool:
    """Whether trying again may help.

    A port for clients starts a process for each of them, and that process now and then dies as it starts.
    """
    return isinstance(error, ConnectionAbortedError)


def check_answers(address: str, *, version: str, token: Mapping[str, str]) -> None:
    """Refuse an address at which no cluster of this version answers; Ray itself would wait for minutes.

    `version` is that of Ray here, `token` the header with which it speaks to a cluster that wants one.

    Raises:
        RunError: with what answers there, if anything, and the way out.
    """
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
    if said[:1] == b"\x15":
        return  # it wants TLS: Ray has its own words for what is wrong with that
    if said[3:4] != b"\x04":
        raise RunError(Fault(f"what answers at {address} is no Ray cluster", "check host and port"))
    _ask(address, f"{host}:{port}", is_client=kind == "ray", version=version, token=token)


def _ask(address: str, place: str, *, is_client: bool, version: str, token: Mapping[str, str]) -> None:
    """Ask what only a cluster's head knows, or only its port for clients; a head answers with its version."""
    try:
        import grpc
    except ImportError:
        if is_client:
            what = f"{address} needs the package grpcio"
            raise RunError(Fault(what, "pip install 'ray[client]', or run planner on a node of it")) from None
        return
    said = b""
    with grpc.insecure_channel(place) as channel:
        try:
            said = channel.unary_unary(_INFO if is_client else _ALIVE)(b"", timeout=10, metadata=tuple(token.items()))
        except grpc.RpcError as error:
            code = error.code()
            if code == grpc.StatusCode.UNAUTHENTICATED:
                what = f"the Ray cluster at {address} {'has another token' if token else 'wants a token'}"
                raise RunError(Fault(what, TOKEN)) from None
            if code == grpc.StatusCode.UNIMPLEMENTED:
                what = f"what answers at {address} is {'not the port for clients' if is_client else 'no head'}"
                way_out = f"write {place if is_client else f'ray://{place}'}, or check host and port"
                raise RunError(Fault(f"{what} of a Ray cluster", way_out)) from None
            # Ray has its own words for the rest
    there = "" if is_client else _version(said)
    if there not in ("", version):
        what = f"the Ray cluster at {address} runs Ray {there}, this is Ray {version}"
        raise RunError(Fault(what, SAME))


_ALIVE = "/ray.rpc.NodeInfoGcsService/CheckAlive"
_INFO = "/ray.rpc.RayletDriver/ClusterInfo"
_LENGTHS, _VERSION = 2, 2
"""Of protocol buffers, the type of a field with a length; of the answer, the number of the field of the version."""


def _version(said: bytes) -> str:
    """The version in a head's answer (`CheckAliveReply` of `gcs_service.proto`); empty where there is none."""
    at = 0
    while at + 1 < len(said):
        field, wire, size = said[at] >> 3, said[at] & 7, said[at + 1]
        if wire != _LENGTHS or size > 127:
            return ""
        if field == _VERSION:
            return said[at + 2 : at + 2 + size].decode("ascii", "replace")
        at += 2 + size
    return ""


def package(folder: Path) -> str:
    """A copy of this package for workers; a checkout's list of files to ignore does not reach it."""
    home = Path(__file__).resolve().parents[1]
    shutil.copytree(home, folder / home.name, ignore=shutil.ignore_patterns("__pycache__"))
    return str(folder / home.name)


def first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]


def last_line(error: BaseException) -> str:
    """Of an error that quotes a trace of calls, what it comes to."""
    return next(reversed(str(error).strip().splitlines()), type(error).__name__)[:300]


def given_up(n_tries: int, what: str, lost: Exception) -> RunError:
    """Workers died again and again on the same thing."""
    return RunError(
        Fault(
            f"workers died {n_tries} times on the same {what}: {lost}",
            "give them more memory, fewer workers at a time (-j), or smaller cells (fleet.cell_replicas)",
        )
    )
