use super::*;
use crate::rng::{Purpose, Stream};

/// The same cache block by block: a list of (hash or nothing) with the oldest first, and counts of use.
#[derive(Default)]
struct Plain {
    queue: Vec<Option<u64>>,
    refs: HashMap<u64, u32>,
}

impl Plain {
    fn is_cached(&self, hash: u64) -> bool {
        self.refs.contains_key(&hash)
    }

    fn let_go(&mut self, hash: u64) {
        let refs = self.refs.get_mut(&hash).unwrap();
        *refs -= 1;
        if *refs == 0 {
            self.queue.extend([Some(hash); 3]);
        }
    }

    fn hold(&mut self, hash: u64) {
        self.queue.retain(|at| *at != Some(hash));
        *self.refs.get_mut(&hash).unwrap() += 1;
    }

    fn take(&mut self, n: usize) {
        let taken: Vec<_> = self.queue.drain(..n).flatten().collect();
        for hash in taken {
            self.refs.remove(&hash);
            self.queue.iter_mut().filter(|at| **at == Some(hash)).for_each(|at| *at = None);
        }
    }
}

#[test]
fn agrees_with_a_list_of_blocks() {
    let mut dice = Stream::new(7, Purpose::RouterChoice, 0, 0);
    let mut host = HostMemory::default();
    for _ in 0..100 {
        let mut cache = PrefixCache::new(60);
        let mut plain = Plain { queue: vec![None; 60], ..Plain::default() };
        let mut held: Vec<(u64, u32)> = Vec::new();
        let mut own = 0;
        for _ in 0..200 {
            let hash = dice.below(30);
            match dice.below(4) {
                0 if plain.is_cached(hash) => {
                    let (at, _) = cache.entry(hash).unwrap();
                    cache.hold(at);
                    plain.hold(hash);
                    held.push((hash, at));
                }
                0 if plain.queue.len() >= 3 => {
                    cache.take(3, &mut host);
                    plain.take(3);
                    if plain.is_cached(hash) {
                        continue;
                    }
                    held.push((hash, cache.publish(hash, 3).unwrap()));
                    plain.refs.insert(hash, 1);
                }
                1 if !held.is_empty() => {
                    let (hash, at) = held.swap_remove(dice.below(held.len() as u64) as usize);
                    cache.let_go(at);
                    plain.let_go(hash);
                }
                2 => {
                    let n = dice.below(7).min(plain.queue.len() as u64);
                    cache.take(n, &mut host);
                    plain.take(n as usize);
                    own += n;
                }
                _ => {
                    cache.give(own);
                    plain.queue.extend(vec![None; own as usize]);
                    own = 0;
                }
            }
            for hash in 0..30 {
                assert_eq!(cache.entry(hash).is_some(), plain.is_cached(hash));
            }
        }
    }
}

#[test]
fn a_chain_is_found_as_far_as_it_is_cached() {
    let mut host = HostMemory::new(100);
    let mut cache = PrefixCache::new(12);
    cache.take(12, &mut host);
    let held: Vec<u32> = [10, 11, 12].iter().map(|&hash| cache.publish(hash, 4).unwrap()).collect();
    assert_eq!(cache.find(&[10, 11, 12, 13], |_| 4, &host), Found { n_hashes: 3, blocks: 12, held: 12, fetched: 0 });
    assert_eq!(cache.find(&[10, 11], |at| 4 - at as u64, &host).n_hashes, 1);
    assert_eq!(cache.find(&[9, 10, 11], |_| 4, &host), Found::default());
    // Let go from the end: the end of the chain is evicted first, and found in host memory.
    held.iter().rev().for_each(|&at| assert_eq!(cache.let_go(at), 4));
    cache.take(5, &mut host);
    assert_eq!(cache.find(&[10, 11, 12, 13], |_| 4, &host), Found { n_hashes: 3, blocks: 12, held: 0, fetched: 8 });
    let (at, taken) = cache.hold_found(0, 10, &mut host);
    assert_eq!((at, taken), (held[0], 4));
    let (_, taken) = cache.hold_found(1, 11, &mut host);
    assert_eq!((taken, host.find(11), host.find(12)), (0, None, Some(4)));
}

#[test]
fn what_a_request_gave_up_goes_from_its_end() {
    let mut host = HostMemory::default();
    let mut cache = PrefixCache::new(10);
    cache.take(10, &mut host);
    let at = cache.give_own(5, 6);
    cache.give(4);
    cache.take(2, &mut host);
    assert_eq!((cache.own_blocks(at, 5), cache.own_blocks(at, 6), cache.own_blocks(NONE, 5)), (4, 0, 0));
    assert_eq!(cache.take_own(at, 5, false), 4);
    assert_eq!(cache.own_blocks(at, 5), 0);
    cache.take(4, &mut host);
    assert_eq!(cache.n_queued, 0);
}
