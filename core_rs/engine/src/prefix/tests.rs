use std::collections::HashMap;

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

/// Hashes of the `prompt`-th of twelve prompts, which share their begins by six and by two.
fn chain(prompt: u64) -> Vec<u64> {
    let group = |at| match at {
        0..3 => prompt / 6,
        3..5 => 10 + prompt / 2,
        _ => 20 + prompt,
    };
    (0..8).map(|at| 100 * group(at) + at).collect()
}

#[test]
fn agrees_with_a_list_of_blocks() {
    let mut dice = Stream::new(7, Purpose::RouterChoice, 0, 0);
    let mut host = HostMemory::default();
    for _ in 0..200 {
        let mut cache = PrefixCache::new(60);
        let mut plain = Plain { queue: vec![None; 60], ..Plain::default() };
        let mut held: Vec<(Vec<u64>, u32)> = Vec::new();
        let mut own = 0;
        for _ in 0..200 {
            match dice.below(4) {
                0 => {
                    let mut hashes = chain(dice.below(12));
                    hashes.truncate(1 + dice.below(8) as usize);
                    let found = cache.find(&hashes, |_| 3, &host);
                    let rest = &hashes[found.n_hashes..];
                    if found.blocks - found.held + 3 * rest.len() as u64 > plain.queue.len() as u64 {
                        continue;
                    }
                    let (mut deepest, taken) = cache.hold_found(&hashes[..found.n_hashes], &mut host);
                    assert_eq!(taken, found.blocks - found.held);
                    hashes[..found.n_hashes].iter().for_each(|&hash| plain.hold(hash));
                    cache.take(3 * rest.len() as u64, &mut host);
                    plain.take(3 * rest.len());
                    let mut n = found.n_hashes;
                    while n < hashes.len() {
                        let to = hashes.len().min(n + 1 + dice.below(3) as usize);
                        let done = cache.publish(deepest, &hashes[n..to], |_| 3).unwrap();
                        assert_eq!(done.taken, None, "nothing of it is here");
                        (deepest, n) = (done.deepest, n + done.n);
                    }
                    for &hash in rest {
                        assert_eq!(plain.refs.insert(hash, 1), None);
                    }
                    held.push((hashes, deepest));
                }
                1 if !held.is_empty() => {
                    let (hashes, deepest) = held.swap_remove(dice.below(held.len() as u64) as usize);
                    let before = plain.queue.len();
                    hashes.iter().rev().for_each(|&hash| plain.let_go(hash));
                    assert_eq!(cache.let_go(deepest), (plain.queue.len() - before) as u64);
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
            for hashes in (0..12).map(chain) {
                let n = hashes.iter().take_while(|&&hash| plain.is_cached(hash)).count();
                let is_held = |hash: &&u64| plain.refs[*hash] > 0;
                let n_held = hashes[..n].iter().filter(is_held).count() as u64;
                let found = cache.find(&hashes, |_| 3, &host);
                assert_eq!((found.n_hashes, found.held), (n, 3 * n_held));
            }
        }
        let n_cached = plain.refs.len();
        let n_here: usize = cache
            .runs
            .iter()
            .zip(&cache.entries)
            .map(|(run, entry)| match entry.kind {
                Kind::Shared => run.hashes.len(),
                _ => 0,
            })
            .sum();
        assert_eq!(n_here, n_cached);
    }
}

#[test]
fn a_chain_is_found_as_far_as_it_is_cached() {
    let mut host = HostMemory::new(100);
    let mut cache = PrefixCache::new(12);
    cache.take(12, &mut host);
    let done = cache.publish(NONE, &[10, 11, 12], |_| 4).unwrap();
    assert_eq!((done.n, done.blocks, done.taken), (3, 12, None));
    assert_eq!(cache.find(&[10, 11, 12, 13], |_| 4, &host), Found { n_hashes: 3, blocks: 12, held: 12, fetched: 0 });
    assert_eq!(cache.find(&[10, 11], |at| 4 - at as u64, &host).n_hashes, 1);
    assert_eq!(cache.find(&[9, 10, 11], |_| 4, &host), Found::default());
    // Another that computed the same at the same time holds this one, as far as it goes, and goes its own way.
    let other = cache.publish(NONE, &[10, 11, 14], |_| 4).unwrap();
    assert_eq!((other.n, other.blocks, other.taken), (2, 8, Some(0)));
    let own = cache.publish(other.deepest, &[14], |_| 4).unwrap();
    assert_eq!(cache.find(&[10, 11, 14], |_| 4, &host).n_hashes, 3);
    assert_eq!(cache.publish(NONE, &[14], |_| 4), None, "it is somewhere else");
    assert_eq!(cache.let_go(own.deepest), 4);
    // Let go from the end: the end of the chain is evicted first, and found in host memory.
    assert_eq!(cache.let_go(done.deepest), 12);
    cache.take(9, &mut host);
    assert_eq!(cache.find(&[10, 11, 12, 13], |_| 4, &host), Found { n_hashes: 3, blocks: 12, held: 0, fetched: 8 });
    let (deepest, taken) = cache.hold_found(&[10, 11], &mut host);
    assert_eq!((taken, host.find(11), host.find(12), host.find(14)), (4, None, Some(4), Some(4)));
    assert_eq!(cache.let_go(deepest), 8);
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
