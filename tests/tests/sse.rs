//! The SSE decoder and encoder.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mcp_proto::CowBytes;
use mcp_proto::sse::{
    Decoder, End, Event, EventId, EventName, Item, TooLarge, encode_comment, encode_cursor, encode_event, encode_retry,
};
use mcp_testkit::chunks::{cut, each_cut};
use mcp_testkit::oracle;
use mcp_testkit::oracle::SseItem;
use proptest::prelude::*;
use tests::vectors;

const ROOMY: usize = 1 << 20;

fn decode(pieces: &[&[u8]], limit: usize, field_limit: usize) -> (Vec<Result<SseItem, TooLarge>>, End) {
    let mut decoder = Decoder::new(limit, field_limit);
    let mut items = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(item) = decoder.decode(&mut input) {
            items.push(item.map(SseItem::from));
        }
        assert!(input.is_empty(), "the decoder takes all of its input");
    }
    (items, decoder.finish())
}

#[derive(serde::Deserialize)]
struct Vectors {
    vectors: Vec<Vector>,
}

#[derive(serde::Deserialize)]
struct Vector {
    name: String,
    input_base64: String,
    events: Vec<VectorEvent>,
    retry: Option<serde_json::Number>,
    last_event_id: String,
}

#[derive(serde::Deserialize, Debug, PartialEq)]
struct VectorEvent {
    event: String,
    data: String,
    id: String,
}

#[test]
fn every_stream_of_the_collection_gives_its_events_however_it_is_cut() {
    let text = std::fs::read(vectors::path("sse-vectors.json")).unwrap();
    let vectors: Vectors = serde_json::from_slice(&text).unwrap();
    assert_eq!(vectors.vectors.len(), 111);
    for vector in vectors.vectors {
        let stream = STANDARD.decode(&vector.input_base64).unwrap();
        let cuts: Vec<_> = if stream.len() < 500 {
            each_cut(&stream).collect()
        } else {
            vec![vec![&stream[..]], cut(&stream, &[1]), cut(&stream, &[1448])]
        };
        for pieces in cuts {
            check_vector(&vector, &pieces);
        }
    }
}

fn check_vector(vector: &Vector, pieces: &[&[u8]]) {
    let mut decoder = Decoder::new(ROOMY, ROOMY);
    let mut events = Vec::new();
    let mut retry = None;
    for piece in pieces {
        let mut input = *piece;
        while let Some(item) = decoder.decode(&mut input) {
            match item.unwrap() {
                Item::Event(event) => events.push(VectorEvent {
                    event: event.name.as_str().to_owned(),
                    data: event.data_lossy().into_owned(),
                    id: event.id.map(|id| id.as_str().to_owned()).unwrap_or_default(),
                }),
                Item::Retry(after) => retry = Some(after),
                Item::Cursor(_) | Item::Comment => {}
            }
        }
    }
    assert_eq!(events, vector.events, "{}", vector.name);
    assert_eq!(decoder.cursor().map(EventId::as_str).unwrap_or_default(), vector.last_event_id, "{}", vector.name);
    match &vector.retry {
        None => assert_eq!(retry, None, "{}", vector.name),
        // A number above `u64::MAX` saturates.
        Some(number) => {
            let expected = Duration::from_millis(number.as_u64().unwrap_or(u64::MAX));
            assert_eq!(retry, Some(expected), "{}", vector.name);
        }
    }
}

#[test]
fn ev04_a_cr_ends_its_line_without_waiting_for_the_next_byte() {
    let mut decoder = Decoder::new(ROOMY, ROOMY);
    let mut input = &b"data: a\r\r"[..];
    assert!(matches!(decoder.decode(&mut input), Some(Ok(Item::Event(_)))));
}

#[test]
fn an_event_in_one_chunk_is_lent_and_one_in_many_is_not_copied_twice() {
    let mut decoder = Decoder::new(ROOMY, ROOMY);
    let stream = b"event: message\ndata: {\"a\":1}\n\n";
    let mut input = &stream[..];
    let Some(Ok(Item::Event(Event { data: CowBytes::Borrowed(data), .. }))) = decoder.decode(&mut input) else {
        panic!("not lent");
    };
    assert!(stream.as_ptr_range().contains(&data.as_ptr()));
}

