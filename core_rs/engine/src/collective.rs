//! What a step spends on its collectives: latency once each, and bytes past each chip.
//!
//! Per layer, over the tensor-parallel group: one all-reduce after attention and one after the feed-forward part. A
//! mixture layer whose tokens live in several attention groups has, instead of the second, a dispatch and a combine
//! over all chips of the replica; with one group every chip holds every token already, and the second all-reduce sums
//! the experts. Bytes are the ring bounds: an all-reduce moves 2 (n-1)/n of the tokens past each chip, an all-to-all
//! (n-1)/n of the routed copies, of which a token has at most one a chip. One chip has no collective.
//!
//! Between pipeline stages each chip sends its share of the hidden state to one chip of the next stage, where the
//! tensor-parallel group gathers it; the sampled tokens go back to the first stage.

use crate::deployment::DeploymentSpec;

/// Bytes of one element that crosses a link: activations in 16 bits.
const ELEMENT_BYTES: f64 = 2.0;

/// Seconds a step: fixed, and for each token of the busiest attention group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NetworkCost {
    pub latency_s: f64,
    pub token_s: f64,
    /// For each prompt token of the busiest group.
    pub prompt_token_s: f64,
}

impl NetworkCost {
    /// The collectives of one step of `spec`.
    pub fn new(spec: &DeploymentSpec) -> Self {
        let (layout, n_layers) = (&spec.layout, spec.model.n_layers as f64);
        let (n, tp) = (layout.stage_chips(), layout.tp);
        let token_bytes = spec.model.hidden as f64 * ELEMENT_BYTES;
        let mut cost = Self::default();
        let exchanging = match &spec.model.moe {
            Some(moe) if layout.dp > 1 => {
                // Each chip of a group sends its share of the group's tokens, a copy to each of the experts' chips.
                let copies = moe.top_k.min(n) as f64 / tp as f64;
                cost.add(spec, 2.0 * moe.moe_layers as f64, n, copies * passed_on(n) * token_bytes);
                moe.moe_layers as f64
            }
            _ => 0.0,
        };
        cost.add(spec, 2.0 * n_layers - exchanging, tp, 2.0 * passed_on(tp) * token_bytes);
        cost
    }

    /// The same collectives in `factor` times the seconds.
    pub fn slowed(mut self, factor: f64) -> Self {
        for seconds in [&mut self.latency_s, &mut self.token_s, &mut self.prompt_token_s] {
            *seconds *= factor;
        }
        self
    }

    /// What a micro-batch spends between the stages of `spec`.
    pub fn between_stages(spec: &DeploymentSpec) -> Self {
        let (layout, chip) = (&spec.layout, &spec.chip);
        let token_bytes = spec.model.hidden as f64 * ELEMENT_BYTES;
        let (inside, across) = layout.hand_overs(chip.domain_chips);
        let mut cost = Self::default();
        cost.pass(spec, inside as f64, 2, true, token_bytes / layout.tp as f64);
        cost.pass(spec, across as f64, 2, false, token_bytes / layout.tp as f64);
        cost.add(spec, (inside + across) as f64, layout.tp, passed_on(layout.tp) * token_bytes);
        cost.pass(spec, 1.0, 2, across == 0, 0.0);
        cost
    }

    /// `times` collectives over `n` chips, each moving `bytes` a token past a chip.
    fn add(&mut self, spec: &DeploymentSpec, times: f64, n: u64, bytes: f64) {
        if n > 1 {
            self.pass(spec, times, n, n <= spec.chip.domain_chips, bytes);
        }
    }

    fn pass(&mut self, spec: &DeploymentSpec, times: f64, n: u64, inside: bool, bytes: f64) {
        let (engine, chip) = (&spec.engine, &spec.chip);
        // The software's rounds, but never less than the link's own latency.
        let (wait_s, link) = if inside {
            (chip.scale_up_latency_s, chip.scale_up_bytes_per_s)
        } else {
            (chip.scale_out_latency_s, chip.scale_out_bytes_per_s)
        };
        let out_s = if inside { 0.0 } else { engine.collective_scale_out_s };
        let wait_s = wait_s.max(engine.collective_log_s * libm::log2(n as f64));
        self.latency_s += times * (engine.collective_base_s + wait_s + out_s);
        self.token_s += times * bytes / (link * engine.link_eff_frac);
        let prompt_eff = engine.prefill_link_eff_frac.unwrap_or(engine.link_eff_frac);
        self.prompt_token_s += times * bytes / (link * prompt_eff);
    }
}

