//! A cache of server addresses, so that a name is not resolved for every request.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// How long an address is cached. If connecting fails, the cache is cleared, so a server that has moved is found at
/// once.
const GOOD_FOR: Duration = Duration::from_secs(60);
/// Room for the server and for its proxy; when it is full, the cache is cleared.
const MOST: usize = 4;

/// The resolver, with a cache that all workers share.
///
/// Without it, `ureq` resolves a name for every request, even while a connection to it is open.
#[derive(Debug, Clone, Default)]
pub(super) struct AddressCache {
    known: Arc<Mutex<BTreeMap<String, (Instant, ResolvedSocketAddrs)>>>,
    system: Arc<DefaultResolver>,
}

impl AddressCache {
    /// Clears the cache, because connecting failed.
    pub(super) fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Resolver for AddressCache {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let name = format!("{}://{}", uri.scheme_str().unwrap_or_default(), uri.authority().map_or("", |a| a.as_str()));
        let now = Instant::now();
        if let Some((since, addresses)) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&name) {
            if now.saturating_duration_since(*since) < GOOD_FOR {
                return Ok(addresses.clone());
            }
        }
        let addresses = self.system.resolve(uri, config, timeout)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(name, (now, addresses.clone()));
        Ok(addresses)
    }
}

/// The resolver of a server that is reached without an address.
#[derive(Debug)]
pub(super) struct NoLookup;

impl Resolver for NoLookup {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        // `ureq` demands an address.
        addresses.push((Ipv4Addr::LOCALHOST, 0).into());
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use ureq::{Agent, Timeout};

    use super::*;

    /// The address that the resolver returns for a server of this authority.
    fn resolved(cache: &AddressCache, authority: &str) -> SocketAddr {
        let uri = format!("http://{authority}/mcp").parse().unwrap();
        let timeout = NextTimeout {
            after: Duration::from_secs(60).into(),
            reason: Timeout::Resolve,
            per_read: None,
            per_write: None,
        };
        cache.resolve(&uri, Agent::new_with_defaults().config(), timeout).unwrap()[0]
    }

    #[test]
    fn an_address_is_known_for_some_time_or_until_it_does_not_answer() {
        let cache = AddressCache::default();
        let (first, second) = ("127.0.0.1:1", "127.0.0.2:2");
        assert_eq!(resolved(&cache, first).to_string(), first);
        // Caches another address, as if the server had been there.
        let elsewhere = |since| {
            let mut addresses = DefaultResolver::default().empty();
            addresses.push(second.parse().unwrap());
            cache.known.lock().unwrap().insert(format!("http://{first}"), (since, addresses));
        };
        let now = Instant::now();
        elsewhere(now);
        assert_eq!(resolved(&cache, first).to_string(), second, "it is not looked up again");
        cache.forget();
        assert_eq!(resolved(&cache, first).to_string(), first);
        elsewhere(now.checked_sub(GOOD_FOR).unwrap());
        assert_eq!(resolved(&cache, first).to_string(), first);
        assert_eq!(resolved(&cache, first).to_string(), first);
    }

    #[test]
    fn few_addresses_are_known() {
        let cache = AddressCache::default();
        let known = || cache.known.lock().unwrap().len();
        for port in 1..=MOST {
            resolved(&cache, &format!("127.0.0.1:{port}"));
            assert_eq!(known(), port);
        }
        resolved(&cache, "127.0.0.1:1");
        assert_eq!(known(), MOST);
        resolved(&cache, "127.0.0.1:9");
        assert_eq!(known(), 1);
    }
}
