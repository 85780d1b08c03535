//! A person signs in: the client is registered, the browser is opened, and the redirect comes back (OA-R-01 to OA-B-04).

use http::StatusCode;
use mcp_proto::spec::status::is_temporary;
use mcp_proto::{Excerpt, Instant, find_explanation};
use serde::Deserialize;

use super::Authorizer;
use super::flow::{Awaited, Flow, Need, Step, Then};
use super::request::{ClientRequest, DEVICE_CODE, post};
use crate::action;
use crate::action::{Action, Event, Lock, Waiting};
use crate::authorization::{Attempt, RedirectError};
use crate::callback_host::CallbackHost;
use crate::client::{ClientIdentity, Registration};
use crate::config::Grant;
use crate::error::SignInError;
use crate::metadata::{InvalidMetadata, IssuerMetadata};
use crate::quirk::ProviderQuirk;
use crate::record::union;
use crate::url::{SecureUrl, UrlRefused};

/// The scope of refresh tokens (`OpenID` Connect).
const OFFLINE: &str = "offline_access";

/// The largest response to a registration, in bytes.
const MAX_RESPONSE: usize = 64 * 1024;

/// What has become of a return of the browser.
#[derive(Debug)]
pub(super) enum Returned {
    /// It belongs to no sign-in.
    Unexpected,
    /// It is an error that names no sign-in.
    WithoutState(RedirectError),
    /// It has a code, which is redeemed now.
    WithCode,
    /// The scopes are requested again for another client.
    Again,
    /// It ends the sign-in.
    Refused(RedirectError),
}

impl Returned {
    /// Whether it belongs to the sign-in.
    pub(super) const fn belongs(&self) -> bool {
        match self {
            Self::Unexpected | Self::WithoutState(_) => false,
            Self::WithCode | Self::Again | Self::Refused(_) => true,
        }
    }
}

impl Authorizer {
    /// Begins a sign-in. Both locks are held.
    pub(super) fn sign_in(&mut self, mut flow: Flow, now: Instant) {
        let Some(found) = &flow.found else { return self.fail(flow, SignInError::NoMetadata, now) };
        let issuer = found.issuer.clone();
        if matches!(self.config.grant, Grant::DeviceCode) {
            return self.with_client(flow, &issuer, String::new(), now);
        }
        if let Err(reason) = issuer.check_pkce(self.config.exceptions.unlisted_pkce) {
            let url = issuer.issuer().to_owned();
            return self.fail(flow, SignInError::Metadata { url, reason }, now);
        }
        if issuer.check_pkce(false).is_err() {
            self.report_quirk(ProviderQuirk::UnlistedPkce, issuer.issuer());
        }
        match self.registered_client(&issuer) {
            Ok(_) => {}
            Err(error) => return self.fail(flow, error, now),
        }
        // The process of the last sign-in with this client has ended, and no person has come back from it.
        flow.must_register |= !flow.registering.is_earlier_used
            && self.record.is_in_use(issuer.issuer())
            && issuer.registration_endpoint().is_some();
        // Host and port of the registered redirect URI, because many servers compare it exactly (OA-G-06).
        let unix = self.clock.unix(now);
        let registered = self.record.client(issuer.issuer(), unix);
        let registered = registered.and_then(|(_, uri)| CallbackHost::read(uri, &self.config.callback_path));
        let (host, port) = registered.unzip();
        flow.callback_host = self.config.callback_host.or(host).unwrap_or_default();
        self.listen(flow, self.config.callback_port.or(port), now);
    }

    /// The port is opened when a sign-in begins, and not before (OA-G-04).
    fn listen(&mut self, mut flow: Flow, port: Option<u16>, now: Instant) {
        if flow.is_listening {
            self.outbox.act(Action::Unlisten);
            flow.is_listening = false;
        }
        self.timers.set(super::Timer::Step, now + self.config.request_timeout);
        self.outbox.act(Action::Listen { host: flow.callback_host, port });
        flow.asked_port = port;
        flow.step = Step::Listening;
        self.flow = Some(flow);
    }

