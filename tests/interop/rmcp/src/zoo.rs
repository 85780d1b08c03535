//! What the client does at the server with every shape (`tests/src/zoo.rs`).

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, CustomRequest};
use rmcp::service::RunningService;
use serde_json::{Map, Value, json};

use super::{Editor, Failure};

/// The answer of a user to a form, as `tests::zoo::answer` gives it.
pub(crate) fn answer(form: &Value) -> Value {
    let first = |choices: &Value, name: &str| choices[0].get(name).unwrap_or(&choices[0]).clone();
    let entered = form["properties"].as_object().into_iter().flatten().map(|(name, field)| {
        let value = match field["type"].as_str().unwrap_or_default() {
            _ if field.get("oneOf").is_some() => first(&field["oneOf"], "const"),
            _ if field.get("enum").is_some() => first(&field["enum"], ""),
            "array" if field["items"].get("anyOf").is_some() => json!([first(&field["items"]["anyOf"], "const")]),
            "array" => json!([first(&field["items"]["enum"], "")]),
            "integer" => json!(7),
            "number" => json!(1.5),
            "boolean" => json!(true),
            _ if field["format"] == "email" => json!("ada@example.org"),
            _ => json!("text"),
        };
        (name.clone(), value)
    });
    json!({ "action": "accept", "content": entered.collect::<Map<_, _>>() })
}

/// Calls, gets and reads everything, and compares what is received with the samples of the server.
pub(crate) async fn visit(client: &RunningService<RoleClient, Editor>) -> Result<Value, Failure> {
    let names: Vec<_> = client.list_all_tools().await?.into_iter().map(|tool| tool.name).collect();
    let prompts = serde_json::to_value(client.list_all_prompts().await?)?;
    let templates = client.list_all_resource_templates().await?.len();
    let samples: Value = serde_json::from_str(text(&read(client, "zoo:///samples").await?)?)?;
    for sample in samples["tools"].as_array().into_iter().flatten() {
        let name = sample["name"].as_str().unwrap_or_default();
        same(&json!(names.iter().any(|listed| listed == name)), &json!(true), name)?;
        let params = json!({ "name": name, "arguments": sample["arguments"] });
        let called = serde_json::to_value(client.call_tool(serde_json::from_value(params)?).await?)?;
        let (found, expected) = match sample.get("error") {
            Some(error) => (json!([called["isError"], called["content"][0]["text"]]), json!([true, error])),
            None => (called["structuredContent"].clone(), sample["result"].clone()),
        };
        same(&found, &expected, name)?;
    }
    for sample in samples["forms"].as_array().into_iter().flatten() {
        let params = json!({ "name": sample["name"], "arguments": {} });
        let called = serde_json::to_value(client.call_tool(serde_json::from_value(params)?).await?)?;
        let text = called["content"][0]["text"].as_str().unwrap_or_default();
        same(&serde_json::from_str(text)?, &sample["result"], "a form")?;
    }
    let prompt = &samples["prompt"];
    let expected = prompt["arguments"].as_array().cloned().unwrap_or_default();
    let listed = prompts[0]["arguments"].as_array().into_iter().flatten().map(|argument| argument["name"].clone());
    same(&listed.collect(), &json!(expected), "the order of arguments")?;
    let values = expected.iter().zip(prompt["values"].as_array().into_iter().flatten());
    let arguments: Map<_, _> =
        values.map(|(name, value)| (name.as_str().unwrap_or_default().to_owned(), value.clone())).collect();
    let params = json!({ "name": prompt["name"], "arguments": arguments });
    let found = serde_json::to_value(client.get_prompt(serde_json::from_value(params)?).await?)?;
    same(&found["messages"][0]["content"]["text"], &prompt["text"], "the prompt")?;
    same(&json!(templates), &json!(1), "templates")?;
    let uri = samples["resource"]["uri"].as_str().unwrap_or_default();
    same(&read(client, uri).await?["text"], &samples["resource"]["text"], "the template")?;
    visit_app(client, &samples["app"]).await?;
    visit_extension(client, &samples["extension"]).await?;
    Ok(json!({}))
}

async fn visit_app(client: &RunningService<RoleClient, Editor>, app: &Value) -> Result<(), Failure> {
    let tools = serde_json::to_value(client.list_all_tools().await?)?;
    let linked = tools.as_array().into_iter().flatten().find(|tool| tool["name"] == app["tool"]).ok_or("no tool")?;
    same(&linked["_meta"]["ui"]["resourceUri"], &app["uri"], "the link to a page")?;
    let page = read(client, app["uri"].as_str().unwrap_or_default()).await?;
    same(&json!([page["mimeType"], page["text"]]), &json!([app["mimeType"], app["text"]]), "the page")
}

async fn visit_extension(client: &RunningService<RoleClient, Editor>, extension: &Value) -> Result<(), Failure> {
    let server = serde_json::to_value(client.peer_info())?;
    let id = extension["id"].as_str().unwrap_or_default();
    let is_declared = std::env::var("ZOO_EXTENSION_IS_DECLARED").is_ok_and(|declared| declared == "yes");
    let settings = if is_declared { &extension["settings"] } else { &Value::Null };
    same(&server["capabilities"]["extensions"][id], settings, "the settings of the extension")?;
    let method = extension["method"].as_str().unwrap_or_default();
    let request = CustomRequest::new(method, Some(extension["params"].clone()));
    let answered = serde_json::to_value(client.send_request(ClientRequest::CustomRequest(request)).await?)?;
    for (name, value) in extension["result"].as_object().into_iter().flatten() {
        same(&answered[name], value, "the method of the extension")?;
    }
    Ok(())
}

/// The contents of a resource.
async fn read(client: &RunningService<RoleClient, Editor>, uri: &str) -> Result<Value, Failure> {
    let params = serde_json::from_value(json!({ "uri": uri }))?;
    Ok(serde_json::to_value(client.read_resource(params).await?)?["contents"][0].take())
}

fn text(contents: &Value) -> Result<&str, Failure> {
    Ok(contents["text"].as_str().ok_or("no text")?)
}

fn same(found: &Value, expected: &Value, what: &str) -> Result<(), Failure> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found} instead of {expected}").into()) }
}
