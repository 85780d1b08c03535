//! Discovery: from the server to its authorization server (OA-P-01 to OA-A-06), and the fallback of 2025-03-26.

use std::collections::VecDeque;

use bytes::Bytes;
use http::header::{ACCEPT, LOCATION};
use http::{HeaderValue, Request, StatusCode, response};
use mcp_proto::spec::header::PROTOCOL_VERSION;
use mcp_proto::spec::status::is_temporary;
use mcp_proto::url::HttpUrl;
use mcp_proto::{Instant, ProtocolVersion};

use super::flow::{Discovery, Flow, Found, Need, Resource, Step, Then, Wanted};
use super::{Authorizer, without_query};
use crate::action;
use crate::action::{Event, FetchKey};
use crate::error::SignInError;
use crate::metadata::{InvalidMetadata, IssuerMetadata, ResourceMetadata};
use crate::quirk::{ProviderQuirk, ResourceParameter};
use crate::url::Origin;

/// The largest metadata document, in bytes (OA-N-03).
const MAX_DOCUMENT: usize = 64 * 1024;

/// The number of redirects that are followed for one document, all within its origin (OA-N-01).
const MAX_REDIRECTS: u32 = 3;

impl Authorizer {
    /// Begins with the metadata of the resource.
    pub(super) fn discover(&mut self, flow: Flow, now: Instant) {
        let named = match &flow.need {
            Need::New { named, .. } => named.as_deref(),
            Need::Stored | Need::SignOut => None,
        };
        let is_relative = named.is_some_and(|named| HttpUrl::parse(named).is_err());
        match ResourceMetadata::candidates(&self.config.server, named) {
            Ok(candidates) => {
                if is_relative {
                    self.report_server_quirk(ProviderQuirk::RelativeMetadataUrl);
                }
                self.look_for(flow, Wanted::Resource, candidates.into(), now);
            }
            Err(reason) => {
                let what = "the URL of the resource's metadata, which the server names,";
                self.fail(flow, SignInError::Url { what, reason }, now);
            }
        }
    }

    fn look_for(&mut self, mut flow: Flow, wanted: Wanted, mut candidates: VecDeque<String>, now: Instant) {
        let url = candidates.pop_front().unwrap_or_default();
        let fetch = self.fetch_document(&url, &wanted, now);
        let is_named = matches!((&wanted, &flow.need), (Wanted::Resource, Need::New { named: Some(_), .. }));
        let discovery =
            Discovery { wanted, url, candidates, redirects: 0, is_named, is_absent: true, obstacle: None, fetch };
        flow.step = Step::Discovering(Box::new(discovery));
        self.flow = Some(flow);
    }

    fn fetch_document(&mut self, url: &str, wanted: &Wanted, now: Instant) -> FetchKey {
        let mut request = Request::new(Bytes::new());
        // Candidates are made of URLs that were checked.
        *request.uri_mut() = HttpUrl::parse(url).map(|url| url.to_uri()).unwrap_or_default();
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        if matches!(wanted, Wanted::Server) {
            let version = ProtocolVersion::WITHOUT_RESOURCE_METADATA.as_str();
            request.headers_mut().insert(PROTOCOL_VERSION, HeaderValue::from_static(version));
        }
        self.fetch(request, MAX_DOCUMENT, now)
    }

