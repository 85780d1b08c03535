//! Machines that are broken on purpose: what passes between an instance and its clients, its application and the store is
//! changed as a machine with the defect would do it.

use mcp_proto::InstanceId;
use mcp_proto::store::{Record, StoreAction, StoreResult, StreamId};
use mcp_testkit::http_exchange::TestResponse;
use serde_json::Value;

use super::clients::Open;
use super::{Key, Simulation};

/// What an instance can do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// An answer of the application is not sent.
    LosesAnswers,
    /// An answer is sent twice.
    RepeatsAnswers,
    /// What is sent on one stream goes to the client of another.
    SendsToAnotherClient,
    /// A request that is no call is not answered.
    LosesResponses,
    /// A resumed stream begins one event too early.
    RepeatsEvents,
    /// An event is left out when a stream is read.
    SkipsEvents,
    /// A message is added to a GET stream twice.
    AddsTwice,
    /// A second GET stream is opened instead of refused.
    OpensTwoStreams,
    /// A GET stream that another instance has taken over is kept.
    KeepsMovedStreams,
    /// A session is found for each principal.
    ForgetsPrincipals,
    /// A change for one principal is published to all.
    PublishesToAll,
    /// A request about a task is passed on with another principal.
    MistakesPrincipals,
    /// A request about a task is answered without its instance, which runs.
    AnswersForOthers,
    /// A message to an instance goes to another one.
    SendsToAnotherInstance,
    /// An answer of a client is not passed on.
    LosesAnswersOfClients,
    /// A cancellation is not passed on.
    LosesCancellations,
    /// The record of a session is not removed when it ends.
    KeepsEndedSessions,
    /// GET streams expire before their sessions.
    ExpiresStreamsEarly,
    /// The streams of calls expire before the calls end.
    ExpiresCallsEarly,
    /// What the client has set is not in the record that is written.
    ForgetsSettings,
    /// What another instance has written is overwritten.
    IgnoresConflicts,
    /// A session is as it was before its record was written last.
    ReadsOlderRecords,
    /// A session whose record could not be read does not exist.
    LosesRecords,
    /// An instance that has ended is still found.
    IgnoresEndedInstances,
    /// No timer fires.
    IgnoresTimers,
}

/// Each defect with the invariant that notices it.
pub(super) const DEFECTS: &[(Defect, &str)] = &[
    (Defect::LosesAnswers, "has not reached its client"),
    (Defect::RepeatsAnswers, "after the outcome of call"),
    (Defect::SendsToAnotherClient, "a message of another session"),
    (Defect::LosesResponses, "an exchange without an end"),
    (Defect::RepeatsEvents, "an event is missing or repeated"),
    (Defect::SkipsEvents, "an event is missing or repeated"),
    (Defect::AddsTwice, "a message is received again"),
    (Defect::OpensTwoStreams, "two streams of one session"),
    (Defect::KeepsMovedStreams, "two streams of one session"),
    (Defect::ForgetsPrincipals, "the session of another principal was found"),
    (Defect::PublishesToAll, "a change for another principal"),
    (Defect::MistakesPrincipals, "another principal"),
    (Defect::AnswersForOthers, "an instance without the task"),
    (Defect::SendsToAnotherInstance, "has not reached its instance"),
    (Defect::LosesAnswersOfClients, "was accepted and has not arrived"),
    (Defect::LosesCancellations, "was accepted and has not arrived"),
    (Defect::KeepsEndedSessions, "an ended session is found"),
    (Defect::ExpiresStreamsEarly, "another event has this number"),
    (Defect::ExpiresCallsEarly, "and without an answer"),
    (Defect::ForgetsSettings, "a setting is not in force"),
    (Defect::IgnoresConflicts, "a setting is not in force"),
    (Defect::ReadsOlderRecords, "a setting is not in force"),
    (Defect::LosesRecords, "a session is not found"),
    (Defect::IgnoresEndedInstances, "calls without an outcome"),
    (Defect::IgnoresTimers, "an instance holds something in the end"),
];

