//! The body of a request.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;

/// A body that reports when it is read: before that, the server cannot have processed the request.
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
            // The receiver may be closed if the caller no longer waits for the response.
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_body_has_its_length_and_reports_that_it_was_taken() {
        let (taken, mut is_taken) = oneshot::channel();
        let mut body = Outgoing::new(Bytes::from_static(b"body"), taken);
        assert_eq!((body.is_end_stream(), body.size_hint().exact()), (false, Some(4)));
        assert!(is_taken.try_recv().is_err());
        let mut poll = || Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Some(Ok(frame))) = poll() else { panic!("there is a frame") };
        assert_eq!(frame.into_data().unwrap(), "body");
        assert!(matches!(poll(), Poll::Ready(None)));
        assert!(is_taken.try_recv().is_ok());
        assert_eq!((body.is_end_stream(), body.size_hint().exact()), (true, Some(0)));
    }
}
