//! What the functions of applications may return and fail with, and the state that they share.
#![cfg(feature = "schema")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcp_model::{
    ContentBlock, CreateMessageRequestParams, ImageContent, JsonObject, Prompt, Resource, ResourceTemplate,
    SamplingMessage, Tool,
};
use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{Config, InputRequired};
use mcp_proto::{ErrorObject, Json, Method, ProtocolVersion, code};
use mcp_tokio::{Client, Error, HandlerError, Incoming, NoArguments, Router, Server, TaskContext};

async fn connect(router: Router) -> Client {
    tests::deadline::set();
    let server = Server::new(Config::new("tests", "1"), router);
    Client::builder().in_memory(&server).connect().await.expect("a connection")
}

async fn call(client: &Client, tool: &str) -> String {
    Json::from(client.call_tool(tool, ()).await.expect("a result")).to_string()
}

fn text(text: &str) -> String {
    format!(r#""content":[{{"type":"text","text":"{text}"}}]"#)
}

#[tokio::test]
async fn a_tool_may_return_numbers_content_and_json() {
    let image = || ImageContent::from_bytes(&[1], "image/png");
    let client =
        connect(
            Router::new()
                .tool("number", "", |_: NoArguments, _| async { Ok(6) })
                .tool("truth", "", |_: NoArguments, _| async { Ok(true) })
                .tool("image", "", move |_: NoArguments, _| async move { Ok(image()) })
                .tool("blocks", "", move |_: NoArguments, _| async move {
                    Ok(vec![ContentBlock::from("a"), image().into()])
                })
                .tool("nothing", "", |_: NoArguments, _| async { Ok(None::<String>) })
                .tool("json", "", |_: NoArguments, _| async { Ok(Json::parse(r#"{"a":1.0}"#)?) }),
        )
        .await;
    let image = r#"{"type":"image","data":"AQ==","mimeType":"image/png"}"#;
    for (tool, expected) in [
        ("number", text("6")),
        ("truth", text("true")),
        ("image", format!(r#""content":[{image}]"#)),
        ("blocks", format!(r#""content":[{{"type":"text","text":"a"}},{image}]"#)),
        ("nothing", r#""content":[]"#.to_owned()),
        ("json", format!(r#"{},"structuredContent":{{"a":1.0}}"#, text(r#"{\"a\":1.0}"#))),
    ] {
        let result = call(&client, tool).await;
        assert!(result.contains(&expected), "{tool}: {result}");
    }
    client.close().await;
}

/// A function of an application that knows nothing of MCP.
fn look_up() -> anyhow::Result<u64> {
    let missing: Result<u64, _> = Err(io::Error::other("disk 7"));
    anyhow::Context::context(missing, "no such entry")
}

fn failing() -> Router {
    Router::new()
        .tool("anyhow", "", |_: NoArguments, _| async { Ok(look_up()?) })
        .tool("io", "", |_: NoArguments, _| async { Err::<(), _>(io::Error::other("disk 7").into()) })
        .tool("text", "", |_: NoArguments, _| async { Ok(None::<u64>.ok_or("division by zero")?) })
        .tool("error", "", |_: NoArguments, _| async { Err::<(), _>(ErrorObject::invalid_params("no").into()) })
        .task_tool("task", |tool| tool, |_: NoArguments, _| async { Ok(look_up()?) })
        .resource(&Resource::new("x:a", "a"), |_| async { Err::<String, _>(io::Error::other("disk 7").into()) })
}

#[tokio::test]
async fn the_client_receives_the_text_of_any_error_unless_errors_are_hidden() {
    const HIDDEN: &str = "the server has failed to do this; its log has the error";
    for (router, of_anyhow, of_io) in
        [(failing(), "no such entry: disk 7", "disk 7"), (failing().hide_errors(), HIDDEN, HIDDEN)]
    {
        let client = connect(router).await;
        for (tool, expected) in
            [("anyhow", of_anyhow), ("task", of_anyhow), ("io", of_io), ("text", "division by zero")]
        {
            let result = call(&client, tool).await;
            assert!(result.contains(&text(expected)) && result.contains(r#""isError":true"#), "{tool}: {result}");
        }
        let error = client.call_tool("error", ()).await.unwrap_err();
        assert!(matches!(&error, Error::Server(error) if error.code() == code::INVALID_PARAMS), "{error}");
        let error = client.read_resource("x:a").await.unwrap_err();
        assert!(matches!(&error, Error::Server(error) if error.message() == of_io), "{error}");
        client.close().await;
    }
}

#[derive(Default)]
struct Counter(AtomicU64);

#[expect(clippy::unused_async, reason = "a router calls it")]
impl Counter {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    async fn tool(self: Arc<Self>, _: NoArguments, _: Incoming) -> Result<u64, HandlerError> {
        Ok(self.next())
    }

    async fn task(self: Arc<Self>, _: NoArguments, _: TaskContext) -> Result<u64, HandlerError> {
        Ok(self.next())
    }

    async fn resource(self: Arc<Self>, _: Incoming) -> Result<String, HandlerError> {
        Ok(self.next().to_string())
    }
}

#[tokio::test]
async fn functions_of_every_kind_share_a_state() {
    let counter = Arc::new(Counter::default());
    let router =
        Router::new().tool("plain", "", |_: NoArguments, _| async { Ok("a") }).with_state(counter.clone(), |router| {
            router
                .tool("tool", "", Counter::tool)
                .tool_with("with", |tool| tool, Counter::tool)
                .tool_with_schema(&Tool::without_arguments("schema"), |counter, _: JsonObject, _| async move {
                    Ok(counter.next())
                })
                .task_tool("task", |tool| tool, Counter::task)
                .task_tool_with_schema(&Tool::without_arguments("task-schema"), Counter::task)
                .prompt("prompt", "", |counter, _: NoArguments, _| async move { Ok(counter.next().to_string()) })
                .prompt_with_arguments(&Prompt::new("bare"), |counter, _: JsonObject, _| async move {
                    Ok(counter.next().to_string())
                })
                .resource(&Resource::new("x:a", "a"), Counter::resource)
                .resource_template(&ResourceTemplate::new("y:{name}", "b"), |counter, _: JsonObject, _| async move {
                    Ok(counter.next().to_string())
                })
                .complete_prompt("prompt", "p", |counter, _, _| async move { Ok(vec![counter.next().to_string()]) })
                .complete_template(
                    "y:{name}",
                    "name",
                    |counter, _, _| async move { Ok(vec![counter.next().to_string()]) },
                )
        });
    let client = connect(router.tool("after", "", |_: NoArguments, _| async { Ok("b") })).await;
    assert!(call(&client, "plain").await.contains(&text("a")) && call(&client, "after").await.contains(&text("b")));
    for (tool, count) in [("tool", 1), ("with", 2), ("schema", 3), ("task", 4), ("task-schema", 5)] {
        assert!(call(&client, tool).await.contains(&text(&count.to_string())), "{tool}");
    }
    for (method, params, count) in [
        ("prompts/get", r#"{"name":"prompt"}"#, 6),
        ("prompts/get", r#"{"name":"bare"}"#, 7),
        ("resources/read", r#"{"uri":"x:a"}"#, 8),
        ("resources/read", r#"{"uri":"y:a"}"#, 9),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"p","value":""}}"#,
            10,
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/resource","uri":"y:{name}"},"argument":{"name":"name","value":""}}"#,
            11,
        ),
    ] {
        let result = client.request(method, Some(Json::parse(params).unwrap())).await.unwrap().to_string();
        assert!(result.contains(&format!(r#""{count}""#)), "{method} {params}: {result}");
    }
    client.close().await;
    assert_eq!(counter.next(), 12);
}

/// The error that a server receives of a client whose function for samples fails with this.
async fn error_of_client(fail: impl Fn() -> HandlerError + Send + Sync + 'static) -> (i64, String) {
    tests::deadline::set();
    let router = Router::new().fallback(async |incoming: Incoming| {
        let params = CreateMessageRequestParams::new([SamplingMessage::user("?")], 5);
        match incoming.ask(Call::new(Method::SAMPLING_CREATE_MESSAGE).params(params)).await {
            Ok(Outcome::Error(error)) => Err(error),
            other => panic!("{other:?}"),
        }
    });
    let server = Server::new(Config::new("tests", "1"), router);
    let builder = Client::builder()
        .versions([ProtocolVersion::LATEST_LEGACY])
        .on_sample(move |_| std::future::ready(Err(fail())));
    let client = builder.in_memory(&server).connect().await.expect("a connection");
    let error = client.request("example/ask", None).await.unwrap_err();
    client.close().await;
    let Error::Server(error) = error else { panic!("{error}") };
    (error.code(), error.message())
}

#[tokio::test]
async fn a_server_receives_what_a_client_has_written_for_it_and_no_other_text() {
    let refused = || ErrorObject::new(-1, "the user has refused");
    for (found, code, text) in [
        (error_of_client(|| "no model".into()).await, code::INTERNAL_ERROR, "no model"),
        (error_of_client(|| HandlerError::new("no model")).await, code::INTERNAL_ERROR, "no model"),
        (error_of_client(move || refused().into()).await, -1, "the user has refused"),
        (error_of_client(|| io::Error::other("key 7").into()).await, code::INTERNAL_ERROR, "internal error"),
        (error_of_client(|| look_up().unwrap_err().into()).await, code::INTERNAL_ERROR, "internal error"),
        (error_of_client(|| InputRequired::new().into()).await, code::INTERNAL_ERROR, "internal error"),
    ] {
        assert_eq!(found, (code, text.to_owned()));
    }
}

#[tokio::test]
async fn a_handler_reads_who_the_client_is() {
    let router = Router::new().tool("who", "", |_: NoArguments, incoming: Incoming| async move {
        let raw = incoming.context().client_info.clone().unwrap_or(Json::empty_object());
        let roots = incoming.client_capabilities().roots.is_some();
        let name = incoming.client_info().map(|client| client.name).unwrap_or_default();
        Ok(format!("{name} {roots} {}", raw.is_object()))
    });
    tests::deadline::set();
    let server = Server::new(Config::new("tests", "1"), router);
    for version in [ProtocolVersion::LATEST, ProtocolVersion::LATEST_LEGACY] {
        let builder = Client::builder().versions([version]).name("app", "7").roots([]);
        let client = builder.in_memory(&server).connect().await.expect("a connection");
        assert!(call(&client, "who").await.contains(&text("app true true")));
        client.close().await;
    }
}
