//! The five published revisions, and everything that differs between them.
//!
//! Only this module compares revisions; other code reads [`ProtocolVersion::rules`].

use std::fmt;

use crate::spec::{Method, code};

/// A published revision of the Model Context Protocol.
///
/// # Example
///
/// ```
/// use mcp_proto::{Era, ProtocolVersion};
///
/// let version = ProtocolVersion::from_text("2025-03-26").unwrap();
/// assert!(version.rules().batches);
/// assert_eq!(version.rules().era, Era::Legacy);
/// assert_eq!(ProtocolVersion::from_text("2025-03-27"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// The first revision, with the two-endpoint HTTP+SSE transport.
    V2024_11_05,
    /// Streamable HTTP; batches.
    V2025_03_26,
    /// No batches; a header with the revision; elicitation.
    V2025_06_18,
    /// Streams that the server may close early and the client resumes; elicitation of URLs; tasks.
    V2025_11_25,
    /// No handshake, no session, no requests from the server: each request is self-contained.
    V2026_07_28,
    /// The next revision, as far as it is drafted. It is in no default configuration, and its rules change with the draft.
    #[cfg(feature = "draft")]
    Draft,
}

impl ProtocolVersion {
    /// All published revisions, oldest first.
    pub const ALL: &'static [Self] =
        &[Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The draft of the next revision, which is not published.
    const DRAFTS: &'static [Self] = &[
        #[cfg(feature = "draft")]
        Self::Draft,
    ];

    /// The newest published revision.
    pub const LATEST: Self = Self::V2026_07_28;

    /// The newest revision that begins with `initialize`.
    ///
    /// Rules: LC-03.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;

    /// The only revision with authorization whose servers publish no metadata of their resource.
    ///
    /// Rules: OA-L-01.
    pub const WITHOUT_RESOURCE_METADATA: Self = Self::V2025_03_26;

    /// The revision with this name, if there is one.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.iter().chain(Self::DRAFTS).copied().find(|version| version.as_str() == text)
    }

    /// The revision's name: a date, or that of a draft.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
            // Drafts have such names until the date is known.
            #[cfg(feature = "draft")]
            Self::Draft => "DRAFT-2026-v2",
        }
    }

    /// The revision of a request over HTTP that has neither a session nor the header of the revision.
    pub(crate) const WITHOUT_HEADER: Self = Self::V2025_03_26;

    /// Whether there is neither a handshake nor a session: each request states its revision and capabilities.
    #[must_use]
    pub const fn is_stateless(self) -> bool {
        matches!(self.rules().era, Era::Modern)
    }

    /// The rules of this revision.
    #[must_use]
    pub const fn rules(self) -> &'static Rules {
        match self {
            Self::V2024_11_05 => &RULES[0],
            Self::V2025_03_26 => &RULES[1],
            Self::V2025_06_18 => &RULES[2],
            Self::V2025_11_25 => &RULES[3],
            Self::V2026_07_28 => &RULES[4],
            #[cfg(feature = "draft")]
            Self::Draft => &DRAFT,
        }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a connection begins: the two groups of revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// With `initialize`: the revision and the capabilities apply to the whole session. Up to 2025-11-25.
    Legacy,
    /// Without a handshake: each request contains its revision and capabilities. Since 2026-07-28.
    Modern,
}

/// Whether a name is that of a stateless revision. Names are dates: an unknown name is compared with the known dates.
pub(crate) fn names_stateless(name: &str) -> bool {
    let first = ProtocolVersion::ALL.iter().find(|version| version.is_stateless());
    first.is_some_and(|first| name >= first.as_str())
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        })
    }
}

/// How a client cancels a request over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelBy {
    /// By sending `notifications/cancelled` in a POST (CX-01, CX-09).
    Notification,
    /// By closing the exchange (CX-07).
    ClosingTheExchange,
}

/// The HTTP statuses of a response to `initialize` that indicate a server of 2024-11-05 (ER-27).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FallbackOn {
    /// Any 4xx.
    AnyClientError,
    /// 400, 404 and 405.
    NoSuchEndpoint,
}

