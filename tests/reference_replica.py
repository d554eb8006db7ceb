"""The oracle's replica: continuous batching one step and one request at a time, rule by rule as the text has them."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tests.reference_cache import Blocks, Stretch
from tests.reference_seq import FS_PER_NS, Seq, ceil_div, cost_of, rounded

if TYPE_CHECKING:
    from tests.reference import Simulation

ONE = 2**20
"""A token, in the units of the clock of tokens."""


@dataclass(eq=False)
class Held:
    """What a prefill replica holds of a request that was handed over."""

    seq: Seq
    tokens: int
    own: int
    stretches: list[Stretch]


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
        self.n_stages = spec["layout"]["pp"]
        self.sliding = spec["model"].get("sliding")
        self.plan = sim.plans[deployment_ix]
        self.has_cache = placed.get("prefix_cache", False)
        draft = self.serving.get("speculation") or {"draft_tokens": 0, "acceptance_frac": 0.0}
        self.verified = 1 + draft["draft_tokens"]
        mean = 1.0
        for _ in range(draft["draft_tokens"]):
            mean = 1.0 + draft["acceptance_frac"] * mean
        self.per_step = math.floor(mean * ONE + 0.5)  # tokens that a step gives a sequence
        self.phase = 0  # what the steps so far gave beyond whole tokens
        self.grown = 0  # tokens that each sequence got since the anchor
        self.step_weight = 0  # sum of i x the duration of step i since the anchor
        self.swaps = placed.get("preemption", "recompute") == "swap"
        self.hash_tokens = sim.spec.get("hash_block_tokens", 0)
        block_bytes = self.plan["kv_bytes_per_token"] * self.serving["block_tokens"]
        self.store = Blocks(self.plan["kv_blocks"], int(placed.get("host_kv_bytes", 0) / block_bytes))
        link = placed.get("host_link_bytes_per_s")
        self.host_block_fs = max(math.floor(block_bytes / link * 1e15 + 0.5), 1) if link else 1
        self.watermark = int(placed.get("watermark_frac", 0.0) * self.plan["kv_blocks"])
        self.is_ahead = placed.get("async_scheduling", False)
        self.takes_whole = placed.get("whole_prompts", False)
        self.began: int | None = None  # when the step that just ended began
        self.leaving: list[Seq] = []  # ended with the last step: seen one step later, where steps are formed ahead
        self.stall = 0  # what the next step waits for the host link
        self.role = placed.get("role", "mixed")
        self.waiting: list[Seq] = []
        self.incoming: list[Seq] = []  # handed over, without blocks yet
        self.moving: list[Seq] = []  # with blocks, on their way
        self.ready: list[Seq] = []  # arrived
        self.held: list[Held] = []  # prefill: what is handed over and has not arrived
        self.arrived: list[Held] = []
        self.parting: list[Seq] = []  # whose client has gone
        self.handed: list[Seq] = []  # of this boundary
        self.moved: list[Seq] = []
        self.stirred_ns: int | None = None  # an idle replica has something to look at
        self.running: list[Seq] = []
        self.next_ns: int | None = None  # when the step under way ends
        self.chunks: list[tuple[Seq, int]] = []  # of the step under way, or of the last one
        self.anchor, self.line, self.step = 0, {}, 0  # the step under way is step `step` of `line` from `anchor`
        self.is_changed = True
        self.was_stalled = False
        self.n_pieces_ended = 0
        self.seen: Counter[str] = Counter()  # rare things that came up

    def stir(self, now: int) -> None:
        if self.next_ns is None:
            self.stirred_ns = now

    def due(self) -> int | None:
        return self.stirred_ns if self.next_ns is None else self.next_ns

    def present(self) -> list[Seq]:
        return self.running + self.moving + self.ready

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
        self.stirred_ns = None
        self.is_changed = self.next_ns is None or bool(self.chunks) or self.was_stalled
        if self.next_ns is not None:
            self.began = self.end_of(self.step)
            left, self.leaving = self.leaving, []
            self.end_step(now, left)
        self.let_go()
        self.take_over()
        if not self.running:
            self.began = now  # nothing to be ahead of
            self.let_leave(self.leaving)
        is_preempted = self.preempt(now)
        if not is_preempted:
            self.let_in()
        self.fill(now, is_preempted)
        if not self.decoding() and not self.chunks:
            self.next_ns = None
            return
        is_piece_over = not self.is_changed and self.step >= self.line["valid_steps"]
        self.n_pieces_ended += is_piece_over
        if self.is_changed or self.chunks or is_piece_over or self.stall:
            self.anchor, self.step, self.line = now, 0, self.cost(self.chunks)
            self.grown = self.step_weight = 0
            self.wait()
        self.next_ns = self.end_of(self.step + 1)

    def wait(self) -> None:
        """The step about to begin waits for the host link, drawing what an idle replica draws."""
        self.was_stalled = self.stall > 0
        if self.stall:
            parked_uw = round(self.plan["parked_w"] * 1e6)
            more = {"time_s": self.stall, "network_s": self.stall, "energy_j": self.stall * parked_uw // 10**6}
            self.line = self.line | {name: self.line[name] + value for name, value in more.items()}
        self.stall = 0

    def end_of(self, n: int) -> int:
        total = sum(self.line["time_s"] + self.line["time_slope_s"] * i for i in range(n))
        return self.anchor + rounded(total)

    def cost(self, chunks: list[tuple[Seq, int]]) -> dict[str, int]:
        attended = [s.kv + 1 for s in self.decoding()]
        growing = sum(self.is_growing(tokens) for tokens in attended)
        load = (len(attended), sum(attended), sum(map(self.window, attended)), growing)
        return cost_of(self.deployment, load, tuple((tokens, seq.prefilled) for seq, tokens in chunks))

    def end_step(self, now: int, left: list[Seq]) -> None:
        decoding = self.decoding()
        given = {seq.row: self.given(seq) for seq in decoding}
        self.account(decoding, now)
        duration = self.line["time_s"] + self.line["time_slope_s"] * self.step
        self.step += 1
        self.store.take(self.reserve())
        if decoding:
            self.grown += (self.phase + self.per_step) // ONE
            self.phase = (self.phase + self.per_step) % ONE
        self.let_leave(left)
        for seq in decoding:
            if self.is_growing(seq.kv + 1) and not self.is_growing(seq.kv + 1 + given[seq.row]):
                self.is_changed = True
            seq.kv += given[seq.row]
            if seq.is_resumed:
                gap = now - seq.times[-1]
                self.give_token(seq, now, gap, gap * FS_PER_NS, given[seq.row])
            else:
                self.give_token(seq, now, rounded(duration), duration, given[seq.row])
            seq.is_resumed = False
        for seq, tokens in self.chunks:
            seq.prefilled += tokens
            seq.computed = max(seq.computed, min(seq.prefilled, seq.input))
            if seq.prefilled == seq.target:
                seq.kv = seq.target
                gap = now - seq.times[-1] if seq.times else 0
                self.give_token(seq, now, gap, gap * FS_PER_NS)
        self.chunks = []

    def given(self, seq: Seq) -> int:
        """Tokens that the next step gives a sequence: what the clock says, and no more than it asked for."""
        return min((self.phase + self.per_step) // ONE, seq.output - len(seq.times))

    def restart(self) -> None:
        """Where nobody decodes, the clock of tokens begins anew."""
        if not self.decoding():
            self.phase = 0

    def give_token(self, seq: Seq, now: int, gap: int, gap_fs: int, n: int = 1) -> None:
        """`n` tokens that come together, after one gap."""
        if seq.times:
            seq.gaps.append(gap)
            self.sim.add_value(seq, self.pool, "itl", gap, gap_fs, at=now)
        elif seq.first is None:
            seq.first = now
            self.sim.add_value(seq, self.pool, "ttft", now - seq.arrival + seq.away)
        seq.times += [now] * n
        if len(seq.times) == seq.output or (self.role == "prefill" and seq.leaving is not None):
            self.retire(seq)
            if seq.leaving is None:
                self.sim.complete(seq, self, now)
        elif self.role == "prefill":
            self.running.remove(seq)
            own = self.blocks(seq.target) + seq.window_blocks - seq.shared()
            self.held.append(Held(seq, seq.target, own, seq.held))
            seq.held, seq.own = [], None
            self.handed.append(seq)

    def retire(self, seq: Seq) -> None:
        if not self.is_ahead:
            self.leave(seq, seq.kv, 0)
            return
        self.running.remove(seq)
        self.restart()
        self.leaving.append(seq)
        self.is_changed = True

    def let_leave(self, leaving: list[Seq]) -> None:
        for seq in leaving:
            self.store.give(self.blocks(seq.kv) + seq.window_blocks - seq.shared())
            while seq.held:
                self.store.let_go(seq.held.pop())
        leaving.clear()

    def leave(self, seq: Seq, held: int, left_tokens: int) -> None:
        """Blocks go back from the end of the sequence on; it may find whole ones of `left_tokens` again."""
        self.running.remove(seq)
        self.restart()
        own = self.blocks(held) + seq.window_blocks - seq.shared()
        left = max(left_tokens // self.serving["block_tokens"] - seq.shared(), 0) if self.has_cache else 0
        self.store.give(own - left)
        seq.own, seq.own_after = self.store.give_own(left), len(seq.held)
        while seq.held:
            self.store.let_go(seq.held.pop())
        self.is_changed = True

    def withdraw(self, seq: Seq, now: int) -> None:
        """The client of `seq` has gone."""
        for queue in (self.waiting, self.incoming):
            if seq in queue:
                queue.remove(seq)
                if seq.is_swapped:
                    self.store.host.swapped -= self.blocks(seq.target) + seq.window_blocks
                self.stir(now)
                self.sim.forget(seq)
                return
        self.parting.append(seq)
        self.stir(now)

    def let_go(self) -> None:
        for seq in self.parting:
            if seq in self.running:
                was_decoding = seq.prefilled == seq.target
                is_changed = self.is_changed
                self.leave(seq, seq.kv if was_decoding else seq.target, 0)
                self.is_changed = is_changed or was_decoding
            for there in (self.moving, self.ready):
                if seq in there:
                    there.remove(seq)
                    self.store.give(self.blocks(seq.target) + seq.window_blocks)
            self.sim.forget(seq)
        self.parting = []

    def let_arrive(self, seq: Seq, now: int) -> None:
        """What was handed over of `seq` need not be held any more."""
        self.arrived += [held for held in self.held if held.seq is seq]
        self.held = [held for held in self.held if held.seq is not seq]
        self.stir(now)

    def take_over(self) -> None:
        for held in self.arrived:
            self.store.give(held.own)
            for stretch in reversed(held.stretches):
                self.store.let_go(stretch)
        for seq in self.ready:
            self.running.append(seq)
            self.running.sort(key=lambda s: s.admission)
            seq.kv, seq.prefilled, seq.is_resumed = seq.target, seq.target, True
            self.is_changed = True
        self.arrived, self.ready = [], []

    def let_in(self) -> None:
        while self.incoming:
            seq = self.incoming[0]
            n_running = len(self.present()) + len(self.leaving)
            blocks = self.blocks(seq.target) + seq.window_blocks
            spare = self.watermark if n_running else 0
            if n_running >= self.most(seq):
                return
            if blocks + self.reserve() + spare > self.store.free:
                return
            self.incoming.pop(0)
            self.store.take(blocks)
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
        if self.reserve() > self.store.free:
            self.let_leave(self.leaving)
        while self.reserve() > self.store.free:
            seq = max(self.running, key=self.rank) if self.is_ranked() else self.running[-1]
            is_decoding = seq.prefilled == seq.target
            blocks = self.blocks(seq.kv) + seq.window_blocks
            seq.is_resumed = False
            seq.is_swapped = is_decoding and self.swaps and self.store.host.has_room(blocks)
            if seq.is_swapped:
                self.store.host.swapped += blocks
                self.seen["swapped"] += 1
                self.stall += blocks * self.host_block_fs
                self.leave(seq, seq.kv, 0)
                seq.target = seq.prefilled = seq.kv
            else:
                self.leave(seq, seq.kv if is_decoding else seq.target, seq.kv if is_decoding else seq.prefilled)
                seq.target, seq.prefilled = seq.input + len(seq.times), 0
            self.waiting.insert(0, seq)
            self.sim.add_work(self, now, now + 1, preemptions=1)
            is_preempted = True
        return is_preempted

    def is_ranked(self) -> bool:
        return len({klass.get("priority", 0) for klass in self.sim.spec["classes"]}) > 1

    def rank(self, seq: Seq) -> tuple[int, int, int]:
        return self.sim.spec["classes"][seq.klass].get("priority", 0), seq.arrival, seq.row

    def most(self, candidate: Seq) -> int:
        """How many may run with `candidate`."""
        caps = [self.sim.spec["classes"][seq.klass].get("batch_cap") for seq in [*self.present(), candidate]]
        return min([self.serving["max_batch"], *(cap for cap in caps if cap is not None)])

    def reserve(self) -> int:
        return sum(self.blocks(seq.kv + self.given(seq)) - self.blocks(seq.kv) for seq in self.decoding())

    def fill(self, now: int, is_preempted: bool) -> None:
        budget = max(self.serving["chunk_tokens"] * self.n_stages - len(self.decoding()) * self.verified, 0)
        for seq in self.running:
            if seq.prefilled < seq.target and budget > 0:
                budget = self.add_chunk(seq, budget)
        if self.is_ranked():
            self.waiting.sort(key=self.rank)
        while not is_preempted and self.waiting and budget > 0:
            seq = self.waiting[0]
            n_running = len(self.present()) + len(self.leaving)
            if n_running >= self.most(seq) or (self.is_ahead and seq.sent > (self.began or 0)):
                break
            found = self.find(seq)
            if self.takes_whole and not seq.is_swapped and self.left(seq, found) > min(budget, self.most_of_a_prompt):
                break
            blocks = self.blocks(seq.target) + seq.window_blocks
            needed = blocks - sum(s.blocks for s in found if isinstance(s, Stretch) and s.refs > 0) + self.reserve()
            needed += self.watermark if n_running else 0
            if seq.is_swapped:
                needed += self.blocks(seq.kv + self.given(seq)) - self.blocks(seq.kv)
            if needed > self.store.free:
                break
            self.waiting.pop(0)
            self.take_blocks(seq, blocks, found, now)
            self.sim.admit(seq)
            self.running.append(seq)
            if seq.start is None:
                seq.start = now
                self.sim.add_value(seq, self.pool, "queue", now - seq.arrival)
            if seq.is_swapped:
                self.store.host.swapped -= blocks
                self.stall += blocks * self.host_block_fs
                seq.is_swapped, seq.is_resumed, self.is_changed = False, True, True
                budget -= self.verified
            else:
                budget = self.add_chunk(seq, budget)

    def stretches(self, seq: Seq) -> list[tuple[int, int]]:
        """The hashes of a prompt, each with the whole blocks that its tokens fill."""
        size, block = self.hash_tokens, self.serving["block_tokens"]
        return [(hash_, min(seq.input - at * size, size) // block) for at, hash_ in enumerate(seq.hashes)]

    def find(self, seq: Seq) -> list[Stretch | int]:
        return self.store.find(self.stretches(seq)) if self.has_cache and not seq.is_swapped else []

    def left(self, seq: Seq, found: list[Stretch | int]) -> int:
        """Tokens of a prompt to compute where so much of it is found."""
        sizes = dict(self.stretches(seq))
        own = seq.own.left if seq.own is not None and len(found) == seq.own_after else 0
        blocks = sum(each.blocks if isinstance(each, Stretch) else sizes[each] for each in found) + own
        block = self.serving["block_tokens"]
        return seq.target - min(blocks, (seq.target - 1) // block) * block

    def take_blocks(self, seq: Seq, blocks: int, found: list[Stretch | int], now: int) -> None:
        own = seq.own.left if seq.own is not None and len(found) == seq.own_after and not seq.is_swapped else 0
        if own and seq.own is not None:
            self.store.take_own(seq.own)
            self.seen["own"] += 1
        seq.own = None
        fetched = 0
        sizes = dict(self.stretches(seq))
        for each in found:
            if isinstance(each, Stretch):
                self.store.hold(each)
                seq.held.append(each)
            else:
                fetched += self.store.host.stretches.pop(each)
                self.seen["fetched"] += 1
                seq.held.append(self.store.publish(each, sizes[each]))
        self.store.take(blocks - (seq.shared() - fetched) - own)
        self.stall += fetched * self.host_block_fs
        if not self.has_cache or seq.is_swapped:
            return
        block = self.serving["block_tokens"]
        seq.prefilled = min(seq.shared() + own, (seq.target - 1) // block) * block
        new = max(min(seq.prefilled, seq.input) - seq.computed, 0)
        hit = min(len(found) * self.hash_tokens, seq.input) if seq.start is None else 0
        seq.computed += new
        seq.cached += new
        if hit or new:
            self.sim.add_work(self, now, now + 1, prefix_hit_tokens=hit, cached_input_tokens=new)

    def add_chunk(self, seq: Seq, budget: int) -> int:
        tokens = min(seq.target - seq.prefilled, self.most_of_a_prompt, budget)
        self.chunks.append((seq, tokens))
        self.publish(seq, seq.prefilled + tokens)
        return budget - tokens

    def publish(self, seq: Seq, reached: int) -> None:
        """Stretches of the prompt that are complete when the step is done can be found from now on."""
        for at, (hash_, blocks) in enumerate(self.stretches(seq) if self.has_cache else []):
            if at < len(seq.held):
                continue
            other = self.store.table.get(hash_)
            if min((at + 1) * self.hash_tokens, seq.input) > reached or (other and other.blocks != blocks):
                return
            if other:
                self.store.hold(other)
                self.store.give(blocks)
                self.seen["quicker"] += 1
            seq.held.append(other or self.store.publish(hash_, blocks))

    def account(self, decoding: list[Seq], end: int) -> None:
        """Count the step that ends now: all of it to where it ends, busy time to where it passes."""
        begin, line = self.end_of(self.step), self.line
        time = line["time_s"] + line["time_slope_s"] * self.step
        energy = line["energy_j"] + line["energy_slope_j"] * self.step
        decode_s, decode_j = time, energy
        if self.chunks:
            alone = self.cost([]) if decoding else {"time_s": 0, "energy_j": 0}
            decode_s, decode_j = min(alone["time_s"], time), min(alone["energy_j"], energy)
        power = line["capped_s"] + line["capped_slope_s"] * self.step
        ruling = time - line["network_s"] - line["launch_s"] - power
        held = sum(s.kv + 1 - self.grown for s in decoding)
        held += sum(s.target for s in self.running if s.prefilled < s.target)
        held += sum(s.target for s in self.moving + self.ready)
        held += sum(h.tokens for h in self.held + self.arrived)
        weight = self.step_weight + self.step * time
        each_step = len(decoding) * self.per_step
        grown = each_step * weight // ONE - each_step * self.step_weight // ONE
        self.step_weight = weight
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
            power_s=power,
            kv_token_s=held * time + grown,
            steps=1,
            input_tokens=fresh,
            output_tokens=sum(map(self.given, decoding)) + sum(s.prefilled + n == s.target for s, n in self.chunks),
            recomputed_tokens=sum(n for _, n in self.chunks) - fresh,
        )
