//! The mean of a closed loop under a replica's own rules (`docs/explanation/simulator.md`), without simulating it.
//!
//! Clocked by steps: a client waits for the step under way when its last request ended, prefills, and decodes for S steps:
//! O - 1 without drafts. With `k` prompts in the system each of the other `c - k` clients joins them with probability
//! 1/(S + 1) a step, and a step works on them in order up to its token budget. That is a Markov chain in the tokens still to be prefilled. From its stationary
//! distribution, with d the duration of the step in each state and rate the prompts completed a step:
//!
//! ```text
//! throughput = O rate / E[d]
//! ttft       = E[k d] / rate + E[d']                 Little's law, and the step d' that a client waits, which is not in it
//! tpot       = (c E[d] / rate - ttft) / (O - 1)      what is left of a client's cycle; with drafts / S x E[steps / tokens]
//! ```
//! Lengths must differ between requests: where all are alike and begin together, they go on in step for ever.

use crate::speculation::MeanSteps;
use crate::step::{Chunk, Load, StepModel};

/// Parts of a prompt that the chain tells apart where prompts are worked on one after the other; none where attention
/// groups or pipeline stages work on many at once.
const PARTS: usize = 4;
/// The chain is run until its mean has settled to this, or so many steps.
const SETTLED: f64 = 1e-7;
const MOST_STEPS: usize = 20_000;
/// Smaller probabilities are dropped.
const NEGLIGIBLE: f64 = 1e-12;

/// A load on one replica.
#[derive(Debug, Clone, Copy)]
pub struct LoopLoad {
    pub clients: u64,
    /// Mean lengths; an output has at least two tokens.
    pub input_tokens: f64,
    pub output_tokens: f64,
    pub chunk_tokens: u64,
}

/// What it comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoopMean {
    pub ttft_s: f64,
    pub tpot_s: f64,
    pub output_tokens_per_s: f64,
    pub n_seqs: f64,
}

/// The means of `load` on a replica whose cache and batch hold all of it.
pub fn mean_loop(model: &StepModel, load: &LoopLoad) -> LoopMean {
    if load.clients == 1 || model.verified_tokens() == 1 {
        return mean_where(model, load, 1.0);
    }
    // With drafts it matters whether a sequence finds others that decode, which the mean of them tells.
    let busy = mean_where(model, load, 0.0);
    mean_where(model, load, alone_frac(busy.n_seqs, load.clients as f64))
}

/// Share of the sequences that find nobody decoding when they begin, where `n_seqs` of `clients` decode in the mean.
pub fn alone_frac(n_seqs: f64, clients: f64) -> f64 {
    libm::pow((1.0 - n_seqs / clients).max(0.0), (clients - 1.0).max(0.0))
}

fn mean_where(model: &StepModel, load: &LoopLoad, alone_frac: f64) -> LoopMean {
    let chain = Chain::new(model, load, alone_frac);
    let (input, output) = (load.input_tokens, load.output_tokens);
    let (mut all_s, mut prompts_s, mut tokens) = (0.0, 0.0, 0.0);
    let (mut before_s, mut waits) = (0.0, 0.0);
    for (state, &p) in chain.stationary().iter().enumerate().filter(|(_, p)| **p > 0.0) {
        let (n_seqs, chunks) = (chain.decoding(state), chain.chunks(state));
        let seconds = chain.seconds(n_seqs, &chunks);
        all_s += p * seconds;
        prompts_s += p * seconds * chain.prompts(state) as f64;
        // Who waits is one of those without a prompt, so it is likelier where there are more of them.
        let without = p * (load.clients as f64 - chain.prompts(state) as f64);
        waits += without;
        before_s += without * chain.seconds((n_seqs - chain.decoding_frac()).max(0.0), &chunks);
        tokens += p * tokens_of(&chunks);
    }
    let rate = tokens / input;
    let ttft_s = prompts_s / rate + before_s / waits;
    let cycle_s = load.clients as f64 * all_s / rate;
    LoopMean {
        ttft_s,
        tpot_s: (cycle_s - ttft_s) / chain.steps.steps * chain.steps.a_token,
        output_tokens_per_s: rate * output / all_s,
        n_seqs: load.clients as f64 * (1.0 - ttft_s / cycle_s),
    }
}

