//! Conversion of the HTTP library's errors for the machine.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::path::Path;

use mcp_application::FileNotReached;
use mcp_proto::client::Failure;

/// Converts the error of an exchange for the machine.
///
/// `is_begun` states whether any part of the request may have been sent; `socket` is the Unix socket of the server.
pub(super) fn failure(error: &reqwest::Error, is_begun: bool, socket: Option<&Path>) -> Failure {
    if let (true, Some(socket), Some(cause)) = (error.is_connect(), socket, cause::<io::Error>(error).map(unwrapped)) {
        let cause = cause.raw_os_error().map_or_else(|| cause.kind().into(), io::Error::from_raw_os_error);
        let reason = FileNotReached { kind: "Unix socket", path: socket.to_owned(), error: cause };
        return Failure::Unreachable { detail: reason.to_string().into() };
    }
    let is_begun = is_begun && !error.is_connect();
    if error.is_builder() {
        return Failure::not_sendable();
    }
    // The library exposes failures of name resolution only by this text.
    if causes(error).any(|error| error.to_string() == "dns error") {
        return Failure::unknown_host();
    }
    if let Some(error) = cause::<io::Error>(error).map(unwrapped) {
        return if is_begun { Failure::exchanging(error) } else { Failure::connecting(error) };
    }
    if error.is_timeout() {
        return if is_begun { Failure::silent() } else { Failure::connect_timed_out() };
    }
    let is_https = error.url().is_none_or(|url| url.scheme() == "https");
    let failure = match cause::<hyper::Error>(error) {
        Some(error) if error.is_parse_too_large() => Failure::large_head(None),
        Some(error) if error.is_parse() => Failure::not_http(is_https),
        Some(error) if error.is_incomplete_message() || error.is_closed() => Failure::closed(),
        Some(_) | None => Failure::Broken { detail: innermost(error).to_string().into() },
    };
    if is_begun { failure } else { failure.before_sending() }
}

pub(super) fn causes<'e>(error: &'e reqwest::Error) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    successors(error.source(), |&error| error.source())
}

fn cause<T: Error + 'static>(error: &reqwest::Error) -> Option<&T> {
    causes(error).find_map(|error| error.downcast_ref())
}

/// Unwraps an I/O error: the library wraps errors of the operating system and of TLS in others.
fn unwrapped(mut error: &io::Error) -> &io::Error {
    while let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        error = inner;
    }
    error
}

/// Describes why an HTTP client cannot be built.
pub(super) fn in_words(error: &reqwest::Error) -> String {
    innermost(error).to_string()
}

/// The innermost cause of an error. The error itself contains the URL, whose query may hold a key; its causes do not.
fn innermost(error: &reqwest::Error) -> &(dyn Error + 'static) {
    causes(error).last().unwrap_or(&Unnamed)
}

#[derive(Debug, thiserror::Error)]
#[error("the exchange failed")]
struct Unnamed;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// A server that sends this answer to each connection after the first bytes of a request, and closes it. With
    /// `None`, it sends nothing.
    fn answers(answer: Option<Vec<u8>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp?key=secret", listener.local_addr().unwrap());
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 4096]);
                match &answer {
                    Some(answer) => drop(stream.write_all(answer)),
                    None => while stream.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {},
                }
            }
        });
        url
    }

    async fn error_of(url: &str) -> reqwest::Error {
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_millis(300)).build().unwrap();
        match client.get(url).send().await {
            Ok(response) => response.bytes().await.unwrap_err(),
            Err(error) => error,
        }
    }

    #[tokio::test]
    async fn errors_are_readable_and_state_whether_the_request_may_be_repeated() {
        const UNREACHABLE: &str = "Unreachable";
        const BROKEN: &str = "Broken";
        const CLOSED: &str = "Closed";
        let large = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 20));
        let no_http = answers(Some(b"\x15\x03\x01\0\x02\x02\x46".to_vec()));
        for (url, text, before, after) in [
            ("no URL".to_owned(), "the request cannot be sent", "Hopeless", "Hopeless"),
            // Without a connection, no request can have been sent, whatever `is_begun` states.
            ("http://127.0.0.1:1/?key=secret".to_owned(), "nothing listens there", UNREACHABLE, UNREACHABLE),
            ("http://no-such-host.invalid/?key=secret".to_owned(), "its name", UNREACHABLE, UNREACHABLE),
            (answers(Some(Vec::new())), "it closed the connection", UNREACHABLE, CLOSED),
            (answers(Some(large.into_bytes())), "its headers are larger than is accepted", UNREACHABLE, BROKEN),
            (no_http.clone(), "if it is a TLS server, its URL begins with https://", UNREACHABLE, BROKEN),
            (answers(Some(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1".to_vec())), "", UNREACHABLE, CLOSED),
        ] {
            let error = error_of(&url).await;
            for (is_begun, kind) in [(false, before), (true, after)] {
                let failure = format!("{:?}", failure(&error, is_begun, None));
                assert!(failure.starts_with(kind) && failure.contains(text), "{url}: {failure}, {error:?}");
                assert!(!failure.contains("secret"), "{failure}");
            }
        }
        let silent = error_of(&answers(None)).await;
        assert_eq!(failure(&silent, true, None), Failure::Broken { detail: "it was silent for too long".into() });
        let text = "it did not accept the connection in time";
        assert_eq!(failure(&silent, false, None), Failure::Unreachable { detail: text.into() });
        // Behind TLS, the same answer does not mean that the server uses TLS.
        let encrypted = error_of(&no_http).await.with_url("https://127.0.0.1/".parse().unwrap());
        assert_eq!(failure(&encrypted, true, None), Failure::Broken { detail: "it does not speak HTTP/1.1".into() });
    }

    #[test]
    fn the_error_of_a_client_that_cannot_be_set_up_names_the_cause() {
        let error = reqwest::Client::builder().user_agent("\n").build().unwrap_err();
        assert_eq!(in_words(&error), "failed to parse header value");
    }
}
