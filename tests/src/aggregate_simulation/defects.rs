//! Aggregates that are broken on purpose: what passes between the aggregate and its driver is changed as an aggregate with the
//! defect would do it.

use bytes::Bytes;
use mcp_intermediary::aggregate::{Action, ServerKey};
use mcp_proto::StdioAction;
use serde_json::Value;

use crate::seeded::Run;

/// What an aggregate can do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// An answer to a call is not passed on.
    LosesAnswers,
    /// An answer to a call is passed on twice.
    RepeatsAnswers,
    /// Two answers are exchanged.
    ExchangesAnswers,
    /// A call is not passed on.
    LosesCalls,
    /// A call is passed on twice.
    RepeatsCalls,
    /// A call goes to the server that received the one before.
    SendsToAnotherServer,
    /// A cancellation is not passed on.
    LosesCancellations,
    /// Progress is reported for another call.
    ConfusesProgress,
    /// An item is listed twice.
    ListsTwice,
    /// An item is left out of a list.
    OmitsItems,
    /// The client is not notified of a changed list.
    LosesChanges,
    /// The client is notified of each change, however many there are.
    RepeatsChanges,
    /// What a server sends is passed on without a check.
    TrustsServers,
    /// The end of a server is not noticed.
    IgnoresExits,
    /// A server is not ended.
    LeavesServers,
    /// No timer fires.
    IgnoresTimers,
    /// A filter that has changed does not apply.
    IgnoresFilters,
}

/// Each defect with the invariant that notices it.
pub(super) const DEFECTS: &[(Defect, &str)] = &[
    (Defect::LosesAnswers, "has not reached its client"),
    (Defect::RepeatsAnswers, "an answer that it does not expect"),
    (Defect::ExchangesAnswers, "the answer to another call"),
    (Defect::LosesCalls, "has not reached its server"),
    (Defect::RepeatsCalls, "has reached its server twice"),
    (Defect::SendsToAnotherServer, "a call of another server"),
    (Defect::LosesCancellations, "is still served"),
    (Defect::ConfusesProgress, "progress of another call"),
    (Defect::ListsTwice, "has an item twice"),
    (Defect::OmitsItems, "lacks"),
    (Defect::LosesChanges, "the client is not notified"),
    (Defect::RepeatsChanges, "notifications of changes at one moment"),
    (Defect::TrustsServers, "what a hostile server sends is passed on"),
    (Defect::IgnoresExits, "its server has exited"),
    (Defect::LeavesServers, "a server is left"),
    (Defect::IgnoresTimers, "was not answered in time"),
    (Defect::IgnoresFilters, "denied"),
];

/// Changes the actions of an aggregate.
#[derive(Debug)]
pub(super) struct Broken {
    run: Run<'static, Defect>,
    last_server: Option<ServerKey>,
    /// An answer that is exchanged with the next one.
    held: Option<Value>,
}

impl Broken {
    pub(super) fn new(run: &Run<'_, Defect>) -> Self {
        Self { run: run.for_defect(), last_server: None, held: None }
    }

    /// What a broken aggregate does instead.
    pub(super) fn instead(&mut self, action: Action) -> Vec<Action> {
        match action {
            Action::Client(StdioAction::Write(line)) => {
                let lines = self.instead_to_client(line);
                lines.into_iter().map(|line| Action::Client(StdioAction::Write(line))).collect()
            }
            Action::Server { server, action: StdioAction::Write(line) } => self.instead_to_server(server, line),
            Action::Stop { .. } if self.run.is(Defect::LeavesServers) => Vec::new(),
            action => vec![action],
        }
    }

    fn instead_to_client(&mut self, line: Bytes) -> Vec<Bytes> {
        let Ok(mut message) = serde_json::from_slice::<Value>(&line) else { return vec![line] };
        let is_answer = message.pointer("/result/content").is_some() && line.contains_text("<");
        if is_answer && self.run.is_now(Defect::LosesAnswers) {
            return Vec::new();
        }
        if is_answer && self.run.is_now(Defect::RepeatsAnswers) {
            return vec![line.clone(), line];
        }
        if is_answer && (self.held.is_some() || self.run.is_now(Defect::ExchangesAnswers)) {
            return self.exchange(message);
        }
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        if method.ends_with("list_changed") {
            let times = match () {
                () if self.run.is_now(Defect::LosesChanges) => 0,
                () if self.run.is_now(Defect::RepeatsChanges) => 3,
                () => 1,
            };
            return vec![line; times];
        }
        if let Some(token) = message.pointer_mut("/params/progressToken") {
            if let Some(number) = token.as_u64().filter(|_| self.run.is_now(Defect::ConfusesProgress)) {
                // One of the calls before this one may be open.
                *token = Value::from(number - 1);
                return vec![line_of(&message)];
            }
        }
        for list in ["tools", "prompts", "resources", "resourceTemplates"] {
            let Some(items) = message.pointer_mut(&format!("/result/{list}")).and_then(Value::as_array_mut) else {
                continue;
            };
            if let Some(first) = items.first().cloned().filter(|_| self.run.is_now(Defect::ListsTwice)) {
                items.push(first);
            } else if self.run.is_now(Defect::OmitsItems) {
                items.pop();
            } else {
                continue;
            }
            return vec![line_of(&message)];
        }
        vec![line]
    }

    /// Keeps an answer, or sends the one that was kept: each with the id of the other.
    fn exchange(&mut self, mut message: Value) -> Vec<Bytes> {
        let Some(mut held) = self.held.take() else {
            self.held = Some(message);
            return Vec::new();
        };
        std::mem::swap(&mut held["id"], &mut message["id"]);
        vec![line_of(&held), line_of(&message)]
    }

    fn instead_to_server(&mut self, server: ServerKey, line: Bytes) -> Vec<Action> {
        let is_call = line.contains_text("\"tools/call\"");
        if is_call && self.run.is_now(Defect::LosesCalls)
            || line.contains_text("notifications/cancelled") && self.run.is(Defect::LosesCancellations)
        {
            return Vec::new();
        }
        let times = if is_call && self.run.is_now(Defect::RepeatsCalls) { 2 } else { 1 };
        let mut to = server;
        if is_call {
            let before = self.last_server.replace(server);
            if self.run.is_now(Defect::SendsToAnotherServer) {
                to = before.unwrap_or(server);
            }
        }
        let action = || Action::Server { server: to, action: StdioAction::Write(line.clone()) };
        std::iter::repeat_with(action).take(times).collect()
    }
}

fn line_of(message: &Value) -> Bytes {
    Bytes::from(format!("{message}\n"))
}

trait ContainsText {
    fn contains_text(&self, text: &str) -> bool;
}

impl ContainsText for Bytes {
    fn contains_text(&self, text: &str) -> bool {
        String::from_utf8_lossy(self).contains(text)
    }
}
