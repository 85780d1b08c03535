//! Requests to the client: the exchange on which each is sent, and how it ends.

use super::Event;
use super::session::{Phase, Purpose, Session};
use super::shared::Shared;
use super::transport::{Kind, ReplyTo, ServerTransport};
use crate::conversation::call::{AddedMeta, Call};
use crate::conversation::cancellation;
use crate::conversation::keys::RequestKey;
use crate::conversation::outcome::Outcome;
use crate::conversation::outgoing::{self, NewRequest};
use crate::error::{Failed, UsageError};
use crate::json::Json;
use crate::spec::Method;

impl Session {
    /// Sends a request to the client.
    pub(super) fn ask<T: ServerTransport>(
        &mut self,
        call: Call,
        purpose: Purpose,
        shared: &mut Shared<'_, T>,
    ) -> Result<RequestKey, UsageError> {
        let during = purpose.ticket();
        self.check_open(during)?;
        // Since 2026-07-28, a server sends no requests (SH-S-15).
        let version = self.version_in_force();
        if !version.rules().server_requests && during.is_some_and(|ticket| self.incoming.get(ticket).is_some()) {
            return Err(UsageError::NotInRevision { what: "a request of the server's", version });
        }
        if self.input_ended {
            return Err(UsageError::Closed);
        }
        // Before `notifications/initialized`, only `ping` may be sent to the client (LC-10).
        let may_ask = self.phase == Phase::Ready || call.method == Method::PING;
        if shared.serving().is_some() && !may_ask {
            return Err(UsageError::NotConnected);
        }
        if shared.serving().is_some() {
            if call.method.facts().is_reserved {
                return Err(UsageError::ReservedMethod { method: call.method });
            }
            outgoing::check_params(call.params.as_ref())?;
        }
        let limit = shared.config().limits.requests_out;
        if self.outgoing.len() >= limit {
            return Err(UsageError::TooManyRequests { limit });
        }
        let timeout = call.timeout.unwrap_or(shared.config().request_timeout);
        let max_timeout = shared.config().max_timeout;
        let params = if call.progress { self.outgoing.with_progress_token(call.params) } else { call.params };
        let method = call.method;
        let request = NewRequest { method, params, purpose, meta: AddedMeta::Identity, timeout, max_timeout };
        let sending = self.outgoing.send(request, false, shared.output.timers, shared.output.now);
        let request = sending.wire;
        if let Some(ticket) = during {
            let Some(asking) = self.incoming.get_mut(ticket) else {
                // The client's request ended before the application was notified.
                self.finish(request, Outcome::Failed(Failed::Cancelled), shared);
                return Ok(request);
            };
            asking.asked.insert(request);
        }
        let route = self.route(self.reply_to(during), Kind::Message);
        let message = sending.into_message();
        if shared.transport.takes(message.payload_len(), &mut shared.output) {
            shared.write(&message, route);
        } else {
            let limit = shared.config().limits.unwritten;
            self.finish(request, Outcome::Failed(Failed::QueueFull { limit }), shared);
        }
        Ok(request)
    }

    pub(super) fn on_answer_timeout<T: ServerTransport>(&mut self, request: RequestKey, shared: &mut Shared<'_, T>) {
        let Some(waiting) = self.outgoing.get(request) else { return };
        let reason = Failed::TimedOut { after: waiting.timeout };
        let params = cancellation::params(Some("timed out"));
        self.give_up(request, reason, &params, shared);
    }

    pub(super) fn give_up<T: ServerTransport>(
        &mut self,
        request: RequestKey,
        reason: Failed,
        params: &Json,
        shared: &mut Shared<'_, T>,
    ) {
        let ticket = self.outgoing.get(request).and_then(|waiting| waiting.purpose.ticket());
        let asking = ticket.and_then(|ticket| self.incoming.get_mut(ticket));
        let reply_to = asking.map_or(ReplyTo::Stream, |asking| {
            asking.asked.remove(&request);
            asking.source.reply_to
        });
        self.cancel_own(request, reply_to, reason, params, shared);
    }

