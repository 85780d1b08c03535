//! The addresses of servers, looked up now and then instead of for every request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// How long an address counts. Servers that move are found again at once if the old address no longer answers.
const GOOD_FOR: Duration = Duration::from_secs(60);
/// The server, and the proxy before it.
const MOST: usize = 4;

/// What has been looked up, shared by all workers.
///
/// Without it, a name is looked up for every request, also when a connection to it is open.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    known: Arc<Mutex<BTreeMap<String, (Instant, ResolvedSocketAddrs)>>>,
    system: Arc<DefaultResolver>,
}

impl Names {
    /// Forgets what could not be connected to.
    pub(super) fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Resolver for Names {
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
