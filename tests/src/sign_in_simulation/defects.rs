//! Machines that are broken on purpose: what passes between a process and its surroundings is changed as machines with the
//! defect would do it.

use bytes::Bytes;
use http::{Request, Uri};
use mcp_auth::{Action, Lock};
use serde_json::Value;

use super::issuer::{Answer, form};
use super::{ISSUERS, Simulation};
use crate::seeded::Run;

/// What the machines of a process can do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// A call has no outcome.
    LosesOutcomes,
    /// A call has two outcomes.
    RepeatsOutcomes,
    /// A call is sent twice.
    CallsTwice,
    /// A challenge begins no sign-in.
    IgnoresChallenges,
    /// A token is sent to another server.
    SendsTokensElsewhere,
    /// A refresh token is sent to another issuer.
    SendsRefreshTokensElsewhere,
    /// The secret of a client is sent to another issuer.
    SendsSecretsElsewhere,
    /// Credentials are sent in URLs.
    PutsCredentialsInUrls,
    /// Tokens are refreshed without the lock of the record.
    RefreshesWithoutLock,
    /// The record is written without its lock.
    WritesWithoutLock,
    /// A person is asked without the lock of sign-ins.
    SignsInWithoutLock,
    /// A lock is not released.
    KeepsLocks,
    /// A process that has ended, and lost its locks, goes on.
    GoesOnWithoutLocks,
    /// What another process has stored is not read.
    ReadsOlderRecords,
    /// New tokens are not stored.
    StoresNothing,
    /// A browser is opened twice.
    OpensBrowserTwice,
    /// A redirect of another issuer, or with another state, is accepted.
    AcceptsForgedRedirects,
    /// A person who has refused is asked again.
    IgnoresRefusals,
    /// A client that was refused as unknown is used again.
    KeepsUnknownClients,
    /// A client whose secret has expired is used.
    UsesExpiredSecrets,
    /// A token is used until the server refuses it.
    UsesExpiredTokens,
    /// The scopes that were granted are not asked for again.
    LosesScopes,
    /// A port is not closed.
    LeavesPortsOpen,
    /// No timer fires.
    IgnoresTimers,
}

/// Each defect with the invariant that notices it.
pub(super) const DEFECTS: &[(Defect, &str)] = &[
    (Defect::LosesOutcomes, "have no outcome"),
    (Defect::RepeatsOutcomes, "a call has one outcome"),
    (Defect::CallsTwice, "a call is carried out twice"),
    (Defect::IgnoresChallenges, "without faults"),
    (Defect::SendsTokensElsewhere, "a request is sent to another server"),
    (Defect::SendsRefreshTokensElsewhere, "a refresh_token was sent to another issuer"),
    (Defect::SendsSecretsElsewhere, "the secret of another issuer"),
    (Defect::PutsCredentialsInUrls, "a credential is in a URL"),
    (Defect::RefreshesWithoutLock, "a refresh without the lock of the record"),
    (Defect::WritesWithoutLock, "the record is written without its lock"),
    (Defect::SignsInWithoutLock, "opened without the lock of sign-ins"),
    (Defect::KeepsLocks, "locks are held in the end"),
    (Defect::GoesOnWithoutLocks, "a code is sent without the lock of sign-ins"),
    (Defect::ReadsOlderRecords, "a refresh token that is not stored"),
    (Defect::StoresNothing, "a token is used before it is stored"),
    (Defect::OpensBrowserTwice, "a browser is opened twice"),
    (Defect::AcceptsForgedRedirects, "a forged code was sent"),
    (Defect::IgnoresRefusals, "a person is asked again who has just refused"),
    (Defect::KeepsUnknownClients, "a person is asked for an unknown client"),
    (Defect::UsesExpiredSecrets, "the secret of the client has expired"),
    (Defect::UsesExpiredTokens, "an expired token is sent"),
    (Defect::LosesScopes, "scopes are lost"),
    (Defect::LeavesPortsOpen, "still listens"),
    (Defect::IgnoresTimers, "have no outcome"),
];

