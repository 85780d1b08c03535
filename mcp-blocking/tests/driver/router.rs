//! Servers that consist of functions.
#![cfg(feature = "schema")]

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mcp_application::InvalidService;
use mcp_application::router::{HandlerError, NoArguments};
use mcp_application::skills::SkillMismatch;
use mcp_application::validation::CheckedTool;
use mcp_blocking::{
    Change, Client, Error, Handler, Incoming, Router, Server, ServerPublisher, Service, SharedRouter, TaskContext,
};
use mcp_model::{ElicitResult, JsonObject, ListToolsRequest, PaginatedRequestParams, Resource, TaskStatus, Tool};
use mcp_proto::client::CloseReason;
use mcp_proto::server::{Config, HttpConfig, TaskLimits};
use mcp_proto::{ErrorObject, Failed, Json, Method, Notification, ProtocolVersion, SessionKey, UsageError};
use mcp_testkit::raw_client::RawClient;
use mcp_testkit::waiting::LONG;
use tests::routed;
use tests::routed_tasks::{self, CAPABILITIES as TASKS};

struct User(Sender<Method>);

impl Handler for User {
    fn notified(&self, notification: Notification) {
        let _ = self.0.send(notification.method);
    }

    fn requested(&self, _: Method, params: Option<Json>) -> Result<Json, ErrorObject> {
        Ok(routed::answer_of_user(params.as_ref()))
    }
}

fn router() -> Router {
    Router::new()
        .tool_with("divide", routed::describe, |numbers, _| routed::divide(numbers))
        .tool("parse", "Parses a number.", |name, _| routed::parse(name))
        .tool("greet", "Greets two users.", |_: NoArguments, incoming: &Incoming| routed::greet(incoming))
        .prompt("hello", "Says hello.", |name, _| routed::hello(name))
        .prompt_with_arguments(&routed::bare_prompt(), |_: JsonObject, _| {
            Err::<&str, _>(HandlerError::new("there is nothing to say"))
        })
        .resource(&routed::resource(), |_| Ok("Today"))
        .resource_template(&routed::template(), |name, _| routed::note(name))
        .skill(&routed::skill(routed::EMAIL))
        .complete_prompt("hello", "name", |input, _| routed::complete(input))
        .complete_template("note:///{name}", "name", |_, _| Ok(vec!["today"]))
        .fallback(|incoming: &Incoming| routed::fall_back(incoming.method()))
}