/// How an error is written if the id of its request could not be read (A28): the schemas before 2025-11-25 require
/// `null`, the later ones allow only its absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnreadableId {
    /// `"id":null`
    Null,
    /// No member `id`.
    Omitted,
}

/// The rules of one revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a table: each column is independent of the others")]
#[non_exhaustive]
pub struct Rules {
    /// The era of the revision.
    pub era: Era,
    /// Batches are accepted.
    ///
    /// Rules: JR-30, JR-31, JR-36.
    pub batches: bool,
    /// The HTTP transport that the revision defines has two endpoints. Some servers use the revision over Streamable
    /// HTTP, too.
    ///
    /// Rules: HS-01.
    pub two_endpoints: bool,
    /// A server may assign a session id, in a header of the response to `initialize`.
    ///
    /// Rules: SH-S-40.
    pub sessions: bool,
    /// A client may open a stream with GET for messages that belong to no request.
    ///
    /// Rules: SH-C-38.
    pub get_stream: bool,
    /// A broken stream may be resumed with GET and `Last-Event-ID`.
    ///
    /// Rules: SH-C-32.
    pub resumable: bool,
    /// A stream may begin with an event that has an id and empty data.
    ///
    /// Rules: SH-S-53, SH-S-54.
    pub priming_event: bool,
    /// HTTP requests contain the revision in a header.
    ///
    /// Rules: SH-C-05.
    pub version_header: bool,
    /// HTTP requests repeat the method and the name in headers.
    ///
    /// Rules: RULES 8.2.
    pub mirrored_headers: bool,
    /// The server may send requests.
    ///
    /// Rules: RULES 0.1.
    pub server_requests: bool,
    /// A client cancels a request by closing the response stream; else a disconnect cancels nothing.
    ///
    /// Rules: SH-S-16, SH-S-17.
    pub disconnect_cancels: bool,
    /// How a client cancels a request over HTTP.
    pub(crate) cancel_by: CancelBy,
    /// How an error is written if the request's id could not be read (A28).
    pub(crate) unreadable_id: UnreadableId,
    /// Servers may request that a user fills in a form.
    pub elicitation: bool,
    /// Servers may request that a user visits a URL.
    pub url_elicitation: bool,
    /// Forms may have lists of choices, choices with titles in `oneOf`, and defaults of all fields; before, only a boolean
    /// has a default, and titles are in `enumNames`.
    pub choices_in_forms: bool,
    /// The responses to `initialize` after which a client tries the two-endpoint transport.
    pub(crate) fallback_on: FallbackOn,
    /// The range of codes, inclusive, that an application's error may not have, except `allowed_codes`.
    ///
    /// Rules: RP15.
    pub reserved_codes: (i64, i64),
    /// Codes within `reserved_codes` that the revision defines, and that an application may send.
    pub allowed_codes: &'static [i64],
    /// Codes outside of `reserved_codes` that an application may not send either.
    pub refused_codes: &'static [i64],
    /// The structured content of a tool's result may be any value; before, it is an object.
    ///
    /// Rules: BR-L-08.
    pub any_structured_content: bool,
    /// The code for a resource that does not exist.
    ///
    /// Rules: RULES 1.3.
    pub resource_not_found: i64,
    /// The code for a request that needs a capability that its client has not declared.
    ///
    /// Rules: MD-M-05.
    pub missing_capability: i64,
}

impl Rules {
    /// Whether the result of this method may require input.
    ///
    /// Rules: MD-I-01.
    #[must_use]
    pub fn may_require_input(&self, method: &Method) -> bool {
        self.era == Era::Modern && method.facts().takes_input
    }

    /// Whether an application may send an error with this code.
    ///
    /// Rules: RP15.
    #[must_use]
    pub fn allows_error_code(&self, code: i64) -> bool {
        let (lowest, highest) = self.reserved_codes;
        let reserved = (lowest..=highest).contains(&code) && !self.allowed_codes.contains(&code);
        !reserved && !self.refused_codes.contains(&code)
    }
}

