//! Bodies of responses, with backpressure: small ones are taken in one piece, others in parts as the client reads them.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::{fmt, io};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::driver::Presence;
use super::pieces::{Unread, Watched};

/// The body of a response.
pub struct HttpBody(Inner);

/// Omits the content.
impl fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Whole(bytes) => write!(f, "HttpBody({} bytes)", bytes.len()),
            Inner::Pieces { .. } => f.write_str("HttpBody(in pieces)"),
        }
    }
}

enum Inner {
    Whole(Bytes),
    Pieces {
        unread: Unread,
        /// For a stream: the client counts as disconnected if this is dropped before the end.
        presence: Option<Presence>,
    },
}

impl HttpBody {
    pub(super) const fn whole(body: Bytes) -> Self {
        Self(Inner::Whole(body))
    }

    /// A body that is taken in pieces. A stream also has the presence of its client.
    pub(super) const fn pieces(unread: Unread, presence: Option<Presence>) -> Self {
        Self(Inner::Pieces { unread, presence })
    }

    /// A handle that waits until the body is aborted, if it can be.
    pub(super) fn watched(&self) -> Option<Watched> {
        match &self.0 {
            Inner::Whole(_) => None,
            Inner::Pieces { unread, .. } => Some(unread.watched()),
        }
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.0 {
            Inner::Whole(body) if body.is_empty() => Poll::Ready(None),
            Inner::Whole(body) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(body))))),
            Inner::Pieces { unread, presence } => {
                let frame = std::task::ready!(unread.poll_frame(cx));
                if let (None, Some(presence)) = (&frame, presence) {
                    presence.is_served();
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Inner::Whole(body) if body.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(body) => SizeHint::with_exact(body.len() as u64),
            Inner::Pieces { unread, .. } => unread.length().map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::ErrorKind;
    use std::task::Waker;

    use super::super::pieces::{PART, is_small, stream};
    use super::*;

    pub(in super::super) fn poll(body: &mut HttpBody) -> Poll<Option<Result<usize, ErrorKind>>> {
        let frame = Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()));
        frame.map(|frame| frame.map(|frame| frame.map(|it| it.into_data().unwrap().len()).map_err(|it| it.kind())))
    }

    #[test]
    fn a_body_states_its_length_and_its_end() {
        let whole_body = |text: &'static str| HttpBody::whole(Bytes::from_static(text.as_bytes()));
        let (_, unread) = stream();
        for (mut body, length, is_over) in [
            (whole_body(""), Some(0), true),
            (whole_body("abc"), Some(3), false),
            (HttpBody::pieces(unread, None), None, false),
        ] {
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (length, is_over));
            if let Some(length @ 1..) = length {
                assert_eq!(poll(&mut body), Poll::Ready(Some(Ok(usize::try_from(length).unwrap()))));
                assert_eq!((poll(&mut body), body.is_end_stream()), (Poll::Ready(None), true));
            }
        }
        assert!(is_small(&vec![0; PART].into()) && !is_small(&vec![0; PART + 1].into()));
    }
}
