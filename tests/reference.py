"""The simulator again, step by step: slow, obvious, integers only. `docs/explanation/simulator.md` is its text.

Only the cost of a step is the core's own (`core.step_times`); everything that happens between steps is done here anew,
one step and one request at a time, without sums in closed form.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from planner import core
from tests.reference_operation import Operation
from tests.reference_replica import Replica
from tests.reference_router import Router
from tests.reference_seq import FS_PER_NS, Seq

METRICS = core.METRICS
TIMES_OUT, IS_CANCELLED, IS_DELIVERED, IS_SENT_AGAIN, IS_SENT = range(4, 9)
"""What is set for one instant happens in this order, after what `Operation` sets."""

Request = tuple[int, int, int, int]
NO_SESSION = 2**64 - 1


class Simulation:
    """A cell: `run()` it, then read `rows`, `counts`, `windows`, `span` and `values`.

    `links` has for each request the row that it follows (or None) and how long after its end it is sent; `sessions`
    whose request it is, `hashes` the hashes of prompts by row.
    """

    def __init__(
        self,
        spec: dict[str, Any],
        requests: list[Request],
        links: list[tuple[int | None, int]] | None = None,
        sessions: list[int] | None = None,
        hashes: dict[int, list[int]] | None = None,
    ) -> None:
        self.spec = spec
        self.warmup, self.length, self.width = spec["warmup_ns"], spec["length_ns"], spec["window_ns"]
        self.plans = [core.plan(placed["deployment"]) for placed in spec["deployments"]]
        owners = [ix for ix, placed in enumerate(spec["deployments"]) for _ in range(placed["n_replicas"])]
        self.replicas = [Replica(self, number, ix) for number, ix in enumerate(owners)]
        self.requests, self.is_chained = requests, links is not None
        self.links = links or [(None, 0)] * len(requests)
        self.heads = list(range(len(requests)))
        for row, (after, _) in enumerate(self.links):
            self.heads[row] = row if after is None else self.heads[after]
        self.hashes = hashes or {}
        self.sessions = sessions or (self.heads if links else None)
        self.coming = [row for row, (after, _) in enumerate(self.links) if after is None]
        self.agenda: list[tuple[int, int, tuple[int, ...], Callable[[int], None]]] = []
        self.rows: dict[int, Seq] = {}  # of each request that was sent, its last sending
        self.live: list[Seq] = []
        self.n_to_send = 0
        self.is_cut: set[int] = set()  # chains of which the run's end cut off the rest
        self.link_free_ns = 0
        self.n_sent = 0
        self.admissions = 0
        self.counts: dict[int, Counter[str]] = {k: Counter() for k in range(len(spec["classes"]))}
        self.class_windows: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        self.windows: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        self.span: dict[int, Counter[str]] = defaultdict(Counter)
        self.values: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self.sums_fs: Counter[tuple[int, int, int]] = Counter()
        self.when: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(
            list
        )  # by class and metric: (time, value)
        self.counted: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)  # by class and what: (time, n)
        self.most_live = 0
        self.router = Router(self)
        self.operation = Operation(self)

    def run(self) -> Simulation:
        deadline, now = self.length + self.spec["drain_ns"], 0
        self.operation.watch(now)
        while True:
            self.agenda.sort(key=lambda event: event[:3])
            dues = [due for r in self.replicas if (due := r.due()) is not None]
            arrivals = [self.requests[row][0] for row in self.coming[:1]]
            first = min(dues + arrivals + [event[0] for event in self.agenda[:1]], default=None)
            is_idle = not (self.coming or self.live or self.n_to_send)
            if first is None or first > deadline or (is_idle and first > self.length):
                break
            now = first
            if self.agenda and self.agenda[0][0] == now:
                self.agenda.pop(0)[3](now)
            elif arrivals == [now]:
                self.send(self.coming.pop(0), now)
            else:
                replica = next(r for r in self.replicas if r.due() == now)
                replica.boundary(now)
                self.hand_over(replica, now)
            self.operation.watch(now)
        for seq in self.live:
            if seq.leaving is None:
                self.count(seq, "unfinished")
        self.operation.finish()
        return self

    def set(self, at: int, rank: int, numbers: tuple[int, ...], what: Callable[[int], None]) -> None:
        self.agenda.append((at, rank, numbers, what))

    def is_up(self, replica: Replica) -> bool:
        return self.operation.reasons[replica.number] == 0

    def admit(self, seq: Seq) -> None:
        self.admissions += 1
        seq.admission = self.admissions

    # Clients

    def send(self, row: int, now: int) -> None:
        _, klass, n_in, n_out = self.requests[row]
        session = self.sessions[row] if self.sessions else None
        session = None if session == NO_SESSION else session
        seq = Seq(row, klass, now, n_in, n_out, self.warmup <= now < self.length, session, target=n_in)
        seq.hashes = self.hashes.get(row, [])
        self.rows[row] = seq
        self.count(seq, "offered", at=now)
        if self.is_chained and self.heads[row] == row and self.is_task(seq):
            self.count(seq, "tasks")
        self.count(seq, "input_tokens", seq.input)
        self.count(seq, "output_tokens", seq.output)
        self.begin(seq)
        self.dispatch(seq, now)

    def begin(self, seq: Seq) -> None:
        self.n_sent += 1
        self.live.append(seq)
        self.most_live = max(self.most_live, sum(other.leaving is None for other in self.live))
        after = self.spec["classes"][seq.klass].get("cancel_after_ns")
        if after is not None:

            def cancel(now: int) -> None:
                if seq.leaving is None and seq in self.live:
                    self.give_up(seq, now, "cancelled")

            self.set(seq.arrival + after, IS_CANCELLED, (seq.row, self.n_sent), cancel)

    def dispatch(self, seq: Seq, now: int) -> None:
        replica = self.router.choose(seq)
        seq.replica, seq.sent = replica, now
        if replica is not None:
            seq.away = self.away(seq.klass, replica)
        if replica is None:
            self.live.remove(seq)
            self.turn_away(seq, now)
            return
        held_at_end = seq.input + (0 if replica.role == "prefill" else seq.output - 1)
        targets = self.spec["deployments"][replica.deployment_ix].get("decode_targets", [])
        decode_tokens = [self.plans[d]["max_sequence_tokens"] for d in targets]
        if held_at_end > replica.plan["max_sequence_tokens"] or seq.input + seq.output - 1 > min(
            decode_tokens, default=10**18
        ):
            self.router.ended(seq, replica)
            self.live.remove(seq)
            self.fail(seq, now, "rejected")
            return
        seq.window_blocks = replica.blocks_for(held_at_end) - replica.blocks(held_at_end)
        timeout = self.spec["classes"][seq.klass].get("timeout_ns")
        if timeout is not None:

            def give_up(now: int) -> None:
                if seq.leaving is not None or seq not in self.live or seq.times:
                    return
                wait = self.wait_ns(seq)
                if wait is None:
                    self.give_up(seq, now, "timed_out")
                else:
                    self.part(seq, now, "again")
                    self.try_again(seq, now, wait, 1)

            self.set(now + timeout, TIMES_OUT, (seq.row, self.n_sent), give_up)
        replica.waiting.append(seq)
        seq.seen = now if replica.next_ns is None else replica.next_ns
        replica.stir(now)

    def away(self, klass: int, replica: Replica) -> int:
        """From the clients of a class to a replica and back."""
        trips: list[int] = self.spec["classes"][klass].get("round_trip_ns", [])
        return trips[replica.pool] if trips else 0

    def give_up(self, seq: Seq, now: int, fate: str) -> None:
        if seq.replica is None:
            self.live.remove(seq)
            self.fail(seq, now, fate)
            return
        seq.fate = core.FATES.index(fate)
        self.count(seq, fate, at=now)
        self.part(seq, now, fate)
        self.break_chain(seq, now)

    def part(self, seq: Seq, now: int, why: str) -> None:
        assert seq.replica is not None
        seq.leaving = why
        self.router.ended(seq, seq.replica)
        seq.replica.withdraw(seq, now)
        self.release_source(seq, now)

    def forget(self, seq: Seq) -> None:
        self.live.remove(seq)

    def turn_away(self, seq: Seq, now: int) -> None:
        wait = self.wait_ns(seq)
        if wait is None:
            self.fail(seq, now, "rejected")
        else:
            self.try_again(seq, now, wait, 1)

    def wait_ns(self, seq: Seq) -> int | None:
        retries = self.spec["classes"][seq.klass].get("retries")
        if retries is None or seq.attempt >= retries["n"]:
            return None
        wait = float(retries["backoff_ns"])
        for _ in range(seq.attempt):
            wait *= retries.get("factor", 1.0)
        return int(wait)

    def try_again(self, old: Seq, now: int, wait: int, attempts: int) -> None:
        seq = Seq(old.row, old.klass, old.arrival, old.input, old.output, old.in_span, old.session, target=old.input)
        seq.attempt = old.attempt + attempts
        seq.start, seq.first, seq.gaps, seq.computed = old.start, old.first, list(old.gaps), old.computed
        seq.hashes, seq.cached = old.hashes, old.cached
        self.rows[seq.row] = seq
        self.begin(seq)
        self.count(seq, "retried", at=now)

        def send(now: int) -> None:
            if seq.leaving is None and seq in self.live:
                self.dispatch(seq, now)

        self.set(now + wait, IS_SENT_AGAIN, (seq.row, self.n_sent), send)

    def fail(self, seq: Seq, now: int, fate: str) -> None:
        seq.fate = core.FATES.index(fate)
        self.count(seq, fate, at=now)
        self.break_chain(seq, now)

    def lose(self, seq: Seq, now: int) -> None:
        self.count(seq, "lost", at=now)
        if self.spec.get("lost_are_rejected", False):
            self.turn_away(seq, now)
        else:
            self.try_again(seq, now, 0, 0)

    # Chains

    def followers(self, row: int) -> list[int]:
        return [other for other, (after, _) in enumerate(self.links) if after == row]

    def follow(self, row: int, now: int) -> None:
        for other in self.followers(row):
            at = now + self.links[other][1]
            if at <= self.length:
                self.n_to_send += 1
                self.set(at, IS_SENT, (other,), lambda t, other=other: self.send_next(other, t))
            else:
                self.cut(self.heads[row])

    def send_next(self, row: int, now: int) -> None:
        self.n_to_send -= 1
        self.send(row, now)

    def break_chain(self, seq: Seq, now: int) -> None:
        if self.spec["classes"][seq.klass].get("chains_go_on", False):
            self.follow(seq.row, now)
            return
        if now > self.length:
            return
        self.cancel_rest(seq, now)

    def is_task(self, first: Seq) -> bool:
        return first.session is not None and not self.spec["classes"][first.klass].get("chains_go_on", False)

    def cut(self, head: int) -> None:
        """The rest of a chain is not sent any more: unless something of it failed, it is no task."""
        mine = [self.rows[row] for row, other in enumerate(self.heads) if other == head and row in self.rows]
        if head in self.is_cut or any(seq.fate in (1, 3, 4) for seq in mine):
            return
        self.is_cut.add(head)
        if self.is_task(self.rows[head]):
            self.count(self.rows[head], "tasks", -1)

    def cancel_rest(self, seq: Seq, now: int) -> None:
        for row in self.followers(seq.row):
            _, klass, n_in, n_out = self.requests[row]
            rest = Seq(row, klass, now, n_in, n_out, self.warmup <= now < self.length)
            self.rows[row] = rest
            rest.fate = core.FATES.index("cancelled")
            self.count(rest, "offered", at=now)
            self.count(rest, "input_tokens", n_in)
            self.count(rest, "output_tokens", n_out)
            self.count(rest, "cancelled", at=now)
            self.cancel_rest(rest, now)

    def note_task(self, seq: Seq, pool: int, now: int) -> None:
        head = self.heads[seq.row]
        mine = [row for row, other in enumerate(self.heads) if other == head]
        is_done = all(row in self.rows and self.rows[row].fate == 0 for row in mine)
        is_task = not self.spec["classes"][seq.klass].get("chains_go_on", False)
        begin = self.rows[head].arrival
        if self.is_chained and seq.session is not None and is_done and is_task and self.warmup <= begin < self.length:
            key = (seq.klass, pool, METRICS.index("task"))
            self.values[key].append(now - begin + seq.away)
            self.when[seq.klass, key[2]].append((begin, now - begin + seq.away))
            self.sums_fs[key] += (now - begin + seq.away) * FS_PER_NS

    # Handing over

    def hand_over(self, replica: Replica, now: int) -> None:
        handed, replica.handed = replica.handed, []
        for seq in handed:
            self.router.ended(seq, replica)
            seq.source = replica
            targets = self.spec["deployments"][replica.deployment_ix]["decode_targets"]
            chosen = self.router.choose_decode(seq, targets)
            if chosen is None:
                self.release_source(seq, now)
                self.live.remove(seq)
                self.lose(seq, now)
                continue
            seq.replica = chosen
            held_at_end = seq.input + seq.output - 1
            seq.window_blocks = chosen.blocks_for(held_at_end) - chosen.blocks(held_at_end)
            chosen.incoming.append(seq)
            chosen.stir(now)
        moved, replica.moved = replica.moved, []
        for seq in moved:
            assert seq.source is not None
            deliver_ns = now
            link = self.spec.get("link")
            if link is not None:
                n_bytes = float(seq.target) * self.plans[seq.source.deployment_ix]["kv_bytes_per_token"]
                takes = int(n_bytes / link["bytes_per_s"] * 1e9 + 0.5)
                self.link_free_ns = max(self.link_free_ns, now) + takes
                deliver_ns = self.link_free_ns + link.get("latency_ns", 0)

            def deliver(t: int, seq: Seq = seq) -> None:
                if seq.leaving is None and seq in self.live:
                    assert seq.replica is not None
                    seq.replica.moving.remove(seq)
                    seq.replica.ready.append(seq)
                    seq.replica.stir(t)
                    self.release_source(seq, t)

            self.set(deliver_ns, IS_DELIVERED, (seq.row, seq.admission), deliver)

    def release_source(self, seq: Seq, now: int) -> None:
        if seq.source is not None:
            seq.source.let_arrive(seq, now)
            seq.source = None

    # Counting

    def complete(self, seq: Seq, replica: Replica, now: int) -> None:
        assert seq.start is not None
        assert seq.first is not None
        seq.fate = 0
        self.router.ended(seq, replica)
        self.forget(seq)
        first, gaps = seq.first, seq.output - 1
        reached = {
            "ttft": Fraction(first - seq.arrival + seq.away),
            "tpot": Fraction(now - first, gaps) if gaps else Fraction(0),
            "itl": Fraction(max(seq.gaps, default=0)),
            "e2e": Fraction(now - seq.arrival + seq.away),
            "queue": Fraction(seq.start - seq.arrival),
        }
        limits = self.spec["classes"][seq.klass]["limits"]
        attained = all(reached[limit["metric"]] <= limit["limit_ns"] for limit in limits)
        self.count(seq, "completed")
        self.count(seq, "attained", int(attained))
        self.count(seq, "single_token", int(gaps == 0))
        self.class_windows[seq.klass, now // self.width].update(completed=1, attained=int(attained))
        self.add_value(seq, replica.pool, "e2e", now - seq.arrival + seq.away)
        if gaps:
            self.add_value(seq, replica.pool, "tpot", (2 * (now - first) + gaps) // (2 * gaps))
        self.note_task(seq, replica.pool, now)
        self.follow(seq.row, now + seq.away)

    def count(self, seq: Seq, what: str, n: int = 1, *, at: int | None = None) -> None:
        if at is not None:
            self.class_windows[seq.klass, at // self.width][what] += n
        self.counts[seq.klass][what] += n
        self.counts[seq.klass]["span_" + what] += n * seq.in_span
        if seq.in_span:
            self.counted[seq.klass, what].append((seq.arrival, n))

    def add_value(
        self, seq: Seq, pool: int, metric: str, ns: int, fs: int | None = None, at: int | None = None
    ) -> None:
        if seq.in_span:
            key = (seq.klass, pool, METRICS.index(metric))
            self.when[seq.klass, key[2]].append((seq.arrival if at is None else at, ns))
            self.values[key].append(ns)
            self.sums_fs[key] += ns * FS_PER_NS if fs is None else fs

    def add_work(self, replica: Replica, begin: int, end: int, **amounts: int) -> None:
        ix = replica.deployment_ix
        self.windows[ix, (end - 1) // self.width].update(amounts)
        if self.warmup < end <= self.length:
            self.span[ix].update(amounts)
        if "steps" not in amounts:
            return
        self.add_time(ix, "busy_ns", begin, end)

    def add_time(self, ix: int, what: str, begin: int, end: int) -> None:
        at = begin
        while at < end:
            edge = min(end, (at // self.width + 1) * self.width)
            self.windows[ix, at // self.width][what] += edge - at
            at = edge
        self.span[ix][what] += max(min(end, self.length) - max(begin, self.warmup), 0)
