//! Stateless requests: admits them, and completes their results (RULES 8).

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

/// What was received with a request in addition to its body.
#[derive(Debug, Clone, Default)]
pub(super) struct Envelope<'h> {
    /// The headers of its HTTP request; `None` on a byte stream (ST-14).
    pub(super) headers: Option<&'h HeaderMap>,
    pub(super) principal: Option<Principal>,
}

/// Admits a request by RULES 8.4 from the fourth step on. A refused request is not reported to the application.
pub(super) fn admit(
    config: &Config,
    tools: &AnnotatedTools,
    request: &Request,
    meta: RequestMeta,
    envelope: Envelope<'_>,
) -> Result<Context, ErrorObject> {
    let Request { method, params, .. } = request;
    // A client that starts with `initialize` receives the list of served revisions (ER-42).
    if !meta.is_claimed && *method == Method::INITIALIZE && envelope.headers.is_none_or(names_no_modern) {
        let asked = params.as_ref().and_then(|params| params.first_member("protocolVersion"));
        return Err(unsupported(config, &asked.unwrap_or_else(|| Json::from(""))));
    }
    let (Some(asked), Some(client_capabilities)) = (meta.version, meta.client_capabilities) else {
        return Err(match envelope.headers {
            // `initialize` without `_meta` contradicts a header that names the modern era (ER-44).
            Some(_) if !meta.is_claimed && *method == Method::INITIALIZE => {
                ErrorObject::new(code::HEADER_MISMATCH, "MCP-Protocol-Version does not fit to initialize")
            }
            // A required key is missing (MD-M-02) or has the wrong type (MD-M-03).
            Some(_) | None => missing_meta(),
        });
    };
    // A proxy may route by the headers, so that they must equal the body (MD-H-02).
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
            // An unknown log level is refused (MD-M-10).
            ErrorObject::new(code::INVALID_PARAMS, "invalid params: logLevel is none of the eight")
        })?),
    };
    let Envelope { principal, .. } = envelope;
    Ok(Context { version, client_capabilities, client_info: meta.client_info, logging_level, principal })
}

/// Admits a request that a relay forwards: it needs a served revision, and the server checks the rest (BR-T-09).
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

/// The requested revision of the modern era. One that is not served is answered with the served ones (MD-V-01).
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

/// The served revisions, newest first, so that those of the modern era precede the others (ER-46).
fn supported(config: &Config) -> Json {
    let mut versions = config.versions.clone();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.dedup();
    let names: Vec<_> = versions.iter().map(|version| version.as_str()).collect();
    Json::from_serialize(&names).unwrap_or(Json::empty_object())
}

/// Whether the capability of a method is declared; without it, the method does not exist (row 26, MD-V-05).
fn is_offered(config: &Config, method: &Method) -> bool {
    method.server_capability().is_none_or(|capability| config.declares(capability))
}

/// The result of `server/discover`, without the members that [`complete`] adds (MD-V-04).
pub(super) fn discover(config: &Config) -> Json {
    let mut result = Json::empty_object();
    if let Some(instructions) = &config.instructions {
        result = result.with_member("instructions", &Json::from(&**instructions));
    }
    result.with_members(&[("supportedVersions", &supported(config)), ("capabilities", &config.capabilities)])
}

/// Adds the members that the protocol requires to a result, unless the application has set them: `resultType` (JR-14),
/// the server's information in `_meta`, and `ttlMs` and `cacheScope` (MD-K-01).
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

/// Who may use a cached result (MD-K-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CacheScope {
    /// Only the client that sent the request.
    #[default]
    Private,
    /// All clients, because the result is the same for each.
    Public,
}

impl CacheScope {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}
