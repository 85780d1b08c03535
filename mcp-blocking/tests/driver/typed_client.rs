//! Clients with typed parameters, results and handlers, at servers of both eras.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use mcp_blocking::{Client, Error, Handler, Observation};
use mcp_model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ContentBlock, CreateMessageResult, ElicitResult,
    JsonObject, LoggingMessageNotification, PromptReference, RequestMethod, Role, Root, ToolsCapability,
};
use mcp_proto::client::Call;
use mcp_proto::{ErrorObject, Fault, Json, Method, Notification, ProtocolVersion};
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::loopback_server::{LoopbackServer, mcp_server};
use mcp_testkit::messages::{NOTIFICATION, event, request, result};
use mcp_testkit::waiting::LONG;
use tests::typed_calls::{ANSWERS, TOOLS, VERSIONS, changing_server, server};

fn text(result: &CallToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

#[test]
fn typed_calls_have_typed_results() {
    for version in VERSIONS {
        let client = Client::builder().versions([version]).http(&server().url()).unwrap().connect().unwrap();
        let first = client.list_tools(None).unwrap();
        assert_eq!((first.tools[0].name.as_str(), first.next_cursor.as_deref()), ("a", Some("")));
        assert_eq!(client.list_tools(Some("")).unwrap().tools[0].name, "b");
        assert!(client.list_prompts(None).unwrap().next_cursor.is_some());
        let place = BTreeMap::from([("city", "Paris")]);
        assert_eq!(text(&client.call_tool("t", &place).unwrap()), r#"{"city":"Paris"}"#);
        assert_eq!(text(&client.call_tool("t", ()).unwrap()), "none");
        assert!(matches!(client.call_tool("t", [1]), Err(Error::Arguments(_))));
        assert!(matches!(client.get_prompt("p", JsonObject::new().with("a", 1)), Err(Error::Arguments(_))));

        let missing = |result: Result<(), Error>| {
            let Err(Error::Result(error)) = result else { panic!("{result:?}") };
            error.path().to_owned()
        };
        // The server answers these with their parameters, which are no such results.
        assert_eq!(missing(client.read_resource("file:///a").map(drop)), "contents");
        assert_eq!(missing(client.get_prompt("p", place).map(drop)), "messages");
        assert_eq!(missing(client.complete(PromptReference::new("p"), "city", "Pa").map(drop)), "completion");

        let mut call = client.call_as::<CallToolRequest>(&CallToolRequestParams::new("t")).unwrap();
        let mut steps = Vec::new();
        while let Some(progress) = call.typed_progress() {
            steps.push(progress.progress.as_f64());
        }
        assert_eq!((&steps[..], text(&call.wait().unwrap())), (&[1.0, 2.0][..], "none"));
        let call = Call::new(CallToolRequest::METHOD).params(CallToolRequestParams::new("t"));
        let result = client.call(call.clone()).unwrap().wait_as::<CallToolRequest>().unwrap();
        assert_eq!(text(&result), "none");
        let raw: Json = client.call(call).unwrap().wait().unwrap();
        assert!(raw.is_object());
    }
}

#[test]
fn a_whole_list_is_read_page_by_page_and_pages_that_repeat_end_it() {
    for version in VERSIONS {
        let server = server();
        let client = Client::builder().versions([version]).http(&server.url()).unwrap().connect().unwrap();
        let tools: Vec<_> = client.list_all_tools().map(|tool| tool.unwrap().name).collect();
        assert_eq!(tools, TOOLS);
        let resources: Vec<_> = client.list_all_resources().map(|resource| resource.unwrap().name).collect();
        assert_eq!(resources, ["a", "b"]);
        let before = server.asked().len();
        let mut prompts = client.list_all_prompts();
        assert!(matches!(prompts.find(Result::is_err), Some(Err(Error::ListRepeats { .. }))));
        assert!(prompts.next().is_none(), "an error ends the list");
        assert!(server.asked().len() <= before + 4);
        let templates = client.list_resource_templates(None);
        assert!(templates.is_err() && server.asked().pop().unwrap().method == "resources/templates/list");
        assert!(matches!(client.list_all_resource_templates().next(), Some(Err(Error::Result(_)))));
    }
}

/// Receives what no function handles.
struct Rest(Sender<String>);

impl Handler for Rest {
    fn notified(&self, notification: Notification) {
        self.0.send(format!("rest {}", notification.method)).unwrap();
    }

    fn requested(&self, method: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
        panic!("{method} has a function")
    }
}

#[test]
fn functions_answer_the_requests_of_servers_of_both_eras() {
    for version in VERSIONS {
        let (sender, received) = channel();
        let levels = Mutex::new(sender.clone());
        let client = Client::builder()
            .versions([version])
            .handler(Rest(sender))
            .on_elicit_form(|form| {
                assert_eq!(form.message, "m");
                Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada")))
            })
            .on_elicit_url(|params| {
                assert_eq!(params.url, "https://example.com");
                Ok(ElicitResult::decline())
            })
            .on_sample(|params| {
                assert_eq!(params.max_tokens.as_u64(), Some(5));
                Ok(CreateMessageResult::new(Role::Assistant, "Hi.", "m"))
            })
            .roots([Root::new("file:///a")])
            .on_notification::<LoggingMessageNotification>(move |message| {
                levels.lock().unwrap().send(message.level.to_string()).unwrap();
            })
            .http(&server().url())
            .unwrap()
            .connect()
            .unwrap();
        assert_eq!(text(&client.call_tool("ask", ()).unwrap()), ANSWERS);
        client.call_tool("t", ()).unwrap();
        let received = [received.recv().unwrap(), received.recv().unwrap()];
        assert_eq!(received, ["info", "rest notifications/message"]);
    }
}

/// Answers a request only when a later notification was handled.
struct Waits {
    notified: Mutex<Sender<()>>,
    was_notified: Mutex<Receiver<()>>,
}

impl Handler for Waits {
    fn notified(&self, _: Notification) {
        self.notified.lock().unwrap().send(()).unwrap();
    }

    fn requested(&self, _: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
        self.was_notified.lock().unwrap().recv_timeout(LONG).unwrap();
        Ok(Json::from("answered"))
    }
}

#[test]
fn a_request_that_waits_delays_no_notification() {
    let server = LoopbackServer::start(mcp_server(|asked, connection| {
        connection.begin_events()?;
        connection.chunk(event(&request("\"q\"", "roots/list", "{}")))?;
        connection.chunk(event(NOTIFICATION))?;
        connection.hang()?;
        connection.chunk(event(&result(&asked.id, "{}")))
    }));
    let (sender, receiver) = channel();
    let handler = Waits { notified: Mutex::new(sender), was_notified: Mutex::new(receiver) };
    let capabilities = Json::parse(r#"{"roots":{}}"#).unwrap();
    let builder = Client::builder().versions(legacy_versions()).capabilities(capabilities).handler(handler);
    let client = builder.http(&server.url()).unwrap().connect().unwrap();
    let _call = client.call(Call::new("tools/call")).unwrap();
    let answer = result("\"q\"", "\"answered\"");
    let is_answer =
        |server: &LoopbackServer| server.requests().iter().any(|it| it.body == answer.as_bytes()).then_some(());
    server.wait(is_answer).expect("an answer");
}

struct Observing(Sender<Observation>);

impl Handler for Observing {
    fn observed(&self, observation: Observation) {
        let _ = self.0.send(observation);
    }
}

#[test]
fn a_result_that_is_partly_of_another_form_is_read_and_reported() {
    for version in VERSIONS {
        let (sender, observed) = channel();
        let builder = Client::builder().versions([version]).handler(Observing(sender));
        let client = builder.http(&server().url()).unwrap().connect().unwrap();
        let called = client.call_tool("odd", ()).unwrap();
        let [ContentBlock::ResourceLink(link)] = &called.content[..] else { panic!("{called:?}") };
        assert_eq!((link.name.as_str(), called.is_error), ("file:///a", None));
        let Observation::Faulted(fault) = observed.recv_timeout(LONG).unwrap() else { panic!("no fault") };
        let first = "content[0].name: missing".into();
        assert_eq!(fault, Fault::UnreadableParts { entries: 1, members: 2, first });
        let call = client.call_as::<CallToolRequest>(&CallToolRequestParams::new("odd")).unwrap();
        assert_eq!(call.wait().unwrap(), called);
        assert!(matches!(observed.recv_timeout(LONG).unwrap(), Observation::Faulted(Fault::UnreadableParts { .. })));
        assert_eq!(client.call_tool_as_task("odd", ()).unwrap().wait().unwrap(), called);
        assert!(matches!(observed.recv_timeout(LONG).unwrap(), Observation::Faulted(Fault::UnreadableParts { .. })));
    }
}

#[test]
fn what_is_known_about_a_server_is_that_of_the_current_session() {
    let (sender, observed) = channel();
    let builder = Client::builder().versions(legacy_versions()).handler(Observing(sender));
    let client = builder.http(&changing_server().url()).unwrap().connect().unwrap();
    assert_eq!((client.version(), client.instructions().as_deref()), (ProtocolVersion::V2025_11_25, Some("first")));
    assert_eq!(client.server_info().unwrap().name, "s");
    assert_eq!(client.server_capabilities().unwrap().tools, Some(ToolsCapability::new()));
    client.request("lose", None).unwrap();
    while !matches!(observed.recv().unwrap(), Observation::Reconnected { .. }) {}
    assert_eq!(client.instructions().as_deref(), Some("later"));
    assert_eq!(client.initialize_result().first_member("instructions"), Some(Json::from("later")));
}
