//! How a model is spread over chips: tensor, expert and attention data parallelism inside one scale-up domain, and
//! pipeline stages, which may stand in several.

use serde::{Deserialize, Serialize};

use crate::chip::ChipSpec;
use crate::error::{Error, Result};
use crate::model::{Attention, ModelSpec, Moe};

/// Degrees of parallelism. Placed chips = `tp` x `dp` x `pp`; a stage has tp x dp of them. `ep` spreads whole experts over
/// a divisor of a stage's chips, and the chips / ep that share one expert split its matrices. Without `ep` it is as wide
/// as the experts allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    pub tp: u64,
    pub dp: u64,
    #[serde(default = "one")]
    pub pp: u64,
    #[serde(default)]
    pub ep: Option<u64>,
    /// Whether the replica may spread over several scale-up domains, with collectives over the scale-out links.
    #[serde(default)]
    pub crosses_domains: bool,
}

fn one() -> u64 {
    1
}

/// Pipeline stages that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// How many there are.
    pub count: u64,
    pub layers: u64,
    /// Has the input embedding; has the output head.
    pub is_first: bool,
    pub is_last: bool,
}

impl Layout {
    /// Chips of one replica.
    pub fn n_chips(&self) -> u64 {
        self.tp.saturating_mul(self.dp).saturating_mul(self.pp)
    }

    /// Chips of a stage, which hold a layer together.
    pub fn stage_chips(&self) -> u64 {
        self.tp.saturating_mul(self.dp)
    }

    /// The stages of a model of so many layers, in order, those that are alike together: the layers that are left over
    /// go to the first ones, so that the last, which has the head, has no more than another.
    pub fn stages(&self, n_layers: u64) -> Vec<Stage> {
        let (layers, more) = (n_layers / self.pp, n_layers % self.pp);
        let mut stages: Vec<Stage> = Vec::new();
        for at in 0..self.pp {
            let layers = layers + u64::from(at < more);
            let stage = Stage { count: 1, layers, is_first: at == 0, is_last: at + 1 == self.pp };
            match stages.last_mut() {
                Some(last) if (Stage { count: 1, ..*last }) == stage => last.count += 1,
                _ => stages.push(stage),
            }
        }
        stages
    }

    /// Hand-overs between stages of one scale-up domain, and between domains; each domain takes whole stages.
    pub fn hand_overs(&self, domain_chips: u64) -> (u64, u64) {
        let in_domain = (domain_chips / self.stage_chips()).max(1);
        let across = self.pp.div_ceil(in_domain) - 1;
        (self.pp - 1 - across, across)
    }

    /// Chips that hold different experts; 1 for a dense model.
    pub fn expert_degree(&self, model: &ModelSpec) -> u64 {
        self.ep.or_else(|| widest_ep(model, self.stage_chips())).unwrap_or(1)
    }

