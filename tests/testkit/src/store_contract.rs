//! What an engine of a store has to do, whatever it is built on: a table of behaviours.
//!
//! ```
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use mcp_proto::Instant;
//! use mcp_proto::InstanceId;
//! use mcp_proto::store::{MemoryStore, StoreAction, StoreResult};
//! use mcp_testkit::store_contract::{self, Engine};
//!
//! struct InMemory(MemoryStore, Instant);
//!
//! impl Engine for InMemory {
//!     fn register(&mut self, instance: InstanceId) {
//!         self.0.register(instance);
//!     }
//!     fn unregister(&mut self, instance: InstanceId) {
//!         self.0.unregister(instance);
//!     }
//!     fn carry_out(&mut self, from: InstanceId, action: StoreAction) -> StoreResult {
//!         self.0.carry_out(from, &action, self.1).unwrap_or(StoreResult::Done)
//!     }
//!     fn receive(&mut self, by: InstanceId, count: usize) -> Vec<Bytes> {
//!         std::iter::from_fn(|| self.0.poll_message(by)).take(count).collect()
//!     }
//!     fn pass(&mut self, time: Duration) {
//!         self.1 += time;
//!     }
//! }
//!
//! for behaviour in store_contract::BEHAVIOURS {
//!     behaviour.check(&mut InMemory(MemoryStore::new(), Instant::START));
//! }
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::InstanceId;
use mcp_proto::store::{After, Record, StoreAction, StoreKey, StoreResult, StoredEvents, StreamId};

/// A store that is checked.
pub trait Engine {
    /// An instance runs from now on. When this returns, the instance is found.
    fn register(&mut self, instance: InstanceId);
    /// An instance has ended. When this returns, the instance is not found any more.
    fn unregister(&mut self, instance: InstanceId);
    /// Carries out an action; returns [`StoreResult::Done`] for one without a key.
    fn carry_out(&mut self, from: InstanceId, action: StoreAction) -> StoreResult;
    /// The next messages for an instance: waits for this many, but not forever.
    fn receive(&mut self, by: InstanceId, count: usize) -> Vec<Bytes>;
    /// This much time passes.
    fn pass(&mut self, time: Duration);
}

/// One thing that every engine has to do.
#[derive(Debug, Clone, Copy)]
pub struct Behaviour {
    /// What it is.
    pub name: &'static str,
    check: fn(&mut Checked<'_>),
}

impl Behaviour {
    /// Checks it.
    ///
    /// # Panics
    ///
    /// If the engine does something else.
    pub fn check(&self, engine: &mut dyn Engine) {
        (self.check)(&mut Checked { engine, name: self.name, asked: 0 });
    }
}

/// All of them. They use different sessions and instances, so that one engine may be checked for all.
pub const BEHAVIOURS: &[Behaviour] = &[
    Behaviour { name: "a record is written if the expected version is stored", check: versions },
    Behaviour { name: "a record expires after it was read or written last", check: expiring_record },
    Behaviour { name: "events are numbered from one, and read from any of them on", check: numbers },
    Behaviour { name: "events that are stored already are left, and a gap is refused", check: repeated_events },
    Behaviour { name: "a stream that has ended has no later events", check: ended_stream },
    Behaviour { name: "the oldest events are removed, and what is missing is not left out", check: trimmed_stream },
    Behaviour { name: "a read returns a limited number of bytes, but one event at least", check: limited_read },
    Behaviour { name: "a stream expires after the last action that adds to it", check: expiring_stream },
    Behaviour {
        name: "the events of a session expire with its record, and are removed with it",
        check: events_of_session,
    },
    Behaviour { name: "the events of a session are there as long as its record", check: events_beside_record },
    Behaviour { name: "a stream that was removed begins again", check: removed_stream },
    Behaviour { name: "sessions and streams with similar names are separate", check: similar_names },
    Behaviour { name: "any bytes can be stored", check: any_bytes },
    Behaviour { name: "long and many events can be stored", check: many_events },
    Behaviour { name: "an instance is found while it runs", check: found_instance },
    Behaviour { name: "messages arrive in order, at the instances that they are for", check: messages },
];

/// Long enough for any machine.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_secs(1);
const INSTANCE: InstanceId = InstanceId::new(0x0123_4567_89ab_cdef);

struct Checked<'e> {
    engine: &'e mut dyn Engine,
    name: &'static str,
    asked: u64,
}

