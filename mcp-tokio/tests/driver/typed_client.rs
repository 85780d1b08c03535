//! Clients with typed parameters, results and handlers, at servers of both eras.

#![cfg(feature = "http-client")]

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;

use futures_core::Stream;
use mcp_application::Observation;
use mcp_model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ContentBlock, CreateMessageResult, ElicitResult,
    JsonObject, LoggingMessageNotification, PromptReference, RequestMethod, Role, Root, ToolsCapability,
};
use mcp_proto::client::Call;
use mcp_proto::{ErrorObject, Fault, Json, Method, Notification, ProtocolVersion};
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::waiting::LONG;
use mcp_tokio::{Client, Error, Handler};
use tests::typed_calls::{ANSWERS, TOOLS, VERSIONS, changing_server, server};
use tokio::sync::mpsc;
use tokio::time::timeout;

fn text(result: &CallToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

#[tokio::test]
async fn typed_calls_have_typed_results() {
    for version in VERSIONS {
        let client = Client::builder().versions([version]).http(&server().url()).unwrap().connect().await.unwrap();
        let first = client.list_tools(None).await.unwrap();
        assert_eq!((first.tools[0].name.as_str(), first.next_cursor.as_deref()), ("a", Some("")));
        assert_eq!(client.list_tools(Some("")).await.unwrap().tools[0].name, "b");
        assert!(client.list_prompts(None).await.unwrap().next_cursor.is_some());
        let place = BTreeMap::from([("city", "Paris")]);
        assert_eq!(text(&client.call_tool("t", &place).await.unwrap()), r#"{"city":"Paris"}"#);
        assert_eq!(text(&client.call_tool("t", ()).await.unwrap()), "none");
        assert!(matches!(client.call_tool("t", [1]).await, Err(Error::Arguments(_))));
        assert!(matches!(client.get_prompt("p", JsonObject::new().with("a", 1)).await, Err(Error::Arguments(_))));

        let missing = |result: Result<(), Error>| {
            let Err(Error::Result(error)) = result else { panic!("{result:?}") };
            error.path().to_owned()
        };
        // The server answers these with their parameters, which are no such results.
        assert_eq!(missing(client.read_resource("file:///a").await.map(drop)), "contents");
        assert_eq!(missing(client.get_prompt("p", place).await.map(drop)), "messages");
        assert_eq!(missing(client.complete(PromptReference::new("p"), "city", "Pa").await.map(drop)), "completion");

        let mut call = client.call_as::<CallToolRequest>(&CallToolRequestParams::new("t")).await.unwrap();
        let mut steps = Vec::new();
        while let Some(progress) = call.typed_progress().await {
            steps.push(progress.progress.as_f64());
        }
        assert_eq!((&steps[..], text(&call.wait().await.unwrap())), (&[1.0, 2.0][..], "none"));
        let call = Call::new(CallToolRequest::METHOD).params(CallToolRequestParams::new("t"));
        let result = client.call(call.clone()).await.unwrap().wait_as::<CallToolRequest>().await.unwrap();
        assert_eq!(text(&result), "none");
        let raw: Json = client.call(call).await.unwrap().wait().await.unwrap();
        assert!(raw.is_object());
        client.close().await;
    }
}

#[tokio::test]
async fn a_whole_list_is_read_page_by_page_and_pages_that_repeat_end_it() {
    for version in VERSIONS {
        let server = server();
        let client = Client::builder().versions([version]).http(&server.url()).unwrap().connect().await.unwrap();
        let tools = client.list_all_tools().collect().await.unwrap();
        assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), TOOLS);
        let mut resources = client.list_all_resources();
        let mut names = Vec::new();
        while let Some(resource) = poll_fn(|context| Pin::new(&mut resources).poll_next(context)).await {
            names.push(resource.unwrap().name);
        }
        assert_eq!(names, ["a", "b"]);
        let before = server.asked().len();
        let mut prompts = client.list_all_prompts();
        while let Some(Ok(prompt)) = prompts.next().await {
            assert_eq!(prompt.name, "p");
        }
        assert!(prompts.next().await.is_none(), "an error ends the list");
        assert!(server.asked().len() <= before + 4);
        let templates = client.list_resource_templates(None).await;
        assert!(templates.is_err() && server.asked().pop().unwrap().method == "resources/templates/list");
        assert!(matches!(client.list_all_prompts().collect().await, Err(Error::ListRepeats { .. })));
        assert!(matches!(client.list_all_resource_templates().collect().await, Err(Error::Result(_))));
        client.close().await;
    }
}

