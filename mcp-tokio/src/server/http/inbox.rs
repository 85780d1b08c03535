//! The way of a request from its connection to the driver, and of the response back.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use mcp_application::Authenticated;
use mcp_proto::auth::Challenge;
use mcp_proto::server::{PeerKey, expects_continue, server_stopped};
use tokio::sync::{mpsc, oneshot};

use super::authenticate::Authenticate;
use super::body::HttpBody;
use super::driver::{Arrived, From, Input, Presence, Reply, Urgent};
use super::half_close::Current;
use super::request_body::{Part, next_accepted, ready};

/// Passes requests to the driver.
#[derive(Debug, Clone)]
pub(super) struct Inbox {
    inputs: mpsc::Sender<Input>,
    urgent: mpsc::UnboundedSender<Urgent>,
    next: Arc<AtomicU64>,
    authenticate: Authenticate,
}

impl Inbox {
    pub(super) fn new(inputs: mpsc::Sender<Input>, urgent: mpsc::UnboundedSender<Urgent>) -> Self {
        Self { inputs, urgent, next: Arc::default(), authenticate: Authenticate::default() }
    }

    /// Sets the function that decides who sent a request.
    pub(super) fn authenticate<R, P>(&mut self, check: impl Fn(&Parts) -> R + Send + Sync + 'static)
    where
        R: Future<Output = Result<P, Challenge>> + Send + 'static,
        P: Into<Authenticated>,
    {
        self.authenticate = Authenticate::new(check);
    }

    pub(super) const fn inputs(&self) -> &mpsc::Sender<Input> {
        &self.inputs
    }

    pub(super) const fn urgent(&self) -> &mpsc::UnboundedSender<Urgent> {
        &self.urgent
    }

    /// Answers a request. A router `is_routed` if it has already selected the path.
    pub(super) async fn answer<B>(self, request: Request<B>, is_routed: bool) -> Response<HttpBody>
    where
        B: Body,
    {
        let (mut head, body) = request.into_parts();
        let mut body = pin!(body);
        let authentication = self.authenticate.check(&head).await.map(|authenticated| {
            let (principal, extensions) = authenticated.into_parts();
            head.extensions.extend(extensions);
            principal
        });
        let peer = head.extensions.remove::<PeerKey>();
        let arrived = Arrived(self.next.fetch_add(1, Ordering::Relaxed));
        if let Some(current) = head.extensions.remove::<Current>() {
            current.set(arrived);
        }
        let mut presence = Presence::new(arrived, self.urgent);
        // Most bodies arrive together with their head. A client that expects `100 Continue` gets it only after the head
        // was accepted.
        let waits = expects_continue(&head);
        let first = if waits { Ok(Part::default()) } else { ready(body.as_mut()).await };
        let Ok(Part { bytes: first, is_last: mut is_whole }) = first else { return empty(StatusCode::BAD_REQUEST) };
        let (reply, mut replied) = oneshot::channel();
        // hyper sends `100 Continue` when the body is polled for the first time.
        let (accept, accepted) = oneshot::channel();
        let mut accepted = waits.then_some(accepted);
        let from = From { authentication, peer, is_routed };
        let mut input = Input::Request { arrived, head: Box::new(head), from, body: first, is_whole, accept, reply };
        let reply = loop {
            if self.inputs.send(input).await.is_err() {
                return server_stopped().map(HttpBody::whole);
            }
            tokio::select! {
                biased;
                reply = &mut replied => break reply,
                part = next_accepted(body.as_mut(), &mut accepted), if !is_whole => {
                    let Ok(Part { bytes, is_last }) = part else { return empty(StatusCode::BAD_REQUEST) };
                    is_whole = is_last;
                    input = Input::Body { arrived, body: bytes, is_last };
                }
            }
        };
        match reply {
            Ok(Reply::Small(response)) => {
                presence.is_served();
                response.map(HttpBody::whole)
            }
            Ok(Reply::Whole(head, unread)) => {
                presence.is_served();
                head.map(|()| HttpBody::pieces(unread, None))
            }
            Ok(Reply::Stream(head, unread)) => head.map(|()| HttpBody::pieces(unread, Some(presence))),
            Err(_) => server_stopped().map(HttpBody::whole),
        }
    }
}

fn empty(status: StatusCode) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body::Frame;
    use mcp_proto::server::{Config, HttpConfig};
    use mcp_proto::{ErrorObject, Json};

    use super::*;
    use crate::Incoming;

    /// A body whose polls return these items in order, and then the end.
    #[derive(Debug, Default)]
    struct Scripted(VecDeque<Poll<Result<&'static str, io::ErrorKind>>>);

    impl Body for Scripted {
        type Data = Bytes;
        type Error = io::ErrorKind;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, io::ErrorKind>>> {
            // The body is polled again at once.
            cx.waker().wake_by_ref();
            match self.0.pop_front() {
                Some(Poll::Ready(Ok("trailers"))) => Poll::Ready(Some(Ok(Frame::trailers(http::HeaderMap::new())))),
                Some(polled) => polled.map(|part| Some(part.map(|text| Frame::data(Bytes::from(text))))),
                None => Poll::Ready(None),
            }
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }
    }

    const HALF: Poll<Result<&str, io::ErrorKind>> =
        Poll::Ready(Ok(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","#));
    const REST: Poll<Result<&str, io::ErrorKind>> = Poll::Ready(Ok(
        r#""params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    ));
    const NOTHING: Poll<Result<&str, io::ErrorKind>> = Poll::Pending;
    const TRAILERS: Poll<Result<&str, io::ErrorKind>> = Poll::Ready(Ok("trailers"));
    const BREAK: Poll<Result<&str, io::ErrorKind>> = Poll::Ready(Err(io::ErrorKind::Other));

    #[tokio::test]
    async fn a_body_is_read_however_it_comes_and_one_that_breaks_off_is_refused() {
        let serve = async |_: Incoming| Ok::<_, ErrorObject>(Json::empty_object());
        let service = crate::Server::new(Config::new("s", "1"), serve).http(HttpConfig::new()).unwrap();
        for (parts, expected) in [
            (vec![HALF, REST], Ok(())),
            (vec![NOTHING, HALF, NOTHING, REST, NOTHING], Ok(())),
            (vec![HALF, REST, TRAILERS], Ok(())),
            (vec![BREAK], Err("")),
            (vec![HALF, BREAK], Err("")),
            (vec![NOTHING, BREAK], Err("")),
            (vec![HALF], Err("-32700")),
            (vec![], Err("-32700")),
        ] {
            for waits in [false, true] {
                let mut request = Request::post("/mcp")
                    .header("host", "localhost")
                    .header("content-type", "application/json")
                    .header("accept", "application/json, text/event-stream");
                if waits {
                    request = request.header("expect", "100-continue");
                }
                let request = request.body(Scripted(parts.clone().into())).unwrap();
                let response = service.inbox.clone().answer(request, true).await;
                let (status, mut body) = (response.status(), response.into_body());
                let mut text = Vec::new();
                while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                    text.extend_from_slice(&frame.unwrap().into_data().unwrap());
                }
                let text = String::from_utf8(text).unwrap();
                match expected {
                    Ok(()) => assert!(status == 200 && text.contains("protocolVersion"), "{parts:?}: {status}, {text}"),
                    Err("") => assert_eq!((status.as_u16(), text.as_str()), (400, ""), "{parts:?}"),
                    Err(part) => assert!(status == 400 && text.contains(part), "{parts:?}: {status}, {text}"),
                }
            }
        }
    }
}