    /// Checks the degrees against the model's heads and experts and the chip's domain.
    pub fn validate(&self, model: &ModelSpec, chip: &ChipSpec) -> Result<()> {
        for (field, value) in [
            ("layout.tp", self.tp),
            ("layout.dp", self.dp),
            ("layout.pp", self.pp),
            ("layout.ep", self.ep.unwrap_or(1)),
        ] {
            if value == 0 {
                return Err(Error::input(field, "must be at least 1"));
            }
        }
        if self.pp > model.n_layers {
            return Err(infeasible(
                "pipeline",
                format!("{} stages of {} layers: each needs one", self.pp, model.n_layers),
                format!("use pp {} or less", model.n_layers),
            ));
        }
        let n = self.stage_chips();
        if n > chip.domain_chips && !self.crosses_domains {
            return Err(infeasible(
                "domain",
                format!(
                    "tp {} x dp {} = {n} chips do not fit one scale-up domain of {}",
                    self.tp, self.dp, chip.domain_chips
                ),
                format!("use at most {} chips a {}", chip.domain_chips, if self.pp > 1 { "stage" } else { "replica" }),
            ));
        }
        if !divides_heads(model, self.tp) {
            let fits: Vec<String> =
                (1..=chip.domain_chips.max(n)).filter(|&t| divides_heads(model, t)).map(|t| t.to_string()).collect();
            return Err(infeasible(
                "heads",
                format!("tp {} does not divide {}", self.tp, heads_in_words(model)),
                format!("tp may be {}", fits.join(", ")),
            ));
        }
        let ep = self.expert_degree(model);
        let Some(moe) = &model.moe else {
            return match ep {
                1 => Ok(()),
                _ => Err(infeasible(
                    "experts",
                    format!("ep {ep} of a dense model, which has no experts"),
                    "leave ep out".to_owned(),
                )),
            };
        };
        if !spreads_evenly(moe, n, ep) {
            return Err(infeasible(
                "experts",
                format!(
                    "{} experts of inner width {} do not spread evenly over {n} chips at ep {ep}",
                    moe.n_experts, moe.expert_intermediate
                ),
                match widest_ep(model, n) {
                    Some(ep) => format!("use ep {ep}"),
                    None => "use another number of chips".to_owned(),
                },
            ));
        }
        Ok(())
    }

    /// How many chips of a tensor-parallel group hold different keys and values: min(tp, kv heads); 1 for a latent,
    /// which every chip of the group keeps whole.
    pub fn kv_shards(&self, model: &ModelSpec) -> u64 {
        match model.attention {
            Attention::Gqa { n_kv_heads, .. } => self.tp.min(n_kv_heads),
            Attention::Mla { .. } => 1,
        }
    }
}

/// The largest expert degree that spreads the model's experts over `n` chips; 1 for a dense model, none if none does.
pub fn widest_ep(model: &ModelSpec, n: u64) -> Option<u64> {
    let Some(moe) = &model.moe else { return Some(1) };
    (1..=n).rev().find(|&ep| spreads_evenly(moe, n, ep))
}

/// Whether `ep` of `n` chips hold whole experts each, and the chips that share one split its inner width.
fn spreads_evenly(moe: &Moe, n: u64, ep: u64) -> bool {
    n.is_multiple_of(ep) && moe.n_experts.is_multiple_of(ep) && moe.expert_intermediate.is_multiple_of(n / ep)
}

/// Whether `tp` splits the query heads evenly, and the key-value heads evenly or into whole copies.
pub fn divides_heads(model: &ModelSpec, tp: u64) -> bool {
    let kv_is_even = match model.attention {
        Attention::Gqa { n_kv_heads, .. } => n_kv_heads % tp == 0 || tp.is_multiple_of(n_kv_heads),
        Attention::Mla { .. } => true,
    };
    model.n_heads.is_multiple_of(tp) && kv_is_even
}

fn heads_in_words(model: &ModelSpec) -> String {
    match model.attention {
        Attention::Gqa { n_kv_heads, .. } => format!("{} heads over {n_kv_heads} key-value heads", model.n_heads),
        Attention::Mla { .. } => format!("{} heads", model.n_heads),
    }
}