    pub(super) fn on_listening(&mut self, mut flow: Flow, port: Option<u16>, now: Instant) {
        self.timers.clear(super::Timer::Step);
        let Some(port) = port else {
            return match (flow.asked_port, self.config.callback_port) {
                (_, Some(port)) => self.fail(flow, SignInError::PortTaken { port }, now),
                // Another program has the registered port: another one is registered.
                (Some(_), None) => self.listen(flow, None, now),
                (None, None) => self.fail(flow, SignInError::NotListening, now),
            };
        };
        flow.is_listening = true;
        let redirect_uri = flow.callback_host.redirect_uri(port, &self.config.callback_path);
        let Some(found) = &flow.found else { return self.fail(flow, SignInError::NoMetadata, now) };
        let issuer = found.issuer.clone();
        self.with_client(flow, &issuer, redirect_uri, now);
    }

    /// Goes on with the client that is registered for this redirect URI, or registers one. For the device grant, the
    /// URI is empty.
    fn with_client(&mut self, flow: Flow, issuer: &IssuerMetadata, redirect_uri: String, now: Instant) {
        match self.registered_client(issuer) {
            Ok(Some(client)) => return self.authorize(flow, client, &redirect_uri, now),
            Ok(None) => {}
            Err(error) => return self.fail(flow, error, now),
        }
        if flow.must_register && flow.registering.is_repeated {
            // No other process may send a person to the issuer with this client, even if no other client can be
            // registered now.
            self.record.remove_client(issuer.issuer());
            self.store();
        }
        let unix = self.clock.unix(now);
        let registered = self.record.client(issuer.issuer(), unix).filter(|(_, uri)| *uri == redirect_uri);
        match registered.map(|(client, _)| client.clone()).filter(|_| !flow.must_register) {
            Some(client) => self.authorize(flow, client, &redirect_uri, now),
            None => self.register(flow, issuer, redirect_uri, now),
        }
    }

    /// The client that needs no registration: one that was registered beforehand, or the URL of its metadata (OA-R-01).
    /// The record is locked: from its first use, the configured client belongs to one issuer (OA-M-02).
    pub(super) fn registered_client(&mut self, issuer: &IssuerMetadata) -> Result<Option<ClientIdentity>, SignInError> {
        let Some(client) = &self.config.registered else {
            return Ok(self.metadata_url(issuer).map(ClientIdentity::new));
        };
        let client = client.clone();
        match self.config.registered_at.as_ref().or(self.record.registered_at.as_ref()) {
            // It is of no use at another issuer, and its secret must not go there.
            Some(own) if own != issuer.issuer() => {
                return Err(SignInError::OtherIssuer {
                    registered_at: own.clone(),
                    issuer: issuer.issuer().to_owned(),
                });
            }
            Some(_) => {}
            None => {
                self.record.registered_at = Some(issuer.issuer().to_owned());
                self.store();
            }
        }
        Ok(Some(client))
    }

    /// The URL of the client's metadata, if it is the client's id at this issuer.
    fn metadata_url(&self, issuer: &IssuerMetadata) -> Option<&str> {
        self.config.client_metadata_url.as_deref().filter(|_| issuer.supports_client_id_metadata())
    }