fn tokens_of(chunks: &[Chunk]) -> f64 {
    chunks.iter().map(|chunk| chunk.tokens as f64).sum()
}

struct Chain<'a> {
    model: &'a StepModel,
    load: &'a LoopLoad,
    /// Parts of a prompt, and the tokens of one.
    parts: usize,
    part: f64,
    /// The most of a step that one prompt takes.
    prompt_chunk: f64,
    /// Steps of an output after its first token.
    steps: MeanSteps,
}

impl<'a> Chain<'a> {
    fn new(model: &'a StepModel, load: &'a LoopLoad, alone_frac: f64) -> Self {
        let prompt_chunk = load.chunk_tokens.div_ceil(model.lanes()) as f64;
        let parts = if model.lanes() > 1 { 1 } else { PARTS };
        let steps = model.steps_for(load.output_tokens - 1.0, alone_frac);
        Self { model, load, parts, part: load.input_tokens / parts as f64, prompt_chunk, steps }
    }

    /// Prompts in the system in a state, which counts parts of them.
    fn prompts(&self, state: usize) -> usize {
        state.div_ceil(self.parts)
    }

    /// Of the clients without a prompt, those that decode; the others wait.
    fn decoding_frac(&self) -> f64 {
        self.steps.steps / (self.steps.steps + 1.0)
    }

    /// Clients that decode, in a state.
    fn decoding(&self, state: usize) -> f64 {
        (self.load.clients as f64 - self.prompts(state) as f64) * self.decoding_frac()
    }

    /// The chunks of the step in a state: first come, first served; the first may have been begun.
    fn chunks(&self, state: usize) -> Vec<Chunk> {
        let verified = self.model.verified_tokens() as f64;
        let mut budget = (self.load.chunk_tokens as f64 - verified * self.decoding(state).round()).max(0.0);
        let mut left = state;
        let mut chunks = Vec::new();
        while left > 0 && budget >= 1.0 {
            let parts = if left.is_multiple_of(self.parts) { self.parts } else { left % self.parts };
            left -= parts;
            let todo = parts as f64 * self.part;
            let tokens = todo.min(self.prompt_chunk).min(budget);
            budget -= tokens;
            let past = if self.parts == 1 { 0.5 * (todo - tokens) } else { self.load.input_tokens - todo };
            chunks.push(Chunk { tokens: tokens.round().max(1.0) as u64, past_tokens: past.round() as u64 });
        }
        chunks
    }

    /// The mean duration of a step with these chunks; `n_seqs` is a mean, so between the whole numbers around it.
    fn seconds(&self, n_seqs: f64, chunks: &[Chunk]) -> f64 {
        let below = n_seqs.floor();
        let (low_s, share) = (self.whole_s(below as u64, chunks), n_seqs - below);
        if share < 1e-9 {
            return low_s;
        }
        low_s + share * (self.whole_s(below as u64 + 1, chunks) - low_s)
    }

    fn whole_s(&self, n_seqs: u64, chunks: &[Chunk]) -> f64 {
        if n_seqs == 0 && chunks.is_empty() {
            return 0.0;
        }
        let context = self.load.input_tokens + 0.5 * self.load.output_tokens;
        let windowed = context.min(self.model.window_tokens() as f64);
        let load = Load {
            n_seqs,
            context_tokens: (n_seqs as f64 * context).round() as u64,
            window_tokens: (n_seqs as f64 * windowed).round() as u64,
            n_growing_in_window: 0,
            chunks,
        };
        crate::time::s_from_fs(self.model.step(&load).time_fs.base)
    }

