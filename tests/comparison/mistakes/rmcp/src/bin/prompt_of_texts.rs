//! A prompt returns several texts without saying whose they are.

use rmcp::{ServerHandler, prompt, prompt_handler, prompt_router};

struct Prompts;

#[prompt_router]
impl Prompts {
    #[prompt(description = "Greets.")]
    async fn greet(&self) -> Vec<String> {
        vec!["hello".to_owned()]
    }
}

#[prompt_handler]
impl ServerHandler for Prompts {}

fn main() {
    let _ = Prompts::prompt_router();
}
