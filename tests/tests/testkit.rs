//! What `mcp-testkit` documents for authors of handlers and drivers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use mcp_application::IncomingRequest;
use mcp_proto::client::{Call, Event, Outcome};
use mcp_proto::server::InputRequired;
use mcp_proto::{ErrorObject, Failed, Json, Method, ProtocolVersion, code};
use mcp_testkit::conversation::{Conversation, Opening, Step};
use mcp_testkit::corpus;
use mcp_testkit::dictionary::{self, DICTIONARY};
use mcp_testkit::messages::{initialize, request, result};
use mcp_testkit::one_answer::{assert_answers, assert_one_answer, full_config};
use mcp_testkit::pair::Pair;
use mcp_testkit::random::{Choices, Random};
use mcp_testkit::vocabulary::{Kind, Vocabulary};
use proptest::prelude::*;

const TOOLS: &str = r#"{"tools":[{"name":"add","inputSchema":{"type":"object","properties":{
    "a":{"type":"integer"},"b":{"type":"number"},"unit":{"enum":["m","s"]},"note":{"type":"string"},
    "sure":{"type":"boolean"},"parts":{"type":"array"},"options":{"type":"object"},"other":{}}}}]}"#;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("JSON")
}

/// A correct handler, which requires input for the tool `ask`.
fn serve(request: &IncomingRequest) -> Result<Json, ErrorObject> {
    let params = request.params().cloned().unwrap_or(Json::empty_object());
    match request.method().as_str() {
        "tools/list" => Ok(json(TOOLS)),
        "tools/call" if params.first_member("name") == Some(Json::from("ask")) => {
            if params.first_member("inputResponses").is_some() {
                return Ok(json(r#"{"content":[{"type":"text","text":"thanks"}]}"#));
            }
            let form = json(r#"{"message":"?","requestedSchema":{"type":"object","properties":{}}}"#);
            Ok(InputRequired::new().ask("form", "elicitation/create", form).into())
        }
        "tools/call" => Ok(json(r#"{"content":[]}"#)),
        "prompts/list" => Ok(json(r#"{"prompts":[{"name":"greet","arguments":[{"name":"who"}]}]}"#)),
        "resources/list" => Ok(json(r#"{"resources":[{"name":"a","uri":"file:///a"}]}"#)),
        "resources/templates/list" => Ok(json(r#"{"resourceTemplates":[]}"#)),
        "resources/read" => Err(ErrorObject::new(code::INVALID_PARAMS, "no such resource")),
        _ => Err(ErrorObject::method_not_found(request.method())),
    }
}

/// The message of the panic that this call causes.
fn panic_of(run: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(run)).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
}

#[test]
fn a_pair_connects_in_every_revision_and_passes_input_on() {
    for &version in ProtocolVersion::ALL {
        let mut client = mcp_proto::client::Config::new("c", "1");
        client.versions = vec![version];
        client.capabilities = json(r#"{"elicitation":{}}"#);
        let mut pair = Pair::with(client, full_config(), serve, 7);
        pair.on_request(|method, _| {
            assert_eq!(*method, Method::ELICITATION_CREATE);
            Ok(json(r#"{"action":"decline"}"#))
        });
        assert!(matches!(pair.request("tools/list", Json::empty_object()), Outcome::Result(_)));
        assert_eq!(pair.client.version(), Some(version));
        let asked = pair.request("tools/call", json(r#"{"name":"ask"}"#));
        let Outcome::Result(thanks) = asked else { panic!("{version}: {asked:?}") };
        assert!(thanks.to_text().contains("thanks"), "{version}: {}", thanks.to_text());
    }
}

#[test]
fn a_pair_advances_its_clock_to_what_happens_next() {
    // The client sends a request again after a pause, for which it has a timer.
    let mut calls = 0;
    let mut pair = Pair::new(full_config(), |_| {
        calls += 1;
        Ok(if calls == 1 { InputRequired::new().state("later").into() } else { json(r#"{"content":[]}"#) })
    });
    let began = pair.now;
    let request = pair.begin(Call::new("tools/call").params(json(r#"{"name":"x"}"#)));
    pair.pass(Duration::from_millis(200));
    assert_eq!(pair.now, began + Duration::from_millis(200));
    assert_eq!(pair.outcome(request), None);
    pair.pass(Duration::from_secs(31));
    assert!(matches!(pair.outcome(request), Some(Outcome::Result(_))));
    assert_eq!(pair.outcome(request), None, "an outcome is returned once");
    drop(pair);
    assert_eq!(calls, 2);
}

#[test]
fn the_end_of_a_stream_reaches_the_other_side_of_a_pair() {
    let connected = || {
        let mut pair = Pair::new(full_config(), serve);
        assert!(matches!(pair.request("tools/list", Json::empty_object()), Outcome::Result(_)));
        pair
    };
    let mut pair = connected();
    pair.client.close(pair.now);
    pair.pass(Duration::from_secs(1));
    assert!(pair.server.is_closed());
    assert!(pair.events().iter().any(|event| matches!(event, Event::Closed(_))));

    let mut pair = connected();
    pair.server.close(pair.now);
    let began = pair.now;
    let outcome = pair.request("tools/list", Json::empty_object());
    assert!(matches!(outcome, Outcome::Failed(Failed::Closed)), "{outcome:?}");
    assert!(pair.now < began + Duration::from_secs(5), "the request ends with the stream, not by its timeout");
}

/// Each row is what a server received, what it sent, and a part of the finding.
#[test]
fn answers_that_are_missing_doubled_misdirected_or_malformed_are_findings() {
    let ping = request("1", "ping", "{}");
    let list = request("1", "tools/list", "{}");
    let answer = result("1", "{}");
    let other = request("\"1\"", "ping", "{}");
    let cases = [
        (format!("{ping}\n"), String::new(), "0 answers to the id 1, whose requests"),
        (format!("{ping}\n"), format!("{answer}\n{answer}\n"), "2 answers to the id 1, and at most 1"),
        (format!("{ping}\n"), format!("{}\n", result("\"1\"", "{}")), "1 answers to the id \"1\", and at most 0"),
        (format!("{ping}\n{other}\n"), format!("{answer}\n{answer}\n"), "2 answers to the id 1, and at most 1"),
        (format!("{ping}\n"), format!("{answer}\nlistening\n"), "what is no message"),
        (format!("{ping}\n"), answer.clone(), "last line is not complete"),
        (format!("{ping}\n"), format!("{}\n", result("1", "7")), "is no object"),
        (format!("{list}\n"), format!("{}\n", result("1", r#"{"tools":{}}"#)), "result of tools/list does not have"),
        ("x\n".to_owned(), r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#.to_owned() + "\n", ""),
        (String::new(), r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#.to_owned() + "\n", "the id none"),
        (format!("{ping}\n"), format!("{answer}\n"), ""),
        // An unfinished line is no message.
        (ping.clone(), String::new(), ""),
        (format!("{list}\n"), format!("{}\n", request("9", "elicitation/create", "{}")), ""),
        (format!("{list}\n"), format!("{}\n", request("9", "ping", "{}")), "0 answers to the id 1"),
        (
            format!("{list}\n{other}\n"),
            format!("{}\n", request("9", "elicitation/create", "{}")),
            "0 answers to the id 1, whose requests are [\"tools/list\"]",
        ),
        (
            format!("{list}\n{}\n", request("2", "ping", "{}")),
            format!("{}\n", result("1", r#"{"resultType":"input_required","requestState":"x"}"#)),
            "0 answers to the id 2",
        ),
        (
            format!("{list}\n"),
            format!("{}\n", result("1", r#"{"resultType":"input_required","requestState":"x"}"#)),
            "",
        ),
    ];
    for (received, sent, finding) in cases {
        let found = panic_of(|| assert_answers(received.as_bytes(), sent.as_bytes()));
        match found {
            Some(text) => assert!(!finding.is_empty() && text.contains(finding), "{received} {sent} {text}"),
            None => assert!(finding.is_empty(), "{received} {sent}"),
        }
    }
}

#[test]
fn bugs_of_handlers_are_findings() {
    let call = format!("{}\n", request("5", "tools/call", r#"{"name":"x"}"#));
    let find = |handler: fn(&IncomingRequest) -> Result<Json, ErrorObject>| {
        panic_of(|| assert_one_answer(handler, call.as_bytes()))
    };
    assert_eq!(find(serve), None);
    assert!(find(|_| Ok(Json::from("text"))).unwrap().contains("is no object"));
    assert!(find(|_| Ok(json(r#"{"content":"text"}"#))).unwrap().contains("the result of tools/call"));
    assert!(find(|request| panic!("a bug in {}", request.method())).unwrap().contains("a bug in tools/call"));
    let reserved = find(|_| Err(ErrorObject::new(code::HEADER_MISMATCH, "x")));
    assert!(reserved.unwrap().contains("must not be sent"));
}

#[test]
fn requests_reach_the_handler_over_stdio_and_over_http_in_both_eras() {
    let legacy = [&*initialize("0", "2025-11-25"), &request("1", "tools/call", r#"{"name":"x"}"#)].join("\n") + "\n";
    let modern = mcp_testkit::http_exchange::modern("2", "tools/call", r#""name":"x","#) + "\n";
    let mut versions = Vec::new();
    let mut count = |bytes: &str| {
        versions.clear();
        let count = |request: &IncomingRequest| {
            versions.push((request.version(), request.headers().is_empty()));
            serve(request)
        };
        assert_one_answer(count, bytes.as_bytes());
        versions.clone()
    };
    let (old, new) = (ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28);
    assert_eq!(count(&legacy), [(old, true), (old, true), (old, false)]);
    assert_eq!(count(&modern), [(new, true), (new, true), (new, false)]);
}

#[test]
fn a_vocabulary_is_what_a_handler_lists() {
    let vocabulary = Vocabulary::of(serve);
    let kinds: Vec<_> = vocabulary.tools[0].arguments.iter().map(|(name, kind)| (name.as_str(), kind)).collect();
    let unit = Kind::OneOf(vec!["\"m\"".to_owned(), "\"s\"".to_owned()]);
    let expected = [
        ("a", &Kind::Integer),
        ("b", &Kind::Number),
        ("note", &Kind::Text),
        ("options", &Kind::Object),
        ("other", &Kind::Any),
        ("parts", &Kind::List),
        ("sure", &Kind::Boolean),
        ("unit", &unit),
    ];
    assert_eq!(kinds, expected);
    let written = Vocabulary::new()
        .tool("add", expected.map(|(name, kind)| (name, kind.clone())))
        .prompt("greet", ["who"])
        .resource("file:///a");
    assert_eq!(vocabulary, written);
    assert_eq!(Vocabulary::of(|request| Err(ErrorObject::method_not_found(request.method()))), Vocabulary::new());
    let config = full_config().capabilities(json(r#"{"extensions":{"com.example/search":{"languages":"en"}}}"#));
    let nothing = |request: &IncomingRequest| Err(ErrorObject::method_not_found(request.method()));
    assert_eq!(Vocabulary::of_server(config, nothing), Vocabulary::new().extension("com.example/search"));
}

#[test]
fn the_corpora_reach_every_request_of_a_handler() {
    let vocabulary = Vocabulary::of(serve);
    let conversations = corpus::conversations();
    let drawn = conversations.iter().map(|input| Conversation::draw(&mut Choices::Bytes(input)).to_bytes(&vocabulary));
    for inputs in [drawn.collect(), corpus::lines(&vocabulary)] {
        let mut called = std::collections::BTreeSet::new();
        for input in &inputs {
            let handle = |request: &IncomingRequest| {
                called.insert(request.method().clone());
                serve(request)
            };
            assert_one_answer(handle, input);
        }
        for method in [
            Method::TOOLS_LIST,
            Method::TOOLS_CALL,
            Method::PROMPTS_LIST,
            Method::PROMPTS_GET,
            Method::RESOURCES_LIST,
            Method::RESOURCES_TEMPLATES_LIST,
            Method::RESOURCES_READ,
            Method::COMPLETION_COMPLETE,
        ] {
            assert!(called.contains(&method), "{method} is not among {called:?}");
        }
        assert!(inputs.len() > 30, "{}", inputs.len());
    }
}

/// A fuzzer keeps an input because of what it does.
#[test]
fn arguments_have_the_kinds_that_their_tools_state() {
    let vocabulary = Vocabulary::of(serve);
    let (mut calls, mut fitting) = (0, 0);
    for seed in 0..500 {
        let conversation = Conversation::draw(&mut Choices::Seed(Random::new(seed)));
        for line in conversation.to_bytes(&vocabulary).split(|byte| *byte == b'\n') {
            let Ok(message) = serde_json::from_slice::<serde_json::Value>(line) else { continue };
            if message["method"] != "tools/call" || message["params"]["name"] != "add" {
                continue;
            }
            calls += 1;
            let arguments = &message["params"]["arguments"];
            let fits = arguments["a"].is_i64()
                && arguments["b"].is_number()
                && ["m", "s"].iter().any(|unit| arguments["unit"] == *unit)
                && arguments["note"].is_string()
                && arguments["sure"].is_boolean()
                && arguments["parts"].is_array()
                && arguments["options"].is_object();
            fitting += usize::from(fits);
        }
    }
    assert!(calls > 100 && fitting * 2 > calls && fitting < calls, "{fitting} of {calls}");
}

#[test]
fn conversations_reach_the_methods_and_notifications_of_extensions_that_the_client_declares() {
    let query = [("words", Kind::Text), ("limit", Kind::Integer)];
    let vocabulary = Vocabulary::new()
        .extension("com.example/search")
        .method("com.example/search/query", query)
        .notification("com.example/search/forget");
    let (mut calls, mut fitting, mut declared) = (0, 0, 0);
    let mut notified = 0;
    for seed in 0..500 {
        let bytes = Conversation::draw(&mut Choices::Seed(Random::new(seed))).to_bytes(&vocabulary);
        notified += usize::from(String::from_utf8_lossy(&bytes).contains(r#""method":"com.example/search/forget""#));
        let handler = |request: &IncomingRequest| {
            if request.method().as_str() != "com.example/search/query" {
                return serve(request);
            }
            calls += 1;
            declared += usize::from(request.client_extension("com.example/search").is_some());
            let params = request.params().cloned().unwrap_or(Json::empty_object());
            let is_text = params.first_member("words").is_some_and(|words| words.read::<String>().is_ok());
            let is_integer = params.first_member("limit").is_some_and(|limit| limit.read::<i64>().is_ok());
            fitting += usize::from(is_text && is_integer);
            Ok(json(r#"{"hits":[]}"#))
        };
        assert_one_answer(handler, &bytes);
    }
    assert!(calls > 100 && fitting * 2 > calls && fitting < calls, "{fitting} of {calls}");
    // Not by a client that neither states its capabilities nor initializes.
    assert!(declared * 2 > calls && declared < calls, "{declared} of {calls}");
    assert!(notified > 0);
}

/// `mcp-testkit dictionary > tests/testkit/mcp.dict` writes it.
#[test]
fn the_dictionary_has_all_methods_headers_and_members() {
    assert!(DICTIONARY == dictionary::file(), "write it again: cargo run -p mcp-testkit -- dictionary");
    for token in ["tools/call", "mcp-session-id", "2026-07-28", "io.modelcontextprotocol/clientCapabilities", "-32601"]
    {
        assert!(dictionary::tokens().iter().any(|found| found == token), "{token}");
    }
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("testkit/mcp.dict").exists());

    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp-proto/src/spec/code.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let codes = source.split(": i64 = ").skip(1).filter_map(|rest| rest.split(';').next()?.parse::<i64>().ok());
    assert!(codes.eq(code::ALL.iter().copied()), "code::ALL has other codes than the module");
}

#[test]
fn a_text_that_is_drawn_has_0_to_24_bytes() {
    let mut lengths = std::collections::BTreeSet::new();
    for length in 0..=255 {
        // The opening, a line of any text, and that text: its length and its bytes.
        let input = [&[0, 3, length][..], &[b'x'; 60]].concat();
        let conversation = Conversation::draw(&mut Choices::Bytes(&input));
        let Some(Step::Line(text)) = conversation.steps.first() else { panic!("{conversation:?}") };
        lengths.insert(text.len());
    }
    assert!(lengths.into_iter().eq(0..=24));
}

proptest! {
    #[test]
    fn any_bytes_have_one_answer_for_each_request(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        assert_one_answer(serve, &bytes);
    }

    #[test]
    fn any_choices_give_a_conversation_with_one_answer_for_each_request(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let conversation = Conversation::draw(&mut Choices::Bytes(&bytes));
        prop_assert_eq!(&conversation, &Conversation::draw(&mut Choices::Bytes(&bytes)));
        prop_assert!(!bytes.is_empty() || conversation.opening == Opening::Stateless);
        let lines = conversation.to_bytes(&Vocabulary::of(serve));
        assert_one_answer(serve, &lines);
    }
}
