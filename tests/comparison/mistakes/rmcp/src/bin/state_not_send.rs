//! A function has a state that threads cannot share.

use std::cell::Cell;
use std::rc::Rc;

use rmcp::{tool, tool_router};

struct Counter {
    count: Rc<Cell<i64>>,
}

#[tool_router(server_handler)]
impl Counter {
    #[tool(description = "Counts.")]
    async fn count(&self) -> String {
        self.count.set(self.count.get() + 1);
        self.count.get().to_string()
    }
}

fn main() {
    let _ = Counter::tool_router();
}
