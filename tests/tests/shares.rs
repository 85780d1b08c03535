//! Shares of what there is a limited number of, beside a list that is searched.

use std::time::Duration;

use proptest::prelude::*;

use mcp_proto::Instant;
use mcp_proto::server::{Holder, PeerKey, Shares};

/// What is held, by a list that is searched.
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
    fn defect_m4_shares_agree_with_a_list(steps in prop::collection::vec((0..4_u8, 0..12_u8, 0..4_u8), 0..80)) {
        let start = Instant::now();
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
