//! The era of the backends of each owner, which decides where stateless requests are served.
//!
//! Only a successful handshake shows the era. The answer of one owner's backend says nothing about the backends of
//! another owner, because a server may behave differently for each.

use mcp_proto::Instant;

use super::recent::Recent;
use crate::relay::Owner;
use crate::restart::Restart;

/// What is known about the backends of each owner.
pub(super) struct Eras(Recent<Owner, Known>);

enum Known {
    /// The backends serve stateless requests.
    Modern,
    /// The backends begin with `initialize`.
    Legacy,
    /// A backend has exited before it answered `server/discover`: some servers of older revisions exit on a request
    /// that they do not know (ER-06). During the pause, they are treated as legacy ones.
    Exited(Restart),
}

impl Eras {
    pub(super) const fn new() -> Self {
        Self(Recent::new())
    }

    /// Whether backends of this owner are opened with `initialize`.
    pub(super) fn is_legacy(&self, owner: &Owner, now: Instant) -> bool {
        match self.0.get(owner) {
            Some(Known::Legacy) => true,
            Some(Known::Exited(restart)) => restart.pause(now).is_some(),
            Some(Known::Modern) | None => false,
        }
    }

    /// A backend of this owner has answered the request that opened it.
    pub(super) fn on_opened(&mut self, owner: &Owner, is_stateless: bool) {
        self.0.insert(owner.clone(), if is_stateless { Known::Modern } else { Known::Legacy });
    }

    /// A backend of this owner has exited before it answered `server/discover`. Returns whether it may be one of an older
    /// revision.
    pub(super) fn on_exited(&mut self, owner: &Owner, now: Instant) -> bool {
        let mut restart = match self.0.remove(owner) {
            Some(known @ (Known::Modern | Known::Legacy)) => {
                self.0.insert(owner.clone(), known);
                return false;
            }
            Some(Known::Exited(restart)) => restart,
            None => Restart::new(),
        };
        restart.on_failure(now);
        self.0.insert(owner.clone(), Known::Exited(restart));
        true
    }

    /// A backend of this owner, which was assumed to be of an older revision, has not answered `initialize` either.
    pub(super) fn on_not_opened(&mut self, owner: &Owner) {
        if matches!(self.0.get(owner), Some(Known::Exited(_))) {
            self.0.remove(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_exit_decides_nothing_for_longer_than_a_pause_and_nothing_for_another_owner() {
        let (mut eras, mut now) = (Eras::new(), Instant::START);
        let (everyone, other) = (Owner::Everyone, Owner::Unauthenticated);
        assert!(!eras.is_legacy(&everyone, now));
        for seconds in [1, 2, 4] {
            assert!(eras.on_exited(&everyone, now) && eras.is_legacy(&everyone, now) && !eras.is_legacy(&other, now));
            now += Duration::from_secs(seconds);
            assert!(!eras.is_legacy(&everyone, now), "after {seconds} s");
        }
        assert!(eras.on_exited(&everyone, now));
        eras.on_not_opened(&everyone);
        assert!(!eras.is_legacy(&everyone, now), "it has not answered initialize either");
        assert!(eras.on_exited(&everyone, now));
        eras.on_opened(&everyone, false);
        now += Duration::from_secs(60);
        assert!(!eras.on_exited(&everyone, now) && eras.is_legacy(&everyone, now) && !eras.is_legacy(&other, now));
        eras.on_not_opened(&everyone);
        assert!(eras.is_legacy(&everyone, now), "it is known");
        eras.on_opened(&everyone, true);
        assert!(!eras.on_exited(&everyone, now) && !eras.is_legacy(&everyone, now));
    }
}
