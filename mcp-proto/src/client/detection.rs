//! Detection of a server's era: a separate state machine, without messages and without time (RULES 10.1, 10.2).
//!
//! ```text
//!             DiscoverResult, or -32022 with a revision in common
//!  Discover ─────────────────────────────────────────────────────▶ Adopt
//!     │  ▲ -32022 to `initialize`, once (ER-08)
//!     ▼  │
//!  Initialize   any other error; on a byte stream also silence, or the end of the process
//!     │  ▲
//!     └──┘ refused because of its revision: InitializeAs, with an older one
//! ```

use std::collections::BTreeSet;

use super::detected_era::{DetectedBy, DetectedEra};
use super::event::Unavailable;
use crate::conversation::outcome::Outcome;
use crate::error::{Failed, InvalidResponse};
use crate::json::Json;
use crate::jsonrpc::ErrorObject;
use crate::spec::status::is_inconclusive;
use crate::spec::{Era, ProtocolVersion, SupportedVersions, code};

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Send `server/discover` in this revision (ER-01, ER-20).
    Discover(ProtocolVersion),
    /// Open a session with `initialize`, offering this revision.
    Initialize(ProtocolVersion),
    /// Open a session with `initialize` once more, offering this revision instead of the one that was refused.
    InitializeAs(ProtocolVersion),
    /// Use this revision of the modern era.
    Adopt(ProtocolVersion),
    /// The connection cannot be made.
    Fail(Unavailable),
}

/// The state of the detection: the allowed revisions, and the results so far.
#[derive(Debug)]
pub(super) struct Detection {
    versions: SupportedVersions,
    /// The era that was known at the start, or with which a connection was made.
    settled: Option<DetectedEra>,
    detected_era: Option<DetectedEra>,
    /// Revisions that were tried again because the server named them (MD-V-02).
    corrected: BTreeSet<ProtocolVersion>,
    /// The server refused `initialize` with this, after which `server/discover` was sent to find out its era.
    refused: Option<Unavailable>,
    /// The server refused `initialize` first with this, because of its revision.
    version_refused: Option<Unavailable>,
    /// Legacy revisions that the server refused.
    refused_versions: BTreeSet<ProtocolVersion>,
    has_asked_again: bool,
    /// `server/discover` was sent to the server's process, which was not restarted since.
    has_asked_process: bool,
    /// The era of the server's process, if the process was sent `initialize` on a byte stream and was not restarted
    /// since. The era stays (ER-09), because the two eras must not be mixed (ER-11).
    of_process: Option<DetectedEra>,
    /// A missing answer means a legacy server, because nothing else can be the reason (ER-04, ER-26).
    silence_means_legacy: bool,
}

impl Detection {
    /// A detection among these revisions.
    pub(super) fn new(versions: &[ProtocolVersion], known: Option<DetectedEra>, silence_means_legacy: bool) -> Self {
        let versions = SupportedVersions::new(versions);
        let only = versions.only_era().map(|era| DetectedEra { era, by: DetectedBy::Configured });
        Self {
            versions,
            settled: only.or(known),
            detected_era: only.or(known),
            corrected: BTreeSet::new(),
            refused: None,
            version_refused: None,
            refused_versions: BTreeSet::new(),
            has_asked_again: false,
            has_asked_process: false,
            of_process: None,
            silence_means_legacy,
        }
    }

    /// Starts the detection over, and returns the first step.
    pub(super) fn begin(&mut self) -> Step {
        self.corrected.clear();
        self.refused = None;
        self.version_refused = None;
        self.refused_versions.clear();
        self.has_asked_again = false;
        self.detected_era = self.settled.or(self.of_process);
        let is_known_legacy = self.detected_era.is_some_and(|detected_era| detected_era.era == Era::Legacy);
        match self.versions.newest_modern().filter(|_| !is_known_legacy) {
            // `server/discover` is sent even if only a modern server is possible, to detect one that is not (ER-10).
            Some(newest) => self.discover(newest),
            None => self.initialize(None),
        }
    }

    /// Whether a missing answer to `server/discover` means a legacy server.
    pub(super) fn silence_means_legacy(&self) -> bool {
        self.silence_means_legacy && !self.is_known_modern() && self.versions.newest_legacy().is_some()
    }

    pub(super) const fn detected_era(&self) -> Option<DetectedEra> {
        self.detected_era
    }

