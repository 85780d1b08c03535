//! The pages of one server's list, and where a client continues to read them.
//!
//! A cursor of the client contains, for each server whose list goes on, the place in this list and how much of it was read
//! before, so that nothing is stored between two requests. Each list of a server is bounded by itself: in pages, bytes and
//! time for all requests of one reading, and by its share of each answer.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::{ErrorObject, Instant, Json, RequestKey};

use super::config::Config;
use super::event::ServerKey;
use super::list_kind::ListKind;
use super::origin::{origin_of, with_origin};
use super::prefixes::Prefixes;

/// The maximum number of pages of one server in one answer.
const PAGES: usize = 64;
/// The maximum number of pages of one server that a client reads one after the other, and the maximum time for that.
const PAGES_OF_READING: u64 = 1024;
const TIME_OF_READING: Duration = Duration::from_secs(30);
/// The maximum length of a server's cursor.
const CURSOR: usize = 8 * 1024;

/// A page of a server's list: the first one, or the one with this cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    First,
    At(Json),
}

/// How much of a server's list is requested for one answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pages: usize,
    bytes: usize,
}

/// How much of a server's list a client has read with earlier requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) pages: u64,
    pub(super) bytes: u64,
    pub(super) milliseconds: u64,
}

/// Where a client continues to read the list of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) server: ServerKey,
    pub(super) place: Place,
    pub(super) before: Reading,
}

/// A page of a server's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) place: Place,
    pub(super) content: Json,
}

/// The pages of one server in a list that is being composed.
#[derive(Debug)]
pub(super) struct Part {
    /// The request for a page.
    pub(super) asked: Option<(RequestKey, Place)>,
    pub(super) pages: Vec<Page>,
    /// The place of the page that follows.
    pub(super) next: Option<Place>,
    /// Why the next page is missing.
    pub(super) error: Option<ErrorObject>,
    pub(super) before: Reading,
    bytes: usize,
    /// The part begins with the first page of the list, which the server has sent for this answer.
    pub(super) is_fresh: bool,
    /// Until when the pages are valid, if they were not requested for this answer.
    pub(super) until: Option<Instant>,
    /// The filter of the server has changed since a page was read.
    pub(super) is_stale: bool,
}

/// What follows a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Nothing,
    /// This page, which is to be requested for the same answer.
    Page(Place),
    /// A page that is to be requested for a later answer.
    Later,
    /// More pages than the list of a server may have.
    TooMany,
}

impl Share {
    /// The share of an answer that has this number of bytes of the server.
    pub(super) const fn of_answer(bytes: usize) -> Self {
        Self { pages: PAGES, bytes }
    }

    /// The share of a list that is kept.
    pub(super) const fn of_kept(bytes: usize) -> Self {
        Self { pages: usize::MAX, bytes }
    }
}

impl Place {
    /// The parameters of a request for the page.
    pub(super) fn params(&self, params: Option<&Json>) -> Option<Json> {
        match self {
            Self::First => params.cloned(),
            Self::At(cursor) => {
                let params = params.cloned().unwrap_or(Json::empty_object());
                Some(params.with_member("cursor", cursor))
            }
        }
    }
}

impl Position {
    /// The beginning of a server's list.
    pub(super) fn first(server: ServerKey) -> Self {
        Self { server, place: Place::First, before: Reading::default() }
    }

    /// Encodes all positions as one cursor for the client.
    pub(super) fn to_cursor(all: &[Self], kind: ListKind, prefixes: &Prefixes) -> Json {
        let all: Vec<_> = all.iter().map(|position| position.to_json(prefixes)).collect();
        // Some clients do not escape cursors.
        let text = URL_SAFE_NO_PAD.encode(Json::array(&all).as_bytes());
        Json::from(with_origin(kind.method().as_str(), &text))
    }

    /// The positions in a cursor of the client; `None` if it is not one of this list.
    pub(super) fn from_cursor(cursor: &Json, kind: ListKind, prefixes: &Prefixes) -> Option<Vec<Self>> {
        let cursor = cursor.as_string()?;
        let (method, positions) = origin_of(&cursor)?;
        if method != kind.method().as_str() {
            return None;
        }
        let positions = URL_SAFE_NO_PAD.decode(positions).ok()?;
        let positions = Json::parse(positions).ok().filter(Json::is_array)?;
        positions.elements().map(|position| Self::from_json(&position, prefixes)).collect()
    }

