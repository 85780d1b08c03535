//! Reads the card of a server (SEP-2127, a draft).

use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use mcp_model::{ModelError, Payload, ServerCard};
use mcp_proto::client::HttpConfig;
use mcp_proto::{Json, JsonError};

use crate::Error;

/// The largest card that is read, in bytes.
pub const MAX_CARD: usize = 256 * 1024;
/// The longest time for a card. Some servers answer a request for any path with an endless stream.
pub const CARD_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a server card could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CardFailure {
    /// There is no response.
    #[error("{0}")]
    NotFetched(Box<dyn std::error::Error + Send + Sync>),
    /// The server answered with another status than those for a card and for none.
    #[error("it answered with the HTTP status {}", .0.as_u16())]
    Status(StatusCode),
    /// What the server answered is no JSON.
    #[error("what it answered is no JSON: {0}")]
    NotJson(JsonError),
    /// What the server answered is no server card.
    #[error("what it answered is no server card: {0}")]
    Malformed(ModelError),
}

impl CardFailure {
    /// The error of the client that asked this server.
    #[must_use]
    pub fn into_error(self, server: &str) -> Error {
        Error::Card { server: server.into(), reason: self }
    }
}

/// The request for the card of this server. It has the headers that every request to the server has, and not the query of
/// the URL.
///
/// # Example
///
/// ```
/// use mcp_application::card_request;
/// use mcp_proto::client::HttpConfig;
///
/// let mut http = HttpConfig::new("https://example.com/mcp?key=1")?;
/// http.header("X-Tenant", "a")?;
/// let request = card_request(&http);
/// assert_eq!(request.uri(), "https://example.com/mcp/server-card");
/// assert_eq!(request.headers()["x-tenant"], "a");
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[must_use]
pub fn card_request(server: &HttpConfig) -> Request<Bytes> {
    let uri = server.uri();
    let path = format!("{}/server-card", uri.path().trim_end_matches('/'));
    let mut parts = uri.into_parts();
    parts.path_and_query = PathAndQuery::try_from(path).ok();
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    request.headers_mut().clone_from(server.headers());
    let accepted = HeaderValue::from_static("application/mcp-server-card+json, application/json");
    request.headers_mut().insert(ACCEPT, accepted);
    request
}

/// The card in a server's response; `None` if the server has none.
///
/// # Errors
///
/// [`CardFailure::Status`], [`CardFailure::NotJson`] and [`CardFailure::Malformed`].
///
/// # Example
///
/// ```
/// use http::Response;
/// use mcp_application::read_card;
///
/// let card = br#"{"$schema":"","name":"com.example/weather","version":"1","description":""}"#;
/// assert_eq!(read_card(&Response::new(card))?.map(|card| card.name).as_deref(), Some("com.example/weather"));
/// let missing = Response::builder().status(404).body("")?;
/// assert!(read_card(&missing)?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_card(response: &Response<impl AsRef<[u8]>>) -> Result<Option<ServerCard>, CardFailure> {
    match response.status() {
        StatusCode::OK => {
            let json = Json::parse(response.body().as_ref().to_vec()).map_err(CardFailure::NotJson)?;
            ServerCard::from_json(&json).map(Some).map_err(CardFailure::Malformed)
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
        other => Err(CardFailure::Status(other)),
    }
}
