//! Server-sent events (WHATWG HTML 9.2), the framing of every streamed HTTP body in MCP.
//!
//! | file | what it does |
//! |---|---|
//! | `decode` | bytes to lines, lines to events, retry times, cursors and comments |
//! | `field` | a line to the field that it sets |
//! | `block` | the event that is being put together, and its dispatch |
//! | `encode` | the same back to bytes |

mod block;
mod decode;
mod encode;
mod field;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::HeaderValue;

pub use decode::{Decoder, End, Event, Item, TooLarge};
pub use encode::{encode_comment, encode_cursor, encode_event, encode_retry};

/// The type of an event: `message` unless the stream says otherwise.
///
/// # Example: what cannot be written cannot be built
///
/// ```
/// use mcp_proto::sse::EventName;
///
/// assert_eq!(EventName::new("endpoint").unwrap(), EventName::ENDPOINT);
/// assert!(EventName::new("message\ndata: forged").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventName(Cow<'static, str>);

impl EventName {
    /// The type of an event that names none.
    pub const MESSAGE: Self = Self(Cow::Borrowed("message"));
    /// The event that tells a client of 2024-11-05 where to POST (HS-02).
    pub const ENDPOINT: Self = Self(Cow::Borrowed("endpoint"));

    /// A name for an event; `None` if it is empty or has a CR, LF or NUL, which no stream can carry (P13).
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        (!name.is_empty() && fits_a_field(name)).then(|| Self::from_text(name.into()))
    }

    fn from_text(name: Cow<'_, str>) -> Self {
        match name.as_ref() {
            "message" => Self::MESSAGE,
            "endpoint" => Self::ENDPOINT,
            _ => Self(Cow::Owned(name.into_owned())),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The id of an event, which a client sends back as `Last-Event-ID` to go on after it.
///
/// # Example
///
/// ```
/// use mcp_proto::sse::EventId;
///
/// let id = EventId::new("stream-4/17").unwrap();
/// assert_eq!(id.to_header_value().unwrap(), "stream-4/17");
/// assert!(EventId::new("café").unwrap().to_header_value().is_none());
/// assert!(EventId::new("1\nretry: 0").is_none());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(Arc<str>);

impl EventId {
    /// An event id; `None` if it is empty (which means "no id", EV-18) or has a CR, LF or NUL.
    #[must_use]
    pub fn new(id: &str) -> Option<Self> {
        (!id.is_empty() && fits_a_field(id)).then(|| Self(id.into()))
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as the value of `Last-Event-ID`; `None` if no header can carry it unchanged (SS6), in which case the
    /// stream cannot be resumed.
    #[must_use]
    pub fn to_header_value(&self) -> Option<HeaderValue> {
        let bytes = self.0.as_bytes();
        let trimmed = bytes.first() != Some(&b' ') && bytes.last() != Some(&b' ');
        let visible = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
        if trimmed && visible { HeaderValue::from_bytes(bytes).ok() } else { None }
    }
}

/// Shows the length only: some servers make the id a handle of the session.
impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventId({} bytes)", self.0.len())
    }
}

fn fits_a_field(text: &str) -> bool {
    !text.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}