    /// A place of a document has answered.
    pub(super) fn on_document(&mut self, mut flow: Flow, head: &response::Parts, body: &[u8], now: Instant) {
        let Step::Discovering(mut discovery) = flow.step else { return self.flow = Some(flow) };
        flow.step = Step::Ready;
        if head.status.is_redirection() && head.status != StatusCode::NOT_MODIFIED {
            if let Some(url) = redirect_target(&discovery, head) {
                self.step(&discovery, format!("redirected (status {})", head.status.as_u16()));
                discovery.redirects += 1;
                discovery.fetch = self.fetch_document(&url, &discovery.wanted, now);
                discovery.url = url;
                flow.step = Step::Discovering(discovery);
                return self.flow = Some(flow);
            }
        }
        // An outage must not lead to a sign-in at another place (OA-P-03, OA-A-02).
        if is_temporary(head.status) {
            self.step(&discovery, format!("status {}", head.status.as_u16()));
            let url = without_query(&discovery.url);
            return self.fail(flow, SignInError::temporary(url, head.status, body), now);
        }
        let invalid = if head.status == StatusCode::OK {
            match self.read(&discovery, body) {
                Ok(Document::Resource(metadata, quirk)) => {
                    self.step(&discovery, "found".to_owned());
                    if let Some(quirk) = quirk {
                        self.report_server_quirk(quirk);
                    }
                    return self.on_resource(flow, &metadata, now);
                }
                Ok(Document::Issuer(issuer, quirk)) => {
                    self.step(&discovery, "found".to_owned());
                    if let Some(quirk) = quirk {
                        self.report_quirk(quirk, issuer.issuer());
                    }
                    let resource = match discovery.wanted {
                        Wanted::Issuer { resource, .. } => resource,
                        Wanted::Resource | Wanted::Server => self.unpublished_resource(),
                    };
                    return self.on_issuer(flow, resource, *issuer, now);
                }
                Err(reason) => Some(reason),
            }
        } else {
            None
        };
        let is_resource = matches!(discovery.wanted, Wanted::Resource);
        // Another document in the place of the resource's metadata is no sign of an outage: many servers answer every
        // path.
        discovery.is_absent &= head.status.is_client_error() || (is_resource && invalid.is_some());
        match invalid {
            None => self.step(&discovery, format!("status {}", head.status.as_u16())),
            Some(InvalidMetadata::NotMetadata) => {
                self.step(&discovery, InvalidMetadata::NotMetadata.to_string());
                if is_resource {
                    self.report_server_quirk(ProviderQuirk::NoResourceDocument);
                }
            }
            // Another place may have all members.
            Some(reason @ InvalidMetadata::Lacks { .. }) => {
                self.step(&discovery, reason.to_string());
                let url = without_query(&discovery.url);
                discovery.obstacle.get_or_insert(SignInError::Metadata { url, reason });
            }
            // It is a document, and wrong: another place does not make it right.
            Some(reason) => {
                self.step(&discovery, reason.to_string());
                let url = without_query(&discovery.url);
                return self.fail(flow, SignInError::Metadata { url, reason }, now);
            }
        }
        self.look_further(flow, discovery, now);
    }

    /// A place of a document cannot be reached. The next place is tried if the challenge named a place on another
    /// server, because the challenge may be wrong. For any other place, an outage must not lead to a sign-in elsewhere
    /// (OA-P-03).
    pub(super) fn on_unreached(&mut self, flow: Flow, mut discovery: Box<Discovery>, error: SignInError, now: Instant) {
        let is_elsewhere =
            HttpUrl::parse(&discovery.url).is_ok_and(|url| Origin::of(&url) != Origin::of(&self.config.endpoint));
        if !discovery.is_named || !is_elsewhere {
            return self.fail(flow, error, now);
        }
        self.step(&discovery, error.to_string());
        discovery.is_absent = false;
        discovery.obstacle.get_or_insert(error);
        self.look_further(flow, discovery, now);
    }

    /// Looks for a document in the next place.
    fn look_further(&mut self, mut flow: Flow, mut discovery: Box<Discovery>, now: Instant) {
        let Some(url) = discovery.candidates.pop_front() else { return self.on_no_document(flow, *discovery, now) };
        if std::mem::take(&mut discovery.is_named) {
            self.report_server_quirk(ProviderQuirk::NoMetadataAtUrl);
        }
        discovery.fetch = self.fetch_document(&url, &discovery.wanted, now);
        (discovery.url, discovery.redirects) = (url, 0);
        flow.step = Step::Discovering(discovery);
        self.flow = Some(flow);
    }

    fn report_server_quirk(&mut self, quirk: ProviderQuirk) {
        self.report_quirk(quirk, &without_query(&self.config.server));
    }

    fn read(&self, discovery: &Discovery, body: &[u8]) -> Result<Document, InvalidMetadata> {
        match &discovery.wanted {
            Wanted::Resource => {
                let accepted = ResourceMetadata::accept(body, &self.config.server, &self.config.resource);
                accepted.map(|(metadata, quirk)| Document::Resource(metadata, quirk))
            }
            Wanted::Issuer { issuer, .. } => self.read_issuer(body, Some(issuer), issuer),
            Wanted::Server => self.read_issuer(body, None, &Origin::of(&self.config.endpoint).to_string()),
        }
    }

    fn read_issuer(&self, body: &[u8], expected: Option<&str>, found_for: &str) -> Result<Document, InvalidMetadata> {
        let accepted = IssuerMetadata::accept(body, expected, found_for, &self.config.exceptions);
        accepted.map(|(metadata, quirk)| Document::Issuer(Box::new(metadata), quirk))
    }

