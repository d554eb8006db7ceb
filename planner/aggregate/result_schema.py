"""JSON Schema of `result.json`, made from the glossary, so that both say the same."""

from __future__ import annotations

from typing import Any

from planner.aggregate.cost_parts import ALLOCATIONS
from planner.aggregate.metrics import BOTTLENECKS, METRICS, VERDICTS, Metric
from planner.aggregate.store import SCHEMA

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_WORDS: dict[str, Schema] = {
    "bottleneck": {"enum": list(BOTTLENECKS)},
    "verdict": {"enum": [*VERDICTS, None]},
    "met": {"type": ["boolean", "null"]},
    "allocation": {"enum": list(ALLOCATIONS)},
    "tenants": {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
}
_NOT_MADE = "Racks of which nobody says what making them emitted."
_INTERVAL: dict[str, Schema] = {
    "level_frac": {"type": "number", "description": "How sure the intervals are."},
    "over": {"enum": ["seeds", "batches", None], "description": "What they are taken over; null: there are none."},
    "n": {"type": "integer", "description": "How many seeds or batches."},
    "batch_s": {"type": ["number", "null"], "description": "Length of a batch."},
}
_NO_INTERVAL = (
    "null where there is none: one short run, or what windows do not tell of one run (latency quantiles, peaks)"
)
_WHOLE = frozenset({"requests", "tokens"})
_SETTINGS = ("length_s", "warmup_s", "drain_s", "window_s", "seed", "seeds")
_DEPLOYMENT_WORDS = ("model", "engine", "precision")
_DEPLOYMENT_NUMBERS = (
    *("replicas", "chips", "tp", "dp", "pp", "ep", "max_batch", "chunk_tokens", "kv_capacity_tokens"),
    "tokens_per_step",
)
_FACTOR: Schema = {
    "type": ["number", "null"],
    "description": "The model's own 80 % band of a time, over what it says: docs/explanation/validation.md.",
}
_TRUST: Schema = {
    "grade": _TEXT_OR_NULL | {"description": "How well the times are founded."},
    **{f"{metric}_{end}_factor": _FACTOR for metric in ("tpot", "ttft") for end in ("low", "high")},
}


def result_schema() -> Schema:
    """The schema of the file; `planner run --json` prints the same `inputs`, `warnings` and `result`."""
    notices: Schema = {"type": "array", "items": _object({"code": _TEXT, "message": _TEXT})}
    variant = {"$ref": "#/$defs/variant"}
    several = _object({"variants": {"type": "object", "additionalProperties": variant}})
    body = _object(
        {
            "schema": _TEXT,
            "inputs": _TEXT_OR_NULL,
            "warnings": notices,
            "result": {"anyOf": [variant, several, {"$ref": "#/$defs/planned"}]},
        }
    )
    figures = _figures()
    whole = dict(figures["properties"]) | {
        "notices": notices,
        "checks": _list(_check()) | {"description": "What has to hold besides: capacity kept free, racks out."},
        "headroom": {"anyOf": [{"type": "null"}, _headroom()]},
        "split": {"anyOf": [{"type": "null"}, _split()]},
        "horizon": {"anyOf": [{"type": "null"}, _horizon()]},
        "interval": _object(_INTERVAL),
        "low": {"$ref": "#/$defs/numbers", "description": f"Low ends of the intervals; {_NO_INTERVAL}."},
        "high": {"$ref": "#/$defs/numbers", "description": f"High ends of the intervals; {_NO_INTERVAL}."},
        "uncertainty": {
            "anyOf": [{"type": "null"}, _uncertainty()],
            "description": "Over samples of the uncertain facts, of the first seed; null without run.samples.",
        },
        "seeds": {"type": "array", "items": {"$ref": "#/$defs/figures"}, "description": "Each seed, same shape."},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Result of planner run ({SCHEMA})",
        "description": "Figures are means over the seeds, requests and tokens whole sums; what is missing is null.",
        **body,
        "$defs": {
            "variant": _object(whole),
            "planned": _object(
                whole
                | {
                    "variants": {"type": "object", "additionalProperties": variant},
                    "plan": {"type": "object", "description": "What to buy: see docs/howto/buy.md."},
                }
            ),
            "figures": figures,
            "numbers": {
                "description": "The numbers of a variant, in its shape.",
                "anyOf": [
                    {"type": ["number", "null"]},
                    {"type": "array", "items": {"$ref": "#/$defs/numbers"}},
                    {"type": "object", "additionalProperties": {"$ref": "#/$defs/numbers"}},
                ],
            },
        },
    }


def _figures() -> Schema:
    limits = _object({"metric": _TEXT, "quantile": _TEXT, **_section("classes.*.limits[]")})
    each_class = {"model": _TEXT, "slo": _TEXT_OR_NULL, **_section("classes.*"), "limits": _list(limits)}
    deployment = dict.fromkeys(_DEPLOYMENT_WORDS, _TEXT) | dict.fromkeys(_DEPLOYMENT_NUMBERS, _NUMBER) | _TRUST
    each_pool = {"rack": _TEXT, **_section("pools.*"), "deployments": _list(_object(deployment))}
    left_out = _list(_TEXT) | {"description": "Parts of the cost that nobody named, so that they are not charged."}
    return _object(
        {
            "scenario": _TEXT | {"description": "The variant: base, or its name in the scenario."},
            "title": _TEXT,
            "question": _TEXT_OR_NULL,
            "run": _object(dict.fromkeys(_SETTINGS, _NUMBER)),
            "verdict": {"enum": [*VERDICTS, None], "description": "Of all classes: missed before unknown before met."},
            "requests": _object(_section("requests")),
            "tokens": _object(_section("tokens")),
            "classes": _by_name(_object(each_class)),
            "pools": _by_name(_object(each_pool)),
            "fleet": _object(_section("fleet")),
            "sites": _by_name(_object(_section("sites.*"))),
            "cost": _object(_section("cost") | {"left_out": left_out}),
            "energy": _object(_section("energy")),
            "carbon": _object(_section("carbon") | {"left_out": _list(_TEXT) | {"description": _NOT_MADE}}),
            "evidence": _object(_section("evidence")),
        }
    )


def _uncertainty() -> Schema:
    number: Schema = {"type": ["number", "null"]}
    interval = _object(dict.fromkeys(("value", "low", "median", "high"), number) | {"n": {"type": "integer"}})
    truth: Schema = {"type": "boolean"}
    words: dict[str, Schema] = {"path": _TEXT, "grade": _TEXT, "is_assumed": truth, "is_simulated": truth}
    ends = dict.fromkeys(("low", "high", "figure_low", "figure_high", "swing", "rank_correlation"), number)
    return _object(
        {
            "samples": {"type": "integer"},
            "simulated": {"type": "integer", "description": "Different draws of what the simulator reads."},
            "infeasible": {"type": "integer", "description": "Samples whose chips do not hold the replicas."},
            "met_frac": _NUMBER | {"description": "Share of the samples in which every limit holds."},
            "seed": {"type": "integer"},
            "level_frac": _NUMBER | {"description": "Share of the samples between low and high."},
            "figures": _by_name(interval) | {"description": "By path; value is with every fact as it is."},
            "assumed_frac": _by_name(number) | {"description": "Share of a figure's swings that is assumed."},
            "tornado": _by_name(_list(_object(words | ends))) | {"description": "Widest first; all in swings.parquet."},
        }
    )


def _headroom() -> Schema:
    """How much more load the fleet takes, where `planner headroom -o` found it."""
    number: Schema = {"type": ["number", "null"]}
    breaks = {"anyOf": [{"type": "null"}, {"type": "object"}]}
    edge = {"multiplier": number, "breaks_at": number, "breaks": breaks}
    n1 = _object({"kind": _TEXT, "label": _TEXT, "racks_out": _by_name(_NUMBER), **edge, "reason": _TEXT_OR_NULL})
    ends = {"low": number, "high": number, "level_frac": number}
    counts: dict[str, Schema] = {key: {"type": "integer"} for key in ("seeds", "simulations")}
    return _object({**edge, **ends, **counts, "n1": _list(n1), "n1_worst": {"anyOf": [{"type": "null"}, n1]}})


def _split() -> Schema:
    """How far a run that was cut in time is off at its seams, at one that was simulated whole too."""
    number: Schema = {"type": ["number", "null"]}
    off = {"class": _TEXT, "metric": _TEXT, "quantile": _TEXT_OR_NULL, "cut": number, "whole": number, "frac": number}
    return _object(
        {
            "parts": {"type": "integer"},
            "split_s": _NUMBER,
            "warmup_s": _NUMBER,
            "seam_s": _NUMBER | {"description": "Where the two parts meet that were simulated as one too."},
            "differences": _list(_object(off)) | {"description": "Cut over whole, less one."},
            "step_energy_frac": number,
        }
    )


def _horizon() -> Schema:
    """The hours of `run.horizon`, walked over response surfaces."""
    number: Schema = {"type": ["number", "null"]}
    whole: Schema = {"type": ["integer", "null"]}
    draw = _object({"mean": number, "peak": number})
    each_class = dict.fromkeys(("requests", "hours_met", "hours_missed", "worst_hour"), whole) | dict.fromkeys(
        ("mean_req_per_s", "peak_req_per_s", "attainment_frac", "worst_margin_frac"), number
    )
    each_pool = {"peak_load_frac": number, "mean_load_frac": number, "facility_w": draw}
    figures = ("facility_kwh", "usd", "usd_per_h", "usd_per_mtok_out_whole", "operational_kgco2e")
    beyond = {"pool": _TEXT, "model": _TEXT, "hours": whole, "first_hour": whole}
    off: dict[str, Schema] = {"class": _TEXT, "metric": _TEXT, "quantile": _TEXT, "hours": whole, "worst_hour": whole}
    checked = {
        "days": _list(whole),
        "hours": whole,
        "simulated_s": number,
        "differences": _list(_object(off | {"median_frac": number, "worst_frac": number})),
        "power_median_frac": number,
        "power_worst_frac": number,
        "verdicts_differ": whole,
        "missed": _list(whole),
        "peak": {"type": "object"},
    }
    return _object(
        {
            "hours": whole,
            "hours_beyond": whole | {"description": "Hours with a load beyond the last sample: they have no figures."},
            "peak_hour": whole | {"description": "From the begin of the run, the first being 0."},
            "beyond": _list(_object(beyond)),
            "classes": _by_name(_object(each_class)),
            "pools": _by_name(_object(each_pool)),
            "fleet": _object({"facility_w": draw, **dict.fromkeys(figures, number), "parts": _by_name(number)}),
            "checked": _object(checked) | {"description": "Simulated over what the surfaces say, less one."},
        }
    )


def _check() -> Schema:
    """What has to hold beside the scenario itself, and whether it does."""
    wanted = ("offered", "completed", "attainment_frac", "attainment_limit_frac", "verdict")
    figures = {name: schema for name, schema in _section("classes.*").items() if name in wanted}
    limits = _object({"metric": _TEXT, "quantile": _TEXT, **_section("classes.*.limits[]")})
    each_class = _object({**figures, "attained": _NUMBER, "limits": _list(limits)})
    return _object(
        {
            "kind": {"enum": ["spare", "rack", "site"]},
            "label": _TEXT | {"description": "What is changed, in words."},
            "load_factor": _NUMBER | {"description": "Load over that of the scenario."},
            "racks_out": _by_name(_NUMBER),
            "verdict": {"enum": [*VERDICTS, None]},
            "reason": _TEXT_OR_NULL | {"description": "Why nothing could be simulated."},
            "classes": _by_name(each_class),
        }
    )


def _section(section: str) -> dict[str, Schema]:
    return {metric.name: _metric(metric) for metric in METRICS if metric.section == section}


def _metric(metric: Metric) -> Schema:
    number: Schema = {"type": "integer" if metric.section in _WHOLE else ["number", "null"]}
    schema = _WORDS.get(metric.name) or (_object(dict.fromkeys(metric.keys, number)) if metric.keys else number)
    unit = "" if metric.unit in {"1", "-"} else f" [{metric.unit}]"
    return schema | {"description": f"{metric.formula}{unit}; of: {metric.basis}"}


def _object(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _by_name(items: Schema) -> Schema:
    return {"type": "object", "additionalProperties": items}
