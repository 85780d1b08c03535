//! Errors of the HTTP library in the machine's words.

use std::error::Error;
use std::io;
use std::iter::successors;

use mcp_proto::client::Failure;

/// What a failed exchange means for the machine.
///
/// `is_begun` says whether something of the request may have been sent.
pub(super) fn failure(error: &reqwest::Error, is_begun: bool) -> Failure {
    let unreachable = |detail: &str| Failure::Unreachable { detail: detail.into() };
    let broken = |detail: &str| Failure::Broken { detail: detail.into() };
    let is_begun = is_begun && !error.is_connect();
    if error.is_builder() {
        return Failure::Hopeless { detail: "the request cannot be sent".into() };
    }
    // Of the many ways in which a name is not found, the library tells only this.
    if causes(error).any(|error| error.to_string() == "dns error") {
        return unreachable("its name cannot be looked up");
    }
    if let Some(error) = cause::<io::Error>(error).map(unwrapped) {
        return if is_begun { Failure::exchanging(error) } else { Failure::connecting(error) };
    }
    if error.is_timeout() {
        return if is_begun {
            broken("it was silent for too long")
        } else {
            unreachable("it did not accept the connection in time")
        };
    }
    let detail = match cause::<hyper::Error>(error) {
        Some(error) if error.is_parse_too_large() => "its headers are larger than is reasonable".to_owned(),
        Some(hyper) if hyper.is_parse() && error.url().is_some_and(|url| url.scheme() == "http") => {
            "it does not speak HTTP/1.1; if it is a TLS server, its URL begins with https://".to_owned()
        }
        Some(error) if error.is_parse() => "it does not speak HTTP/1.1".to_owned(),
        Some(error) if error.is_incomplete_message() || error.is_closed() => "it closed the connection".to_owned(),
        Some(_) | None => innermost(error).to_string(),
    };
    if is_begun { broken(&detail) } else { unreachable(&detail) }
}

fn causes<'e>(error: &'e reqwest::Error) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    successors(error.source(), |&error| error.source())
}

fn cause<T: Error + 'static>(error: &reqwest::Error) -> Option<&T> {
    causes(error).find_map(|error| error.downcast_ref())
}

/// Layers of the library wrap the error of the system, or of TLS, in others.
fn unwrapped(mut error: &io::Error) -> &io::Error {
    while let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        error = inner;
    }
    error
}

/// What a client that cannot be set up lacks.
pub(crate) fn in_words(error: &reqwest::Error) -> String {
    innermost(error).to_string()
}

/// The error itself names the URL, whose query may hold a key; its causes do not.
fn innermost(error: &reqwest::Error) -> &(dyn Error + 'static) {
    causes(error).last().unwrap_or(&Unnamed)
}

#[derive(Debug, thiserror::Error)]
#[error("the exchange failed")]
struct Unnamed;
