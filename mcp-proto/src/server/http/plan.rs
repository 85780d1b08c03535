//! Checks the head of a request, in the order of RULES 5.2.

use http::request::Parts;
use http::{Method, StatusCode};

use crate::auth::Challenge;
use crate::server::http::Http;
use crate::server::http::exchange::refusal::Refusal;
use crate::server::http::exchange::request_info::RequestInfo;
use crate::server::http::exchange::{cors, head, header_check, metadata};
use crate::server::http::purpose::Plan;
use crate::spec::header::SESSION_ID;

impl Http {
    pub(crate) fn plan(&self, head: &Parts, info: &RequestInfo) -> Result<Plan, Refusal> {
        self.check_access(head)?;
        head::check_transfer(&head.headers)?;
        let path = head.uri.path();
        if self.config.public_document_at(path).is_some() {
            return plan_metadata(&head.method);
        }
        let own = self.config.path.as_deref();
        let two = self.config.two_endpoints.as_ref();
        let is_stream =
            two.is_some_and(|two| head::is_at(path, &two.stream) && own.is_none_or(|own| !head::is_at(path, own)));
        let is_messages = two.is_some_and(|two| head::is_at(path, &two.messages));
        if !is_stream && !is_messages && !info.is_routed && own.is_some_and(|own| !head::is_at(path, own)) {
            return Err(Refusal::new(StatusCode::NOT_FOUND, "no endpoint has this path"));
        }
        // A browser asks without the credentials of the request that follows.
        if self.config.cors && cors::is_preflight(head) {
            return Ok(Plan::Preflight { methods: if is_stream { "GET" } else { self.methods(is_messages) } });
        }
        // The sender is authenticated before any session is looked up, so that others learn of no session (SE-02,
        // OA-Z-02).
        let principal = info.authentication.as_ref().map_err(|challenge| self.challenged(challenge))?.as_ref();
        if is_stream {
            return Self::plan_stream(head);
        }
        if is_messages {
            return self.plan_message(head, principal);
        }
        let is_stateless = self.versions.has_stateless() && header_check::names_stateless(&head.headers);
        let has_streams = self.has_sessions() && !is_stateless;
        match head.method {
            // A client of the modern era has neither a session nor a GET stream (SH-S-59).
            _ if head.method != Method::POST && !has_streams => Err(Refusal::method("POST")),
            Method::POST if is_stateless || !self.versions.has_sessions() => self.plan_stateless(head),
            Method::POST if !has_streams => self.plan_sessionless(head),
            Method::POST => {
                head::check_message(head, &self.exchanges.limits)?;
                if !head.headers.contains_key(SESSION_ID) {
                    return Ok(Plan::Post { session: None });
                }
                self.plan_post(head, principal)
            }
            Method::GET if self.config.get_stream => self.plan_get(head, principal),
            Method::DELETE if self.config.delete => {
                Ok(Plan::Delete { session: self.session_of_revision(head, principal)? })
            }
            _ => Err(Refusal::method(self.methods(false))),
        }
    }

    /// Whether the host and the web page of a request are allowed. The metadata and the server card are for every page.
    pub(crate) fn check_access(&self, head: &Parts) -> Result<(), Refusal> {
        let is_for_some_pages = self.config.public_document_at(head.uri.path()).is_none();
        self.config.access.check(head, is_for_some_pages)
    }

    /// Whether clients of revisions up to 2025-11-25 get sessions.
    fn has_sessions(&self) -> bool {
        self.config.has_sessions() && self.versions.has_sessions()
    }

    /// The allowed methods of the endpoint, or with `is_messages` of the message endpoint of two-endpoint sessions.
    fn methods(&self, is_messages: bool) -> &'static str {
        let has_streams = self.has_sessions() && !is_messages;
        match (self.config.get_stream && has_streams, self.config.delete && has_streams) {
            (true, true) => "GET, POST, DELETE",
            (true, false) => "GET, POST",
            (false, true) => "POST, DELETE",
            (false, false) => "POST",
        }
    }

    /// The refusal with a challenge, which names the metadata of this server (OA-Z-02).
    fn challenged(&self, challenge: &Challenge) -> Refusal {
        let resource = self.config.protected_resource.as_ref();
        match resource.filter(|_| challenge.resource_metadata().is_none()) {
            Some(resource) => Refusal::challenge(&challenge.clone().with("resource_metadata", resource.metadata_url())),
            None => Refusal::challenge(challenge),
        }
    }

    fn plan_stateless(&self, head: &Parts) -> Result<Plan, Refusal> {
        head::check_message(head, &self.exchanges.limits)?;
        Ok(Plan::Post { session: None })
    }

    /// Plans a POST at a server without sessions. A session id, perhaps of an earlier configuration, is ignored.
    fn plan_sessionless(&self, head: &Parts) -> Result<Plan, Refusal> {
        head::check_message(head, &self.exchanges.limits)?;
        head::check_version(&head.headers, &self.versions)?;
        Ok(Plan::Post { session: None })
    }
}

fn plan_metadata(method: &Method) -> Result<Plan, Refusal> {
    match *method {
        Method::GET | Method::HEAD => Ok(Plan::Metadata),
        // A browser asks first, because clients add `MCP-Protocol-Version`.
        Method::OPTIONS => Ok(Plan::MetadataPreflight),
        _ => Err(Refusal::method(metadata::METHODS)),
    }
}
