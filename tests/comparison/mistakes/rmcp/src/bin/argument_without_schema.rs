//! The type of a tool's arguments has no schema.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};

#[derive(serde::Deserialize)]
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
