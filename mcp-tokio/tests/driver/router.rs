//! Servers that consist of functions.
#![cfg(feature = "schema")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_application::InvalidService;
use mcp_application::router::{HandlerError, NoArguments};
use mcp_application::skills::SkillMismatch;
use mcp_application::validation::CheckedTool;
use mcp_model::{ElicitResult, JsonObject, ListToolsRequest, PaginatedRequestParams, Resource, TaskStatus, Tool};
use mcp_proto::client::CloseReason;
use mcp_proto::server::Config;
#[cfg(feature = "http-server")]
use mcp_proto::server::HttpConfig;
use mcp_proto::{ErrorObject, Failed, Json, Method, Notification, ProtocolVersion, SessionKey, UsageError};
#[cfg(feature = "http-server")]
use mcp_testkit::raw_client::RawClient;
use mcp_testkit::waiting::LONG;
use mcp_tokio::{
    Change, Client, Error, Handler, Incoming, Router, Server, ServerPublisher, Service, SharedRouter, TaskContext,
};
use tests::routed;
use tests::routed_tasks::{self, CAPABILITIES as TASKS};
#[cfg(feature = "http-server")]
use tokio::net::TcpListener;
use tokio::sync::mpsc;

struct User(mpsc::UnboundedSender<Method>);

impl Handler for User {
    async fn notified(&self, notification: Notification) {
        let _ = self.0.send(notification.method);
    }

    async fn requested(&self, _: Method, params: Option<Json>) -> Result<Json, ErrorObject> {
        Ok(routed::answer_of_user(params.as_ref()))
    }
}

fn router() -> Router {
    Router::new()
        .tool_with("divide", routed::describe, |numbers, _| async { routed::divide(numbers) })
        .tool("parse", "Parses a number.", |name, _| async { routed::parse(name) })
        .tool(
            "greet",
            "Greets two users.",
            |_: NoArguments, incoming: Incoming| async move { routed::greet(&incoming) },
        )
        .prompt("hello", "Says hello.", |name, _| async { routed::hello(name) })
        .prompt_with_arguments(&routed::bare_prompt(), |_: JsonObject, _| async {
            Err::<&str, _>(HandlerError::new("there is nothing to say"))
        })
        .resource(&routed::resource(), |_| async { Ok("Today") })
        .resource_template(&routed::template(), |name, _| async { routed::note(name) })
        .skill(&routed::skill(routed::EMAIL))
        .complete_prompt("hello", "name", |input, _| async { routed::complete(input) })
        .complete_template("note:///{name}", "name", |_, _| async { Ok(vec!["today"]) })
        .fallback(async |incoming: Incoming| routed::fall_back(incoming.method()))
}

async fn connect(server: Server, version: ProtocolVersion) -> (Client, mpsc::UnboundedReceiver<Method>) {
    connect_with(server, version, r#"{"elicitation":{}}"#).await
}

async fn connect_with(
    server: Server,
    version: ProtocolVersion,
    capabilities: &'static str,
) -> (Client, mpsc::UnboundedReceiver<Method>) {
    tests::deadline::set();
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        let (read, write) = tokio::io::split(theirs);
        server.serve_stream(read, write).await
    });
    let (notified, notifications) = mpsc::unbounded_channel();
    let (read, write) = tokio::io::split(ours);
    let capabilities = Json::parse(capabilities).expect("JSON");
    let builder = Client::builder().versions([version]).capabilities(capabilities).handler(User(notified));
    (builder.stream(read, write).connect().await.expect("a connection"), notifications)
}

#[tokio::test]
async fn clients_of_every_revision_receive_the_answers_of_the_functions() {
    for &version in ProtocolVersion::ALL {
        let (client, _notifications) = connect(Server::new(Config::new("tests", "1"), router()), version).await;
        for (method, params, expected) in routed::cases(version) {
            // Older revisions have neither forms nor completions of other arguments.
            if params.contains("greet") && !version.rules().elicitation {
                continue;
            }
            let answer = match client.request(method, Some(Json::parse(params).unwrap())).await {
                Ok(result) => Ok(result),
                Err(Error::Server(error)) => Err(error),
                Err(error) => panic!("{version} {method} {params}: {error}"),
            };
            routed::check(&format!("{version} {method} {params}"), answer, &expected);
        }
    }
}

