"""The oracle's router and the draws of the core: each signal is counted anew for each choice."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from tests.reference_replica import Replica
from tests.reference_seq import FS_PER_NS, Seq, cost_of

if TYPE_CHECKING:
    from tests.reference import Simulation

ROUTE_SHARE, ROUTER_CHOICE, FAILURE = 6, 7, 13
MASK32, MASK64 = 2**32 - 1, 2**64 - 1


class Router:
    """Chooses replicas; `outstanding` has what was sent to each and has not ended there."""

    def __init__(self, sim: Simulation) -> None:
        self.sim, self.spec = sim, sim.spec
        self.kind = self.spec["router"]
        self.options = {"n_candidates": 4, "rejects": False, "most_percent": 150, "spill_frac": 0.5}
        self.options |= self.spec.get("router_options", {})
        n = sum(placed["n_replicas"] for placed in self.spec["deployments"])
        self.outstanding: list[list[Seq]] = [[] for _ in range(n)]
        self.chosen = [0] * n
        self.turns: Counter[tuple[int, int]] = Counter()

    def choose(self, seq: Seq) -> Replica | None:
        key = seq.klass | seq.attempt << 32
        targets = self.spec["classes"][seq.klass]["targets"]
        at = 0
        if len(targets) > 1:
            draw, end = uniform(self.spec["seed"], ROUTE_SHARE, key, seq.row), 0.0
            at = len(targets) - 1
            for ix, target in enumerate(targets):
                end += target["share"]
                if draw < end:
                    at = ix
                    break
        everyone = [r for d in targets[at]["deployments"] for r in self.sim.replicas if r.deployment_ix == d]
        among = [r for r in everyone if self.sim.is_up(r)]
        turn = self.turns[seq.klass, at]
        self.turns[seq.klass, at] += 1
        if not among:
            return None

        def below(n: int, position: int) -> int:
            return draw_below(self.spec["seed"], ROUTER_CHOICE, key, seq.row, n, position)

        if self.kind == "round-robin":
            best = among[turn % len(among)]
        elif self.kind == "random" or (self.kind == "power-of-two" and len(among) == 1):
            best = among[below(len(among), 0)]
        elif self.kind == "power-of-two":
            one = below(len(among), 0)
            other = (one + 1 + below(len(among) - 1, 1)) % len(among)
            best = min((among[one], among[other]), key=self.load)
        elif self.kind in ("least-outstanding-tokens", "least-requests"):
            best = min(among, key=self.load)
        elif self.kind in ("session-affine", "prefix-affine"):
            best = self.affine(seq, everyone, among)
        elif self.kind == "slo-aware":
            few = [r for d in targets[at]["deployments"] for r in self.few(d, among)]
            best = min(few, key=lambda r: (self.ttft_fs(r, seq), r.number))
            limits = [x["limit_ns"] for x in self.spec["classes"][seq.klass]["limits"] if x["metric"] == "ttft"]
            if limits and self.options["rejects"] and self.ttft_fs(best, seq) > min(limits) * FS_PER_NS:
                return None
        else:
            assert self.kind == "cheapest-first"
            best = self.cheapest(seq, targets[at]["deployments"], among)
        self.sent(seq, best)
        return best

    def choose_decode(self, seq: Seq, targets: list[int]) -> Replica | None:
        among = [r for r in self.sim.replicas if r.deployment_ix in targets and self.sim.is_up(r)]
        if not among:
            return None
        best = min(among, key=self.load)
        self.sent(seq, best)
        return best

    def sent(self, seq: Seq, replica: Replica) -> None:
        self.outstanding[replica.number].append(seq)
        self.chosen[replica.number] = max(self.chosen) + 1

    def ended(self, seq: Seq, replica: Replica) -> None:
        self.outstanding[replica.number].remove(seq)

    def tokens(self, replica: Replica) -> int:
        return sum(1 if self.kind == "least-requests" else seq.input for seq in self.outstanding[replica.number])

    def load(self, replica: Replica) -> tuple[int, int, int]:
        return self.tokens(replica), self.chosen[replica.number], replica.number

    def affine(self, seq: Seq, everyone: list[Replica], among: list[Replica]) -> Replica:
        key = seq.hashes[0] if self.kind == "prefix-affine" and seq.hashes else seq.session
        if key is not None:
            at = draw_below(self.spec["seed"], ROUTER_CHOICE, MASK64, key, len(everyone), 0)
            home = next(r for r in everyone[at:] + everyone[:at] if r in among)
            deployments = {r.deployment_ix for r in everyone}
            whole = sum(self.tokens(r) for r in self.sim.replicas if r.deployment_ix in deployments) + seq.input
            mine = self.tokens(home) + seq.input
            if mine == seq.input or mine * len(among) * 100 <= whole * self.options["most_percent"]:
                return home
        return min(among, key=self.load)

    def few(self, deployment: int, among: list[Replica]) -> list[Replica]:
        mine = sorted((r for r in among if r.deployment_ix == deployment), key=self.load)
        return mine[: self.options["n_candidates"]]

    def ttft_fs(self, replica: Replica, seq: Seq) -> int:
        there = self.outstanding[replica.number]
        todo = sum(other.input for other in there if not other.times) + seq.input
        decoding = [other for other in there if other.times]
        context = sum(other.input for other in decoding) + len(decoding)
        window = min(context, len(decoding) * replica.sliding["window_tokens"]) if replica.sliding else 0
        most = replica.serving["chunk_tokens"]
        step = most * replica.n_stages  # a chunk for each pipeline stage

        def step_fs(tokens: int) -> int:
            chunks = tuple((min(most, tokens - at), 0) for at in range(0, tokens, most))
            return cost_of(replica.deployment, (len(decoding), context, window, 0), chunks)["time_s"]

        whole = todo // step * step_fs(step) if todo >= step else 0
        away = self.sim.away(seq.klass, replica) * FS_PER_NS
        return away + whole + (step_fs(todo % step) if todo % step else 0)

    def cheapest(self, seq: Seq, deployments: list[int], among: list[Replica]) -> Replica:
        for d in deployments:
            mine = [r for r in among if r.deployment_ix == d]
            best = min(mine, key=self.load, default=None)
            full = int(float(self.sim.plans[d]["kv_capacity_tokens"]) * self.options["spill_frac"])
            if best is not None and self.tokens(best) + seq.input <= full:
                return best
        return min(among, key=self.load)


def mix(z: int) -> int:
    """SplitMix64's finaliser."""
    z = (z + 0x9E3779B97F4A7C15) & MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    return z ^ (z >> 31)


def bits(seed: int, purpose: int, a: int, b: int, position: int = 0) -> int:
    """A draw of a stream of the core: Philox-4x32-10, 64 bits."""
    k = mix(mix(seed) ^ mix(purpose))
    lane = mix((mix(k ^ a) + b) & MASK64)
    c, key = [position & MASK32, position >> 32, lane & MASK32, lane >> 32], [k & MASK32, k >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ key[0], p1 & MASK32, (p0 >> 32) ^ c[3] ^ key[1], p0 & MASK32]
        key = [(key[0] + 0x9E3779B9) & MASK32, (key[1] + 0xBB67AE85) & MASK32]
    return c[0] | c[1] << 32


def uniform(seed: int, purpose: int, a: int, b: int) -> float:
    """52 bits, in (0, 1)."""
    return ((bits(seed, purpose, a, b) >> 12) + 0.5) / 2**52


def draw_below(seed: int, purpose: int, a: int, b: int, n: int, position: int) -> int:
    """A whole number in 0..n."""
    return bits(seed, purpose, a, b, position) * n >> 64


def exponential(seed: int, purpose: int, a: int, b: int) -> float:
    """With mean 1."""
    return -math.log(uniform(seed, purpose, a, b))
