"""A stand-in for a measured engine: vLLM's scheduling in plain lines, with steps by other formulas than the model's.

Runs of it have what a replay is judged on: queueing at a limit of sequences, steps formed ahead, engines of a mixture
that step together and have caches of their own, arithmetic that is slow for few tokens, experts that are not chosen
evenly, launches that cost more beside prompts, noise and the odd hiccup, a slow first step, two clocks.
"""

from __future__ import annotations

import json
import random
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = 16


@dataclass
class Job:
    at: float
    n_in: int
    n_out: int
    shared: int = 0
    queued: float = -1.0
    scheduled: float = -1.0
    first: float = -1.0
    last: float = -1.0
    computed: int = 0
    given: int = 0


@dataclass
class Machine:
    """Chips and a model by round figures; the rates are what the engine really reaches."""

    layers: int
    hidden: int
    kv_bytes: float
    dense_bytes: float
    dense_active: float
    expert_bytes: float = 0.0
    expert_active: float = 0.0
    chosen_frac: float = 0.0
    tp: int = 1
    engines: int = 1
    bytes_per_s: float = 1.2e12
    kv_bytes_per_s: float = 1.1e12
    flop_per_s: float = 3.1e14
    link_bytes_per_s: float = 2e10
    hop_s: float = 15e-6
    fixed_s: float = 1.5e-3
    prompt_s: float = 1e-3
    few_tokens: float = 90.0
    n_chosen_evenly: float = 0.7

    def step_s(self, loads: list[tuple[int, int, list[tuple[int, int]]]]) -> float:
        """Of every engine (decoding, their context, chunks as past and tokens): the slowest, and what all exchange."""
        every = [n + sum(k for _, k in chunks) for n, _, chunks in loads]
        slowest = max(self.own_s(load, n, sum(every)) for load, n in zip(loads, every, strict=True))
        exchanged = max(every) * self.hidden * 2 / self.link_bytes_per_s
        crossings = 2 * self.layers * (self.tp > 1 or (self.engines > 1 and self.expert_bytes > 0))
        has_prompts = any(chunks for _, _, chunks in loads)
        return self.fixed_s + slowest + crossings * (self.hop_s + exchanged) + (self.prompt_s if has_prompts else 0.0)

    def own_s(self, load: tuple[int, int, list[tuple[int, int]]], n: int, of_all: int) -> float:
        _, context, chunks = load
        read = self.dense_bytes / self.tp / self.bytes_per_s
        worked = 2 * self.dense_active / self.tp * (n + self.few_tokens) / self.flop_per_s if n else 0.0
        pairs = sum(k * (past + k / 2) for past, k in chunks)
        attention = context * self.kv_bytes / self.tp / self.kv_bytes_per_s
        attention += 4 * pairs * self.hidden * self.layers / self.tp / (0.6 * self.flop_per_s)
        experts = 0.0
        if self.expert_bytes:
            touched = 1 - (1 - self.chosen_frac) ** (of_all * self.n_chosen_evenly)
            chips = self.tp * self.engines
            moved = self.expert_bytes * touched / chips / self.bytes_per_s
            experts = (moved**3 + (2 * self.expert_active * of_all / chips / self.flop_per_s * 1.4) ** 3) ** (1 / 3)
        return (read**4 + worked**4) ** 0.25 + attention + experts


@dataclass
class Engine:
    most: int
    budget: int = 2048
    waiting: deque[Job] = field(default_factory=deque)
    running: list[Job] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)
    longest: int = 0

    def form(self, seen: float, now: float) -> list[tuple[Job, int]]:
        plan, left = [], self.budget
        for job in self.running:
            tokens = min(job.n_in + job.given - job.computed, left)
            if tokens > 0:
                plan.append((job, tokens))
                left -= tokens
        while left > 0 and self.waiting and self.waiting[0].at <= seen and len(self.running) < self.most:
            job = self.waiting.popleft()
            job.scheduled = now
            job.computed = min(job.shared, self.longest, job.n_in - 1) // BLOCK * BLOCK
            self.longest = max(self.longest, job.n_in)
            self.running.append(job)
            plan.append((job, min(job.n_in - job.computed, left)))
            left -= plan[-1][1]
        return plan


def run(machine: Machine, jobs: list[Job], *, most: int, seed: int, is_ahead: bool = True, cold_s: float = 0.0) -> None:
    """Serve the jobs, sorted by arrival; engines step together, and form each step while the one before it runs (or, if
    not `is_ahead`, when it is over). The first step takes `cold_s` more.
    """
    dice = random.Random(seed)
    engines = [Engine(most) for _ in range(machine.engines)]
    todo, left, now, before = deque(jobs), len(jobs), 0.0, 0.0
    while left:
        while todo and todo[0].at <= now:
            job = todo.popleft()
            job.queued = now
            min(engines, key=lambda each: 4 * len(each.waiting) + len(each.running)).waiting.append(job)
        plans = [each.form(before if each.running and is_ahead else now, now) for each in engines]
        if not any(plans):
            before = now = todo[0].at if todo else now + 1e-3
            continue
        loads = []
        for plan in plans:
            decoding = [job.computed for job, _ in plan if job.given and job.computed >= job.n_in]
            chunks = [(job.computed, k) for job, k in plan if not (job.given and job.computed >= job.n_in)]
            loads.append((len(decoding), sum(decoding), chunks))
        took = machine.step_s(loads) * dice.uniform(0.97, 1.03) + (0.02 if dice.random() < 0.001 else 0.0)
        took, cold_s = took + cold_s, 0.0
        for each, plan in zip(engines, plans, strict=True):
            if is_ahead:  # who ends with this step is seen a step later
                each.running = [job for job in each.running if job.last < 0]
            for job, tokens in plan:
                if job.last >= 0:
                    continue
                job.computed += tokens
                if job.computed >= job.n_in + job.given:
                    job.given += 1
                    job.first = now + took if job.first < 0 else job.first
                    if job.given == job.n_out:
                        job.last, left = now + took, left - 1
            if not is_ahead:
                each.running = [job for job in each.running if job.last < 0]
        before, now = now, now + took


def jobs(n: int, per_s: float, seed: int) -> list[Job]:
    """Chat-like requests, some of which go on where an earlier one ended."""
    dice, at, found = random.Random(seed), 0.0, []
    for _ in range(n):
        n_in = min(int(dice.lognormvariate(6.5, 0.7)) + 20, 4000)
        shared = int(0.6 * n_in) if dice.random() < 0.1 else 0
        found.append(Job(at, n_in, min(int(dice.lognormvariate(6.2, 0.6)) + 20, 1200), shared))
        at += dice.expovariate(per_s)
    return found


def write(folder: Path, name: str, served: list[Job], options: dict[str, object]) -> tuple[Path, Path]:
    """The two files of a run."""
    table, meta = folder / f"{name}.csv", folder / f"{name}.meta.json"
    columns = "request_id,sent_s,queued_s,scheduled_s,first_token_s,last_token_s,input_tokens,output_tokens"
    lines = [f"{columns},shared_prefix_tokens"]
    begin = served[0].queued
    for at, job in enumerate(served):
        engine = ",".join(f"{t - begin:.6f}" for t in (job.queued, job.scheduled, job.first, job.last))
        times = f"{job.at + 3.5:.6f},{engine}"
        lines.append(f"bench-{at},{times},{job.n_in},{job.n_out},{job.shared}")
    table.write_text("\n".join(lines) + "\n")
    meta.write_text(json.dumps({"schema_version": 1, "vllm_version": "0.19.0", "engine_kwargs": options}))
    return table, meta
