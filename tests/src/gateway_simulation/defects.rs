//! Gateways that are broken on purpose: what passes between the gateway and its driver is changed as a gateway with the
//! defect would do it.

use std::collections::BTreeSet;

use bytes::Bytes;
use mcp_intermediary::gateway::{Action, BackendKey};
use mcp_proto::StdioAction;
use mcp_proto::server::{ExchangeKey, HttpAction};

use crate::seeded::Run;

/// What a gateway can do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// An answer is not passed on.
    LosesAnswers,
    /// An answer is passed on twice.
    RepeatsAnswers,
    /// An answer goes to another client.
    SendsToAnotherClient,
    /// A call goes to the process that received the one before.
    SendsToAnotherProcess,
    /// A call is not passed on.
    LosesCalls,
    /// A call is passed on twice.
    RepeatsCalls,
    /// A cancellation is not passed on.
    LosesCancellations,
    /// The answer of a client to a question is not passed on.
    LosesAnswersOfClients,
    /// A process is not ended.
    LeavesProcesses,
    /// The end of a process is not noticed.
    IgnoresExits,
    /// The end of a session is not noticed.
    KeepsEndedSessions,
    /// A session is found for each principal.
    ForgetsPrincipals,
    /// A session has two streams at one time.
    OpensTwoStreams,
    /// No timer fires.
    IgnoresTimers,
    /// A changed filter does not apply.
    KeepsFilters,
    /// The sessions of a user whose credentials were withdrawn stay.
    KeepsWithdrawn,
}

/// Each defect with the invariant that notices it.
pub(super) const DEFECTS: &[(Defect, &str)] = &[
    (Defect::LosesAnswers, "has not reached its client"),
    (Defect::RepeatsAnswers, "a second answer"),
    (Defect::SendsToAnotherClient, "a message of another session"),
    (Defect::SendsToAnotherProcess, "a call of another user"),
    (Defect::LosesCalls, "has reached no process"),
    (Defect::RepeatsCalls, "has reached a process twice"),
    (Defect::LosesCancellations, "is still served"),
    (Defect::LosesAnswersOfClients, "has not reached the process that asked"),
    (Defect::LeavesProcesses, "processes are left"),
    (Defect::IgnoresExits, "after its exit"),
    (Defect::KeepsEndedSessions, "an ended session is found"),
    (Defect::ForgetsPrincipals, "another principal, or another origin"),
    (Defect::OpensTwoStreams, "two streams of one session"),
    (Defect::IgnoresTimers, "longer than its timeout"),
    (Defect::KeepsFilters, "a denied call has reached a process"),
    (Defect::KeepsWithdrawn, "an ended session is found"),
];

/// Changes the actions of a gateway.
#[derive(Debug)]
pub(super) struct Broken {
    run: Run<'static, Defect>,
    /// The streams that are open.
    streams: BTreeSet<ExchangeKey>,
    last_process: Option<BackendKey>,
}

impl Broken {
    pub(super) fn new(run: &Run<'_, Defect>) -> Self {
        Self { run: run.for_defect(), streams: BTreeSet::new(), last_process: None }
    }

    /// What a broken gateway does instead.
    pub(super) fn instead(&mut self, action: Action) -> Vec<Action> {
        match action {
            Action::Client(HttpAction::Respond { exchange, response }) if is_answer(response.body()) => {
                if self.run.is_now(Defect::LosesAnswers) {
                    return Vec::new();
                }
                vec![Action::Client(HttpAction::Respond { exchange, response })]
            }
            Action::Client(HttpAction::Write { exchange, chunk }) if is_answer(&chunk) => {
                if self.run.is_now(Defect::LosesAnswers) {
                    return Vec::new();
                }
                let again = self.run.is_now(Defect::RepeatsAnswers).then(|| chunk.clone());
                let exchange = self.client(exchange);
                let all = [Some(chunk), again].into_iter().flatten();
                all.map(|chunk| Action::Client(HttpAction::Write { exchange, chunk })).collect()
            }
            Action::Client(HttpAction::Stream { exchange, head }) => {
                self.streams.insert(exchange);
                vec![Action::Client(HttpAction::Stream { exchange, head })]
            }
            Action::Client(action @ (HttpAction::Finish { exchange } | HttpAction::Abort { exchange })) => {
                self.streams.remove(&exchange);
                vec![Action::Client(action)]
            }
            Action::Backend { backend, action: StdioAction::Write(line) } => self.write(backend, line),
            Action::Stop { .. } if self.run.is_now(Defect::LeavesProcesses) => Vec::new(),
            Action::Stop { backend } => {
                self.last_process = self.last_process.filter(|last| *last != backend);
                vec![Action::Stop { backend }]
            }
            action => vec![action],
        }
    }

    fn write(&mut self, backend: BackendKey, line: Bytes) -> Vec<Action> {
        let text = String::from_utf8_lossy(&line).into_owned();
        let is_call = text.contains("\"tools/call\"");
        let is_lost = is_call && self.run.is_now(Defect::LosesCalls)
            || text.contains("notifications/cancelled") && self.run.is_now(Defect::LosesCancellations)
            || text.contains("\"action\":\"cancel\"") && self.run.is_now(Defect::LosesAnswersOfClients);
        if is_lost {
            return Vec::new();
        }
        let times = if is_call && self.run.is_now(Defect::RepeatsCalls) { 2 } else { 1 };
        let mut to = backend;
        if is_call {
            if self.run.is_now(Defect::SendsToAnotherProcess) {
                to = self.last_process.unwrap_or(backend);
            }
            self.last_process = Some(backend);
        }
        let action = || Action::Backend { backend: to, action: StdioAction::Write(line.clone()) };
        std::iter::repeat_with(action).take(times).collect()
    }

    /// The client that receives an answer.
    fn client(&mut self, exchange: ExchangeKey) -> ExchangeKey {
        let other = self.streams.iter().copied().find(|other| *other != exchange);
        other.filter(|_| self.run.is_now(Defect::SendsToAnotherClient)).unwrap_or(exchange)
    }
}

fn is_answer(text: &Bytes) -> bool {
    String::from_utf8_lossy(text).contains("\"mark\":")
}
