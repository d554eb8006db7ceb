"""The glossary, as data: what every figure of a result is, in which unit, on which basis, and which way is better.

Reports, comparisons, the JSON Schema and the reference page read the figures' meanings here and nowhere else. A metric
lives at `section.name` of `result.json`; `*` stands for the name of a class, pool or part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.aggregate.cost_parts import PARTS
from planner.errors import Fault, ScenarioError, near

Direction = Literal["less", "more", "neither"]
STATISTICS = ("mean", "p50", "p90", "p95", "p99")
DRAWS = ("mean", "peak")
BASES = ("chip_rated", "rack_it", "facility")
"""What an amount of energy is of: packages at rated power, racks, racks times PUE."""
BOTTLENECKS = ("memory", "compute", "network", "launch", "queue", "kv", "power", "none")
VERDICTS = ("met", "missed", "unknown")

KV_RECOMPUTED_FRAC = 0.01
"""Prompt tokens computed again after a preemption, of all computed: from here on the KV cache is the bottleneck."""
KV_FULL_FRAC = 0.9
"""KV occupancy from which waiting is for room in the cache."""
QUEUE_WAIT_FRAC = 0.5
"""Share of the time to the first token that is waiting: above it the queue is the bottleneck ..."""
QUEUE_BUSY_FRAC = 0.5
"""... where replicas are busy at least so much of the time."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the glossary."""

    section: str
    """Where it stands in a result: `classes.*`, `cost`."""
    name: str
    unit: str
    """As it is shown; `1` for a share, `-` for words."""
    basis: str
    """Of what it is a figure."""
    formula: str
    direction: Direction = "neither"
    """Whether less or more of it is better."""
    keys: tuple[str, ...] = ()
    """Statistics or parts below the name: mean, p95, peak."""

    @property
    def path(self) -> str:
        """`classes.*.ttft_s`."""
        return f"{self.section}.{self.name}"


_OFFERED = "requests offered over the whole run, summed over the seeds"
_IN_SPAN = "requests of the class that arrive in [warmup, length)"
_WITH_VALUE = f"{_IN_SPAN} and have a value"
_PLACED = "chips under a replica, over [warmup, length)"
_ALL_CHIPS = "all chips of the fleet, idle ones included"
_WORK = "tokens computed in [warmup, length): prompt tokens at first computation, and output tokens"
_FACILITY = "facility energy: racks x PUE, idle included"
_COST = "cost of the whole fleet, idle capacity included"
_CARBON = "operational and embodied carbon"
_CLASS = "the class: its share of the whole cost, idle capacity included"