    fn register(&mut self, mut flow: Flow, issuer: &IssuerMetadata, redirect_uri: String, now: Instant) {
        let Some(endpoint) = issuer.registration_endpoint() else {
            let issuer = issuer.issuer().to_owned();
            return self.fail(flow, SignInError::NoClientId { issuer }, now);
        };
        let method = ["none", "client_secret_basic", "client_secret_post"]
            .into_iter()
            .find(|method| issuer.lists_client_authentication() && issuer.supports_client_authentication(method))
            .unwrap_or("none");
        let (scope, _) = self.person_scope(&flow, issuer);
        let scope = scope.filter(|_| !flow.registering.is_without_scope);
        let (grant, response_type) = match self.config.grant {
            Grant::DeviceCode => (DEVICE_CODE, None),
            Grant::AuthorizationCode
            | Grant::ClientCredentials
            | Grant::WorkloadIdentity
            | Grant::EnterpriseManaged(_)
            | Grant::External => ("authorization_code", Some("code")),
        };
        let registration = Registration {
            client_name: &self.config.client_name,
            redirect_uris: if redirect_uri.is_empty() { &[] } else { &[&redirect_uri] },
            grant_types: &[grant, "refresh_token"],
            response_types: response_type.as_slice(),
            token_endpoint_auth_method: method,
            application_type: "native",
            scope: scope.as_deref(),
        };
        // Texts only, which can always be written.
        let body = serde_json::to_vec(&registration).unwrap_or_default();
        let fetch = self.fetch(post(endpoint, body.into(), "application/json"), MAX_RESPONSE, now);
        flow.step = Step::Registering { fetch, url: endpoint.to_owned(), redirect_uri };
        self.flow = Some(flow);
    }

    /// The registration endpoint has answered.
    pub(super) fn on_registered(&mut self, mut flow: Flow, status: StatusCode, body: &[u8], now: Instant) {
        let Step::Registering { url, redirect_uri, .. } = std::mem::replace(&mut flow.step, Step::Ready) else {
            return self.flow = Some(flow);
        };
        if is_temporary(status) {
            return self.fail(flow, SignInError::temporary(url, status, body), now);
        }
        let Some(found) = &flow.found else { return self.fail(flow, SignInError::NoMetadata, now) };
        if !matches!(status, StatusCode::OK | StatusCode::CREATED) {
            if let Some(port) = self.port_for_localhost(&flow, status, body, &redirect_uri) {
                flow.callback_host = CallbackHost::Localhost;
                flow.registering.is_with_localhost = true;
                return self.listen(flow, Some(port), now);
            }
            let refusal = serde_json::from_slice::<Refusal>(body).ok();
            let is_refused = refusal.as_ref().is_some_and(|refusal| refusal.error == "invalid_client_metadata");
            let issuer = found.issuer.clone();
            let has_scope = self.person_scope(&flow, &issuer).0.is_some();
            // Some servers register only their own scopes, but grant those of resources (OA-R-05).
            if is_refused && has_scope && !std::mem::replace(&mut flow.registering.is_without_scope, true) {
                return self.register(flow, &issuer, redirect_uri, now);
            }
            return self.fail(flow, SignInError::NotRegistered(refusal_text(status, body)), now);
        }
        let issuer = found.issuer.issuer().to_owned();
        match ClientIdentity::parse_registered(body) {
            Ok(client) => {
                // Before it is used, so that the next sign-in needs no other registration (OA-R-06).
                self.record.add_client(&issuer, &redirect_uri, client.clone());
                self.store();
                if flow.registering.is_with_localhost {
                    self.report_quirk(ProviderQuirk::LocalhostRedirect, &issuer);
                }
                self.outbox.report(Event::Step(action::Step::Registered { issuer }));
                flow.must_register = false;
                flow.registering.is_done = true;
                self.authorize(flow, client, &redirect_uri, now);
            }
            Err(reason) => self.fail(flow, SignInError::Registration(reason), now),
        }
    }

    /// The port for a second registration, with `localhost`. `None` unless the refusal is about the address of the
    /// redirect URI, and the person has not chosen that address (OA-Q-09).
    fn port_for_localhost(&self, flow: &Flow, status: StatusCode, body: &[u8], redirect_uri: &str) -> Option<u16> {
        let is_about_redirect = body.windows(8).any(|part| part.eq_ignore_ascii_case(b"redirect"));
        let (host, port) = CallbackHost::read(redirect_uri, &self.config.callback_path)?;
        let may_change = self.config.callback_host.is_none() && host == CallbackHost::Ipv4;
        let is_repeated = flow.registering.is_with_localhost;
        (status.is_client_error() && is_about_redirect && may_change && !is_repeated).then_some(port)
    }

