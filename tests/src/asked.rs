//! Requests as clients write them, and what is sent for them.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use mcp_proto::server::{PeerKey, Principal};

/// What has been sent on one exchange.
#[derive(Debug, Default)]
pub struct Sent {
    /// The status, once there is one.
    pub status: Option<StatusCode>,
    /// The headers.
    pub headers: HeaderMap,
    /// The body so far.
    pub body: Vec<u8>,
    /// The response is complete.
    pub is_over: bool,
    /// It came as a stream.
    pub is_stream: bool,
}

impl Sent {
    /// The status as a number; zero if there is none yet.
    pub fn code(&self) -> u16 {
        self.status.map_or(0, |status| status.as_u16())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    /// The data of the events so far.
    pub fn data(&self) -> Vec<String> {
        let text = self.text();
        text.lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .filter(|data| !data.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// The ids of the events so far.
    pub fn ids(&self) -> Vec<String> {
        self.text().lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_owned).collect()
    }
}

/// A request, as a client writes it.
#[derive(Debug, Clone)]
#[must_use]
pub struct Asked {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) principal: Option<Principal>,
    pub(crate) peer: Option<PeerKey>,
}

impl Asked {
    /// A request to the usual endpoint, with all headers that it needs.
    pub fn new(method: &'static str, body: impl Into<Bytes>) -> Self {
        let fields = [
            ("host", "localhost:3000"),
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
        ];
        Self {
            method,
            target: "/mcp".to_owned(),
            fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            body: body.into(),
            principal: None,
            peer: None,
        }
    }

    /// A POST of a message.
    pub fn post(body: impl Into<Bytes>) -> Self {
        Self::new("POST", body)
    }

    /// At another path.
    pub fn at(mut self, target: &str) -> Self {
        target.clone_into(&mut self.target);
        self
    }

    /// With another header, in the place of the one of that name.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(other, _)| other != name);
        self.and(name, value)
    }

    /// With one more header.
    pub fn and(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without that header.
    pub fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(other, _)| other != name);
        self
    }

    /// In a session.
    pub fn in_session(self, id: &str) -> Self {
        self.with("mcp-session-id", id)
    }

    /// A POST of a request of 2026-07-28, with the headers that say the same.
    pub fn stateless(id: &str, method: &str, members: &str) -> Self {
        Self::post(modern(id, method, members)).mirrored(method)
    }

    /// A call of a tool.
    pub fn stateless_call(id: &str, tool: &str, members: &str) -> Self {
        Self::stateless(id, "tools/call", &format!(r#""name":"{tool}",{members}"#)).with("mcp-name", tool)
    }

    /// With the headers of a request of this method of 2026-07-28.
    pub fn mirrored(self, method: &str) -> Self {
        self.with("mcp-protocol-version", "2026-07-28").with("mcp-method", method)
    }

    /// A GET of a stream.
    pub fn get() -> Self {
        Self::new("GET", "")
    }

    /// From this address.
    pub fn from(mut self, peer: u8) -> Self {
        self.peer = Some(PeerKey::new(&[peer]));
        self
    }

    /// By somebody who was recognised.
    pub fn by(mut self, principal: &str) -> Self {
        self.principal = Some(Principal::new(principal));
        self
    }
}

/// What every request of 2026-07-28 says of itself, as members of `_meta`.
pub const META: &str =
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

/// A request of 2026-07-28, with these further members of `params`, which end with a comma.
pub fn modern(id: &str, method: &str, members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}"_meta":{{{META}}}}}}}"#)
}

/// The message that opens a session.
pub fn initialize(version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
    )
}
