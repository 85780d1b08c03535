//! The error of a function is none that a tool may return.

use rmcp::{ErrorData, tool, tool_router};

struct Broken;

fn work() -> Result<i64, Broken> {
    Err(Broken)
}

struct Tools;

#[tool_router(server_handler)]
impl Tools {
    #[tool(description = "Works.")]
    async fn work(&self) -> Result<String, ErrorData> {
        Ok(work()?.to_string())
    }
}

fn main() {
    let _ = Tools::tool_router();
}