    /// Sends the person to the authorization server. Other processes may use the record meanwhile.
    fn authorize(&mut self, mut flow: Flow, client: ClientIdentity, redirect_uri: &str, now: Instant) {
        if matches!(self.config.grant, Grant::DeviceCode) {
            return self.start_device(flow, client, now);
        }
        let Some(found) = &flow.found else { return self.fail(flow, SignInError::NoMetadata, now) };
        let issuer = found.issuer.clone();
        let mut attempt =
            Attempt::new(issuer.issuer(), issuer.names_issuer_in_responses(), redirect_uri, &mut self.nonces);
        attempt.resource.clone_from(&found.resource.parameter);
        let (scope, is_offline) = self.person_scope(&flow, &issuer);
        attempt.scope = scope;
        let mut additional = self.config.authorization_parameters.clone();
        let mut add = |name: &str, value: &str| {
            if !additional.iter().any(|(own, _)| own == name) {
                additional.push((name.to_owned(), value.to_owned()));
            }
        };
        if is_offline {
            add("prompt", "consent");
        }
        // What the server demands of the sign-in itself (OA-S-04).
        if let Need::New { sign_in_parameters, .. } = &flow.need {
            for (name, value) in sign_in_parameters {
                add(name, value);
            }
        }
        let Some(endpoint) = issuer.authorization_endpoint() else {
            let reason = InvalidMetadata::Lacks { member: "authorization_endpoint" };
            let url = issuer.issuer().to_owned();
            return self.fail(flow, SignInError::Metadata { url, reason }, now);
        };
        if !self.may_open(endpoint) {
            let reason = InvalidMetadata::Url { member: "authorization_endpoint", reason: UrlRefused::Private };
            let url = issuer.issuer().to_owned();
            return self.fail(flow, SignInError::Metadata { url, reason }, now);
        }
        match attempt.url(endpoint, client.id(), &additional) {
            Ok(url) => {
                if !flow.registering.is_done && self.record.set_in_use(client.id(), true) {
                    flow.registering.is_earlier_used = true;
                    self.store();
                }
                self.unlock(&mut flow, Lock::Record);
                self.timers.set(super::Timer::Step, now + self.config.user_timeout);
                self.outbox.report(Event::Waiting(Waiting::Browser { url: url.clone() }));
                self.outbox.act(Action::OpenBrowser { url });
                flow.step = Step::AwaitingRedirect(Box::new(Awaited { attempt, issuer, client, reported: None }));
                self.flow = Some(flow);
            }
            Err(reason) => self.fail(flow, SignInError::Authorization(reason), now),
        }
    }

    /// Whether a person's browser may open a URL that the server or its authorization server names. A URL on the
    /// person's own network is allowed only if the server is on that network, too (OA-N-02).
    pub(super) fn may_open(&self, url: &str) -> bool {
        SecureUrl::parse(url).is_ok_and(|url| {
            let host = url.endpoint().host();
            self.reach(host).allows_host(host)
        })
    }

    /// The scopes to request (OA-Q-04, OA-S-02).
    pub(super) fn scope(&self, flow: &Flow) -> Option<String> {
        if flow.repeated.is_without_scope {
            return None;
        }
        if let Some(scope) = &self.config.scope {
            return union([Some(scope.as_str())]);
        }
        let Need::New { scope, is_step_up, .. } = &flow.need else { return None };
        if *is_step_up {
            let tokens = self.record.tokens.as_ref();
            let requested = tokens.and_then(|tokens| tokens.requested.as_deref());
            let granted = tokens.and_then(|tokens| tokens.granted.as_deref());
            return union([requested, granted, scope.as_deref()]);
        }
        let listed = flow.found.as_ref().and_then(|found| found.resource.scope.as_deref());
        union([scope.as_deref().or(listed)])
    }

