//! Server-sent events (WHATWG HTML 9.2), the framing of every streamed HTTP body in MCP.
//!
//! | file | what it does |
//! |---|---|
//! | `decode` | bytes to lines, lines to events, retry times, cursors and comments |
//! | `block` | splits a line into field and value, collects the fields of one event, and dispatches it |
//! | `event_id` | the id of an event, after which a stream can be resumed |
//! | `encode` | events to bytes |

mod block;
mod decode;
mod encode;
mod event_id;

use std::borrow::Cow;

pub use decode::{Decoder, End, Event, Item, TooLarge};
pub use encode::{encode_comment, encode_cursor, encode_event, encode_retry};
pub use event_id::EventId;

/// The type of an event: `message` unless the stream sets another one.
///
/// # Example: a name that would begin another line is refused
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
    /// The type of an event without a type field.
    pub const MESSAGE: Self = Self(Cow::Borrowed("message"));
    /// The event that contains the URL to which a client of 2024-11-05 sends its POSTs.
    ///
    /// Rules: HS-02.
    pub const ENDPOINT: Self = Self(Cow::Borrowed("endpoint"));

    /// A name for an event; `None` if it is empty or contains a CR, LF or NUL, which the format cannot represent.
    ///
    /// Rules: P13.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        (!name.is_empty() && fits_a_field(name)).then(|| Self::from_text(name.into()))
    }

    fn from_text(name: Cow<'_, str>) -> Self {
        Self(Cow::Owned(name.into_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn fits_a_field(text: &str) -> bool {
    !text.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}
