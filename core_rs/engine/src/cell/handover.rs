//! From prefill to decode replicas: who takes over, the way over the link, and what is held meanwhile.

use super::Sim;
use crate::agenda::Event;
use crate::request::NOWHERE;

impl Sim {
    /// After a boundary of `replica`: prompts that it is done with find a decode replica, and those let in set out.
    pub(super) fn hand_over(&mut self, replica: u32, t: u64) {
        let handed = std::mem::take(&mut self.notes.handed);
        for &slot in &handed {
            self.find_decode(slot, replica, t);
        }
        self.notes.handed = handed;
        self.notes.handed.clear();
        for at in 0..self.notes.moved.len() {
            let slot = self.notes.moved[at];
            let request = &self.slab[slot];
            let source = &self.deployments[self.deployment_of[request.source as usize] as usize];
            let bytes = f64::from(request.target) * source.kv_bytes_per_token;
            let event = Event::IsDelivered { row: request.row, slot, stamp: request.stamp };
            self.agenda.set(self.link.deliver(t, bytes), event);
        }
        self.notes.moved.clear();
    }

    fn find_decode(&mut self, slot: u32, source: u32, t: u64) {
        let from = self.deployment_of[source as usize] as usize;
        let input_tokens = self.slab[slot].input_tokens;
        self.router.ended(source, input_tokens, true);
        self.slab[slot].source = source;
        let Some(replica) = self.router.choose_decode(&self.deployments[from].decode_targets, input_tokens) else {
            self.release_source(slot, t);
            self.lose(slot, t);
            return;
        };
        let deployment = &self.deployments[self.deployment_of[replica as usize] as usize];
        let request = &mut self.slab[slot];
        request.replica = replica;
        request.window_blocks = deployment.window_blocks(request) as u32;
        if deployment.has_cache {
            self.slab.chain_mut(slot).leave();
        }
        let next = self.replicas[replica as usize].expect(slot, t);
        self.queue.set(replica, next);
    }

    /// The keys and values of a request have arrived.
    pub(super) fn deliver(&mut self, slot: u32, t: u64) {
        let replica = self.slab[slot].replica;
        let next = self.replicas[replica as usize].deliver(slot, t);
        self.queue.set(replica, next);
        self.release_source(slot, t);
    }

    /// The prefill replica need not hold the prompt of a request any more.
    pub(super) fn release_source(&mut self, slot: u32, t: u64) {
        let request = &mut self.slab[slot];
        let source = std::mem::replace(&mut request.source, NOWHERE);
        if source != NOWHERE {
            let next = self.replicas[source as usize].let_arrive(slot, t);
            self.queue.set(source, next);
        }
    }
}
