//! What was received in an HTTP exchange, as one value.

use std::fmt;

use http::response::Parts;

use crate::client::Failure;

/// What was received in an HTTP exchange, as one value: for a driver whose threads or tasks perform exchanges, and send
/// what they receive to the one that has the machine. [`HandleResponses::handle_received`] passes it in.
///
/// `B` contains the bytes of a part of a body, for example `Bytes` or `Vec<u8>`.
///
/// # Example: an exchange on a thread of its own
///
/// ```
/// use std::sync::mpsc::channel;
/// use std::thread;
///
/// use mcp_proto::client::{Client, Config, Event, Failure, Http, HttpAction, HttpConfig};
/// use mcp_proto::machine::{HandleResponses, Received};
/// use mcp_proto::{Instant, Output};
///
/// # fn send(_request: http::Request<bytes::Bytes>) -> Result<(), Failure> {
/// #     Err(Failure::unknown_host())
/// # }
/// let now = Instant::START;
/// let http = Http::new(HttpConfig::new("http://mcp.invalid/mcp")?);
/// let mut client = Client::new(http, Config::new("my-app", "1.0.0"))?;
/// client.connect(now)?;
/// let Some(Output::Action(HttpAction::Open { exchange, request, .. })) = client.poll_output() else { panic!() };
///
/// let (sender, receiver) = channel();
/// thread::spawn(move || sender.send((exchange, Received::<Vec<u8>>::from(send(request)))));
/// let (exchange, received) = receiver.recv().unwrap();
/// assert!(received.is_last());
/// client.handle_received(exchange, received, now);
/// assert!(matches!(client.poll_output(), Some(Output::Event(Event::Unavailable { .. }))));
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
///
/// [`HandleResponses::handle_received`]: super::HandleResponses::handle_received
pub enum Received<B> {
    /// The request was written in full. A driver that cannot observe this leaves it out.
    Sent,
    /// The head of the response has arrived; never that of an interim response (1xx).
    Head(Parts),
    /// A part of the body has arrived, without the chunked transfer coding.
    Body(B),
    /// The body is complete.
    End,
    /// The exchange could not be started, or it broke off.
    Failed(Failure),
}

impl<B> Received<B> {
    /// Whether nothing more is received in this exchange.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        matches!(self, Self::End | Self::Failed(_))
    }
}

/// The last value of an exchange, by how it ended.
impl<B> From<Result<(), Failure>> for Received<B> {
    fn from(end: Result<(), Failure>) -> Self {
        end.map_or_else(Self::Failed, |()| Self::End)
    }
}

/// Shows neither headers nor bodies, because they contain session ids and payloads.
impl<B: AsRef<[u8]>> fmt::Debug for Received<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent => f.write_str("Sent"),
            Self::Head(head) => write!(f, "Head({})", head.status.as_u16()),
            Self::Body(part) => write!(f, "Body({} bytes)", part.as_ref().len()),
            Self::End => f.write_str("End"),
            Self::Failed(failure) => f.debug_tuple("Failed").field(failure).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, Response, StatusCode};

    use super::*;
    use crate::client::{Client, Config, ExchangeKey, Http, HttpAction, HttpConfig};
    use crate::machine::HandleResponses;
    use crate::{Instant, Output};

    const NOW: Instant = Instant::START;

    fn head() -> Parts {
        let mut head = Response::new(()).into_parts().0;
        head.status = StatusCode::OK;
        head.headers = HeaderMap::from_iter([
            (http::header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (http::HeaderName::from_static("mcp-session-id"), HeaderValue::from_static("secret")),
        ]);
        head
    }

    fn each() -> [Received<Vec<u8>>; 5] {
        let failed = Received::Failed(Failure::closed());
        [Received::Sent, Received::Head(head()), Received::Body(b"secret".to_vec()), Received::End, failed]
    }

    /// A client that connects, and the exchange of its first request.
    fn connecting() -> (Client<Http>, ExchangeKey) {
        let http = Http::new(HttpConfig::new("http://localhost/mcp").unwrap());
        let mut client = Client::new(http, Config::new("c", "1")).unwrap();
        client.connect(NOW).unwrap();
        let Some(Output::Action(HttpAction::Open { exchange, .. })) = client.poll_output() else { panic!() };
        (client, exchange)
    }

    fn outputs(client: &mut Client<Http>) -> Vec<String> {
        std::iter::from_fn(|| client.poll_output()).map(|output| format!("{output:?}")).collect()
    }

    #[test]
    fn each_value_has_the_same_effect_as_the_method_that_is_named_after_it() {
        let by_method = |client: &mut Client<Http>, exchange, received: &Received<Vec<u8>>| match received {
            Received::Sent => client.handle_sent(exchange, NOW),
            Received::Head(head) => client.handle_response(exchange, head, NOW),
            Received::Body(part) => client.handle_body(exchange, part, NOW),
            Received::End => client.handle_end(exchange, NOW),
            Received::Failed(failure) => client.handle_failure(exchange, failure.clone(), NOW),
        };
        let mut found = Vec::new();
        for last in [3, 4] {
            let ((mut one, of_one), (mut other, of_other)) = (connecting(), connecting());
            for (at, received) in each().into_iter().enumerate().filter(|(at, _)| *at < 3 || *at == last) {
                by_method(&mut other, of_other, &received);
                one.handle_received(of_one, received, NOW);
                assert_eq!((one.load(), one.poll_timeout()), (other.load(), other.poll_timeout()), "{at}");
            }
            found.push(outputs(&mut one));
            assert_eq!(found.last(), Some(&outputs(&mut other)));
        }
        assert!(found.iter().all(|outputs| !outputs.is_empty()) && found[0] != found[1], "{found:?}");
    }

    #[test]
    fn what_is_received_after_an_abort_has_no_effect() {
        let (mut client, exchange) = connecting();
        client.close(NOW);
        let aborted = outputs(&mut client);
        assert!(aborted.iter().any(|output| output.contains("Abort")), "{aborted:?}");
        for received in each() {
            client.handle_received(exchange, received, NOW);
        }
        assert_eq!((outputs(&mut client), client.poll_timeout()), (Vec::new(), None));
    }

    #[test]
    fn only_the_end_and_a_failure_are_last() {
        assert_eq!(each().map(|received| received.is_last()), [false, false, false, true, true]);
        assert!(matches!(Received::<Vec<u8>>::from(Ok(())), Received::End));
        assert!(matches!(Received::<Vec<u8>>::from(Err(Failure::silent())), Received::Failed(_)));
    }

    #[test]
    fn the_debug_form_contains_no_header_and_no_body() {
        let shown = format!("{:?}", each());
        assert!(shown.starts_with("[Sent, Head(200), Body(6 bytes), End, Failed(Closed"), "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
    }
}