/// The share of a ring's data that each of `n` chips passes on.
fn passed_on(n: u64) -> f64 {
    (n - 1) as f64 / n as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{deepseek_on_gb300, llama_on_h100};

    #[test]
    fn one_chip_has_none() {
        assert_eq!(NetworkCost::new(&llama_on_h100(1)), NetworkCost::default());
    }

    #[test]
    fn two_all_reduces_a_layer() {
        // 32 layers x 2, each 1e-6 + max(5e-6, 4e-6 x log2 8 = 12e-6) = 13e-6; bytes 2 x 7/8 x 4096 x 2 = 14,336 a token
        // over 450e9 x 0.25 = 112.5e9 bytes/s.
        let cost = NetworkCost::new(&llama_on_h100(8));
        assert!((cost.latency_s - 64.0 * 13e-6).abs() < 1e-15);
        assert!((cost.token_s - 64.0 * 14_336.0 / 112.5e9).abs() < 1e-20);
        // At two chips the link's latency is more than the software's round: 1e-6 + 5e-6.
        assert!((NetworkCost::new(&llama_on_h100(2)).latency_s - 64.0 * 6e-6).abs() < 1e-15);
    }

    #[test]
    fn experts_behind_one_attention_group_need_no_exchange() {
        let one = NetworkCost::new(&deepseek_on_gb300(8, 1));
        assert!((one.latency_s - 122.0 * 13e-6).abs() < 1e-15);
        // tp 1, dp 8: 58 mixture layers exchange twice over 8 chips, and nothing else crosses a link.
        let eight = NetworkCost::new(&deepseek_on_gb300(1, 8));
        assert!((eight.latency_s - 116.0 * 13e-6).abs() < 1e-15);
        let bytes = 8.0 * 7.0 / 8.0 * 7168.0 * 2.0;
        assert!((eight.token_s - 116.0 * bytes / (900e9 * 0.25)).abs() < 1e-18);
        // tp 2, dp 4: 122 - 58 all-reduces over 2 and 116 exchanges over 8, of half the tokens each.
        let mixed = NetworkCost::new(&deepseek_on_gb300(2, 4));
        assert!((mixed.latency_s - (64.0 * 6e-6 + 116.0 * 13e-6)).abs() < 1e-15);
        let token_s = (64.0 * 2.0 * 0.5 * 14_336.0 + 116.0 * 4.0 * 7.0 / 8.0 * 14_336.0) / (900e9 * 0.25);
        assert!((mixed.token_s - token_s).abs() < 1e-18);
    }

    #[test]
    fn a_collective_beyond_the_domain_goes_over_the_scale_out_links() {
        // tp 16 over domains of 8: 64 all-reduces, each 1e-6 + max(20e-6, 4 x 4e-6) + 50e-6, bytes 2 x 15/16 x 8192 over
        // 50e9 x 0.25.
        let mut spec = llama_on_h100(16);
        spec.layout.crosses_domains = true;
        let cost = NetworkCost::new(&spec);
        assert!((cost.latency_s - 64.0 * 71e-6).abs() < 1e-15);
        assert!((cost.token_s - 64.0 * 15_360.0 / 12.5e9).abs() < 1e-18);
        assert!(spec.layout.validate(&spec.model, &spec.chip).is_ok());
    }

    #[test]
    fn stages_hand_over_the_hidden_state() {
        // tp 2, pp 2 in one domain: one hand-over of half of 8,192 bytes a chip, waiting 1e-6 + max(5e-6, 4e-6), gathered
        // by two chips of which each passes on half, and the tokens' way back: 18e-6; 8,192 bytes over 112.5e9 a token.
        let mut spec = llama_on_h100(2);
        spec.layout.pp = 2;
        let cost = NetworkCost::between_stages(&spec);
        assert!((cost.latency_s - 3.0 * 6e-6).abs() < 1e-18);
        assert!((cost.token_s - 8192.0 / 112.5e9).abs() < 1e-21);
        // tp 1, pp 9 over domains of eight: seven hand-overs inside, one outside at 1e-6 + 20e-6 + 50e-6, and so is the
        // way back; 8,192 bytes each, over 112.5e9 and 12.5e9.
        spec.layout = crate::layout::Layout { tp: 1, dp: 1, pp: 9, ep: None, crosses_domains: false };
        let cost = NetworkCost::between_stages(&spec);
        assert!((cost.latency_s - (7.0 * 6e-6 + 2.0 * 71e-6)).abs() < 1e-18);
        assert!((cost.token_s - 8192.0 * (7.0 / 112.5e9 + 1.0 / 12.5e9)).abs() < 1e-21);
    }

    #[test]
    fn prompts_have_a_link_efficiency_of_their_own() {
        let mut spec = llama_on_h100(8);
        let plain = NetworkCost::new(&spec);
        assert_eq!(plain.prompt_token_s, plain.token_s);
        spec.engine.prefill_link_eff_frac = Some(0.5);
        let cost = NetworkCost::new(&spec);
        assert!((cost.prompt_token_s - 0.5 * plain.token_s).abs() < 1e-18);
        assert_eq!(cost.token_s, plain.token_s);
    }
}
