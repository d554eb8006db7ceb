"""The layout of a replica where a scenario leaves it open: the one that makes most tokens inside the limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner import core
from planner.errors import Fault, Infeasible, Notice
from planner.facts.schema import Chip, Engine, Model, Serving
from planner.model.spec import deployment_spec
from planner.model.wish import Choice, Wish

if TYPE_CHECKING:
    import polars as pl

__all__ = ["choose", "is_better"]


def choose(chip: Chip, model: Model, engine: Engine, serving: Serving, wish: Wish) -> Choice:
    """The deployment of one replica of `model` on `wish.n_chips` chips.

    Of all layouts with tp x dp = chips that fit memory, the one with most output tokens per second at the largest batch
    that fits memory and the TPOT limit at the mean lengths; ties go to the smaller tp. If none is inside the limit, or
    no class asks for the model, the one with the shortest decode step at batch 1. Degrees that the wish fixes are kept.
    Pipeline stages, of which no measured point has any, are tried only where the wish names them or none fits without.

    In a steady stream each step of B sequences also carries the prompts that replace those that end: B / output of
    them. So the time between tokens is the decode step, plus that many times what a prompt adds to a step. Without the
    prompts the choice would fall on layouts that copy the dense weights and serve a lone prompt on one chip.

    Raises:
        Infeasible: no layout with that many chips can be laid out or fits memory.
        FactError: a fact that is needed has no value, or a format is unknown.
    """
    faults: list[Fault] = []
    best: Choice | None = None
    for tp, dp, pp in _layouts(wish):
        if best is not None and pp > best.pp and wish.pp is None:
            break
        spec, words, notices = deployment_spec(
            chip,
            model,
            engine=engine,
            serving=serving,
            tp=tp,
            dp=dp,
            pp=pp,
            ep=wish.ep,
            precision=wish.precision,
            kv_dtype=wish.kv_dtype,
            max_batch=wish.max_batch,
            chunk_tokens=wish.chunk_tokens,
            speculation=wish.speculation,
            stack_factor=wish.stack_factor,
        )
        try:
            plan = core.plan(spec)
        except Infeasible as error:
            faults += error.faults if pp == (wish.pp or 1) else ()
            continue
        choice = at_best(spec, plan, words, notices, wish)
        if best is None or is_better(choice, best):
            best = choice
    if best is None:
        raise Infeasible(*(_about(model, chip, wish, fault) for fault in _telling(faults)))
    return best


def _layouts(wish: Wish) -> list[tuple[int, int, int]]:
    """Degrees (tp, dp, pp) whose product is the chips, fewer stages and then smaller tp first, those asked for kept."""
    chips = wish.n_chips
    divisors = [n for n in range(1, chips + 1) if chips % n == 0]
    found = [(tp, chips // pp // tp, pp) for pp in divisors for tp in divisors if chips // pp % tp == 0]
    wanted = (wish.tp, wish.dp, wish.pp)
    found = [layout for layout in found if all(want in {None, n} for want, n in zip(wanted, layout, strict=True))]
    if not found:
        asked = " x ".join(f"{name} {n}" for name, n in zip(("tp", "dp", "pp"), wanted, strict=True) if n)
        way_out = "set chips to tp x dp x pp, or leave a degree out"
        raise Infeasible(Fault(f"{asked} does not make {chips} chips", way_out))
    return found


def at_best(spec: dict[str, Any], plan: dict[str, Any], words: str, notices: tuple[Notice, ...], wish: Wish) -> Choice:
    """The layout at its largest batch inside memory and limit: all batches are costed in one call."""
    prompt, output = max(1.0, wish.mean_input_tokens or 0.0), max(1.0, wish.mean_output_tokens or 0.0)
    is_asked_for = wish.mean_input_tokens is not None and wish.mean_output_tokens is not None
    most = _largest_batch(spec, plan, prompt + output) if is_asked_for else 0
    batches = _batches(spec, max(1, most), prompt, output)
    times = core.step_times(spec, batches.loads)["time_s"].to_list()
    decode, mixed = times[0::2], times[1::2]
    per_step = plan["tokens_per_step"]
    tpot = [
        alone / per_step + n_seqs / output * (both - alone) / n_prompts
        for n_seqs, (alone, both, n_prompts) in enumerate(zip(decode, mixed, batches.n_prompts, strict=True), start=1)
    ]
    limit = wish.tpot_limit_s
    inside = max((n for n in range(1, most + 1) if limit is None or tpot[n - 1] <= limit), default=0)
    return Choice(
        tp=plan["tp"],
        dp=plan["dp"],
        pp=plan["pp"],
        ep=plan["ep"],
        precision=words,
        spec=spec,
        plan=plan,
        notices=notices,
        n_seqs=max(1, inside),
        tpot_s=tpot[inside - 1] if inside else decode[0] / per_step,
        is_inside=inside > 0,
    )


def _largest_batch(spec: Mapping[str, Any], plan: Mapping[str, Any], tokens: float) -> int:
    """How many sequences of `tokens` run at once; a window counts in tokens of the full layers, as blocks do."""
    sliding = spec["model"].get("sliding")
    if sliding:
        tokens += min(tokens, sliding["window_tokens"]) * sliding["sliding_layers"] / sliding["full_layers"]
    return min(int(spec["serving"]["max_batch"]), int(plan["kv_capacity_tokens"] / tokens))


@dataclass(frozen=True, slots=True)
class _Batches:
    """Two loads for each batch of 1..n sequences: decoding alone, and with `n_prompts` prompts beside it."""

    loads: pl.DataFrame
    n_prompts: list[int]


def _batches(spec: Mapping[str, Any], n_most: int, prompt: float, output: float) -> _Batches:
    """Batches at the mean context; the prompts are as many as come in a step, and as fit its token budget."""
    import polars as pl

    sliding = spec["model"].get("sliding")
    window = int(sliding["window_tokens"]) if sliding else 0
    context, chunk = round(prompt + output / 2), round(prompt)
    fitting = max(1, int(spec["serving"]["chunk_tokens"]) * spec["layout"]["pp"] // chunk)
    n_prompts = [min(max(1, round(n_seqs / output)), fitting) for n_seqs in range(1, n_most + 1)]
    n_seqs = pl.int_range(1, n_most + 1, dtype=pl.UInt64, eager=True)
    alone = pl.DataFrame({"load_ix": n_seqs * 2, "n_seqs": n_seqs, "chunk_tokens": n_seqs * 0})
    mixed = (
        alone.select(pl.col("load_ix") + 1, "n_seqs", pl.lit(chunk, pl.UInt64).alias("chunk_tokens"))
        .with_columns(pl.Series("n_prompts", n_prompts))
        .select(pl.all().exclude("n_prompts").repeat_by("n_prompts"))
        .explode(["load_ix", "n_seqs", "chunk_tokens"])
    )
    loads = pl.concat([alone, mixed]).sort("load_ix", maintain_order=True)
    return _Batches(
        loads.with_columns(
            (pl.col("n_seqs") * context).alias("context_tokens"),
            (pl.col("n_seqs") * min(context, window)).alias("window_tokens"),
            pl.lit(0, pl.UInt64).alias("n_growing_in_window"),
            pl.lit(0, pl.UInt64).alias("chunk_past_tokens"),
        ),
        n_prompts,
    )


def is_better(choice: Choice, best: Choice) -> bool:
    """Whether a choice makes more than the best so far inside the limit, or is faster where none is inside."""
    if choice.is_inside != best.is_inside:
        return choice.is_inside
    if choice.is_inside:
        return choice.tokens_per_s > best.tokens_per_s
    return choice.tpot_s < best.tpot_s


def _telling(faults: list[Fault]) -> list[Fault]:
    """The fault of memory, of the widest tensor-parallel layout, which came closest; else one fault of each part."""
    by_part = {fault.what.split(":")[0]: fault for fault in faults}
    of_memory = [fault for fault in by_part.values() if " do not fit on a chip" in fault.what]
    return of_memory[-1:] or list(by_part.values())


def _about(model: Model, chip: Chip, wish: Wish, fault: Fault) -> Fault:
    return Fault(f"{model.name} on {wish.n_chips} {chip.name}: {fault.what}", fault.way_out)
