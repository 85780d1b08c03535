//! A function has other parameters than the library passes: functions of rmcp may have any number of them, and each has a type
//! that rmcp can take from the request, such as `Parameters`.

use rmcp::{tool, tool_router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

struct Tools;

#[tool_router(server_handler)]
impl Tools {
    #[tool(description = "Adds.")]
    async fn sum(&self, sum: Sum) -> String {
        (sum.a + sum.b).to_string()
    }
}

fn main() {
    let _ = Tools::tool_router();
}
