//! The texts of frequent messages.

use std::fmt::Display;

/// The notification that ends a handshake.
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A request as a line.
pub fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// A notification of a log message as a line.
pub const NOTIFICATION: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;

/// A progress notification as a line. The token and the progress are JSON.
pub fn progress_notification(token: &str, progress: impl Display) -> String {
    let params = format!(r#"{{"progressToken":{token},"progress":{progress}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)
}

/// `initialize` as a line, of a client that has roots.
pub fn initialize(id: &str, version: &str) -> String {
    initialize_of(id, version, r#"{"roots":{}}"#, r#"{"name":"editor","version":"1.0"}"#)
}

/// `initialize` as a line, of a client with these capabilities, which are JSON.
pub fn initialize_with(id: &str, version: &str, capabilities: &str) -> String {
    initialize_of(id, version, capabilities, r#"{"name":"c","version":"1"}"#)
}

fn initialize_of(id: &str, version: &str, capabilities: &str, client: &str) -> String {
    let params = format!(r#"{{"protocolVersion":"{version}","capabilities":{capabilities},"clientInfo":{client}}}"#);
    request(id, "initialize", &params)
}

/// The result of `initialize`.
pub fn initialize_result(version: &str) -> String {
    format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}"#
    )
}

/// The result of `server/discover`.
pub const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}"#;

/// A complete result, in the form of 2026-07-28.
pub const COMPLETE: &str = r#"{"resultType":"complete","content":[]}"#;

/// A response with [`COMPLETE`].
pub fn complete(id: &str) -> String {
    result(id, COMPLETE)
}

/// A response with a result.
pub fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// A response with an error.
pub fn error(id: &str, code: i64, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

/// An SSE event that carries `data`.
pub fn event(data: &str) -> String {
    format!("event: message\ndata: {data}\n\n")
}
