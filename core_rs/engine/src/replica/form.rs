//! How the next step is formed: who is driven out, which prompts are worked on, who is let in, and how often the step
//! can be repeated as it is.

use std::cmp::Reverse;

use super::{Desk, Replica, Running};
use crate::meter::{end_of_step, Split};
use crate::request::Slab;
use crate::step::{Chunk, Load};

impl Replica {
    /// Form the step that begins at `now` and plan how far it can be repeated.
    pub(super) fn form_step(&mut self, now: u64, mut is_changed: bool, desk: &mut Desk<'_>) -> Option<u64> {
        let mut is_preempted = false;
        self.look_up_if_idle(now, desk.deployment.is_ahead);
        if self.next_blocks(desk.slab) > self.blocks.free() {
            self.let_leave();
        }
        while self.next_blocks(desk.slab) > self.blocks.free() {
            self.preempt(now, desk);
            (is_changed, is_preempted) = (true, true);
        }
        if !is_preempted && !self.handover.incoming.is_empty() {
            self.let_in(desk);
        }
        self.fill_chunks(now, is_preempted, desk);
        let n_decoding = self.decoding.len() as u64;
        let has_chunks = !self.chunks.is_empty();
        if !has_chunks && n_decoding == 0 {
            self.running = None;
            if let Some(gaps) = &mut self.gaps {
                gaps.clear();
            }
            return None;
        }
        let is_hurried = is_preempted || self.is_behind(desk);
        let stall_fs = std::mem::take(&mut self.stall_fs);
        let is_alone = has_chunks || stall_fs > 0;
        if let Some(run) =
            self.running.as_ref().filter(|run| !is_changed && !is_alone && run.done < run.line.valid_steps)
        {
            let (done, valid) = (run.done, run.line.valid_steps);
            let steps = self.steps_until_change(valid - done, is_hurried, desk.slab);
            let held = self.kv_tokens + self.reserved_tokens + n_decoding;
            let run = self.running.as_mut()?;
            run.kv_tokens = held - n_decoding * run.pace.tokens(done);
            run.planned = done + steps;
            return Some(end_of_step(run.anchor_ns, &run.line, run.planned));
        }
        let load = |chunks| Load {
            n_seqs: n_decoding,
            context_tokens: self.kv_tokens + n_decoding,
            window_tokens: self.window_sum,
            n_growing_in_window: self.n_growing,
            chunks,
        };
        let mut line = desk.deployment.step(&load(&self.chunks));
        if stall_fs > 0 {
            line.wait(stall_fs, desk.deployment.model.parked_uw());
        }
        let decode_only = (has_chunks && n_decoding > 0).then(|| {
            let alone = desk.deployment.step(&load(&[]));
            Split::Mixed { time_fs: alone.time_fs.base, energy_fj: alone.energy_fj.base }
        });
        let planned = if is_alone { 1 } else { self.steps_until_change(line.valid_steps, is_hurried, desk.slab) };
        let kv_tokens = self.kv_tokens + self.reserved_tokens + n_decoding;
        let end = end_of_step(now, &line, planned);
        let pace = self.pace;
        let run =
            Running { anchor_ns: now, line, pace, kv_tokens, done: 0, planned, is_alone, is_early: false, decode_only };
        self.running = Some(run);
        Some(end)
    }

    /// Decode steps until the composition may change: an end, a full window, no free block, or `valid` steps.
    fn steps_until_change(&mut self, valid: u64, is_hurried: bool, slab: &Slab) -> u64 {
        if is_hurried || !self.resumed.is_empty() || self.may_return_later(slab) {
            return 1; // the next step may admit again, or a first gap is counted by itself
        }
        let mut steps = valid;
        if let Some(&Reverse((end, _))) = self.decoding.peek() {
            steps = steps.min(self.pace.steps_for(end - self.counter));
        }
        while let Some(&Reverse((at, slot, admission))) = self.kinks.peek() {
            if slab[slot].admission == admission {
                steps = steps.min(self.pace.steps_for(at - self.counter));
                break;
            }
            self.kinks.pop();
        }
        let tokens = self.pace.tokens(steps);
        let allowed = self.blocks.tokens_allowed(self.counter, tokens);
        if allowed < tokens {
            steps = self.pace.steps_within(allowed);
        }
        steps.max(1)
    }

    /// Whether one that waits in host memory may have room at a later step though it has none now: with drafts the room
    /// that its next step needs hangs on the clock.
    fn may_return_later(&self, slab: &Slab) -> bool {
        !self.pace.is_plain() && self.waiting.front().is_some_and(|slot| slab[slot].is_swapped)
    }

    /// Prefill chunks of the next step: admitted prompts first, then the queue in order while there is room.
    fn fill_chunks(&mut self, now: u64, is_preempted: bool, desk: &mut Desk<'_>) {
        self.chunks.clear();
        self.chunk_tokens.clear();
        let decoding = self.decoding.len() as u64 * desk.deployment.verified_tokens;
        let mut budget = desk.deployment.chunk_tokens.saturating_sub(decoding);
        for at in 0..self.prefilling.len() {
            if budget == 0 {
                return;
            }
            self.add_chunk(self.prefilling[at], &mut budget, desk);
        }
        if is_preempted {
            return;
        }
        self.admit(now, &mut budget, desk);
    }

    /// Work on the prompt in `slot` in the next step.
    pub(super) fn add_chunk(&mut self, slot: u32, budget: &mut u64, desk: &mut Desk<'_>) {
        let request = &desk.slab[slot];
        let most = (*budget).min(desk.deployment.prompt_chunk_tokens);
        let tokens = u64::from(request.target - request.prefilled).min(most);
        *budget -= tokens;
        self.chunks.push(Chunk { tokens, past_tokens: u64::from(request.prefilled) });
        self.chunk_tokens.push(tokens as u32);
        self.publish(slot, tokens, desk);
    }
}
