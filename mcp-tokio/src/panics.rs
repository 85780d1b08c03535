//! Panics of the application's handlers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Calls a function of the application. `None` if it panicked; the panic hook has run then.
pub(crate) fn caught_call<T>(function: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(function)).ok()
}

/// Awaits a future of the application. `None` if it panicked; the panic hook has run then.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        // After a panic, the future is not polled again.
        match caught_call(|| future.as_mut().poll(context)) {
            Some(Poll::Ready(output)) => Poll::Ready(Some(output)),
            Some(Poll::Pending) => Poll::Pending,
            None => Poll::Ready(None),
        }
    })
    .await
}
