//! The type of a structured result has no schema.

use rmcp::{Json, tool, tool_router};

#[derive(serde::Serialize)]
struct Place {
    city: String,
}

struct Tools;

#[tool_router(server_handler)]
impl Tools {
    #[tool(description = "A place.")]
    async fn place(&self) -> Json<Place> {
        Json(Place { city: "Paris".to_owned() })
    }
}

fn main() {
    let _ = Tools::tool_router();
}