/// What a broken machine does instead; the same if it is not broken.
impl Simulation<'_> {
    /// Whether an action is not carried out, as if the machine did not ask for it.
    pub(super) fn is_skipped(&mut self, action: &StoreAction) -> bool {
        match action {
            StoreAction::Forget { .. } => self.run.is(Defect::KeepsEndedSessions),
            StoreAction::Send { message, .. } => {
                let message: Value = serde_json::from_slice(message).expect("JSON");
                let defect = match (&message["k"], &message["m"]["method"]) {
                    (Value::String(kind), _) if kind == "moved" => Defect::KeepsMovedStreams,
                    (Value::String(kind), Value::Null) if kind == "posted" => Defect::LosesAnswersOfClients,
                    (Value::String(kind), Value::String(method))
                        if kind == "posted" && method == "notifications/cancelled" =>
                    {
                        Defect::LosesCancellations
                    }
                    _ => return false,
                };
                self.run.is(defect)
            }
            _ => false,
        }
    }

    /// What is asked of the store.
    pub(super) fn asked_instead(&mut self, from: InstanceId, mut action: StoreAction) -> Vec<StoreAction> {
        match &mut action {
            StoreAction::Append { stream, expires_in, first, .. } => {
                let is_get_stream = stream.tag == StreamId::OF_SESSION;
                let early = if is_get_stream { Defect::ExpiresStreamsEarly } else { Defect::ExpiresCallsEarly };
                if self.run.is(early) {
                    *expires_in /= 1000;
                }
                if is_get_stream && first.is_none() && self.run.is_now(Defect::AddsTwice) {
                    return vec![action.clone(), action];
                }
            }
            StoreAction::Save { session, expected, bytes, .. } => {
                let versions = self.records.get(session);
                if let Some(last) = versions.and_then(|versions| versions.last()).filter(|_| *expected > 0) {
                    if self.run.is_now(Defect::ForgetsSettings) {
                        bytes.clone_from(last);
                    }
                    if self.run.is(Defect::IgnoresConflicts) {
                        let count = versions.map_or(0, Vec::len);
                        *expected = u64::try_from(count).expect("few versions");
                    }
                }
            }
            StoreAction::Send { to, message } => {
                let mut content: Value = serde_json::from_slice(message).expect("JSON");
                if content["k"] == "published" && self.run.is(Defect::PublishesToAll) {
                    let members = content.as_object_mut().expect("an object");
                    members.retain(|name, _| name != "o" && name != "p");
                    *message = content.to_string().into();
                } else if content["k"] == "asked" && self.run.is_now(Defect::MistakesPrincipals) {
                    content["p"] = serde_json::json!({ "n": "mallory" });
                    *message = content.to_string().into();
                }
                if let Some(to) = to {
                    let another = self.instances.keys().find(|other| **other != *to && **other != from).copied();
                    if let Some(another) = another.filter(|_| self.run.is_now(Defect::SendsToAnotherInstance)) {
                        *to = another;
                    }
                }
            }
            _ => {}
        }
        vec![action]
    }

    /// What an answer of the store is taken for.
    pub(super) fn answered_instead(&mut self, action: &StoreAction, result: StoreResult) -> StoreResult {
        match (action, result) {
            (StoreAction::Load { .. }, StoreResult::Loaded(Some(_))) if self.run.is_now(Defect::LosesRecords) => {
                StoreResult::Loaded(None)
            }
            (StoreAction::Load { session, .. }, StoreResult::Loaded(Some(record))) => {
                let older = self.records.get(session).and_then(|versions| versions.iter().rev().nth(1));
                match older.cloned().filter(|_| self.run.is(Defect::ReadsOlderRecords)) {
                    Some(bytes) => StoreResult::Loaded(Some(Record { version: record.version, bytes })),
                    None => StoreResult::Loaded(Some(record)),
                }
            }
            (StoreAction::Find { .. }, StoreResult::Found(_)) if self.run.is(Defect::IgnoresEndedInstances) => {
                StoreResult::Found(true)
            }
            (StoreAction::Find { .. }, StoreResult::Found(_)) if self.run.is(Defect::AnswersForOthers) => {
                StoreResult::Found(false)
            }
            (StoreAction::Read { .. }, StoreResult::Events(Some(mut events)))
                if events.events.len() > 1 && self.run.is_now(Defect::SkipsEvents) =>
            {
                events.events.remove(0);
                events.first += 1;
                StoreResult::Events(Some(events))
            }
            (_, result) => result,
        }
    }

    /// What a client receives.
    pub(super) fn sent_instead(&mut self, key: Key, open: &Open, mut sent: TestResponse) -> TestResponse {
        if sent.status.is_some() && sent.is_over && !open.is_of_call() && self.run.is_now(Defect::LosesResponses) {
            return TestResponse::default();
        }
        if sent.code() == 409 && self.run.is(Defect::OpensTwoStreams) {
            sent = TestResponse { status: Some(http::StatusCode::OK), is_stream: true, ..TestResponse::default() };
        }
        if let Some(body) = self.misdirected.remove(&key) {
            sent.body.splice(0..0, body);
        }
        let text = sent.text();
        let without_ids = |events: &str| {
            let lines = events.lines().filter(|line| !line.starts_with("id:"));
            lines.flat_map(|line| format!("{line}\n").into_bytes()).collect::<Vec<_>>()
        };
        if open.is_event_stream() && text.contains("\"of\":") && self.run.is_now(Defect::SendsToAnotherClient) {
            if let Some(other) = self.other_stream(key, open) {
                self.misdirected.entry(other).or_default().extend(without_ids(&text));
                sent.body.clear();
            }
        }
        let is_answer = |event: &&str| event.contains("\"result\":{\"content\"");
        if let Some(answer) =
            text.split_inclusive("\n\n").find(is_answer).filter(|_| open.is_of_call() && open.is_event_stream())
        {
            if self.run.is_now(Defect::RepeatsAnswers) {
                sent.body.extend(without_ids(answer));
            }
        }
        sent
    }
}