    /// The stationary distribution of the parts yet to be prefilled.
    fn stationary(&self) -> Vec<f64> {
        let clients = self.load.clients as usize;
        let most = clients * self.parts;
        let joining: Vec<Vec<f64>> =
            (0..=clients).map(|n| binomial(clients - n, 1.0 / (self.steps.steps + 1.0))).collect();
        let left: Vec<(usize, f64)> = (0..=most)
            .map(|state| {
                // A step rarely ends at a whole part: it ends at the two around it in proportion.
                let rest = (state as f64 - tokens_of(&self.chunks(state)) / self.part).max(0.0);
                let low = rest.floor();
                (low as usize, rest - low)
            })
            .collect();
        let mut share = vec![0.0; most + 1];
        share[0] = 1.0;
        let (mut before, mut highest) = (-1.0, 0);
        for _ in 0..MOST_STEPS {
            let mut next = vec![0.0; share.len()];
            let (mut mean, mut top) = (0.0, 0);
            for state in 0..=highest {
                let p = share[state];
                if p < NEGLIGIBLE {
                    continue;
                }
                mean += p * state as f64;
                let (low, above) = left[state];
                for (more, &q) in joining[self.prompts(state)].iter().enumerate() {
                    let at = (low + more * self.parts).min(most);
                    let higher = (at + 1).min(most);
                    next[at] += p * q * (1.0 - above);
                    next[higher] += p * q * above;
                    top = top.max(higher);
                }
            }
            (share, highest) = (next, top);
            if (mean - before).abs() < SETTLED * (1.0 + mean) {
                break;
            }
            before = mean;
        }
        share
    }
}

/// The binomial distribution of `n` trials of chance `p`, up to where it ends.
fn binomial(n: usize, p: f64) -> Vec<f64> {
    let odds = p / (1.0 - p);
    let mut terms = vec![libm::pow(1.0 - p, n as f64)];
    for k in 0..n {
        let next = terms[k] * odds * (n - k) as f64 / (k + 1) as f64;
        if next < NEGLIGIBLE && k as f64 > n as f64 * p {
            break;
        }
        terms.push(next);
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::llama_on_h100;

    fn load(clients: u64, input_tokens: f64, output_tokens: f64) -> LoopLoad {
        LoopLoad { clients, input_tokens, output_tokens, chunk_tokens: 8192 }
    }

    #[test]
    fn a_lone_client_has_its_own_steps() {
        let model = StepModel::new(&llama_on_h100(1)).unwrap();
        let asked = load(1, 1000.0, 500.0);
        let found = mean_loop(&model, &asked);
        let chain = Chain::new(&model, &asked, 1.0);
        let prompt = chain.seconds(0.0, &[Chunk { tokens: 1000, past_tokens: 0 }]);
        let step = chain.seconds(1.0, &[]);
        assert!((found.ttft_s / prompt - 1.0).abs() < 1e-6, "{} {prompt}", found.ttft_s);
        assert!((found.tpot_s / step - 1.0).abs() < 1e-6);
        assert!((found.output_tokens_per_s * (prompt + 499.0 * step) / 500.0 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_step_budget_that_is_full_sets_the_pace() {
        // A request takes 7,000 + 20 - 1 of the 8,192 tokens that each step has, so 1.1671 end a step, and 22.2 decode.
        let model = StepModel::new(&llama_on_h100(1)).unwrap();
        let asked = load(64, 7000.0, 20.0);
        let chain = Chain::new(&model, &asked, 1.0);
        let share = chain.stationary();
        let mean = |of: &dyn Fn(usize) -> f64| share.iter().enumerate().map(|(at, p)| p * of(at)).sum::<f64>();
        let rate = mean(&|at| tokens_of(&chain.chunks(at))) / 7000.0;
        let n_seqs = mean(&|at| chain.decoding(at));
        assert!((rate / (8192.0 / 7019.0) - 1.0).abs() < 0.01, "{rate}");
        assert!((n_seqs / (19.0 * rate) - 1.0).abs() < 0.01, "{n_seqs}");
    }

    #[test]
    fn clients_wait_or_decode() {
        let model = StepModel::new(&llama_on_h100(1)).unwrap();
        for (clients, input, output) in [(2, 100.0, 50.0), (16, 1000.0, 200.0), (100, 3000.0, 400.0)] {
            let found = mean_loop(&model, &load(clients, input, output));
            let rate = found.output_tokens_per_s / output;
            let sum = found.n_seqs + rate * found.ttft_s;
            assert!((sum / clients as f64 - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn shares_sum_to_one() {
        for (n, p) in [(0, 0.5), (1, 0.1), (40, 0.02), (256, 0.3)] {
            let sum: f64 = binomial(n, p).iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{n} {p}");
        }
    }
}
