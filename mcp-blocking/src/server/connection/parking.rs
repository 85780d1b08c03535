//! Streams that are silent: one thread waits for all of them, and writes what little they send. When there is more to do for a
//! connection, it gets a thread again: its stream has ended, or its client is gone.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use super::outgoing::Left;
use super::streaming::{Noticed, Streaming};
use super::{Connection, HEAD, WRITE_TIME, on_thread};
use crate::platform::{WRITES_TO_HALF_CLOSED, Watched};

/// The event that wakes the thread.
const WAKES: Token = Token(0);
/// Events that are taken at a time.
const EVENTS: usize = 256;
/// How many times a buffer is written for one stream before the others have their turn.
const ROUNDS: usize = 16;
/// How often clients that take nothing are looked for, while there are some.
const STALLED_TICK: Duration = Duration::from_secs(1);

/// A connection without a thread, and its stream.
pub(super) struct Parked {
    pub(super) connection: Connection,
    pub(super) streaming: Box<Streaming>,
}

/// Where the connections of a server give up their threads. The thread that waits for them is started for the first one.
#[derive(Clone)]
pub(in crate::server) struct Parking(Arc<Lot>);

/// What other threads share with the one that waits.
struct Lot {
    state: Mutex<State>,
    /// How long a client may take nothing of what is written.
    write_time: Duration,
}

#[derive(Default)]
struct State {
    waiting: Waiting,
    arriving: Vec<Parked>,
    /// The streams for which the driver has sent something.
    ready: Vec<Token>,
    /// No more connections are accepted: the thread ends with the last stream.
    is_closing: bool,
}

/// The thread that waits.
#[derive(Default)]
enum Waiting {
    #[default]
    NotStarted,
    Runs(mio::Waker),
    Over,
}

impl Default for Parking {
    fn default() -> Self {
        Self::with_write_time(WRITE_TIME)
    }
}

impl Parking {
    pub(super) fn with_write_time(write_time: Duration) -> Self {
        Self(Arc::new(Lot { state: Mutex::default(), write_time }))
    }

    /// Takes a connection over; returns it if it must keep its thread, because there is none that waits.
    pub(super) fn park(&self, mut parked: Box<Parked>) -> Result<(), Box<Parked>> {
        parked.connection.buffer.shrink_to_fit();
        parked.streaming.outgoing.shrink();
        let mut state = self.0.state();
        match state.waiting {
            Waiting::NotStarted if !state.is_closing => match Poller::start(&self.0) {
                Ok(waker) => state.waiting = Waiting::Runs(waker),
                Err(error) => {
                    log::warn!("streams keep their threads, because none can wait for all of them: {error}");
                    return Err(parked);
                }
            },
            Waiting::Runs(_) => {}
            Waiting::NotStarted | Waiting::Over => return Err(parked),
        }
        state.wake_with(|state| state.arriving.push(*parked));
        Ok(())
    }

    /// Whether its thread has ended.
    #[cfg(test)]
    pub(super) fn is_over(&self) -> bool {
        matches!(self.0.state().waiting, Waiting::Over)
    }

    /// No more connections are accepted.
    pub(in crate::server) fn close(&self) {
        self.0.state().wake_with(|state| state.is_closing = true);
    }
}

impl Lot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Changes the state, and wakes the thread unless that was done since it looked last.
    fn wake_with(&mut self, change: impl FnOnce(&mut Self)) {
        let is_awake = !self.arriving.is_empty() || !self.ready.is_empty();
        change(self);
        if let Waiting::Runs(waker) = &self.waiting {
            if !is_awake {
                if let Err(error) = waker.wake() {
                    log::error!("the thread that waits for streams cannot be woken: {error}");
                }
            }
        }
    }
}

/// Wakes the thread for one stream.
struct Wakes {
    lot: Arc<Lot>,
    token: Token,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.lot.state().wake_with(|state| state.ready.push(self.token));
    }
}

/// The thread that waits.
struct Poller {
    lot: Arc<Lot>,
    poll: Poll,
    parked: HashMap<Token, Box<Entry>>,
    next: Token,
    /// The streams whose clients take nothing, since when.
    stalled: BTreeMap<Token, Instant>,
    /// The streams that have more to write than was written in one turn.
    unfinished: Vec<Token>,
}