/// What broken machines do instead; the same if they are not broken.
impl Simulation<'_> {
    /// What is carried out for the machine that signs in.
    pub(super) fn action_instead(&mut self, number: usize, action: Action) -> Vec<Action> {
        let now = self.now;
        match action {
            Action::Lock(lock) => {
                let has_refresh_token = self.stored("refresh_token").is_some();
                let without = match lock {
                    Lock::Record if has_refresh_token => Defect::RefreshesWithoutLock,
                    Lock::Record => Defect::WritesWithoutLock,
                    _ => Defect::SignsInWithoutLock,
                };
                if self.run.is(without) {
                    self.processes[number].authorizer.handle_locked(lock, now);
                    return Vec::new();
                }
                vec![Action::Lock(lock)]
            }
            Action::Unlock(_) if self.run.is_now(Defect::KeepsLocks) => Vec::new(),
            Action::Unlisten if self.run.is_now(Defect::LeavesPortsOpen) => Vec::new(),
            Action::Store(_) if self.run.is_now(Defect::StoresNothing) => Vec::new(),
            Action::Load if self.run.is(Defect::ReadsOlderRecords) && self.stored_before.is_some() => {
                let older = self.stored_before.clone();
                self.processes[number].authorizer.handle_loaded(older.as_deref(), now);
                Vec::new()
            }
            Action::OpenBrowser { url } => {
                let is_step_up = self.processes[number].is_step_up == Some(true);
                let loses_scopes = is_step_up && self.run.is(Defect::LosesScopes);
                let url = if loses_scopes { with(&url, "scope", "write") } else { url };
                let times = if self.run.is_now(Defect::OpensBrowserTwice) { 2 } else { 1 };
                std::iter::repeat_with(|| Action::OpenBrowser { url: url.clone() }).take(times).collect()
            }
            mut action => {
                if let Action::Fetch { request, .. } = &mut action {
                    self.fetched_instead(request);
                }
                vec![action]
            }
        }
    }

    /// Where a request to an authorization server goes.
    fn fetched_instead(&self, request: &mut Request<Bytes>) {
        let uri = request.uri().to_string();
        let parameters = form(request.body());
        let is_elsewhere = parameters.contains_key("refresh_token") && self.run.is(Defect::SendsRefreshTokensElsewhere)
            || request.headers().contains_key("authorization") && self.run.is(Defect::SendsSecretsElsewhere);
        if let Some(issuer) = ISSUERS.iter().position(|issuer| uri.starts_with(issuer)).filter(|_| is_elsewhere) {
            let (own, other) = (ISSUERS[issuer], ISSUERS[1 - issuer]);
            *request.uri_mut() = uri.replace(own, other).parse::<Uri>().expect("a URI");
        }
        if let Some(code) = parameters.get("code").filter(|_| self.run.is(Defect::PutsCredentialsInUrls)) {
            *request.uri_mut() = with(&uri, "code", code).parse::<Uri>().expect("a URI");
        }
    }

    /// Where a request to the server goes.
    pub(super) fn opened_instead(&mut self, mut request: Request<Bytes>) -> Request<Bytes> {
        let has_token = request.headers().contains_key("authorization");
        if has_token && self.run.is_now(Defect::SendsTokensElsewhere) {
            *request.uri_mut() = Uri::from_static("https://other.example/mcp");
        }
        request
    }

    /// What an answer of a host is taken for.
    pub(super) fn answered_instead(run: &Run<'_, Defect>, mut answer: Answer) -> Answer {
        let Ok(Value::Object(mut members)) = serde_json::from_str(&answer.body) else { return answer };
        if run.is(Defect::UsesExpiredTokens) {
            members.remove("expires_in");
        }
        if run.is(Defect::UsesExpiredSecrets) {
            members.remove("client_secret_expires_at");
        }
        if members.get("error").is_some_and(|error| error == "invalid_client") && run.is(Defect::KeepsUnknownClients) {
            members.insert("error".to_owned(), "invalid_grant".into());
        }
        answer.body = Value::Object(members).to_string();
        answer
    }

    /// What a redirect is taken for.
    pub(super) fn redirected_instead(&self, process: usize, url: &str) -> String {
        let query = form(url.split_once('?').map_or("", |(_, query)| query).as_bytes());
        let code = query.get("code").map_or("", String::as_str);
        let state = self.processes[process].asked.as_ref().map(|(state, _)| state.as_str());
        match (state, ISSUERS.iter().find(|issuer| code.ends_with(**issuer))) {
            (Some(state), Some(issuer)) if self.run.is(Defect::AcceptsForgedRedirects) => {
                with(&with(url, "state", state), "iss", issuer)
            }
            _ if query.contains_key("error") && self.run.is(Defect::IgnoresRefusals) => {
                with(url, "error", "temporarily_unavailable")
            }
            _ => url.to_owned(),
        }
    }
}

/// A URL with another parameter.
fn with(url: &str, name: &str, value: &str) -> String {
    let (before, query) = url.split_once('?').unwrap_or((url, ""));
    let mut query = form(query.as_bytes());
    query.insert(name.to_owned(), value.to_owned());
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    format!("{before}?{query}")
}