    fn to_json(&self, prefixes: &Prefixes) -> Json {
        let Reading { pages, bytes, milliseconds } = self.before;
        let mut parts = vec![Json::from(prefixes.tag(self.server))];
        parts.extend([pages, bytes, milliseconds].map(Json::from));
        if let Place::At(cursor) = &self.place {
            parts.push(cursor.clone());
        }
        Json::array(&parts)
    }

    fn from_json(position: &Json, prefixes: &Prefixes) -> Option<Self> {
        let mut parts = position.elements();
        let server = prefixes.with_tag(&parts.next()?.as_string()?)?;
        let mut number = || parts.next()?.read::<u64>().ok();
        let before = Reading { pages: number()?, bytes: number()?, milliseconds: number()? };
        let place = parts.next().map_or(Place::First, Place::At);
        Some(Self { server, place, before })
    }
}

impl Part {
    /// The part of a server whose list is read from this position on.
    pub(super) fn new(position: &Position) -> Self {
        Self {
            asked: None,
            pages: Vec::new(),
            next: None,
            error: None,
            before: position.before,
            bytes: 0,
            is_fresh: position.place == Place::First,
            until: None,
            is_stale: false,
        }
    }

    /// The part of a server whose pages were read earlier.
    pub(super) fn of_kept(position: &Position, pages: Vec<Page>, next: Option<Place>) -> Self {
        let bytes = pages.iter().map(|page| page.content.len()).sum();
        Self { pages, next, bytes, is_fresh: false, ..Self::new(position) }
    }

