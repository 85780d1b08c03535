//! The type of a tool's arguments cannot be read.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};

#[derive(schemars::JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

struct Tools;

#[tool_router(server_handler)]
impl Tools {
    #[tool(description = "Adds.")]
    async fn sum(&self, Parameters(sum): Parameters<Sum>) -> String {
        (sum.a + sum.b).to_string()
    }
}

fn main() {
    let _ = Tools::tool_router();
}
