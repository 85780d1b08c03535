//! The names of keys.

use std::fmt::Write as _;
use std::sync::Arc;

use mcp_proto::InstanceId;
use mcp_proto::store::StreamId;
use sha2::{Digest, Sha256};

/// The names of keys with a prefix. Session ids are secrets, while names of keys appear in logs and in tools of operators:
/// a name has the digest of the id.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: Arc<str>,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.into() }
    }

    /// The record of a session.
    pub(super) fn record(&self, session: &str) -> String {
        format!("{}:s:{}", self.prefix, digest(session))
    }

    /// A stream of a session.
    pub(super) fn stream(&self, stream: &StreamId) -> String {
        format!("{}:e:{}:{:x}", self.prefix, digest(&stream.session), stream.tag)
    }

    /// The stream that expires with the record of its session.
    pub(super) fn stream_of_session(&self, session: &Arc<str>) -> String {
        self.stream(&StreamId { session: Arc::clone(session), tag: StreamId::OF_SESSION })
    }

    /// The messages to an instance; this key exists while the instance runs.
    pub(super) fn instance(&self, instance: InstanceId) -> String {
        format!("{}{instance}", self.instance_prefix())
    }

    /// The names of the keys of all instances begin with this.
    pub(super) fn instance_prefix(&self) -> String {
        format!("{}:i:", self.prefix)
    }

    /// The set of the instances that run, and perhaps of others.
    pub(super) fn instances(&self) -> String {
        format!("{}:instances", self.prefix)
    }

    /// The last message that an instance has sent.
    pub(super) fn sent(&self, instance: InstanceId) -> String {
        format!("{}:m:{instance}", self.prefix)
    }
}

/// The first 128 bits of the SHA-256 digest, in hexadecimal.
fn digest(session: &str) -> String {
    let digest = Sha256::digest(session.as_bytes());
    digest.iter().take(16).fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_contains_a_session_id() {
        let (keys, session) = (Keys::new("mcp"), "0123456789abcdef0123456789abcdef");
        // From `printf 0123456789abcdef0123456789abcdef | sha256sum`.
        assert_eq!(keys.record(session), "mcp:s:3eb1bd439947eb762998e566ccc2e099");
        let stream = StreamId { session: session.into(), tag: 0xff };
        assert!(keys.stream(&stream).ends_with(":ff"));
        assert!(!keys.stream(&stream).contains(session));
        assert_eq!(keys.instance(InstanceId::new(255)), "mcp:i:00000000000000ff");
    }
}