fn id(session: &str) -> Arc<str> {
    session.into()
}

fn stream(session: &str, tag: u64) -> StreamId {
    StreamId { session: id(session), tag }
}

impl Checked<'_> {
    fn ask(&mut self, action: impl FnOnce(StoreKey) -> StoreAction) -> StoreResult {
        self.asked += 1;
        self.engine.carry_out(INSTANCE, action(StoreKey::new(self.asked)))
    }

    fn save(&mut self, session: &str, expected: u64, text: &'static str, expires_in: Duration) -> StoreResult {
        let session = id(session);
        self.ask(|key| StoreAction::Save { key, session, expected, bytes: text.into(), expires_in })
    }

    fn load(&mut self, session: &str, expires_in: Duration) -> Option<Record> {
        let session = id(session);
        match self.ask(|key| StoreAction::Load { key, session, expires_in }) {
            StoreResult::Loaded(record) => record,
            result => panic!("{}: {result:?}", self.name),
        }
    }

    fn forget(&mut self, session: &str) -> StoreResult {
        let session = id(session);
        self.ask(|key| StoreAction::Forget { key, session })
    }

    fn append(&mut self, stream: &StreamId, first: Option<u64>, events: &[&'static str]) -> StoreResult {
        self.append_with(stream, first, events, |_| {})
    }

    fn append_with(
        &mut self,
        stream: &StreamId,
        first: Option<u64>,
        events: &[&'static str],
        change: impl FnOnce(&mut Append),
    ) -> StoreResult {
        let mut with = Append { label: "label", is_last: false, keep: 1 << 30, expires_in: LONG };
        change(&mut with);
        let Append { label, is_last, keep, expires_in } = with;
        let events = events.iter().map(|event| Bytes::from(*event)).collect();
        let (stream, label) = (stream.clone(), label.into());
        self.ask(|key| StoreAction::Append { key, stream, first, events, label, is_last, keep, expires_in })
    }

    fn read(&mut self, stream: &StreamId, after: After, max_bytes: usize) -> Option<StoredEvents> {
        let stream = stream.clone();
        match self.ask(|key| StoreAction::Read { key, stream, after, max_bytes }) {
            StoreResult::Events(events) => events,
            result => panic!("{}: {result:?}", self.name),
        }
    }

    /// The number of the first event after this one, and the texts of all of them.
    fn texts(&mut self, stream: &StreamId, after: u64) -> Option<(u64, String)> {
        self.read(stream, After::Number(after), usize::MAX).map(|read| (read.first, joined(&read)))
    }

    fn find(&mut self, instance: InstanceId) -> StoreResult {
        self.ask(|key| StoreAction::Find { key, instance })
    }

    fn send(&mut self, from: InstanceId, to: Option<InstanceId>, message: impl Into<Bytes>) {
        self.engine.carry_out(from, StoreAction::Send { to, message: message.into() });
    }
}

struct Append {
    label: &'static str,
    is_last: bool,
    keep: usize,
    expires_in: Duration,
}

fn joined(read: &StoredEvents) -> String {
    read.events.iter().map(|event| String::from_utf8_lossy(event)).collect::<Vec<_>>().join(",")
}

fn record(version: u64, text: &'static str) -> Record {
    Record { version, bytes: text.into() }
}

fn texts(first: u64, joined: &str) -> (u64, String) {
    (first, joined.to_owned())
}

fn versions(it: &mut Checked<'_>) {
    use StoreResult::{Conflict, Done};
    assert_eq!(it.load("versions", LONG), None);
    assert_eq!(it.forget("versions"), Done);
    assert_eq!(it.save("versions", 3, "x", LONG), Conflict);
    assert_eq!(it.load("versions", LONG), None);
    assert_eq!(it.save("versions", 0, "a", LONG), Done);
    assert_eq!(it.load("versions", LONG), Some(record(1, "a")));
    assert_eq!(it.save("versions", 1, "b", LONG), Done);
    assert_eq!(it.load("versions", LONG), Some(record(2, "b")));
    for expected in [0, 1, 3] {
        assert_eq!(it.save("versions", expected, "c", LONG), Conflict, "{expected}");
    }
    assert_eq!(it.save("versions", 1, "b", LONG), Done, "the driver repeats an action");
    assert_eq!(it.load("versions", LONG), Some(record(2, "b")));
    assert_eq!(it.forget("versions"), Done);
    assert_eq!(it.load("versions", LONG), None);
    assert_eq!(it.save("versions", 2, "c", LONG), Conflict, "a session that has ended stays so");
    assert_eq!(it.save("versions", 0, "d", LONG), Done);
    assert_eq!(it.load("versions", LONG), Some(record(1, "d")));
}

fn expiring_record(it: &mut Checked<'_>) {
    assert_eq!(it.save("expiring", 0, "a", SHORT), StoreResult::Done);
    assert_eq!(it.save("lasting", 0, "a", SHORT), StoreResult::Done);
    for _ in 0..3 {
        it.engine.pass(SHORT * 6 / 10);
        assert_eq!(it.load("lasting", SHORT), Some(record(1, "a")));
    }
    assert_eq!(it.load("expiring", LONG), None);
    assert_eq!(it.save("lasting", 1, "b", SHORT), StoreResult::Done);
    it.engine.pass(SHORT * 12 / 10);
    assert_eq!(it.load("lasting", LONG), None);
    assert_eq!(it.load("lasting", LONG), None, "a record that is missing is not created");
}

fn numbers(it: &mut Checked<'_>) {
    let of = stream("numbers", 1);
    for after in [After::Number(0), After::Number(1), After::Latest] {
        assert_eq!(it.read(&of, after, 100), None);
    }
    assert_eq!(it.append_with(&of, Some(1), &["a", "b"], |with| with.label = "first"), StoreResult::Done);
    assert_eq!(it.append_with(&of, Some(3), &["c"], |with| with.label = "second"), StoreResult::Done);
    assert_eq!(it.append(&of, None, &["d", "e"]), StoreResult::Done);
    for (after, expected) in [
        (0, Some(texts(1, "a,b,c,d,e"))),
        (2, Some(texts(3, "c,d,e"))),
        (4, Some(texts(5, "e"))),
        (5, Some(texts(6, ""))),
        (6, None),
    ] {
        assert_eq!(it.texts(&of, after), expected, "{after}");
    }
    let latest = it.read(&of, After::Latest, 100).expect("a stream");
    assert_eq!((latest.first, latest.events.len(), latest.is_last, &latest.label[..]), (6, 0, false, &b"first"[..]));
    let other = stream("numbers", 2);
    assert_eq!(it.append(&other, None, &["x"]), StoreResult::Done);
    assert_eq!(it.texts(&other, 0), Some(texts(1, "x")));
    assert_eq!(it.append(&other, None, &["x"]), StoreResult::Done);
    assert_eq!(it.texts(&other, 0), Some(texts(1, "x,x")), "another action with the same events is no repetition");
}

fn repeated_events(it: &mut Checked<'_>) {
    use StoreResult::{Conflict, Done};
    let of = stream("repeated", 1);
    assert_eq!(it.append(&of, Some(2), &["b"]), Conflict);
    assert_eq!(it.read(&of, After::Latest, 100), None);
    assert_eq!(it.append(&of, Some(1), &["a", "b"]), Done);
    assert_eq!(it.append(&of, Some(1), &["a", "b"]), Done);
    assert_eq!(it.append(&of, Some(2), &["other", "c"]), Done);
    assert_eq!(it.append(&of, Some(5), &["e"]), Conflict);
    assert_eq!(it.texts(&of, 0), Some(texts(1, "a,b,c")));
    assert_eq!(it.append(&of, Some(4), &[]), Done);
    assert_eq!(it.append(&of, Some(5), &[]), Conflict);
    assert_eq!(it.texts(&of, 0), Some(texts(1, "a,b,c")));
}

fn ended_stream(it: &mut Checked<'_>) {
    use StoreResult::{Conflict, Done};
    let end = |with: &mut Append| with.is_last = true;
    let of = stream("ended", 1);
    assert_eq!(it.append(&of, Some(1), &["a"]), Done);
    assert_eq!(it.append_with(&of, Some(2), &["b", "c"], end), Done);
    assert_eq!(it.append(&of, Some(4), &["d"]), Conflict);
    assert_eq!(it.append(&of, None, &["d"]), Conflict);
    assert_eq!(it.append_with(&of, Some(2), &["b", "c"], end), Done, "the driver repeats an action");
    assert_eq!(it.append(&of, None, &[]), Done);
    for (after, max_bytes, texts, is_last) in [(0, 100, "a,b,c", true), (0, 2, "a,b", false), (3, 100, "", true)] {
        let read = it.read(&of, After::Number(after), max_bytes).expect("a stream");
        assert_eq!((joined(&read).as_str(), read.is_last), (texts, is_last), "{after}");
    }
    let empty = stream("ended", 2);
    assert_eq!(it.append_with(&empty, Some(1), &[], end), Done);
    let read = it.read(&empty, After::Number(0), 100).expect("a stream");
    assert_eq!((read.first, read.events.len(), read.is_last), (1, 0, true));
}

fn trimmed_stream(it: &mut Checked<'_>) {
    let of = stream("trimmed", 1);
    let keep = |with: &mut Append| with.keep = 6;
    for events in [&["aa", "bb"][..], &["cc"], &["dd"]] {
        assert_eq!(it.append_with(&of, None, events, keep), StoreResult::Done);
    }
    for (after, expected) in
        [(0, None), (1, Some(texts(2, "bb,cc,dd"))), (3, Some(texts(4, "dd"))), (4, Some(texts(5, ""))), (5, None)]
    {
        assert_eq!(it.texts(&of, after), expected, "{after}");
    }
    // An event that is repeated after it was removed.
    assert_eq!(it.append_with(&of, Some(1), &["aa", "bb"], keep), StoreResult::Done);
    assert_eq!(it.texts(&of, 1), Some(texts(2, "bb,cc,dd")));
    assert_eq!(it.append_with(&of, Some(5), &["too long"], keep), StoreResult::Done);
    assert_eq!((it.texts(&of, 4), it.texts(&of, 5)), (None, Some(texts(6, ""))));
    assert_eq!(it.append_with(&of, Some(6), &["ee"], keep), StoreResult::Done);
    assert_eq!(it.texts(&of, 5), Some(texts(6, "ee")));
}

fn limited_read(it: &mut Checked<'_>) {
    let of = stream("limited", 1);
    assert_eq!(it.append(&of, Some(1), &["aaa", "bb", "", "c"]), StoreResult::Done);
    for (after, max_bytes, expected) in
        [(0, 0, "aaa"), (0, 4, "aaa"), (0, 5, "aaa,bb,"), (0, 6, "aaa,bb,,c"), (1, 1, "bb"), (4, 0, "")]
    {
        let read = it.read(&of, After::Number(after), max_bytes).expect("a stream");
        assert_eq!(joined(&read), expected, "{after} {max_bytes}");
    }
}

fn expiring_stream(it: &mut Checked<'_>) {
    let (ending, lasting) = (stream("expiring", 1), stream("expiring", 2));
    let short = |with: &mut Append| with.expires_in = SHORT;
    for of in [&ending, &lasting] {
        assert_eq!(it.append_with(of, Some(1), &["a"], short), StoreResult::Done);
    }
    for _ in 0..3 {
        it.engine.pass(SHORT * 6 / 10);
        assert_eq!(it.append_with(&lasting, Some(2), &[], short), StoreResult::Done);
    }
    assert_eq!(it.texts(&ending, 0), None);
    assert_eq!(it.texts(&lasting, 0), Some(texts(1, "a")));
    assert_eq!(it.append_with(&lasting, Some(2), &["b"], |with| with.expires_in = LONG), StoreResult::Done);
    it.engine.pass(SHORT * 12 / 10);
    assert_eq!(it.texts(&lasting, 0), Some(texts(1, "a,b")));
}

fn events_of_session(it: &mut Checked<'_>) {
    let of = stream("events of it", StreamId::OF_SESSION);
    assert_eq!(it.save("events of it", 0, "a", SHORT), StoreResult::Done);
    assert_eq!(it.append_with(&of, None, &["a"], |with| with.expires_in = SHORT), StoreResult::Done);
    for version in 1..4 {
        it.engine.pass(SHORT * 6 / 10);
        assert_eq!(it.save("events of it", version, "a", SHORT), StoreResult::Done);
        it.engine.pass(SHORT * 6 / 10);
        assert!(it.load("events of it", SHORT).is_some());
    }
    assert_eq!(it.texts(&of, 0), Some(texts(1, "a")));
    assert_eq!(it.forget("events of it"), StoreResult::Done);
    assert_eq!(it.texts(&of, 0), None);
}

/// An engine may keep a record for longer than it was asked for, so that it need not write the record each time.
fn events_beside_record(it: &mut Checked<'_>) {
    let mut has_found = false;
    for is_loaded in [false, true] {
        for percent in [50, 98, 102, 106, 110] {
            let name = &format!("beside {is_loaded} {percent}");
            let of = stream(name, StreamId::OF_SESSION);
            assert_eq!(it.save(name, 0, "a", SHORT), StoreResult::Done);
            assert_eq!(it.append_with(&of, None, &["a"], |with| with.expires_in = SHORT), StoreResult::Done);
            if is_loaded {
                it.engine.pass(SHORT / 20);
                has_found |= it.load(name, SHORT).is_some();
            }
            it.engine.pass(SHORT * percent / 100);
            let events = it.texts(&of, 0);
            if it.load(name, SHORT).is_some() {
                assert_eq!(events, Some(texts(1, "a")), "the record is stored: {name}");
                has_found = true;
            }
        }
    }
    assert!(has_found, "no record was found before its end");
}

fn removed_stream(it: &mut Checked<'_>) {
    let (of, other) = (stream("removed", 1), stream("removed", 2));
    assert_eq!(it.save("removed", 0, "record", LONG), StoreResult::Done);
    for of in [&of, &other] {
        assert_eq!(it.append(of, Some(1), &["a", "b"]), StoreResult::Done);
    }
    it.engine.carry_out(INSTANCE, StoreAction::ForgetStream { stream: of.clone() });
    assert_eq!((it.texts(&of, 0), it.texts(&other, 0)), (None, Some(texts(1, "a,b"))));
    assert_eq!(it.load("removed", LONG), Some(record(1, "record")));
    assert_eq!(it.append_with(&of, Some(1), &["c"], |with| with.label = "again"), StoreResult::Done);
    let read = it.read(&of, After::Number(0), 100).expect("a stream");
    assert_eq!((joined(&read).as_str(), &read.label[..]), ("c", &b"again"[..]));
}

fn similar_names(it: &mut Checked<'_>) {
    const NAMES: [&str; 8] = ["x", "X", "x ", "x:1", "x:0000000000000001", "x*", "", "é\n"];
    const TEXTS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    for (name, text) in NAMES.iter().zip(TEXTS) {
        assert_eq!(it.save(name, 0, text, LONG), StoreResult::Done);
        for tag in [0, 1, u64::MAX] {
            assert_eq!(it.append(&stream(name, tag), Some(1), &[text]), StoreResult::Done);
        }
    }
    for (name, text) in NAMES.iter().zip(TEXTS) {
        assert_eq!(it.load(name, LONG), Some(record(1, text)));
        for tag in [0, 1, u64::MAX] {
            assert_eq!(it.texts(&stream(name, tag), 0), Some(texts(1, text)));
        }
    }
}

fn any_bytes(it: &mut Checked<'_>) {
    let bytes: Vec<u8> = (0..=255).collect();
    let (bytes, session) = (Bytes::from(bytes), id("bytes"));
    let saved = bytes.clone();
    let result = it.ask(|key| StoreAction::Save { key, session, expected: 0, bytes: saved, expires_in: LONG });
    assert_eq!(result, StoreResult::Done);
    assert_eq!(it.load("bytes", LONG), Some(Record { version: 1, bytes: bytes.clone() }));
    let of = stream("bytes", 1);
    let (events, stream, label) = (vec![bytes.clone(), Bytes::new(), bytes.clone()], of.clone(), bytes.clone());
    let (first, is_last, keep) = (Some(1), false, 1 << 20);
    let expires_in = LONG;
    let append = |key| StoreAction::Append { key, stream, first, events, label, is_last, keep, expires_in };
    assert_eq!(it.ask(append), StoreResult::Done);
    let read = it.read(&of, After::Number(0), usize::MAX).expect("a stream");
    assert_eq!((read.events, read.label), (vec![bytes.clone(), Bytes::new(), bytes.clone()], bytes));
}

fn many_events(it: &mut Checked<'_>) {
    let of = stream("many", 1);
    let long: &'static str = Box::leak("x".repeat(1 << 20).into_boxed_str());
    assert_eq!(it.append(&of, Some(1), &[long; 3]), StoreResult::Done);
    for _ in 0..100 {
        assert_eq!(it.append(&of, None, &["y"; 10]), StoreResult::Done);
    }
    let read = it.read(&of, After::Number(1), usize::MAX).expect("a stream");
    assert_eq!((read.first, read.events.len(), read.events[0].len()), (2, 1002, 1 << 20));
    let read = it.read(&of, After::Number(3), 500).expect("a stream");
    assert_eq!((read.first, read.events.len()), (4, 500));
}

fn found_instance(it: &mut Checked<'_>) {
    let instance = InstanceId::new(0xf00);
    assert_eq!(it.find(instance), StoreResult::Found(false));
    it.engine.register(instance);
    assert_eq!(it.find(instance), StoreResult::Found(true));
    assert_eq!(it.find(InstanceId::new(0xf01)), StoreResult::Found(false));
    it.engine.unregister(instance);
    assert_eq!(it.find(instance), StoreResult::Found(false));
}

fn messages(it: &mut Checked<'_>) {
    let [a, b, c] = [0xa1, 0xb2, 0xc3].map(InstanceId::new);
    for instance in [a, b, c] {
        it.engine.register(instance);
    }
    let binary = Bytes::from_static(b"\0\xff\n");
    it.send(a, Some(b), "one");
    it.send(a, None, "two");
    it.send(b, None, "three");
    it.send(a, Some(InstanceId::new(0xdead)), "no instance");
    it.send(a, Some(a), "self");
    it.send(a, Some(b), binary.clone());
    for number in 0..200 {
        it.send(c, Some(b), number.to_string());
    }
    let received = it.engine.receive(b, 203);
    let expected = [Bytes::from("one"), "two".into(), binary].into_iter();
    let expected: Vec<_> = expected.chain((0..200).map(|number: u32| number.to_string().into())).collect();
    assert_eq!(received, expected);
    assert_eq!(it.engine.receive(c, 2), ["two", "three"]);
    assert_eq!(it.engine.receive(a, 2), ["three", "self"]);
    for instance in [a, b, c] {
        it.engine.unregister(instance);
    }
    it.send(a, Some(b), "no instance");
}
