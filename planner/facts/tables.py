"""Tables of facts that are read by key rather than as typed things: finance, prices, failures, power and efficiencies.

Same idea as `schema`: one row says key in the file, attribute in memory, kind and rule. `TABLES` is looked up by the
`schema:` line of a file.
"""

from __future__ import annotations

from planner.facts.schema import Key, Member, Section

_PER_CHIP_H = "Cost of an owned chip-hour, all in."

CHIP_PRICE: tuple[Key | Section, ...] = (
    Key(
        "all_in_power",
        "all_in_w_per_chip",
        "power_per_chip",
        "Provisioned at the meter, host, network and PUE included.",
    ),
    Key("owner_hyperscaler", "owner_hyperscaler_usd_per_chip_h", "usd_per_chip_h", _PER_CHIP_H),
    Key("owner_neocloud", "owner_neocloud_usd_per_chip_h", "usd_per_chip_h", _PER_CHIP_H),
    Key("rental_3y", "rental_3y_usd_per_chip_h", "usd_per_chip_h", "Three-year contract."),
    Key("card_purchase", "card_purchase_usd", "money", "Street price of one chip."),
)
RENTAL = Key(
    "rental_observed", "rental_observed_usd_per_chip_h", "usd_per_chip_h", "Quotes seen, not one market price."
)

TOKEN_PRICE = Key(
    "prices",
    "prices",
    "group",
    "List prices; they include margin and never calibrate cost.",
    members=(
        Member("model", "model", "text"),
        Member("provider", "provider", "text"),
        Member("input", "input_usd_per_mtok", "usd_per_mtok"),
        Member("output", "output_usd_per_mtok", "usd_per_mtok"),
        Member("cached_input", "cached_input_usd_per_mtok", "usd_per_mtok", may_be_null=True),
    ),
)

PUBLISHED = Key(
    "figures",
    "figures",
    "group",
    "Times of a run that others published.",
    members=(
        Member("chip", "chip", "text"),
        Member("model", "model", "text"),
        Member("engine", "engine", "text"),
        Member("precision", "precision", "text"),
        Member("chips", "n_chips", "count"),
        Member("concurrency", "concurrency", "count"),
        Member("isl_mean", "isl_mean_tokens", "tokens"),
        Member("osl_mean", "osl_mean_tokens", "tokens"),
        Member("tpot", "tpot_s", "time"),
        Member("ttft", "ttft_s", "time", may_be_null=True),
    ),
)

CAPEX_PER_WATT: tuple[Key | Section, ...] = tuple(
    Key(name, name, "usd_per_w", "Capital cost of a whole data centre per watt of it.", is_needed=True)
    for name in ("h100", "b200", "gb300", "vera-rubin", "tpu-v7", "trainium3")
)

_LIVES = ("inferencex_basis", "alphabet", "microsoft", "amazon", "meta", "coreweave", "skeptic", "building")
FINANCE: tuple[Key | Section, ...] = (
    Key("life", "life_years", "years", "Years over which racks are written off.", is_needed=True),
    Section(
        "lives_seen",
        "lives_seen_years",
        tuple(Key(n, n, "years", "Life in use elsewhere.") for n in (*_LIVES, "power_cooling_plant")),
        "Lives that others write off over.",
    ),
    Key("discount", "discount_frac", "frac_per_year", "Cost of capital a year.", is_needed=True, rule="share"),
    Key("residual", "residual_frac", "frac", "Of capex, at the end of life.", is_needed=True, rule="share"),
    Key("upkeep", "upkeep_frac", "frac_per_year", "Of capex a year: spares and support.", is_needed=True, rule="share"),
    Key("insurance_tax", "insurance_tax_frac", "frac_per_year", "Of capex a year.", rule="share"),
    Key("staff_loaded", "staff_usd_per_person_year", "usd_per_person_year", "A platform engineer."),
    Key("technician_loaded", "technician_usd_per_person_year", "usd_per_person_year", "A data-centre technician."),
    Key("staff_per_mw", "staff_per_mw", "people_per_mw", "Technicians and facility, of IT power."),
    Key("platform_team_min", "platform_team_min", "count", "People of a fleet, whatever its size."),
    Key("network_share", "network_frac", "frac", "Of IT capex.", rule="share"),
    Key("network_per_chip", "network_usd_per_chip", "usd_per_chip", "Scale-out network.", True, rule="not_negative"),
    Key("network_power_per_chip", "network_w_per_chip", "power_per_chip", "Scale-out network.", rule="not_negative"),
    Key("storage_share", "storage_frac", "frac", "Of IT capex.", is_needed=True, rule="share"),
    Key("energy_share_check", "energy_share_check_frac", "frac", "Of TCO, at most.", rule="share"),
    Key("space", "space_usd_per_kw_month", "usd_per_kw_month", "Colocation without energy."),
    Key("construction", "construction_usd_per_w", "usd_per_w", "Per watt of critical load, without IT and land."),
    Key("electrical_lead_time", "electrical_lead_time_s", "time", "Switchgear, generators, chillers."),
    Key("electricity_default", "electricity_usd_per_kwh", "usd_per_kwh", "Where a scenario is silent.", is_needed=True),
    Key("carbon_price", "carbon_usd_per_tco2e", "usd_per_tco2e", "Set per study.", rule="not_negative"),
    Key("token_price_note", "token_price_note", "text", "What list prices are good for."),
)

