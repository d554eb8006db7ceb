"""What the catalogue holds: typed things, and for each the one table file key -> attribute, kind of quantity, rule.

The tables are the schema: readers, messages, `catalog show` and the reference pages use them, nothing else does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.facts.fact import GRADES, Alternative, Fact
from planner.facts.keys import Key, Member, Section, need
from planner.facts.model_schema import MODEL, Model

__all__ = [
    "CHIP",
    "ENGINE",
    "GRADES",
    "MODEL",
    "RACK",
    "SERVING",
    "SITE",
    "Alternative",
    "Chip",
    "Engine",
    "Fact",
    "Key",
    "Member",
    "Model",
    "Rack",
    "ScaleOut",
    "ScaleUp",
    "Section",
    "Serving",
    "Site",
]


# -- chips -------------------------------------------------------------------------------------------------------------

_SCALE_UP = (
    Key("technology", "technology", "text", "Link inside the domain."),
    Key("bandwidth", "bytes_per_s", "bytes_per_s", "Per chip, one direction.", is_needed=True),
    Key("domain", "domain_chips", "count", "Chips that one link domain spans.", is_needed=True),
    Key("latency", "latency_s", "time", "One hop, launch included.", is_needed=True, rule="not_negative"),
    Key("in_network_reduction", "in_network_reduction", "bool", "Switches add up all-reduces."),
)
_SCALE_OUT = (
    Key("nic", "nic_bits_per_s", "bits_per_s", "Network adapter per chip.", is_needed=True),
    Key("bandwidth", "bytes_per_s", "bytes_per_s", "Per chip, one direction.", is_needed=True),
    Key("latency", "latency_s", "time", "Between racks.", is_needed=True, rule="not_negative"),
)
_FLOPS = (
    Key("bf16", "bf16", "flop_per_s", "Dense rate.", is_needed=True),
    Key("fp8", "fp8", "flop_per_s", "Dense rate; null where the chip has none.", is_needed=True, may_be_null=True),
    Key("fp4", "fp4", "flop_per_s", "Dense rate; null where the chip has none.", is_needed=True, may_be_null=True),
    Key("int8", "int8", "flop_per_s", "Dense rate of 8-bit integers.", may_be_null=True),
)
CHIP: tuple[Key | Section, ...] = (
    Key("memory", "memory_bytes", "bytes", "Bytes visible to software, not the label.", is_needed=True),
    Key("memory_label", "memory_nominal", "text", "What the vendor prints."),
    Key("memory_type", "memory_type", "text", "Memory technology."),
    Key("memory_bandwidth", "memory_bytes_per_s", "bytes_per_s", "Data-sheet rate of the memory.", is_needed=True),
    Section("flops_dense", "flop_per_s", _FLOPS, "Dense rates, one per precision; never the sparse figures."),
    Key("tdp", "tdp_w", "power", "Rated power of the package.", is_needed=True),
    Key("sustained_max", "sustained_max_w", "power", "Highest sustained draw; where absent the rated power."),
    Key("idle", "idle_w", "power", "Powered, nothing loaded.", is_needed=True),
    Key("parked", "parked_w", "power", "Model loaded, no requests."),
    Key("active", "active_w", "power", "In a step, before any byte or operation; where absent as parked."),
    Key("low_load", "low_load_w", "power", "Decoding at batch 1."),
    Key("high_load", "high_load_w", "power", "Decoding at a large batch."),
    Key(
        "power_curve",
        "power_curve",
        "group",
        "Draw over the number of running sequences, where it was fitted.",
        members=(
            Member("form", "form", "text"),
            Member("low", "low_w", "power"),
            Member("high", "high_w", "power"),
            Member("k", "k", "ratio"),
            Member("x0", "x0", "ratio"),
        ),
    ),
    Section("scale_up", "scale_up", _SCALE_UP, "The link inside a domain."),
    Section("scale_out", "scale_out", _SCALE_OUT, "The network between domains."),
    Key("pcie", "pcie_bytes_per_s", "bytes_per_s", "To the host, one direction."),
    Key("host_link", "host_link_bytes_per_s", "bytes_per_s", "To the host where it is not PCIe, one direction."),
    Key("on_chip_sram", "on_chip_sram_bytes", "bytes", "Memory on the die."),
    Key("process", "process", "text", "Silicon process and dies."),
    Key("unit_cost", "unit_cost_usd", "money", "Price of one chip."),
    Key("embodied_carbon", "embodied_kgco2e", "mass_co2", "Emitted by making one chip.", rule="not_negative"),
    Key("programming", "programming", "text", "What running a new model takes."),
    Key("rejected_claims", "rejected_claims", "text", "Figures that are not to be used, and why."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    """The link inside a domain of chips; table `_SCALE_UP`."""

    bytes_per_s: Fact
    domain_chips: Fact
    latency_s: Fact
    technology: Fact | None = None
    in_network_reduction: Fact | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleOut:
    """The network between domains; table `_SCALE_OUT`."""

    nic_bits_per_s: Fact
    bytes_per_s: Fact
    latency_s: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One accelerator; table `CHIP`."""

    name: str
    title: str
    vendor: str = ""
    status: str = ""
    engine: str = "generic"
    """Engine facts that hold for it unless a deployment names others."""
    memory_bytes: Fact
    memory_bytes_per_s: Fact
    flop_per_s: Mapping[str, Fact]
    """Keys bf16, fp8, fp4 and where known int8; value None = no such hardware."""
    tdp_w: Fact
    idle_w: Fact
    scale_up: ScaleUp
    scale_out: ScaleOut
    memory_nominal: Fact | None = None
    memory_type: Fact | None = None
    sustained_max_w: Fact | None = None
    parked_w: Fact | None = None
    active_w: Fact | None = None
    low_load_w: Fact | None = None
    high_load_w: Fact | None = None
    power_curve: Fact | None = None
    pcie_bytes_per_s: Fact | None = None
    host_link_bytes_per_s: Fact | None = None
    on_chip_sram_bytes: Fact | None = None
    process: Fact | None = None
    unit_cost_usd: Fact | None = None
    embodied_kgco2e: Fact | None = None
    programming: Fact | None = None
    rejected_claims: Fact | None = None


