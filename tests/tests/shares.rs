//! `Shares` and `Connections` agree with naive models that search a list.

use std::time::Duration;

use mcp_proto::Instant;
use mcp_proto::server::{Admission, ConnectionKey, Connections, Holder, PeerKey, Shares};
use proptest::prelude::*;

/// A naive model of `Shares`: a list of keys, their holders, and since when each is unused.
#[derive(Default)]
struct Naive(Vec<(u8, u8, Option<u8>)>);

impl Naive {
    fn count(&self, holder: u8) -> usize {
        self.0.iter().filter(|thing| thing.1 == holder).count()
    }

    fn to_evict(&self, newcomer: u8, long: u8, now: u8) -> Vec<u8> {
        let mut unused: Vec<_> = self.0.iter().filter_map(|(key, by, since)| Some(((*since)?, *key, *by))).collect();
        unused.sort_unstable();
        let most = unused.iter().map(|(.., by)| (self.count(*by), *by)).max();
        let most = most.filter(|(count, by)| *by != newcomer && *count > self.count(newcomer) + 1);
        let of_most = unused.iter().filter(|(.., by)| most.is_some_and(|most| most.1 == *by));
        of_most.chain(unused.iter().filter(|(since, ..)| since + long <= now)).map(|(_, key, _)| *key).collect()
    }
}

fn holder(number: u8) -> Holder {
    Holder::Peer(PeerKey::new(&[number]))
}

proptest! {
    #[test]
    fn shares_agree_with_a_list(steps in prop::collection::vec((0..4_u8, 0..12_u8, 0..4_u8), 0..80)) {
        let start = Instant::START;
        let at = |time: u8| start + Duration::from_secs(u64::from(time));
        let (mut shares, mut naive) = (Shares::new(), Naive::default());
        for (now, (step, key, by)) in (0_u8..).zip(steps) {
            let known = naive.0.iter().position(|thing| thing.0 == key);
            match (step, known) {
                (0, None) => {
                    shares.insert(key, holder(by));
                    naive.0.push((key, by, None));
                }
                (1, found) => {
                    let removed = found.map(|at| naive.0.remove(at).1);
                    prop_assert_eq!(shares.remove(key), removed.map(holder));
                }
                (2, found) => {
                    shares.set_used(key);
                    if let Some(at) = found {
 naive.0[at].2 = None;
}
                }
                (_, found) => {
                    shares.set_unused(key, at(now));
                    if let Some(at) = found {
 naive.0[at].2 = Some(now);
}
                }
            }
            prop_assert_eq!(shares.len(), naive.0.len());
            for newcomer in 0..5 {
                let found: Vec<_> = shares.to_evict(&holder(newcomer), Duration::from_secs(9), at(now)).collect();
                prop_assert_eq!(found, naive.to_evict(newcomer, 9, now));
            }
        }
    }
}

/// A connection in a naive model of a server that serves four connections and keeps two more.
struct Connection {
    key: ConnectionKey,
    peer: u8,
    number: usize,
    /// `None` if the connection is not served: it is refused, or must close.
    state: Option<Use>,
}

#[derive(Clone, Copy)]
enum Use {
    Used,
    UnusedSince(u8),
}

proptest! {
    #[test]
    fn connections_make_room_or_are_refused(steps in prop::collection::vec((0..10_u8, 0..8_usize, 0..3_u8), 0..80)) {
        let start = Instant::START;
        let at = |time: u8| start + Duration::from_secs(u64::from(time));
        let (mut connections, mut open) = (Connections::new(4, 2), Vec::<Connection>::new());
        for ((now, number), (step, which, peer)) in (0_u8..).zip(0_usize..).zip(steps) {
            let chosen = open.get_mut(which);
            match (step, chosen) {
                (0, Some(chosen)) => {
                    connections.remove(chosen.key);
                    open.remove(which);
                }
                (1..=4, Some(chosen)) => {
                    connections.set_used(chosen.key);
                    chosen.state = chosen.state.map(|_| Use::Used);
                }
                (5, Some(chosen)) => {
                    connections.set_unused(chosen.key, at(now));
                    chosen.state = chosen.state.map(|_| Use::UnusedSince(now));
                }
                _ => {
                    let served = open.iter().filter(|one| one.state.is_some()).count();
                    let longest = if served < 4 { None } else { longest_unused(&open, peer) };
                    let admission = connections.admit(&PeerKey::new(&[peer]), number, at(now));
                    let (key, state) = match admission {
                        Admission::RefusedAtOnce => {
                            prop_assert_eq!(open.len(), 6);
                            continue;
                        }
                        Admission::Refused { connection } => {
                            prop_assert!(served == 4 && longest.is_none());
                            (connection, None)
                        }
                        Admission::Served { connection, evicted } => {
                            prop_assert!(served < 4 || longest.is_some());
                            prop_assert_eq!(evicted, longest.map(|at| open[at].number));
                            if let Some(evicted) = longest {
                                open[evicted].state = None;
                            }
                            (connection, Some(Use::UnusedSince(now)))
                        }
                    };
                    prop_assert!(open.len() < 6 && open.iter().all(|one| one.key != key));
                    open.push(Connection { key, peer, number, state });
                }
            }
        }
    }
}

/// The position of the unused connection that makes room for a newcomer. If the peer with the most connections has more
/// than the newcomer's peer would have, it is that peer's longest unused one; otherwise it is the longest unused one of
/// all.
fn longest_unused(open: &[Connection], newcomer: u8) -> Option<usize> {
    let count = |peer| open.iter().filter(|one| one.state.is_some() && one.peer == peer).count();
    let unused = |one: &Connection| if let Some(Use::UnusedSince(since)) = one.state { Some(since) } else { None };
    let longest = |of: &dyn Fn(&Connection) -> bool| {
        let found = open.iter().enumerate().filter(|(_, one)| of(one)).filter_map(|(at, one)| Some((unused(one)?, at)));
        found.min().map(|(_, at)| at)
    };
    let most = open.iter().filter(|one| unused(one).is_some()).map(|one| (count(one.peer), one.peer)).max();
    let most = most.filter(|(most, peer)| *peer != newcomer && *most > count(newcomer) + 1);
    most.map_or_else(|| longest(&|_| true), |(_, peer)| longest(&|one| one.peer == peer))
}
