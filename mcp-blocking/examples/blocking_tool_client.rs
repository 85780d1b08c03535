//! Uses everything that the example `blocking_tool_server` offers, over stdio or HTTP, with any revision:
//! `cargo run -p mcp-blocking --example blocking_tool_client -- http://127.0.0.1:3000/mcp the-token-of-ada`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::process::Command;

use mcp_blocking::Client;
use mcp_blocking::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ElicitResult, JsonObject, PromptReference,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Deserialize)]
struct Sum {
    sum: i64,
}

fn text(result: &CallToolResult) -> &str {
    result.content.iter().find_map(|content| content.as_text()).unwrap_or_default()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let builder = Client::builder().name("my-app", "1.0.0").on_elicit_form(|form| {
        println!("the server asks: {}", form.message);
        Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada")))
    });
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let client = match &*arguments {
        [url, token] => builder.http(url)?.bearer(token)?.connect()?,
        [program] => builder.child(Command::new(program)).connect()?,
        _ => return Err("usage: URL TOKEN, or PROGRAM".into()),
    };
    println!("revision {}", client.version());
    for tool in client.list_all_tools() {
        let tool = tool?;
        println!("tool {}: {}", tool.name, tool.description.unwrap_or_default());
    }

    let added = client.call_tool("add", Add { a: 2, b: 3 })?;
    let Sum { sum } = added.structured_content.ok_or("the sum has no structure")?.read()?;
    println!("the sum is {sum}");
    println!("{}", text(&client.call_tool("greet", ())?));

    let params = CallToolRequestParams::new("count").arguments(JsonObject::new().with("to", 3));
    let mut counting = client.call_as::<CallToolRequest>(&params)?;
    while let Some(progress) = counting.typed_progress() {
        let progress = progress.progress.as_f64();
        println!("progress {progress}");
        if progress >= 2.0 {
            counting.cancel();
        }
    }
    println!("the count is {}", if counting.wait().is_err() { "cancelled" } else { "complete" });

    for resource in client.list_all_resources() {
        let resource = resource?;
        let read = client.read_resource(&resource.uri)?;
        println!(
            "resource {}: {}",
            resource.name,
            read.contents.iter().find_map(|content| content.as_text()).unwrap_or_default()
        );
    }
    let completed = client.complete(PromptReference::new("review"), "name", "w")?;
    let name = completed.completion.values.into_iter().next().unwrap_or_default();
    let prompt = client.get_prompt("review", BTreeMap::from([("name", name)]))?;
    for message in prompt.messages {
        println!("prompt: {}", message.content.as_text().unwrap_or_default());
    }
    client.close();
    Ok(())
}
