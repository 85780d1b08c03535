//! The resources that a legacy client has subscribed to, bounded in number and bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcp_proto::Json;

/// The maximum number of resources.
const URIS: usize = 512;
/// The maximum of the bytes of their URIs together.
const URI_BYTES: usize = 32 * 1024;

/// The URIs of the resources.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    uris: BTreeSet<Arc<str>>,
    bytes: usize,
}

impl Watched {
    /// Whether this URI is contained.
    pub(crate) fn contains(&self, uri: &str) -> bool {
        self.uris.contains(uri)
    }

    /// Whether this URI is contained or can be added.
    pub(crate) fn has_room_for(&self, uri: &str) -> bool {
        self.contains(uri) || (self.uris.len() < URIS && self.bytes + uri.len() <= URI_BYTES)
    }

    /// Adds a URI; the caller has checked that there is room.
    pub(crate) fn insert(&mut self, uri: Arc<str>) {
        let length = uri.len();
        if self.uris.insert(uri) {
            self.bytes += length;
        }
    }

    pub(crate) fn remove(&mut self, uri: &str) {
        if self.uris.remove(uri) {
            self.bytes -= uri.len();
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.uris.iter()
    }

    /// The URIs as an array; `None` if there are none.
    pub(crate) fn to_json(&self) -> Option<Json> {
        let uris: Vec<&str> = self.uris.iter().map(|uri| &**uri).collect();
        if uris.is_empty() { None } else { Json::from_serialize(&uris).ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_bounded_in_number_and_in_bytes() {
        let mut watched = Watched::default();
        let half = "h".repeat(URI_BYTES / 2);
        watched.insert(half.as_str().into());
        watched.insert(half.as_str().into());
        assert!(
            watched.has_room_for(&"r".repeat(URI_BYTES / 2)) && !watched.has_room_for(&"r".repeat(URI_BYTES / 2 + 1))
        );
        watched.remove("another");
        watched.remove(&half);
        assert_eq!((watched.bytes, watched.to_json()), (0, None));
        for number in 0..URIS {
            let uri = number.to_string();
            assert!(watched.has_room_for(&uri));
            watched.insert(uri.into());
        }
        assert!(!watched.has_room_for("x") && watched.has_room_for("0") && watched.iter().count() == URIS);
    }
}
