//! Operation: replicas go down, come back, are switched on and off; what a failure takes is sent again or turned away.

use super::Sim;
use crate::agenda::Event;
use crate::request::{Leaving, NOWHERE};
use crate::time::NEVER;

impl Sim {
    /// Set what is known or drawn of outages, and switch off what the load has to ask for first.
    pub(super) fn begin_operation(&mut self) {
        for (outage, t) in self.operation.first_outages().into_iter().enumerate() {
            self.agenda.set(t, Event::OutageBegins { outage: outage as u32 });
        }
        for deployment in 0..self.deployments.len() {
            let Some(scale) = self.operation.scales[deployment].clone() else { continue };
            let n = self.spec.deployments[deployment].n_replicas as u32;
            (scale.n_on..n).for_each(|at| self.rest(scale.first + at, 0));
            self.agenda.set(scale.spec.delay_ns, Event::Scale { deployment: deployment as u32 });
        }
    }

    /// Count the time down to the run's length, where its arrivals end.
    pub(super) fn end_operation(&mut self) {
        for deployment in 0..self.deployments.len() {
            self.count_down(deployment, self.spec.length_ns, 0);
        }
        for replica in 0..self.replicas.len() as u32 {
            self.end_off(replica, self.spec.length_ns);
        }
    }

    fn count_down(&mut self, deployment: usize, t: u64, change: i64) {
        let (n, since) = self.operation.count_down(deployment, t, change);
        self.meters[deployment].add_down(&self.clock, since, t.min(self.spec.length_ns), n);
    }

    /// Note at `t` whether a replica that does not serve has a step under way.
    pub(super) fn watch(&mut self, replica: u32, t: u64) {
        let is_off = self.operation.is_down(replica) && self.replicas[replica as usize].is_idle();
        if !is_off {
            self.end_off(replica, t);
        } else if self.operation.off_since[replica as usize] == NEVER {
            self.operation.off_since[replica as usize] = t;
        }
    }

    fn end_off(&mut self, replica: u32, t: u64) {
        let since = std::mem::replace(&mut self.operation.off_since[replica as usize], NEVER);
        if since < t {
            let meter = &mut self.meters[self.deployment_of[replica as usize] as usize];
            meter.add_off(&self.clock, since, t.min(self.spec.length_ns));
        }
    }

    pub(super) fn begin_outage(&mut self, outage: usize, t: u64) {
        let of = self.operation.outages[outage].clone();
        for replica in of.first..of.first + of.n_replicas {
            self.rest(replica, t);
        }
        if !of.is_planned {
            self.break_down(of.first..of.first + of.n_replicas, t);
        }
        self.agenda.set(self.operation.ends_ns(outage, t), Event::OutageEnds { outage: outage as u32 });
    }

    pub(super) fn end_outage(&mut self, outage: usize, t: u64) {
        let of = self.operation.outages[outage].clone();
        for replica in of.first..of.first + of.n_replicas {
            self.serve(replica, t);
        }
        if let Some(next) = self.operation.begins_again_ns(outage, t) {
            self.agenda.set(next, Event::OutageBegins { outage: outage as u32 });
        }
    }

    /// One more reason for a replica to take no requests.
    fn rest(&mut self, replica: u32, t: u64) {
        if self.operation.add_reason(replica) {
            self.router.set_up(replica, false);
            self.count_down(self.deployment_of[replica as usize] as usize, t, 1);
            self.watch(replica, t);
        }
    }

    /// One reason less.
    pub(super) fn serve(&mut self, replica: u32, t: u64) {
        if self.operation.take_reason(replica) {
            self.router.set_up(replica, true);
            self.count_down(self.deployment_of[replica as usize] as usize, t, -1);
            self.watch(replica, t);
        }
    }

    /// The number of replicas follows the load.
    pub(super) fn scale(&mut self, deployment: usize, t: u64) {
        let n_requests = self.router.n_requests(deployment);
        let cold_ns = self.operation.cold_start_ns[deployment];
        let Some(scale) = &mut self.operation.scales[deployment] else { return };
        let (before, first, delay_ns) = (scale.n_on, scale.first, scale.spec.delay_ns);
        scale.n_on = scale.spec.decide(n_requests, before, scale.max_batch);
        let after = scale.n_on;
        if after > before {
            let event = Event::Started { replica: first + before };
            self.agenda.set(t.saturating_add(cold_ns), event);
        } else if after < before {
            self.rest(first + after, t);
        }
        self.agenda.set(t.saturating_add(delay_ns), Event::Scale { deployment: deployment as u32 });
    }

    /// Replicas fail: what runs or waits there is lost, and what they hold for others.
    fn break_down(&mut self, replicas: std::ops::Range<u32>, t: u64) {
        let mut lost = Vec::new();
        for replica in replicas.clone() {
            lost.extend(self.at_desk(replica, |replica, desk| replica.fail(t, desk)));
            self.queue.remove(replica);
            self.watch(replica, t);
        }
        for slot in self.slab.live() {
            let request = &mut self.slab[slot];
            if replicas.contains(&request.source) {
                request.source = NOWHERE;
                if !replicas.contains(&request.replica) {
                    lost.push(slot);
                }
            }
        }
        lost.sort_unstable_by_key(|&slot| (self.slab[slot].row, self.slab[slot].attempt));
        for slot in lost {
            let request = &self.slab[slot];
            if request.leaving != Leaving::Stays {
                self.let_go(slot);
            } else if replicas.contains(&request.replica) {
                self.router.ended(request.replica, request.input_tokens, request.generated > 0);
                self.release_source(slot, t);
                self.lose(slot, t);
            } else {
                let new = self.slab.insert(request.clone());
                self.slab.copy_hashes(slot, new);
                self.part(slot, t, Leaving::Again);
                self.lose(new, t);
            }
        }
    }

    /// A failure took a request, which is on no replica now: it is sent again at once, or turned away.
    pub(super) fn lose(&mut self, slot: u32, t: u64) {
        let request = &self.slab[slot];
        self.classes[usize::from(request.class)].add_lost(&self.clock, t, request.in_span());
        if self.spec.lost_are_rejected {
            self.turn_away(slot, t);
        } else {
            let attempt = request.attempt;
            self.slab[slot] = self.slab[slot].again();
            self.slab[slot].attempt = attempt; // not one of its client's
            self.try_again(slot, t, 0);
        }
    }
}
