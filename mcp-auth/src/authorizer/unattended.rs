//! Grants without a person: the client's own credentials (OA-X-01), and tokens that other programs issue, which are
//! assertions of a platform (OA-X-05), ID tokens (OA-X-04), or access tokens that need no flow.

use mcp_proto::Instant;
use mcp_proto::auth::Secret;

use super::flow::{Flow, Step};
use super::request::{ClientRequest, Kind};
use super::{Authorizer, Held, Timer};
use crate::action::Action;
use crate::client::ClientIdentity;
use crate::config::Grant;
use crate::error::SignInError;
use crate::metadata::IssuerMetadata;
use crate::token_response::{ID_JAG, TokenError, TokenResponse, TokenScheme};

impl Authorizer {
    /// Signs in as the client itself. The lock of the record is kept: one process asks for all.
    pub(super) fn request_client_credentials(&mut self, flow: Flow, now: Instant) {
        match self.configured_client(&flow) {
            Ok((issuer, client)) => self.request_unattended(flow, issuer, client, Kind::ClientCredentials, now),
            Err(error) => self.fail(flow, error, now),
        }
    }

    /// Asks the driver for the token of the other program.
    pub(super) fn obtain(&mut self, mut flow: Flow, now: Instant) {
        self.timers.set(Timer::Step, now + self.config.request_timeout);
        self.outbox.act(Action::ObtainToken);
        flow.step = Step::Obtaining;
        self.flow = Some(flow);
    }

    pub(super) fn on_obtained(&mut self, flow: Flow, token: Option<&str>, now: Instant) {
        let token = token.map(str::trim).filter(|token| !token.is_empty());
        let Some(token) = token.map(Secret::from) else { return self.fail(flow, SignInError::NotObtained, now) };
        let provider = match &self.config.grant {
            Grant::External => return self.use_obtained(flow, token, now),
            Grant::EnterpriseManaged(provider) => Some(provider.clone()),
            Grant::WorkloadIdentity | Grant::AuthorizationCode | Grant::DeviceCode | Grant::ClientCredentials => None,
        };
        let (issuer, client) = match self.configured_client(&flow) {
            Ok(found) => found,
            Err(error) => return self.fail(flow, error, now),
        };
        match provider {
            // The identity provider knows the client by another id.
            Some(provider) => {
                let client = provider.client().clone();
                let kind = Kind::Exchange { provider, id_token: token };
                self.request_unattended(flow, issuer, client, kind, now);
            }
            None => self.request_unattended(flow, issuer, client, Kind::Assertion(token), now),
        }
    }

    /// The identity provider has issued an assertion for the authorization server (OA-X-04).
    pub(super) fn on_exchanged(&mut self, flow: Flow, request: &ClientRequest, response: TokenResponse, now: Instant) {
        if response.issued_token_type.as_deref() != Some(ID_JAG) {
            let issuer = request.audience().to_owned();
            let reason = response.issued_token_type.as_deref().map_or(TokenError::Unusable, TokenError::unknown_type);
            return self.fail(flow, SignInError::Token { issuer, reason }, now);
        }
        match self.configured_client(&flow) {
            Ok((issuer, client)) => {
                self.request_unattended(flow, issuer, client, Kind::Assertion(response.access_token), now);
            }
            Err(error) => self.fail(flow, error, now),
        }
    }

    /// The issuer that was found, and the client that is registered there: these grants register none.
    fn configured_client(&mut self, flow: &Flow) -> Result<(IssuerMetadata, ClientIdentity), SignInError> {
        let issuer = flow.found.as_ref().ok_or(SignInError::NoMetadata)?.issuer.clone();
        match self.registered_client(&issuer)? {
            Some(client) => Ok((issuer, client)),
            None => Err(SignInError::NoClientId { issuer: issuer.issuer().to_owned() }),
        }
    }

    fn request_unattended(
        &mut self,
        flow: Flow,
        issuer: IssuerMetadata,
        client: ClientIdentity,
        kind: Kind,
        now: Instant,
    ) {
        let resource = flow.found.as_ref().and_then(|found| found.resource.parameter.clone());
        let scope = self.scope(&flow);
        self.request(flow, ClientRequest { resource, scope, ..ClientRequest::new(issuer, client, kind) }, now);
    }

    /// The token of the other program is sent as it is. It is not stored: that program can issue it again.
    fn use_obtained(&mut self, flow: Flow, token: Secret, now: Instant) {
        self.release(flow);
        let (unix, scheme) = (self.clock.unix(now), TokenScheme::Bearer);
        self.hold(Held {
            generation: 0,
            serial: None,
            issued_at: unix,
            expires_at: None,
            token,
            scheme,
            proof_key: None,
        });
    }
}
