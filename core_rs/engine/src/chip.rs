//! What one accelerator can do: its memory, its dense arithmetic rates, its links and its electrical draw.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// One chip, in SI units; every figure is a fact of the catalogue, used as it stands (efficiencies cross beside it).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChipSpec {
    /// Bytes that software sees, not the label.
    pub memory_bytes: f64,
    pub memory_bytes_per_s: f64,
    pub flop_per_s: FlopRates,
    /// Powered, nothing loaded.
    pub idle_w: f64,
    /// A model is loaded and no request runs.
    pub parked_w: f64,
    /// In a step, before any byte or operation: clocks up, kernels resident; null = as parked.
    #[serde(default)]
    pub active_w: Option<f64>,
    /// Decoding at batch 1.
    pub low_load_w: f64,
    /// Decoding at a large batch.
    pub high_load_w: f64,
    /// The sustained maximum where one is published, else the rated power.
    pub max_w: f64,
    /// Share of the memory bandwidth in use at `low_load_w`.
    pub low_load_memory_frac: f64,
    /// Share of the dense rate in use at `high_load_w`, beside the memory.
    pub high_load_compute_frac: f64,
    /// One direction of the links inside a scale-up domain.
    pub scale_up_bytes_per_s: f64,
    pub scale_up_latency_s: f64,
    /// Chips that reach each other over the scale-up links.
    pub domain_chips: u64,
    /// One direction of the links between domains; no layout of this version crosses one.
    pub scale_out_bytes_per_s: f64,
    pub scale_out_latency_s: f64,
}

/// Dense rates by number format; null where the chip has no path for the format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlopRates {
    pub bf16: f64,
    #[serde(default)]
    pub fp8: Option<f64>,
    #[serde(default)]
    pub fp4: Option<f64>,
}

/// The number format that a part of the model computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rate {
    Bf16,
    Fp8,
    Fp4,
}

impl Rate {
    /// Bytes of an element.
    pub fn bytes(self) -> f64 {
        match self {
            Self::Bf16 => 2.0,
            Self::Fp8 => 1.0,
            Self::Fp4 => 0.5,
        }
    }
}

impl ChipSpec {
    /// Checks that every figure is positive and finite and that the draws are in order.
    pub fn validate(&self) -> Result<()> {
        for (field, value) in [
            ("chip.memory_bytes", self.memory_bytes),
            ("chip.memory_bytes_per_s", self.memory_bytes_per_s),
            ("chip.flop_per_s.bf16", self.flop_per_s.bf16),
            ("chip.flop_per_s.fp8", self.flop_per_s.fp8.unwrap_or(1.0)),
            ("chip.flop_per_s.fp4", self.flop_per_s.fp4.unwrap_or(1.0)),
            ("chip.max_w", self.max_w),
            ("chip.scale_up_bytes_per_s", self.scale_up_bytes_per_s),
            ("chip.scale_out_bytes_per_s", self.scale_out_bytes_per_s),
            ("chip.domain_chips", self.domain_chips as f64),
        ] {
            positive(field, value)?;
        }
        for (field, value) in [
            ("chip.idle_w", self.idle_w),
            ("chip.scale_up_latency_s", self.scale_up_latency_s),
            ("chip.scale_out_latency_s", self.scale_out_latency_s),
        ] {
            not_negative(field, value)?;
        }
        fraction("chip.low_load_memory_frac", self.low_load_memory_frac)?;
        fraction("chip.high_load_compute_frac", self.high_load_compute_frac)?;
        let draws = [
            ("idle_w", self.idle_w),
            ("parked_w", self.parked_w),
            ("active_w", self.drawn_in_steps_w()),
            ("low_load_w", self.low_load_w),
            ("high_load_w", self.high_load_w),
        ];
        for pair in draws.windows(2) {
            let [(below, less), (field, more)] = [pair[0], pair[1]];
            if !more.is_finite() || more < less {
                return Err(Error::input(
                    format!("chip.{field}"),
                    format!("{more} W must be at least {below}, {less} W"),
                ));
            }
        }
        Ok(())
    }

    /// What a step draws before any byte or operation.
    pub fn drawn_in_steps_w(&self) -> f64 {
        self.active_w.unwrap_or(self.parked_w)
    }

    /// Dense operations per second in `rate`; an error where the chip has no path for it.
    pub fn flop_per_s_at(&self, rate: Rate, field: &str) -> Result<f64> {
        let (found, name) = match rate {
            Rate::Bf16 => (Some(self.flop_per_s.bf16), "bf16"),
            Rate::Fp8 => (self.flop_per_s.fp8, "fp8"),
            Rate::Fp4 => (self.flop_per_s.fp4, "fp4"),
        };
        found.ok_or_else(|| Error::input(field, format!("the chip has no {name} path; use bf16")))
    }
}

/// An `Input` error unless `value` is above zero and finite.
pub(crate) fn positive(field: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::input(field, format!("must be positive and finite, got {value}")))
}

/// An `Input` error unless `value` is zero or more and finite.
pub(crate) fn not_negative(field: &str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::input(field, format!("must be zero or more and finite, got {value}")))
}

/// An `Input` error unless `value` is in (0, 1].
pub(crate) fn fraction(field: &str, value: f64) -> Result<()> {
    if value > 0.0 && value <= 1.0 {
        return Ok(());
    }
    Err(Error::input(field, format!("must be above 0 and at most 1, got {value}")))
}
