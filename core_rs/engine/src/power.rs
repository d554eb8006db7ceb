//! Electrical draw of a chip in a step: active, plus energy for every byte moved and every operation, up to its sustained
//! maximum. Without a step it is parked.
//!
//! Two load points of the chip's facts fix the two energies. `low_load_w` is decoding at batch 1, which uses a known
//! share of the memory bandwidth (launches take the rest): e_byte = (low - active) / (bytes/s x share). `high_load_w` is
//! decoding at a large batch, which adds arithmetic at a known share of the dense rate: e_flop = (high - low) / (flop/s x
//! share), of each number format apart, so that running any of them at its full rate draws the same.

use crate::chip::Rate;
use crate::deployment::DeploymentSpec;
use crate::error::Result;

/// Joules per unit of work of one chip, and its two bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerModel {
    pub parked_w: f64,
    /// In a step, before any work.
    pub active_w: f64,
    pub max_w: f64,
    /// What the chip is held to.
    pub cap_w: Option<f64>,
    pub j_per_byte: f64,
    pub j_per_flop_experts: f64,
    pub j_per_flop_rest: f64,
    pub j_per_flop_attention: f64,
}

impl PowerModel {
    /// The draw of the chip of `spec` in its precision.
    pub fn new(spec: &DeploymentSpec) -> Result<Self> {
        let chip = &spec.chip;
        let arithmetic_w = chip.high_load_w - chip.low_load_w;
        let per_flop = |rate: Rate, field: &str| -> Result<f64> {
            Ok(arithmetic_w / (chip.flop_per_s_at(rate, field)? * chip.high_load_compute_frac))
        };
        Ok(Self {
            parked_w: chip.parked_w,
            active_w: chip.drawn_in_steps_w(),
            max_w: chip.max_w,
            cap_w: spec.serving.power_cap_w,
            j_per_byte: (chip.low_load_w - chip.drawn_in_steps_w())
                / (chip.memory_bytes_per_s * chip.low_load_memory_frac),
            j_per_flop_experts: per_flop(spec.precision.expert_products(), "precision.experts_rate")?,
            j_per_flop_rest: per_flop(spec.precision.rest_rate, "precision.rest_rate")?,
            j_per_flop_attention: per_flop(spec.precision.attention_rate, "precision.attention_rate")?,
        })
    }

    /// Parked draw of `n_chips` as integer microwatts, which are femtojoules a nanosecond.
    pub fn parked_uw(&self, n_chips: u64) -> u64 {
        (self.parked_w * 1e6).round() as u64 * n_chips
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::llama_on_h100;

    #[test]
    fn load_points_are_met() {
        let spec = llama_on_h100(1);
        let power = PowerModel::new(&spec).unwrap();
        // Memory at 0.4 of 3350e9 bytes/s draws low_load_w; arithmetic at a quarter of 989e12 adds 300 W.
        assert!((power.parked_w + power.j_per_byte * 0.4 * 3350e9 - 300.0).abs() < 1e-9);
        assert!((power.j_per_flop_rest * 0.25 * 989e12 - 300.0).abs() < 1e-9);
        assert_eq!(power.parked_uw(8), 973_600_000);
    }

    #[test]
    fn a_step_draws_more_than_a_parked_chip_before_any_work() {
        let mut spec = llama_on_h100(1);
        spec.chip.active_w = Some(200.0);
        let power = PowerModel::new(&spec).unwrap();
        assert_eq!((power.active_w, power.parked_w), (200.0, spec.chip.parked_w));
        assert!((power.active_w + power.j_per_byte * 0.4 * 3350e9 - 300.0).abs() < 1e-9);
        spec.chip.active_w = Some(spec.chip.parked_w - 1.0);
        assert!(spec.validate().is_err());
    }

    #[test]
    fn a_narrow_operation_takes_less_energy() {
        let mut spec = llama_on_h100(1);
        spec.precision.rest_rate = Rate::Fp8;
        let power = PowerModel::new(&spec).unwrap();
        assert!((power.j_per_flop_attention / power.j_per_flop_rest - 1979.0 / 989.0).abs() < 1e-12);
    }
}