/// A server over HTTP, which the test leaves running, and a client of it.
fn connect(server: &Server, version: ProtocolVersion) -> (Client, Receiver<Method>) {
    connect_with(server, version, r#"{"elicitation":{}}"#)
}

fn connect_with(server: &Server, version: ProtocolVersion, capabilities: &'static str) -> (Client, Receiver<Method>) {
    tests::deadline::set();
    let service = server.http(HttpConfig::new()).expect("a configuration");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    thread::spawn(move || service.serve(listener));
    let (notified, notifications) = channel();
    let capabilities = Json::parse(capabilities).expect("JSON");
    let builder = Client::builder().versions([version]).capabilities(capabilities).handler(User(notified));
    (builder.http(&url).expect("a URL").connect().expect("a connection"), notifications)
}

#[test]
fn clients_of_every_revision_receive_the_answers_of_the_functions() {
    for &version in ProtocolVersion::ALL {
        let (client, _notifications) = connect(&Server::new(Config::new("tests", "1"), router()), version);
        for (method, params, expected) in routed::cases(version) {
            // Older revisions have neither forms nor completions of other arguments.
            if params.contains("greet") && !version.rules().elicitation {
                continue;
            }
            let answer = match client.request(method, Some(Json::parse(params).unwrap())) {
                Ok(result) => Ok(result),
                Err(Error::Server(error)) => Err(error),
                Err(error) => panic!("{version} {method} {params}: {error}"),
            };
            routed::check(&format!("{version} {method} {params}"), answer, &expected);
        }
    }
}

#[test]
fn clients_are_notified_of_what_is_added_and_removed() {
    let shared = SharedRouter::new(router());
    let (client, notifications) =
        connect(&Server::new(Config::new("tests", "1"), shared.clone()), ProtocolVersion::LATEST_LEGACY);
    let late = Tool::without_arguments("late");
    let add = |router: Router| router.tool_with_schema(&late, |_: JsonObject, _| Ok("late"));
    shared.change(|router| add(router).without_tool("parse")).unwrap();
    assert_eq!(notifications.recv().unwrap(), Method::TOOLS_LIST_CHANGED);
    let list = client.request_as::<ListToolsRequest>(&PaginatedRequestParams::new()).unwrap();
    let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["divide", "greet", "late"]);

    // A mistake changes nothing, and no list has changed if only a function has.
    let mistake = shared.change(|router| add(router).without_tool("greet")).unwrap_err();
    assert!(matches!(mistake, InvalidService::DuplicateRoute { .. }), "{mistake}");
    shared.change(|router| add(router.without_tool("late"))).unwrap();
    shared.change(|router| router.without_prompt("bare")).unwrap();
    assert_eq!(notifications.recv().unwrap(), Method::PROMPTS_LIST_CHANGED);
    // The last prompt leaves an empty list.
    shared.change(|router| router.without_prompt("hello")).unwrap();
    let list = client.request("prompts/list", None).unwrap();
    routed::check("prompts/list", Ok(list), r#"{"prompts":[]}"#);
    assert_eq!(notifications.recv().unwrap(), Method::PROMPTS_LIST_CHANGED);
    // Templates belong to the resources.
    shared.change(|router| router.without_resource_template("note:///{name}")).unwrap();
    assert_eq!(notifications.recv().unwrap(), Method::RESOURCES_LIST_CHANGED);
    shared.change(|router| router.resource_template(&routed::template(), |name, _| routed::note(name))).unwrap();
    assert_eq!(notifications.recv().unwrap(), Method::RESOURCES_LIST_CHANGED);
    shared.change(|router| router.without_resource("note:///today")).unwrap();
    assert_eq!(notifications.recv().unwrap(), Method::RESOURCES_LIST_CHANGED);
    client.close();
}

#[test]
fn requests_are_served_while_a_router_is_changed_but_no_other_change_is_made() {
    let shared = SharedRouter::new(router());
    let (client, _notifications) =
        connect(&Server::new(Config::new("tests", "1"), shared.clone()), ProtocolVersion::LATEST_LEGACY);
    let list = || client.request("tools/list", None).unwrap().to_text().into_owned();
    let changed = shared.change(|router| {
        assert!(list().contains("divide"));
        assert_eq!(shared.change(|router| router), Err(InvalidService::NestedChange));
        router.without_tool("divide")
    });
    assert_eq!(changed, Ok(()));
    assert!(!list().contains("divide"));
    client.close();
}

/// Passes on the publishers that it receives.
struct Created(Sender<ServerPublisher>);

impl Service for Created {
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
        Err(ErrorObject::method_not_found(incoming.method()))
    }

    fn created(&self, publisher: ServerPublisher) {
        let _ = self.0.send(publisher);
    }
}

#[test]
fn a_fallback_that_is_set_later_receives_the_publishers_of_all_servers_once() {
    let shared = SharedRouter::new(router());
    let server = || Server::new(Config::new("tests", "1"), shared.clone());
    let _servers = [server(), server()];
    let (created, publishers) = channel();
    shared.change(|router| router.fallback(Created(created))).unwrap();
    assert_eq!(publishers.try_iter().count(), 2);
    shared.change(|router| router.without_tool("parse")).unwrap();
    assert_eq!(publishers.try_iter().count(), 0);
    let _later = server();
    assert_eq!(publishers.try_iter().count(), 1);
}

/// Sends a line for each notification, subscription and end that it receives.
struct Reporter(Sender<String>);

impl Service for Reporter {
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
        Err(ErrorObject::method_not_found(incoming.method()))
    }

    fn notified(&self, _: SessionKey, notification: Notification) {
        let _ = self.0.send(format!("notified {}", notification.method));
    }

    fn subscribed(&self, uri: Arc<str>, _: ServerPublisher) {
        let _ = self.0.send(format!("subscribed {uri}"));
    }

    fn unsubscribed(&self, uri: Arc<str>) {
        let _ = self.0.send(format!("unsubscribed {uri}"));
    }

    fn ended(&self, _: SessionKey, _: CloseReason) {
        let _ = self.0.send("ended".into());
    }
}

