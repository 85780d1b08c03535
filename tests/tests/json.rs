//! JSON text: what is accepted, and that accepted text is forwarded unchanged.

use bytes::Bytes;
use mcp_proto::{Frame, Json, JsonError, Limits, Message, ParseErrorKind, RequestId};
use proptest::prelude::*;
use serde_json::value::RawValue;
use tests::{json_text, vectors};

#[test]
fn json_test_suite_accepts_and_refuses_as_it_must() {
    let files = vectors::files("json/test_parsing");
    assert_eq!(files.len(), 318);
    for (name, text) in files {
        let outcome = Json::parse_within(text.clone(), 1024);
        match name.get(..2) {
            Some("y_") => assert!(outcome.is_ok(), "{name}: {outcome:?}"),
            Some("n_") => assert!(outcome.is_err(), "{name}"),
            // Both outcomes are allowed; the test only shows that the parser neither panics nor overflows the stack.
            _ => {}
        }
    }
}

#[test]
fn strings_end_at_their_quotes_wherever_others_stand() {
    for length in 0..70 {
        for gap in 0..40 {
            let (first, second) = ("x".repeat(length), "y".repeat(40));
            let text = format!(r#"["{first}",{}"{second}"]"#, " ".repeat(gap));
            let values: Vec<String> = serde_json::from_str(&text).expect("the test's text is JSON");
            assert_eq!(values, [first, second]);
            assert_eq!(Json::parse(text.clone()).map(|json| json.len()), Ok(text.len()), "{text}");
            // If the closing quote is escaped, the string continues.
            let open = text.replacen(r#"","#, r#"\","#, 1);
            assert_eq!(Json::parse(open.clone()).is_ok(), serde_json::from_str::<&RawValue>(&open).is_ok(), "{open}");
        }
    }
}

#[test]
fn json_test_suite_values_cross_as_params_unchanged() {
    let files = vectors::files("json/test_parsing").into_iter().filter(|(name, _)| name.starts_with("y_"));
    for (name, value) in files.chain(vectors::files("json/test_transform")) {
        let Ok(json) = Json::parse(value) else { continue };
        let mut text = br#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"v":"#.to_vec();
        text.extend_from_slice(json.as_bytes());
        text.extend_from_slice(b"}}");
        let Frame::Single(Message::Request(request)) = Frame::parse(&text.into(), &Limits::default()).unwrap() else {
            panic!("{name} is no request");
        };
        assert_eq!(request.params.unwrap().member("v"), Ok(Some(json)), "{name}");
    }
}

#[test]
fn json_test_suite_files_as_frames_are_answered_with_the_right_code() {
    for (name, text) in vectors::files("json/test_parsing") {
        let outcome = Frame::parse(&text.into(), &Limits::default());
        match (name.get(..2), outcome) {
            // None of the valid JSON texts is a JSON-RPC message.
            (Some("y_"), Err(error)) => assert_eq!(error.code(), -32600, "{name}"),
            (Some("y_"), Ok(frame)) => {
                assert!(matches!(frame, Frame::Batch(items) if items.iter().all(Result::is_err)), "{name}");
            }
            (Some("n_"), Err(error)) => {
                let too_deep = matches!(error.kind, ParseErrorKind::Json(JsonError::TooDeep { .. }));
                assert_eq!(error.code(), if too_deep { -32600 } else { -32700 }, "{name}");
            }
            (Some("n_"), Ok(_)) => panic!("{name} was accepted"),
            _ => {}
        }
    }
}

#[test]
fn js1_nesting_is_counted_and_never_recursed_into() {
    for (depth, limit, ok) in [(128, 128, true), (129, 128, false), (1024, 1024, true), (1_000_000, 1024, false)] {
        let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(Json::parse_within(text, limit).is_ok(), ok, "{depth}");
        let text = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        assert_eq!(Json::parse_within(text, limit).is_ok(), ok, "{depth}");
        assert!(Json::parse_within("[{\"a\":".repeat(depth), limit).is_err());
    }
}

#[test]
fn errors_contain_the_position() {
    for (text, expected) in [
        (&b"{\"a\":1,}"[..], JsonError::NotJson { offset: 7 }),
        (b"{\"a\":01}", JsonError::NotJson { offset: 6 }),
        (b"\"a\nb\"", JsonError::NotJson { offset: 2 }),
        (b"\"ab", JsonError::NotJson { offset: 3 }),
        (b"", JsonError::NotJson { offset: 0 }),
        (b"\"\xff\"", JsonError::NotUtf8 { offset: 1 }),
        (b"{} {}", JsonError::TrailingText { offset: 3 }),
        (b"\xef\xbb\xbf1", JsonError::NotJson { offset: 0 }),
    ] {
        assert_eq!(Json::parse(Bytes::copy_from_slice(text)), Err(expected), "{text:?}");
    }
}

/// Strings are searched in words and blocks: each end and each invalid byte is found at every position in them.
#[test]
fn js2_what_a_string_may_not_hold_is_found_at_every_place() {
    for length in 0..100 {
        for at in 0..=length {
            let string = |inside: &[u8]| {
                let (before, after) = ("x".repeat(at), "x".repeat(length - at));
                [b"[\"", before.as_bytes(), inside, after.as_bytes(), b"\",\"\"]"].concat()
            };
            for fine in [&br"\n"[..], br#"\""#, br"\\", br"\\\n", br"\u00e9", "é".as_bytes(), b"\x7f", br#"\\\"\\"#] {
                let text = string(fine);
                assert_eq!(Json::parse(text.clone()).map(|json| json.len()), Ok(text.len()), "{text:?}");
            }
            let broken = |offset| Err(JsonError::NotJson { offset: 2 + at + offset });
            for (inside, expected) in [
                (&b"\n"[..], broken(0)),
                (b"\x1f", broken(0)),
                (br"\x", broken(1)),
                (br"\u12g4", broken(4)),
                (br"\\\u", broken(4)),
                (b"\xff", Err(JsonError::NotUtf8 { offset: 2 + at })),
                // Invalid UTF-8 takes precedence over an earlier error in the text.
                (b"\0\xff", Err(JsonError::NotUtf8 { offset: 3 + at })),
            ] {
                let text = string(inside);
                // `x` is not a hexadecimal digit, so an unfinished `\u` escape is invalid right behind the inserted
                // text.
                assert_eq!(Json::parse(text.clone()).map(|_| ()), expected, "{text:?}");
            }
        }
    }
}

#[test]
fn js1_every_container_is_closed_by_its_own_bracket_however_deep() {
    // The parser stores levels in words of 64 bits.
    for depth in [1, 2, 62, 63, 64, 65, 66, 127, 128, 129, 191, 192, 193, 1023, 1024] {
        for step in [2, 3, 5] {
            let is_object = |level: &usize| level % step == 0;
            let open = |level| if is_object(&level) { "{\"a\":" } else { "[" };
            let close = |level| if is_object(&level) { "}" } else { "]" };
            let opened: String = (0..depth).map(open).collect();
            let closed: Vec<&str> = (0..depth).rev().map(close).collect();
            let text = format!("{opened}1{}", closed.concat());
            assert!(Json::parse_within(text.clone(), 1024).is_ok(), "{text}");
            for wrong in 0..depth {
                let mut closed = closed.clone();
                closed[wrong] = if closed[wrong] == "}" { "]" } else { "}" };
                let text = format!("{opened}1{}", closed.concat());
                let offset = opened.len() + 1 + wrong;
                assert_eq!(Json::parse_within(text, 1024), Err(JsonError::NotJson { offset }), "{depth} {wrong}");
            }
        }
    }
}

#[test]
fn fr13_line_ends_between_values_become_blanks_wherever_they_stand() {
    for length in (0..100).chain(16_300..16_420) {
        let params = format!("[\"{}\",\n1,\r\n2]", "x".repeat(length));
        let text = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{params}}}"#);
        let Frame::Single(message) = Frame::parse(&text.clone().into(), &Limits::default()).unwrap() else { panic!() };
        assert_eq!(message.to_bytes(), text.replace(['\n', '\r'], " "), "{length}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8192))]

    #[test]
    fn exactly_what_serde_json_accepts_is_accepted(text in json_text::almost_json()) {
        let ours = Json::parse_within(text.clone(), 1024);
        let theirs = serde_json::from_slice::<&RawValue>(&text);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!(ours.as_bytes(), theirs.get().as_bytes());
        }
    }

    #[test]
    fn px1_a_payload_is_a_slice_of_its_frame_and_crosses_byte_for_byte(params in json_text::object(), blank in "[ \t\r\n]{0,2}") {
        let text = format!(r#"{blank}{{"method":"x",{blank}"params"{blank}:{blank}{params}{blank},"id":"7","jsonrpc":"2.0"}}{blank}"#);
        let frame = Bytes::from(text);
        let Frame::Single(message) = Frame::parse(&frame, &Limits::default()).unwrap() else { panic!() };
        let Message::Request(request) = &message else { panic!() };
        let shared = request.params.as_ref().unwrap();
        prop_assert_eq!(shared.as_bytes(), params.as_bytes());
        prop_assert!(frame.as_ptr_range().contains(&shared.as_bytes().as_ptr()));
        // The message is written again with white space instead of raw line ends, and otherwise unchanged (FR13).
        let line = message.to_bytes();
        prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        let expected = params.replace(['\r', '\n'], " ");
        let again = Frame::parse(&line, &Limits::default()).unwrap();
        let Frame::Single(Message::Request(again)) = again else { panic!() };
        prop_assert_eq!(again.params.as_ref().unwrap().as_bytes(), expected.as_bytes());
    }

    #[test]
    fn a_member_that_was_set_is_read_back_and_the_others_stay(object in json_text::object(), value in json_text::value()) {
        let object = Json::parse(object).unwrap();
        let value = Json::parse(value).unwrap();
        for name in ["m0", "m9", "_meta"] {
            let edited = Json::parse(object.with_member(name, &value).to_bytes()).unwrap();
            prop_assert_eq!(edited.member(name), Ok(Some(value.clone())));
            for other in ["m1", "m2", "m3", "m4"] {
                prop_assert_eq!(edited.member(other), object.member(other));
            }
        }
    }
}

/// Only a mistake in a crate that writes JSON makes such values.
#[test]
fn no_method_panics_if_a_text_that_was_not_checked_is_no_json() {
    let texts: [&[u8]; 16] = [
        b"",
        b"{",
        b"}",
        b"{\"",
        b"{\"a",
        b"{\"a\"",
        b"{\"a\":",
        b"{\"a\":}",
        b"[",
        b"[,",
        b"[1,",
        b"\"",
        b"\"\\",
        b"\"\\u12",
        b"\xff",
        b"{\"\xff\":1}",
    ];
    for text in texts {
        let json = Json::from_valid_text(Bytes::from_static(text));
        let other = Json::empty_object();
        let _ = (json.to_text(), json.len(), json.is_object(), json.is_array(), json.as_string(), format!("{json:?}"));
        let _ = (json.member("a"), json.first_members(["a", "b"]), json.path_to(3), json.to_canonical());
        let _ = (json.read::<serde_json::Value>().is_err(), json.entries().count(), json.elements().count());
        let _ = (json.with_member("a", &other), json.without_members(&["a"]), json.with_missing_members(&other));
        let _ = (other.with_member("a", &json), other.with_missing_members(&json), Json::array([&json]));
        let _ = (json.map_elements(|element| element), json.detached_from(1 << 20));
        assert_eq!(RequestId::from_json_text(text), None, "{text:?}");
    }
}
