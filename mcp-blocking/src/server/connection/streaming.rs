//! A response that is a stream, while a thread writes it.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::outgoing::{Left, Outgoing};
use super::{Connection, Next, TICK};
use crate::inbox::Inbox;
use crate::server::http_exchanges::Arrived;
use crate::server::http1::Delimited;
use crate::server::response_channel::Responses;

/// How long a stream is silent before it gives up its thread. A stream that is answered sooner ends on the thread that has begun
/// it.
const PARK_AFTER: Duration = Duration::from_millis(100);

/// A stream whose head was written.
pub(super) struct Streaming {
    pub(super) request: u64,
    pub(super) driver: Arc<dyn Inbox<Arrived>>,
    pub(super) responses: Responses,
    pub(super) outgoing: Outgoing,
    /// The connection can be used for another request after the stream.
    pub(super) keep_alive: bool,
    /// It needs no thread while it is silent.
    pub(super) may_park: bool,
    /// What was noticed while it had no thread.
    pub(super) noticed: Option<Noticed>,
    pub(super) _answering: Answering,
}

/// What a thread has to do for a stream that had none.
#[derive(Debug)]
pub(super) enum Noticed {
    /// The client has closed the connection, or ended its sending side.
    End,
    /// The connection has failed.
    Failed(io::Error),
}

/// Counts a request that is being answered.
pub(super) struct Answering(Arc<AtomicUsize>);

impl Answering {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Streaming {
    /// A response that is delimited in this way.
    pub(super) fn of(
        connection: &Connection,
        (request, driver): (u64, &Arc<dyn Inbox<Arrived>>),
        responses: Responses,
        body: Delimited,
        keep_alive: bool,
        answering: Answering,
    ) -> Box<Self> {
        Box::new(Self {
            request,
            driver: Arc::clone(driver),
            responses,
            outgoing: Outgoing::new(body),
            keep_alive: keep_alive && body == Delimited::Chunks,
            // While the request has not arrived in full, what the client sends belongs to it.
            may_park: connection.answered.is_some(),
            noticed: None,
            _answering: answering,
        })
    }
}

impl Connection {
    /// Writes a stream until it has ended, or was silent for a while.
    pub(super) fn stream(&mut self, mut streaming: Box<Streaming>) -> io::Result<Next> {
        let outcome = match self.write_pieces(&mut streaming) {
            Ok(Left::Nothing) => return Ok(Next::Park(streaming)),
            Ok(Left::Complete) if streaming.keep_alive => Ok(Next::KeepAlive),
            Ok(Left::Complete | Left::CutOff | Left::Bytes) => Ok(Next::Close),
            Err(error) => Err(error),
        };
        self.end_request(streaming.request, &*streaming.driver, outcome)
    }

    fn write_pieces(&mut self, streaming: &mut Streaming) -> io::Result<Left> {
        match streaming.noticed.take() {
            Some(Noticed::Failed(error)) => return Err(error),
            Some(Noticed::End) => self.check_presence()?,
            None => {}
        }
        let Streaming { responses, outgoing, may_park, .. } = streaming;
        loop {
            match outgoing.fill(responses) {
                Left::Bytes => {
                    let bytes = outgoing.bytes();
                    let length = bytes.len();
                    (&*self.stream).write_all(bytes)?;
                    outgoing.advance(length, responses);
                }
                Left::Nothing if responses.wait(if *may_park { PARK_AFTER } else { TICK }) => {}
                Left::Nothing if *may_park => return Ok(Left::Nothing),
                Left::Nothing => self.check_presence()?,
                end @ (Left::Complete | Left::CutOff) => return Ok(end),
            }
        }
    }
}
