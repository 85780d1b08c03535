//! The examples, run against each other.

use std::fs;
use std::path::Path;

use mcp_model::{
    CallToolRequest, CallToolRequestParams, ElicitResult, JsonObject, ReadResourceRequest, ReadResourceRequestParams,
    TextResourceContents,
};
use mcp_proto::client::Call;
use mcp_proto::{ErrorObject, Json, Method, ProtocolVersion};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_tokio::{Client, Handler};
use tests::deadline::output_of;
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

/// The example of the package of `mcp-proxy`, for the same programs.
#[test]
fn a_gateway_on_tokio_reads_the_file_of_the_package() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/deb/servers.json");
    let mut program = example("configured_gateway");
    program.envs([("ADA_TOKEN", "a"), ("BOB_TOKEN", "b"), ("ISSUES_TOKEN", "i"), ("SEARCH_KEY", "s")]);
    let serving = Serving::start_command(program, &[file]);
    for name in ["time", "issues", "search"] {
        let request = || TestRequest::post(initialize("2025-11-25")).at(&format!("/{name}/mcp"));
        assert_eq!(serving.remote().answer(&request()).code(), 401, "{name}");
        assert_eq!(serving.remote().answer(&request().with("Authorization", "Bearer c")).code(), 401, "{name}");
    }
    assert_eq!(serving.remote().answer(&TestRequest::new("GET", "").at("/metrics")).text().lines().count(), 6);
}

#[tokio::test]
async fn a_gateway_on_tokio_does_what_a_configuration_file_states() {
    let counter = example("counter").get_program().to_owned();
    let counter = Json::from(counter.to_str().unwrap()).to_text().into_owned();
    let remote = Serving::start("tool_server");
    let text = format!(
        r#"{{ // A comment
            "serve": {{ "tokens": {{ "ada": "${{ADA_TOKEN}}" }}, "denyTool": ["greet"] }},
            "mcpServers": {{
                "own": {{ "command": {counter} }},
                "common": {{ "command": {counter}, "share": "all" }},
                "remote": {{
                    "url": "http://{}/mcp", "headers": {{ "Authorization": "Bearer the-token-of-${{ADA_TOKEN}}" }},
                    "tools": {{ "allow": ["add", "greet"] }},
                }},
            }},
        }}"#,
        remote.remote().address(),
    );
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("configured_gateway.json");
    fs::write(&file, text).unwrap();
    let mut program = example("configured_gateway");
    program.env("ADA_TOKEN", "ada");
    let serving = Serving::start_command(program, &[file.to_str().unwrap()]);
    let connect = |name: &str| {
        let url = format!("http://{}/{name}/mcp", serving.remote().address());
        let builder = Client::builder().versions([ProtocolVersion::LATEST_LEGACY]).http(&url).unwrap();
        async { builder.bearer("ada").unwrap().connect().await.unwrap() }
    };
    for (name, counts) in [("own", ["1", "1"]), ("common", ["1", "2"])] {
        for count in counts {
            let client = connect(name).await;
            assert_eq!(call(&client, "increment", "{}").await, count, "{name}");
            client.close().await;
        }
    }
    let client = connect("remote").await;
    assert_eq!(call(&client, "add", r#"{"a":2,"b":3}"#).await, r#"{"sum":5}"#);
    let listed = client.list_tools(None).await.unwrap().tools;
    assert_eq!(listed.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["add"]);
    client.close().await;
}

#[test]
fn a_gateway_on_tokio_refuses_a_file_with_a_field_that_it_does_not_know() {
    for (text, expected) in [
        (r#"{"mcpServers":{"a":{"command":"x","prefix":false}}}"#, "unknown field `prefix`"),
        (r#"{"serve":{"listen":"x"},"mcpServers":{}}"#, "unknown field `listen`"),
        (r#"{"mcpServers":{"a":{"command":"x","url":"y"}}}"#, "mcpServers.a must have a command or a url"),
        (r#"{"mcpServers":{"a":{"command":"${MCP_NO_SUCH_VARIABLE}"}}}"#, "mcpServers.a: MCP_NO_SUCH_VARIABLE"),
        (r#"{"serve":{"tokens":{"ada":"a","bob":"a"}},"mcpServers":{}}"#, "serve.tokens"),
        (r#"{"serve":{"tokens":{"ada":""}},"mcpServers":{}}"#, "serve.tokens"),
    ] {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("refused_gateway.json");
        fs::write(&file, text).unwrap();
        let output = output_of(example("configured_gateway").args(["127.0.0.1:1".as_ref(), file.as_os_str()]));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(expected), "{text}: {message}");
    }
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
