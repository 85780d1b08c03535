//! Conversations of any client: each request has one answer, and nothing panics.
#![no_main]

use std::sync::LazyLock;

use fuzz_example::serve;
use libfuzzer_sys::fuzz_target;
use mcp_testkit::conversation::Conversation;
use mcp_testkit::one_answer::assert_one_answer;
use mcp_testkit::vocabulary::Vocabulary;

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::of(serve));

fuzz_target!(|conversation: Conversation| {
    assert_one_answer(serve, &conversation.to_bytes(&VOCABULARY));
});
