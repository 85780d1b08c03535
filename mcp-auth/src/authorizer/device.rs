//! The device grant: a person signs in on another device with a code that is shown here (RFC 8628; OA-X-08).

use std::time::Duration;

use http::StatusCode;
use mcp_proto::Instant;
use mcp_proto::auth::Secret;
use serde::Deserialize;

use super::flow::{Flow, Step};
use super::request::{ClientRequest, Codes, Kind};
use super::{Authorizer, Timer};
use crate::action::{Event, Lock, Waiting};
use crate::authorization::RedirectError;
use crate::client::ClientIdentity;
use crate::error::SignInError;
use crate::metadata::InvalidMetadata;
use crate::token_response::{Seconds, TokenError};
use crate::url::{SecureUrl, UrlRefused};

/// The pause between two requests, unless the server sets another.
const INTERVAL: Duration = Duration::from_secs(5);

/// What `slow_down` adds to the pause (RFC 8628, section 3.5).
const SLOWER: Duration = Duration::from_secs(5);

/// The longest pause.
const MAX_INTERVAL: Duration = Duration::from_secs(60);

/// The longest user code that is shown, in bytes.
const MAX_USER_CODE: usize = 64;

/// The response of the device authorization endpoint (RFC 8628, section 3.2).
#[derive(Deserialize)]
struct Response {
    device_code: Secret,
    user_code: String,
    // Some servers use the name of a draft.
    #[serde(alias = "verification_url")]
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: Option<Seconds>,
    interval: Option<Seconds>,
}

impl Response {
    /// Parses the response. A person must be able to use it: the URL may be opened in a browser, and the code is a
    /// short text.
    fn parse(status: StatusCode, body: &[u8]) -> Result<Self, TokenError> {
        let not_codes = TokenError::NotToken(status);
        let mut response: Self = match serde_json::from_slice(body) {
            // An array is no object, although it could be read as one.
            Ok(response) if status == StatusCode::OK && body.trim_ascii_start().first() == Some(&b'{') => response,
            Ok(_) | Err(_) => return Err(TokenError::parse(status, body)),
        };
        let code = &response.user_code;
        let is_shown = !code.is_empty()
            && code.len() <= MAX_USER_CODE
            && code.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if !is_shown || SecureUrl::parse(&response.verification_uri).is_err() {
            return Err(not_codes);
        }
        // The complete URL only saves typing the code, so an unusable one is dropped.
        response.verification_uri_complete =
            response.verification_uri_complete.filter(|url| SecureUrl::parse(url).is_ok());
        Ok(response)
    }
}

impl Authorizer {
    /// Requests the codes. Both locks are held.
    pub(super) fn start_device(&mut self, flow: Flow, client: ClientIdentity, now: Instant) {
        let Some(found) = &flow.found else { return self.fail(flow, SignInError::NoMetadata, now) };
        let issuer = found.issuer.clone();
        if issuer.device_authorization_endpoint().is_none() {
            let reason = InvalidMetadata::Lacks { member: "device_authorization_endpoint" };
            return self.fail(flow, SignInError::Metadata { url: issuer.issuer().to_owned(), reason }, now);
        }
        let (resource, (scope, _)) = (found.resource.parameter.clone(), self.person_scope(&flow, &issuer));
        let request = ClientRequest { resource, scope, ..ClientRequest::new(issuer, client, Kind::StartDevice) };
        self.request(flow, request, now);
    }

    /// The codes have arrived: a person is asked. Other processes may use the record meanwhile.
    pub(super) fn on_codes(
        &mut self,
        mut flow: Flow,
        request: ClientRequest,
        status: StatusCode,
        body: &[u8],
        now: Instant,
    ) {
        let issuer = request.issuer.issuer().to_owned();
        let response = match Response::parse(status, body) {
            Ok(response) => response,
            Err(refusal) => return self.on_code_refused(flow, issuer, refusal, now),
        };
        let urls = [Some(&response.verification_uri), response.verification_uri_complete.as_ref()];
        if !urls.into_iter().flatten().all(|url| self.may_open(url)) {
            let what = "the URL at which the authorization server wants the code to be entered";
            return self.fail(flow, SignInError::Url { what, reason: UrlRefused::Private }, now);
        }
        let seconds = |seconds: Option<&Seconds>| seconds.and_then(Seconds::to_whole).map(Duration::from_secs);
        let lifetime = seconds(response.expires_in.as_ref()).unwrap_or(Duration::MAX).min(self.config.user_timeout);
        let interval =
            seconds(response.interval.as_ref()).unwrap_or(INTERVAL).clamp(Duration::from_secs(1), MAX_INTERVAL);
        let codes = Codes { device_code: response.device_code, interval, lifetime, until: now + lifetime };
        self.unlock(&mut flow, Lock::Record);
        self.outbox.report(Event::Waiting(Waiting::Device {
            url: response.verification_uri,
            code: response.user_code,
            url_with_code: response.verification_uri_complete,
        }));
        self.wait_for_device(flow, ClientRequest { kind: Kind::Device(codes), ..request }, now);
    }

    fn wait_for_device(&mut self, mut flow: Flow, request: ClientRequest, now: Instant) {
        let Kind::Device(codes) = &request.kind else { return self.flow = Some(flow) };
        self.timers.set(Timer::Step, codes.until);
        self.timers.set(Timer::Poll, now + codes.interval);
        flow.step = Step::AwaitingDevice(Box::new(request));
        self.flow = Some(flow);
    }

    /// The token endpoint is asked again.
    pub(super) fn poll_device(&mut self, now: Instant) {
        let Some((flow, step)) = self.take_flow() else { return };
        if let Step::AwaitingDevice(request) = step {
            self.request(flow, *request, now);
        } else {
            self.go_on_waiting(flow, step);
        }
    }

    pub(super) fn on_device_refused(
        &mut self,
        flow: Flow,
        mut request: ClientRequest,
        refusal: TokenError,
        now: Instant,
    ) {
        let issuer = request.issuer.issuer().to_owned();
        if refusal.is("authorization_pending") {
            self.wait_for_device(flow, request, now);
        } else if refusal.is("slow_down") {
            if let Kind::Device(codes) = &mut request.kind {
                codes.interval = (codes.interval + SLOWER).min(MAX_INTERVAL);
            }
            self.wait_for_device(flow, request, now);
        } else if refusal.is("access_denied") {
            let description = if let TokenError::Refused { description, .. } = refusal { description } else { None };
            self.fail(flow, SignInError::Redirect(RedirectError::Denied(description)), now);
        } else if let (true, Kind::Device(codes)) = (refusal.is("expired_token"), &request.kind) {
            let after = codes.lifetime;
            self.fail(flow, SignInError::UserTimedOut { after, reported: None }, now);
        } else if refusal.is("invalid_client") {
            self.on_code_refused(flow, issuer, refusal, now);
        } else {
            self.fail(flow, SignInError::Token { issuer, reason: refusal }, now);
        }
    }

    /// The server did not answer: it is asked less often.
    pub(super) fn wait_longer_for_device(&mut self, flow: Flow, mut request: ClientRequest, now: Instant) {
        if let Kind::Device(codes) = &mut request.kind {
            codes.interval = (codes.interval * 2).min(MAX_INTERVAL);
        }
        self.wait_for_device(flow, request, now);
    }
}
