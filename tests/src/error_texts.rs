//! Every error text of `mcp-proto` that a user can see, collected for review.

use std::fmt::{Debug, Display, Write};
use std::fs;
use std::time::Duration;

use http::{HeaderValue, StatusCode};
use mcp_application::InvalidService;
use mcp_application::skills::{InvalidFrontmatter, InvalidSkill, SkillMismatch};
use mcp_application::validation::{CompiledSchema, InvalidSchema};
use mcp_intermediary::relay::{InvalidPins, ToolField};
use mcp_proto::url::InvalidUrl;
use mcp_proto::{
    BodyKind, Excerpt, Failed, Fault, InvalidAnnotation, InvalidLimit, InvalidResponse, Json, JsonError, Method,
    NoInput, ParseError, ParseErrorKind, ProcessEnd, ProtocolVersion, Quirk, RedirectRefused, Refusal, RequestId,
    StartFailure, Subject, UsageError,
};

/// One enum: its name, the source that declares it, and a name and a text for each example.
pub struct Texts {
    /// The name of the enum.
    pub name: &'static str,
    source: &'static str,
    /// The name of the variant, and its text.
    pub examples: Vec<(String, String)>,
}

fn texts<E: Debug + Display>(name: &'static str, source: &'static str, errors: Vec<E>) -> Texts {
    with(name, source, errors, ToString::to_string)
}

fn with<E: Debug>(name: &'static str, source: &'static str, errors: Vec<E>, text: impl Fn(&E) -> String) -> Texts {
    let variant = |error: &E| {
        let debug = format!("{error:?}");
        debug.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_owned()
    };
    let examples = errors.iter().map(|error| (variant(error), text(error))).collect();
    Texts { name, source, examples }
}

/// That of a schema which refers to another document.
fn invalid_schema() -> InvalidSchema {
    let schema = Json::empty_object().with_member("$ref", &Json::from("https://example.com/schema.json"));
    CompiledSchema::new(&schema).err().unwrap_or_else(|| panic!("nothing is fetched"))
}

