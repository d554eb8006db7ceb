//! What is set to happen at a known time, beside arrivals and the steps of replicas.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One thing that is set to happen. At one instant they come in this order, those of a kind by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// An outage begins; its replicas are lost or take no more requests.
    OutageBegins {
        outage: u32,
    },
    OutageEnds {
        outage: u32,
    },
    /// A replica that was switched on is ready.
    Started {
        replica: u32,
    },
    /// The number of replicas is decided anew.
    Scale {
        deployment: u32,
    },
    /// The client of a request without its first token gives up.
    TimesOut {
        row: u64,
        slot: u32,
        stamp: u64,
    },
    /// The client of a request goes away.
    IsCancelled {
        row: u64,
        slot: u32,
        stamp: u64,
    },
    /// A prompt's keys and values have arrived on their decode replica.
    IsDelivered {
        row: u64,
        slot: u32,
        stamp: u64,
    },
    /// A request is sent once more.
    IsSentAgain {
        row: u64,
        slot: u32,
        stamp: u64,
    },
    /// The next request of a chain is sent.
    IsSent {
        row: u64,
    },
}

/// Events by time.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(u64, Event)>>,
}

impl Agenda {
    /// Set `event` for `t_ns`.
    pub fn set(&mut self, t_ns: u64, event: Event) {
        self.heap.push(Reverse((t_ns, event)));
    }

    /// When the next event is.
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((t_ns, _))| *t_ns)
    }

    /// Take the next event out.
    pub fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse((_, event))| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_an_instant_have_an_order() {
        let mut agenda = Agenda::default();
        agenda.set(5, Event::IsSent { row: 1 });
        agenda.set(5, Event::Scale { deployment: 0 });
        agenda.set(5, Event::IsSent { row: 0 });
        agenda.set(4, Event::IsSent { row: 9 });
        assert_eq!(agenda.next_ns(), Some(4));
        let order: Vec<Event> = std::iter::from_fn(|| agenda.pop()).collect();
        assert_eq!(
            order,
            [
                Event::IsSent { row: 9 },
                Event::Scale { deployment: 0 },
                Event::IsSent { row: 0 },
                Event::IsSent { row: 1 }
            ]
        );
    }
}
