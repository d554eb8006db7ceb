//! A pool of prompts alone, before a pool that decodes: what a prompt waits and takes there, without simulation.
//!
//! A worker fills its steps with prompts: `M` of them are in it at a time where they wait, and take `D(M)` together,
//! `D(x) = k base + max(own, x together)` for `x` prompts of `k` steps each. So the pool of `n` workers completes one
//! every `s = together + base x I / chunk` over n. All clients come at once, and come back when their output is decoded:
//!
//! ```text
//! first  = D(min(c / n, M)) + max(c / n M - 1, 0) D(M) / 2          the first wave
//! later  = wait + D(x)                                              with x those that come meanwhile, 1 + D x rate
//! wait   = (A - Z + sqrt((A - Z)^2 + 2 n s A)) / 2 + residual       A = c s, Z = the rest of the loop
//! ttft   = later + burst (first - later)
//! ```
//! The wait is that of a queue with fixed service, `s rho / 2 (1 - rho)`, closed by its own clients: `rho = A / (Z +
//! wait)`. Beyond saturation it goes to `A - Z`. `residual` is the half of a step that runs when a prompt comes.

use super::Habits;
use crate::step::PromptCost;

/// Share of the waits of random arrivals: clients that came one after the other come back so.
const REGULAR: f64 = 0.35;

/// A prompt pool under a closed loop.
pub struct PromptPool<'a> {
    pub habits: &'a Habits,
    pub prompt: &'a PromptCost,
    pub workers: f64,
    pub clients: f64,
}

/// What a prompt takes before its first token, and the share of its time that the pool works.
pub struct Prompted {
    pub ttft_s: f64,
    pub busy_frac: f64,
}

impl PromptPool<'_> {
    /// Prompts that are in a full worker at a time.
    fn full(&self) -> f64 {
        (self.prompt.n_steps * self.prompt.a_step).max(1.0)
    }

    /// Seconds of `x` prompts that are worked on together.
    fn together_s(&self, x: f64) -> f64 {
        let (p, h) = (self.prompt, self.habits);
        p.n_steps * p.step_base_s
            + ((p.own_s - p.experts_s) * (x / p.groups).max(1.0) + x * p.experts_s).max(p.read_s) / h.split_prefill_gain
    }

    /// Seconds between two prompts of a pool that is full. Attention groups whose prompts take several steps leave what
    /// the last one has room for.
    fn every_s(&self) -> f64 {
        let full = self.full();
        let ended =
            if self.prompt.n_steps > 1.0 && self.prompt.groups > 1.0 { full.min(self.prompt.groups) } else { full };
        self.together_s(full) / ended / self.prompt.in_flight / self.workers
    }

    /// What comes of it where an output takes `life_s` outside.
    pub fn prompted(&self, life_s: f64) -> Prompted {
        let (every_s, alone_s, full) = (self.every_s(), self.together_s(1.0), self.full());
        let (all_s, a_worker) = (self.clients * every_s, self.clients / self.workers);
        let loop_s = life_s + alone_s;
        // Those that come while one is worked on share its steps.
        let rate = (self.clients / (loop_s.max(all_s))) / self.workers;
        let alike = (1.0 + rate * alone_s).min(full).min(a_worker.max(1.0));
        let later_s = self.together_s(alike);
        let short_s = all_s - life_s - later_s;
        let spread_s = (REGULAR * 2.0 * every_s * self.workers * all_s).sqrt();
        let queue_s = 0.5 * (short_s + short_s.hypot(spread_s));
        let residual_s = 0.5
            * later_s
            * libm::pow(1.0 - libm::exp(-rate * later_s), self.workers)
            * (1.0 - all_s / (all_s + loop_s));
        let first_s =
            self.together_s(a_worker.min(full).max(1.0)) + 0.5 * (a_worker - full).max(0.0) * every_s * self.workers;
        let later_s = self.habits.lone_prompt * later_s + queue_s + residual_s;
        Prompted { ttft_s: later_s + self.habits.split_burst * (first_s - later_s).max(0.0), busy_frac: all_s / loop_s }
    }
}