    /// The scopes that a person is asked for, and whether they include the scope of refresh tokens.
    pub(super) fn person_scope(&self, flow: &Flow, issuer: &IssuerMetadata) -> (Option<String>, bool) {
        let scope = self.scope(flow);
        let identity = self.config.uses_id_token.then_some("openid");
        let scope = union([scope.as_deref(), identity]);
        // Refresh tokens are issued with this scope only where the server knows it (OA-Q-07).
        if scope.is_some() && issuer.supports_scope(OFFLINE) {
            (union([scope.as_deref(), Some(OFFLINE)]), true)
        } else {
            (scope, false)
        }
    }

    /// A person was sent to the issuer, and did not come back in time. The server may have shown an error because it
    /// has forgotten a client that had registered itself. The next sign-in therefore registers another client.
    pub(super) fn on_no_redirect(&mut self, flow: Flow, awaited: &Awaited, error: SignInError, now: Instant) {
        if self.config.registered.is_some() {
            return self.fail(flow, error, now);
        }
        let client = awaited.client.id().to_owned();
        self.lock_record(flow, Then::Forget { client, error }, now);
    }

    /// A redirect has come back: the browser shows it as a page (`is_page`), or a person has pasted it.
    pub(super) fn on_redirect(&mut self, mut flow: Flow, url: &str, is_page: bool, now: Instant) -> Returned {
        let Step::AwaitingRedirect(mut awaited) = std::mem::replace(&mut flow.step, Step::Ready) else {
            self.flow = Some(flow);
            return Returned::Unexpected;
        };
        match awaited.attempt.code(url) {
            Ok(None) => {
                let error = awaited.attempt.error_without_state(url).filter(|_| is_page);
                // Once, because any program of this machine can send more.
                if let (Some(error), None) = (&error, &awaited.reported) {
                    awaited.reported = Some(error.clone());
                    self.outbox.report(Event::Step(action::Step::ErrorWithoutState { error: error.clone() }));
                }
                flow.step = Step::AwaitingRedirect(awaited);
                self.flow = Some(flow);
                error.map_or(Returned::Unexpected, Returned::WithoutState)
            }
            Ok(Some(code)) => {
                self.outbox.act(Action::Unlisten);
                flow.is_listening = false;
                let Awaited { attempt, issuer, client, .. } = *awaited;
                self.request(flow, ClientRequest::code(issuer, client, attempt, code), now);
                Returned::WithCode
            }
            Err(RedirectError::Scope(_)) if self.may_register_scopes(&flow) => {
                flow.must_register = true;
                self.lock_record(flow, Then::Decide, now);
                Returned::Again
            }
            Err(reason) => {
                let error = SignInError::Redirect(reason.clone());
                if flow.registering.is_earlier_used {
                    let client = awaited.client.id().to_owned();
                    self.lock_record(flow, Then::Keep { client, error }, now);
                } else {
                    self.fail(flow, error, now);
                }
                Returned::Refused(reason)
            }
        }
    }

    /// Whether another client may be granted the refused scopes. Some servers grant only the scopes for which a client
    /// was registered, and an earlier flow may have registered this client for fewer (OA-S-02).
    pub(super) fn may_register_scopes(&self, flow: &Flow) -> bool {
        let has_url = flow.found.as_ref().is_none_or(|found| self.metadata_url(&found.issuer).is_some());
        !flow.registering.is_done && !has_url && self.config.registered.is_none()
    }
}

impl From<RedirectError> for SignInError {
    fn from(reason: RedirectError) -> Self {
        Self::Redirect(reason)
    }
}

/// The body of a refused registration (RFC 7591, section 3.2.2).
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// What a registration endpoint says about its refusal.
fn refusal_text(status: StatusCode, body: &[u8]) -> Excerpt {
    let text = find_explanation(body).filter(|_| status.is_client_error());
    Excerpt::new(&text.unwrap_or_else(|| format!("status {}", status.as_u16())), 300)
}