METRICS: tuple[Metric, ...] = (
    Metric("requests", "offered", "1", _OFFERED, "completed + rejected + timed_out + cancelled + unfinished"),
    Metric("requests", "completed", "1", _OFFERED, "last token given before the end of the drain", "more"),
    Metric(
        "requests",
        "rejected",
        "1",
        _OFFERED,
        "too large for its replica (input + output - 1 tokens), no replica up, turned away, or lost to a failure",
        "less",
    ),
    Metric("requests", "timed_out", "1", _OFFERED, "given up by the client before the first token", "less"),
    Metric(
        "requests", "cancelled", "1", _OFFERED, "client gone, or the rest of a session whose request failed", "less"
    ),
    Metric("requests", "unfinished", "1", _OFFERED, "still in the system at the end of the drain", "less"),
    Metric("requests", "retried", "1", _OFFERED, "sent again, by clients or after a failure; offered once", "less"),
    Metric("requests", "lost", "1", _OFFERED, "taken by failures of replicas, whatever became of them", "less"),
    Metric("requests", "failed_rows", "1", "rows of the traces", "refused by a reader; counted nowhere else", "less"),
    Metric("tokens", "input", "1", _OFFERED, "prompt tokens, whether computed or not"),
    Metric("tokens", "output", "1", _OFFERED, "output tokens, whether given or not"),
    Metric("classes.*", "ttft_s", "s", _WITH_VALUE, "first token - arrival, queue included", "less", STATISTICS),
    Metric(
        "classes.*", "tpot_s", "s", _WITH_VALUE, "(last - first token) / (output - 1), per request", "less", STATISTICS
    ),
    Metric("classes.*", "itl_s", "s", "gaps of those requests, pooled", "time between two tokens", "less", STATISTICS),
    Metric("classes.*", "e2e_s", "s", _WITH_VALUE, "last token - arrival", "less", STATISTICS),
    Metric("classes.*", "queue_s", "s", _WITH_VALUE, "first step - arrival", "less", STATISTICS),
    Metric(
        "classes.*",
        "task_s",
        "s",
        "sessions and tasks that begin in [warmup, length) and complete",
        "last token of the last request - first arrival",
        "less",
        STATISTICS,
    ),
    Metric(
        "classes.*",
        "tasks",
        "1",
        "sessions and tasks that begin in [warmup, length)",
        "count, mean over the seeds; those of which the run's end cuts off the rest are none",
    ),
    Metric("classes.*", "offered", "1", _IN_SPAN, "count, mean over the seeds"),
    Metric("classes.*", "completed", "1", _IN_SPAN, "count, mean over the seeds", "more"),
    Metric("classes.*", "rate_req_per_s", "req/s", _IN_SPAN, "offered / span"),
    Metric("classes.*", "goodput_req_per_s", "req/s", _IN_SPAN, "attained / span", "more"),
    Metric(
        "classes.*",
        "attainment_frac",
        "1",
        _IN_SPAN,
        "inside the limit of every limited metric's highest quantile / offered; what is not completed is not inside; "
        "limits on task are of several requests and not counted; null without limits",
        "more",
    ),
    Metric("classes.*", "attainment_limit_frac", "1", "the scenario", "the attainment asked for; null if none"),
    Metric(
        "classes.*",
        "verdict",
        "-",
        _IN_SPAN,
        "met: every limit and the attainment hold; missed: one does not; unknown: none offered; null without limits",
    ),
    Metric(
        "classes.*",
        "usd_per_h",
        "USD/h",
        "the class: its share of the whole cost, idle capacity included; the classes sum to the whole",
        "each deployment's cost, prefill and decode shared as cost.allocation says, then by the classes' input and "
        "output tokens there",
        "less",
    ),
    Metric("classes.*", "usd_per_mtok_all", "USD/Mtok", _CLASS, "its cost / its tokens computed in the span", "less"),
    Metric("classes.*", "usd_per_mtok_out_whole", "USD/Mtok", _CLASS, "its cost / its output tokens", "less"),
    Metric("classes.*", "usd_per_request", "USD", _CLASS, "its cost / its requests of the span that completed", "less"),
    Metric(
        "classes.*",
        "usd_per_task",
        "USD",
        _CLASS,
        "its cost / its sessions or tasks of the span that completed; null for a class without",
        "less",
    ),
    Metric("classes.*.limits[]", "limit", "s", "the scenario", "the most that the quantile may be"),
    Metric(
        "classes.*.limits[]",
        "value",
        "s",
        _IN_SPAN,
        "quantile over the offered, one without a value beyond every limit; of itl over all gaps, pooled; of task over "
        "`tasks`",
        "less",
    ),
    Metric("classes.*.limits[]", "margin_frac", "1", "limit and value", "(limit - value) / limit", "more"),
    Metric("classes.*.limits[]", "met", "-", "limit and value", "value <= limit; TPOT of one token is inside"),
    Metric("pools.*", "racks", "1", "the pool", "count"),
    Metric("pools.*", "replicas", "1", "the pool", "serving copies, of all models"),
    Metric("pools.*", "chips", "1", "the pool", "all chips of its racks"),
    Metric("pools.*", "idle_chips", "1", "the pool", "chips under no replica; billed and powered", "less"),
    Metric("pools.*", "busy_frac", "1", _PLACED, "chip time with a step running / chip time"),
    Metric(
        "pools.*",
        "mfu_frac",
        "1",
        _PLACED,
        "operations / (chips x dense data-sheet rate x span), the rate at which the bulk of the weights computes "
        "(routed experts in a mixture)",
        "more",
    ),
    Metric("pools.*", "mbu_frac", "1", _PLACED, "bytes / (chips x data-sheet bandwidth x span)", "more"),
    Metric("pools.*", "kv_frac", "1", _PLACED, "token time in the KV cache / (capacity x span), weighted by chips"),
    Metric("pools.*", "tokens_per_s_in", "tok/s", f"{_WORK}, of the pool", "input tokens / span", "more"),
    Metric("pools.*", "tokens_per_s_out", "tok/s", f"{_WORK}, of the pool", "output tokens / span", "more"),
    Metric(
        "pools.*",
        "down_frac",
        "1",
        _PLACED,
        "chip time of replicas that take no requests: failed, in maintenance, switched off or starting / chip time",
        "less",
    ),
    Metric(
        "pools.*",
        "tokens_per_s_cached",
        "tok/s",
        "prompt tokens of the pool that a prefix cache held, in [warmup, length)",
        "prompt tokens found instead of computed / span; in neither input nor cost",
        "more",
    ),
    Metric(
        "pools.*",
        "tokens_per_s_hit",
        "tok/s",
        "requests of the pool that were admitted in [warmup, length)",
        "prompt tokens in blocks that they found in a cache when first admitted / span",
        "more",
    ),
    Metric(
        "pools.*",
        "cached_frac",
        "1",
        "prompt tokens of the pool in [warmup, length)",
        "found in the cache / (found + computed for the first time)",
        "more",
    ),
    Metric("pools.*", "preemptions", "1", _PLACED, "requests put back for want of KV blocks, in the span", "less"),
    Metric("pools.*", "chip_rated_w", "W", "all chips of the pool", "rated power of the packages"),
    Metric(
        "pools.*",
        "rack_it_w",
        "W",
        "the pool's racks, over [warmup, length)",
        "chips + the rest of the rack, linear in chip draw through the rack's idle and typical figures, at most rated; "
        "peak: highest mean of a window inside the span",
        "less",
        DRAWS,
    ),
    Metric("pools.*", "facility_w", "W", "the pool at the meter", "rack_it x PUE", "less", DRAWS),
    Metric(
        "pools.*", "usd_per_h", "USD/h", "the pool", "its parts; staff and software by chips, demand by peak", "less"
    ),
    Metric(
        "pools.*",
        "bottleneck",
        "-",
        _PLACED,
        f"none: no work; kv: at least {KV_RECOMPUTED_FRAC:.0%} of prompt tokens computed again, or waiting with the "
        f"cache {KV_FULL_FRAC:.0%} full; queue: waiting is over {QUEUE_WAIT_FRAC:.0%} of the time to first token and "
        f"replicas are busy at least {QUEUE_BUSY_FRAC:.0%} of the time; else the largest share of step time: memory, "
        "compute, network, launch or power, the time by which a power cap makes steps longer",
    ),
    Metric("fleet", "racks", "1", "the fleet", "count"),
    Metric("fleet", "chips", "1", "the fleet", "count"),
    Metric("fleet", "idle_chips", "1", "the fleet", "chips under no replica", "less"),
    Metric("fleet", "provisioned_w", "W", "the fleet at the meter", "rated power of the racks x PUE"),
    Metric("fleet", "power_limit_w", "W", "the site at the meter", "the scenario's limit on provisioned power"),
    Metric("fleet", "rack_it_w", "W", "all racks", "sum of the pools; peak: of one and the same window", "less", DRAWS),
    Metric("fleet", "facility_w", "W", "all racks at the meter", "rack_it x PUE", "less", DRAWS),
    Metric("fleet", "tokens_per_s_in", "tok/s", _WORK, "input tokens / span", "more"),
    Metric(
        "fleet",
        "tokens_per_s_cached",
        "tok/s",
        "prompt tokens found in prefix caches in [warmup, length), not computed and in no other figure of tokens",
        "cached input tokens / span",
    ),
    Metric("fleet", "tokens_per_s_out", "tok/s", _WORK, "output tokens / span", "more"),
    Metric("fleet", "tokens_per_s_all", "tok/s", _WORK, "input + output tokens / span", "more"),
    Metric("fleet", "tokens_per_s_per_chip_in", "tok/s/chip", _ALL_CHIPS, "tokens_per_s_in / chips", "more"),
    Metric("fleet", "tokens_per_s_per_chip_out", "tok/s/chip", _ALL_CHIPS, "tokens_per_s_out / chips", "more"),
    Metric("fleet", "tokens_per_s_per_chip_all", "tok/s/chip", _ALL_CHIPS, "tokens_per_s_all / chips", "more"),
    Metric("sites.*", "racks", "1", "the site; `site` where there is one", "count"),
    Metric("sites.*", "provisioned_w", "W", "the site at the meter", "rated power of its racks x highest PUE"),
    Metric("sites.*", "power_limit_w", "W", "the site at the meter", "the scenario's limit on provisioned power"),
    Metric(
        "sites.*", "rack_it_w", "W", "the racks of the site", "sum of its pools; peak: of one window", "less", DRAWS
    ),
    Metric("sites.*", "facility_w", "W", "the site at the meter", "rack_it x PUE", "less", DRAWS),
    Metric("sites.*", "pue", "1", "the site, over the span", "facility energy / IT energy", "less"),
    Metric("sites.*", "it_kwh", "kWh", "the racks of the site, over [warmup, length)", "mean rack_it x span", "less"),
    Metric("sites.*", "facility_kwh", "kWh", "the site at the meter, over [warmup, length)", "it_kwh x PUE", "less"),
    Metric(
        "sites.*",
        "operational_kgco2e",
        "kgCO2e",
        "electricity of the site, over [warmup, length)",
        "facility_kwh x carbon of its grid",
        "less",
    ),
    Metric("sites.*", "energy_usd_per_h", "USD/h", "owned racks of the site", "facility kW x USD/kWh", "less"),
    Metric("sites.*", "usd_per_h", "USD/h", "the site", "sum of its pools", "less"),
    Metric("cost", "usd_per_h", "USD/h", _COST, "sum of the parts", "less"),
    Metric(
        "cost",
        "idle_usd_per_h",
        "USD/h",
        _COST,
        "sum over pools of cost x chip time without a step / chip time",
        "less",
    ),
    Metric("cost", "used_usd_per_h", "USD/h", _COST, "usd_per_h - idle_usd_per_h"),
    Metric("cost", "allocation", "-", _COST, "what joint cost is shared between input and output by"),
    Metric("cost", "tenants", "USD/h", "the classes of each tenant that the scenario names", "sum of its classes'"),
    Metric(
        "cost",
        "annuity_frac",
        "1/yr",
        "a dollar of capex",
        "(1 - residual) x r / (1 - 1/g) + residual x r, g = (1 + r)^life",
    ),
    Metric(
        "cost",
        "usd_per_mtok_in",
        "USD/Mtok",
        f"{_COST}, its prefill share as cost.allocation says / input tokens computed",
        "busy-time: sum over pools of cost x prefill / (prefill + decode) / input tokens, a mixed step being decode "
        "for as long as it would last without its prefill chunks; tokens: cost / all tokens; output: 0",
        "less",
    ),
    Metric(
        "cost",
        "usd_per_mtok_out",
        "USD/Mtok",
        f"{_COST}, its decode share as cost.allocation says / output tokens",
        "busy-time: sum over pools of cost x decode / (prefill + decode) / output tokens; tokens: cost / all tokens; "
        "output: cost / output tokens",
        "less",
    ),
    Metric("cost", "usd_per_mtok_all", "USD/Mtok", f"{_COST} / all tokens computed", "cost / (input + output)", "less"),
    Metric("cost", "usd_per_mtok_out_whole", "USD/Mtok", f"{_COST} / output tokens", "cost / output", "less"),
    Metric("cost", "parts", "USD/h", _COST, "see the table of parts", "less", PARTS),
    Metric("energy", "it_kwh", "kWh", "all racks, over [warmup, length)", "mean rack_it x span", "less"),
    Metric("energy", "facility_kwh", "kWh", "all racks at the meter, over [warmup, length)", "it_kwh x PUE", "less"),
    Metric(
        "energy",
        "kwh",
        "kWh",
        "packages at their rated power, all racks, all racks at the meter: three bases, never mixed",
        "over [warmup, length): rated power x span, it_kwh, facility_kwh",
        "less",
        BASES,
    ),
    Metric(
        "energy",
        "j_per_token_all_on",
        "J/token",
        "each of the three bases / all tokens computed",
        "kwh of the basis x 3.6e6 / (in + out)",
        "less",
        BASES,
    ),
    Metric(
        "energy",
        "j_per_token_out_whole_on",
        "J/token",
        "each of the three bases / output tokens",
        "kwh of the basis x 3.6e6 / output",
        "less",
        BASES,
    ),
    Metric(
        "energy",
        "j_per_token_in",
        "J/token",
        f"{_FACILITY}, its prefill share by step energy / input tokens computed",
        "sum over pools of energy x prefill / (prefill + decode) / input tokens",
        "less",
    ),
    Metric(
        "energy",
        "j_per_token_out",
        "J/token",
        f"{_FACILITY}, its decode share by step energy / output tokens",
        "sum over pools of energy x decode / (prefill + decode) / output tokens",
        "less",
    ),
    Metric("energy", "j_per_token_all", "J/token", f"{_FACILITY} / all tokens computed", "energy / (in + out)", "less"),
    Metric("energy", "j_per_token_out_whole", "J/token", f"{_FACILITY} / output tokens", "energy / output", "less"),
    Metric(
        "carbon",
        "operational_kgco2e",
        "kgCO2e",
        _FACILITY,
        "facility_kwh x grid intensity, by the hour of the day where it differs",
        "less",
    ),
    Metric(
        "carbon",
        "embodied_kgco2e",
        "kgCO2e",
        "making of all racks, owned and rented; racks without a figure are under left_out",
        "sum over racks of what making them emitted / (life x 8760) x hours of the span",
        "less",
    ),
    Metric("carbon", "kgco2e", "kgCO2e", _CARBON, "operational + embodied", "less"),
    Metric(
        "carbon",
        "operational_kgco2e_per_mtok_out_whole",
        "kgCO2e/Mtok",
        "operational carbon / output tokens",
        "operational / output",
        "less",
    ),
    Metric(
        "carbon",
        "kgco2e_per_mtok_all",
        "kgCO2e/Mtok",
        f"{_CARBON} / all tokens computed",
        "kgco2e / (in + out)",
        "less",
    ),
    Metric(
        "carbon", "kgco2e_per_mtok_out_whole", "kgCO2e/Mtok", f"{_CARBON} / output tokens", "kgco2e / output", "less"
    ),
    Metric(
        "evidence",
        "assumed_frac",
        "1",
        "usd_per_h, simulation held",
        "swing of facts graded assumed or undisclosed / swing of all facts, each from its low to its high alone",
        "less",
    ),
)

_BY_PATH = {metric.path: metric for metric in METRICS}


def metric(path: str) -> Metric:
    """The row of a path such as `classes.*.ttft_s`, or of a name: the whole fleet's where a class or pool has it too.

    Raises:
        ScenarioError: there is no such metric.
    """
    found = _BY_PATH.get(path)
    named = (
        [found] if found is not None else sorted((m for m in METRICS if m.name == path), key=lambda m: "*" in m.path)
    )
    if not named:
        names = dict.fromkeys([*(m.name for m in METRICS), *_BY_PATH])
        raise ScenarioError(Fault(f"no metric '{path}'{near(path, names)}"))
    return named[0]


def require_same_basis(one: str, other: str) -> None:
    """Nothing, if two figures may be put in one ratio; they may when they are the same metric.

    Raises:
        ScenarioError: they are not; the message says what each is a figure of.
    """
    a, b = metric(one), metric(other)
    if a.path != b.path:
        what = f"{a.name} ({a.basis}) and {b.name} ({b.basis}) are on different bases"
        raise ScenarioError(Fault(what, f"compare {a.name} with {a.name}"))