#[test]
fn the_fallback_of_a_router_that_may_change_receives_notifications_subscriptions_and_ends() {
    let (sender, lines) = channel();
    let capabilities = Json::parse(r#"{"resources":{"subscribe":true}}"#).unwrap();
    let config = Config::new("tests", "1").capabilities(capabilities);
    let server = Server::new(config, SharedRouter::new(router().fallback(Reporter(sender))));
    let (client, _notifications) = connect(&server, ProtocolVersion::LATEST_LEGACY);
    let uri = Json::empty_object().with_member("uri", &"a:b".into());
    let expect = |expected: &str| assert_eq!(lines.recv_timeout(LONG).as_deref(), Ok(expected));
    client.request("resources/subscribe", Some(uri.clone())).unwrap();
    expect("subscribed a:b");
    client.notify(Notification::new("notifications/own")).unwrap();
    expect("notified notifications/own");
    client.request("resources/unsubscribe", Some(uri)).unwrap();
    expect("unsubscribed a:b");
    client.close();
    expect("ended");
}

#[test]
fn a_first_function_of_a_kind_is_reported_if_a_server_has_not_declared_it() {
    let complete = |router: Router| router.complete_prompt("hello", "name", |_, _| Ok(vec!["Ada"]));
    let shared = SharedRouter::new(Router::new());
    let server = Server::new(Config::new("tests", "1"), shared.clone());
    assert_eq!(shared.change(complete), Err(UsageError::NotDeclared { capability: "completions" }.into()));
    assert_eq!(shared.change(|router| router.page_size(7)), Ok(()), "it is reported once");
    drop(server);
    let shared = SharedRouter::new(Router::new());
    assert_eq!(shared.change(complete), Ok(()), "no server has been created");
}

#[test]
fn a_client_uses_only_files_that_the_entry_of_their_skill_describes() {
    let shared = SharedRouter::new(router());
    let (client, notifications) =
        connect(&Server::new(Config::new("tests", "1"), shared.clone()), ProtocolVersion::LATEST_LEGACY);
    let skills = client.list_all_skills().collect::<Result<Vec<_>, _>>().unwrap();
    let [skill] = skills.as_slice() else { panic!("{skills:?}") };
    assert_eq!(client.read_skill_file(skill, routed::EMAIL_URI).unwrap(), routed::EMAIL.as_bytes());
    let directory = client.read_directory("skill://acme/refunds/templates", None).unwrap();
    assert_eq!(directory.resources.iter().map(|file| file.uri.as_str()).collect::<Vec<_>>(), [routed::EMAIL_URI]);

    // The new text is as long as the old one, so that the list of resources does not differ.
    let changed = "Dear visitors";
    shared.change(|router| router.without_skill(&skill.uri).skill(&routed::skill(changed))).unwrap();
    assert_eq!(notifications.recv().unwrap(), Method::RESOURCES_LIST_CHANGED);
    let refused = client.read_skill_file(skill, routed::EMAIL_URI).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the file cannot be used: the file has another digest than the entry of the skill states; if the skill has changed, \
         request its entry again"
    );
    let skill = client.get_skill(&skill.uri).unwrap();
    assert_eq!(client.read_skill_file(&skill, routed::EMAIL_URI).unwrap(), changed.as_bytes());
    let unlisted = client.read_skill_file(&skill, "skill://acme/refunds/other.md").unwrap_err();
    assert!(matches!(unlisted, Error::Skill(SkillMismatch::NotListed)), "{unlisted}");
    client.close();
}

#[test]
fn mistakes_of_a_router_are_reported_when_its_server_is_started() {
    let text = |_: String, _: &Incoming| Ok("");
    let server = Server::new(Config::new("tests", "1"), Router::new().tool("echo", "Repeats a text.", text));
    let error = server.serve_stream(std::io::empty(), std::io::sink()).unwrap_err();
    assert_eq!(error.to_string(), "the arguments of the tool 'echo' must be an object: use a struct with named fields");
}

/// What the function of the tool `wait` reports when it has been cancelled: whether a question fails then, and how long it
/// has run.
type Ended = (bool, Duration);