#[tokio::test]
async fn clients_are_notified_of_what_is_added_and_removed() {
    let shared = SharedRouter::new(router());
    let (client, mut notifications) =
        connect(Server::new(Config::new("tests", "1"), shared.clone()), ProtocolVersion::LATEST_LEGACY).await;
    let late = Tool::without_arguments("late");
    let add = |router: Router| router.tool_with_schema(&late, |_: JsonObject, _| async { Ok("late") });
    shared.change(|router| add(router).without_tool("parse")).await.unwrap();
    assert_eq!(notifications.recv().await.unwrap(), Method::TOOLS_LIST_CHANGED);
    let list = client.request_as::<ListToolsRequest>(&PaginatedRequestParams::new()).await.unwrap();
    let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["divide", "greet", "late"]);

    // A mistake changes nothing, and no list has changed if only a function has.
    let mistake = shared.change(|router| add(router).without_tool("greet")).await.unwrap_err();
    assert!(matches!(mistake, InvalidService::DuplicateRoute { .. }), "{mistake}");
    shared.change(|router| add(router.without_tool("late"))).await.unwrap();
    shared.change(|router| router.without_prompt("bare")).await.unwrap();
    assert_eq!(notifications.recv().await.unwrap(), Method::PROMPTS_LIST_CHANGED);
    // The last prompt leaves an empty list.
    shared.change(|router| router.without_prompt("hello")).await.unwrap();
    let list = client.request("prompts/list", None).await.unwrap();
    routed::check("prompts/list", Ok(list), r#"{"prompts":[]}"#);
    assert_eq!(notifications.recv().await.unwrap(), Method::PROMPTS_LIST_CHANGED);
    // Templates belong to the resources.
    shared.change(|router| router.without_resource_template("note:///{name}")).await.unwrap();
    assert_eq!(notifications.recv().await.unwrap(), Method::RESOURCES_LIST_CHANGED);
    let add = |router: Router| router.resource_template(&routed::template(), |name, _| async { routed::note(name) });
    shared.change(add).await.unwrap();
    assert_eq!(notifications.recv().await.unwrap(), Method::RESOURCES_LIST_CHANGED);
    shared.change(|router| router.without_resource("note:///today")).await.unwrap();
    assert_eq!(notifications.recv().await.unwrap(), Method::RESOURCES_LIST_CHANGED);
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_served_while_a_router_is_changed_but_no_other_change_is_made() {
    let shared = SharedRouter::new(router());
    let (client, _notifications) =
        connect(Server::new(Config::new("tests", "1"), shared.clone()), ProtocolVersion::LATEST_LEGACY).await;
    let blocking = |work| tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work));
    let changed = shared.change(|router| {
        let (within, client) = (shared.clone(), client.clone());
        blocking(Box::pin(async move {
            let listed = tokio::time::timeout(LONG, client.request("tools/list", None)).await.expect("an answer");
            assert!(listed.unwrap().to_text().contains("divide"));
            assert_eq!(within.change(|router| router).await, Err(InvalidService::NestedChange));
        }));
        router.without_tool("divide")
    });
    assert_eq!(changed.await, Ok(()));
    assert!(!client.request("tools/list", None).await.unwrap().to_text().contains("divide"));
    client.close().await;
}

/// Passes on the publishers that it receives.
struct Created(mpsc::UnboundedSender<ServerPublisher>);

impl Service for Created {
    async fn serve(&self, incoming: Incoming) -> Result<Json, ErrorObject> {
        Err(ErrorObject::method_not_found(incoming.method()))
    }

    fn created(&self, publisher: ServerPublisher) {
        let _ = self.0.send(publisher);
    }
}