pub(crate) fn infeasible(part: &str, what: String, way_out: String) -> Error {
    Error::Infeasible { part: part.to_owned(), what, way_out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{deepseek_on_gb300, gpt_oss_on_gb200, llama_on_h100};

    fn refused(spec: &crate::deployment::DeploymentSpec) -> (String, String) {
        match spec.layout.validate(&spec.model, &spec.chip) {
            Err(Error::Infeasible { part, way_out, .. }) => (part, way_out),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_replica_stays_inside_one_domain() {
        let mut spec = llama_on_h100(8);
        assert!(spec.layout.validate(&spec.model, &spec.chip).is_ok());
        spec.layout.dp = 2;
        assert_eq!(refused(&spec), ("domain".to_owned(), "use at most 8 chips a replica".to_owned()));
    }

    #[test]
    fn a_dense_model_has_no_experts_and_a_stage_has_a_layer() {
        let mut spec = llama_on_h100(1);
        spec.layout = Layout { tp: 2, dp: 1, pp: 1, ep: Some(2), crosses_domains: false };
        assert_eq!(refused(&spec), ("experts".to_owned(), "leave ep out".to_owned()));
        spec.layout = Layout { tp: 1, dp: 1, pp: 33, ep: None, crosses_domains: false };
        assert_eq!(refused(&spec), ("pipeline".to_owned(), "use pp 32 or less".to_owned()));
    }

    #[test]
    fn stages_share_the_layers_and_may_stand_in_several_domains() {
        let layout = |tp, pp| Layout { tp, dp: 1, pp, ep: None, crosses_domains: false };
        let shared = |pp, n| layout(1, pp).stages(n).iter().map(|s| (s.count, s.layers)).collect::<Vec<_>>();
        // 61 = 16 + 15 + 15 + 15; 62 = 16 + 16 + 15 + 15; the last is by itself, as it has the head.
        assert_eq!(shared(4, 61), [(1, 16), (2, 15), (1, 15)]);
        assert_eq!(shared(4, 62), [(1, 16), (1, 16), (1, 15), (1, 15)]);
        assert_eq!(shared(8, 64), [(1, 8), (6, 8), (1, 8)]);
        assert_eq!(layout(1, 1).stages(32), [Stage { count: 1, layers: 32, is_first: true, is_last: true }]);
        // Domains of eight: four stages of two chips in one; of six stages, two in a second.
        assert_eq!(layout(2, 4).hand_overs(8), (3, 0));
        assert_eq!(layout(2, 6).hand_overs(8), (4, 1));
        assert_eq!(layout(8, 4).hand_overs(8), (0, 3));
        let mut spec = llama_on_h100(8);
        spec.layout.pp = 4;
        assert!(spec.layout.validate(&spec.model, &spec.chip).is_ok());
        spec.layout.dp = 2;
        assert_eq!(refused(&spec), ("domain".to_owned(), "use at most 8 chips a stage".to_owned()));
    }

    #[test]
    fn heads_are_split_evenly_or_copied_whole() {
        let mut spec = llama_on_h100(3);
        assert_eq!(refused(&spec), ("heads".to_owned(), "tp may be 1, 2, 4, 8".to_owned()));
        // 8 key-value heads over 16 chips: two whole copies. Over 12: neither.
        spec.chip.domain_chips = 64;
        spec.model.n_heads = 48;
        spec.layout.tp = 16;
        assert!(spec.layout.validate(&spec.model, &spec.chip).is_ok());
        assert_eq!(spec.layout.kv_shards(&spec.model), 8);
        spec.layout.tp = 12;
        assert_eq!(refused(&spec).0, "heads");
    }

    #[test]
    fn experts_are_spread_evenly() {
        let mut spec = deepseek_on_gb300(1, 72);
        assert_eq!(refused(&spec), ("experts".to_owned(), "use another number of chips".to_owned()));
        spec.layout = Layout { tp: 8, dp: 1, pp: 1, ep: Some(3), crosses_domains: false };
        assert_eq!(refused(&spec), ("experts".to_owned(), "use ep 8".to_owned()));
        spec.layout.ep = None;
        assert_eq!(spec.layout.expert_degree(&spec.model), 8);
        for ep in [1, 2, 4, 8] {
            spec.layout.ep = Some(ep);
            assert!(spec.layout.validate(&spec.model, &spec.chip).is_ok());
        }
        // 12 chips and 128 experts of inner width 2880 = 2^6 x 45: ep 4 with each expert over 3 chips.
        assert_eq!(widest_ep(&gpt_oss_on_gb200(1, 1).model, 12), Some(4));
        assert_eq!(widest_ep(&llama_on_h100(1).model, 12), Some(1));
    }
}
