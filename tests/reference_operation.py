"""The oracle's operation: which replicas serve, and what a failure takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.reference_replica import Replica
from tests.reference_router import FAILURE, exponential
from tests.reference_seq import Seq

if TYPE_CHECKING:
    from tests.reference import Simulation

BEGINS, ENDS, STARTED, SCALE = range(4)


class Operation:
    """Outages known and drawn, maintenance, autoscaling."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.reasons = [0] * len(sim.replicas)
        self.off_since: list[int | None] = [None] * len(sim.replicas)
        self.down_since: list[int | None] = [None] * len(sim.replicas)
        self.n_on: dict[int, int] = {}
        outages: list[
            tuple[list[Replica], bool, int, int | None, int, int]
        ] = []  # who, planned, length, at, mean, stream
        for ix, placed in enumerate(sim.spec["deployments"]):
            mine = [r for r in sim.replicas if r.deployment_ix == ix]
            cold = placed.get("cold_start_ns", 0)
            for is_planned, key in ((False, "outages"), (True, "maintenance")):
                for o in placed.get(key, []):
                    who = mine[o["first"] : o["first"] + o["n_replicas"]]
                    outages.append((who, is_planned, o["length_ns"] + cold, o["at_ns"], 0, 0))
            for f in placed.get("failures", []):
                for group, at in enumerate(range(0, len(mine), f["n_together"])):
                    who = mine[at : at + f["n_together"]]
                    key = f.get("key")
                    stream = len(outages) if key is None else 2**63 + key * 2**32 + group
                    outages.append((who, False, f["repair_ns"] + cold, None, f["mean_ns"], stream))
        for number, (who, is_planned, length, at, mean, stream) in enumerate(outages):
            first = self.drawn(stream, 0, mean) if at is None else at
            self.set_outage((number, stream), first, who, is_planned, length, mean if at is None else None, 0)
        for ix, placed in enumerate(sim.spec["deployments"]):
            if placed.get("autoscale"):
                self.n_on[ix] = placed["autoscale"]["min"]
                for replica in [r for r in sim.replicas if r.deployment_ix == ix][self.n_on[ix] :]:
                    self.rest(replica, 0)
                self.set_scale(ix, placed["autoscale"]["delay_ns"])

    def drawn(self, stream: int, n_before: int, mean: int) -> int:
        return int(exponential(self.sim.spec["seed"], FAILURE, stream, n_before) * float(mean))

    def set_outage(
        self,
        numbers: tuple[int, int],
        at: int,
        who: list[Replica],
        is_planned: bool,
        length: int,
        mean: int | None,
        n: int,
    ) -> None:
        def begin(now: int) -> None:
            for replica in who:
                self.rest(replica, now)
            if not is_planned:
                self.break_down(who, now)
            self.sim.set(now + length, ENDS, numbers[:1], end)

        def end(now: int) -> None:
            for replica in who:
                self.serve(replica, now)
            if mean is not None:
                again = now + self.drawn(numbers[1], n + 1, mean)
                self.set_outage(numbers, again, who, is_planned, length, mean, n + 1)

        self.sim.set(at, BEGINS, numbers[:1], begin)

    def set_scale(self, ix: int, at: int) -> None:
        placed: dict[str, Any] = self.sim.spec["deployments"][ix]
        spec, mine = placed["autoscale"], [r for r in self.sim.replicas if r.deployment_ix == ix]

        def decide(now: int) -> None:
            n, load = self.n_on[ix], sum(len(self.sim.router.outstanding[r.number]) for r in mine) * 10**6
            hold = spec["target_ppm"] * placed["deployment"]["serving"]["max_batch"]
            if load > hold * n:
                if n < spec["max"]:
                    self.n_on[ix] = n + 1
                    started = mine[n]
                    at = now + placed.get("cold_start_ns", 0)
                    self.sim.set(at, STARTED, (started.number,), lambda t: self.serve(started, t))
            elif n > spec["min"] and load < hold * (n - 1):
                self.n_on[ix] = n - 1
                self.rest(mine[n - 1], now)
            self.set_scale(ix, now + spec["delay_ns"])

        self.sim.set(at, SCALE, (ix,), decide)

    def rest(self, replica: Replica, now: int) -> None:
        self.reasons[replica.number] += 1
        if self.reasons[replica.number] == 1:
            self.down_since[replica.number] = now

    def serve(self, replica: Replica, now: int) -> None:
        self.reasons[replica.number] -= 1
        if self.reasons[replica.number] == 0:
            self.count_down(replica, now)

    def count_down(self, replica: Replica, until: int) -> None:
        since = self.down_since[replica.number]
        assert since is not None
        self.down_since[replica.number] = None
        self.sim.add_time(replica.deployment_ix, "down_ns", since, min(until, self.sim.length))

    def watch(self, now: int, *, is_over: bool = False) -> None:
        """After each event: which replicas are down and have no step under way."""
        for replica in self.sim.replicas:
            since, is_off = self.off_since[replica.number], self.reasons[replica.number] > 0 and replica.next_ns is None
            if since is None and is_off:
                self.off_since[replica.number] = now
            elif since is not None and (is_over or not is_off):
                self.off_since[replica.number] = None
                self.sim.add_time(replica.deployment_ix, "off_ns", since, min(now, self.sim.length))

    def finish(self) -> None:
        self.watch(self.sim.length, is_over=True)
        for replica in self.sim.replicas:
            if self.down_since[replica.number] is not None:
                self.count_down(replica, self.sim.length)

    def break_down(self, who: list[Replica], now: int) -> None:
        lost: list[Seq] = [seq for replica in who for seq in replica.fail()]
        orphans = [s for s in self.sim.live if s.source in who and s.replica not in who]
        for seq in self.sim.live:
            if seq.source in who:
                seq.source = None
        for seq in sorted(lost + orphans, key=lambda s: (s.row, s.attempt)):
            if seq.leaving is not None:
                self.sim.forget(seq)
            elif seq.replica in who:
                self.sim.router.ended(seq, seq.replica)
                self.sim.release_source(seq, now)
                self.sim.live.remove(seq)
                self.sim.lose(seq, now)
            else:
                self.sim.part(seq, now, "again")
                self.sim.lose(seq, now)
