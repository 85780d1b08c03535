//! Why a token is needed, and whether a flow begins for it.

use http::StatusCode;
use mcp_proto::Instant;
use mcp_proto::auth::{Challenge, Challenged};

use super::flow::{Flow, Need, Then};
use super::history::History;
use super::{Authorizer, Clock, Held, Timer, without_query};
use crate::action::Event;
use crate::config::Grant;
use crate::error::SignInError;
use crate::imported::Imported;
use crate::quirk::ProviderQuirk;
use crate::record::union;
use crate::seed::{Nonces, Seed};

/// Why a token is needed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Cause {
    /// The application starts: a stored token is used, and refreshed if that is due. No person is asked.
    Start,
    /// The server refused a request.
    ///
    /// Rules: OA-T-02.
    Challenged {
        /// The status, 401 or 403.
        status: StatusCode,
        /// Its challenges.
        challenges: Vec<Challenge>,
        /// The generation of the token that was sent; `None` if none was.
        generation: Option<u64>,
        /// No person waits for the request, so that none is asked.
        ///
        /// Rules: OA-G-05.
        is_background: bool,
    },
    /// A person wants to sign in.
    Requested,
    /// Tokens of another program are stored, in the place of those that are stored already.
    Imported(Box<Imported>),
    /// A person wants to sign out: the tokens are revoked where that is possible, and erased.
    SignOut,
}

impl Cause {
    /// Whether a person waits for a token, and may be asked.
    const fn has_person(&self) -> bool {
        match self {
            Self::Start | Self::Challenged { is_background: true, .. } | Self::SignOut => false,
            Self::Challenged { is_background: false, .. } | Self::Requested | Self::Imported(_) => true,
        }
    }
}

impl From<Challenged> for Cause {
    fn from(challenged: Challenged) -> Self {
        let Challenged { status, challenges, sent_with: generation, is_background, .. } = challenged;
        Self::Challenged { status, challenges, generation, is_background }
    }
}

impl Authorizer {
    /// A token is needed. `seed` is new random data, and `unix` the time in seconds since 1970.
    ///
    /// One flow runs at a time: every cause that needs a token waits for that flow. A flow that needed no token, and
    /// would have ended without one, now gets one. A flow that may ask no person may ask one as soon as a person waits.
    /// A sign-out or an import ends a running flow. While a person signs out, no other flow begins
    /// ([`SignInError::SignedOut`]).
    ///
    /// Rules: OA-T-05.
    pub fn begin(&mut self, cause: Cause, seed: Seed, unix: u64, now: Instant) {
        let has_person = cause.has_person();
        if let Some(flow) = self.flow.take_if(|flow| !matches!(flow.need, Need::Stored)) {
            self.flow = self.join(flow, &cause);
            if self.flow.is_some() {
                return;
            }
        }
        self.clock = Clock { unix, at: now };
        self.nonces = Nonces::new(seed);
        let mut imported = None;
        let need = match cause {
            Cause::Start => Some(Need::Stored),
            Cause::SignOut => Some(Need::SignOut),
            Cause::Requested => {
                self.history.ask_again();
                Some(Need::requested())
            }
            Cause::Imported(tokens) => {
                imported = Some(*tokens);
                Some(Need::requested())
            }
            Cause::Challenged { status, challenges, generation, .. } => {
                self.challenged(status, &challenges, generation, now)
            }
        };
        match (need, self.flow.take()) {
            (Some(need @ (Need::New { .. } | Need::SignOut)), Some(flow)) => {
                self.flow = Some(Flow { need, has_person, imported, ..flow });
            }
            (Some(need @ Need::New { .. }), None) => {
                self.find_token(Flow { has_person, imported, ..Flow::new(need) }, now);
            }
            // That program keeps its tokens itself.
            (Some(Need::Stored), None) if matches!(self.config.grant, Grant::External) => {
                self.obtain(Flow::new(Need::Stored), now);
            }
            (Some(Need::Stored), None) => self.look_at_record(now),
            (Some(Need::SignOut), None) => self.lock_record(Flow::new(Need::SignOut), Then::Decide, now),
            (Some(Need::Stored) | None, flow) => self.flow = flow,
        }
    }

