//! The applications: those of the clients answer the server's requests, that of the server handles calls step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_proto::client::{self, Call, Client, ClientTransport};
use mcp_proto::server::{InputRequired, Progress, Scope, Server};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{Era, ErrorObject, Instant, Json, Method, RequestKey, Ticket, TicketKey, server};
use mcp_testkit::random::Random;

use super::member_of;
use super::model::{Answer, Model, THINKING};

/// The application of a client.
#[derive(Debug)]
pub struct Application {
    client: usize,
    /// The requests that it has received, by the time at which it answers.
    asked: BTreeMap<(Instant, TicketKey), Question>,
}

#[derive(Debug)]
struct Question {
    ticket: Ticket,
    scope: Option<RequestKey>,
    about: Option<String>,
    /// Whether its session was lost, so that an answer has no effect.
    is_void: bool,
}

/// The text of the call that a payload refers to.
fn about(params: Option<&Json>, member: &str) -> Option<String> {
    member_of(params?, member)?.as_string().map(String::from)
}

impl Application {
    pub(super) const fn new(client: usize) -> Self {
        Self { client, asked: BTreeMap::new() }
    }

    pub(super) fn on_event(&mut self, event: client::Event, now: Instant, random: &mut Random, model: &mut Model) {
        let client = self.client;
        match event {
            client::Event::Responded { request, outcome } => model.ended(client, request, &outcome, now),
            client::Event::Progressed { request, params } => model.progressed(client, request, &params, now),
            client::Event::Connected { version, .. } => {
                model.connected(client, version, now);
                if !version.rules().server_requests {
                    return;
                }
                model.changes.opened(client, None, now);
            }
            client::Event::Unavailable { reason, .. } => match reason {
                client::Unavailable::Failed(failed) => model.unavailable(client, Some(&failed), None),
                client::Unavailable::Error(error) => model.unavailable(client, None, Some(&error)),
            },
            client::Event::SessionLost => {
                self.asked.values_mut().for_each(|question| question.is_void = true);
                model.session_lost(client, Duration::ZERO, now);
            }
            client::Event::Listening { subscription, .. } => model.changes.opened(client, Some(subscription), now),
            client::Event::ListeningInterrupted { subscription, .. } => model.changes.interrupted(client, subscription),
            client::Event::ListeningEnded { subscription, .. } => model.changes.ended(client, subscription, now),
            client::Event::Requested { ticket, scope, params, .. } => {
                let scope = if let client::Scope::Request(request) = scope { Some(request) } else { None };
                let about = about(params.as_ref(), "message");
                model.asked(client, scope, ticket.key(), about.as_deref(), now);
                let at = now + random.time(THINKING);
                self.asked.insert((at, ticket.key()), Question { ticket, scope, about, is_void: false });
            }
            client::Event::RequestCancelled { ticket, .. } => {
                let found = self.asked.keys().find(|(_, key)| *key == ticket).copied();
                if let Some(question) = found.and_then(|key| self.asked.remove(&key)) {
                    model.settled(client, question.scope, ticket, question.about.as_deref(), false, now);
                }
            }
            client::Event::Notified { scope, method, params } => {
                let number = params.as_ref().and_then(|params| member_of(params, "number"));
                let number = number.and_then(|number| number.read::<u64>().ok());
                if method == Method::MESSAGE {
                    let text = about(params.as_ref(), "data").expect("a text");
                    let (text, number) = text.split_once('#').expect("a number");
                    model.logged(client, text, number.parse().expect("a number"));
                } else if method == Method::TOOLS_LIST_CHANGED {
                    let through = match scope {
                        client::Scope::Subscription(key) => Some(key),
                        client::Scope::Request(_) | client::Scope::Connection => None,
                    };
                    // A change for a subscription that has just ended arrives without a subscription, and is ignored.
                    let is_modern = model.own_version(client).is_some_and(|own| own.rules().era == Era::Modern);
                    if through.is_some() == is_modern {
                        model.changes.notified(client, through, number);
                    }
                }
            }
            client::Event::Faulted(fault) => model.faulted(client, &fault),
            client::Event::Closed(reason) => {
                model.closed(client, reason == client::CloseReason::Local);
                model.changes.closed(client);
            }
            _ => {}
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.asked.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn act<T: ClientTransport>(
        &mut self,
        client: &mut Client<T>,
        now: Instant,
        random: &mut Random,
        model: &mut Model,
    ) {
        while let Some(entry) = self.asked.first_entry().filter(|entry| entry.key().0 <= now) {
            let Question { ticket, scope, about, is_void } = entry.remove();
            let refuses = random.one_in(6);
            if !is_void {
                model.settled(self.client, scope, ticket.key(), about.as_deref(), refuses, now);
            }
            // The text identifies the call wherever the answer is delivered.
            let text = about.unwrap_or_default();
            let answer = if refuses {
                Err(ErrorObject::new(-1, &text))
            } else {
                Ok(Json::empty_object()
                    .with_member("text", &Json::from(&*text))
                    .with_member("action", &"accept".into()))
            };
            client.answer(ticket, answer, now);
        }
    }
}

/// The application of the server.
#[derive(Debug, Default)]
pub struct Service {
    jobs: BTreeMap<(Instant, TicketKey), Job>,
    /// Calls that are never answered.
    silent: BTreeMap<TicketKey, Job>,
    /// The number of log messages so far.
    logged: u64,
}

#[derive(Debug)]
struct Job {
    ticket: Ticket,
    /// The text of the call; empty for any other request.
    text: String,
    /// Whether the request brings the input that an earlier one required.
    has_input: bool,
    steps: u64,
}

impl Service {
    /// Discards all requests, because the server has ended.
    pub(super) fn forget(&mut self) {
        self.jobs.clear();
        self.silent.clear();
    }

    /// Accepts a request of this client.
    pub(super) fn on_request(
        &mut self,
        (ticket, method, params): (Ticket, &Method, Option<&Json>),
        client: usize,
        now: Instant,
        random: &mut Random,
        model: &mut Model,
    ) {
        if *method != Method::TOOLS_CALL {
            self.later(Job { ticket, text: String::new(), has_input: false, steps: 0 }, now, random);
            return;
        }
        let text = about(params, "text").expect("a text");
        let has_input = params.is_some_and(|params| member_of(params, "requestState").is_some());
        model.served(&text, client, ticket.key().session(), has_input, now);
        self.later(Job { ticket, text, has_input, steps: random.below(5) }, now, random);
    }

    /// Handles a cancellation by a client.
    pub(super) fn on_cancelled(&mut self, ticket: TicketKey, model: &mut Model) {
        let found = self.jobs.keys().find(|(_, key)| *key == ticket).copied();
        let job = found.and_then(|key| self.jobs.remove(&key)).or_else(|| self.silent.remove(&ticket));
        if let Some(job) = job.filter(|job| !job.text.is_empty()) {
            model.stopped(&job.text);
        }
    }

    fn later(&mut self, job: Job, now: Instant, random: &mut Random) {
        let longest = Duration::from_millis(*random.pick(&[1, 20, 500, 5000]));
        let at = now + random.time(longest);
        self.jobs.insert((at, job.ticket.key()), job);
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.jobs.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn act<T: server::ServerTransport>(
        &mut self,
        server: &mut Server<T>,
        now: Instant,
        random: &mut Random,
        model: &mut Model,
    ) {
        while let Some(entry) = self.jobs.first_entry().filter(|entry| entry.key().0 <= now) {
            let job = entry.remove();
            self.go_on(job, server, now, random, model);
        }
    }

    fn go_on<T: server::ServerTransport>(
        &mut self,
        mut job: Job,
        server: &mut Server<T>,
        now: Instant,
        random: &mut Random,
        model: &mut Model,
    ) {
        if job.text.is_empty() {
            server.respond(job.ticket, Ok(Json::empty_object()), now).expect("a result");
            return;
        }
        let text = Json::from(job.text.as_str());
        let question = Json::empty_object().with_member("message", &text);
        if job.steps > 0 {
            job.steps -= 1;
            match random.below(6) {
                0 | 1 => {
                    let progress = 10.0 - f64::from(u32::try_from(job.steps).expect("few"));
                    let message = Some(job.text.as_str().into());
                    server.progress(&job.ticket, &Progress { progress, total: None, message }, now);
                }
                2 => {
                    self.logged += 1;
                    let data = Json::from(format!("{}#{}", job.text, self.logged).as_str());
                    // This fails if the session has ended.
                    let _ = server.log(&job.ticket, LoggingLevel::Info, None, &data, now);
                }
                3 => {
                    let call = Call::new("elicitation/create").params(question);
                    // This fails, and sends nothing, if the client does not support the request.
                    if server.request(Scope::from(&job.ticket), call, now).is_ok() {
                        model.asks(&job.text, now);
                    }
                }
                4 => {
                    server.release(&job.ticket, now);
                    model.released(&job.text);
                }
                _ => {}
            }
            return self.later(job, now, random);
        }
        if !job.has_input && random.one_in(5) {
            let required = InputRequired::new().state("state \"1\"");
            model.needs_input(&job.text);
            let required = if random.one_in(5) {
                required
            } else {
                model.questioned(&job.text, now);
                required.ask("form", "elicitation/create", question)
            };
            server.require_input(job.ticket, required, now).expect("a tool may ask");
            return;
        }
        // Some calls are never answered.
        if random.one_in(40) {
            self.silent.insert(job.ticket.key(), job);
            return;
        }
        let (kind, answer) = if random.one_in(6) {
            (Answer::Refusal, Err(ErrorObject::new(7, "no")))
        } else {
            (Answer::Echo, Ok(Json::empty_object().with_member("text", &text)))
        };
        model.answered(&job.text, kind, now);
        server.respond(job.ticket, answer, now).expect("a code that may be used");
    }
}
