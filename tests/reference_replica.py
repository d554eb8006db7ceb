"""The oracle's replica: continuous batching one step and one request at a time, rule by rule as the text has them."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import polars as pl

from planner import core

if TYPE_CHECKING:
    from tests.reference import Simulation

FS_PER_NS = 10**6


def rounded(fs: int) -> int:
    """Femtoseconds to nanoseconds, halves up."""
    return (fs + FS_PER_NS // 2) // FS_PER_NS


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@functools.lru_cache(maxsize=200_000)
def cost_of(deployment: str, load: tuple[int, int, int, int], chunks: tuple[tuple[int, int], ...]) -> dict[str, int]:
    """The lines of a step, in femtoseconds, femtojoules, bytes and operations, exactly as the core rounds them."""
    rows = chunks or ((0, 0),)
    names = ("n_seqs", "context_tokens", "window_tokens", "n_growing_in_window")
    columns = {name: [value] * len(rows) for name, value in zip(names, load, strict=True)}
    columns |= {"chunk_tokens": [c[0] for c in rows], "chunk_past_tokens": [c[1] for c in rows]}
    columns |= {"load_ix": [0] * len(rows)}
    row = core.step_times(json.loads(deployment), pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.UInt64)))
    answer = row.row(0, named=True)
    line = {}
    for name, value in answer.items():
        is_femto = name.endswith(("_s", "_j"))
        assert not is_femto or abs(value) < 4.0, f"{name} of {value} is too large for a double to hold each unit of it"
        line[name] = round(Fraction(value) * 10**15) if is_femto else int(value)
    return line


@dataclass(eq=False)
class Seq:
    """A request, or one sending of it: a retry is another."""

    row: int
    klass: int
    arrival: int
    input: int
    output: int
    in_span: bool
    session: int | None = None
    attempt: int = 0
    fate: int = 2
    replica: Replica | None = None  # where it was sent
    source: Replica | None = None  # the prefill replica that still holds its prompt
    source_blocks: int = 0
    leaving: str | int | None = None  # its client has gone: "again", or its fate
    is_newcomer: bool = False  # was handed over and has no token from here yet
    start: int | None = None
    first: int | None = None  # its first token, in whatever attempt
    times: list[int] = field(default_factory=list)  # when each of its tokens came
    gaps: list[int] = field(default_factory=list)
    kv: int = 0  # tokens held, while decoding
    target: int = 0  # tokens to prefill
    prefilled: int = 0
    computed: int = 0  # prompt tokens that were ever computed
    window_blocks: int = 0
    admission: int = 0


class Replica:
    """One serving copy. `running` is in order of admission; the last is the youngest."""

    def __init__(self, sim: Simulation, number: int, deployment_ix: int) -> None:
        self.sim, self.number, self.deployment_ix = sim, number, deployment_ix
        placed = sim.spec["deployments"][deployment_ix]
        spec = placed["deployment"]
        self.pool = placed["pool_ix"]
        self.deployment = json.dumps(spec)
        self.serving = spec["serving"]
        self.most_of_a_prompt = ceil_div(self.serving["chunk_tokens"], spec["layout"]["dp"])
        self.prompt_chunk = ceil_div(self.serving["chunk_tokens"], spec["layout"]["dp"])
        self.sliding = spec["model"].get("sliding")
        self.plan = sim.plans[deployment_ix]
        self.free = self.plan["kv_blocks"]
        self.role = placed.get("role", "mixed")
        self.waiting: list[Seq] = []
        self.incoming: list[Seq] = []  # handed over, without blocks yet
        self.moving: list[Seq] = []  # with blocks, on their way
        self.ready: list[Seq] = []  # arrived
        self.held: list[Seq] = []  # prefill: handed over, blocks still here
        self.released: list[Seq] = []  # of those, the ones that have arrived elsewhere
        self.leaving: list[Seq] = []
        self.handed: list[Seq] = []  # of this boundary
        self.moved: list[Seq] = []
        self.stirred_ns: int | None = None  # an idle replica has something to look at
        self.running: list[Seq] = []
        self.next_ns: int | None = None  # when the step under way ends
        self.chunks: list[tuple[Seq, int]] = []  # of the step under way, or of the last one
        self.anchor, self.line, self.step = 0, {}, 0  # the step under way is step `step` of `line` from `anchor`
        self.is_changed = True
        self.n_pieces_ended = 0

    def stir(self, now: int) -> None:
        if self.next_ns is None:
            self.stirred_ns = now

    def due(self) -> int | None:
        return self.stirred_ns if self.next_ns is None else self.next_ns

    def n_running(self) -> int:
        return len(self.running) + len(self.moving) + len(self.ready)

    def decoding(self) -> list[Seq]:
        return [s for s in self.running if s.prefilled == s.target]

    def blocks(self, tokens: int) -> int:
        return ceil_div(tokens, self.serving["block_tokens"])

    def blocks_for(self, tokens: int) -> int:
        if not self.sliding:
            return self.blocks(tokens)
        held = min(tokens, self.sliding["window_tokens"])
        per_layer = Fraction(self.sliding["sliding_layers"], self.sliding["full_layers"])
        return self.blocks(tokens) + ceil_div(held * per_layer, self.serving["block_tokens"])

    def window(self, tokens: int) -> int:
        return min(tokens, self.sliding["window_tokens"]) if self.sliding else 0

    def is_growing(self, tokens: int) -> bool:
        return bool(self.sliding) and tokens < self.sliding["window_tokens"]

    def boundary(self, now: int) -> None:
        """A step ends at `now`, or an idle replica finds requests waiting; form the next step."""
        had_chunks = bool(self.chunks)
        self.stirred_ns = None
        self.is_changed = self.next_ns is None or had_chunks
        if self.next_ns is not None:
            self.end_step(now)
        self.let_go()
        self.take_over()
        is_preempted = self.preempt(now)
        if not is_preempted:
            self.let_in()
        self.fill(now, is_preempted)
        if not self.decoding() and not self.chunks:
            self.next_ns = None
            return
        is_piece_over = not self.is_changed and self.step >= self.line["valid_steps"]
        self.n_pieces_ended += is_piece_over
        if self.is_changed or self.chunks or is_piece_over:
            self.anchor, self.step, self.line = now, 0, self.cost(self.chunks)
        self.next_ns = self.end_of(self.step + 1)

    def end_of(self, n: int) -> int:
        total = sum(self.line["time_s"] + self.line["time_slope_s"] * i for i in range(n))
        return self.anchor + rounded(total)

    def cost(self, chunks: list[tuple[Seq, int]]) -> dict[str, int]:
        attended = [s.kv + 1 for s in self.decoding()]
        growing = sum(self.is_growing(tokens) for tokens in attended)
        load = (len(attended), sum(attended), sum(map(self.window, attended)), growing)
        return cost_of(self.deployment, load, tuple((tokens, seq.prefilled) for seq, tokens in chunks))

    def end_step(self, now: int) -> None:
        decoding = self.decoding()
        self.account(decoding, now)
        duration = self.line["time_s"] + self.line["time_slope_s"] * self.step
        self.step += 1
        for seq in decoding:
            if self.is_growing(seq.kv + 1) and not self.is_growing(seq.kv + 2):
                self.is_changed = True
            if seq.kv % self.serving["block_tokens"] == 0:
                self.free -= 1
            seq.kv += 1
            if seq.is_newcomer:
                seq.is_newcomer = False
                self.give_token(seq, now, now - seq.times[-1], (now - seq.times[-1]) * FS_PER_NS)
            else:
                self.give_token(seq, now, rounded(duration), duration)
        for seq, tokens in self.chunks:
            seq.prefilled += tokens
            seq.computed = max(seq.computed, min(seq.prefilled, seq.input))
            if seq.prefilled == seq.target:
                seq.kv = seq.target
                gap = now - seq.times[-1] if seq.times else 0
                self.give_token(seq, now, gap, gap * FS_PER_NS)
        self.chunks = []
        assert self.free >= 0

    def give_token(self, seq: Seq, now: int, gap: int, gap_fs: int) -> None:
        if seq.times:
            seq.gaps.append(gap)
            self.sim.add_value(seq, self.pool, "itl", gap, gap_fs)
        elif seq.first is None:
            seq.first = now
            self.sim.add_value(seq, self.pool, "ttft", now - seq.arrival)
        seq.times.append(now)
        if len(seq.times) == seq.output or (self.role == "prefill" and seq.leaving is not None):
            self.leave(seq, seq.kv)
            if seq.leaving is None:
                self.sim.complete(seq, self, now)
        elif self.role == "prefill":
            self.running.remove(seq)
            seq.source_blocks = self.blocks(seq.target) + seq.window_blocks
            self.held.append(seq)
            self.handed.append(seq)

    def leave(self, seq: Seq, held: int) -> None:
        self.running.remove(seq)
        self.free += self.blocks(held) + seq.window_blocks
        self.is_changed = True

    def withdraw(self, seq: Seq, now: int) -> None:
        """The client of `seq` has gone."""
        for queue in (self.waiting, self.incoming):
            if seq in queue:
                queue.remove(seq)
                self.stir(now)
                self.sim.forget(seq)
                return
        self.leaving.append(seq)
        self.stir(now)

    def let_go(self) -> None:
        for seq in self.leaving:
            if seq in self.running:
                was_decoding = seq.prefilled == seq.target
                is_changed = self.is_changed
                self.leave(seq, seq.kv if was_decoding else seq.target)
                self.is_changed = is_changed or was_decoding
            for held in (self.moving, self.ready):
                if seq in held:
                    held.remove(seq)
                    self.free += self.blocks(seq.target) + seq.window_blocks
            self.sim.forget(seq)
        self.leaving = []

    def take_over(self) -> None:
        for seq in self.released:
            self.held.remove(seq)
            self.free += seq.source_blocks
        for seq in self.ready:
            self.running.append(seq)
            self.running.sort(key=lambda s: s.admission)
            seq.kv, seq.prefilled, seq.is_newcomer = seq.target, seq.target, True
            self.is_changed = True
        self.released, self.ready = [], []

    def let_in(self) -> None:
        while self.incoming and self.n_running() < self.serving["max_batch"]:
            seq = self.incoming[0]
            blocks = self.blocks(seq.target) + seq.window_blocks
            if blocks > self.free - self.reserve():
                return
            self.incoming.pop(0)
            self.free -= blocks
            self.sim.admit(seq)
            self.moving.append(seq)
            self.moved.append(seq)

    def fail(self) -> list[Seq]:
        """All its requests are lost, and the step under way with them."""
        lost = self.running + self.moving + self.ready + self.incoming + self.waiting
        self.__init__(self.sim, self.number, self.deployment_ix)  # type: ignore[misc]
        return lost

    def preempt(self, now: int) -> bool:
        is_preempted = False
        while self.reserve() > self.free:
            seq = self.running[-1]
            self.leave(seq, seq.kv if seq.prefilled == seq.target else seq.target)
            seq.target, seq.prefilled, seq.is_newcomer = seq.input + len(seq.times), 0, False
            self.waiting.insert(0, seq)
            self.sim.add_work(self, now, now + 1, preemptions=1)
            is_preempted = True
        return is_preempted

    def reserve(self) -> int:
        return sum(seq.kv % self.serving["block_tokens"] == 0 for seq in self.decoding())

    def fill(self, now: int, is_preempted: bool) -> None:
        budget = max(self.serving["chunk_tokens"] - len(self.decoding()), 0)
        reserve = self.reserve()
        for seq in self.running:
            if seq.prefilled < seq.target and budget > 0:
                budget = self.add_chunk(seq, budget)
        while not is_preempted and self.waiting and budget > 0 and self.n_running() < self.serving["max_batch"]:
            seq = self.waiting[0]
            blocks = self.blocks(seq.target) + seq.window_blocks
            if blocks > self.free - reserve:
                break
            self.waiting.pop(0)
            self.free -= blocks
            self.sim.admit(seq)
            self.running.append(seq)
            if seq.start is None:
                seq.start = now
                self.sim.add_value(seq, self.pool, "queue", now - seq.arrival)
            budget = self.add_chunk(seq, budget)

    def add_chunk(self, seq: Seq, budget: int) -> int:
        tokens = min(seq.target - seq.prefilled, self.most_of_a_prompt, budget)
        self.chunks.append((seq, tokens))
        return budget - tokens

    def account(self, decoding: list[Seq], end: int) -> None:
        """Count the step that ends now: all of it to where it ends, busy time to where it passes."""
        begin, line = self.end_of(self.step), self.line
        time = line["time_s"] + line["time_slope_s"] * self.step
        energy = line["energy_j"] + line["energy_slope_j"] * self.step
        decode_s, decode_j = time, energy
        if self.chunks:
            alone = self.cost([]) if decoding else {"time_s": 0, "energy_j": 0}
            decode_s, decode_j = min(alone["time_s"], time), min(alone["energy_j"], energy)
        ruling = time - line["network_s"] - line["launch_s"]
        held = sum(s.kv + 1 for s in decoding)
        held += sum(s.target for s in self.running if s.prefilled < s.target)
        held += sum(s.target for s in self.moving + self.ready + self.held)
        fresh = sum(max(min(s.prefilled + n, s.input) - s.computed, 0) for s, n in self.chunks)
        self.sim.add_work(
            self,
            begin,
            end,
            prefill_s=time - decode_s,
            decode_s=decode_s,
            prefill_j=energy - decode_j,
            decode_j=decode_j,
            bytes=line["bytes"] + line["bytes_slope"] * self.step,
            flop=line["flop"] + line["flop_slope"] * self.step,
            memory_s=0 if line["is_compute_bound"] else ruling,
            compute_s=ruling if line["is_compute_bound"] else 0,
            network_s=line["network_s"],
            launch_s=line["launch_s"],
            kv_token_s=held * time,
            steps=1,
            input_tokens=fresh,
            output_tokens=len(decoding) + sum(s.prefilled + n == s.target for s, n in self.chunks),
            recomputed_tokens=sum(n for _, n in self.chunks) - fresh,
        )
