//! A server over stdio that answers each request with the number of its process and the parameters. Before the answer, it sends
//! the progress that the request asks for.

use std::io::{self, BufRead, Write};

use mcp_proto::Json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let message = Json::parse(line?)?;
        let (Some(id), Some(method)) = (message.member("id")?, message.member("method")?) else { continue };
        let params = message.member("params")?.unwrap_or_else(Json::empty_object);
        let meta = params.member("_meta")?.unwrap_or_else(Json::empty_object);
        if let Some(token) = meta.member("progressToken")? {
            let params = format!(r#"{{"progressToken":{},"progress":1}}"#, token.to_text());
            writeln!(output, r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)?;
        }
        let result = if method == Json::from("initialize") {
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#.to_owned()
        } else {
            format!(r#"{{"pid":{},"params":{}}}"#, std::process::id(), params.to_text())
        };
        writeln!(output, r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.to_text())?;
        output.flush()?;
    }
    Ok(())
}