const LEGACY: Rules = Rules {
    era: Era::Legacy,
    batches: false,
    two_endpoints: false,
    sessions: true,
    get_stream: true,
    resumable: true,
    priming_event: false,
    version_header: true,
    mirrored_headers: false,
    server_requests: true,
    disconnect_cancels: false,
    cancel_by: CancelBy::Notification,
    unreadable_id: UnreadableId::Null,
    elicitation: false,
    url_elicitation: false,
    choices_in_forms: false,
    fallback_on: FallbackOn::AnyClientError,
    reserved_codes: (-32099, -32020),
    allowed_codes: &[],
    refused_codes: &[],
    any_structured_content: false,
    resource_not_found: code::RESOURCE_NOT_FOUND,
    missing_capability: code::INVALID_REQUEST,
};

const RULES: [Rules; 5] = [
    // Some servers negotiate 2024-11-05 over Streamable HTTP. Sessions, the GET stream and resumption are features of
    // that transport, so they apply here too.
    Rules { two_endpoints: true, version_header: false, ..LEGACY },
    Rules { batches: true, version_header: false, ..LEGACY },
    Rules { elicitation: true, ..LEGACY },
    Rules {
        elicitation: true,
        url_elicitation: true,
        choices_in_forms: true,
        priming_event: true,
        unreadable_id: UnreadableId::Omitted,
        fallback_on: FallbackOn::NoSuchEndpoint,
        allowed_codes: &[-32042],
        ..LEGACY
    },
    Rules {
        era: Era::Modern,
        batches: false,
        two_endpoints: false,
        sessions: false,
        get_stream: false,
        resumable: false,
        priming_event: false,
        version_header: true,
        mirrored_headers: true,
        server_requests: false,
        disconnect_cancels: true,
        cancel_by: CancelBy::ClosingTheExchange,
        unreadable_id: UnreadableId::Omitted,
        elicitation: true,
        url_elicitation: true,
        choices_in_forms: true,
        fallback_on: FallbackOn::NoSuchEndpoint,
        reserved_codes: (-32099, -32020),
        allowed_codes: &[-32020, -32021, -32022],
        any_structured_content: true,
        refused_codes: &[code::RESOURCE_NOT_FOUND],
        resource_not_found: code::INVALID_PARAMS,
        missing_capability: code::MISSING_REQUIRED_CLIENT_CAPABILITY,
    },
];

/// What the draft changes of 2026-07-28: nothing yet, as of 2026-08-22.
#[cfg(feature = "draft")]
const DRAFT: Rules = Rules { ..RULES[4] };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rp15_reserved_codes_are_refused_per_revision() {
        for (version, code, allowed) in [
            (ProtocolVersion::V2024_11_05, -32002, true),
            (ProtocolVersion::V2024_11_05, -32042, false),
            (ProtocolVersion::V2025_11_25, -32042, true),
            (ProtocolVersion::V2025_11_25, -32020, false),
            (ProtocolVersion::V2026_07_28, -32002, false),
            (ProtocolVersion::V2026_07_28, -32042, false),
            (ProtocolVersion::V2026_07_28, -32021, true),
            (ProtocolVersion::V2026_07_28, -32099, false),
            (ProtocolVersion::V2026_07_28, -32602, true),
            (ProtocolVersion::V2026_07_28, 7, true),
        ] {
            assert_eq!(version.rules().allows_error_code(code), allowed, "{version} {code}");
        }
    }

    #[test]
    fn er_43_an_unknown_name_belongs_to_an_era_by_its_date() {
        for name in ["2024-11-05", "2025-11-25", "2026-07-27", "", "1.0"] {
            assert!(!names_stateless(name), "{name}");
        }
        for name in ["2026-07-28", "2027-01-01", "v999"] {
            assert!(names_stateless(name), "{name}");
        }
    }

    #[test]
    fn names_are_dates_in_order() {
        let names: Vec<_> = ProtocolVersion::ALL.iter().map(|version| version.as_str()).collect();
        assert!(names.is_sorted());
        for &version in ProtocolVersion::ALL {
            assert_eq!(ProtocolVersion::from_text(version.as_str()), Some(version));
        }
    }
}
