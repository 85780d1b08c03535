//! What the two applications do: the client's answers what it is asked, the server's serves calls step by step.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mcp_proto::client::{self, Call, Client, ClientTransport};
use mcp_proto::server::{self, InputRequired, LoggingLevel, Progress, Scope, Server};
use mcp_proto::{ErrorObject, Json, Ticket, TicketKey};

use super::model::{Answer, Model};
use crate::random::Random;

/// The client's application.
#[derive(Debug, Default)]
pub struct Application {
    /// What it was asked, by the time at which it answers.
    asked: BTreeMap<(Instant, TicketKey), Ticket>,
}

impl Application {
    pub(super) fn told(&mut self, event: client::Event, now: Instant, random: &mut Random, model: &mut Model) {
        match event {
            client::Event::Responded { request, outcome } => model.ended(request, &outcome),
            client::Event::Progressed { request, .. } => model.progressed(request),
            client::Event::ListeningEnded { subscription, .. } => model.listening_ended(subscription),
            client::Event::Requested { ticket, .. } => {
                let at = now + random.time(Duration::from_secs(3));
                self.asked.insert((at, ticket.key()), ticket);
            }
            client::Event::RequestCancelled { ticket, .. } => self.asked.retain(|(_, key), _| *key != ticket),
            _ => {}
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.asked.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn act<T: ClientTransport>(&mut self, client: &mut Client<T>, now: Instant, random: &mut Random) {
        while let Some(entry) = self.asked.first_entry().filter(|entry| entry.key().0 <= now) {
            let answer = if random.one_in(6) {
                Err(ErrorObject::new(-1, "the user refuses"))
            } else {
                Ok(Json::empty_object().with_member("action", &Json::from("accept")))
            };
            client.answer(entry.remove(), answer, now);
        }
    }
}

/// The server's application.
#[derive(Debug, Default)]
pub struct Service {
    jobs: BTreeMap<(Instant, TicketKey), Job>,
}

#[derive(Debug)]
struct Job {
    ticket: Ticket,
    text: String,
    /// It was called before, and told what it needs.
    has_input: bool,
    steps: u64,
}

impl Service {
    /// The server has ended, and with it everything that it served.
    pub(super) fn forget(&mut self) {
        self.jobs.clear();
    }

    pub(super) fn told(&mut self, event: server::Event, now: Instant, random: &mut Random, model: &mut Model) {
        match event {
            server::Event::Requested { ticket, method, params } if method.as_str() == "tools/call" => {
                let member = |name| params.as_ref().and_then(|params: &Json| params.member(name).expect("unique"));
                let text = member("text").and_then(|text| text.as_string().map(String::from)).expect("a text");
                let has_input = member("requestState").is_some();
                if !has_input {
                    model.begun(&text);
                }
                self.later(Job { ticket, text, has_input, steps: random.below(5) }, now, random);
            }
            server::Event::Requested { ticket, .. } => {
                self.later(Job { ticket, text: String::new(), has_input: false, steps: 0 }, now, random);
            }
            server::Event::Cancelled { ticket, .. } => self.jobs.retain(|(_, key), _| *key != ticket),
            _ => {}
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

    pub(super) fn act<T: server::Carrier>(
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

    fn go_on<T: server::Carrier>(
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
        if job.steps > 0 {
            job.steps -= 1;
            match random.below(6) {
                0 | 1 => {
                    let progress = 10.0 - f64::from(u32::try_from(job.steps).expect("few"));
                    server.progress(&job.ticket, &Progress { progress, total: None, message: None }, now);
                }
                2 => {
                    let said = server.log(&job.ticket, LoggingLevel::Info, None, &Json::from("at work"), now);
                    // The session may have ended.
                    drop(said);
                }
                // The outcome is of no interest; where nobody can be asked so, that is no harm.
                3 => drop(server.request(Scope::from(&job.ticket), Call::new("elicitation/create"), now)),
                4 => server.release(&job.ticket, now),
                _ => {}
            }
            return self.later(job, now, random);
        }
        if !job.has_input && random.one_in(5) {
            let required = InputRequired::new().state("state \"1\"");
            let required = if random.one_in(5) {
                required
            } else {
                required.ask("form", "elicitation/create", Json::empty_object())
            };
            server.require_input(job.ticket, required, now).expect("a tool may ask");
            return;
        }
        // Some never answer.
        if random.one_in(40) {
            return;
        }
        let (kind, answer) = if random.one_in(6) {
            (Answer::Refusal, Err(ErrorObject::new(7, "no")))
        } else {
            (Answer::Echo, Ok(Json::empty_object().with_member("text", &Json::from(job.text.as_str()))))
        };
        model.answered(&job.text, kind);
        server.respond(job.ticket, answer, now).expect("a code that may be used");
    }
}
