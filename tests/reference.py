"""The simulator again, step by step: slow, obvious, integers only. `docs/explanation/simulator.md` is its text.

Only the cost of a step is the core's own (`core.step_times`); everything that happens between steps is done here anew,
one step and one request at a time, without sums in closed form.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

from planner import core
from tests.reference_replica import Replica
from tests.reference_seq import FS_PER_NS, Seq

METRICS = core.METRICS


class Simulation:
    """A cell: `run()` it, then read `rows`, `counts`, `windows`, `span` and `values`."""

    def __init__(
        self,
        spec: dict[str, Any],
        requests: list[tuple[int, int, int, int]],
        hashes: dict[int, list[int]] | None = None,
    ) -> None:
        self.spec = spec
        self.warmup, self.length, self.width = spec["warmup_ns"], spec["length_ns"], spec["window_ns"]
        self.plans = [core.plan(placed["deployment"]) for placed in spec["deployments"]]
        owners = [ix for ix, placed in enumerate(spec["deployments"]) for _ in range(placed["n_replicas"])]
        self.replicas = [Replica(self, number, ix) for number, ix in enumerate(owners)]
        self.rows = [
            Seq(row, klass, arrival, n_in, n_out, self.warmup <= arrival < self.length, target=n_in)
            for row, (arrival, klass, n_in, n_out) in enumerate(requests)
        ]
        for row, chain in (hashes or {}).items():
            self.rows[row].hashes = chain
        self.counts: dict[int, Counter[str]] = {k: Counter() for k in range(len(spec["classes"]))}
        self.class_windows: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        self.windows: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        self.span: dict[int, Counter[str]] = defaultdict(Counter)
        self.values: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self.sums_fs: Counter[tuple[int, int, int]] = Counter()
        self.turns: Counter[tuple[int, int]] = Counter()
        self.chosen: list[int] = [0] * len(self.replicas)
        self.outstanding: list[int] = [0] * len(self.replicas)

    def run(self) -> Simulation:
        coming = list(self.rows)
        deadline = self.length + self.spec["drain_ns"]
        while True:
            stirring = [r.next_ns for r in self.replicas if r.next_ns is not None]
            now = min(stirring + [seq.arrival for seq in coming[:1]], default=None)
            if now is None or now > deadline:
                break
            while coming and coming[0].arrival == now:
                self.arrive(coming.pop(0))
            for replica in self.replicas:
                if replica.next_ns == now or (replica.next_ns is None and replica.waiting):
                    replica.boundary(now)
        for seq in self.rows:
            if seq.fate == 2:
                self.count(seq, "unfinished")
        return self

    def arrive(self, seq: Seq) -> None:
        self.count(seq, "offered")
        self.count(seq, "input_tokens", seq.input)
        self.count(seq, "output_tokens", seq.output)
        self.class_windows[seq.klass, seq.arrival // self.width]["offered"] += 1
        replica = self.replicas[self.route(seq)]
        seq.replica = replica.number
        held_at_end = seq.input + seq.output - 1
        if held_at_end > replica.plan["max_sequence_tokens"]:
            seq.fate = core.FATES.index("rejected")
            self.count(seq, "rejected")
            self.class_windows[seq.klass, seq.arrival // self.width]["rejected"] += 1
            return
        self.outstanding[replica.number] += seq.input
        seq.window_blocks = replica.blocks_for(held_at_end) - replica.blocks(held_at_end)
        replica.waiting.append(seq)

    def route(self, seq: Seq) -> int:
        targets = self.spec["classes"][seq.klass]["targets"]
        at = 0
        if len(targets) > 1:
            draw, end = uniform(self.spec["seed"], ROUTE_SHARE, seq.klass, seq.row), 0.0
            at = len(targets) - 1
            for ix, target in enumerate(targets):
                end += target["share"]
                if draw < end:
                    at = ix
                    break
        among = [r.number for d in targets[at]["deployments"] for r in self.replicas if r.deployment_ix == d]
        if self.spec["router"] == "round-robin":
            turn = self.turns[seq.klass, at]
            self.turns[seq.klass, at] += 1
            return among[turn % len(among)]
        best = min(among, key=lambda number: (self.outstanding[number], self.chosen[number], number))
        self.chosen[best] = max(self.chosen) + 1
        return best

    def complete(self, seq: Seq, replica: Replica, now: int) -> None:
        assert seq.start is not None
        seq.fate = 0
        self.outstanding[replica.number] -= seq.input
        first, gaps = seq.times[0], seq.output - 1
        reached = {
            "ttft": Fraction(first - seq.arrival),
            "tpot": Fraction(now - first, gaps) if gaps else Fraction(0),
            "itl": Fraction(max(seq.gaps, default=0)),
            "e2e": Fraction(now - seq.arrival),
            "queue": Fraction(seq.start - seq.arrival),
        }
        limits = self.spec["classes"][seq.klass]["limits"]
        attained = all(reached[limit["metric"]] <= limit["limit_ns"] for limit in limits)
        self.count(seq, "completed")
        self.count(seq, "attained", int(attained))
        self.count(seq, "single_token", int(gaps == 0))
        self.class_windows[seq.klass, now // self.width].update(completed=1, attained=int(attained))
        self.add_value(seq, replica.pool, "e2e", now - seq.arrival)
        if gaps:
            self.add_value(seq, replica.pool, "tpot", (2 * (now - first) + gaps) // (2 * gaps))

    def count(self, seq: Seq, what: str, n: int = 1) -> None:
        self.counts[seq.klass][what] += n
        self.counts[seq.klass]["span_" + what] += n * seq.in_span

    def add_value(self, seq: Seq, pool: int, metric: str, ns: int, fs: int | None = None) -> None:
        if seq.in_span:
            key = (seq.klass, pool, METRICS.index(metric))
            self.values[key].append(ns)
            self.sums_fs[key] += ns * FS_PER_NS if fs is None else fs

    def add_work(self, replica: Replica, begin: int, end: int, **amounts: int) -> None:
        ix = replica.deployment_ix
        self.windows[ix, (end - 1) // self.width].update(amounts)
        if self.warmup < end <= self.length:
            self.span[ix].update(amounts)
        if "steps" not in amounts:
            return
        at = begin
        while at < end:
            edge = min(end, (at // self.width + 1) * self.width)
            self.windows[ix, at // self.width]["busy_ns"] += edge - at
            at = edge
        self.span[ix]["busy_ns"] += max(min(end, self.length) - max(begin, self.warmup), 0)


ROUTE_SHARE = 6
MASK32, MASK64 = 2**32 - 1, 2**64 - 1


def mix(z: int) -> int:
    """SplitMix64's finaliser."""
    z = (z + 0x9E3779B97F4A7C15) & MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    return z ^ (z >> 31)


def uniform(seed: int, purpose: int, a: int, b: int) -> float:
    """The first draw of a stream of the core: Philox-4x32-10, 52 bits, in (0, 1)."""
    k = mix(mix(seed) ^ mix(purpose))
    lane = mix((mix(k ^ a) + b) & MASK64)
    c, key = [0, 0, lane & MASK32, lane >> 32], [k & MASK32, k >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ key[0], p1 & MASK32, (p0 >> 32) ^ c[3] ^ key[1], p0 & MASK32]
        key = [(key[0] + 0x9E3779B9) & MASK32, (key[1] + 0xBB67AE85) & MASK32]
    return (((c[0] | c[1] << 32) >> 12) + 0.5) / 2**52
