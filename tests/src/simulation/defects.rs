//! Machines that are broken on purpose: what passes between a machine and its driver is changed as a machine with the defect
//! would do it.

use std::collections::BTreeSet;

use bytes::Bytes;
use mcp_proto::server::{ExchangeKey, HttpAction};

use crate::seeded::Run;

/// What a machine can do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// The server does not send an answer.
    LosesAnswers,
    /// The server sends an error in the place of an answer.
    RefusesCalls,
    /// The server answers with the text of another call.
    ConfusesAnswers,
    /// The server reports progress twice.
    RepeatsProgress,
    /// The server does not send a change notification.
    LosesChanges,
    /// The server sends a change notification twice.
    RepeatsChanges,
    /// The server sends an answer to another client.
    SendsToAnotherClient,
    /// The server passes a call to its application twice.
    DeliversTwice,
    /// The server finds a session for each principal.
    ForgetsPrincipals,
    /// The client does not send a call.
    LosesCalls,
    /// The client does not send a cancellation.
    LosesCancellations,
    /// The client does not notice the end of an exchange.
    IgnoresEnds,
    /// No timer of the client fires.
    IgnoresTimers,
    /// The relay does not pass an answer on.
    LosesRelayedAnswers,
}

/// Each defect with the invariant that notices it.
pub(super) const DEFECTS: &[(Defect, &str)] = &[
    (Defect::LosesAnswers, "met no fault, and has no outcome"),
    (Defect::RefusesCalls, "without a cause"),
    (Defect::ConfusesAnswers, "the answer to another call"),
    (Defect::RepeatsProgress, "made progress"),
    (Defect::LosesChanges, "did not come to client"),
    (Defect::RepeatsChanges, "came twice to client"),
    (Defect::SendsToAnotherClient, "the answer to another call"),
    (Defect::DeliversTwice, "was delivered 2 times"),
    (Defect::ForgetsPrincipals, "another principal found"),
    (Defect::LosesCalls, "did not reach the server's application"),
    (Defect::LosesCancellations, "was cancelled, met no fault, and is still served"),
    (Defect::IgnoresEnds, "neither ended nor was resumed"),
    (Defect::IgnoresTimers, "after its timeout"),
    (Defect::LosesRelayedAnswers, "met no fault, and has no outcome"),
];

/// What is broken, if anything is.
#[derive(Debug)]
pub(super) struct Broken {
    run: Run<'static, Defect>,
    /// The streams of an HTTP server that are open.
    streams: BTreeSet<ExchangeKey>,
}

impl Broken {
    pub(super) fn new(run: &Run<'_, Defect>) -> Self {
        Self { run: run.for_defect(), streams: BTreeSet::new() }
    }

    pub(super) fn is(&self, defect: Defect) -> bool {
        self.run.is(defect)
    }

    pub(super) fn is_now(&mut self, defect: Defect) -> bool {
        self.run.is_now(defect)
    }

    /// Whether a broken client does not send this message.
    pub(super) fn loses(&mut self, message: &Bytes) -> bool {
        has(message, "\"tools/call\"") && self.is_now(Defect::LosesCalls)
            || has(message, "notifications/cancelled") && self.is(Defect::LosesCancellations)
    }

    /// What a broken server sends instead of a message, or of a piece of a stream.
    pub(super) fn instead(&mut self, message: Bytes) -> Vec<Bytes> {
        let times = if is_echo(&message) {
            if self.is_now(Defect::RefusesCalls) {
                return vec![replaced(&message, "\"result\":{\"text\":", "\"error\":{\"code\":-1,\"message\":")];
            }
            if self.is_now(Defect::ConfusesAnswers) {
                return vec![replaced(&message, "\"text\":\"text", "\"text\":\"other")];
            }
            usize::from(!self.is_now(Defect::LosesAnswers))
        } else if has(&message, "notifications/progress") {
            if self.is_now(Defect::RepeatsProgress) { 2 } else { 1 }
        } else if has(&message, "list_changed") && has(&message, "\"number\"") {
            if self.is_now(Defect::RepeatsChanges) { 2 } else { usize::from(!self.is_now(Defect::LosesChanges)) }
        } else {
            1
        };
        vec![message; times]
    }

    /// What a broken server does instead of an action.
    pub(super) fn instead_over_http(&mut self, action: HttpAction) -> Vec<HttpAction> {
        match action {
            HttpAction::Respond { exchange, response } => {
                let (head, body) = response.into_parts();
                let one = self.instead(body).into_iter().next();
                let response = |body| http::Response::from_parts(head, body);
                one.map(|body| HttpAction::Respond { exchange, response: response(body) }).into_iter().collect()
            }
            HttpAction::Write { exchange, chunk } => {
                let other = self.streams.iter().copied().find(|other| *other != exchange);
                let is_elsewhere = is_echo(&chunk) && self.is_now(Defect::SendsToAnotherClient);
                let exchange = other.filter(|_| is_elsewhere).unwrap_or(exchange);
                self.instead(chunk).into_iter().map(|chunk| HttpAction::Write { exchange, chunk }).collect()
            }
            HttpAction::Stream { exchange, .. } => {
                self.streams.insert(exchange);
                vec![action]
            }
            HttpAction::Finish { exchange } | HttpAction::Abort { exchange } => {
                self.streams.remove(&exchange);
                vec![action]
            }
            action => vec![action],
        }
    }
}

/// Whether this is a result of the tool.
pub(super) fn is_echo(message: &Bytes) -> bool {
    has(message, "\"result\":{\"text\":\"text")
}

fn has(message: &Bytes, text: &str) -> bool {
    String::from_utf8_lossy(message).contains(text)
}

fn replaced(message: &Bytes, text: &str, by: &str) -> Bytes {
    String::from_utf8_lossy(message).replace(text, by).into_bytes().into()
}
