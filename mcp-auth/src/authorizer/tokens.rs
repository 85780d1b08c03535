//! Which tokens are used: stored ones, refreshed ones or new ones, and how the flow that got them ends.

use std::sync::Arc;
use std::time::Duration;

use mcp_proto::Instant;
use mcp_proto::auth::{Credentials, Secret};

use super::flow::{Flow, Found, Need, Step, Then};
use super::request::ClientRequest;
use super::{Authorizer, BUSY, Held, Timer};
use crate::action::{Action, Authorized, Event, Lock};
use crate::config::Grant;
use crate::error::SignInError;
use crate::record::Tokens;
use crate::seed::sha256;
use crate::token_response::TokenScheme;

impl Authorizer {
    /// Reads the record without its lock: a server that needs no token causes no files.
    pub(super) fn look_at_record(&mut self, now: Instant) {
        self.timers.set(Timer::Step, now + self.config.request_timeout);
        self.outbox.act(Action::Load);
        self.flow = Some(Flow { step: Step::Loading(Then::UseAsItIs), ..Flow::new(Need::Stored) });
    }

    /// Uses the stored tokens, if that needs no request. The record need not be locked, because other processes replace
    /// it as a whole.
    pub(super) fn use_as_it_is(&mut self, flow: Flow, now: Instant) {
        let (unix, serial) = (self.clock.unix(now), self.record.serial);
        let tokens = self.record.tokens.as_ref();
        let can_be_used = tokens.is_some_and(|tokens| flow.may_use(tokens, serial, unix));
        let can_be_refreshed = tokens.is_some_and(|tokens| tokens.refresh_token.is_some());
        match flow.need {
            Need::Stored if can_be_used => self.use_stored(flow, now),
            Need::Stored if !can_be_refreshed => self.end_without_token(flow),
            Need::Stored | Need::New { .. } | Need::SignOut => self.lock_record(flow, Then::Decide, now),
        }
    }

    /// Takes the lock of the record, and loads it.
    pub(super) fn lock_record(&mut self, mut flow: Flow, then: Then, now: Instant) {
        self.timers.set(Timer::Step, now + self.config.request_timeout * 2);
        if flow.locks.contains(&Lock::Record) {
            self.outbox.act(Action::Load);
            flow.step = Step::Loading(then);
        } else {
            self.outbox.act(Action::Lock(Lock::Record));
            flow.step = Step::Locking(then);
        }
        self.flow = Some(flow);
    }

    pub(super) fn unlock(&mut self, flow: &mut Flow, lock: Lock) {
        if flow.locks.remove(&lock) {
            self.outbox.act(Action::Unlock(lock));
        }
    }

    /// Uses stored tokens, refreshes them, or gets new ones. The record is locked and was just read (OA-F-04).
    pub(super) fn decide(&mut self, mut flow: Flow, now: Instant) {
        self.timers.clear(Timer::Step);
        let unix = self.clock.unix(now);
        if let (Some(imported), Some(found)) = (&flow.imported, &flow.found) {
            let tokens = imported.to_tokens(&found.issuer, found.resource.parameter.as_deref(), unix);
            if let Some(tokens) = tokens {
                return self.store_tokens(flow, tokens, now);
            }
            let issuer = found.issuer.issuer().to_owned();
            return self.fail(flow, SignInError::ImportedFromOther { issuer }, now);
        }
        let is_replaced = flow.imported.is_some();
        let tokens = self.record.tokens.as_ref().filter(|tokens| flow.is_for(tokens) && !is_replaced);
        if tokens.is_some_and(|tokens| flow.may_use(tokens, self.record.serial, unix)) {
            return self.use_stored(flow, now);
        }
        let refreshed = tokens.filter(|_| flow.may_refresh()).and_then(|tokens| {
            let refresh_token = tokens.refresh_token.clone()?;
            Some(ClientRequest::refresh(tokens, refresh_token))
        });
        if let Some(request) = refreshed {
            return self.request(flow, request, now);
        }
        match flow.need {
            Need::SignOut => self.sign_out(flow, now),
            // No token was demanded so far: a challenge of the server begins another flow (OA-T-02).
            Need::Stored => self.end_without_token(flow),
            // The challenge has come while the record was read.
            Need::New { .. } if flow.found.is_none() => {
                self.unlock(&mut flow, Lock::Record);
                self.find_token(flow, now);
            }
            Need::New { .. } => match self.config.grant {
                Grant::AuthorizationCode | Grant::DeviceCode => self.ask_person(flow, now),
                Grant::ClientCredentials => self.request_client_credentials(flow, now),
                Grant::WorkloadIdentity | Grant::EnterpriseManaged(_) | Grant::External => self.obtain(flow, now),
            },
        }
    }

    /// Begins a sign-in by a person, if this process may, and no other one does.
    fn ask_person(&mut self, mut flow: Flow, now: Instant) {
        if !self.config.may_ask_user || !flow.has_person {
            let command = self.config.sign_in_command.clone();
            let error = match &flow.found {
                Some(Found { is_assumed: true, .. }) => SignInError::NotInteractiveWithoutMetadata { command },
                _ => SignInError::NotInteractive { command },
            };
            return self.fail(flow, error, now);
        }
        if let Some(error) = self.history.pause(now) {
            return self.fail(flow, error, now);
        }
        if flow.locks.contains(&Lock::SignIn) {
            return self.sign_in(flow, now);
        }
        // Locks are always taken in the same order: that of sign-ins first.
        self.unlock(&mut flow, Lock::Record);
        self.timers.set(Timer::Step, now + self.config.user_timeout);
        self.timers.set(Timer::Busy, now + BUSY);
        self.outbox.act(Action::Lock(Lock::SignIn));
        flow.step = Step::LockingSignIn;
        self.flow = Some(flow);
    }