struct Entry {
    parked: Parked,
    watched: Watched,
    waker: Waker,
    /// Its socket is full.
    is_full: bool,
}

/// How far a stream was written.
enum Wrote {
    /// All of it.
    All,
    /// There is more.
    Part,
    /// As much as the client takes. Whether it has taken anything.
    Full {
        is_any: bool,
    },
    /// The stream has ended.
    Over,
    Failed(io::Error),
}

impl Poller {
    fn start(lot: &Arc<Lot>) -> io::Result<mio::Waker> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKES)?;
        let poller = Self {
            lot: Arc::clone(lot),
            poll,
            parked: HashMap::new(),
            next: WAKES,
            stalled: BTreeMap::new(),
            unfinished: Vec::new(),
        };
        thread::Builder::new().name("mcp-streams".to_owned()).spawn(move || poller.run())?;
        Ok(waker)
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        while let Some((arriving, ready)) = self.take() {
            for parked in arriving {
                self.admit(parked);
            }
            let unfinished = std::mem::take(&mut self.unfinished);
            for token in ready.into_iter().chain(unfinished) {
                self.write(token);
            }
            self.drop_stalled();
            let time = if !self.unfinished.is_empty() || (self.parked.is_empty() && self.lot.state().is_closing) {
                Some(Duration::ZERO)
            } else {
                (!self.stalled.is_empty()).then_some(STALLED_TICK)
            };
            match self.poll.poll(&mut events, time) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return self.give_up(&error),
                _ => {}
            }
            for event in &events {
                let token = event.token();
                // One that can only be written is not read: where events are emulated, that would cause the same one again.
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.read(token);
                }
                if self.parked.get(&token).is_some_and(|entry| entry.is_full) {
                    self.write(token);
                }
            }
        }
    }

    /// What other threads have left since the last call; `None` once nothing can come any more.
    fn take(&self) -> Option<(Vec<Parked>, Vec<Token>)> {
        let mut state = self.lot.state();
        if state.is_closing && state.arriving.is_empty() && self.parked.is_empty() {
            state.waiting = Waiting::Over;
            return None;
        }
        Some((std::mem::take(&mut state.arriving), std::mem::take(&mut state.ready)))
    }

    fn admit(&mut self, parked: Parked) {
        self.next.0 = self.next.0.wrapping_add(1).max(1);
        let token = self.next;
        let socket = &parked.connection.stream;
        let watched = socket.set_nonblocking(true).and_then(|()| {
            let mut watched = socket.watch()?;
            self.poll.registry().register(&mut watched, token, Interest::READABLE)?;
            Ok(watched)
        });
        match watched {
            Ok(watched) => {
                let waker = Waker::from(Arc::new(Wakes { lot: Arc::clone(&self.lot), token }));
                self.parked.insert(token, Box::new(Entry { parked, watched, waker, is_full: false }));
                // Something may have come before there was a waker.
                self.write(token);
            }
            // For example beyond what the system watches for one user.
            Err(error) => {
                log::warn!("a stream keeps its thread, because its connection cannot be waited for: {error}");
                give_thread(parked, None, true);
            }
        }
    }

    fn read(&mut self, token: Token) {
        if let Some(noticed) = self.parked.get_mut(&token).and_then(|entry| entry.read()) {
            self.release(token, Some(noticed), false);
        }
    }

    fn write(&mut self, token: Token) {
        let Some(entry) = self.parked.get_mut(&token) else { return };
        let wrote = entry.write();
        let is_full = matches!(wrote, Wrote::Full { .. });
        if !matches!(wrote, Wrote::Full { is_any: false }) {
            self.stalled.remove(&token);
        }
        if is_full {
            self.stalled.entry(token).or_insert_with(Instant::now);
        }
        match wrote {
            Wrote::Over => return self.release(token, None, false),
            Wrote::Failed(error) => return self.release(token, Some(Noticed::Failed(error)), false),
            Wrote::Part => self.unfinished.push(token),
            Wrote::All | Wrote::Full { .. } => {}
        }
        if entry.is_full != is_full {
            entry.is_full = is_full;
            let interests = if is_full { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            if let Err(error) = self.poll.registry().reregister(&mut entry.watched, token, interests) {
                log::warn!("a stream keeps its thread, because its connection cannot be waited for: {error}");
                self.release(token, None, true);
            }
        }
    }

    /// Ends the connections whose clients have taken nothing for too long.
    fn drop_stalled(&mut self) {
        let write_time = self.lot.write_time;
        let stalled = self.stalled.iter().filter(|(_, since)| since.elapsed() >= write_time);
        for token in stalled.map(|(token, _)| *token).collect::<Vec<_>>() {
            self.release(token, Some(Noticed::Failed(ErrorKind::TimedOut.into())), false);
        }
    }

    /// Gives a connection a thread again.
    fn release(&mut self, token: Token, noticed: Option<Noticed>, keeps_thread: bool) {
        self.stalled.remove(&token);
        if let Some(entry) = self.parked.remove(&token) {
            let Entry { parked, mut watched, .. } = *entry;
            if let Err(error) = self.poll.registry().deregister(&mut watched) {
                log::warn!("a connection cannot be taken from the list of those that are waited for: {error}");
            }
            give_thread(parked, noticed, keeps_thread);
        }
    }

    /// Gives all connections their threads again, which they keep.
    fn give_up(mut self, error: &io::Error) {
        log::error!("streams get their threads again, because none can wait for all of them: {error}");
        for token in self.parked.keys().copied().collect::<Vec<_>>() {
            self.release(token, None, true);
        }
        let mut state = self.lot.state();
        state.waiting = Waiting::Over;
        let arriving = std::mem::take(&mut state.arriving);
        drop(state);
        for parked in arriving {
            give_thread(parked, None, true);
        }
    }
}

