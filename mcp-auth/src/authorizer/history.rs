//! What limits the number of sign-ins: tokens and scopes that the server refused, and persons who did not sign in.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use mcp_proto::Instant;

use super::Held;
use crate::authorization::RedirectError;
use crate::error::SignInError;

/// The number of new tokens in a row that the server may refuse before no more are requested (OA-T-04).
const MAX_REFUSED_IN_A_ROW: u32 = 3;

/// A token that the server refuses within this many seconds was never accepted.
const FRESH: u64 = 60;

/// The number of sets of scopes that are remembered because the server refused them (OA-S-03).
const MAX_REMEMBERED: usize = 64;

/// For how long no person is asked again after one has refused or did not sign in.
const PAUSE: Duration = Duration::from_secs(60);

/// The number of times that a person may sign in within [`PAUSE`] for a server that accepts nothing (OA-T-04).
const MAX_SIGN_INS: u32 = 3;

/// The attempts that did not help: refused tokens, useless scopes, and sign-ins.
#[derive(Debug, Default)]
pub(super) struct History {
    /// New tokens that the server refused, one after the other.
    refused_in_a_row: u32,
    last_refused: LastRefused,
    /// Sets of scopes with which the server still refused.
    useless_scopes: BTreeSet<String>,
    /// When persons have last signed in, at most [`MAX_SIGN_INS`] times. Whether their tokens were accepted is not known.
    signed_in: VecDeque<Instant>,
    /// When a person last did not sign in, and why.
    without_person: Option<(Instant, SignInError)>,
}

/// The last token that the server refused before it expired.
#[derive(Debug, Default)]
struct LastRefused {
    generation: u64,
    /// Seconds since 1970.
    at: u64,
}

impl History {
    /// Whether a token was issued so recently that, if it is refused now, it was never accepted.
    pub(super) const fn is_fresh(held: &Held, unix: u64) -> bool {
        unix.saturating_sub(held.issued_at) < FRESH
    }

    /// Whether a request for these scopes was in vain before.
    pub(super) fn is_useless(&self, scopes: &str) -> bool {
        self.useless_scopes.contains(scopes)
    }

    /// The server has refused a token with status 401.
    ///
    /// # Errors
    ///
    /// It has refused too many new ones in a row.
    pub(super) fn count_refused(&mut self, held: &Held, unix: u64) -> Result<(), SignInError> {
        let is_expired = held.expires_at.is_some_and(|expiry| expiry <= unix);
        let is_fresh = !is_expired && Self::is_fresh(held, unix);
        let is_in_row = unix.saturating_sub(self.last_refused.at) < FRESH;
        let is_same = self.last_refused.generation == held.generation;
        self.refused_in_a_row = match (is_fresh, is_in_row) {
            (true, true) => self.refused_in_a_row + u32::from(!is_same),
            (true, false) => 1,
            // It is not known whether the token was accepted before it expired.
            (false, true) if is_expired => self.refused_in_a_row,
            (false, _) => 0,
        };
        if !is_expired {
            self.last_refused = LastRefused { generation: held.generation, at: unix };
        }
        if self.refused_in_a_row < MAX_REFUSED_IN_A_ROW {
            Ok(())
        } else {
            Err(SignInError::TokensRefused(self.refused_in_a_row))
        }
    }

    /// A person has signed in.
    pub(super) fn signed_in(&mut self, now: Instant) {
        self.signed_in.push_back(now);
        if self.signed_in.len() > MAX_SIGN_INS as usize {
            self.signed_in.pop_front();
        }
    }

    /// The server refuses a token because it lacks these scopes. `was_requested`: the token was requested with all of
    /// them.
    ///
    /// # Errors
    ///
    /// A request for these scopes was in vain, now or before (OA-S-03).
    pub(super) fn check_scopes(&mut self, scopes: String, was_requested: bool) -> Result<(), SignInError> {
        // It accepts the token as such.
        self.signed_in.clear();
        let is_useless = was_requested || self.useless_scopes.contains(&scopes);
        if was_requested && self.useless_scopes.len() < MAX_REMEMBERED {
            self.useless_scopes.insert(scopes);
        }
        if is_useless { Err(SignInError::ScopesGranted) } else { Ok(()) }
    }

    /// A flow has ended with this error.
    pub(super) fn ended(&mut self, error: &SignInError, now: Instant) {
        let is_without_person =
            matches!(error, SignInError::UserTimedOut { .. } | SignInError::Redirect(RedirectError::Denied(_)));
        if is_without_person {
            self.without_person = Some((now, error.clone()));
        }
    }

    /// A person has asked for a sign-in.
    pub(super) fn ask_again(&mut self) {
        self.without_person = None;
        self.signed_in.clear();
    }

    /// Why no person is asked now. Without this pause, every message would again ask the person who has just refused or
    /// signed in.
    pub(super) fn pause(&self, now: Instant) -> Option<SignInError> {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < PAUSE;
        match &self.without_person {
            Some((at, error)) if is_recent(*at) => return Some(error.clone()),
            Some(_) | None => {}
        }
        let recent = self.signed_in.iter().filter(|at| is_recent(**at)).count();
        (recent == MAX_SIGN_INS as usize).then_some(SignInError::SignedInTooOften(MAX_SIGN_INS))
    }
}
