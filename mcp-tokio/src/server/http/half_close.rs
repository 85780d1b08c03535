//! Clients that have ended their sending side: some wait for the response, and others are gone.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::Interest;
use tokio::sync::Notify;
use tokio::time::{Duration, timeout};

use super::client_socket::ClientSocket;
use super::driver::Arrived;

/// The request that a connection answers, as far as the driver needs to know it when the client ends its sending side.
#[derive(Debug, Clone, Default)]
pub(super) struct Current {
    arrived: Arc<Mutex<Option<Arrived>>>,
    probe: Arc<Notify>,
}

impl Current {
    pub(super) fn set(&self, arrived: Arrived) {
        *self.arrived.lock().unwrap_or_else(PoisonError::into_inner) = Some(arrived);
    }

    pub(super) fn arrived(&self) -> Option<Arrived> {
        *self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is notified when the connection is to send `100 Continue`.
    pub(super) const fn probe(&self) -> &Arc<Notify> {
        &self.probe
    }
}

/// Which sides of a connection its client has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    Neither,
    /// The client sends nothing more.
    Sending,
    /// The client reads nothing more either.
    Both,
}

impl Closed {
    /// As far as it is known now, even if there are unread bytes in front of the end.
    pub(super) async fn of(stream: &ClientSocket) -> Self {
        // If the socket is not ready now, it was not closed.
        let ready = timeout(Duration::ZERO, stream.ready(Interest::READABLE | Interest::WRITABLE)).await;
        match ready {
            Ok(Ok(ready)) if ready.is_write_closed() => Self::Both,
            Ok(Ok(ready)) if ready.is_read_closed() => Self::Sending,
            Ok(Err(_)) => Self::Both,
            Ok(Ok(_)) | Err(_) => Self::Neither,
        }
    }
}
