//! How the next step is formed: who is driven out, which prompts are worked on, who is let in, and how often the step
//! can be repeated as it is.

use super::{Desk, Replica};
use crate::slab::Slab;
use crate::step::{Chunk, Load};

impl Replica {
    /// Form the step that begins at `now` and plan how far it can be repeated.
    pub(super) fn form_step(&mut self, now: u64, mut is_changed: bool, desk: &mut Desk<'_>) -> Option<u64> {
        let mut is_preempted = false;
        self.look_up_if_idle(now, desk.deployment.is_ahead);
        if desk.deployment.is_ahead && self.next_blocks(desk.slab) > self.blocks.free() {
            self.let_leave();
        }
        while self.next_blocks(desk.slab) > self.blocks.free() {
            self.preempt(now, desk);
            (is_changed, is_preempted) = (true, true);
        }
        if desk.deployment.hands_over && !is_preempted && !self.seldom.handover.incoming.is_empty() {
            self.let_in(desk);
        }
        self.fill_chunks(now, is_preempted, desk);
        let n_decoding = self.decoding.len() as u64;
        let has_chunks = !desk.chunks.is_empty();
        if !has_chunks && n_decoding == 0 {
            self.running = None;
            if desk.policy.has_gaps {
                self.seldom.gaps.clear();
            }
            return None;
        }
        // The next step may admit again, or a first gap is counted by itself.
        let is_hurried = is_preempted || self.is_behind(desk) || self.has_resumed(desk.deployment);
        let stall_fs = if desk.deployment.has_host { std::mem::take(&mut self.seldom.stall_fs) } else { 0 };
        let is_alone = has_chunks || stall_fs > 0;
        if let Some(run) = self.running.as_ref().filter(|run| !is_changed && !is_alone && run.done < run.valid_steps) {
            let (done, valid) = (run.done, run.valid_steps);
            let steps = self.steps_until_change(valid - done, is_hurried, desk.slab);
            let held = self.kv_tokens + self.reserved_tokens + n_decoding;
            let run = self.running.as_mut()?;
            run.kv_tokens = held - n_decoding * run.pace(self.pace).tokens(done);
            run.planned = done + steps;
            return Some(run.end());
        }
        let load = |chunks| Load {
            n_seqs: n_decoding,
            context_tokens: self.kv_tokens + n_decoding,
            window_tokens: self.window_sum,
            n_growing_in_window: u64::from(self.n_growing),
            chunks,
        };
        let kv_tokens = self.kv_tokens + self.reserved_tokens + n_decoding;
        let (mut leg, planned) = if is_alone {
            let load = load(desk.chunks);
            (desk.deployment.step_alone(now, &load, stall_fs, kv_tokens, self.pace), 1)
        } else {
            let leg = desk.deployment.leg(now, &load(&[]), kv_tokens, self.pace);
            let planned = self.steps_until_change(leg.valid_steps, is_hurried, desk.slab);
            (leg, planned)
        };
        (leg.planned, leg.is_alone, leg.n_chunks) = (planned, is_alone, desk.chunks.len() as u32);
        let end = leg.end();
        self.running = Some(leg);
        Some(end)
    }

    /// Decode steps until the composition may change: an end, a full window, no free block, or `valid` steps.
    fn steps_until_change(&mut self, valid: u64, is_hurried: bool, slab: &Slab) -> u64 {
        if is_hurried || self.may_return_later(slab) {
            return 1;
        }
        let mut steps = valid;
        if let Some((end, _)) = self.decoding.first() {
            steps = steps.min(self.pace.steps_for(end - self.counter));
        }
        let steps_to = |at: u64| self.pace.steps_for(at.saturating_sub(self.counter));
        if let Some(at) = self.kinks.first_near(slab, |at| steps_to(at) < steps) {
            steps = steps_to(at);
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
        !self.pace.is_plain() && self.waiting.front().is_some_and(|slot| slab[slot].is_swapped())
    }

    /// Prefill chunks of the next step: admitted prompts first, then the queue in order while there is room.
    fn fill_chunks(&mut self, now: u64, is_preempted: bool, desk: &mut Desk<'_>) {
        desk.chunks.clear();
        let decoding = self.decoding.len() as u64 * desk.deployment.verified_tokens;
        let mut budget = desk.deployment.chunk_tokens.saturating_sub(decoding);
        let mut at = 0;
        while let Some(slot) = self.prefilling.get(at) {
            self.add_chunk(slot, &mut budget, desk);
            at += 1;
        }
        if is_preempted {
            return;
        }
        self.admit(now, &mut budget, desk);
    }

    /// Work on the prompt in `slot` in the next step, if there is budget left.
    pub(super) fn add_chunk(&mut self, slot: u32, budget: &mut u64, desk: &mut Desk<'_>) {
        let request = &mut desk.slab[slot];
        let most = (*budget).min(desk.deployment.prompt_chunk_tokens);
        let tokens = u64::from(request.target - request.prefilled).min(most);
        request.chunk = tokens as u32;
        if tokens == 0 {
            return;
        }
        *budget -= tokens;
        desk.chunks.push(Chunk { tokens, past_tokens: u64::from(request.prefilled) });
        self.publish(slot, tokens, desk);
    }
}
