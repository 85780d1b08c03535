//! The behaviour of the handler, and the inputs of the fuzzer, on stable Rust.

use std::path::Path;

use fuzz_example::serve;
use mcp_proto::Json;
use mcp_proto::client::Outcome;
use mcp_testkit::conversation::Conversation;
use mcp_testkit::one_answer::{assert_one_answer, full_config};
use mcp_testkit::pair::Pair;
use mcp_testkit::random::Choices;
use mcp_testkit::vocabulary::Vocabulary;

#[test]
fn a_transfer_moves_the_amount() {
    let mut pair = Pair::new(full_config(), serve);
    let params = r#"{"name":"transfer","arguments":{"from":"savings","to":"current","amount":7}}"#;
    let outcome = pair.request("tools/call", Json::parse(params).unwrap());
    let Outcome::Result(result) = outcome else { panic!("{outcome:?}") };
    assert!(result.to_text().contains("which has 107"), "{}", result.to_text());
}

#[test]
fn every_input_of_the_corpus_has_one_answer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/handler");
    let vocabulary = Vocabulary::of(serve);
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let input = std::fs::read(file.unwrap().path()).unwrap();
        let conversation = Conversation::draw(&mut Choices::Bytes(&input));
        assert_one_answer(serve, &conversation.to_bytes(&vocabulary));
        count += 1;
    }
    assert!(count > 0, "there is no corpus");
}