    /// Joins a cause with a flow that runs for a token or for a sign-out. Returns the flow, unless it gives way.
    fn join(&mut self, mut flow: Flow, cause: &Cause) -> Option<Flow> {
        let is_signing_out = matches!(flow.need, Need::SignOut);
        match cause {
            Cause::SignOut if is_signing_out => {}
            Cause::Start if is_signing_out => self.outbox.report(Event::NoToken),
            Cause::Challenged { .. } | Cause::Requested | Cause::Imported(_) if is_signing_out => {
                self.outbox.report(Event::Refused(SignInError::SignedOut));
            }
            Cause::Start | Cause::Challenged { .. } | Cause::Requested => flow.has_person |= cause.has_person(),
            Cause::Imported(_) => {
                self.release(flow);
                return None;
            }
            Cause::SignOut => {
                self.outbox.report(Event::Refused(SignInError::SignedOut));
                if !flow.step.may_end_with_tokens() {
                    self.release(flow);
                    return None;
                }
                // The tokens that are on their way are revoked too.
                flow.need = Need::SignOut;
            }
        }
        Some(flow)
    }

    /// What a challenge demands; `None` if it is answered already.
    fn challenged(
        &mut self,
        status: StatusCode,
        challenges: &[Challenge],
        generation: Option<u64>,
        now: Instant,
    ) -> Option<Need> {
        // The refused request was sent before the current token was there (OA-T-05).
        if self.held.as_ref().is_some_and(|held| generation.is_none_or(|sent| sent < held.generation)) {
            self.report_held();
            return None;
        }
        let challenge = Challenge::for_token(challenges);
        let scope = challenge.and_then(Challenge::scope).map(str::to_owned);
        let is_step_up = status == StatusCode::FORBIDDEN;
        let may_be_expired = is_step_up && generation.is_some() && self.may_be_expired(scope.as_deref(), now);
        let checked = match self.held.as_ref().filter(|_| generation.is_some()) {
            _ if may_be_expired => Ok(()),
            _ if is_step_up => self.check_scopes(scope.as_deref()),
            Some(held) => {
                // Another one of the same kind would be refused too, until it is clear why (OA-P-07).
                self.timers.clear(Timer::Refresh);
                self.history.count_refused(held, self.clock.unix(now))
            }
            None => Ok(()),
        };
        if let Err(error) = checked {
            self.outbox.report(Event::Refused(error));
            return None;
        }
        let sign_in_parameters = ["acr_values", "max_age"].into_iter().filter_map(|name| {
            let value = challenge?.parameter(name)?;
            Some((name.to_owned(), value.to_owned()))
        });
        Some(Need::New {
            named: challenge.and_then(Challenge::resource_metadata).map(str::to_owned),
            has_challenge: challenge.is_some(),
            demands_proofs: challenge.is_some_and(Challenge::is_dpop) && !challenges.iter().any(Challenge::is_bearer),
            scope,
            sign_in_parameters: sign_in_parameters.collect(),
            is_step_up,
            may_be_expired,
            refused: self.held.as_ref().filter(|_| generation.is_some()).and_then(Held::stored),
        })
    }

    /// Whether the token in use may have expired, although the server complains of scopes: the token was granted these
    /// scopes, and is refused with them for the first time since it was refreshed. Some servers refuse an expired token
    /// in this way. A token that has just been issued lacks something else.
    fn may_be_expired(&mut self, scope: Option<&str>, now: Instant) -> bool {
        let wanted = union([scope]).unwrap_or_default();
        let (Some(held), Some(tokens)) = (&self.held, &self.record.tokens) else { return false };
        let has_all = !wanted.is_empty() && tokens.covers(&wanted) && tokens.refresh_token.is_some();
        let is_old = held.serial.is_some() && !History::is_fresh(held, self.clock.unix(now));
        let may_be_expired = has_all && is_old && !self.history.is_useless(&wanted);
        if may_be_expired {
            self.report_quirk(ProviderQuirk::GrantedScopeRefused, &without_query(&self.config.server));
        }
        may_be_expired
    }

    /// Whether tokens with these scopes may help (OA-S-03).
    fn check_scopes(&mut self, scope: Option<&str>) -> Result<(), SignInError> {
        let wanted = union([scope]).unwrap_or_default();
        let was_requested = self.record.tokens.as_ref().is_some_and(|tokens| tokens.was_for(&wanted));
        // Another program decides by itself which scopes its tokens have.
        if wanted.is_empty() || matches!(self.config.grant, Grant::External) {
            return Err(SignInError::ScopesGranted);
        }
        self.history.check_scopes(wanted, was_requested)
    }

    /// Looks for a token that the server accepts.
    pub(super) fn find_token(&mut self, flow: Flow, now: Instant) {
        match self.config.grant {
            Grant::External => self.obtain(flow, now),
            Grant::AuthorizationCode
            | Grant::DeviceCode
            | Grant::ClientCredentials
            | Grant::WorkloadIdentity
            | Grant::EnterpriseManaged(_) => self.discover(flow, now),
        }
    }
}
