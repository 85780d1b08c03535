//! Clients of 2026-07-28, which ask any instance about tasks, and the applications that answer.

use std::time::Duration;

use mcp_proto::server::TaskId;
use mcp_proto::{InstanceId, Instant, Ticket};
use mcp_testkit::http_exchange::TestRequest;
use serde_json::Value;

use super::{Faults, Key, Simulation, json};

/// How long an instance waits for the answer of another one.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request about a task whose response is not complete.
#[derive(Debug)]
pub(super) struct AskedTask {
    number: u64,
    /// The instance that has created the task.
    instance: InstanceId,
    principal: Option<&'static str>,
    begun: Instant,
}

/// A request about a task that an application has.
pub(super) struct TaskTicket {
    pub(super) ticket: Ticket,
    pub(super) number: u64,
}

impl Simulation<'_> {
    /// A client asks an instance about a task of any instance, which perhaps has ended.
    pub(super) fn ask_about_task(&mut self) {
        let (at, number) = (self.some_instance(), self.number());
        let started = 1 + self.random.below(self.started);
        let instance = InstanceId::new(super::network::FIRST + started);
        let principal = *self.random.pick(&[None, Some("ada"), Some("eve")]);
        // The rest of an id is random.
        let id = format!("{instance}{}", TaskId::new(u128::from(number).to_be_bytes()).as_str());
        let members = format!(r#""taskId":"{id}","number":{number},"#);
        let asked = TestRequest::stateless(&number.to_string(), "tasks/get", &members).with("mcp-name", &id);
        let asked = principal.into_iter().fold(asked, TestRequest::by);
        let receiver = self.instances.get_mut(&at).expect("an instance that runs");
        let key = (at, receiver.server.ask(&asked));
        self.watch(|| format!("{at} {:?} about a task of {instance}", key.1));
        self.task_exchanges.insert(key, AskedTask { number, instance, principal, begun: self.now });
    }

    /// The connection of a request about a task breaks.
    pub(super) fn disconnect_task(&mut self) {
        let all: Vec<_> = self.task_exchanges.keys().copied().collect();
        if all.is_empty() {
            return;
        }
        let key = *self.random.pick(&all);
        self.task_exchanges.remove(&key);
        if let Some(instance) = self.instances.get_mut(&key.0) {
            instance.server.take(key.1);
            instance.server.server.handle_disconnect(key.1, self.now);
        }
    }

    /// The application of an instance answers its oldest request about a task.
    pub(super) fn answer_task(&mut self, id: InstanceId) {
        let now = self.now;
        let Some(instance) = self.instances.get_mut(&id).filter(|instance| !instance.task_tickets.is_empty()) else {
            return;
        };
        let TaskTicket { ticket, number } = instance.task_tickets.remove(0);
        let context = instance.server.server.context(&ticket).expect("a request that is not answered");
        let principal = context.principal.map_or("null".into(), |principal| format!("{:?}", principal.as_str()));
        let result = json(&format!(r#"{{"by":"{id}","number":{number},"principal":{principal}}}"#));
        instance.server.server.respond(ticket, Ok(result), now).expect("no code to be refused");
    }

    /// Reads the responses to requests about tasks.
    pub(super) fn read_task_exchanges(&mut self) {
        for key in self.task_exchanges.keys().copied().collect::<Vec<_>>() {
            let Some(instance) = self.instances.get_mut(&key.0) else { continue };
            let sent = instance.server.take(key.1);
            if let Some(asked) = self.task_exchanges.remove(&key) {
                if sent.is_over {
                    self.check_task_answer(key, &asked, sent.code(), &sent.text());
                } else {
                    self.task_exchanges.insert(key, asked);
                }
            }
        }
    }

    fn check_task_answer(&mut self, key: Key, asked: &AskedTask, status: u16, text: &str) {
        self.watch(|| format!("{} {:?} {status} {text}", key.0, key.1));
        let has_ended = !self.instances.contains_key(&asked.instance);
        let waited = self.now.saturating_duration_since(asked.begun);
        match status {
            200 => {
                let answer: Value = serde_json::from_str(text).expect("JSON");
                let result = &answer["result"];
                assert_eq!((&answer["id"], &result["number"]), (&asked.number.into(), &asked.number.into()), "{text}");
                assert_eq!(result["principal"].as_str(), asked.principal, "another principal: {text}");
                let by = |instance: InstanceId| result["by"] == instance.to_string();
                assert!(by(asked.instance) || has_ended && by(key.0), "an instance without the task: {text}");
                self.report.tasks += usize::from(by(asked.instance) && asked.instance != key.0);
            }
            503 => {
                let may_fail = self.faults == Faults::Store || has_ended;
                let has_reached = self.reached.contains(&(asked.instance, asked.number));
                assert!(may_fail || has_reached, "a request about a task has not reached its instance: {text}");
                assert!(may_fail || waited >= PATIENCE, "{asked:?}: {text}");
            }
            status => panic!("{status} for {asked:?}: {text}"),
        }
    }

    /// The connections to an instance that has ended break.
    pub(super) fn break_task_exchanges(&mut self, id: InstanceId) {
        self.task_exchanges.retain(|(instance, _), _| *instance != id);
    }
}
