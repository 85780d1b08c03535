//! Tasks at a backend that works for everyone.
//!
//! A server shows its tasks and their results to each client of one process. Where the gateway has authenticated a client,
//! others are other users, so that such a client can neither start a task nor reach one, and does not learn that the server
//! has tasks. Clients without a principal are those of one person, who may.

use mcp_proto::client::{self, Outcome};
use mcp_proto::server::{self, Http, Server};
use mcp_proto::spec::TASKS_EXTENSION;
use mcp_proto::spec::meta::CLIENT_CAPABILITIES;
use mcp_proto::{ErrorObject, Instant, Json, Method, Stdio, Ticket};

use crate::relay::{Owner, Upstream};

/// Removes what concerns tasks from a request of an authenticated client; `None` if the request was refused.
pub(super) fn withhold_from_request(
    event: server::Event,
    server: &mut Server<Http>,
    now: Instant,
) -> Option<server::Event> {
    let server::Event::Requested { ticket, method, params } = event else { return Some(event) };
    if !is_authenticated(&ticket, server) {
        return Some(server::Event::Requested { ticket, method, params });
    }
    if method.is_about_tasks() {
        // The code is one that any server may send.
        let _ = server.respond(ticket, Err(ErrorObject::method_not_found(&method)), now);
        return None;
    }
    let params = params.map(|params| params_without_tasks(&params));
    Some(server::Event::Requested { ticket, method, params })
}

/// Removes tasks from the capabilities that a backend for everyone states to authenticated clients.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other event has capabilities")]
pub(super) fn withhold_from_event(
    event: client::Event,
    upstream: &Upstream<Stdio>,
    is_opener_authenticated: bool,
    server: &Server<Http>,
) -> client::Event {
    if *upstream.owner() != Owner::Everyone {
        return event;
    }
    match event {
        client::Event::Connected { version, result, is_reconnect, detected_era, is_downgrade }
            if is_opener_authenticated =>
        {
            let result = without_tasks(&result);
            client::Event::Connected { version, result, is_reconnect, detected_era, is_downgrade }
        }
        client::Event::Responded { request, outcome: Outcome::Result(result) } => {
            let is_discovery = upstream.method_of(request) == Some(&Method::SERVER_DISCOVER);
            let ticket = upstream.ticket_of(request).filter(|_| is_discovery);
            let is_withheld = ticket.is_some_and(|ticket| is_authenticated(ticket, server));
            let result = if is_withheld { without_tasks(&result) } else { result };
            client::Event::Responded { request, outcome: Outcome::Result(result) }
        }
        event => event,
    }
}

fn is_authenticated(ticket: &Ticket, server: &Server<Http>) -> bool {
    server.context(ticket).is_some_and(|context| context.principal.is_some())
}

/// The result of `initialize` or `server/discover` without the tasks of either era.
pub(super) fn without_tasks(result: &Json) -> Json {
    changed(result, "capabilities", |capabilities| without_extension(&capabilities.without_members(&["tasks"])))
}

/// The parameters of a request without the start of a task, the extension, and subscriptions to tasks.
fn params_without_tasks(params: &Json) -> Json {
    let params = params.without_members(&["task"]);
    let params = changed(&params, "notifications", |filter| filter.without_members(&["taskIds"]));
    changed(&params, "_meta", |meta| changed(meta, CLIENT_CAPABILITIES, without_extension))
}

fn without_extension(capabilities: &Json) -> Json {
    changed(capabilities, "extensions", |extensions| extensions.without_members(&[TASKS_EXTENSION]))
}

/// An object with a changed member, if it has that member; all other bytes stay.
fn changed(object: &Json, name: &str, change: impl FnOnce(&Json) -> Json) -> Json {
    match object.first_member(name) {
        Some(member) => {
            let other = change(&member);
            if other == member { object.clone() } else { object.with_member(name, &other) }
        }
        None => object.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).expect("JSON")
    }

    #[test]
    fn tasks_of_both_eras_are_left_out_and_all_other_bytes_stay() {
        let extension = r#""io.modelcontextprotocol/tasks":{}"#;
        for (own, shown) in [
            (
                r#"{"capabilities":{"tools":{ }, "tasks":{"list":{}}},"x":1.0}"#,
                r#"{"capabilities":{"tools":{ }},"x":1.0}"#,
            ),
            (
                &format!(r#"{{"capabilities":{{"extensions":{{{extension},"a/b":{{}}}}}}}}"#),
                r#"{"capabilities":{"extensions":{"a/b":{}}}}"#,
            ),
            (r#"{"capabilities":{ "tools":{}}, "y": [ ]}"#, r#"{"capabilities":{ "tools":{}}, "y": [ ]}"#),
            ("{}", "{}"),
        ] {
            assert_eq!(without_tasks(&json(own)), json(shown));
        }
        let meta = |extensions: &str| {
            format!(
                r#""_meta":{{"k": 1,"io.modelcontextprotocol/clientCapabilities":{{"extensions":{{{extensions}}}}}}}"#
            )
        };
        for (own, passed) in [
            (r#"{"name":"a","task":{"ttl":1},"arguments":{"task": 1}}"#, r#"{"name":"a","arguments":{"task": 1}}"#),
            (&format!(r#"{{"name":"a",{}}}"#, meta(extension)), &format!(r#"{{"name":"a",{}}}"#, meta(""))),
            (r#"{"notifications":{"taskIds":["t"], "x":1}}"#, r#"{"notifications":{"x":1}}"#),
            (r#"{"arguments":{ }, "_meta":{ }}"#, r#"{"arguments":{ }, "_meta":{ }}"#),
        ] {
            assert_eq!(params_without_tasks(&json(own)), json(passed));
        }
    }
}