impl Entry {
    /// Reads bytes of a next request, because the end of the stream comes after them (B14). Returns what is noticed.
    fn read(&mut self) -> Option<Noticed> {
        let Connection { stream, buffer, answered, .. } = &mut self.parked.connection;
        let mut part = [0; 4096];
        while buffer.len() < HEAD {
            match self.watched.try_io(|| (&**stream).read(&mut part)) {
                Ok(0) if answered.as_ref().is_some_and(|answered| answered.half_closed == WRITES_TO_HALF_CLOSED) => {
                    break;
                }
                Ok(0) => return Some(Noticed::End),
                Ok(length) => buffer.extend_from_slice(part.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Some(Noticed::Failed(error)),
            }
        }
        stream.take_error().unwrap_or_else(Some).map(Noticed::Failed)
    }

    /// Writes what the driver has sent, as far as the client takes it.
    fn write(&mut self) -> Wrote {
        let Streaming { responses, outgoing, .. } = &mut *self.parked.streaming;
        let stream = &self.parked.connection.stream;
        let mut is_any = false;
        for _ in 0..ROUNDS {
            match outgoing.fill(responses) {
                Left::Bytes => match self.watched.try_io(|| (&**stream).write(outgoing.bytes())) {
                    Ok(0) => return Wrote::Failed(ErrorKind::WriteZero.into()),
                    Ok(length) => {
                        is_any = true;
                        outgoing.advance(length, responses);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Wrote::Full { is_any },
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Wrote::Failed(error),
                },
                Left::Nothing => {
                    outgoing.shrink();
                    if responses.wake_at_next(&self.waker) {
                        return Wrote::All;
                    }
                }
                Left::Complete | Left::CutOff => return Wrote::Over,
            }
        }
        Wrote::Part
    }
}

/// Starts a thread that goes on with a connection. `keeps_thread`: the connection cannot be waited for.
fn give_thread(parked: Parked, noticed: Option<Noticed>, keeps_thread: bool) {
    let Parked { connection, mut streaming } = parked;
    streaming.noticed = connection.stream.set_nonblocking(false).err().map(Noticed::Failed).or(noticed);
    streaming.may_park &= !keeps_thread;
    on_thread(connection.server.stack, move || connection.go_on(Some(streaming)));
}