/// Receives what no function handles.
struct Rest(mpsc::UnboundedSender<String>);

impl Handler for Rest {
    async fn notified(&self, notification: Notification) {
        self.0.send(format!("rest {}", notification.method)).unwrap();
    }

    async fn requested(&self, method: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
        panic!("{method} has a function")
    }
}

#[tokio::test]
async fn functions_answer_the_requests_of_servers_of_both_eras() {
    for version in VERSIONS {
        let (sender, mut received) = mpsc::unbounded_channel();
        let levels = sender.clone();
        let client = Client::builder()
            .versions([version])
            .handler(Rest(sender))
            .on_elicit_form(|form| async move {
                assert_eq!(form.message, "m");
                Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada")))
            })
            .on_elicit_url(|params| async move {
                assert_eq!(params.url, "https://example.com");
                Ok(ElicitResult::decline())
            })
            .on_sample(|params| async move {
                assert_eq!(params.max_tokens.as_u64(), Some(5));
                Ok(CreateMessageResult::new(Role::Assistant, "Hi.", "m"))
            })
            .roots([Root::new("file:///a")])
            .on_notification::<LoggingMessageNotification, _>(move |message| {
                let levels = levels.clone();
                async move { levels.send(message.level.to_string()).unwrap() }
            })
            .http(&server().url())
            .unwrap()
            .connect()
            .await
            .unwrap();
        assert_eq!(text(&client.call_tool("ask", ()).await.unwrap()), ANSWERS);
        client.call_tool("t", ()).await.unwrap();
        let received = [received.recv().await.unwrap(), received.recv().await.unwrap()];
        assert_eq!(received, ["info", "rest notifications/message"]);
        client.close().await;
    }
}

struct Observing(mpsc::UnboundedSender<Observation>);

impl Handler for Observing {
    async fn observed(&self, observation: Observation) {
        self.0.send(observation).unwrap();
    }
}

#[tokio::test]
async fn a_result_that_is_partly_of_another_form_is_read_and_reported() {
    for version in VERSIONS {
        let (sender, mut observed) = mpsc::unbounded_channel();
        let builder = Client::builder().versions([version]).handler(Observing(sender));
        let client = builder.http(&server().url()).unwrap().connect().await.unwrap();
        let called = client.call_tool("odd", ()).await.unwrap();
        let [ContentBlock::ResourceLink(link)] = &called.content[..] else { panic!("{called:?}") };
        assert_eq!((link.name.as_str(), called.is_error), ("file:///a", None));
        let Observation::Faulted(fault) = timeout(LONG, observed.recv()).await.unwrap().unwrap() else {
            panic!("no fault")
        };
        let first = "content[0].name: missing".into();
        assert_eq!(fault, Fault::UnreadableParts { entries: 1, members: 2, first });
        let call = client.call_as::<CallToolRequest>(&CallToolRequestParams::new("odd")).await.unwrap();
        assert_eq!(call.wait().await.unwrap(), called);
        assert!(matches!(
            timeout(LONG, observed.recv()).await.unwrap().unwrap(),
            Observation::Faulted(Fault::UnreadableParts { .. })
        ));
        assert_eq!(client.call_tool_as_task("odd", ()).await.unwrap().wait().await.unwrap(), called);
        assert!(matches!(
            timeout(LONG, observed.recv()).await.unwrap().unwrap(),
            Observation::Faulted(Fault::UnreadableParts { .. })
        ));
    }
}

#[tokio::test]
async fn what_is_known_about_a_server_is_that_of_the_current_session() {
    let (sender, mut observed) = mpsc::unbounded_channel();
    let builder = Client::builder().versions(legacy_versions()).handler(Observing(sender));
    let client = builder.http(&changing_server().url()).unwrap().connect().await.unwrap();
    assert_eq!((client.version(), client.instructions().as_deref()), (ProtocolVersion::V2025_11_25, Some("first")));
    assert_eq!(client.server_info().unwrap().name, "s");
    assert_eq!(client.server_capabilities().unwrap().tools, Some(ToolsCapability::new()));
    client.request("lose", None).await.unwrap();
    while !matches!(observed.recv().await.unwrap(), Observation::Reconnected { .. }) {}
    assert_eq!(client.instructions().as_deref(), Some("later"));
    assert_eq!(client.initialize_result().first_member("instructions"), Some(Json::from("later")));
    client.close().await;
}
