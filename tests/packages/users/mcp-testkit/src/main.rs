//! A handler whose answers are checked without a network.

use mcp_proto::driver::IncomingRequest;
use mcp_proto::model::CallToolResult;
use mcp_proto::{ErrorObject, Json};
use mcp_testkit::one_answer::assert_one_answer;

fn serve(request: &IncomingRequest) -> Result<Json, ErrorObject> {
    match request.method().as_str() {
        "tools/call" => Ok(CallToolResult::text("Hello!").into()),
        _ => Err(ErrorObject::method_not_found(request.method())),
    }
}

fn main() {
    assert_one_answer(serve, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}\nno JSON\n");
}
