//! What the machines report to the applications, and what becomes of an instance that ends.

use mcp_proto::client::Outcome;
use mcp_proto::server::Event;
use mcp_proto::{InstanceId, Method};
use serde_json::Value;

use super::tasks::TaskTicket;
use super::{Asked, Simulation};

impl Simulation<'_> {
    /// Reads the events of all instances, and what they have sent to clients.
    pub(super) fn read(&mut self) {
        for id in self.instances.keys().copied().collect::<Vec<_>>() {
            let events = self.instances.get_mut(&id).map(|instance| instance.server.events());
            for event in events.into_iter().flatten() {
                self.on_event(id, event);
            }
        }
        self.read_exchanges();
        self.read_task_exchanges();
    }

    fn on_event(&mut self, id: InstanceId, event: Event) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        match event {
            Event::Connected { session, .. } | Event::Restored { session, .. } => {
                assert!(instance.sessions.insert(session), "a session is reported twice");
            }
            Event::Closed { session, .. } => {
                assert!(instance.sessions.remove(&session), "the end of an unknown session");
            }
            Event::Requested { ticket, method, params } => {
                let params: Value = serde_json::from_slice(params.expect("parameters").as_bytes()).expect("JSON");
                if method == Method::TASKS_GET {
                    let number = params["number"].as_u64().expect("a number");
                    self.reached.insert((id, number));
                    return instance.task_tickets.push(TaskTicket { ticket, number });
                }
                let number = |name: &str| {
                    let number = params[name].as_u64().expect("a number");
                    usize::try_from(number).expect("few sessions and calls")
                };
                let (session, call) = (number("of"), number("call"));
                assert_eq!(self.calls[call].session, session);
                instance.tickets.push(Asked { ticket, session, call, progress: 0 });
            }
            Event::Cancelled { ticket, .. } => {
                instance.tickets.retain(|asked| asked.ticket.key() != ticket);
                instance.task_tickets.retain(|asked| asked.ticket.key() != ticket);
            }
            Event::Responded { request, outcome } => {
                let number = instance.questions.remove(&request).expect("one outcome of an open request");
                if let Outcome::Result(result) = outcome {
                    let result: Value = serde_json::from_slice(result.as_bytes()).expect("JSON");
                    assert_eq!(result["question"].as_u64(), Some(number), "the answer to another request");
                    self.report.asked += 1;
                }
            }
            _ => {}
        }
    }

    /// The connections to an instance break, and its requests are not answered any more.
    pub(super) fn on_instance_ended(&mut self, id: InstanceId) {
        self.break_task_exchanges(id);
        for call in self.calls.iter_mut().filter(|call| call.served_by == Some(id)) {
            call.was_hit = true;
        }
        let keys: Vec<_> = self.exchanges.keys().copied().filter(|(instance, _)| *instance == id).collect();
        for key in keys {
            if let Some(open) = self.exchanges.remove(&key) {
                self.on_broken(key, &open);
            }
        }
    }
}
