//! The body of a request.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;

/// A body that notices when it is taken: before, the server cannot have served the request.
pub(super) struct Outgoing {
    bytes: Bytes,
    taken: Option<oneshot::Sender<()>>,
}

impl Outgoing {
    pub(super) const fn new(bytes: Bytes, taken: oneshot::Sender<()>) -> Self {
        Self { bytes, taken: Some(taken) }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.taken.take().map(|taken| {
            // Whoever waited for the response has gone.
            let _ = taken.send(());
            Ok(Frame::data(std::mem::take(&mut self.bytes)))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.taken.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}