    /// The step that follows the outcome of `server/discover`.
    pub(super) fn on_discovered(&mut self, outcome: &Outcome) -> Step {
        match outcome {
            // A valid result means a modern server (ER-02).
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
                    // A client error shows the era, unless it is about credentials or load (ER-23, ER-26).
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
                    | Failed::NotAStream { .. }
                    | Failed::ContentEncoding
                    | Failed::Redirected { .. }
                    | Failed::TooLarge { .. }
                    | Failed::SessionLost
                    | Failed::VersionChanged { .. }
                    | Failed::NoCommonVersion { .. }
                    | Failed::InvalidSessionId
                    | Failed::EndpointRejected { .. }
                    | Failed::NoEndpoint
                    | Failed::NoInput { .. }
                    | Failed::EndedByServer
                    | Failed::NotInRevision { .. }
                    | Failed::QueueFull { .. }
                    | Failed::NoRoom { .. }
                    | Failed::NotAuthorized { .. }
                    | Failed::ProcessEnded { .. }
                    | Failed::NotStarted(_)
                    | Failed::NoMessages { .. }
                    | Failed::Closed => return Step::Fail(Unavailable::Failed(reason.clone())),
                };
                self.legacy(by, Unavailable::Failed(reason.clone()))
            }
        }
    }

    /// The step that follows an error response to `server/discover` (ER-24, ER-25).
    fn on_error(&mut self, error: &ErrorObject) -> Step {
        let by = DetectedBy::Error { code: error.code() };
        match error.code() {
            code::UNSUPPORTED_PROTOCOL_VERSION => match supported_versions(error) {
                // `server/discover` is sent again at most once for each common revision (ER-03, MD-V-02).
                Some(named) => match self.choose(&named, by, Step::Discover) {
                    Step::Discover(version) if !self.corrected.insert(version) => {
                        Step::Fail(Unavailable::Error(error.clone()))
                    }
                    step @ (Step::Discover(_)
                    | Step::Initialize(_)
                    | Step::InitializeAs(_)
                    | Step::Adopt(_)
                    | Step::Fail(_)) => step,
                },
                None => self.legacy(by, Unavailable::Error(error.clone())),
            },
            code::HEADER_MISMATCH | code::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                Step::Fail(Unavailable::Error(error.clone()))
            }
            // Any other error means a legacy server, whatever its code is (ER-05).
            _ => self.legacy(by, Unavailable::Error(error.clone())),
        }
    }

    /// The step that follows a refused `initialize` with the revision `offered`. If the revision is the reason, the
    /// next step offers an older one, with which the server should have answered (LC-05). Otherwise, the server may be
    /// a modern one that answered `server/discover` too late (ER-08) or did not receive it. `server/discover` is sent
    /// at most once more.
    ///
    /// # Errors
    ///
    /// The reason, if it does not point to a modern server or nothing is left to try.
    pub(super) fn on_initialize_refused(
        &mut self,
        reason: Unavailable,
        offered: Option<ProtocolVersion>,
    ) -> Result<Step, Unavailable> {
        if let Some(older) = offered.and_then(|offered| self.older_version(&reason, offered)) {
            self.version_refused.get_or_insert(reason);
            return Ok(Step::InitializeAs(older));
        }
        // The first refusal was of the revision that the client prefers.
        let reason = self.version_refused.take().unwrap_or(reason);
        let may_be_modern = match &reason {
            // Errors that a modern server sends: with its revisions (ER-42), or because `_meta` or headers are missing.
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
        let Some(newest) = self.versions.newest_modern().filter(|_| may_be_modern && !self.has_asked_again) else {
            return Err(reason);
        };
        self.has_asked_again = true;
        self.detected_era = None;
        self.of_process = None;
        self.refused = Some(reason);
        Ok(self.discover(newest))
    }

    /// The revision to offer instead of `offered`, if that is why `initialize` was refused: the newest of those that the
    /// server names, or the next older one.
    fn older_version(&mut self, reason: &Unavailable, offered: ProtocolVersion) -> Option<ProtocolVersion> {
        let (text, mut named) = match reason {
            // It names the revisions of a modern server, which answers `server/discover` (ER-42).
            Unavailable::Error(error) if error.code() == code::UNSUPPORTED_PROTOCOL_VERSION => return None,
            Unavailable::Error(error) => (error.message(), supported_versions(error).unwrap_or_default()),
            Unavailable::Failed(Failed::Refused(refusal)) => (refusal.explanation.as_ref()?.to_string(), Vec::new()),
            Unavailable::Failed(_) => return None,
        };
        if named.is_empty() && !is_about_version(&text) {
            return None;
        }
        let all = ProtocolVersion::ALL.iter().copied();
        named.extend(all.clone().filter(|version| *version != offered && text.contains(version.as_str())));
        if named.is_empty() {
            named.extend(all.filter(|version| *version < offered));
        }
        self.refused_versions.insert(offered);
        named.retain(|version| !self.refused_versions.contains(version));
        self.versions.in_common_with(&named).newest_legacy()
    }

    /// The connection was made.
    pub(super) fn settle(&mut self) {
        self.settled = self.detected_era;
    }

    /// The era that the next connection starts with.
    pub(super) const fn settled(&self) -> Option<DetectedEra> {
        self.settled
    }

    /// The step that follows the exit of the server's process while the connection is being made. If the process was
    /// sent `server/discover`, a new process may accept `initialize` (ER-06).
    pub(super) fn on_exit(&mut self) -> Option<Step> {
        let newest = self.versions.newest_legacy().filter(|_| self.has_asked_process)?;
        self.has_asked_process = false;
        self.set_legacy(DetectedBy::Exited);
        Some(Step::Initialize(newest))
    }

    /// The best revision of those that the server named: the newest common one, modern ones first (A4, ER-30).
    fn choose(&mut self, named: &[ProtocolVersion], by: DetectedBy, then: fn(ProtocolVersion) -> Step) -> Step {
        let common = self.versions.in_common_with(named);
        if let Some(version) = common.newest_modern() {
            self.detected_era = Some(DetectedEra::modern(by));
            return then(version);
        }
        match common.newest_legacy() {
            Some(version) => {
                self.set_legacy(by);
                self.initialize(Some(version))
            }
            None => Step::Fail(self.no_common_version()),
        }
    }

    /// The server is not a modern one. If the client supports no legacy revision, the detection fails: with `reason`
    /// after a timeout, otherwise because there is no common revision.
    fn legacy(&mut self, by: DetectedBy, reason: Unavailable) -> Step {
        if self.versions.newest_legacy().is_none() {
            let is_answer = !matches!(reason, Unavailable::Failed(Failed::TimedOut { .. }));
            return Step::Fail(if is_answer { self.no_common_version() } else { reason });
        }
        if let Some(refused) = self.refused.take() {
            return Step::Fail(refused);
        }
        self.set_legacy(by);
        self.initialize(None)
    }

    fn set_legacy(&mut self, by: DetectedBy) {
        self.detected_era = Some(DetectedEra::legacy(by));
        self.of_process = self.detected_era.filter(|_| self.silence_means_legacy);
    }

    fn initialize(&self, version: Option<ProtocolVersion>) -> Step {
        match version.or(self.versions.newest_legacy()) {
            Some(version) => Step::Initialize(version),
            None => Step::Fail(self.no_common_version()),
        }
    }

    fn no_common_version(&self) -> Unavailable {
        Unavailable::Failed(Failed::NoCommonVersion { supported: self.versions.as_slice().into() })
    }

    const fn discover(&mut self, version: ProtocolVersion) -> Step {
        self.has_asked_process = true;
        Step::Discover(version)
    }

    fn is_known_modern(&self) -> bool {
        self.detected_era.is_some_and(|detected_era| detected_era.era == Era::Modern)
    }
}