    fn on_resource(&mut self, flow: Flow, metadata: &ResourceMetadata, now: Instant) {
        // Several issuers may be named: one that is known already is preferred (OA-P-05).
        let issuers = metadata.authorization_servers();
        let used_at = self.record.registered_at.as_ref().filter(|_| self.config.registered.is_some());
        let registered_at = self.config.registered_at.as_ref().or(used_at);
        let is_known = |issuer: &&String| registered_at == Some(issuer) || self.record.knows(issuer);
        let Some(issuer) = issuers.iter().find(is_known).or(issuers.first()) else {
            return self.fail(flow, SignInError::NoMetadata, now);
        };
        let parameter = match &self.config.resource {
            ResourceParameter::Published => Some(metadata.resource().to_owned()),
            ResourceParameter::Omitted => None,
            ResourceParameter::Fixed(value) => Some(value.clone()),
        };
        let scope = metadata.scopes_supported().filter(|scopes| !scopes.is_empty()).map(|scopes| scopes.join(" "));
        match IssuerMetadata::candidates(issuer) {
            Ok(candidates) => {
                let wanted = Wanted::Issuer {
                    issuer: issuer.clone(),
                    resource: Resource { parameter, scope, requires_proofs: metadata.requires_dpop() },
                };
                self.look_for(flow, wanted, candidates.into(), now);
            }
            Err(reason) => {
                let what = "the authorization server that the resource names";
                self.fail(flow, SignInError::Url { what, reason }, now);
            }
        }
    }

    /// The resource of a server that publishes no metadata: revision 2025-03-26 knows no parameter `resource`.
    fn unpublished_resource(&self) -> Resource {
        let parameter = match &self.config.resource {
            ResourceParameter::Published | ResourceParameter::Omitted => None,
            ResourceParameter::Fixed(value) => Some(value.clone()),
        };
        Resource { parameter, scope: None, requires_proofs: false }
    }

    fn on_issuer(&mut self, mut flow: Flow, resource: Resource, issuer: IssuerMetadata, now: Instant) {
        let has_own_url = self.config.client_metadata_url.is_some() && issuer.supports_client_id_metadata();
        let (name, lists_pkce) = (issuer.issuer().to_owned(), issuer.check_pkce(false).is_ok());
        let registers = has_own_url || issuer.registration_endpoint().is_some();
        flow.found = Some(Found { resource, issuer, is_assumed: false });
        let scope = self.scope(&flow);
        let step = action::Step::AuthorizationServer { issuer: name, registers, lists_pkce, scope };
        self.outbox.report(Event::Step(step));
        self.lock_record(flow, Then::Decide, now);
    }

    /// Goes on with the endpoints of revision 2025-03-26, which nothing confirms.
    fn on_assumed_issuer(&mut self, mut flow: Flow, issuer: IssuerMetadata, now: Instant) {
        let step = action::Step::NoMetadata { origin: issuer.issuer().to_owned() };
        flow.found = Some(Found { resource: self.unpublished_resource(), issuer, is_assumed: true });
        self.outbox.report(Event::Step(step));
        self.lock_record(flow, Then::Decide, now);
    }

    /// None of the places has the document.
    fn on_no_document(&mut self, flow: Flow, discovery: Discovery, now: Instant) {
        let origin = Origin::of(&self.config.endpoint);
        let has_challenge = matches!(flow.need, Need::New { has_challenge: true, .. });
        let is_named = matches!(&flow.need, Need::New { named: Some(_), .. });
        if let Some(error) = discovery.obstacle {
            return self.fail(flow, error, now);
        }
        match discovery.wanted {
            // Only if the server has said clearly that it has no such document (OA-L-03).
            Wanted::Resource if discovery.is_absent && !is_named => {
                match IssuerMetadata::candidates(&origin.to_string()) {
                    Ok(candidates) => self.look_for(flow, Wanted::Server, candidates.into(), now),
                    Err(reason) => {
                        self.fail(flow, SignInError::Url { what: "the URL of the server", reason }, now);
                    }
                }
            }
            // A 401 without a challenge and without any metadata may have other reasons (OA-T-07).
            Wanted::Server if discovery.is_absent && has_challenge => match IssuerMetadata::without_document(&origin) {
                Ok(issuer) => self.on_assumed_issuer(flow, issuer, now),
                Err(reason) => {
                    let url = origin.to_string();
                    self.fail(flow, SignInError::Metadata { url, reason }, now);
                }
            },
            Wanted::Issuer { issuer, .. } => self.fail(flow, SignInError::NoIssuerMetadata { issuer }, now),
            Wanted::Resource | Wanted::Server => self.fail(flow, SignInError::NoMetadata, now),
        }
    }

    fn step(&mut self, discovery: &Discovery, found: String) {
        let url = without_query(&discovery.url);
        self.outbox.report(Event::Step(action::Step::Document { document: discovery.wanted.name(), url, found }));
    }
}

enum Document {
    Resource(ResourceMetadata, Option<ProviderQuirk>),
    Issuer(Box<IssuerMetadata>, Option<ProviderQuirk>),
}

/// Where a document has moved to, if that is on the same origin (OA-N-01).
fn redirect_target(discovery: &Discovery, head: &response::Parts) -> Option<String> {
    if discovery.redirects >= MAX_REDIRECTS {
        return None;
    }
    let location = head.headers.get(LOCATION)?.to_str().ok()?;
    let target = HttpUrl::parse(&discovery.url).ok()?.same_origin(location)?;
    Some(target.to_uri().to_string())
}