#[test]
fn ss1_an_event_over_the_limit_ends_the_stream_after_its_neighbours_were_delivered() {
    let limit = 64;
    let fits = format!("data: {}\n\n", "x".repeat(limit));
    for (name, stream, delivered) in [
        ("one long line", format!("{fits}data: {}\n\n", "x".repeat(limit + 1)), 1),
        ("a line that never ends", format!("{fits}data: {}", "x".repeat(10 * limit)), 1),
        ("many data lines", format!("{fits}{}", "data: x\n".repeat(limit)), 1),
        ("a long type", format!("event: {}\ndata: x\n\n", "x".repeat(limit)), 0),
        ("a long id", format!("id: {}\ndata: x\n\n", "x".repeat(limit)), 0),
        ("a type that never ends", format!("{fits}event: {}", "x".repeat(10 * limit)), 1),
        ("an id that never ends", format!("{fits}id: {}", "x".repeat(10 * limit)), 1),
    ] {
        for pieces in [vec![stream.as_bytes()], cut(stream.as_bytes(), &[1]), cut(stream.as_bytes(), &[7, 3])] {
            let (items, _) = decode(&pieces, limit, limit);
            let (last, before) = items.split_last().unwrap();
            assert_eq!(last, &Err(TooLarge { limit }), "{name}");
            assert_eq!(before.len(), delivered, "{name}");
        }
    }
}

#[test]
fn ev_22_what_set_nothing_counts_for_no_later_event() {
    let limit = 8;
    let stream = "event: type\nevent:\n:\n\n".repeat(3) + "data: " + &"x".repeat(limit) + "\n\n";
    for pieces in each_cut(stream.as_bytes()) {
        let (items, _) = decode(&pieces, limit, limit);
        assert!(matches!(items.last(), Some(Ok(SseItem::Event { data, .. })) if data.len() == limit), "{items:?}");
    }
}

#[test]
fn ss2_ss3_comments_and_unknown_fields_of_any_length_are_skipped() {
    let limit = 32;
    for (junk, comments) in [(format!(":{}", "c".repeat(1000)), 1), (format!("unknown{}", "u".repeat(1000)), 0)] {
        let stream = format!("{junk}\ndata: x\n\n{junk}\r\n");
        for pieces in each_cut(stream.as_bytes()) {
            let (items, _) = decode(&pieces, limit, limit);
            let events = items.iter().filter(|item| matches!(item, Ok(SseItem::Event { .. }))).count();
            let seen = items.iter().filter(|item| matches!(item, Ok(SseItem::Comment))).count();
            assert_eq!((events, seen, items.len()), (1, 2 * comments, 1 + 2 * comments));
        }
    }
}

#[test]
fn ss6_an_id_that_no_header_can_carry_is_kept_out_of_last_event_id() {
    for (id, header) in [("7", Some("7")), ("a b:c", Some("a b:c")), ("é", None), ("x\u{1}", None), (" x", None)] {
        let mut decoder = Decoder::new(ROOMY, 16);
        assert!(decoder.decode(&mut format!("id: {id}\n\n").as_bytes()).is_some());
        let cursor = decoder.cursor().unwrap();
        assert_eq!(cursor.as_str(), id);
        assert_eq!(cursor.to_header_value().as_ref().and_then(|value| value.to_str().ok()), header);
    }
    let (items, _) = decode(&[format!("id: {}\n\n", "9".repeat(17)).as_bytes()], ROOMY, 16);
    assert_eq!(items, [Ok(SseItem::Cursor(String::new()))]);
}

#[test]
fn event_ids_are_compared_by_their_text_and_show_their_length_only() {
    let hash = |id: &EventId| BuildHasherDefault::<DefaultHasher>::default().hash_one(id);
    let ids = ["1", "2", "stream-4/0000000000000017", "stream-4/0000000000000018"];
    for (one, first) in ids.iter().enumerate() {
        for (other, second) in ids.iter().enumerate() {
            let (first, second) = (EventId::new(first).unwrap(), EventId::new(second).unwrap());
            assert_eq!(first == second, one == other);
            assert_eq!(first.partial_cmp(&second), Some(one.cmp(&other)));
            assert_eq!(hash(&first) == hash(&second), one == other);
        }
    }
    assert_eq!(format!("{:?}", EventId::new("secret").unwrap()), "EventId(6 bytes)");
}