#[tokio::test]
async fn a_fallback_that_is_set_later_receives_the_publishers_of_all_servers_once() {
    let shared = SharedRouter::new(router());
    let server = || Server::new(Config::new("tests", "1"), shared.clone());
    let _servers = [server(), server()];
    let (created, publishers) = mpsc::unbounded_channel();
    shared.change(|router| router.fallback(Created(created))).await.unwrap();
    assert_eq!(publishers.len(), 2);
    shared.change(|router| router.without_tool("parse")).await.unwrap();
    assert_eq!(publishers.len(), 2);
    let _later = server();
    assert_eq!(publishers.len(), 3);
}

/// Sends a line for each notification, subscription and end that it receives.
struct Reporter(mpsc::UnboundedSender<String>);

impl Service for Reporter {
    async fn serve(&self, incoming: Incoming) -> Result<Json, ErrorObject> {
        Err(ErrorObject::method_not_found(incoming.method()))
    }

    async fn notified(&self, _: SessionKey, notification: Notification) {
        let _ = self.0.send(format!("notified {}", notification.method));
    }

    async fn subscribed(&self, uri: Arc<str>, _: ServerPublisher) {
        let _ = self.0.send(format!("subscribed {uri}"));
    }

    async fn unsubscribed(&self, uri: Arc<str>) {
        let _ = self.0.send(format!("unsubscribed {uri}"));
    }

    async fn ended(&self, _: SessionKey, _: CloseReason) {
        let _ = self.0.send("ended".into());
    }
}

