//! What happens in a run, determined by its seed.

use std::time::Duration;

use mcp_auth::Grant;
use mcp_testkit::random::Random;

/// How the servers, the person and the processes of a run act.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is drawn by itself")]
pub(super) struct Settings {
    pub(super) processes: usize,
    /// The clients use only revisions that begin with `initialize`.
    pub(super) is_legacy: bool,
    pub(super) grant: Grant,
    /// The lifetime of access tokens.
    pub(super) lifetime: Option<Duration>,
    pub(super) refreshes: bool,
    /// Each refresh token can be used once.
    pub(super) rotates: bool,
    /// The resource demands tokens that are bound to a key.
    pub(super) binds: bool,
    /// The resource demands new nonces now and then.
    pub(super) has_nonces: bool,
    /// Nothing fails, and the person always signs in at once.
    pub(super) is_calm: bool,
    /// One of so many requests meets a fault.
    pub(super) fault_in: u64,
    /// The calls of each process.
    pub(super) calls: u64,
    /// The time in which they are made.
    pub(super) span: Duration,
    /// How often a process ends without notice, tokens are revoked, and so on.
    pub(super) changes: u64,
    /// Clients that register themselves receive secrets, which expire.
    pub(super) has_secrets: bool,
}

impl Settings {
    pub(super) fn new(random: &mut Random) -> Self {
        let is_calm = random.one_in(5);
        let lifetime = *random.pick(&[Some(30), Some(130), Some(600), None]);
        Self {
            processes: usize::try_from(1 + random.below(5)).expect("a few"),
            is_legacy: random.one_in(2),
            grant: match random.below(10) {
                0 => Grant::ClientCredentials,
                1 | 2 => Grant::DeviceCode,
                _ => Grant::AuthorizationCode,
            },
            lifetime: lifetime.map(Duration::from_secs),
            refreshes: !random.one_in(5),
            rotates: !random.one_in(6),
            binds: random.one_in(4),
            has_nonces: random.one_in(2),
            is_calm,
            fault_in: if is_calm { u64::MAX } else { *random.pick(&[5, 15, 60]) },
            calls: 5 + random.below(40),
            span: Duration::from_secs(300 + random.below(3000)),
            changes: if is_calm { 0 } else { random.below(12) },
            has_secrets: random.one_in(4),
        }
    }

    /// The calls of all processes.
    pub(super) fn all_calls(&self) -> usize {
        self.processes * usize::try_from(self.calls).expect("few calls")
    }

    /// The calls and changes.
    pub(super) fn steps(&self) -> usize {
        self.all_calls() + usize::try_from(self.changes).expect("few changes")
    }
}

/// A change of the surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A process ends without notice; another one is started in its place.
    Crash(usize),
    /// The authorization server revokes all tokens.
    Revoke,
    /// It loses the clients that have registered themselves.
    ForgetClients,
    /// The resource moves to the other authorization server.
    Migrate,
    /// The resource refuses all tokens.
    BeginStorm,
    /// It accepts valid tokens again.
    EndStorm,
    /// A host answers nothing, or with errors, for a while.
    BeginOutage(Host),
    /// It answers again.
    EndOutage,
}

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
    Resource,
    Issuer,
}

impl Change {
    pub(super) fn draw(settings: &Settings, random: &mut Random) -> Self {
        let processes = u64::try_from(settings.processes).expect("a few");
        match random.below(10) {
            0..=3 => Self::Crash(usize::try_from(random.below(processes)).expect("a few")),
            4 | 5 => Self::Revoke,
            6 => Self::ForgetClients,
            7 => Self::Migrate,
            8 => Self::BeginStorm,
            _ => Self::BeginOutage(if random.one_in(2) { Host::Resource } else { Host::Issuer }),
        }
    }
}
