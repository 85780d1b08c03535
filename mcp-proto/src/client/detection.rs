//! Finding out which era a server belongs to: a state machine of its own, without messages and without time (RULES
//! 10.1, 10.2).
//!
//! ```text
//!             DiscoverResult, or -32022 with a revision in common
//!  Discover ─────────────────────────────────────────────────────▶ Adopt
//!     │  ▲ -32022 to `initialize`, once (ER-08)
//!     ▼  │
//!  Initialize   any other error; on a byte stream also silence, or the end of the process
//! ```

use std::collections::BTreeSet;
use std::fmt;

use super::event::{Outcome, Unavailable};
use crate::codec::json::Json;
use crate::codec::jsonrpc::ErrorObject;
use crate::error::{Failed, InvalidResponse};
use crate::spec::code;
use crate::spec::{Era, ProtocolVersion};

/// Which era a server belongs to, and what told so.
///
/// It may be kept and handed back in [`Config::known_era`](super::Config), so that the next connection asks no question
/// that was answered. A server may have changed meanwhile: give what you keep an expiry (ER-09).
///
/// # Example
///
/// ```
/// use mcp_proto::Era;
/// use mcp_proto::client::{Config, DetectedEra};
///
/// let mut config = Config::new("my-app", "1.0.0");
/// config.known_era = Some(DetectedEra::known(Era::Legacy));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetectedEra {
    /// The era.
    pub era: Era,
    /// What told so.
    pub by: DetectedBy,
}

impl DetectedEra {
    /// An era that is known from an earlier connection.
    #[must_use]
    pub const fn known(era: Era) -> Self {
        Self { era, by: DetectedBy::Known }
    }
}

/// What told which era a server belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DetectedBy {
    /// Nothing else was allowed.
    Configured,
    /// It was known before.
    Known,
    /// It answered `server/discover`.
    Discovered,
    /// It answered `server/discover` with an error of this code.
    Error {
        /// The code.
        code: i64,
    },
    /// It answered `server/discover` with this HTTP status and no JSON-RPC error.
    Status {
        /// The status.
        status: u16,
    },
    /// It answered `server/discover` with something else than its revisions.
    OtherAnswer,
    /// It did not answer `server/discover`.
    Silence,
    /// Its process ended when it was asked.
    Exited,
}

impl fmt::Display for DetectedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("nothing else was allowed"),
            Self::Known => f.write_str("it was known before"),
            Self::Discovered => f.write_str("it answered server/discover"),
            Self::Error { code } => write!(f, "it answered server/discover with error {code}"),
            Self::Status { status } => write!(f, "it answered server/discover with status {status}"),
            Self::OtherAnswer => f.write_str("it answered server/discover with something else"),
            Self::Silence => f.write_str("it did not answer server/discover"),
            Self::Exited => f.write_str("it ended when it was asked server/discover"),
        }
    }
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask with `server/discover`, in this revision (ER-01, ER-20).
    Discover(ProtocolVersion),
    /// Open a session with `initialize`, offering this revision.
    Initialize(ProtocolVersion),
    /// Go on in this revision of the modern era.
    Adopt(ProtocolVersion),
    /// There is no connection.
    Fail(Unavailable),
}

/// What is allowed, and what is known so far.
#[derive(Debug)]
pub(super) struct Detection {
    versions: Vec<ProtocolVersion>,
    /// What was known at the beginning, or was found out for good: a connection was made.
    settled: Option<DetectedEra>,
    detected_era: Option<DetectedEra>,
    /// MD-V-02: revisions that were tried again because the server named them.
    corrected: BTreeSet<ProtocolVersion>,
    /// The server refused `initialize` with this, and is asked what it is.
    refused: Option<Unavailable>,
    has_asked_again: bool,
    /// The server's process was asked with `server/discover`, and has not been started anew since.
    has_asked_process: bool,
    /// Silence tells something: nothing else than the server can be the reason (ER-04, ER-26).
    silence_means_legacy: bool,
}

impl Detection {
    /// A detection among these revisions.
    pub(super) fn new(versions: &[ProtocolVersion], known: Option<DetectedEra>, silence_means_legacy: bool) -> Self {
        let mut eras = versions.iter().map(|version| version.rules().era);
        let first = eras.next().unwrap_or(Era::Legacy);
        let only = eras.all(|era| era == first).then_some(DetectedEra { era: first, by: DetectedBy::Configured });
        Self {
            versions: versions.to_vec(),
            settled: only.or(known),
            detected_era: only.or(known),
            corrected: BTreeSet::new(),
            refused: None,
            has_asked_again: false,
            has_asked_process: false,
            silence_means_legacy,
        }
    }

