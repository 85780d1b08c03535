//! The JSON-RPC envelope: what is a message, what is not, and which invalid messages can be answered.

use bytes::Bytes;
use mcp_proto::{
    ErrorObject, Frame, Json, Limits, Message, Method, Notification, ParseError, ProtocolVersion, Request, RequestId,
    Response, Subject,
};
use proptest::prelude::*;
use tests::json_text;
use tests::vectors::{Capture, Side};

fn parse(text: &str) -> Result<Frame, ParseError> {
    Frame::parse(&Bytes::copy_from_slice(text.as_bytes()), &Limits::default())
}

fn single(text: &str) -> Message {
    match parse(text) {
        Ok(Frame::Single(message)) => message,
        other => panic!("{text}: {other:?}"),
    }
}

fn request(id: i64) -> Subject {
    Subject::Request(id.into())
}

#[test]
fn messages_of_every_kind_are_distinguished() {
    let id = || RequestId::from(1);
    let params = Some(Json::empty_object());
    let result = Json::empty_object();
    let error = ErrorObject::new(-32601, "no");
    for (text, expected) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#,
            Message::from(Request { id: id(), method: "m".into(), params: None }),
        ),
        (
            r#"{"params":{},"method":"m","id":1,"jsonrpc":"2.0"}"#,
            Request { id: id(), method: "m".into(), params }.into(),
        ),
        (r#"{"jsonrpc":"2.0","method":"m"}"#, Notification::new("m").into()),
        (r#"{"result":{},"jsonrpc":"2.0","id":1}"#, Response::Result { id: id(), result: result.clone() }.into()),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            Response::Result { id: id(), result: Json::parse("null").unwrap() }.into(),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#,
            Response::Error { id: Some(id()), error: error.clone() }.into(),
        ),
        // The id of an error may be absent or null (JR-09).
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}"#,
            Response::Error { id: None, error: error.clone() }.into(),
        ),
        (r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no"}}"#, Response::Error { id: None, error }.into()),
        // Other spellings and special names are unknown members (JS7, JS10).
        (r#"{"jsonrpc":"2.0","method":"m","METHOD":"x","Id":7,"__proto__":{}}"#, Notification::new("m").into()),
        // Names are compared after unescaping (P1).
        (r#"{"jsonrpc":"2.0","m\u0065thod":"m"}"#, Notification::new("m").into()),
        (r#"{"jsonrpc":"2.0","method":"\u006d"}"#, Notification::new("m").into()),
        // Some clients send null for absent parameters.
        (r#"{"jsonrpc":"2.0","method":"m","params":null}"#, Notification::new("m").into()),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#,
            Request { id: 1.into(), method: "m".into(), params: None }.into(),
        ),
    ] {
        assert_eq!(single(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_message_is_answered_with_the_right_code_and_the_id_that_can_be_read() {
    let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"m"}}"#, "x".repeat(1 << 20));
    let method = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(257));
    for (row, text, code, subject) in [
        ("JS5", r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, -32600, Subject::Unknown),
        ("JS5", r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, -32600, request(1)),
        ("JS5", r#"{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"b"}"#, -32600, request(1)),
        ("JS5", r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"a"}"#, -32600, request(1)),
        ("JS7", r#"{"jsonrpc":"2.0","id":1,"METHOD":"m"}"#, -32600, Subject::Either(1.into())),
        ("JS8", r#"{"jsonrpc":"2.0","id":1.0,"method":"m"}"#, -32600, Subject::Unknown),
        ("JS8", r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"m"}"#, -32600, Subject::Unknown),
        ("JS8", r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, -32600, Subject::Unknown),
        ("JS8", r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, -32600, Subject::Unknown),
        ("JS8", r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, -32600, Subject::Unknown),
        ("JS9", long.as_str(), -32600, Subject::Unknown),
        ("JS4", r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#, -32600, request(1)),
        ("JS4", r#"{"jsonrpc":"2.0","id":"\ud800","method":"m"}"#, -32600, Subject::Unknown),
        ("JS11", "42", -32600, Subject::Unknown),
        ("JS11", "\"x\"", -32600, Subject::Unknown),
        ("JS11", "null", -32600, Subject::Unknown),
        ("JS11", "{}", -32600, Subject::Unknown),
        ("JS12", r#"{"id":1,"method":"m"}"#, -32600, request(1)),
        ("JS12", r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, -32600, request(1)),
        ("JS12", r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, -32600, request(1)),
        ("JS13", r#"{"jsonrpc":"2.0","id":1,"method":"m","params":"x"}"#, -32602, request(1)),
        ("JS13", r#"{"jsonrpc":"2.0","method":"m","params":"x"}"#, -32602, Subject::Notification),
        ("JS12", r#"{"method":"m"}"#, -32600, Subject::Notification),
        ("FR10", r#"{"id":1,"level":"info","msg":"started"}"#, -32600, Subject::Unknown),
        ("JS", method.as_str(), -32600, request(1)),
        ("JS", r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600, request(1)),
        (
            "RP5",
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
            -32600,
            Subject::Response(1.into()),
        ),
        ("RP5", r#"{"jsonrpc":"2.0","id":1}"#, -32600, Subject::Either(1.into())),
        ("RP5", r#"{"jsonrpc":"2.0","id":1,"error":7}"#, -32600, Subject::Response(1.into())),
        ("RP5", r#"{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}"#, -32600, Subject::Response(1.into())),
        ("RP5", r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x"}}"#, -32600, Subject::Response(1.into())),
        ("RP5", r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#, -32600, Subject::Response(1.into())),
        ("RP5", r#"{"jsonrpc":"2.0","result":{}}"#, -32600, Subject::Unknown),
        ("RP6", r#"{"jsonrpc":"2.0","id":1,"method":"m","result":null}"#, -32600, request(1)),
        ("RP6", r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"result":null,"error":null}"#, -32600, request(1)),
        ("RP6", r#"{"jsonrpc":"2.0","method":"m","result":{}}"#, -32600, Subject::Unknown),
        (
            "RP6",
            r#"{"jsonrpc":"2.0","id":null,"method":"m","error":{"code":1,"message":"x"}}"#,
            -32600,
            Subject::Unknown,
        ),
        ("RP6", r#"{"jsonrpc":"2.0","id":1,"method":"m","error":7}"#, -32600, Subject::Response(1.into())),
        (
            "RP6",
            r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{},"error":{"code":1,"message":"x"}}"#,
            -32600,
            Subject::Response(1.into()),
        ),
        ("RP8", "[]", -32600, Subject::Unknown),
        // In invalid JSON, the id is used if it can be trusted.
        ("JS3", r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}"#, -32700, request(1)),
        ("JS3", r#"{"jsonrpc":"2.0","method":"m","params":{"id":2,"a":01},"id":1}"#, -32700, request(1)),
        ("JS3", r#"{"jsonrpc":"2.0","id":1,"result":{"a":Infinity}}"#, -32700, Subject::Response(1.into())),
        ("JS3", r#"{"id":1,"method":"m","params":{"a":0x10}}"#, -32700, request(1)),
        ("JS3", r#"{"id":1,"id":2,"method":"m",}"#, -32700, Subject::Unknown),
        ("FR6", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"\0\"}}", -32700, request(1)),
        ("FR10", r#"Listening… {"jsonrpc":"2.0","id":1,"method":"m"}"#, -32700, Subject::Unknown),
        (
            "FR11",
            r#"{"jsonrpc":"2.0","id":1,"method":"m"}{"jsonrpc":"2.0","id":2,"method":"m"}"#,
            -32700,
            Subject::Unknown,
        ),
        ("FR11", r#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#, -32700, Subject::Unknown),
        ("JS", r#"{"jsonrpc":"2.0","id":1,"meth"#, -32700, Subject::Unknown),
        ("JS", r#"{"jsonrpc":"2.0","method":"m","id":12"#, -32700, Subject::Unknown),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!((error.code(), &error.subject), (code, &subject), "{row}: {text:.100}");
    }
}

#[test]
fn fr7_a_message_that_is_not_utf8_is_answered_if_its_id_can_be_read() {
    let text = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":{\"a\":\"\xff\"}}");
    let error = Frame::parse(&text, &Limits::default()).unwrap_err();
    assert_eq!((error.code(), error.subject), (-32700, request(7)));
    let text = Bytes::from_static(b"\xff\xfe\x80 log");
    assert_eq!(Frame::parse(&text, &Limits::default()).unwrap_err().subject, Subject::Unknown);
}

#[test]
fn js1_a_message_that_is_too_deep_is_answered_with_its_id_wherever_it_stands() {
    for depth in [127, 10_000, 1_000_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let inner = if open == "[" { "" } else { "1" };
            let value = format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
            let text = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"v":{value}}},"id":7}}"#);
            let error = parse(&text).unwrap_err();
            assert_eq!((error.code(), error.subject), (-32600, request(7)));
            let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{value}1}}"#);
            assert_eq!(parse(&text).unwrap_err().subject, Subject::Response(7.into()));
            // An unterminated message with the id first.
            let text = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{}"#, open.repeat(depth));
            assert_eq!(parse(&text).unwrap_err().subject, request(7));
        }
    }
}

#[test]
fn js2_js14_many_keys_and_long_strings_are_text_like_any_other() {
    let keys: Vec<_> = (0..1_000_000).map(|number| format!("\"{number}\":0")).collect();
    let text = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{{}}}}}"#, keys.join(","));
    assert!(matches!(single(&text), Message::Notification(_)));
    let text = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"s":"{}"}}}}"#, "\\u0041".repeat(2 << 20));
    assert!(matches!(single(&text), Message::Notification(_)));
}

#[test]
fn rp8_batches_are_read_element_by_element_up_to_the_limit() {
    let Frame::Batch(items) =
        parse(r#"[{"jsonrpc":"2.0","id":1,"method":"m"},1,[],{"jsonrpc":"2.0","id":2}]"#).unwrap()
    else {
        panic!("no batch");
    };
    let outcomes: Vec<_> =
        items.iter().map(|item| item.as_ref().map(|_| ()).map_err(|error| error.subject.clone())).collect();
    assert_eq!(outcomes, [Ok(()), Err(Subject::Unknown), Err(Subject::Unknown), Err(Subject::Either(2.into()))]);

    let many = |count: usize| format!("[{}]", vec![r#"{"jsonrpc":"2.0","method":"m"}"#; count].join(","));
    assert!(parse(&many(100)).is_ok());
    for count in [101, 1_000_000] {
        assert_eq!(parse(&many(count)).unwrap_err().code(), -32600);
    }
}

#[test]
fn a28_an_unreadable_id_is_null_or_absent_as_the_revision_requires() {
    let message = Message::from(Response::Error { id: None, error: ErrorObject::new(-32700, "not JSON") });
    assert_eq!(
        message.to_bytes_for(ProtocolVersion::V2025_06_18),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}"#
    );
    assert_eq!(
        message.to_bytes_for(ProtocolVersion::V2025_11_25),
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"not JSON"}}"#
    );
}

#[test]
fn an_error_crosses_with_every_member_that_it_came_with() {
    let text = r#"{"jsonrpc":"2.0","id":"a","error":{"data":{"n":1.0},"x":[1e2],"message":"\u0041","code":-32000}}"#;
    let message = single(text);
    assert_eq!(message.to_bytes(), text);
    let Message::Response(Response::Error { error, .. }) = message else { panic!() };
    assert_eq!((error.code(), error.message().as_str()), (-32000, "A"));
    assert_eq!(error.data().unwrap().as_bytes(), br#"{"n":1.0}"#);
}

#[test]
fn every_message_of_the_recorded_stdio_sessions_is_read_and_written_without_loss() {
    let mut messages = 0;
    for capture in Capture::all("stdio-") {
        for side in [Side::Client, Side::Server] {
            let stream = capture.stream(capture.connections()[0], side);
            for line in stream.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                let Ok(Frame::Single(message)) = Frame::parse(&Bytes::copy_from_slice(line), &Limits::default()) else {
                    continue;
                };
                let again = Frame::parse(&message.to_bytes(), &Limits::default());
                assert_eq!(again, Ok(Frame::Single(message)), "{}", capture.name);
                messages += 1;
            }
        }
    }
    assert!(messages > 50, "{messages}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn whatever_arrives_is_a_message_or_an_error_with_a_code(text in json_text::almost_json()) {
        if let Err(error) = Frame::parse(&text.into(), &Limits::default()) {
            prop_assert!([-32700, -32600, -32602].contains(&error.code()));
        }
    }

    #[test]
    fn a_request_with_one_bad_byte_is_read_or_its_id_is_the_right_one_or_none(
        params in json_text::object(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut text = format!(r#"{{"jsonrpc":"2.0","id":"the id","method":"m","params":{params}}}"#).into_bytes();
        let at = at.index(text.len());
        let id_at = 22..32;
        prop_assume!(!id_at.contains(&at));
        text[at] = byte;
        if let Err(error) = Frame::parse(&text.into(), &Limits::default()) {
            match error.subject {
                Subject::Request(id) | Subject::Response(id) | Subject::Either(id) => prop_assert_eq!(id, RequestId::from("the id")),
                Subject::Notification | Subject::Unknown => {}
            }
        }
    }
}

#[test]
fn an_id_shows_its_integer_or_its_string() {
    let id = |text: &str| {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{text},"method":"ping"}}"#);
        match Frame::parse(&line.into(), &Limits::default()) {
            Ok(Frame::Single(Message::Request(Request { id, .. }))) => id,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((id("42").as_i64(), id("42").as_str()), (Some(42), None));
    assert_eq!((id("\"42\"").as_i64(), id("\"42\"").as_str()), (None, Some("42")));
    assert_eq!(id(r#""\u0061b""#).as_str(), Some("ab"));
    assert_eq!((RequestId::from(-7).as_i64(), RequestId::from("a").as_str()), (Some(-7), Some("a")));
}

#[test]
fn methods_are_compared_with_text() {
    for (method, text, other) in [(Method::PING, "ping", "pong"), (Method::from("x/y"), "x/y", "x")] {
        assert!(method == *text && method != *other, "{text}");
    }
}
