//! The behaviour of `everything-client` in each scenario.

use std::error::Error;

use mcp_proto::client::Call;
use mcp_proto::{ErrorObject, Json, Method, code};
use mcp_tokio::{Builder, Client, Handler, HttpServer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

type Done = Result<(), Box<dyn Error>>;

/// Runs the client's part of a scenario of the suite.
///
/// # Errors
///
/// The scenario is unknown, or a request to the server failed.
pub async fn run(scenario: &str, builder: Builder<HttpServer>) -> Done {
    let capabilities = json!({ "elicitation": {}, "roots": {}, "sampling": {} });
    let builder = builder.capabilities(Json::from_serialize(&capabilities)?).handler(Person);
    let client = builder.connect().await?;
    let done = match scenario {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => {
            client.request("tools/list", None).await.map(drop).map_err(Into::into)
        }
        "tools_call" => call(&client, "add_numbers", &json!({ "a": 2, "b": 3 })).await,
        "elicitation-sep1034-client-defaults" => call(&client, "test_client_elicitation_defaults", &json!({})).await,
        "sse-retry" => call(&client, "test_reconnection", &json!({})).await,
        "json-schema-2020-12-preservation" => send_schema_back(&client).await,
        "http-standard-headers" => read_everything(&client).await,
        "http-custom-headers" => call_as_configured(&client).await,
        "http-invalid-tool-headers" => call_every_tool(&client).await,
        "sep-2322-client-request-state" => answer_questions(&client).await,
        unknown => Err(format!("no such scenario: {unknown}").into()),
    };
    client.close().await;
    done
}

#[derive(Deserialize)]
struct Tools {
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(rename = "inputSchema")]
    input_schema: Box<RawValue>,
}

#[derive(Serialize)]
struct Params<'p, A: ?Sized> {
    name: &'p str,
    arguments: &'p A,
}

async fn tools(client: &Client) -> Result<Vec<Tool>, Box<dyn Error>> {
    Ok(client.request("tools/list", None).await?.read::<Tools>()?.tools)
}

/// Lists the tools, and calls the one with this name.
async fn call(client: &Client, name: &str, arguments: &(impl Serialize + ?Sized)) -> Done {
    if !tools(client).await?.iter().any(|tool| tool.name == name) {
        return Err(format!("the server has no tool {name}").into());
    }
    let call = Call::new("tools/call").params(Json::from_serialize(&Params { name, arguments })?);
    client.call(call).await?.wait().await?;
    Ok(())
}

/// Calls every tool, and reads every resource and every prompt that the server lists.
async fn read_everything(client: &Client) -> Done {
    call_every_tool(client).await?;
    for uri in listed(client, "resources/list", "resources", "uri").await? {
        client.request("resources/read", Some(Json::from_serialize(&json!({ "uri": uri }))?)).await?;
    }
    for name in listed(client, "prompts/list", "prompts", "name").await? {
        client.request("prompts/get", Some(Json::from_serialize(&json!({ "name": name }))?)).await?;
    }
    Ok(())
}

async fn call_every_tool(client: &Client) -> Done {
    for tool in tools(client).await? {
        call(client, &tool.name, &json!({})).await?;
    }
    Ok(())
}

/// The text of one member of every entry of a list.
async fn listed(client: &Client, method: &str, list: &str, member: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let result: Map<String, Value> = client.request(method, None).await?.read()?;
    let entries = result.get(list).and_then(Value::as_array).ok_or("the result has no list")?;
    let text = |entry: &Value| entry.get(member).and_then(Value::as_str).map(str::to_owned);
    Ok(entries.iter().filter_map(text).collect())
}

/// Makes the calls that the suite names in the environment.
async fn call_as_configured(client: &Client) -> Done {
    #[derive(Deserialize)]
    struct Context {
        #[serde(rename = "toolCalls")]
        tool_calls: Vec<ToolCall>,
    }
    #[derive(Deserialize)]
    struct ToolCall {
        name: String,
        arguments: Box<RawValue>,
    }
    let context: Context = serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT")?)?;
    for ToolCall { name, arguments } in context.tool_calls {
        call(client, &name, &arguments).await?;
    }
    Ok(())
}

/// Calls tools that require input before they answer, and at the same time one that does not.
async fn answer_questions(client: &Client) -> Done {
    let none = json!({});
    let (asked, unrelated) =
        tokio::join!(call(client, "test_mrtr_echo_state", &none), call(client, "test_mrtr_unrelated", &none));
    asked.and(unrelated)?;
    call(client, "test_mrtr_no_state", &none).await?;
    call(client, "test_mrtr_no_result_type", &none).await
}

/// Sends the schema of a tool back to the server, unchanged, with all its keywords.
async fn send_schema_back(client: &Client) -> Done {
    #[derive(Serialize)]
    struct Arguments<'a> {
        schema: &'a RawValue,
    }
    let tools = tools(client).await?;
    let tool = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool").ok_or("there is no such tool")?;
    call(client, "json_schema_echo", &Arguments { schema: &tool.input_schema }).await
}

/// A handler that accepts every elicitation with the default values of its form.
struct Person;

impl Handler for Person {
    async fn requested(&self, method: Method, params: Option<Json>) -> Result<Json, ErrorObject> {
        if method.as_str() != "elicitation/create" {
            return Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found"));
        }
        let answer = params.as_ref().ok_or("there are no parameters".to_owned()).and_then(|params| {
            let form: Form = params.read().map_err(|error| error.to_string())?;
            Json::from_serialize(&form.accept()).map_err(|error| error.to_string())
        });
        answer.map_err(|reason| ErrorObject::new(code::INVALID_PARAMS, &reason))
    }
}

#[derive(Deserialize)]
struct Form {
    #[serde(rename = "requestedSchema")]
    schema: Schema,
}

#[derive(Deserialize)]
struct Schema {
    properties: Map<String, Value>,
}

impl Form {
    fn accept(&self) -> Value {
        let proposed = |(name, field): (&String, &Value)| Some((name.clone(), field.get("default")?.clone()));
        let content: Map<_, _> = self.schema.properties.iter().filter_map(proposed).collect();
        json!({ "action": "accept", "content": content })
    }
}