GENERAL: tuple[Key | Section, ...] = (
    Key("pue_world_mean", "pue_world_mean", "ratio", "Survey mean.", rule="at_least_one"),
    Key("pue_best_fleet", "pue_best_fleet", "ratio", "The best that is published.", rule="at_least_one"),
    Key("pue_default", "pue_default", "ratio", "Where a scenario is silent.", is_needed=True, rule="at_least_one"),
    Key("pue_partial_load", "pue_partial_load", "ratio", "How PUE rises when load falls.", rule="not_negative"),
    Key(
        "low_load_memory",
        "low_load_memory_frac",
        "frac",
        "Of the memory bandwidth, at a chip's low_load.",
        True,
        rule="share",
    ),
    Key(
        "high_load_compute",
        "high_load_compute_frac",
        "frac",
        "Of the dense rate, at a chip's high_load.",
        True,
        rule="share",
    ),
    Key("accelerator_peak_transient", "accelerator_peak_transient", "ratio", "Peak over steady draw."),
    Key("carbon_factor_kind", "carbon_factor_kind", "text", "Which carbon factors these are."),
    Key("world_carbon", "world_carbon_kgco2e_per_kwh", "carbon_intensity", "Where a scenario is silent.", True),
    Key("hours_per_year", "hours_per_year", "count", "Hours of a year."),
    Key("water", "water_l_per_kwh", "water_per_kwh", "Water use effectiveness.", rule="not_negative"),
)

EFFICIENCY: tuple[Key | Section, ...] = (
    Key("memory_bandwidth_achieved", "memory_bandwidth_achieved_frac", "frac", "Of the data-sheet rate.", rule="share"),
    Key("memory_op_constant", "memory_op_constant_s", "time", "Added to each memory-bound operation."),
    Key("mfu_prefill_h100", "mfu_prefill_h100_frac", "frac", "Prefill, of the dense rate.", rule="share"),
    Key("mfu_decode_h100", "mfu_decode_h100_frac", "frac", "Decoding, of the dense rate.", rule="share"),
    Key("reserved_memory", "reserved_memory_bytes", "bytes", "Kept by the runtime on each chip."),
    Key("collective_buffers", "collective_buffers_bytes", "bytes", "Kept for communication on each chip."),
    Key("sparse_trap", "sparse_trap_flop_per_s", "flop_per_s", "A sparse figure that stood in a dense table."),
)

_FORMAT = (
    Member("bytes_per_param", "bytes_per_param", "ratio"),
    Member("rate", "rate", "text"),
    Member("float_form", "float_form", "text", is_needed=False),
    Member("float_form_nvidia", "float_form_nvidia", "text", is_needed=False),
)
FORMATS: tuple[Key | Section, ...] = tuple(
    Key(name, name, "group", "A number format: bytes stored, and the rate that it computes at.", True, members=_FORMAT)
    for name in ("bf16", "fp8", "mxfp4", "nvfp4", "int4")
)