/// A server with the tools of [`routed_tasks`]. The function of `wait` reports its end, and then waits until the other
/// sender is dropped.
fn with_tasks(limits: TaskLimits) -> (Server, Receiver<Ended>, Sender<()>) {
    let ((ended, was_ended), (stay, stays)) = (channel(), channel::<()>());
    let (ended, stays) = (Mutex::new(ended), Mutex::new(stays));
    let book = |_: NoArguments, context: &mut TaskContext<'_>| {
        context.set_message("asking");
        routed_tasks::booked(context.elicit("name", routed_tasks::form())?)
    };
    let pair = |_: NoArguments, context: &mut TaskContext<'_>| {
        Ok(context.ask_all(routed_tasks::pair())?.to_text().into_owned())
    };
    let wait = move |_: NoArguments, context: &mut TaskContext<'_>| {
        let began = Instant::now();
        while !context.is_cancelled() {
            thread::sleep(Duration::from_millis(2));
        }
        let is_refused = context.elicit("name", routed_tasks::form()).is_err();
        let _ = ended.lock().expect("no panic").send((is_refused, began.elapsed()));
        let _ = stays.lock().expect("no panic").recv();
        Ok("ended")
    };
    let router = Router::new()
        .task_limits(limits)
        .task_tool("book", |tool| tool, book)
        .task_tool("pair", |tool| tool, pair)
        .prepared_task_tool(
            &routed_tasks::tool("greet"),
            |_: NoArguments, incoming: &Incoming| routed_tasks::asked_before(incoming),
            |answer, _: &mut TaskContext<'_>| routed_tasks::booked(answer),
        )
        .task_tool("fail", |tool| tool, |_: NoArguments, _| Err::<&str, _>(HandlerError::new("no room")))
        .task_tool("panic", |tool| tool, |_: NoArguments, _| Ok(routed_tasks::panics()))
        .task_tool("wait", |tool| tool, wait);
    (Server::new(Config::new("tests", "1"), router), was_ended, stay)
}

fn call(client: &Client, tool: &str) -> Result<Json, Error> {
    client.request("tools/call", Some(Json::empty_object().with_member("name", &Json::from(tool))))
}

fn task_of(created: &Json) -> Json {
    Json::empty_object().with_member("taskId", &created.first_member("taskId").expect("an id"))
}

#[test]
fn clients_fetch_the_results_of_tasks_give_them_input_and_cancel_them() {
    let (server, _was_ended, stay) = with_tasks(TaskLimits::default());
    drop(stay);
    let (client, _notifications) = connect_with(&server, ProtocolVersion::LATEST, TASKS);
    for case in &routed_tasks::CASES {
        case.check(|method, params| match client.request(method, Some(params)) {
            Err(Error::Server(error)) => Err(error),
            outcome => Ok(outcome.expect("an answer")),
        });
    }
}

