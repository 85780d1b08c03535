//! The examples, run against each other.

use mcp_model::{
    CallToolRequest, CallToolRequestParams, ElicitResult, JsonObject, ReadResourceRequest, ReadResourceRequestParams,
    TextResourceContents,
};
use mcp_proto::client::Call;
use mcp_proto::{ErrorObject, Json, Method, ProtocolVersion};
use mcp_testkit::http_exchange::TestRequest;
use mcp_tokio::{Client, Handler};
use tests::examples::{Serving, check_tool_client, example};

#[test]
fn the_client_calls_the_tool_of_either_server() {
    for server in ["tokio_server", "axum_server"] {
        let output = Serving::start(server).called_by("tokio_client");
        assert_eq!(output, "revision 2026-07-28\nhello: Says hello.\nHello!\n", "{server}");
    }
}

/// Two clients have a process of the counter each, which ends with their session.
#[tokio::test]
async fn the_gateway_serves_each_client_by_a_process_of_its_own() {
    let counter = example("counter").get_program().to_owned();
    let serving = Serving::start_with("gateway", &[counter.to_str().unwrap()]);
    let url = format!("http://{}/mcp", serving.remote().address());
    let sessions = || serving.remote().answer(&TestRequest::new("GET", "").at("/sessions")).text();
    let connect = || Client::builder().versions([ProtocolVersion::LATEST_LEGACY]).http(&url).unwrap().connect();
    let clients = [connect().await.unwrap(), connect().await.unwrap()];
    assert_eq!(sessions(), "2");
    for (client, calls) in clients.iter().zip([1, 3]) {
        for count in 1..=calls {
            assert_eq!(call(client, "increment", "{}").await, count.to_string());
        }
    }
    for client in clients {
        client.close().await;
    }
    assert_eq!(sessions(), "0");
}

/// Calls a tool of an example, and returns the text of its result.
async fn call(client: &Client, tool: &str, arguments: &str) -> String {
    let arguments = JsonObject::try_from(Json::parse(arguments.to_owned()).expect("JSON")).expect("an object");
    let params = CallToolRequestParams::new(tool).arguments(arguments);
    let result = client.request_as::<CallToolRequest>(&params).await.expect("a result");
    result.content.iter().filter_map(|content| content.as_text()).collect()
}

struct User;

impl Handler for User {
    async fn requested(&self, _: Method, _: Option<Json>) -> Result<Json, ErrorObject> {
        Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada")).into())
    }
}

#[tokio::test]
async fn the_server_of_tools_serves_those_who_have_its_token() {
    let serving = Serving::start("tool_server");
    let url = format!("http://{}/mcp", serving.remote().address());
    assert!(Client::builder().http(&url).unwrap().connect().await.is_err());
    for version in [ProtocolVersion::LATEST_LEGACY, ProtocolVersion::LATEST] {
        let capabilities = Json::parse(r#"{"elicitation":{}}"#).unwrap();
        let builder = Client::builder().versions([version]).capabilities(capabilities).handler(User);
        let client = builder.http(&url).unwrap().bearer("the-token-of-ada").unwrap().connect().await.unwrap();
        assert_eq!(call(&client, "add", r#"{"a":2,"b":3}"#).await, r#"{"sum":5}"#);
        assert_eq!(call(&client, "add", r#"{"a":9223372036854775807,"b":1}"#).await, "the sum is too large");
        assert_eq!(call(&client, "greet", "{}").await, "Hello, Ada!");
        let counting =
            Call::new(Method::TOOLS_CALL).params(Json::parse(r#"{"name":"count","arguments":{"to":2}}"#).unwrap());
        let mut counting = client.call(counting.with_progress()).await.unwrap();
        let mut steps = Vec::new();
        while let Some(progress) = counting.progress().await {
            steps.push(progress.first_member("progress").unwrap().to_text().into_owned());
        }
        assert_eq!(steps, ["1.0", "2.0"]);
        let read = ReadResourceRequestParams::new("note:///other");
        let contents = client.request_as::<ReadResourceRequest>(&read).await.unwrap().contents;
        assert_eq!(contents, [TextResourceContents::new("note:///other", "The note other.").into()]);
        client.close().await;
    }
}

#[test]
fn the_client_of_tools_uses_everything_that_their_server_offers() {
    check_tool_client("tool_client", "tool_server");
}

#[tokio::test]
async fn the_tools_of_the_counter_share_its_state() {
    let client = Client::builder().child(example("counter").into()).connect().await.unwrap();
    for (tool, arguments, expected) in [
        ("increment", "{}", "1"),
        ("increment", "{}", "2"),
        ("decrement", "{}", "1"),
        ("get_value", "{}", "1"),
        ("sum", r#"{"a":1,"b":2}"#, "3"),
        ("echo", r#"{"message":"x"}"#, "x"),
        ("echo", "{}", "invalid arguments: missing field `message`"),
    ] {
        assert_eq!(call(&client, tool, arguments).await, expected, "{tool}");
    }
    client.close().await;
}

#[test]
#[cfg(unix)]
fn a_server_over_stdio_waits_for_streams_that_are_not_ready() {
    tests::examples::check_non_blocking_streams("tool_server");
}
