//! Accepts the connections of a server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mcp_application::{Admitted, ConnectionTimeouts, SharedConnections, may_accept_later};
use mcp_proto::server::PeerKey;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::client_socket::ClientSocket;
use super::inbox::Inbox;
use super::{Stage, connection, until_past};
use crate::clock::now;
use crate::platform::LocalListener;

/// How long the last responses may take to be written when the service is closed.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of connections beyond the limit that are answered with 503 at one time.
const MAX_REFUSED: usize = 64;
/// The pause after a connection could not be accepted: without free file descriptors, the next attempt fails too.
const PAUSE: Duration = Duration::from_millis(20);

/// A socket that listens for the connections of clients: a [`TcpListener`], or on Unix a `UnixListener` of tokio.
///
/// All clients of a Unix socket count as one peer when connections and sessions are distributed among peers. Which users
/// can connect is decided by the permissions of its file. A web page cannot connect to it, and the rule for `Host` is the
/// same as over TCP: clients send `Host: localhost`.
///
/// # Example
///
/// ```
/// use mcp_tokio::Listener;
/// use tokio::net::TcpListener;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let listener = Listener::from(TcpListener::bind("127.0.0.1:0").await?);
/// # #[cfg(unix)] {
/// # let path = std::env::temp_dir().join(format!("mcp-tokio-listener-{}", std::process::id()));
/// let listener = Listener::from(tokio::net::UnixListener::bind(&path)?);
/// # std::fs::remove_file(path)?;
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Listener(Kind);

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    Local(LocalListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self(Kind::Tcp(listener))
    }
}

impl From<LocalListener> for Listener {
    fn from(listener: LocalListener) -> Self {
        Self(Kind::Local(listener))
    }
}

impl Listener {
    async fn accept(&self) -> io::Result<(ClientSocket, PeerKey)> {
        match &self.0 {
            Kind::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((ClientSocket::Tcp(stream), PeerKey::from(peer.ip())))
            }
            Kind::Local(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((ClientSocket::Local(stream), PeerKey::new(b"unix")))
            }
        }
    }
}

/// Accepts and serves connections until the service is closed. Dropping the future closes all of them.
pub(super) async fn serve(
    inbox: &Inbox,
    listener: Listener,
    max_connections: usize,
    timeouts: ConnectionTimeouts,
    mut stage: watch::Receiver<Stage>,
) -> io::Result<()> {
    let connections = SharedConnections::new(max_connections, MAX_REFUSED, now);
    let (mut served, mut refused) = (JoinSet::new(), JoinSet::new());
    let stage_of_connections = stage.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let eviction = Arc::new(Notify::new());
                    match connections.admit(&peer, Arc::clone(&eviction)) {
                        Admitted::Served { slot, evicted } => {
                            if let Some(evicted) = evicted {
                                evicted.notify_one();
                            }
                            let (inbox, stage) = (inbox.clone(), stage_of_connections.clone());
                            let stream = Arc::new(stream);
                            served.spawn(connection::serve(inbox, timeouts, stream, slot, eviction, peer, stage));
                        }
                        Admitted::Refused(slot) => {
                            tracing::warn!("all connections are in use; another one was refused");
                            refused.spawn(connection::refuse(stream, slot));
                        }
                        Admitted::RefusedAtOnce => {
                            tracing::warn!("there are too many connections; another one was refused");
                            connection::refuse_at_once(&stream);
                        }
                    }
                }
                Err(error) if may_accept_later(&error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            },
            Some(_) = served.join_next() => {}
            Some(_) = refused.join_next() => {}
            () = until_past(&mut stage, Stage::Draining) => break,
        }
    }
    drop(listener);
    let _ = timeout(FLUSH_TIMEOUT, async { while served.join_next().await.is_some() {} }).await;
    Ok(())
}