_EVENTS = "Events of a published run."
_CAUSES = (
    "faulty_gpu",
    "gpu_hbm3",
    "software_bug",
    "network_switch_cable",
    "host_maintenance",
    "gpu_sram",
    "gpu_system_processor",
    "nic",
    "nccl_watchdog",
    "silent_data_corruption",
    "gpu_thermal",
    "ssd",
    "power_supply",
    "server_chassis",
    "io_board",
    "dependency",
    "cpu",
    "system_memory",
)
RELIABILITY: dict[str, tuple[Key | Section, ...]] = {
    "llama3-405b": (
        Key("gpus", "gpus", "count", "Accelerators of the run."),
        Key("duration", "duration_s", "time", "Length of the run."),
        Key("interruptions_total", "interruptions_total", "count", _EVENTS),
        Key("planned", "planned", "count", _EVENTS),
        Key("unexpected", "unexpected", "count", _EVENTS),
        Key("effective_training_time", "effective_training_frac", "frac", "At least.", rule="share"),
        Key("manual_interventions", "manual_interventions", "count", _EVENTS),
        Key(
            "counts",
            "counts",
            "group",
            "Unexpected interruptions by cause.",
            members=tuple(Member(name, name, "count") for name in _CAUSES),
        ),
        Key("unexpected_per_gpu_year", "unexpected_per_chip_year", "per_year", "Per accelerator."),
        Key("gpu_faults_per_gpu_year", "chip_faults_per_chip_year", "per_year", "Per accelerator."),
        Key("mtbf_cluster", "mtbf_cluster_s", "time", "Between interruptions of the whole run."),
        Key("mtbf_per_gpu", "mtbf_per_chip_s", "time", "Between interruptions of one accelerator."),
        Key("network_per_gpu_year", "network_per_chip_year", "per_year", "Switch and cable, per accelerator."),
    ),
    "meta-rsc": (
        Key("rsc1_rate", "rsc1_per_1000_node_days", "ratio", "Failures of a training cluster."),
        Key("rsc2_rate", "rsc2_per_1000_node_days", "ratio", "Failures of a training cluster."),
        Key("mttf_1024_gpu", "mttf_1024_chips_s", "time", "Between failures of a 1,024-chip job."),
    ),
    "crusoe-h200": (
        Key("faults", "faults", "count", _EVENTS),
        Key("cluster", "cluster", "count", "Accelerators of the cluster."),
        Key("per_gpu_year", "per_chip_year", "per_year", "Per accelerator."),
        Key("host_replacement_share", "host_replacement_frac", "frac", "Of the faults.", rule="share"),
        Key("gpu_recoverable_share", "chip_recoverable_frac", "frac", "Of the faults.", rule="share"),
        Key("network_share", "network_frac", "frac", "Of the faults.", rule="share"),
    ),
    "defaults": (
        Key("chip_failure_rate", "chip_failures_per_year", "per_year", "Service-affecting faults of a chip.", True),
        Key("new_silicon_multiplier", "new_silicon_multiplier", "ratio", "First year of a new design.", True),
        Key("tray_repair", "tray_repair_s", "time", "Swap from spares.", True),
        Key("rack_outage_rate", "rack_outages_per_year", "per_year", "Events that take a whole rack.", True),
        Key("rack_repair", "rack_repair_s", "time", "Until a rack is back.", True),
        Key("planned_maintenance", "planned_maintenance_frac", "frac", "Of time.", True, rule="share"),
        Key("nvl72_usable_with_spares", "nvl72_usable_with_spares", "count", "Chips in use of 72.", True),
        Key("availability_target", "availability_target_frac", "frac", "Of chips.", True, rule="share"),
    ),
    "yield": (
        Key("defect_density", "defects_per_cm2", "ratio", "Of a wafer."),
        Key("model", "model", "text", "Formula of die yield."),
        Key("reticle_die_yield", "reticle_die_yield_frac", "frac", "Of reticle-sized dies.", rule="share"),
        Key("packaging_yield", "packaging_yield_frac", "frac", "Of packages.", rule="share"),
    ),
}

HEADLINE_CONDITIONS: tuple[Key | Section, ...] = (
    Key("benchmark", "benchmark", "text", "Framework of the runs."),
    Key("isl_nominal", "isl_nominal_tokens", "tokens", "Prompt, as printed."),
    Key("osl_nominal", "osl_nominal_tokens", "tokens", "Answer, as printed."),
    Key("isl_framework", "isl_framework_tokens", "tokens", "Prompt, upper bound of the framework's scenario."),
    Key("osl_framework", "osl_framework_tokens", "tokens", "Answer, upper bound of the framework's scenario."),
    Key("range_ratio", "range_ratio", "ratio", "Lengths are drawn from ratio x nominal to nominal."),
    Key("isl_mean", "isl_mean_tokens", "tokens", "Mean prompt."),
    Key("osl_mean", "osl_mean_tokens", "tokens", "Mean answer."),
    Key("mixed_tokens", "mixed_tokens", "text", "Which tokens are counted."),
    Key("power_basis", "power_basis", "text", "Whose power."),
    Key("stp_meaning", "stp_meaning", "text", "Speculation in the reference runs."),
    Section(
        "precision",
        "precision",
        tuple(Key(n, n, "text", "Weights as run.") for n in ("gpt-oss-120b", "deepseek-r1", "kimi-k2.5")),
        "Formats by model.",
    ),
)
HEADLINE_POWER: tuple[Key | Section, ...] = tuple(
    Key(name, f"{name}_w", "power", "Rated power of the package, or its sustained maximum.")
    for name in ("jalapeno", "gb200", "gb300", "jalapeno_sustained_max")
)
