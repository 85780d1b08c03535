//! Requests that stand alone: admitting them, and completing what answers them (RULES 8).

use std::time::Duration;

use ::http::HeaderMap;

use super::LoggingLevel;
use super::annotated::AnnotatedTools;
use super::config::Config;
use super::context::Context;
use super::http::{Principal, header_check};
use crate::codec::json::Json;
use crate::codec::jsonrpc::{ErrorObject, Request};
use crate::spec::meta::{PROTOCOL_VERSION, RequestMeta, SERVER_INFO};
use crate::spec::{Era, ProtocolVersion};
use crate::spec::{Method, code};

/// What a request came with besides its body.
#[derive(Debug, Clone, Default)]
pub(super) struct Envelope<'h> {
    /// The headers of its HTTP request; none on a byte stream (ST-14).
    pub(super) headers: Option<&'h HeaderMap>,
    pub(super) principal: Option<Principal>,
}

/// The admission of RULES 8.4 from its fourth step on. What is refused never reaches the application.
pub(super) fn admit(
    config: &Config,
    tools: &AnnotatedTools,
    request: &Request,
    meta: RequestMeta,
    envelope: Envelope<'_>,
) -> Result<Context, ErrorObject> {
    let Request { method, params, .. } = request;
    // ER-42: whoever begins with `initialize` learns which revisions there are.
    if !meta.is_claimed && *method == Method::INITIALIZE && envelope.headers.is_none_or(names_no_modern) {
        let asked = params.as_ref().and_then(|params| params.first_member("protocolVersion"));
        return Err(unsupported(config, &asked.unwrap_or_else(|| Json::from(""))));
    }
    let (Some(asked), Some(client_capabilities)) = (meta.version, meta.client_capabilities) else {
        return Err(match envelope.headers {
            // ER-44
            Some(_) if !meta.is_claimed && *method == Method::INITIALIZE => {
                ErrorObject::new(code::HEADER_MISMATCH, "MCP-Protocol-Version does not fit to initialize")
            }
            // MD-M-02, MD-M-03
            Some(_) | None => missing_meta(),
        });
    };
    // MD-H-02: a request whose headers say something else is routed by what the body does not say.
    if let Some(headers) = envelope.headers {
        header_check::version(headers, &asked)?;
    }
    let version = served(config, &asked)?;
    if let Some(headers) = envelope.headers {
        header_check::method_and_name(headers, method, params.as_ref())?;
    }
    if method.is_removed_in(version) || !is_offered(config, method) {
        return Err(ErrorObject::new(code::METHOD_NOT_FOUND, &format!("method not found: {method}")));
    }
    if let (Some(headers), true) = (envelope.headers, *method == Method::TOOLS_CALL) {
        header_check::parameters(headers, params.as_ref(), tools)?;
    }
    let logging_level = match meta.log_level {
        None => None,
        Some(level) => Some(LoggingLevel::from_text(&level).ok_or_else(|| {
            // MD-M-10
            ErrorObject::new(code::INVALID_PARAMS, "invalid params: logLevel is none of the eight")
        })?),
    };
    let Envelope { principal, .. } = envelope;
    Ok(Context { version, client_capabilities, client_info: meta.client_info, logging_level, principal })
}

/// What a request needs to say so that it can be passed on: the rest is for the server to judge (BR-T-09).
pub(super) fn pass(config: &Config, meta: RequestMeta) -> Result<Context, ErrorObject> {
    let asked = meta.version.ok_or_else(missing_meta)?;
    let version = served(config, &asked)?;
    Ok(Context {
        version,
        client_capabilities: meta.client_capabilities.unwrap_or(Json::empty_object()),
        client_info: meta.client_info,
        logging_level: meta.log_level.as_deref().and_then(LoggingLevel::from_text),
        principal: None,
    })
}

/// MD-V-01
fn served(config: &Config, asked: &str) -> Result<ProtocolVersion, ErrorObject> {
    let version = ProtocolVersion::from_text(asked);
    let version = version.filter(|version| version.rules().era == Era::Modern && config.versions.contains(version));
    version.ok_or_else(|| unsupported(config, &Json::from(asked)))
}

fn names_no_modern(headers: &HeaderMap) -> bool {
    header_check::named_era(headers) != Some(Era::Modern)
}

fn missing_meta() -> ErrorObject {
    let text = format!("invalid params: _meta must hold {PROTOCOL_VERSION} and the client's capabilities");
    ErrorObject::new(code::INVALID_PARAMS, &text)
}

fn unsupported(config: &Config, requested: &Json) -> ErrorObject {
    let data = Json::empty_object().with_members(&[("supported", &supported(config)), ("requested", requested)]);
    ErrorObject::with_data(code::UNSUPPORTED_PROTOCOL_VERSION, "this revision is not served", &data)
}

/// ER-46: those of the modern era first, and of each the newest.
fn supported(config: &Config) -> Json {
    let mut versions = config.versions.clone();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.dedup();
    let names: Vec<_> = versions.iter().map(|version| version.as_str()).collect();
    Json::from_serialize(&names).unwrap_or(Json::empty_object())
}

/// Row 26, MD-V-05: what belongs to a capability that is not declared does not exist.
fn is_offered(config: &Config, method: &Method) -> bool {
    method.server_capability().is_none_or(|capability| config.declares(capability))
}

/// MD-V-04
pub(super) fn discover(config: &Config) -> Json {
    let mut result = Json::empty_object();
    if let Some(instructions) = &config.instructions {
        result = result.with_member("instructions", &Json::from(&**instructions));
    }
    result.with_members(&[("supportedVersions", &supported(config)), ("capabilities", &config.capabilities)])
}

/// A result with all that the protocol adds, each unless the application has set it: `resultType` (JR-14), the name of
/// the server, and how long it may be kept (MD-K-01).
pub(super) fn complete(config: &Config, method: &Method, result: &Json) -> Json {
    let [kind, ttl, scope, meta] = result.first_members(["resultType", "ttlMs", "cacheScope", "_meta"]);
    let complete = Json::from("complete");
    let is_complete = kind.as_ref().is_none_or(|kind| *kind == complete);
    let caches = is_complete && method.facts().is_cacheable;
    let meta = config.names_itself.then(|| {
        let meta = meta.filter(Json::is_object).unwrap_or(Json::empty_object());
        if meta.first_member(SERVER_INFO).is_some() { meta } else { meta.with_member(SERVER_INFO, &config.server_info) }
    });
    let cache_ttl = Json::from(milliseconds(config.cache_ttl));
    let cache_scope = Json::from(config.cache_scope.as_str());
    let mut set: Vec<(&str, &Json)> = Vec::with_capacity(4);
    if kind.is_none() {
        set.push(("resultType", &complete));
    }
    if caches && ttl.is_none() {
        set.push(("ttlMs", &cache_ttl));
    }
    if caches && scope.is_none() {
        set.push(("cacheScope", &cache_scope));
    }
    if let Some(meta) = &meta {
        set.push(("_meta", meta));
    }
    result.with_members(&set)
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Who may keep a result and give it to others (MD-K-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheScope {
    /// Whoever asked, and nobody else.
    #[default]
    Private,
    /// Everybody: it is the same for all.
    Public,
}

impl CacheScope {
    /// The name as it stands on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}
