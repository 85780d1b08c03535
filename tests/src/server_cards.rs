//! Answers for the path of a server card, and what a client makes of them, for the tests of both drivers.

use std::net::TcpListener;

use mcp_testkit::loopback_server::LoopbackServer;

/// A card.
pub const CARD: &str = concat!(
    r#"{"$schema":"https://static.modelcontextprotocol.io/schemas/v2/server-card.schema.json","name":"com.example/weather","#,
    r#""version":"1.2.3","description":"The weather anywhere.","unknown":[1]}"#
);

/// What a server answers: the HTTP status, the body, and the name in the card or the error of the client.
pub const ANSWERS: &[(&str, &str, Expected)] = &[
    ("200 OK", CARD, Ok(Some("com.example/weather"))),
    ("404 Not Found", "Not Found", Ok(None)),
    ("410 Gone", "", Ok(None)),
    ("405 Method Not Allowed", "", Err("cannot be read: it answered with the HTTP status 405")),
    ("302 Found", "", Err("cannot be read: it answered with the HTTP status 302")),
    ("200 OK", "<html>", Err("cannot be read: what it answered is no JSON: ")),
    ("200 OK", r#"{"name":7}"#, Err("cannot be read: what it answered is no server card: ")),
];

/// The name in the card, `None` for none, or a part of the error.
pub type Expected = Result<Option<&'static str>, &'static str>;

/// A server that gives this answer for the path of its card.
#[must_use]
pub fn answering(status: &'static str, body: impl Into<String>) -> LoopbackServer {
    let body = body.into();
    LoopbackServer::start(move |request, connection| {
        if request.line.starts_with("GET /mcp/server-card HTTP/1.1") {
            connection.reply(status, &[("Location", "/")], &body)
        } else {
            connection.reply("500 Unexpected Path", &[], "")
        }
    })
}

/// A card that is larger than what is read.
#[must_use]
pub fn large() -> String {
    CARD.replace("anywhere", &"x".repeat(300_000))
}

/// A URL at whose port nothing listens.
///
/// # Panics
///
/// If there is no free port.
#[must_use]
pub fn unreachable_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}/mcp", listener.local_addr().expect("an address"))
}
