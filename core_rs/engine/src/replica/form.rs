//! How the next step is formed: who is driven out, which prompts are worked on, who is let in, and how often the step
//! can be repeated as it is.

use std::cmp::Reverse;

use super::{Desk, Replica, Running};
use crate::meter::end_of_step;
use crate::request::Slab;
use crate::step::{Chunk, Line, Load};
use crate::time::NEVER;

impl Replica {
    /// Form the step that begins at `now` and plan how far it can be repeated.
    pub(super) fn form_step(&mut self, now: u64, mut is_changed: bool, desk: &mut Desk<'_>) -> Option<u64> {
        let mut is_preempted = false;
        while self.blocks.needed_at(self.counter) > self.blocks.free() {
            self.preempt_youngest(now, desk);
            (is_changed, is_preempted) = (true, true);
        }
        if !is_preempted && !self.handover.incoming.is_empty() {
            self.let_in(desk);
        }
        self.fill_chunks(now, is_preempted, desk);
        let n_decoding = self.decoding.len() as u64;
        let is_mixed = !self.chunks.is_empty();
        if !is_mixed && n_decoding == 0 {
            self.running = None;
            if let Some(gaps) = &mut self.gaps {
                gaps.clear();
            }
            return None;
        }
        if let Some(run) =
            self.running.as_ref().filter(|run| !is_changed && !is_mixed && run.done < run.line.valid_steps)
        {
            let (done, valid) = (run.done, run.line.valid_steps);
            let steps = self.steps_until_change(valid - done, is_preempted, desk.slab);
            let held = i128::from(self.kv_tokens + self.reserved_tokens + n_decoding);
            let run = self.running.as_mut()?;
            run.kv_tokens.base = held - run.kv_tokens.slope * i128::from(done);
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
        let line = desk.deployment.step(&load(&self.chunks));
        let decode_only = (is_mixed && n_decoding > 0).then(|| desk.deployment.step(&load(&[])));
        let planned = if is_mixed { 1 } else { self.steps_until_change(line.valid_steps, is_preempted, desk.slab) };
        let held = i128::from(self.kv_tokens + self.reserved_tokens + n_decoding);
        let kv_tokens = Line { base: held, slope: i128::from(n_decoding) };
        let end = end_of_step(now, &line, planned);
        self.running = Some(Running { anchor_ns: now, line, kv_tokens, done: 0, planned, is_mixed, decode_only });
        Some(end)
    }

    /// Send the youngest running request back to the head of the queue; what it computed is lost.
    fn preempt_youngest(&mut self, now: u64, desk: &mut Desk<'_>) {
        let admission = |slot: u32| desk.slab[slot].admission;
        let decoding = self.decoding.iter().map(|Reverse((_, slot))| *slot).max_by_key(|&slot| admission(slot));
        let prefilling = self.prefilling.last().copied();
        let youngest = decoding.into_iter().chain(prefilling).max_by_key(|&slot| admission(slot));
        let Some(slot) = youngest else { return };
        if prefilling == Some(slot) {
            self.prefilling.pop();
            let request = &mut desk.slab[slot];
            self.reserved_tokens -= u64::from(request.target);
            self.blocks.give(self.blocks.blocks_of(u64::from(request.target)) + request.window_blocks);
        } else {
            self.decoding.retain(|Reverse((_, other))| *other != slot);
            let is_newcomer = self.forget_newcomer(slot, desk);
            self.stop_decoding(slot, desk);
            let request = &mut desk.slab[slot];
            request.target = request.input_tokens + request.generated;
            if !is_newcomer {
                request.last_token_ns = now;
            }
        }
        let request = &mut desk.slab[slot];
        request.prefilled = 0;
        request.admission = u64::MAX;
        self.waiting.push_front(slot);
        desk.meter.add_preemption(desk.clock, now);
    }

    /// Decode steps until the composition may change: an end, a full window, no free block, or `valid` steps.
    fn steps_until_change(&mut self, valid: u64, is_preempted: bool, slab: &Slab) -> u64 {
        if is_preempted || !self.handover.newcomers.is_empty() {
            return 1; // the next step may admit again, or counts a first gap by itself
        }
        let mut steps = valid;
        if let Some(&Reverse((end, _))) = self.decoding.peek() {
            steps = steps.min(end - self.counter);
        }
        while let Some(&Reverse((at, slot, admission))) = self.kinks.peek() {
            if slab[slot].admission == admission {
                steps = steps.min(at - self.counter);
                break;
            }
            self.kinks.pop();
        }
        self.blocks.steps_allowed(self.counter, steps).max(1)
    }

    /// Prefill chunks of the next step: admitted prompts first, then the queue in order while there is room.
    fn fill_chunks(&mut self, now: u64, is_preempted: bool, desk: &mut Desk<'_>) {
        self.chunks.clear();
        self.chunk_tokens.clear();
        let mut budget = desk.deployment.chunk_tokens.saturating_sub(self.decoding.len() as u64);
        for at in 0..self.prefilling.len() {
            if budget == 0 {
                return;
            }
            self.add_chunk(self.prefilling[at], &mut budget, desk);
        }
        if is_preempted {
            return;
        }
        let reserve = self.blocks.needed_at(self.counter);
        while budget > 0 && self.n_running() < desk.deployment.max_batch {
            let Some(&slot) = self.waiting.front() else { return };
            let request = &mut desk.slab[slot];
            let blocks = self.blocks.blocks_of(u64::from(request.target)) + request.window_blocks;
            if blocks + reserve > self.blocks.free() {
                return;
            }
            self.waiting.pop_front();
            self.blocks.take(blocks);
            self.reserved_tokens += u64::from(request.target);
            request.admission = *desk.next_admission;
            *desk.next_admission += 1;
            if request.start_ns == NEVER {
                request.start_ns = now;
                if request.in_span {
                    desk.classes[usize::from(request.class)].add_start(desk.deployment.pool, request);
                }
            }
            self.prefilling.push(slot);
            self.add_chunk(slot, &mut budget, desk);
        }
    }

    fn add_chunk(&mut self, slot: u32, budget: &mut u64, desk: &Desk<'_>) {
        let request = &desk.slab[slot];
        let most = (*budget).min(desk.deployment.prompt_chunk_tokens);
        let tokens = u64::from(request.target - request.prefilled).min(most);
        *budget -= tokens;
        self.chunks.push(Chunk { tokens, past_tokens: u64::from(request.prefilled) });
        self.chunk_tokens.push(tokens as u32);
    }
}
