//! Prompts.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::caller::Caller;
use super::samples::PNG;
use super::{Answer, invalid, params, resources};

#[derive(Deserialize)]
struct Get {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl Get {
    fn argument(&self, name: &str) -> Result<&str, mcp_proto::ErrorObject> {
        let value = self.arguments.get(name).and_then(Value::as_str);
        value.ok_or_else(|| invalid(&format!("the prompt needs a text as its argument {name}")))
    }
}

pub(crate) fn list() -> Value {
    json!({ "prompts": [
        { "name": "test_simple_prompt", "description": "A prompt without arguments" },
        { "name": "test_prompt_with_arguments", "description": "A prompt with arguments", "arguments": [
            { "name": "arg1", "description": "The first argument", "required": true },
            { "name": "arg2", "description": "The second argument", "required": true },
        ] },
        { "name": "test_prompt_with_embedded_resource", "description": "A prompt with a resource", "arguments": [
            { "name": "resourceUri", "description": "The URI of the resource", "required": true },
        ] },
        { "name": "test_prompt_with_image", "description": "A prompt with a picture" },
    ] })
}

pub(crate) fn get(caller: &Caller<'_>) -> Answer {
    let get: Get = params(caller)?;
    let contents = match get.name.as_str() {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => vec![with_arguments(get.argument("arg1")?, get.argument("arg2")?)],
        "test_prompt_with_embedded_resource" => with_resource(get.argument("resourceUri")?),
        "test_prompt_with_image" => with_image(),
        unknown => return Err(invalid(&format!("unknown prompt: {unknown}"))),
    };
    let said = contents.into_iter().map(|content| json!({ "role": "user", "content": content }));
    Ok(json!({ "messages": said.collect::<Vec<_>>() }))
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn with_arguments(first: &str, second: &str) -> Value {
    text(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))
}

fn with_resource(uri: &str) -> Vec<Value> {
    let resource = resources::text(uri, "Embedded resource content for testing.");
    vec![json!({ "type": "resource", "resource": resource }), text("Please process the embedded resource above.")]
}

fn with_image() -> Vec<Value> {
    vec![json!({ "type": "image", "data": PNG, "mimeType": "image/png" }), text("Please analyze the image above.")]
}