/// The texts of all enums.
#[expect(clippy::too_many_lines, reason = "it is a table")]
pub fn all() -> Vec<Texts> {
    let version = ProtocolVersion::V2025_11_25;
    let method = Method::TOOLS_CALL;
    let id = || RequestId::from(7);
    let to = || Some(Excerpt::new("https://other.example/mcp", 80));
    let refusal_of = |status: u16, body, challenge: Option<&'static str>| {
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let challenges = challenge.into_iter().map(HeaderValue::from_static).collect();
        Refusal { status, body, retry_after: None, challenges, explanation: None }
    };
    let refusal = |status, body, challenge| Failed::Refused(refusal_of(status, body, challenge));
    let explained = |status| {
        let explanation = Some(Excerpt::new("Rate limit of 60 a minute", 80));
        Failed::Refused(Refusal { explanation, ..refusal_of(status, BodyKind::Json, None) })
    };
    let reason = || Failed::Unreachable { detail: "nothing listens there (connection refused)".into() };
    let parse = ParseError { kind: ParseErrorKind::NotAnObject, subject: Subject::Unknown };
    let json = JsonError::NotJson { offset: 3 };
    vec![
        texts(
            "UsageError",
            "mcp-proto/src/error/usage.rs",
            vec![
                InvalidLimit { field: "message", largest: 1 << 30 }.into(),
                UsageError::InvalidPattern { limit: 1024 },
                UsageError::NotCanonical { reason: "two slashes must follow its scheme" },
                UsageError::ServerName { name: "...".into() },
                UsageError::SameServerName {
                    name: "my files".into(),
                    other: "my-files".into(),
                    prefix: "my-files".into(),
                },
                UsageError::Prefix { name: "github".into(), prefix: "gh_".into() },
                UsageError::SamePrefix { name: "gitlab".into(), other: "github".into(), prefix: "git".into() },
                UsageError::TooManyServers { limit: 100 },
                UsageError::Endpoint(InvalidUrl::Port),
                UsageError::AuthorizationServer(InvalidUrl::NotHttp),
                UsageError::NoAuthorizationServer,
                UsageError::Scope,
                UsageError::ClientMetadataUrl,
                UsageError::CallbackPath,
                UsageError::IdentityProvider,
                UsageError::PublicPath,
                UsageError::AuthorizationParameter,
                UsageError::HeaderName,
                UsageError::HeaderValue { name: "x-key".into() },
                UsageError::ReservedHeader { name: "host".into() },
                UsageError::AuthorizationHeader,
                UsageError::AccessToken { limit: 16_384 },
                UsageError::AccessTokenHash,
                UsageError::NotConnected,
                UsageError::AlreadyConnected,
                UsageError::AlreadyServing,
                UsageError::SealedSessions,
                UsageError::UnreadableSnapshot,
                UsageError::SessionExists,
                UsageError::TooManySessions { limit: 10_000 },
                UsageError::NotInMemory,
                UsageError::NoStore,
                UsageError::Closed,
                UsageError::TooManyRequests { limit: 4096 },
                UsageError::TooManySubscriptions { limit: 256 },
                UsageError::NoVersion,
                UsageError::ReservedMethod { method: Method::INITIALIZE },
                UsageError::NotAnObject { what: "the value of params" },
                UsageError::ReservedErrorCode { code: -32_000 },
                UsageError::NotDeclared { capability: "sampling" },
                UsageError::NothingRequired,
                UsageError::NoChange { method: method.clone() },
                UsageError::NotInRevision { what: "a subscription", version },
            ],
        ),
        texts(
            "InvalidService",
            "mcp-application/src/invalid_service.rs",
            vec![
                InvalidService::DuplicateRoute { kind: "tools", name: "add".into() },
                InvalidService::NestedChange,
                InvalidService::ToolSchema { tool: "add".into() },
                InvalidService::PromptArgument { prompt: "review".into(), argument: "count".into() },
                InvalidService::HeaderAnnotation { tool: "add".into(), reason: InvalidAnnotation::Type },
                InvalidService::UriTemplate { template: "file:///{a}{b}".into() },
                InvalidService::InvalidToolSchema { tool: "add".into(), reason: invalid_schema() },
                InvalidService::App { uri: "https://example.com/clock".into() },
                InvalidService::ExtensionId { id: "search".into() },
                InvalidService::ExtensionMethod { method: "tools/call".into() },
                InvalidService::Skill { path: "acme/Refunds".into(), reason: InvalidSkill::Name },
                InvalidService::Usage(UsageError::NotDeclared { capability: "completions" }),
            ],
        ),
        texts(
            "InvalidPins",
            "mcp-intermediary/src/relay/pins.rs",
            vec![
                InvalidPins::TooLarge { limit: 32 << 20 },
                InvalidPins::Json(json),
                InvalidPins::Version,
                InvalidPins::Member { member: "tools" },
                InvalidPins::TooMany { tools: 4096, name: 1024 },
                InvalidPins::Tool { tool: Excerpt::new("add", 80) },
                InvalidPins::Digest { tool: Excerpt::new("add", 80), field: ToolField::Description },
            ],
        ),
        texts(
            "InvalidSkill",
            "mcp-application/src/skills/error.rs",
            vec![
                InvalidSkill::Name,
                InvalidSkill::OtherName,
                InvalidSkill::Description { limit: 1024 },
                InvalidSkill::Frontmatter(InvalidFrontmatter::Missing),
                InvalidSkill::Path { path: "a b.md".into() },
                InvalidSkill::DuplicatePath { path: "a.md".into() },
                InvalidSkill::DuplicateResource { uri: "skill://refunds/a.md".into() },
                InvalidSkill::Nested { other: "skill://refunds/SKILL.md".into() },
                InvalidSkill::TooManyFiles { limit: 512 },
                InvalidSkill::TooLarge { limit: 16_777_216 },
            ],
        ),
        texts(
            "InvalidFrontmatter",
            "mcp-application/src/skills/error.rs",
            vec![
                InvalidFrontmatter::Missing,
                InvalidFrontmatter::TooLong { limit: 65536 },
                InvalidFrontmatter::Yaml { line: 2 },
                InvalidFrontmatter::Unsupported { line: 2, what: "a key that is there twice" },
                InvalidFrontmatter::NoMapping,
            ],
        ),
        texts(
            "SkillMismatch",
            "mcp-application/src/skills/error.rs",
            vec![
                SkillMismatch::NotListed,
                SkillMismatch::ListedTwice,
                SkillMismatch::Content,
                SkillMismatch::Size { found: 12, stated: "10".into() },
                SkillMismatch::Digest,
                SkillMismatch::Frontmatter(InvalidFrontmatter::NoMapping),
                SkillMismatch::OtherFrontmatter,
            ],
        ),
        texts(
            "InvalidUrl",
            "mcp-proto/src/url.rs",
            vec![
                InvalidUrl::NotHttp,
                InvalidUrl::Blank,
                InvalidUrl::Backslash,
                InvalidUrl::UserInfo,
                InvalidUrl::Fragment,
                InvalidUrl::NoHost,
                InvalidUrl::HostNotAscii,
                InvalidUrl::Host,
                InvalidUrl::Port,
                InvalidUrl::TooLong,
            ],
        ),
        with(
            "Failed",
            "mcp-proto/src/error/failed.rs",
            vec![
                Failed::TimedOut { after: Duration::from_secs(300) },
                Failed::Cancelled,
                reason(),
                Failed::Broken { detail: "it reset the connection".into() },
                Failed::StreamEnded,
                explained(429),
                refusal(401, BodyKind::Empty, Some("Bearer realm=\"tools\"")),
                refusal(403, BodyKind::Html, None),
                refusal(404, BodyKind::Html, None),
                refusal(407, BodyKind::Html, None),
                refusal(502, BodyKind::PlainText, None),
                Failed::NoAnswer { status: StatusCode::ACCEPTED },
                Failed::ContentType { body: BodyKind::Html },
                Failed::NotAStream { body: BodyKind::Json },
                Failed::ContentEncoding,
                Failed::InvalidResponse { reason: InvalidResponse::NotAResponse },
                Failed::Redirected { reason: RedirectRefused::CrossOrigin, to: to() },
                Failed::Redirected { reason: RedirectRefused::Unencrypted, to: to() },
                Failed::Redirected { reason: RedirectRefused::DropsBody, to: to() },
                Failed::Redirected { reason: RedirectRefused::NoLocation, to: None },
                Failed::Redirected { reason: RedirectRefused::TooOften, to: to() },
                Failed::TooLarge { limit: 16 << 20 },
                Failed::SessionLost,
                Failed::VersionChanged { version },
                Failed::NoCommonVersion { supported: [ProtocolVersion::V2026_07_28].into() },
                Failed::InvalidSessionId,
                Failed::EndpointRejected { endpoint: Excerpt::new("http://other.example/messages", 80) },
                Failed::NoEndpoint,
                Failed::NoInput { reason: NoInput::NotDeclared },
                Failed::EndedByServer,
                Failed::NotInRevision { version },
                Failed::QueueFull { limit: 4 << 20 },
                Failed::NoRoom { limit: 64 << 20 },
                Failed::NotAuthorized {
                    refusal: refusal_of(401, BodyKind::Empty, Some("Bearer realm=\"tools\"")),
                    reason: "no sign-in was completed within 360s; sign in, then try again".into(),
                },
                Failed::ProcessEnded { end: ProcessEnd::Code(3), opening: Some(Method::INITIALIZE) },
                Failed::ProcessEnded { end: ProcessEnd::Signal(9), opening: None },
                Failed::NotStarted(StartFailure::NotFound),
                Failed::NoMessages { limit: 1000 },
                Failed::Closed,
            ],
            |failed| failed.describe("the server at http://localhost:3000/mcp"),
        ),
        texts(
            "ProcessEnd",
            "mcp-proto/src/error/process_end.rs",
            vec![
                ProcessEnd::Code(3),
                ProcessEnd::Signal(9),
                ProcessEnd::Unknown,
                ProcessEnd::OutputClosed,
                ProcessEnd::InputClosed,
            ],
        ),
        texts(
            "StartFailure",
            "mcp-proto/src/error/process_end.rs",
            vec![StartFailure::NotFound, StartFailure::NotPermitted, StartFailure::Other],
        ),
        texts(
            "NoInput",
            "mcp-proto/src/error/failed.rs",
            vec![
                NoInput::NotDeclared,
                NoInput::Refused { code: -1 },
                NoInput::TooManyRounds { limit: 10 },
                NoInput::TooMuch { limit: 1024 },
                NoInput::TooLarge { limit: 16 << 20 },
            ],
        ),
        texts(
            "BodyKind",
            "mcp-proto/src/spec/header.rs",
            vec![
                BodyKind::Empty,
                BodyKind::Json,
                BodyKind::EventStream,
                BodyKind::Html,
                BodyKind::PlainText,
                BodyKind::Unclear,
                BodyKind::Untyped,
                BodyKind::Other,
            ],
        ),
        texts(
            "InvalidResponse",
            "mcp-proto/src/error/failed.rs",
            vec![
                InvalidResponse::Json(json),
                InvalidResponse::NotAResponse,
                InvalidResponse::WrongId,
                InvalidResponse::ResultType,
                InvalidResponse::InputRequired,
                InvalidResponse::Incomplete { method: "initialize" },
            ],
        ),
        texts(
            "Fault",
            "mcp-proto/src/error/fault.rs",
            vec![
                Fault::Parse(parse),
                Fault::NotAMessage { line: Excerpt::new("Listening on port 3000", 80) },
                Fault::NotMessages { lines: 1000 },
                Fault::DuplicateKey,
                Fault::LineTooLong { limit: 16 << 20 },
                Fault::Truncated { bytes: 17 },
                Fault::UnknownResponse { id: id() },
                Fault::LateResponse { id: id() },
                Fault::PeerError { code: -32_600 },
                Fault::UnknownProgressToken,
                Fault::DuplicateId { id: id() },
                Fault::UnexpectedRequest { method },
                Fault::MissingId { method: Method::TOOLS_CALL },
                Fault::UnexpectedBatch,
                Fault::TooManyRequests { limit: 1024 },
                Fault::TooManySubscriptions,
                Fault::Dropped { count: 3 },
                Fault::NotWritten { count: 3 },
                Fault::NotAccepted { reason: reason() },
                Fault::NoServerStream { reason: reason() },
                Fault::UnknownEvent,
                Fault::SessionIdChanged,
                Fault::SecondEndpoint,
                Fault::InvalidTool { tool: "write".into(), reason: InvalidAnnotation::Name },
                Fault::UnreadableParts { entries: 1, members: 2, first: "tools[0].inputSchema: missing".into() },
                Fault::SessionNotEnded { reason: reason() },
            ],
        ),
        texts(
            "Quirk",
            "mcp-proto/src/error/fault.rs",
            vec![
                Quirk::ResponseInArray,
                Quirk::NotificationNotAccepted202,
                Quirk::SessionLostWithOtherStatus,
                Quirk::VersionRefused,
                Quirk::NullParams,
                Quirk::GetNotFound,
                Quirk::ToolResultWithoutContent,
                Quirk::MessageInOtherEvent,
                Quirk::FirstRevisionOverStreamableHttp,
                Quirk::ByteOrderMark,
                Quirk::ResultTypeMissing,
                Quirk::ForeignErrorId,
                Quirk::MethodInResponse,
            ],
        ),
    ]
}

impl Texts {
    /// The names of the variants in the source.
    ///
    /// # Panics
    ///
    /// The source does not declare the enum.
    pub fn declared(&self) -> Vec<String> {
        let root = crate::workspace::root();
        let source = fs::read_to_string(root.join(self.source)).expect("a source");
        let begin = source.find(&format!("pub enum {} {{", self.name)).expect("the enum");
        let body = source.get(begin..).and_then(|rest| rest.split("\n}").next()).expect("its end");
        let variant = |line: &str| {
            let name = line.strip_prefix("    ").filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))?;
            name.split(|c: char| !c.is_ascii_alphanumeric()).next().map(str::to_owned)
        };
        body.lines().skip(1).filter_map(variant).collect()
    }
}

/// The texts of all variants.
pub fn table() -> String {
    let mut table = "\
# Error texts

Every text of `mcp-proto` that a user can see, with an example for each variant.
"
    .to_owned();
    for Texts { name, examples, .. } in all() {
        writeln!(table, "\n## {name}\n").expect("a string");
        for (variant, text) in examples {
            writeln!(table, "- `{variant}`: {text}").expect("a string");
        }
    }
    table
}
