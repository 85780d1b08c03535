//! A server on loopback that demands tokens, with its authorization server at the same port, and a browser.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use super::{Issuer, split};
use crate::http1::{self, HttpMessage};
use crate::loopback_server::{LoopbackServer, mcp_server};
use crate::messages::result;

/// An MCP server that answers each request with its parameters, if it carries the newest access token.
///
/// # Example
///
/// ```
/// use mcp_testkit::authorization::{ProtectedServer, browse};
///
/// let server = ProtectedServer::start();
/// assert_eq!(browse(&server.url()).status(), 401);
/// ```
#[derive(Debug, Clone)]
pub struct ProtectedServer {
    server: LoopbackServer,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    origin: String,
    issuer: Issuer,
    /// The number of access tokens that are refused, beginning with the first.
    refused: u64,
    /// How long requests for tokens wait for their answer; `None` if they have none.
    delay: Option<Duration>,
    /// What the server answers to requests without a token: the header `WWW-Authenticate`.
    challenge: String,
    /// The metadata of the resource by URL; any other URL has none.
    documents: BTreeMap<String, (u16, String)>,
    violations: Vec<String>,
}

impl ProtectedServer {
    /// Starts a server.
    pub fn start() -> Self {
        let (origin, issuer) = (String::new(), Issuer::new("http://127.0.0.1"));
        let shared = Shared {
            origin,
            issuer,
            refused: 0,
            delay: Some(Duration::ZERO),
            challenge: String::new(),
            documents: BTreeMap::new(),
            violations: Vec::new(),
        };
        let shared = Arc::new(Mutex::new(shared));
        let of_server = Arc::clone(&shared);
        let echo = mcp_server(|asked, connection| connection.json(result(&asked.id, &asked.params)));
        let server = LoopbackServer::start(move |request, connection| {
            let path = request.line.split(' ').nth(1).unwrap_or_default();
            if path == "/mcp" && lock(&of_server).accepts(request.header("authorization")) {
                return echo(request, connection);
            }
            let (delay, (status, name, value, body)) = {
                let mut shared = lock(&of_server);
                (shared.delay, shared.answer(path, request))
            };
            if path == "/token" {
                let Some(delay) = delay else { return connection.hang() };
                thread::sleep(delay);
            }
            connection.reply(&status, &[(name, &value)], body)
        });
        let origin = format!("http://{}", server.authority);
        let document = format!("{origin}/.well-known/oauth-protected-resource/mcp");
        let resource = json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [origin] });
        {
            let mut shared = lock(&shared);
            shared.issuer = Issuer::new(&origin);
            shared.challenge = format!(r#"Bearer resource_metadata="{document}""#);
            shared.documents.insert(document, (200, resource.to_string()));
            shared.origin = origin;
        }
        Self { server, shared }
    }

    /// The URL of the MCP server.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Every request to the MCP server and to the authorization server so far.
    pub fn requests(&self) -> Vec<HttpMessage> {
        self.server.requests()
    }

    /// Changes or reads the authorization server.
    pub fn issuer<R>(&self, act: impl FnOnce(&mut Issuer) -> R) -> R {
        act(&mut lock(&self.shared).issuer)
    }

    /// Changes or reads how a client finds the authorization server: the challenge, and the metadata of the resource by
    /// URL.
    pub fn discovery<R>(&self, act: impl FnOnce(&mut String, &mut BTreeMap<String, (u16, String)>) -> R) -> R {
        let shared = &mut *lock(&self.shared);
        act(&mut shared.challenge, &mut shared.documents)
    }

    /// From now on, the access tokens that were issued so far are refused.
    pub fn refuse_tokens(&self) {
        let mut shared = lock(&self.shared);
        shared.refused = shared.issuer.issued;
    }

    /// From now on, the token endpoint answers after this time, or never.
    pub fn delay_tokens(&self, delay: Option<Duration>) {
        lock(&self.shared).delay = delay;
    }

    /// Checks that no client has broken a rule.
    ///
    /// # Panics
    ///
    /// If one has.
    pub fn check(&self) {
        assert!(lock(&self.shared).violations.is_empty(), "{:?}", lock(&self.shared).violations);
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A status, a header, and a body.
type Answer = (String, &'static str, String, String);

impl Shared {
    fn accepts(&self, authorization: &str) -> bool {
        let issued = self.issuer.issued;
        issued > self.refused && authorization == format!("Bearer access-{issued}")
    }

    /// The answer of the authorization server, or a challenge.
    fn answer(&mut self, path: &str, request: &HttpMessage) -> Answer {
        let origin = &self.origin;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (status, body) = match path {
            "/mcp" => {
                return ("401 Unauthorized".to_owned(), "www-authenticate", self.challenge.clone(), String::new());
            }
            "/authorize" => {
                let location = self.issuer.authorize(query);
                return ("302 Found".to_owned(), "location", location, String::new());
            }
            path if self.documents.contains_key(&format!("{origin}{path}")) => {
                self.documents[&format!("{origin}{path}")].clone()
            }
            path if path == split(&self.issuer.metadata_path).1 => (200, self.issuer.metadata.to_string()),
            _ => {
                let (url, headers) = (format!("{origin}{path}"), headers(request));
                let answer = self.issuer.answer(&url, &headers, &request.body, &mut self.violations);
                answer.map_or((404, "not found".to_owned()), |answer| (answer.status, answer.body))
            }
        };
        (format!("{status} X"), "content-type", "application/json".to_owned(), body)
    }
}

fn headers(request: &HttpMessage) -> HeaderMap {
    let headers = request.headers.iter();
    headers
        .filter_map(|(name, value)| Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?)))
        .collect()
}

/// Requests a URL as a browser does, and follows redirects. Returns the last response.
///
/// # Panics
///
/// If the server cannot be reached, or answers with no HTTP message.
pub fn browse(url: &str) -> HttpMessage {
    let (origin, path) = split(url);
    let authority = origin.strip_prefix("http://").expect("an http URL");
    let asked = format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
    let response = exchange(authority, &asked).expect("the server is there");
    if response.status() == 302 { browse(response.header("location")) } else { response }
}

/// Sends this text to an address, and reads the response.
///
/// # Errors
///
/// The server cannot be reached, or closes the connection without a response.
pub fn exchange(authority: &str, text: &str) -> io::Result<HttpMessage> {
    let mut stream = TcpStream::connect(authority)?;
    stream.write_all(text.as_bytes())?;
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut buffer)?;
        read.extend_from_slice(buffer.get(..length).unwrap_or_default());
        if let Some(response) = http1::read(&mut read.as_slice()).filter(|response| response.is_complete) {
            return Ok(response);
        }
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