    /// New tokens were issued: they are stored before they are used (OA-F-03).
    pub(super) fn store_tokens(&mut self, flow: Flow, tokens: Tokens, now: Instant) {
        if flow.locks.contains(&Lock::Record) {
            self.replace_tokens(flow, tokens, now);
        } else {
            self.lock_record(flow, Then::Store(Box::new(tokens)), now);
        }
    }

    pub(super) fn replace_tokens(&mut self, flow: Flow, tokens: Tokens, now: Instant) {
        self.record.set_tokens(tokens);
        self.store();
        match flow.need {
            // It was asked for while the tokens were on their way.
            Need::SignOut => self.sign_out(flow, now),
            Need::Stored | Need::New { .. } => self.use_stored(flow, now),
        }
    }

    pub(super) fn store(&mut self) {
        let record = String::from_utf8(self.record.to_bytes()).unwrap_or_default();
        self.outbox.act(Action::Store(Secret::new(record)));
    }

    /// The tokens of the record are used from now on.
    fn use_stored(&mut self, flow: Flow, now: Instant) {
        let Some(tokens) = &self.record.tokens else { return self.end_without_token(flow) };
        let held = Held {
            generation: self.generation,
            serial: Some(self.record.serial),
            issued_at: tokens.issued_at,
            expires_at: tokens.expires_at,
            token: tokens.access_token.clone(),
            scheme: tokens.scheme,
            proof_key: tokens.proof_key.clone().map(Arc::new),
        };
        let refresh_at = tokens.refresh_at();
        self.release(flow);
        if self.held.as_ref().is_some_and(|own| own.stored() == held.stored()) {
            self.report_held();
        } else {
            self.hold(held);
        }
        self.timers.clear(Timer::Refresh);
        if let Some(at) = refresh_at {
            let after = at.saturating_sub(self.clock.unix(now));
            self.timers.set(Timer::Refresh, now + Duration::from_secs(after));
        }
    }

    /// Uses a token that was not used before.
    pub(super) fn hold(&mut self, held: Held) {
        self.generation += 1;
        self.held = Some(Held { generation: self.generation, ..held });
        self.report_held();
    }

    pub(super) fn report_held(&mut self) {
        let Some(Held { generation, token, scheme, proof_key, .. }) = &self.held else { return };
        let credentials = match (scheme, proof_key) {
            (TokenScheme::Dpop, Some(key)) => {
                Credentials::dpop(token.reveal(), &sha256(token.reveal()), key.clone(), *generation)
            }
            (TokenScheme::Bearer | TokenScheme::Dpop, _) => Credentials::bearer(token.reveal(), *generation),
        };
        let event = if let Ok(credentials) = credentials {
            let (token, scheme, generation) = (token.clone(), *scheme, *generation);
            Event::Authorized(Authorized { credentials, token, scheme, generation })
        } else {
            // Only another program can have written such a token.
            Event::Refused(SignInError::UnusableToken)
        };
        self.outbox.report(event);
    }

    /// Ends a flow without a token.
    pub(super) fn fail(&mut self, flow: Flow, error: SignInError, now: Instant) {
        match flow.need {
            Need::Stored => self.end_without_token(flow),
            // The tokens are erased even if they could not be revoked.
            Need::SignOut if flow.locks.contains(&Lock::Record) => self.on_revoked(flow, false),
            // The flow has ended without the new tokens; the stored ones remain to be revoked and erased.
            Need::SignOut if !matches!(error, SignInError::StoreTimedOut) => self.lock_record(flow, Then::Decide, now),
            Need::New { .. } | Need::SignOut => {
                self.history.ended(&error, now);
                self.release(flow);
                self.outbox.report(Event::Refused(error));
            }
        }
    }

    /// Ends a flow for which no token was demanded. A token that could not be refreshed ahead of time may still be valid
    /// (OA-F-02).
    fn end_without_token(&mut self, flow: Flow) {
        self.release(flow);
        if self.held.is_none() {
            self.outbox.report(Event::NoToken);
        }
    }

    /// Releases what a flow holds, in the reverse order.
    pub(super) fn release(&mut self, mut flow: Flow) {
        for timer in [Timer::Step, Timer::Busy, Timer::Poll] {
            self.timers.clear(timer);
        }
        // The driver may be about to listen.
        if flow.is_listening || matches!(flow.step, Step::Listening) {
            self.outbox.act(Action::Unlisten);
        }
        // Waiting for a lock is given up by releasing it.
        match flow.step {
            Step::Locking(_) => self.outbox.act(Action::Unlock(Lock::Record)),
            Step::LockingSignIn => self.outbox.act(Action::Unlock(Lock::SignIn)),
            Step::Ready
            | Step::Discovering(_)
            | Step::Loading(_)
            | Step::Listening
            | Step::Registering { .. }
            | Step::AwaitingRedirect(_)
            | Step::AwaitingDevice(_)
            | Step::Obtaining
            | Step::CreatingKey(_)
            | Step::Signing(_)
            | Step::Requesting { .. } => {}
        }
        self.unlock(&mut flow, Lock::Record);
        self.unlock(&mut flow, Lock::SignIn);
    }
}
