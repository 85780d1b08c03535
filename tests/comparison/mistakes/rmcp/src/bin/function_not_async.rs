//! A function returns its result instead of a future. This is no mistake with rmcp.

use rmcp::{tool, tool_router};

struct Tools;

#[tool_router(server_handler)]
impl Tools {
    #[tool(description = "Says hello.")]
    fn hello(&self) -> String {
        "hello".to_owned()
    }
}

fn main() {
    let _ = Tools::tool_router();
}
