//! The example of a filtering proxy, which is built on the public API only.

#[allow(dead_code, unreachable_pub, reason = "it is a program")]
#[path = "../../mcp-intermediary/examples/filtering_proxy.rs"]
mod filtering_proxy;

use filtering_proxy::FilteringProxy;
use mcp_intermediary::relay::Action;
use mcp_proto::machine::{ClientStream, HandleBytes, Machine, ServerStream};
use mcp_proto::{Instant, Output, StdioAction};
use mcp_testkit::messages::{INITIALIZED, error, initialize, initialize_result, request, result};

/// The proxy between a client and a server, which the test is.
struct Harness(FilteringProxy);

impl Harness {
    fn new() -> Self {
        Self(FilteringProxy::new(|name| name == "shell").expect("a configuration"))
    }

    fn connected() -> Self {
        let mut harness = Self::new();
        harness.client(&initialize("0", "2025-06-18"));
        harness.server(&result("1", &initialize_result("2025-06-18")));
        harness.client(INITIALIZED);
        harness
    }

    /// The client sends a line. Returns the lines that the client and the server receive.
    fn client(&mut self, line: &str) -> (Vec<String>, Vec<String>) {
        self.0.handle_bytes(ClientStream, format!("{line}\n").as_bytes(), Instant::START);
        self.lines()
    }

    /// The server sends a line.
    fn server(&mut self, line: &str) -> (Vec<String>, Vec<String>) {
        self.0.handle_bytes(ServerStream, format!("{line}\n").as_bytes(), Instant::START);
        self.lines()
    }

    fn lines(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        while let Some(output) = self.0.poll_output() {
            match output {
                Output::Action(Action::Client(StdioAction::Write(line))) => to_client.push(text(&line)),
                Output::Action(Action::Server(StdioAction::Write(line))) => to_server.push(text(&line)),
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        (to_client, to_server)
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end().to_owned()
}

#[test]
fn the_handshake_is_forwarded_unchanged() {
    let mut harness = Harness::new();
    let params = r#"{"protocolVersion":"2025-06-18","mine":1.0}"#;
    assert_eq!(
        harness.client(&request("\"a\"", "initialize", params)),
        (vec![], vec![request("1", "initialize", params)])
    );
    let answer = initialize_result("2025-06-18");
    assert_eq!(harness.server(&result("1", &answer)), (vec![result("\"a\"", &answer)], vec![]));
    assert_eq!(harness.client(INITIALIZED), (vec![], vec![INITIALIZED.to_owned()]));
}

#[test]
fn a_hidden_tool_is_not_listed_and_its_calls_are_refused() {
    let mut harness = Harness::connected();
    assert_eq!(harness.client(&request("7", "tools/list", "{}")).1, [request("2", "tools/list", "{}")]);
    let tools = r#"{"x": 1.0,"tools":[{"name":"echo"},{"name":"shell"}]}"#;
    let shown = r#"{"x": 1.0,"tools":[{"name":"echo"}]}"#;
    assert_eq!(harness.server(&result("2", tools)), (vec![result("7", shown)], vec![]));
    let refused = harness.client(&request("8", "tools/call", r#"{"name":"shell"}"#));
    assert_eq!(refused, (vec![error("8", -32602, "unknown tool")], vec![]));
    let call = r#"{"name":"echo","arguments":{"n":1.10}}"#;
    assert_eq!(harness.client(&request("9", "tools/call", call)), (vec![], vec![request("3", "tools/call", call)]));
    assert_eq!(harness.server(&error("3", -32000, "busy")), (vec![error("9", -32000, "busy")], vec![]));
}

#[test]
fn requests_of_the_server_and_cancellations_pass_with_the_ids_of_each_side() {
    let mut harness = Harness::connected();
    // The client answers `ping` and what it has not declared, as it would without the proxy.
    for method in ["ping", "roots/list"] {
        let (to_client, _) = harness.server(&request("\"s\"", method, "{}"));
        let [asked] = &to_client[..] else { panic!("{to_client:?}") };
        let id = asked.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).expect("an id");
        assert_eq!(*asked, request(id, method, "{}"));
        assert_eq!(harness.client(&result(id, "{}")), (vec![], vec![result("\"s\"", "{}")]));
    }
    let (to_client, _) = harness.server(&request("\"t\"", "roots/list", "{}"));
    let id = to_client[0].split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).expect("an id").to_owned();
    harness.client(&request("7", "tools/call", r#"{"name":"echo","_meta":{"progressToken":"p"}}"#));
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#;
    assert_eq!(harness.server(progress), (vec![progress.to_owned()], vec![]));
    let cancelled =
        |id| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    assert_eq!(harness.server(&cancelled("\"t\"")), (vec![cancelled(&id)], vec![]));
    assert_eq!(harness.client(&cancelled("7")), (vec![], vec![cancelled("2")]));
    assert_eq!(harness.server(&result("2", "{}")), (vec![], vec![]), "no answer to a cancelled request");
}
