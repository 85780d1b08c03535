//! The same with a bug that the fuzzer must find: `../run` checks that it does.
#![no_main]

use std::sync::LazyLock;

use fuzz_example::{Transfer, serve, transfer};
use libfuzzer_sys::fuzz_target;
use mcp_application::IncomingRequest;
use mcp_proto::{ErrorObject, Json};
use mcp_testkit::conversation::Conversation;
use mcp_testkit::one_answer::assert_one_answer;
use mcp_testkit::vocabulary::Vocabulary;

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::of(serve));

fn serve_with_bug(request: &IncomingRequest) -> Result<Json, ErrorObject> {
    if let Some(Transfer { from, to, amount }) = transfer(request) {
        assert!(from != "current" || to != "current" || amount != i64::MIN, "the planted bug");
    }
    serve(request)
}

fuzz_target!(|conversation: Conversation| {
    assert_one_answer(serve_with_bug, &conversation.to_bytes(&VOCABULARY));
});
