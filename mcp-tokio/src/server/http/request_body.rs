//! Reads the bodies of requests.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::Body;
use tokio::sync::oneshot;

/// A part of the body of a request.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) bytes: Bytes,
    pub(super) is_last: bool,
}

/// The body ended with an error.
#[derive(Debug)]
pub(super) struct Broken;

/// The next part of a body, after its head was accepted.
pub(super) async fn next_accepted<B: Body>(
    body: Pin<&mut B>,
    accepted: &mut Option<oneshot::Receiver<()>>,
) -> Result<Part, Broken> {
    if let Some(waiting) = accepted {
        if waiting.await.is_err() {
            // The head was refused, and that response is on its way.
            return std::future::pending().await;
        }
        *accepted = None;
    }
    next(body).await
}

/// The next part of a body.
async fn next<B: Body>(mut body: Pin<&mut B>) -> Result<Part, Broken> {
    poll_fn(|cx| poll_part(body.as_mut(), cx)).await
}

/// The next part of a body, or an empty one if none has arrived yet.
pub(super) async fn ready<B: Body>(mut body: Pin<&mut B>) -> Result<Part, Broken> {
    poll_fn(|cx| match poll_part(body.as_mut(), cx) {
        Poll::Ready(part) => Poll::Ready(part),
        Poll::Pending => Poll::Ready(Ok(Part::default())),
    })
    .await
}

fn poll_part<B: Body>(mut body: Pin<&mut B>, cx: &mut Context<'_>) -> Poll<Result<Part, Broken>> {
    let frame = std::task::ready!(body.as_mut().poll_frame(cx)).transpose().map_err(|_| Broken)?;
    let is_last = frame.is_none() || body.is_end_stream();
    // Trailers are ignored.
    let bytes = frame.and_then(|frame| frame.into_data().ok()).map(|mut data| data.copy_to_bytes(data.remaining()));
    Poll::Ready(Ok(Part { bytes: bytes.unwrap_or_default(), is_last }))
}
