//! The id of an event.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use http::HeaderValue;

use super::fits_a_field;

/// The id of an event, which a client sends back as `Last-Event-ID` to resume the stream after that event.
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
#[derive(Clone)]
pub struct EventId(Text);

/// Ids up to this many bytes are stored inline: a stream may have one with every event, and few are longer.
const SHORT: usize = 22;

#[derive(Clone)]
enum Text {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Arc<str>),
}

impl EventId {
    /// An event id; `None` if it is empty (which means "no id") or contains a CR, LF or NUL.
    ///
    /// Rules: EV-18.
    #[must_use]
    pub fn new(id: &str) -> Option<Self> {
        (!id.is_empty() && fits_a_field(id)).then(|| Self::from_text(id))
    }

    /// The id from the value of an `id` field: invalid UTF-8 becomes U+FFFD (EV-01).
    pub(super) fn from_value(value: &[u8]) -> Self {
        match std::str::from_utf8(value) {
            Ok(id) => Self::from_text(id),
            Err(_) => Self::from_text(&String::from_utf8_lossy(value)),
        }
    }

    fn from_text(id: &str) -> Self {
        let mut bytes = [0; SHORT];
        match (bytes.get_mut(..id.len()), u8::try_from(id.len())) {
            (Some(start), Ok(length)) => {
                start.copy_from_slice(id.as_bytes());
                Self(Text::Short { length, bytes })
            }
            _ => Self(Text::Long(id.into())),
        }
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Short { length, bytes } => {
                bytes.get(..usize::from(*length)).and_then(|id| std::str::from_utf8(id).ok()).unwrap_or_default()
            }
            Text::Long(id) => id,
        }
    }

    /// The id as the value of `Last-Event-ID`; `None` if a header cannot contain it unchanged; then the stream cannot
    /// be resumed.
    ///
    /// Rules: SS6.
    #[must_use]
    pub fn to_header_value(&self) -> Option<HeaderValue> {
        let bytes = self.as_str().as_bytes();
        let trimmed = bytes.first() != Some(&b' ') && bytes.last() != Some(&b' ');
        let visible = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
        if trimmed && visible { HeaderValue::from_bytes(bytes).ok() } else { None }
    }
}

impl PartialEq for EventId {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for EventId {}

impl PartialOrd for EventId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EventId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for EventId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

/// Shows only the length, because some servers put a session handle into the id.
impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventId({} bytes)", self.as_str().len())
    }
}