    /// What to begin with.
    pub(super) fn begin(&mut self) -> Step {
        self.corrected.clear();
        self.refused = None;
        self.has_asked_again = false;
        self.detected_era = self.settled;
        match (self.newest(Era::Modern), self.detected_era.map(|detected_era| detected_era.era)) {
            (None, _) | (Some(_), Some(Era::Legacy)) => self.initialize(None),
            // ER-10: a server that can only be modern is asked too, so that one that is not is found out.
            (Some(newest), Some(Era::Modern) | None) => self.discover(newest),
        }
    }

    /// Whether it tells something if there is no answer to `server/discover`.
    pub(super) fn silence_means_legacy(&self) -> bool {
        self.silence_means_legacy && !self.is_known_modern() && self.newest(Era::Legacy).is_some()
    }

    pub(super) const fn detected_era(&self) -> Option<DetectedEra> {
        self.detected_era
    }

    /// What follows from the outcome of `server/discover`.
    pub(super) fn on_discovered(&mut self, outcome: &Outcome) -> Step {
        match outcome {
            // ER-02
            Outcome::Result(result) => {
                if let Some(named) = named_versions(result.first_member("supportedVersions")) {
                    return self.choose(&named, DetectedBy::Discovered, Step::Adopt);
                }
                let reason = InvalidResponse::Incomplete { method: "server/discover" };
                self.legacy(DetectedBy::OtherAnswer, Unavailable::Failed(Failed::InvalidResponse { reason }))
            }
            Outcome::Error(error) => self.on_error(error),
            Outcome::Failed(reason) => {
                let by = match reason {
                    Failed::TimedOut { .. } if self.silence_means_legacy() => DetectedBy::Silence,
                    // ER-23, ER-26
                    Failed::Refused(refusal) if shows_era(refusal.status) => {
                        DetectedBy::Status { status: refusal.status.as_u16() }
                    }
                    Failed::InvalidResponse { .. } | Failed::NoAnswer { .. } | Failed::ContentType { .. } => {
                        DetectedBy::OtherAnswer
                    }
                    Failed::TimedOut { .. }
                    | Failed::Refused(_)
                    | Failed::Cancelled
                    | Failed::Unreachable { .. }
                    | Failed::Broken { .. }
                    | Failed::StreamEnded
                    | Failed::ContentEncoding
                    | Failed::Redirected { .. }
                    | Failed::TooLarge { .. }
                    | Failed::SessionLost
                    | Failed::VersionChanged { .. }
                    | Failed::NoCommonVersion { .. }
                    | Failed::InvalidSessionId
                    | Failed::EndpointRejected
                    | Failed::NoEndpoint
                    | Failed::NoInput { .. }
                    | Failed::EndedByServer
                    | Failed::NotInRevision { .. }
                    | Failed::QueueFull { .. }
                    | Failed::NoRoom { .. }
                    | Failed::Closed => return Step::Fail(Unavailable::Failed(reason.clone())),
                };
                self.legacy(by, Unavailable::Failed(reason.clone()))
            }
        }
    }

