//! HTTP requests of clients, and the responses to them.

use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use mcp_proto::auth::Challenge;
use mcp_proto::server::{PeerKey, Principal};

use crate::messages::initialize_with;

/// The part of a response that has been sent so far.
#[derive(Debug, Default)]
pub struct TestResponse {
    /// The status, once the response has begun.
    pub status: Option<StatusCode>,
    /// The headers.
    pub headers: HeaderMap,
    /// The body so far.
    pub body: Vec<u8>,
    /// Whether the response is complete.
    pub is_over: bool,
    /// Whether the response is a stream of events.
    pub is_stream: bool,
}

impl TestResponse {
    /// The status as a number; zero if the response has not begun.
    pub fn code(&self) -> u16 {
        self.status.map_or(0, |status| status.as_u16())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    /// The data of the events so far, in order.
    pub fn data(&self) -> Vec<String> {
        let text = self.text();
        text.lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .filter(|data| !data.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// The ids of the events so far, in order.
    pub fn ids(&self) -> Vec<String> {
        self.text().lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_owned).collect()
    }
}

/// An HTTP request of a client.
#[derive(Debug, Clone)]
#[must_use]
pub struct TestRequest {
    /// The method.
    pub method: &'static str,
    /// The target, such as `/mcp`.
    pub target: String,
    /// The headers, in order.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// The authenticated principal, or the challenge.
    pub authentication: Result<Option<Principal>, Challenge>,
    /// The address of the client.
    pub peer: Option<PeerKey>,
    /// What layers in front of the server have added.
    pub extensions: Extensions,
}

impl TestRequest {
    /// A request to the default endpoint with all headers that it needs.
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
            authentication: Ok(None),
            peer: None,
            extensions: Extensions::new(),
        }
    }

    /// A POST that carries a message.
    pub fn post(body: impl Into<Bytes>) -> Self {
        Self::new("POST", body)
    }

    /// The head of the request.
    pub fn head(&self) -> Parts {
        let request = Request::builder().method(self.method).uri(&self.target).body(());
        let mut head = request.expect("a request").into_parts().0;
        for (name, value) in &self.fields {
            let name: HeaderName = name.parse().expect("a name");
            head.headers.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        head.extensions.clone_from(&self.extensions);
        head
    }

    /// Sets the path.
    pub fn at(mut self, target: &str) -> Self {
        target.clone_into(&mut self.target);
        self
    }

    /// Sets a header, replacing the one of the same name.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(other, _)| other != name);
        self.and(name, value)
    }

    /// Adds a header and keeps those of the same name.
    pub fn and(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes the header with this name.
    pub fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(other, _)| other != name);
        self
    }

    /// Sets the session id.
    pub fn in_session(self, id: &str) -> Self {
        self.with("mcp-session-id", id)
    }

    /// A POST of a request of 2026-07-28, with the headers that repeat its revision and method.
    pub fn stateless(id: &str, method: &str, members: &str) -> Self {
        Self::post(modern(id, method, members)).repeating_headers("2026-07-28", method)
    }

    /// A call of a tool in 2026-07-28.
    pub fn stateless_call(id: &str, tool: &str, members: &str) -> Self {
        Self::stateless(id, "tools/call", &format!(r#""name":"{tool}",{members}"#)).with("mcp-name", tool)
    }

    /// Sets the headers that repeat the revision and the method of a request, as 2026-07-28 demands.
    pub fn repeating_headers(self, version: &str, method: &str) -> Self {
        self.with("mcp-protocol-version", version).with("mcp-method", method)
    }

    /// A GET that asks for a stream.
    pub fn get() -> Self {
        Self::new("GET", "")
    }

    /// Sets the address of the client.
    pub fn from(mut self, peer: u8) -> Self {
        self.peer = Some(PeerKey::new(&[peer]));
        self
    }

    /// Adds a value to the extensions.
    pub fn with_extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Sets the challenge with which authentication refuses the request.
    pub fn challenged(mut self, challenge: Challenge) -> Self {
        self.authentication = Err(challenge);
        self
    }

    /// Sets the authenticated principal.
    pub fn by(mut self, principal: impl Into<Principal>) -> Self {
        self.authentication = Ok(Some(principal.into()));
        self
    }
}

/// The members of `_meta` that every request of 2026-07-28 must have.
pub const META: &str =
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

/// The body of a request of 2026-07-28. `members` are further members of `params`; unless empty, they end with a comma.
pub fn modern(id: &str, method: &str, members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}"_meta":{{{META}}}}}}}"#)
}

/// The body of an `initialize` request of a client without capabilities; its id is 0.
pub fn initialize(version: &str) -> String {
    initialize_with("0", version, "{}")
}
