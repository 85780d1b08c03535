//! Connections of a server that listens itself.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

use super::HttpService;

/// Connections at one time. Further ones wait to be accepted.
const CONNECTIONS: usize = 1024;
/// How long the head of a request may take, and how long a kept connection may be silent.
const HEAD_TIME: Duration = Duration::from_secs(60);
/// How long a client may take to read what is written at once.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// How long the last answers may take to be written when the service is closed.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The pause after a connection could not be accepted: with no descriptor left, the next attempt fails too.
const PAUSE: Duration = Duration::from_millis(20);

/// Accepts connections until told otherwise. Dropping the future ends them all.
pub(super) async fn serve(
    service: &HttpService,
    listener: TcpListener,
    mut is_closed: watch::Receiver<bool>,
) -> io::Result<()> {
    let (graceful, room) = (GracefulShutdown::new(), Arc::new(Semaphore::new(CONNECTIONS)));
    let mut connections = JoinSet::new();
    let accept = async || {
        let permit = Arc::clone(&room).acquire_owned().await;
        (listener.accept().await, permit)
    };
    loop {
        tokio::select! {
            (accepted, permit) = accept() => match accepted {
                Ok((stream, _)) => {
                    let connection = graceful.watch(connect(service, stream));
                    connections.spawn(async move {
                        if let Err(error) = connection.await {
                            tracing::debug!(%error, "a connection ended");
                        }
                        drop(permit);
                    });
                }
                Err(error) if is_passing(&error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            },
            Some(_) = connections.join_next() => {}
            () = until_closed(&mut is_closed) => break,
        }
    }
    drop(listener);
    let _ = timeout(LAST_WORDS, graceful.shutdown()).await;
    Ok(())
}

async fn until_closed(is_closed: &mut watch::Receiver<bool>) {
    // With no sender, there is no service either.
    let _ = is_closed.wait_for(|is_closed| *is_closed).await;
}

fn connect(service: &HttpService, stream: TcpStream) -> impl GracefulConnection<Error = hyper::Error> + Send + use<> {
    // Small answers must not wait for others. Where the option cannot be set, they do.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIME));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(service.clone()))
}

/// Whether accepting may succeed at another time.
fn is_passing(error: &io::Error) -> bool {
    !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::NotConnected)
}
