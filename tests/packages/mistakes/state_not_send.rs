//! A function has a state that threads cannot share.
//! expected: cannot be sent between threads safely

use std::cell::Cell;
use std::rc::Rc;

use mcp_tokio::{NoArguments, Router};

fn main() {
    let count = Rc::new(Cell::new(0));
    let _ = Router::new().tool("count", "Counts.", move |_: NoArguments, _| {
        let count = Rc::clone(&count);
        async move {
            count.set(count.get() + 1);
            Ok(count.get())
        }
    });
}
