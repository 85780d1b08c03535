//! A connection that is opened again when it is lost.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, ServerErrorKind};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long no new connection is tried after one that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// At most one connection at a time, which any number of tasks use.
pub(super) struct Connection {
    client: Client,
    config: AsyncConnectionConfig,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: Option<MultiplexedConnection>,
    /// Distinguishes one connection from the next.
    generation: u64,
    failed: Option<(Instant, RedisError)>,
}

impl Connection {
    pub(super) fn new(client: Client, connect_within: Duration, answer_within: Duration) -> Self {
        let config = AsyncConnectionConfig::new();
        let config = config.set_connection_timeout(Some(connect_within)).set_response_timeout(Some(answer_within));
        Self { client, config, state: Mutex::default() }
    }

    /// The open connection, or a new one, and its generation.
    pub(super) async fn get(&self) -> RedisResult<(MultiplexedConnection, u64)> {
        let mut state = self.state.lock().await;
        if let Some(open) = &state.open {
            return Ok((open.clone(), state.generation));
        }
        if let Some((at, error)) = &state.failed {
            if at.elapsed() < PAUSE {
                return Err(error.clone());
            }
        }
        match self.client.get_multiplexed_async_connection_with_config(&self.config).await {
            Ok(open) => {
                state.generation += 1;
                state.open = Some(open.clone());
                state.failed = None;
                Ok((open, state.generation))
            }
            Err(error) => {
                state.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// The connection of this generation is not used any more.
    pub(super) async fn discard(&self, generation: u64) {
        let mut state = self.state.lock().await;
        if state.generation == generation {
            state.open = None;
        }
    }
}

/// Whether the same command may succeed at once on another connection, or soon.
pub(super) fn may_pass(error: &RedisError) -> bool {
    use ServerErrorKind as Kind;
    // The server is starting, or another one is taking its place.
    let is_changing = |kind| matches!(kind, Kind::BusyLoading | Kind::TryAgain | Kind::MasterDown | Kind::ReadOnly);
    let kind = error.kind();
    matches!(kind, ErrorKind::Io | ErrorKind::Parse) || matches!(kind, ErrorKind::Server(kind) if is_changing(kind))
}

/// Whether the connection can be used after this error.
pub(super) fn is_usable(error: &RedisError) -> bool {
    let kind = error.kind();
    kind == ErrorKind::Extension || matches!(kind, ErrorKind::Server(kind) if kind != ServerErrorKind::ReadOnly)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_kept_after_an_answer_that_is_an_error_and_not_after_one_that_did_not_arrive() {
        use ServerErrorKind as Kind;
        for (kind, usable, passing) in [
            (ErrorKind::Server(Kind::ResponseError), true, false),
            (ErrorKind::Server(Kind::NoScript), true, false),
            (ErrorKind::Server(Kind::BusyLoading), true, true),
            (ErrorKind::Extension, true, false),
            // Another server has taken the place of this one.
            (ErrorKind::Server(Kind::ReadOnly), false, true),
            (ErrorKind::Io, false, true),
            (ErrorKind::Parse, false, true),
            (ErrorKind::AuthenticationFailed, false, false),
        ] {
            let error = RedisError::from((kind, "no"));
            assert_eq!((is_usable(&error), may_pass(&error)), (usable, passing), "{kind:?}");
        }
    }
}
