//! A tool returns a value of a type of the application, without `Json`.

use rmcp::{tool, tool_router};

#[derive(serde::Serialize)]
struct Place {
    city: String,
}

struct Tools;

#[tool_router(server_handler)]
impl Tools {
    #[tool(description = "A place.")]
    async fn place(&self) -> Place {
        Place { city: "Paris".to_owned() }
    }
}

fn main() {
    let _ = Tools::tool_router();
}