#[test]
fn ss7_retry_takes_digits_only_and_saturates() {
    for (value, expected) in [
        ("0", Some(0)),
        ("500", Some(500)),
        ("-1", None),
        ("1e3", None),
        (" 1", None),
        ("", None),
        ("99999999999999999999", Some(u64::MAX)),
    ] {
        let (items, _) = decode(&[format!("retry: {value}\n").as_bytes()], ROOMY, ROOMY);
        let expected: Vec<_> = expected.into_iter().map(|ms: u64| Ok(SseItem::Retry(ms.into()))).collect();
        assert_eq!(items, expected, "{value}");
    }
}

#[test]
fn ss14_a_hundred_thousand_events_in_one_chunk_all_arrive() {
    let mut stream = b"data: x\n\n".repeat(100_000);
    stream.extend_from_slice(b"data: lost\n");
    let (items, end) = decode(&[&stream], ROOMY, ROOMY);
    assert_eq!(items.len(), 100_000);
    assert_eq!(end, End::InsideEvent);
}

#[test]
fn what_the_other_encoders_write_is_read_back() {
    let mut stream = Vec::new();
    let id = EventId::new("a/1").unwrap();
    encode_comment(&mut stream);
    encode_retry(Duration::from_millis(1500), &mut stream);
    encode_cursor(&id, &mut stream);
    let (items, end) = decode(&[&stream], ROOMY, ROOMY);
    assert_eq!(end, End::Clean);
    // A block with an empty data line is an event, whose data is not parsed (EV-20).
    let cursor = SseItem::Event { name: "message".into(), data: Vec::new(), id: "a/1".into() };
    assert_eq!(items, [Ok(SseItem::Comment), Ok(SseItem::Retry(1500)), Ok(cursor)]);
}

/// Streams of the tokens that matter to the grammar.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        4 => prop::sample::select(vec![
            "data", "data:", "data: ", "event:", "event: message", "event: endpoint", "id", "id:", "id: ", "retry: ", ":", "\r", "\n",
            "\r\n", "\n\n", "data: x\n\n", "unknown: ", "7", "a b", "\u{feff}", "é", "\0",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::sample::select(vec![&b"\xff"[..], b"\xef", b"\xef\xbb", b"\xc3", b"\xf0\x9f"]).prop_map(<[u8]>::to_vec),
    ];
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

#[test]
fn ss11_a_name_that_no_stream_can_carry_is_none() {
    for name in ["", "a\nb", "a\rb", "a\0b"] {
        assert!(EventName::new(name).is_none(), "{name:?}");
    }
    assert_eq!(EventName::new("message"), Some(EventName::MESSAGE));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn ss4_any_chunking_gives_what_a_naive_reader_gives(
        stream in stream(),
        cuts in prop::collection::vec(1_usize..9, 1..20),
    ) {
        let (expected, end) = oracle::sse(&stream);
        let expected: Vec<_> = expected.into_iter().map(Ok).collect();
        prop_assert_eq!(decode(&[&stream], ROOMY, ROOMY), (expected.clone(), end));
        prop_assert_eq!(decode(&cut(&stream, &cuts), ROOMY, ROOMY), (expected, end));
    }

    #[test]
    fn limits_act_alike_in_any_chunking(
        stream in stream(),
        cuts in prop::collection::vec(1_usize..9, 1..20),
        limit in 1_usize..40,
    ) {
        prop_assert_eq!(decode(&cut(&stream, &cuts), limit, 4).0, decode(&[&stream], limit, 4).0);
    }

    #[test]
    fn ss11_what_is_written_is_read_back(
        data in "[a-z\r\n: ]{0,40}",
        name in "[a-z:]{1,8}",
        id in prop::option::of("[ -~]{1,12}"),
        cuts in prop::collection::vec(1_usize..9, 1..20),
    ) {
        let name = EventName::new(&name).unwrap();
        let id = id.and_then(|id| EventId::new(&id));
        let mut stream = Vec::new();
        encode_event(&name, data.as_bytes(), id.as_ref(), &mut stream);
        let (items, end) = decode(&cut(&stream, &cuts), ROOMY, ROOMY);
        prop_assert_eq!(end, End::Clean);
        let data = data.replace("\r\n", "\n").replace('\r', "\n");
        let id = id.map(|id| id.as_str().to_owned()).unwrap_or_default();
        let event = SseItem::Event { name: name.as_str().to_owned(), data: data.into(), id };
        prop_assert_eq!(items, vec![Ok(event)]);
    }
}