/// Whether the explanation of a refusal is about the revision.
pub(super) fn is_about_version(explanation: &str) -> bool {
    let explanation = explanation.to_ascii_lowercase();
    ["protocol version", "protocolversion", "protocol-version", "unsupported version", "mcp version"]
        .iter()
        .any(|words| explanation.contains(words))
}

/// The known revisions in `data.supported` of an error that rejects a revision.
pub(super) fn supported_versions(error: &ErrorObject) -> Option<Vec<ProtocolVersion>> {
    named_versions(error.data().and_then(|data| data.first_member("supported")))
}

/// The known revisions of an array of their names; `None` if the value is not an array.
fn named_versions(names: Option<Json>) -> Option<Vec<ProtocolVersion>> {
    let names = names.filter(|names| names.as_bytes().starts_with(b"["))?;
    let version = |name: Json| name.as_string().and_then(|name| ProtocolVersion::from_text(&name));
    Some(names.elements().filter_map(version).collect())
}

/// Whether a status shows what the server supports, and is not about credentials or load (ER-23, ER-26).
fn shows_era(status: http::StatusCode) -> bool {
    status.is_client_error() && !is_inconclusive(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: i64 = code::INVALID_PARAMS;
    const NEWEST: ProtocolVersion = ProtocolVersion::V2025_11_25;

    fn detection() -> Detection {
        Detection::new(ProtocolVersion::ALL, None, false)
    }

    fn refusal(code: i64, message: &str) -> Unavailable {
        Unavailable::Error(ErrorObject::new(code, message))
    }

    #[test]
    fn lc_05_words_about_the_revision_are_known_however_they_are_written() {
        for (message, is_known) in [
            ("Unsupported protocol version", true),
            ("unknown protocolVersion", true),
            ("Bad MCP-Protocol-Version", true),
            ("unsupported version 7", true),
            ("No such MCP version", true),
            ("the version of the plan has expired", false),
        ] {
            let step = detection().on_initialize_refused(refusal(REFUSED, message), Some(NEWEST));
            let offers_older = step == Ok(Step::InitializeAs(ProtocolVersion::V2025_06_18));
            assert_eq!(offers_older, is_known, "{message}: {step:?}");
        }
    }

    #[test]
    fn lc_05_a_server_that_names_each_revision_that_it_does_not_refuse_ends_the_detection() {
        let mut detection = Detection::new(&[ProtocolVersion::V2025_06_18, NEWEST], None, false);
        for (offered, named, next) in [
            (NEWEST, "2025-06-18", Ok(Step::InitializeAs(ProtocolVersion::V2025_06_18))),
            (ProtocolVersion::V2025_06_18, "2025-11-25", Err(refusal(REFUSED, "protocol version: use 2025-06-18"))),
        ] {
            let reason = refusal(REFUSED, &format!("protocol version: use {named}"));
            assert_eq!(detection.on_initialize_refused(reason, Some(offered)), next);
        }
    }

    #[test]
    fn er_42_a_refusal_with_the_code_of_modern_servers_offers_no_older_revision() {
        let supported = Json::parse(r#"{"supported":["2025-06-18","2026-07-28"]}"#).unwrap();
        let message = "Unsupported protocol version; use 2025-06-18";
        let error = ErrorObject::with_data(code::UNSUPPORTED_PROTOCOL_VERSION, message, &supported);
        let step = detection().on_initialize_refused(Unavailable::Error(error), Some(NEWEST));
        assert_eq!(step, Ok(Step::Discover(ProtocolVersion::V2026_07_28)));
    }

    #[test]
    fn a_detection_that_begins_again_remembers_no_refusal() {
        let mut detection = detection();
        let first = refusal(REFUSED, "Unsupported protocol version");
        let older = Ok(Step::InitializeAs(ProtocolVersion::V2025_06_18));
        assert_eq!(detection.on_initialize_refused(first, Some(NEWEST)), older);
        detection.begin();
        let named = refusal(REFUSED, "Unsupported protocol version: use 2025-11-25");
        let step = detection.on_initialize_refused(named, Some(ProtocolVersion::V2025_06_18));
        assert_eq!(step, Ok(Step::InitializeAs(NEWEST)), "it was refused before");
        detection.begin();
        let other = refusal(code::INTERNAL_ERROR, "the database is away");
        assert_eq!(detection.on_initialize_refused(other.clone(), Some(NEWEST)), Err(other));
        let supported = Json::parse(r#"{"supported":["2026-07-28"]}"#).unwrap();
        let corrects = ErrorObject::with_data(code::UNSUPPORTED_PROTOCOL_VERSION, "no", &supported);
        for _ in 0..2 {
            detection.begin();
            let step = detection.on_discovered(&Outcome::Error(corrects.clone()));
            assert_eq!(step, Step::Discover(ProtocolVersion::V2026_07_28));
        }
        let step = detection.on_discovered(&Outcome::Error(corrects.clone()));
        assert_eq!(step, Step::Fail(Unavailable::Error(corrects)));
    }
}