#[test]
fn a_client_without_the_extension_waits_for_the_result() {
    let (server, ..) = with_tasks(TaskLimits::default());
    let (client, _notifications) = connect(&server, ProtocolVersion::LATEST_LEGACY);
    let result = call(&client, "book").unwrap();
    routed::check("book", Ok(result), r#"{"content":[{"type":"text","text":"{\"name\":\"Ada\"}"}]}"#);

    // Without a session, only a task can ask the user while its function runs.
    let (client, _notifications) = connect(&server, ProtocolVersion::LATEST);
    assert!(matches!(call(&client, "book"), Err(Error::Server(error)) if error.code() == -32021));
}

#[test]
fn a_function_finds_out_that_its_task_was_cancelled_and_counts_until_it_returns() {
    let limits = TaskLimits::default();
    let (server, was_ended, stay) = with_tasks(with(limits, |limits| limits.tasks_of_principal = 1));
    let (client, _notifications) = connect_with(&server, ProtocolVersion::LATEST, TASKS);
    let task = task_of(&call(&client, "wait").unwrap());
    client.request("tasks/cancel", Some(task)).unwrap();
    let (is_refused, _) = was_ended.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(is_refused);
    assert!(matches!(call(&client, "wait"), Err(Error::Server(_))), "its thread still runs");
    drop(stay);
    let began = Instant::now();
    while call(&client, "fail").is_err() {
        assert!(began.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_function_finds_out_that_the_time_of_its_task_is_over() {
    let lifetime = Duration::from_millis(300);
    let (server, was_ended, _stay) = with_tasks(with(TaskLimits::default(), |limits| limits.lifetime = lifetime));
    let (client, _notifications) = connect_with(&server, ProtocolVersion::LATEST, TASKS);
    // A question that waits for its answer fails then, too, and nothing else happens meanwhile.
    let asking = task_of(&call(&client, "book").unwrap());
    let waiting = task_of(&call(&client, "wait").unwrap());
    let (is_refused, time) = was_ended.recv_timeout(Duration::from_secs(20)).unwrap();
    // The function begins some time after the task.
    assert!(is_refused && time > lifetime / 2, "{time:?}");
    for task in [asking, waiting] {
        let found = client.request("tasks/get", Some(task));
        assert!(matches!(found, Err(Error::Server(error)) if error.code() == -32602));
    }
}

#[test]
fn subscribers_are_notified_of_the_last_change_of_a_task() {
    let (server, _was_ended, _stay) = with_tasks(TaskLimits::default());
    let (client, _notifications) = connect_with(&server, ProtocolVersion::LATEST, TASKS);
    let task = task_of(&call(&client, "wait").unwrap());
    let filter = Json::empty_object().with_member("taskIds", &Json::array([&task.first_member("taskId").unwrap()]));
    let mut changes = client.listen(filter).unwrap();
    assert!(matches!(changes.next(), Some(Change::Listening(_))));
    client.request("tasks/cancel", Some(task)).unwrap();
    let Some(Change::Notified(change)) = changes.next() else { panic!("a change") };
    assert_eq!(change.params.unwrap().first_member("status"), Some(Json::from("cancelled")));
}

#[test]
fn se_10_the_changes_of_a_task_reach_only_subscriptions_of_its_principal() {
    let wait = |_: NoArguments, context: &mut TaskContext<'_>| {
        while !context.is_cancelled() {
            thread::sleep(Duration::from_millis(2));
        }
        Ok("ended")
    };
    let shared = SharedRouter::new(Router::new().task_tool("wait", |tool| tool, wait));
    let server = Server::new(Config::new("tests", "1"), shared.clone());
    let service = server.http(HttpConfig::new()).expect("a configuration").authenticate(routed_tasks::authenticate);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let remote = RawClient::new(&listener.local_addr().expect("an address").to_string());
    thread::spawn(move || service.serve(listener));
    let late = Tool::without_arguments("late");
    routed_tasks::changes_reach_only_the_principal(&remote, || {
        let add = |router: Router| router.tool_with_schema(&late, |_: JsonObject, _| Ok("late"));
        shared.change(add).expect("no mistake");
        shared.change(|router| router.without_tool("late")).expect("no mistake");
    });
}

/// A client whose user answers the form of the tool `book` with this, and a server that wants to be asked so often.
fn asking(
    version: ProtocolVersion,
    answer: Result<ElicitResult, ErrorObject>,
    interval: Duration,
) -> (Client, Receiver<Ended>, Sender<()>) {
    let limits = with(TaskLimits::default(), |limits| limits.poll_interval = interval);
    let (server, was_ended, stay) = with_tasks(limits);
    let builder = Client::builder().versions([version]).on_elicit_form(move |_| Ok(answer.clone()?));
    (builder.in_memory(&server).connect().expect("a connection"), was_ended, stay)
}

#[test]
fn a_tool_that_is_called_as_a_task_has_the_same_outcome_in_every_revision() {
    for (version, is_task) in [(ProtocolVersion::LATEST, true), (ProtocolVersion::LATEST_LEGACY, false)] {
        let (client, ..) = asking(version, Ok(routed_tasks::entered()), Duration::ZERO);
        for (tool, expected) in routed_tasks::CALLS {
            let outcome = client.call_tool_as_task(tool, ()).and_then(|mut call| {
                assert_eq!(call.id().is_some(), is_task);
                call.wait()
            });
            assert_eq!(routed_tasks::text(outcome), expected, "{version} {tool}");
        }
        // The extension is declared for those calls only.
        assert_eq!(routed_tasks::text(client.call_tool("fail", ())), "no room");
    }
}

#[test]
fn a_client_asks_for_the_status_of_its_task_cancels_it_and_refuses_input() {
    let (client, _was_ended, _stay) = asking(ProtocolVersion::LATEST, Err(ErrorObject::internal()), Duration::ZERO);
    let mut call = client.call_tool_as_task("wait", ()).unwrap();
    assert_eq!(call.status().unwrap(), TaskStatus::Working);
    call.cancel().unwrap();
    assert!(matches!(call.wait(), Err(Error::TaskEnded { status: TaskStatus::Cancelled })));

    let mut call = client.call_tool_as_task("book", ()).unwrap();
    let Err(Error::Failed { reason: Failed::NoInput { .. }, .. }) = call.wait() else { panic!("no input") };
    assert_eq!((call.status().unwrap(), call.message()), (TaskStatus::Cancelled, Some("asking")));
}

#[test]
fn a_client_that_is_closed_does_not_wait_for_its_task() {
    let (client, _was_ended, _stay) =
        asking(ProtocolVersion::LATEST, Ok(routed_tasks::entered()), Duration::from_secs(60));
    let mut call = client.call_tool_as_task("wait", ()).unwrap();
    let (began, waiting) = (Instant::now(), thread::spawn(move || call.wait()));
    thread::sleep(Duration::from_millis(50));
    client.close();
    let outcome = waiting.join().unwrap();
    assert!(matches!(outcome, Err(Error::Usage(UsageError::Closed))), "{outcome:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn a_server_and_a_client_validate_by_the_schemas_of_a_tool() {
    let router = || {
        Router::new()
            .tool_with_schema(&routed::measured_tool(), |measured: routed::Measured, _| Ok(routed::measure(&measured)))
    };
    for (router, is_validated) in [(router().validate(), true), (router(), false)] {
        let server = Server::new(Config::new("s", "1"), router);
        let client = Client::builder().in_memory(&server).connect().unwrap();
        let tools = client.list_tools(None).unwrap().tools;
        let checked = CheckedTool::new(&tools[0]).unwrap();
        for (text, validated, other) in routed::MEASUREMENTS {
            let arguments = JsonObject::new().with("text", text);
            let called = client.call_tool("measure", &arguments);
            let found = [routed::shown(called), routed::shown(client.call_checked_tool(&checked, &arguments))];
            assert_eq!(found, if is_validated { validated } else { other }, "{text} {is_validated}");
        }
        client.close();
    }
}

#[test]
fn a_client_reads_the_app_of_a_tool_and_states_that_it_shows_apps() {
    let router = Router::new()
        .tool_with("time", routed::linked_to_app, |_: NoArguments, incoming: &Incoming| Ok(routed::show_time(incoming)))
        .app(&routed::app(), routed::APP_HTML, &routed::app_ui())
        .resource(&Resource::new("ui://clock/other", "other").mime_type("text/html"), |_| Ok("<p>"))
        .resource(&Resource::app("ui://clock/swapped", "swapped"), |_| Ok(routed::app_at("ui://clock/other")))
        .resource(&Resource::app("https://clock/view", "other"), |_| Ok(routed::app_at("https://clock/view")));
    let server = Server::new(Config::new("s", "1"), router);
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2026_07_28] {
        for shows in [true, false] {
            let builder = Client::builder().versions([version]);
            let builder = if shows { builder.show_apps() } else { builder };
            let client = builder.in_memory(&server).connect().unwrap();
            let tool = client.list_tools(None).unwrap().tools.remove(0);
            let uri = tool.read_ui().unwrap().resource_uri.unwrap();
            let app = client.read_app(&uri).unwrap();
            assert_eq!((app.html.as_str(), app.ui), (routed::APP_HTML, routed::app_ui()));
            assert_eq!(client.call_tool("time", ()).unwrap().all_text(), format!("12:00, shown: {shows}"));
            // It is no page, not the one that was asked for, and not at a URI of a page.
            for uri in ["ui://clock/other", "ui://clock/swapped", "https://clock/view"] {
                assert!(matches!(client.read_app(uri), Err(Error::NotAnApp)), "{uri}");
            }
            client.close();
        }
    }
    for wrong in [Resource::app("https://clock/view", "clock"), Resource::new("ui://clock/view", "clock")] {
        let server = Server::new(Config::new("s", "1"), Router::new().app(&wrong, "", &routed::app_ui()));
        let error = Client::builder().in_memory(&server).connect().err().unwrap().to_string();
        assert!(error.contains(&wrong.uri) && error.contains("is no app"), "{error}");
    }
}

fn with(mut limits: TaskLimits, change: impl FnOnce(&mut TaskLimits)) -> TaskLimits {
    change(&mut limits);
    limits
}