# -- racks -------------------------------------------------------------------------------------------------------------

RACK: tuple[Key | Section, ...] = (
    Key("chips", "n_chips", "count", "Chips in the rack.", is_needed=True),
    Key("servers", "servers", "count", "Servers in the rack."),
    Key("compute_trays", "compute_trays", "count", "Trays that carry chips."),
    Key("host_cpus", "host_cpus", "count", "Host processors."),
    Key("host_memory_per_tray", "host_memory_per_tray_bytes", "bytes", "Host memory of a compute tray."),
    Key("host_memory_per_server", "host_memory_per_server_bytes", "bytes", "Host memory of a server."),
    Key("nics", "nics", "count", "Network ports.", rule="not_negative"),
    Key("dpus", "dpus", "count", "Data processing units.", rule="not_negative"),
    Key("switch_trays", "switch_trays", "count", "Trays of the scale-up switch.", rule="not_negative"),
    Key("power_shelves", "power_shelves", "count", "Power shelves."),
    Key("server_rated", "server_rated_w", "power", "Rated power of one server."),
    Key("rated", "rated_w", "power", "What a site must provision.", is_needed=True),
    Key("typical", "typical_w", "power", "Sustained inference.", is_needed=True),
    Key("idle", "idle_w", "power", "Powered with no work.", is_needed=True),
    Key("cooling", "cooling", "text", "How heat leaves."),
    Key("liquid_share", "liquid_frac", "frac", "Share of heat that leaves in liquid.", rule="share"),
    Key("server_capex", "server_capex_usd", "money", "Price of one server."),
    Key(
        "capex",
        "capex_usd",
        "usd_per_rack",
        "Price of the rack; without scale-out network, storage, building.",
        is_needed=True,
    ),
    Key("lead_time", "lead_time_s", "time", "From order to delivery.", rule="not_negative"),
    Key("available_from", "available_from", "date", "First delivery."),
    Key("footprint", "footprint", "ratio", "Rack positions that it takes."),
    Key("rack_units_per_server", "rack_units_per_server", "count", "Height of a server."),
    Key("weight", "weight_kg", "mass", "With its servers."),
    Key("embodied_carbon", "embodied_kgco2e", "mass_co2", "Emitted by making the whole rack.", rule="not_negative"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """What is bought, placed and powered as one; table `RACK`."""

    name: str
    title: str
    chip: str
    n_chips: Fact
    rated_w: Fact
    typical_w: Fact
    idle_w: Fact
    capex_usd: Fact
    servers: Fact | None = None
    compute_trays: Fact | None = None
    host_cpus: Fact | None = None
    host_memory_per_tray_bytes: Fact | None = None
    host_memory_per_server_bytes: Fact | None = None
    nics: Fact | None = None
    dpus: Fact | None = None
    switch_trays: Fact | None = None
    power_shelves: Fact | None = None
    server_rated_w: Fact | None = None
    cooling: Fact | None = None
    liquid_frac: Fact | None = None
    server_capex_usd: Fact | None = None
    lead_time_s: Fact | None = None
    available_from: Fact | None = None
    footprint: Fact | None = None
    rack_units_per_server: Fact | None = None
    weight_kg: Fact | None = None
    embodied_kgco2e: Fact | None = None

    @property
    def host_memory_bytes(self) -> Fact | None:
        """Host memory of the whole rack: that of a tray or server times their number."""
        path = f"racks.{self.name}.host_memory_bytes"
        for one, several in (
            (self.host_memory_per_tray_bytes, self.compute_trays),
            (self.host_memory_per_server_bytes, self.servers),
        ):
            if one is not None and several is not None:
                return one.times(several.number, path=path, note=f"{several.number:g} x {one.path.rsplit('.', 1)[-1]}")
        return None


# -- serving software and sites ----------------------------------------------------------------------------------------

ENGINE: tuple[Key | Section, ...] = (
    need("memory_eff", "memory_eff_frac", "frac", "Share of the bandwidth that reading weights reaches.", "share"),
    need("compute_eff", "compute_eff_frac", "frac", "Share of the dense rate that decoding reaches.", "share"),
    need("prefill_eff", "prefill_eff_frac", "frac", "Share of the dense rate that prefill reaches.", "share"),
    need("kv_read_eff", "kv_read_eff_frac", "frac", "Share of the bandwidth that keys and values reach.", "share"),
    need("host", "host_s", "time", "Added once a step.", "not_negative"),
    need("launch_layer", "launch_layer_s", "time", "Added once a layer and step.", "not_negative"),
    need("launch_moe", "launch_moe_s", "time", "More in a mixture layer.", "not_negative"),
    need("launch_mla", "launch_mla_s", "time", "More in a latent-attention layer.", "not_negative"),
    need("launch_sparse", "launch_sparse_s", "time", "More in a layer with an attention indexer.", "not_negative"),
    need("launch_linear", "launch_linear_s", "time", "More in a linear-attention layer.", "not_negative"),
    need("collective_base", "collective_base_s", "time", "Added to every collective.", "not_negative"),
    need(
        "collective_log", "collective_log_s", "time", "A collective's wait per doubling of its chips.", "not_negative"
    ),
    need("collective_scale_out", "collective_scale_out_s", "time", "More when it leaves the domain.", "not_negative"),
    need("link_eff", "link_eff_frac", "frac", "Share of the link bandwidth that collectives reach.", "share"),
    need("expert_skew", "expert_skew", "ratio", "Load of the busiest chip's experts over the mean.", "at_least_one"),
    Key(
        "host_sequence",
        "host_sequence_s",
        "time",
        "Added to a step for each sequence of an attention group.",
        rule="not_negative",
    ),
    Key(
        "prefill_link_eff",
        "prefill_link_eff_frac",
        "frac",
        "The same of prompts, whose messages are large.",
        rule="share",
    ),
    Key(
        "unpack_eff",
        "unpack_eff_frac",
        "frac",
        "Share of the bandwidth efficiency where weights are stored narrower than they are computed.",
        rule="share",
    ),
    Key("launch_fp4", "launch_fp4_frac", "ratio", "Share of launch_moe where experts compute in 4 bits."),
    Key("launch_exchange", "launch_exchange_frac", "ratio", "The same where attention groups exchange tokens."),
    Key("launch_unpack", "launch_unpack_frac", "ratio", "The same where experts' weights are unpacked first."),
    Key(
        "launch_shared",
        "launch_shared_s",
        "time",
        "Added to a step for each mixture layer with shared experts.",
        rule="not_negative",
    ),
    Key(
        "grouped_eff",
        "grouped_eff_frac",
        "frac",
        "Share of prefill_eff that grouped products of routed experts reach.",
        rule="share",
    ),
    Key("routed_passes", "routed_passes", "ratio", "Passes of a prompt's routed copies through memory in a layer."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What serving software reaches of the hardware and what it adds; table `ENGINE`."""

    name: str
    title: str
    memory_eff_frac: Fact
    compute_eff_frac: Fact
    prefill_eff_frac: Fact
    kv_read_eff_frac: Fact
    host_s: Fact
    launch_layer_s: Fact
    launch_moe_s: Fact
    launch_mla_s: Fact
    launch_sparse_s: Fact
    launch_linear_s: Fact
    collective_base_s: Fact
    collective_log_s: Fact
    collective_scale_out_s: Fact
    link_eff_frac: Fact
    expert_skew: Fact
    host_sequence_s: Fact | None = None
    prefill_link_eff_frac: Fact | None = None
    unpack_eff_frac: Fact | None = None
    launch_fp4_frac: Fact | None = None
    launch_exchange_frac: Fact | None = None
    launch_unpack_frac: Fact | None = None
    launch_shared_s: Fact | None = None
    grouped_eff_frac: Fact | None = None
    routed_passes: Fact | None = None


SERVING: tuple[Key | Section, ...] = (
    Key("max_batch", "max_batch", "count", "Sequences that may run at once in a replica.", is_needed=True),
    Key("chunk", "chunk_tokens", "tokens", "Tokens of one step: decodes first, then prompt chunks.", is_needed=True),
    Key("block", "block_tokens", "tokens", "Tokens of one key-value block.", is_needed=True),
    Key(
        "runtime_reserve",
        "runtime_reserve_bytes",
        "bytes",
        "Memory of each chip that the runtime keeps.",
        is_needed=True,
        rule="not_negative",
    ),
    Key(
        "collective_buffer",
        "collective_buffer_bytes",
        "bytes",
        "Communication buffers of each chip of a replica with four chips or more; a lone chip has none.",
        is_needed=True,
        rule="not_negative",
    ),
    Key(
        "collective_buffer_pair",
        "collective_buffer_pair_bytes",
        "bytes",
        "The same for a replica of two chips.",
        is_needed=True,
        rule="not_negative",
    ),
    Key(
        "profiled",
        "profiled_bytes",
        "bytes",
        "Memory of each chip that an engine measures as used beside weights and activations when it sizes its cache.",
        is_needed=True,
        rule="not_negative",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Defaults of a serving engine's limits and reserves; table `SERVING`."""

    name: str
    title: str
    max_batch: Fact
    chunk_tokens: Fact
    block_tokens: Fact
    runtime_reserve_bytes: Fact
    collective_buffer_bytes: Fact
    collective_buffer_pair_bytes: Fact
    profiled_bytes: Fact


SITE: tuple[Key | Section, ...] = (
    Key("electricity_industrial", "electricity_usd_per_kwh", "usd_per_kwh", "Price for large users.", is_needed=True),
    Key("electricity_commercial", "electricity_commercial_usd_per_kwh", "usd_per_kwh", "Price for small users."),
    Key("carbon", "carbon_kgco2e_per_kwh", "carbon_intensity", "Grid average, by location.", True, rule="not_negative"),
    Key("pue", "pue", "ratio", "Facility power over IT power.", is_needed=True, rule="at_least_one"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Electricity price, grid carbon and power usage effectiveness of a place; table `SITE`."""

    name: str
    title: str
    electricity_usd_per_kwh: Fact
    carbon_kgco2e_per_kwh: Fact
    pue: Fact
    electricity_commercial_usd_per_kwh: Fact | None = None