    /// Cancels a request to the client that was sent on `reply_to`, and ends it.
    pub(super) fn cancel_own<T: ServerTransport>(
        &mut self,
        request: RequestKey,
        reply_to: ReplyTo,
        reason: Failed,
        params: &Json,
        shared: &mut Shared<'_, T>,
    ) {
        let Some(waiting) = self.outgoing.give_up(request, shared.output.timers) else { return };
        shared.write(&cancellation::notice(request, params), self.route(reply_to, Kind::Message));
        self.on_outcome(request, waiting.purpose, Outcome::Failed(reason), shared);
    }

    pub(super) fn finish<T: ServerTransport>(
        &mut self,
        request: RequestKey,
        outcome: Outcome,
        shared: &mut Shared<'_, T>,
    ) {
        let Some(waiting) = self.outgoing.remove(request, shared.output.timers) else { return };
        if let Some(asking) = waiting.purpose.ticket().and_then(|ticket| self.incoming.get_mut(ticket)) {
            asking.asked.remove(&request);
        }
        self.on_outcome(request, waiting.purpose, outcome, shared);
    }

    fn on_outcome<T: ServerTransport>(
        &mut self,
        request: RequestKey,
        purpose: Purpose,
        outcome: Outcome,
        shared: &mut Shared<'_, T>,
    ) {
        match purpose {
            Purpose::Application { .. } => shared.report(Event::Responded { request, outcome }),
            Purpose::Input { ticket, key } => self.on_input(ticket, key, outcome, shared),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::server::{Config, Server, SessionKey};
    use crate::{Instant, Output, Stdio, StdioAction, Ticket};

    const OPENING: [&str; 3] = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}"#,
    ];

    fn line(server: &mut Server<Stdio>, line: &str, now: Instant) {
        server.handle_bytes(format!("{line}\n").as_bytes(), now);
    }

    /// The ticket of the latest request, and what was written.
    fn outputs(server: &mut Server<Stdio>) -> (Option<Ticket>, String) {
        let (mut ticket, mut written) = (None, String::new());
        while let Some(output) = server.poll_output() {
            match output {
                Output::Event(Event::Requested { ticket: new, .. }) => ticket = Some(new),
                Output::Action(StdioAction::Write(bytes)) => written.push_str(&String::from_utf8_lossy(&bytes)),
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        (ticket, written)
    }

    #[test]
    fn a_call_keeps_nothing_of_what_was_asked_during_it_and_has_ended() {
        let mut config = Config::new("s", "1");
        config.limits.unwritten = 400;
        let mut server = Server::new(Stdio::new(), config).expect("a configuration");
        let mut now = Instant::START;
        for opening in OPENING {
            line(&mut server, opening, now);
        }
        let (ticket, written) = outputs(&mut server);
        let ticket = ticket.expect("a call");
        server.handle_written(written.len(), now);
        let asked = |server: &Server<Stdio>| {
            server.sessions[&SessionKey::FIRST].incoming.get(ticket.key()).map(|call| call.asked.len())
        };
        for end in ["answered", "refused", "cancelled", "timed out", "not sent"] {
            let mut call = Call::new("roots/list");
            call.timeout = Some(Duration::from_secs(10));
            if end == "not sent" {
                // Another one before it was not written, and is open.
                server.request(&ticket, call.clone(), now).expect("a request");
                call = call.params(Json::empty_object().with_member("x", &Json::from("x".repeat(400).as_str())));
            }
            let request = server.request(&ticket, call, now).expect("a request");
            assert_eq!(asked(&server), Some(1), "{end}");
            let id = request.to_wire();
            match end {
                "answered" => line(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#), now),
                "refused" => {
                    let error = r#"{"code":1,"message":"no"}"#;
                    line(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#), now);
                }
                "cancelled" => server.cancel(request, None, now),
                "timed out" => {
                    now += Duration::from_secs(10);
                    server.handle_timeout(now);
                }
                _ => continue,
            }
            assert_eq!(asked(&server), Some(0), "{end}");
            let (_, written) = outputs(&mut server);
            server.handle_written(written.len(), now);
        }
    }
}