    /// What follows from an error that answers `server/discover` (ER-24, ER-25).
    fn on_error(&mut self, error: &ErrorObject) -> Step {
        let by = DetectedBy::Error { code: error.code() };
        match error.code() {
            code::UNSUPPORTED_PROTOCOL_VERSION => match supported_versions(error) {
                // ER-03, MD-V-02: once more for each revision that both speak.
                Some(named) => match self.choose(&named, by, Step::Discover) {
                    Step::Discover(version) if !self.corrected.insert(version) => {
                        Step::Fail(Unavailable::Error(error.clone()))
                    }
                    step @ (Step::Discover(_) | Step::Initialize(_) | Step::Adopt(_) | Step::Fail(_)) => step,
                },
                None => self.legacy(by, Unavailable::Error(error.clone())),
            },
            code::HEADER_MISMATCH | code::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                Step::Fail(Unavailable::Error(error.clone()))
            }
            // ER-05: whatever the code is.
            _ => self.legacy(by, Unavailable::Error(error.clone())),
        }
    }

    /// The server refused `initialize`, or gives the reason back. It may be a modern one that was too slow to say so
    /// (ER-08), or was not asked; whatever else it is, it is asked no third time.
    ///
    /// # Errors
    ///
    /// The reason, if it tells nothing about the era.
    pub(super) fn on_initialize_refused(&mut self, reason: Unavailable) -> Result<Step, Unavailable> {
        let may_be_modern = match &reason {
            // ER-42, and what servers say that miss `_meta` or headers.
            Unavailable::Error(error) => matches!(
                error.code(),
                code::UNSUPPORTED_PROTOCOL_VERSION
                    | code::METHOD_NOT_FOUND
                    | code::HEADER_MISMATCH
                    | code::INVALID_PARAMS
            ),
            Unavailable::Failed(Failed::Refused(refusal)) => shows_era(refusal.status),
            Unavailable::Failed(_) => false,
        };
        let Some(newest) = self.newest(Era::Modern).filter(|_| may_be_modern && !self.has_asked_again) else {
            return Err(reason);
        };
        self.has_asked_again = true;
        self.detected_era = None;
        self.refused = Some(reason);
        Ok(self.discover(newest))
    }

    /// The connection was made.
    pub(super) fn settle(&mut self) {
        self.settled = self.detected_era;
    }

    /// What holds for the next connection too.
    pub(super) const fn settled(&self) -> Option<DetectedEra> {
        self.settled
    }

    /// The server's process has ended while the connection was being made. ER-06: if it was asked what only a modern
    /// server knows, a new one may take `initialize`.
    pub(super) fn on_exit(&mut self) -> Option<Step> {
        let newest = self.newest(Era::Legacy).filter(|_| self.has_asked_process)?;
        self.has_asked_process = false;
        self.detected_era = Some(DetectedEra { era: Era::Legacy, by: DetectedBy::Exited });
        Some(Step::Initialize(newest))
    }

    /// The best revision out of those that the server names: a modern one if there is any in common (A4, ER-30).
    fn choose(&mut self, named: &[ProtocolVersion], by: DetectedBy, then: fn(ProtocolVersion) -> Step) -> Step {
        let mutual = |era| {
            let mutual = self.versions.iter().filter(|version| version.rules().era == era && named.contains(version));
            mutual.max().copied()
        };
        if let Some(version) = mutual(Era::Modern) {
            self.detected_era = Some(DetectedEra { era: Era::Modern, by });
            return then(version);
        }
        match mutual(Era::Legacy) {
            Some(version) => {
                self.detected_era = Some(DetectedEra { era: Era::Legacy, by });
                self.initialize(Some(version))
            }
            None => Step::Fail(self.no_common_version()),
        }
    }

    /// The server is no modern one. Who speaks nothing else learns why.
    fn legacy(&mut self, by: DetectedBy, reason: Unavailable) -> Step {
        if self.newest(Era::Legacy).is_none() {
            let is_answer = !matches!(reason, Unavailable::Failed(Failed::TimedOut { .. }));
            return Step::Fail(if is_answer { self.no_common_version() } else { reason });
        }
        if let Some(refused) = self.refused.take() {
            return Step::Fail(refused);
        }
        self.detected_era = Some(DetectedEra { era: Era::Legacy, by });
        self.initialize(None)
    }

    fn initialize(&self, version: Option<ProtocolVersion>) -> Step {
        match version.or(self.newest(Era::Legacy)) {
            Some(version) => Step::Initialize(version),
            None => Step::Fail(self.no_common_version()),
        }
    }

    fn no_common_version(&self) -> Unavailable {
        Unavailable::Failed(Failed::NoCommonVersion { spoken: self.versions.as_slice().into() })
    }

    const fn discover(&mut self, version: ProtocolVersion) -> Step {
        self.has_asked_process = true;
        Step::Discover(version)
    }

    fn is_known_modern(&self) -> bool {
        self.detected_era.is_some_and(|detected_era| detected_era.era == Era::Modern)
    }

    fn newest(&self, era: Era) -> Option<ProtocolVersion> {
        self.versions.iter().filter(|version| version.rules().era == era).max().copied()
    }
}

/// `data.supported` of an error that a revision is not served, as far as they are known.
pub(super) fn supported_versions(error: &ErrorObject) -> Option<Vec<ProtocolVersion>> {
    named_versions(error.data().and_then(|data| data.first_member("supported")))
}

/// The known revisions of an array of their names; `None` if it is none.
fn named_versions(names: Option<Json>) -> Option<Vec<ProtocolVersion>> {
    let names = names.filter(|names| names.as_bytes().starts_with(b"["))?;
    let version = |name: Json| name.as_string().and_then(|name| ProtocolVersion::from_text(&name));
    Some(names.elements().filter_map(version).collect())
}

/// ER-23, ER-26: whether a status says something about what a server understands, and not about credentials or load.
fn shows_era(status: http::StatusCode) -> bool {
    status.is_client_error() && !says_nothing(status)
}

/// ER-26, ER-29: these say something about credentials and load, and nothing about the protocol.
pub(super) fn says_nothing(status: http::StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 407 | 408 | 425 | 429) || status.is_server_error()
}