#[tokio::test]
async fn the_fallback_of_a_router_that_may_change_receives_notifications_subscriptions_and_ends() {
    let (sender, mut lines) = mpsc::unbounded_channel();
    let capabilities = Json::parse(r#"{"resources":{"subscribe":true}}"#).unwrap();
    let config = Config::new("tests", "1").capabilities(capabilities);
    let server = Server::new(config, SharedRouter::new(router().fallback(Reporter(sender))));
    let (client, _notifications) = connect(server, ProtocolVersion::LATEST_LEGACY).await;
    let uri = Json::empty_object().with_member("uri", &"a:b".into());
    let mut expect = async |expected: &str| {
        let line = tokio::time::timeout(LONG, lines.recv()).await.expect(expected);
        assert_eq!(line.as_deref(), Some(expected));
    };
    client.request("resources/subscribe", Some(uri.clone())).await.unwrap();
    expect("subscribed a:b").await;
    client.notify(Notification::new("notifications/own")).await.unwrap();
    expect("notified notifications/own").await;
    client.request("resources/unsubscribe", Some(uri)).await.unwrap();
    expect("unsubscribed a:b").await;
    client.close().await;
    expect("ended").await;
}

#[tokio::test]
async fn a_first_tool_that_may_take_long_is_reported_if_a_server_has_not_declared_it_and_works_for_others() {
    const EXTENSION: &str = "io.modelcontextprotocol/tasks";
    let shared = SharedRouter::new(router());
    let extensions = Json::parse(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#).unwrap();
    let declaring = Server::new(Config::new("tests", "1").capabilities(extensions), shared.clone());
    let _undeclared = Server::new(Config::new("tests", "1"), shared.clone());
    let (client, _notifications) = connect_with(declaring, ProtocolVersion::LATEST, TASKS).await;
    let pending = |_: NoArguments, _: TaskContext| std::future::pending::<Result<&str, HandlerError>>();
    let change = shared.change(|router| router.task_tool("wait", |tool| tool, pending)).await;
    assert_eq!(change, Err(UsageError::NotDeclared { capability: EXTENSION }.into()));
    assert_eq!(shared.change(|router| router.without_tool("parse")).await, Ok(()), "it is reported once");

    let task = member(&client, "tools/call", r#"{"name":"wait"}"#.into(), "taskId").await;
    let filter = Json::empty_object().with_member("taskIds", &Json::array([&task]));
    let mut changes = client.listen(filter).await.unwrap();
    assert!(matches!(changes.next().await, Some(Change::Listening(_))));
    client.request("tasks/cancel", Some(Json::empty_object().with_member("taskId", &task))).await.unwrap();
    let change = tokio::time::timeout(LONG, changes.next()).await.expect("the publisher of the server");
    let Some(Change::Notified(change)) = change else { panic!("a change") };
    assert_eq!(change.params.unwrap().first_member("status"), Some(Json::from("cancelled")));
    client.close().await;
}

#[tokio::test]
async fn a_call_that_runs_is_completed_by_the_function_that_began_it() {
    let (is_running, started) = (Arc::new(AtomicBool::new(false)), Arc::new(tokio::sync::Notify::new()));
    let (running, begun) = (Arc::clone(&is_running), Arc::clone(&started));
    let waits = move |_: NoArguments, _: Incoming| {
        let (running, begun) = (Arc::clone(&running), Arc::clone(&begun));
        async move {
            begun.notify_one();
            while !running.load(Ordering::Acquire) {
                tokio::task::yield_now().await;
            }
            Ok("done")
        }
    };
    let shared = SharedRouter::new(Router::new().tool("wait", "Waits.", waits));
    let (client, _notifications) =
        connect(Server::new(Config::new("tests", "1"), shared.clone()), ProtocolVersion::LATEST_LEGACY).await;
    let call = {
        let client = client.clone();
        tokio::spawn(
            async move { client.request("tools/call", Some(Json::parse(r#"{"name":"wait"}"#).unwrap())).await },
        )
    };
    started.notified().await;
    shared.change(|router| router.without_tool("wait")).await.unwrap();
    is_running.store(true, Ordering::Release);
    let result = call.await.unwrap().unwrap();
    routed::check("wait", Ok(result), r#"{"content":[{"type":"text","text":"done"}]}"#);
    client.close().await;
}

#[tokio::test]
async fn a_client_uses_only_files_that_the_entry_of_their_skill_describes() {
    let shared = SharedRouter::new(router());
    let (client, mut notifications) =
        connect(Server::new(Config::new("tests", "1"), shared.clone()), ProtocolVersion::LATEST_LEGACY).await;
    let skills = client.list_all_skills().collect().await.unwrap();
    let [skill] = skills.as_slice() else { panic!("{skills:?}") };
    assert_eq!(client.read_skill_file(skill, routed::EMAIL_URI).await.unwrap(), routed::EMAIL.as_bytes());
    let directory = client.read_directory("skill://acme/refunds/templates", None).await.unwrap();
    assert_eq!(directory.resources.iter().map(|file| file.uri.as_str()).collect::<Vec<_>>(), [routed::EMAIL_URI]);

    // The new text is as long as the old one, so that the list of resources does not differ.
    let changed = "Dear visitors";
    shared.change(|router| router.without_skill(&skill.uri).skill(&routed::skill(changed))).await.unwrap();
    assert_eq!(notifications.recv().await.unwrap(), Method::RESOURCES_LIST_CHANGED);
    let refused = client.read_skill_file(skill, routed::EMAIL_URI).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the file cannot be used: the file has another digest than the entry of the skill states; if the skill has changed, \
         request its entry again"
    );
    let skill = client.get_skill(&skill.uri).await.unwrap();
    assert_eq!(client.read_skill_file(&skill, routed::EMAIL_URI).await.unwrap(), changed.as_bytes());
    let unlisted = client.read_skill_file(&skill, "skill://acme/refunds/other.md").await.unwrap_err();
    assert!(matches!(unlisted, Error::Skill(SkillMismatch::NotListed)), "{unlisted}");
    client.close().await;
}

#[tokio::test]
async fn mistakes_of_a_router_are_reported_when_its_server_is_started() {
    let text = |_: String, _: Incoming| async { Ok("") };
    let server = Server::new(Config::new("tests", "1"), Router::new().tool("echo", "Repeats a text.", text));
    let (read, write) = tokio::io::split(tokio::io::duplex(1).0);
    let error = server.serve_stream(read, write).await.unwrap_err();
    assert_eq!(error.to_string(), "the arguments of the tool 'echo' must be an object: use a struct with named fields");
}

/// Sets a flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A server with the tools of [`routed_tasks`]. The function of `wait` never ends.
fn with_tasks(dropped: &Arc<AtomicBool>) -> Server {
    let dropped = Arc::clone(dropped);
    let router = Router::new()
        .task_tool(
            "book",
            |tool| tool,
            |_: NoArguments, mut context: TaskContext| async move {
                context.set_message("asking");
                routed_tasks::booked(context.elicit("name", routed_tasks::form()).await?)
            },
        )
        .task_tool(
            "pair",
            |tool| tool,
            |_: NoArguments, mut context: TaskContext| async move {
                Ok(context.ask_all(routed_tasks::pair()).await?.to_text().into_owned())
            },
        )
        .prepared_task_tool(
            &routed_tasks::tool("greet"),
            |_: NoArguments, incoming: &Incoming| routed_tasks::asked_before(incoming),
            |answer, _: TaskContext| async { routed_tasks::booked(answer) },
        )
        .task_tool("fail", |tool| tool, |_: NoArguments, _| async { Err::<&str, _>(HandlerError::new("no room")) })
        .task_tool("panic", |tool| tool, |_: NoArguments, _| async { Ok(routed_tasks::panics()) })
        .task_tool(
            "wait",
            |tool| tool,
            move |_: NoArguments, _| {
                let dropped = Dropped(Arc::clone(&dropped));
                async move {
                    let _dropped = dropped;
                    std::future::pending::<Result<&str, HandlerError>>().await
                }
            },
        );
    Server::new(Config::new("tests", "1"), router)
}

async fn member(client: &Client, method: &str, params: String, member: &str) -> Json {
    let result = client.request(method, Some(Json::parse(params).expect("JSON"))).await.expect("a result");
    result.first_member(member).expect("a member")
}

/// Asks for a task until it has this status, and returns what it is then.
async fn until(client: &Client, task: &Json, status: &str) -> Json {
    let mut attempts = 0;
    loop {
        let params = Json::empty_object().with_member("taskId", task);
        let found = client.request("tasks/get", Some(params)).await.expect("a task");
        if found.first_member("status") == Some(Json::from(status)) {
            return found;
        }
        attempts += 1;
        assert!(attempts < 500, "the task was never {status}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn clients_fetch_the_results_of_tasks_give_them_input_and_cancel_them() {
    let (client, _notifications) = connect_with(with_tasks(&Arc::default()), ProtocolVersion::LATEST, TASKS).await;
    let (runtime, requester) = (tokio::runtime::Handle::current(), client.clone());
    let check = move |case: &routed_tasks::Case| {
        case.check(|method, params| match runtime.block_on(requester.request(method, Some(params))) {
            Err(Error::Server(error)) => Err(error),
            outcome => Ok(outcome.expect("an answer")),
        });
    };
    tokio::task::spawn_blocking(move || routed_tasks::CASES.iter().for_each(check)).await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn a_client_without_the_extension_waits_for_the_result() {
    let (client, _notifications) = connect(with_tasks(&Arc::default()), ProtocolVersion::LATEST_LEGACY).await;
    let result = client.request("tools/call", Some(Json::parse(r#"{"name":"book"}"#).unwrap())).await.unwrap();
    routed::check("book", Ok(result), r#"{"content":[{"type":"text","text":"{\"name\":\"Ada\"}"}]}"#);
    client.close().await;

    // Without a session, only a task can ask the user while its function runs.
    let (client, _notifications) = connect(with_tasks(&Arc::default()), ProtocolVersion::LATEST).await;
    let call = client.request("tools/call", Some(Json::parse(r#"{"name":"book"}"#).unwrap())).await;
    assert!(matches!(call, Err(Error::Server(error)) if error.code() == -32021));
    client.close().await;
}

#[tokio::test]
async fn the_function_of_a_task_is_dropped_when_its_client_cancels_it() {
    let dropped = Arc::default();
    let (client, _notifications) = connect_with(with_tasks(&dropped), ProtocolVersion::LATEST, TASKS).await;
    let task = member(&client, "tools/call", r#"{"name":"wait"}"#.into(), "taskId").await;
    let cancel = Json::empty_object().with_member("taskId", &task);
    client.request("tasks/cancel", Some(cancel)).await.unwrap();
    until(&client, &task, "cancelled").await;
    for _ in 0..500 {
        if dropped.load(Ordering::Acquire) {
            return client.close().await;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("the function still runs");
}

#[tokio::test]
async fn subscribers_are_notified_of_the_last_change_of_a_task() {
    let (client, _notifications) = connect_with(with_tasks(&Arc::default()), ProtocolVersion::LATEST, TASKS).await;
    let task = member(&client, "tools/call", r#"{"name":"wait"}"#.into(), "taskId").await;
    let filter = Json::empty_object().with_member("taskIds", &Json::array([&task]));
    let mut changes = client.listen(filter).await.unwrap();
    assert!(matches!(changes.next().await, Some(Change::Listening(_))));
    client.request("tasks/cancel", Some(Json::empty_object().with_member("taskId", &task))).await.unwrap();
    let change = tokio::time::timeout(Duration::from_secs(20), changes.next()).await.expect("a change in time");
    let Some(Change::Notified(change)) = change else { panic!("a change") };
    assert_eq!(change.params.unwrap().first_member("status"), Some(Json::from("cancelled")));
    client.close().await;
}

#[cfg(feature = "http-server")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_10_the_changes_of_a_task_reach_only_subscriptions_of_its_principal() {
    let pending = |_: NoArguments, _: TaskContext| std::future::pending::<Result<&str, HandlerError>>();
    let shared = SharedRouter::new(Router::new().task_tool("wait", |tool| tool, pending));
    let server = Server::new(Config::new("tests", "1"), shared.clone());
    let service = server.http(HttpConfig::new()).expect("a configuration").authenticate(|head| {
        let checked = routed_tasks::authenticate(head);
        async { checked }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let remote = RawClient::new(&listener.local_addr().expect("an address").to_string());
    tokio::spawn(async move { service.serve(listener).await });
    let runtime = tokio::runtime::Handle::current();
    let checked = tokio::task::spawn_blocking(move || {
        let late = Tool::without_arguments("late");
        routed_tasks::changes_reach_only_the_principal(&remote, || {
            let add = |router: Router| router.tool_with_schema(&late, |_: JsonObject, _| async { Ok("late") });
            runtime.block_on(shared.change(add)).expect("no mistake");
            runtime.block_on(shared.change(|router| router.without_tool("late"))).expect("no mistake");
        });
    });
    checked.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_function_of_a_task_is_dropped_when_its_time_is_over() {
    let dropped: Arc<AtomicBool> = Arc::default();
    let (client, _notifications) = connect_with(with_tasks(&dropped), ProtocolVersion::LATEST, TASKS).await;
    member(&client, "tools/call", r#"{"name":"wait"}"#.into(), "taskId").await;
    tokio::time::sleep(Duration::from_secs(599)).await;
    assert!(!dropped.load(Ordering::Acquire));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(dropped.load(Ordering::Acquire));
    client.close().await;
}

/// A client whose user answers the form of the tool `book` with this.
async fn asking(server: Server, version: ProtocolVersion, answer: Result<ElicitResult, ErrorObject>) -> Client {
    let form = move |_| std::future::ready(answer.clone().map_err(HandlerError::from));
    let builder = Client::builder().versions([version]).on_elicit_form(form);
    builder.in_memory(&server).connect().await.expect("a connection")
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_called_as_a_task_has_the_same_outcome_in_every_revision() {
    for (version, is_task) in [(ProtocolVersion::LATEST, true), (ProtocolVersion::LATEST_LEGACY, false)] {
        let client = asking(with_tasks(&Arc::default()), version, Ok(routed_tasks::entered())).await;
        for (tool, expected) in routed_tasks::CALLS {
            let outcome = match client.call_tool_as_task(tool, ()).await {
                Ok(mut call) => {
                    assert_eq!(call.id().is_some(), is_task);
                    call.wait().await
                }
                Err(error) => Err(error),
            };
            assert_eq!(routed_tasks::text(outcome), expected, "{version} {tool}");
        }
        // The extension is declared for those calls only.
        assert_eq!(routed_tasks::text(client.call_tool("fail", ()).await), "no room");
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_asks_for_the_status_of_its_task_cancels_it_and_refuses_input() {
    let client = asking(with_tasks(&Arc::default()), ProtocolVersion::LATEST, Err(ErrorObject::internal())).await;
    let mut call = client.call_tool_as_task("wait", ()).await.unwrap();
    assert_eq!(call.status().await.unwrap(), TaskStatus::Working);
    assert!(tokio::time::timeout(Duration::from_secs(60), call.wait()).await.is_err());
    call.cancel().await.unwrap();
    assert!(matches!(call.wait().await, Err(Error::TaskEnded { status: TaskStatus::Cancelled })));

    let mut call = client.call_tool_as_task("book", ()).await.unwrap();
    let Err(Error::Failed { reason: Failed::NoInput { .. }, .. }) = call.wait().await else { panic!("no input") };
    assert_eq!((call.status().await.unwrap(), call.message()), (TaskStatus::Cancelled, Some("asking")));

    let mut call = client.call_tool_as_task("wait", ()).await.unwrap();
    let (outcome, ()) = tokio::join!(call.wait(), client.close());
    assert!(matches!(outcome, Err(Error::Usage(UsageError::Closed))), "{outcome:?}");
}
#[tokio::test]
async fn a_server_and_a_client_validate_by_the_schemas_of_a_tool() {
    let router = || {
        Router::new().tool_with_schema(&routed::measured_tool(), |measured: routed::Measured, _| async move {
            Ok(routed::measure(&measured))
        })
    };
    for (router, is_validated) in [(router().validate(), true), (router(), false)] {
        let server = Server::new(Config::new("s", "1"), router);
        let client = Client::builder().in_memory(&server).connect().await.unwrap();
        let tools = client.list_tools(None).await.unwrap().tools;
        let checked = CheckedTool::new(&tools[0]).unwrap();
        for (text, validated, other) in routed::MEASUREMENTS {
            let arguments = JsonObject::new().with("text", text);
            let called = client.call_tool("measure", &arguments).await;
            let found = [routed::shown(called), routed::shown(client.call_checked_tool(&checked, &arguments).await)];
            assert_eq!(found, if is_validated { validated } else { other }, "{text} {is_validated}");
        }
        client.close().await;
    }
}
#[tokio::test]
async fn a_client_reads_the_app_of_a_tool_and_states_that_it_shows_apps() {
    let router = Router::new()
        .tool_with("time", routed::linked_to_app, |_: NoArguments, incoming: Incoming| async move {
            Ok(routed::show_time(&incoming))
        })
        .app(&routed::app(), routed::APP_HTML, &routed::app_ui())
        .resource(&Resource::new("ui://clock/other", "other").mime_type("text/html"), |_| async { Ok("<p>") })
        .resource(&Resource::app("ui://clock/swapped", "swapped"), |_| async { Ok(routed::app_at("ui://clock/other")) })
        .resource(&Resource::app("https://clock/view", "other"), |_| async {
            Ok(routed::app_at("https://clock/view"))
        });
    let server = Server::new(Config::new("s", "1"), router);
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2026_07_28] {
        for shows in [true, false] {
            let builder = Client::builder().versions([version]);
            let builder = if shows { builder.show_apps() } else { builder };
            let client = builder.in_memory(&server).connect().await.unwrap();
            let tool = client.list_tools(None).await.unwrap().tools.remove(0);
            let uri = tool.read_ui().unwrap().resource_uri.unwrap();
            let app = client.read_app(&uri).await.unwrap();
            assert_eq!((app.html.as_str(), app.ui), (routed::APP_HTML, routed::app_ui()));
            assert_eq!(client.call_tool("time", ()).await.unwrap().all_text(), format!("12:00, shown: {shows}"));
            // It is no page, not the one that was asked for, and not at a URI of a page.
            for uri in ["ui://clock/other", "ui://clock/swapped", "https://clock/view"] {
                assert!(matches!(client.read_app(uri).await, Err(Error::NotAnApp)), "{uri}");
            }
            client.close().await;
        }
    }
    for wrong in [Resource::app("https://clock/view", "clock"), Resource::new("ui://clock/view", "clock")] {
        let server = Server::new(Config::new("s", "1"), Router::new().app(&wrong, "", &routed::app_ui()));
        let error = Client::builder().in_memory(&server).connect().await.err().unwrap().to_string();
        assert!(error.contains(&wrong.uri) && error.contains("is no app"), "{error}");
    }
}
