//! Tasks of instances that share a store: a request about a task is answered by the instance that has created it.

use std::time::Duration;

use mcp_proto::server::{Event, ExchangeKey, Principal, TaskId, TaskLimits, Tasks};
use mcp_proto::store::StoreAction;
use mcp_proto::{ErrorObject, Json, Ticket};
use mcp_testkit::http_exchange::{TestRequest, modern};
use tests::instances::Instances;

const TASKS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
const UNIX: Duration = Duration::from_secs(1_800_000_000);

fn instances() -> Instances {
    Instances::with(3, |_, config| {
        config.capabilities = Tasks::capabilities().with_member("tools", &Json::empty_object());
    })
}

/// A request of a client that supports tasks.
fn asked(method: &str, name: &str, members: &str) -> TestRequest {
    let body = modern("7", method, members);
    let body = body.replace(r#"clientCapabilities":{}"#, &format!(r#"clientCapabilities":{TASKS}"#));
    TestRequest::post(body).repeating_headers("2026-07-28", method).with("mcp-name", name)
}

fn about_task(method: &str, id: &TaskId, members: &str) -> TestRequest {
    let id = id.as_str();
    asked(method, id, &format!(r#"{members}"taskId":"{id}","#))
}

/// A task that an instance has created for a call.
fn task_of(instances: &mut Instances, at: usize) -> TaskId {
    instances.ask(at, &asked("tools/call", "t", r#""name":"t","#));
    let ticket = instances.servers[at].ticket();
    let context = instances.servers[at].server.context(&ticket).unwrap();
    let id = TaskId::for_call(&context, [7; 16]);
    instances.respond(at, ticket, "{}");
    id
}

/// The requests that an instance has reported to its application.
fn tickets(instances: &mut Instances, at: usize) -> Vec<Ticket> {
    let events = instances.servers[at].events();
    let tickets = events.into_iter().filter_map(|event| match event {
        Event::Requested { ticket, .. } => Some(ticket),
        _ => None,
    });
    tickets.collect()
}

/// What the applications of all instances do with their requests about tasks.
fn serve(instances: &mut Instances, tasks: &mut [Tasks]) {
    for (at, tasks) in tasks.iter_mut().enumerate() {
        for event in instances.servers[at].events() {
            let Event::Requested { ticket, method, params } = event else { continue };
            let server = &mut instances.servers[at];
            let context = server.server.context(&ticket).unwrap();
            let answer = tasks.answer(&method, params.as_ref(), &context, server.now).unwrap();
            server.server.respond(ticket, answer, server.now).unwrap();
        }
    }
    instances.settle();
}

#[test]
fn a_client_fetches_the_result_of_a_task_at_any_instance() {
    let mut instances = instances();
    let mut tasks = [(); 3].map(|()| Tasks::new(TaskLimits::default()));
    instances.ask(1, &asked("tools/call", "t", r#""name":"t","#).by("ada"));
    let ticket = instances.servers[1].ticket();
    let (context, now) = (instances.servers[1].server.context(&ticket).unwrap(), instances.servers[1].now);
    let id = TaskId::for_call(&context, [7; 16]);
    let created = tasks[1].create(&id, &context, UNIX, now).unwrap();
    instances.respond(1, ticket, &created.to_text());
    let mut answer = |tasks: &mut [Tasks], at: usize, asked: TestRequest, principal| {
        let exchange = instances.ask(at, &asked.by(principal));
        serve(&mut instances, tasks);
        let sent = instances.take(at, exchange);
        (sent.code(), sent.text())
    };
    for at in 0..3 {
        let (status, text) = answer(&mut tasks, at, about_task("tasks/get", &id, ""), "ada");
        assert_eq!((status, text.contains(r#""status":"working""#)), (200, true), "{at}: {text}");
        assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":7,"#), "{text}");
        // A task belongs to its principal (SE-10).
        let (status, text) = answer(&mut tasks, at, about_task("tasks/get", &id, ""), "eve");
        assert_eq!((status, text.contains("there is no task")), (200, true), "{at}: {text}");
    }
    let required = mcp_proto::server::InputRequired::new().ask("a", "roots/list", Json::empty_object());
    assert!(tasks[1].require_input(&id, &required, now));
    let given = about_task("tasks/update", &id, r#""inputResponses":{"a":{"roots":[]}},"#);
    assert_eq!(answer(&mut tasks, 2, given, "ada").0, 200);
    assert!(answer(&mut tasks, 0, about_task("tasks/get", &id, ""), "ada").1.contains("working"));
    assert_eq!(answer(&mut tasks, 0, about_task("tasks/cancel", &id, ""), "ada").0, 200);
    assert!(answer(&mut tasks, 2, about_task("tasks/get", &id, ""), "ada").1.contains("cancelled"));
    for at in 0..3 {
        assert_eq!(instances.servers[at].server.load().to_string(), "nothing", "{at}");
    }
}

#[test]
fn se_10_the_changes_of_a_task_reach_only_subscriptions_of_its_principal_at_every_instance() {
    const PRINCIPALS: [Option<&str>; 3] = [Some("ada"), Some("eve"), None];
    let by = |asked: TestRequest, principal: Option<&str>| match principal {
        Some(principal) => asked.by(principal),
        None => asked,
    };
    for owner in PRINCIPALS {
        let mut instances = instances();
        instances.ask(1, &by(asked("tools/call", "t", r#""name":"t","#), owner));
        let ticket = instances.servers[1].ticket();
        let (context, now) = (instances.servers[1].server.context(&ticket).unwrap(), instances.servers[1].now);
        let id = TaskId::for_call(&context, [7; 16]);
        let mut tasks = Tasks::new(TaskLimits::default());
        let created = tasks.create(&id, &context, UNIX, now).unwrap();
        instances.respond(1, ticket, &created.to_text());
        let filter = format!(r#""notifications":{{"taskIds":["{}"]}},"#, id.as_str());
        let listen = asked("subscriptions/listen", "", &filter).without("mcp-name");
        let places: Vec<_> = (0..3).flat_map(|at| PRINCIPALS.map(|principal| (at, principal))).collect();
        let streams: Vec<_> =
            places.iter().map(|(at, principal)| instances.ask(*at, &by(listen.clone(), *principal))).collect();
        for ((at, _), stream) in places.iter().zip(&streams) {
            assert!(instances.take(*at, *stream).text().contains("taskIds"), "it is acknowledged");
        }
        tasks.finish(&id, Ok(Json::empty_object()), now);
        instances.servers[1].server.publish(tasks.notification(&id).unwrap(), now).unwrap();
        for ((at, principal), stream) in places.iter().zip(&streams) {
            let received = instances.take(*at, *stream).data().len();
            assert_eq!(received, usize::from(*principal == owner), "{principal:?} at {at}, of {owner:?}");
        }
    }
}

#[test]
fn the_application_receives_the_request_with_all_that_is_known_of_its_sender() {
    let mut instances = instances();
    let id = task_of(&mut instances, 1);
    let claims = Json::parse(r#"{"sub":"ada","tenant":7}"#).unwrap();
    let ada = Principal::new("issuer ada").with_subject("ada").with_scopes("a b").with_claims(claims.clone());
    let cases = [(Some(ada), Some("ada"), vec!["a", "b"]), (Some("bob".into()), None, vec![]), (None, None, vec![])];
    for (principal, subject, scopes) in cases {
        let asked = about_task("tasks/get", &id, "");
        instances.ask(0, &principal.iter().fold(asked, |asked, principal| asked.by(principal.clone())));
        let ticket = instances.servers[1].ticket();
        let context = instances.servers[1].server.context(&ticket).unwrap();
        assert_eq!(context.principal, principal);
        assert!(context.require(&Tasks::capabilities()).is_ok());
        let found = context.principal.as_ref();
        assert_eq!(found.and_then(Principal::subject), subject);
        assert_eq!(found.into_iter().flat_map(Principal::scopes).collect::<Vec<_>>(), scopes);
        assert_eq!(found.and_then(Principal::claims).is_some(), subject.is_some());
        instances.respond(1, ticket, "{}");
    }
}

#[test]
fn the_response_has_the_status_that_it_has_at_the_instance_of_the_task() {
    for (code, status) in [(-32602, 200), (-32601, 404), (-32021, 400), (-32603, 200)] {
        for at in [0, 1] {
            let mut instances = instances();
            let id = task_of(&mut instances, 1);
            let exchange = instances.ask(at, &about_task("tasks/get", &id, ""));
            let ticket = instances.servers[1].ticket();
            let now = instances.servers[1].now;
            // A code that is reserved for the machine is reported to the application, and sent all the same.
            let _ = instances.servers[1].server.respond(ticket, Err(ErrorObject::new(code, "no")), now);
            let sent = instances.take(at, exchange);
            assert_eq!(sent.code(), status, "{code} {at}");
            assert_eq!(sent.text(), format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":{code},"message":"no"}}}}"#));
            assert_eq!(sent.headers["content-type"], "application/json");
        }
    }
}

#[test]
fn progress_that_precedes_the_response_is_not_passed_on() {
    let mut instances = instances();
    let id = task_of(&mut instances, 1);
    let asked = about_task("tasks/get", &id, "");
    let body =
        String::from_utf8(asked.body.to_vec()).unwrap().replace(r#""_meta":{"#, r#""_meta":{"progressToken":1,"#);
    let exchange = instances.ask(0, &TestRequest { body: body.into(), ..asked });
    let ticket = instances.servers[1].ticket();
    let now = instances.servers[1].now;
    instances.servers[1].server.progress(&ticket, &mcp_proto::server::Progress::new(1.0), now);
    assert_eq!(instances.take(0, exchange).code(), 0);
    instances.respond(1, ticket, "{}");
    let sent = instances.take(0, exchange);
    assert_eq!((sent.code(), sent.is_stream), (200, false));
}

#[test]
fn a_request_and_a_response_may_be_as_deep_as_the_limits_allow() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let mut instances = instances();
    let id = task_of(&mut instances, 1);
    let exchange = instances.ask(0, &about_task("tasks/get", &id, &format!(r#""x":{},"#, deep(126))));
    let ticket = instances.servers[1].ticket();
    instances.respond(1, ticket, &format!(r#"{{"x":{}}}"#, deep(127)));
    assert!(instances.take(0, exchange).text().contains(&deep(127)));
}

#[test]
fn a_task_of_an_instance_that_has_ended_is_looked_for_where_the_request_arrives() {
    let mut instances = instances();
    let id = task_of(&mut instances, 1);
    instances.kill(1);
    let exchange = instances.ask(0, &about_task("tasks/get", &id, ""));
    assert_eq!((tickets(&mut instances, 1).len(), tickets(&mut instances, 2).len()), (0, 0));
    let ticket = instances.servers[0].ticket();
    instances.respond(0, ticket, "{}");
    assert_eq!(instances.take(0, exchange).code(), 200);
}

#[test]
fn only_ids_that_name_another_instance_are_asked_for() {
    let mut instances = instances();
    let (own, of_another) = (task_of(&mut instances, 0), task_of(&mut instances, 1));
    let of_none = TaskId::new([7; 16]);
    let name = of_another.as_str();
    let texts = ["x".repeat(48), name.to_uppercase(), format!("{name}0"), name[..47].into(), String::new()];
    let asked_for = texts.iter().map(|id| asked("tasks/get", id, &format!(r#""taskId":"{id}","#)));
    let none = [asked("tasks/get", "7", r#""taskId":7,"#), TestRequest::stateless("7", "tasks/get", "")];
    let known = [about_task("tasks/get", &own, ""), about_task("tasks/get", &of_none, "")];
    for asked in asked_for.chain(none).chain(known) {
        instances.servers[0].ask(&asked);
        instances.servers[0].settle();
        assert!(instances.servers[0].store_actions.is_empty(), "{:?}", instances.servers[0].store_actions);
    }
    // Nor for a request of another method, or one whose headers do not agree with its body.
    let call = asked("tools/call", "t", &format!(r#""name":"t","taskId":"{name}","#));
    let contradiction = about_task("tasks/get", &of_another, "").with("mcp-name", own.as_str());
    for asked in [call, contradiction] {
        instances.servers[0].ask(&asked);
        instances.servers[0].settle();
        assert!(instances.servers[0].store_actions.is_empty());
    }
}

/// An exchange on which a request about a task of instance 1 has arrived at instance 0, which has passed it on.
fn passed_on(instances: &mut Instances) -> (ExchangeKey, Ticket) {
    let id = task_of(instances, 1);
    let exchange = instances.ask(0, &about_task("tasks/get", &id, ""));
    (exchange, instances.servers[1].ticket())
}

#[test]
fn without_the_store_or_an_answer_a_request_is_refused_with_503() {
    // The store does not answer.
    let mut instances = instances();
    let id = task_of(&mut instances, 1);
    instances.is_reachable = false;
    let sent = instances.answer(0, &about_task("tasks/get", &id, ""));
    assert_eq!((sent.code(), sent.headers["retry-after"].to_str().unwrap()), (503, "5"));
    instances.is_reachable = true;

    // The instance does not.
    let (exchange, ticket) = passed_on(&mut instances);
    instances.pass(Duration::from_secs(4));
    assert_eq!(instances.take(0, exchange).code(), 0);
    instances.pass(Duration::from_secs(2));
    assert_eq!(instances.take(0, exchange).code(), 503);
    // Its late answer has no effect.
    instances.respond(1, ticket, "{}");
    assert_eq!(instances.take(0, exchange).code(), 0);
    for at in 0..3 {
        assert_eq!(instances.servers[at].server.load().to_string(), "nothing", "{at}");
    }
}

#[test]
fn a_client_that_disconnects_leaves_nothing_behind() {
    let mut instances = instances();
    let (exchange, ticket) = passed_on(&mut instances);
    instances.disconnect(0, exchange);
    instances.respond(1, ticket, "{}");
    instances.pass(Duration::from_secs(6));
    // Before the request is passed on.
    let id = task_of(&mut instances, 1);
    let exchange = instances.servers[0].ask(&about_task("tasks/get", &id, ""));
    instances.servers[0].settle();
    assert!(matches!(instances.servers[0].store_actions[..], [StoreAction::Find { .. }]));
    assert!(instances.servers[0].server.load().unwritten > 0, "the request is counted");
    instances.disconnect(0, exchange);
    instances.settle();
    assert!(tickets(&mut instances, 1).is_empty());
    for at in 0..3 {
        assert_eq!(instances.servers[at].server.load().to_string(), "nothing", "{at}");
    }
}

fn has_drained(instances: &mut Instances, at: usize) -> bool {
    instances.settle();
    instances.servers[at].events().iter().any(|event| matches!(event, Event::Drained { cancelled: 0 }))
}

#[test]
fn a_server_that_is_being_stopped_waits_for_the_answer_and_passes_on_nothing_new() {
    let mut instances = instances();
    let (exchange, ticket) = passed_on(&mut instances);
    let now = instances.servers[0].now;
    for at in [0, 1] {
        instances.servers[at].server.drain(Duration::from_secs(30), now);
        assert!(!has_drained(&mut instances, at), "{at}");
    }
    let id = format!("{}{}", instances.id(2), "07".repeat(16));
    let refused = asked("tasks/get", &id, &format!(r#""taskId":"{id}","#));
    let sent = instances.answer(0, &refused);
    assert_eq!((sent.code(), tickets(&mut instances, 2).len()), (503, 0), "{}", sent.text());
    instances.respond(1, ticket, "{}");
    assert_eq!(instances.take(0, exchange).code(), 200);
    assert!(has_drained(&mut instances, 0) && has_drained(&mut instances, 1));
}

#[test]
fn a_closed_server_answers_that_it_is_stopping() {
    let mut instances = instances();
    let id = task_of(&mut instances, 1);
    let now = instances.servers[1].now;
    instances.servers[1].server.close(now);
    let sent = instances.answer(0, &about_task("tasks/get", &id, ""));
    assert_eq!((sent.code(), tickets(&mut instances, 1).len()), (503, 0), "{}", sent.text());
}

#[test]
fn what_is_no_request_about_a_task_is_not_taken_for_one() {
    let mut instances = instances();
    let call = modern("1", "tools/call", r#""name":"t","#);
    let number = "0000000000000001";
    let messages = [
        format!(r#"{{"k":"asked","i":"{number}","n":"{number}","m":{call}}}"#),
        format!(r#"{{"k":"asked","i":"{number}","n":"{number}","m":[]}}"#),
        format!(r#"{{"k":"asked","i":"{number}","m":{}}}"#, modern("1", "tasks/get", r#""taskId":"t","#)),
        format!(r#"{{"k":"answered","n":"{number}","c":200,"m":{{}}}}"#),
        format!(r#"{{"k":"answered","n":"{number}","c":99,"m":{{}}}}"#),
        format!(r#"{{"k":"answered","n":"{number}"}}"#),
    ];
    for message in messages {
        let now = instances.servers[0].now;
        instances.servers[0].server.handle_message(message.as_bytes(), now);
        instances.settle();
        assert!(tickets(&mut instances, 0).is_empty(), "{message}");
        assert_eq!(instances.servers[0].server.load().to_string(), "nothing");
    }
}