    /// Whether the server has sent the whole list for this answer.
    pub(super) fn is_whole(&self) -> bool {
        self.is_fresh && self.next.is_none() && self.error.is_none() && !self.pages.is_empty()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the page that was requested. Returns what follows, if a server has this share.
    pub(super) fn add(
        &mut self,
        place: Place,
        content: Json,
        share: Share,
        waited: Duration,
        config: &Config,
    ) -> Follows {
        let next = content.first_member("nextCursor").filter(|next| next.as_string().is_some());
        let next = next.map(|next| Place::At(next.detached_from(content.len())));
        self.bytes = self.bytes.saturating_add(content.len());
        let is_same = next.as_ref() == Some(&place);
        // A server that does not look at cursors returns its only page again.
        let is_repeated = is_same && self.pages.last().is_some_and(|last| last.content == content);
        if !is_repeated {
            self.pages.push(Page { place, content });
        }
        let Some(next) = next else { return Follows::Nothing };
        let is_too_long = matches!(&next, Place::At(cursor) if cursor.len() > CURSOR);
        // A server whose next page is the same one again has a list without an end.
        if is_same || is_too_long || self.has_reached_the_end_of_reading(waited, config) {
            return Follows::TooMany;
        }
        if self.pages.len() >= share.pages || self.bytes >= share.bytes {
            self.next = Some(next);
            return Follows::Later;
        }
        Follows::Page(next)
    }

    fn has_reached_the_end_of_reading(&self, waited: Duration, config: &Config) -> bool {
        let read = self.read(self.pages.len(), waited);
        let most = u64::try_from(config.relay.limits.held).unwrap_or(u64::MAX);
        let time = u64::try_from(TIME_OF_READING.as_millis()).unwrap_or(u64::MAX);
        read.pages >= PAGES_OF_READING || read.bytes >= most || read.milliseconds >= time
    }

    /// How much the client has read after this number of pages and this waiting time.
    fn read(&self, pages: usize, waited: Duration) -> Reading {
        let bytes: usize = self.pages.iter().take(pages).map(|page| page.content.len()).sum();
        let to_number = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        Reading {
            pages: self.before.pages.saturating_add(to_number(pages)),
            bytes: self.before.bytes.saturating_add(to_number(bytes)),
            milliseconds: self.before.milliseconds.saturating_add(waited),
        }
    }

    /// Where the client continues after this number of pages; `None` if there is no more.
    pub(super) fn position(&self, server: ServerKey, pages: usize, waited: Duration) -> Option<Position> {
        let place = self.pages.get(pages).map(|page| &page.place).or(self.next.as_ref())?.clone();
        Some(Position { server, place, before: self.read(pages, waited) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::ServerConfig;
    use crate::relay;

    fn prefixes() -> Prefixes {
        let servers = ["a", "b"].map(|name| ServerConfig::new(name, relay::Config::default()));
        Prefixes::new(&servers).expect("different prefixes")
    }

    fn page(next: &str) -> Json {
        Json::parse(format!(r#"{{"tools":[],"nextCursor":{next}}}"#)).expect("JSON")
    }

    #[test]
    fn a_cursor_has_the_positions_of_all_servers_and_belongs_to_one_list() {
        let [a, b] = [0, 1].map(ServerKey::new);
        let before = Reading { pages: 1, bytes: 2, milliseconds: 3 };
        let positions = [
            Position::first(a),
            Position { server: b, place: Place::At(Json::from("\"x\".\u{1f980}")), before },
            Position { server: b, place: Place::At(Json::from("")), before },
        ];
        let cursor = Position::to_cursor(&positions, ListKind::Tools, &prefixes());
        assert_eq!(Position::from_cursor(&cursor, ListKind::Tools, &prefixes()).as_deref(), Some(&positions[..]));
        assert_eq!(Position::from_cursor(&cursor, ListKind::Prompts, &prefixes()), None);
        for other in ["", "x", "tools/list.[]"] {
            assert_eq!(Position::from_cursor(&Json::from(other), ListKind::Tools, &prefixes()), None, "{other}");
        }
        for malformed in ["{}", "[1]", r#"[["c",0,0,0]]"#, r#"[["a",0,0]]"#, r#"[["a",-1,0,0]]"#, "[[]]"] {
            let cursor = Json::from(with_origin("tools/list", &URL_SAFE_NO_PAD.encode(malformed)));
            let found = Position::from_cursor(&cursor, ListKind::Tools, &prefixes());
            assert_eq!(found, None, "{malformed}");
        }
    }

    #[test]
    fn a_list_ends_at_the_bounds_of_its_server() {
        let config = Config::new("all", "1.0.0");
        let most = u64::try_from(config.relay.limits.held).expect("small");
        let long = format!("\"{}\"", "c".repeat(CURSOR));
        let (first, again) = (Place::First, Place::At(Json::from("1")));
        let none = Reading::default();
        for (before, place, next, waited, expected) in [
            (none, &first, "\"1\"", 0, Follows::Page(again.clone())),
            (none, &first, "null", 0, Follows::Nothing),
            (none, &again, "\"1\"", 0, Follows::TooMany),
            (none, &first, long.as_str(), 0, Follows::TooMany),
            (none, &first, "\"1\"", 29, Follows::Page(again.clone())),
            (none, &first, "\"1\"", 30, Follows::TooMany),
            (Reading { milliseconds: 29_000, ..none }, &first, "\"1\"", 1, Follows::TooMany),
            (Reading { pages: PAGES_OF_READING - 2, ..none }, &first, "\"1\"", 0, Follows::Page(again.clone())),
            (Reading { pages: PAGES_OF_READING - 1, ..none }, &first, "\"1\"", 0, Follows::TooMany),
            (Reading { bytes: most - 1, ..none }, &first, "\"1\"", 0, Follows::TooMany),
        ] {
            let position = Position { before, ..Position::first(ServerKey::new(0)) };
            let mut part = Part::new(&position);
            let follows =
                part.add(place.clone(), page(next), Share::of_answer(1000), Duration::from_secs(waited), &config);
            assert_eq!(follows, expected, "{before:?} {place:?} {waited}");
            assert!(part.next.is_none());
        }
    }

    #[test]
    fn a_server_has_its_share_of_an_answer() {
        let config = Config::new("all", "1.0.0");
        let a = ServerKey::new(0);
        for (share, expected) in [
            (Share::of_answer(1), 1),
            (Share::of_answer(58), 2),
            (Share::of_answer(usize::MAX), PAGES),
            (Share::of_kept(58), 2),
            (Share::of_kept(100 * page("\"10\"").len() - 20), 100),
        ] {
            let mut part = Part::new(&Position::first(a));
            let mut place = Place::First;
            for number in 1..=expected {
                let follows = part.add(place, page(&format!("\"{number}\"")), share, Duration::ZERO, &config);
                let next = Place::At(Json::from(number.to_string()));
                let is_last = number == expected;
                assert_eq!(follows, if is_last { Follows::Later } else { Follows::Page(next.clone()) });
                place = next;
            }
            assert_eq!(part.pages.len(), expected);
            let last = part.position(a, expected, Duration::from_millis(7)).expect("more follows");
            assert_eq!(last.place, Place::At(Json::from(expected.to_string())));
            let pages = u64::try_from(expected).expect("small");
            assert_eq!((last.before.pages, last.before.milliseconds), (pages, 7));
            let first = part.position(a, 0, Duration::ZERO).expect("more follows");
            assert_eq!(first, Position::first(a), "nothing was taken");
        }
    }
}
