//! Sign-ins that no longer want a lock for which they wait, because another process has it: they neither take it later, nor
//! release it in the name of the other process.
//!
//! Both drivers run the table: each lock that the other process has with each way in which the sign-in ends.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use mcp_auth::{Cause, Config, Event, Imported, Lock, SignInError};
use mcp_testkit::authorization::ProtectedServer;
use mcp_testkit::waiting::{LONG, wait_until};
use mcp_token_store::{MemoryStore, Store};

/// Several times the pause after which a driver tries a lock again.
const PAUSES: Duration = Duration::from_millis(500);

/// What the other process has when the sign-in waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// The lock of the record.
    Record,
    /// The lock of sign-ins.
    SignIn,
    /// The lock of the record, while the sign-in has that of sign-ins.
    RecordWithSignIn,
}

impl Waits {
    const fn lock(self) -> Lock {
        match self {
            Self::Record | Self::RecordWithSignIn => Lock::Record,
            Self::SignIn => Lock::SignIn,
        }
    }
}

/// Why the sign-in does not want the lock any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// It is given up.
    Dropped,
    /// It has waited for too long.
    TimedOut,
    /// The person signs out instead.
    SignedOut,
    /// The tokens of another program are used instead.
    Imported,
}

/// A driver of sign-ins, which passes causes to the sign-in until it is dropped.
pub type SignIn = Box<dyn Fn(Cause)>;

/// Starts a sign-in at the server with this URL, with this store, change of the configuration, and receiver of events.
pub type Start<'s> = dyn Fn(&str, LoggedStore, &dyn Fn(&mut Config), Sender<Event>) -> SignIn + 's;

/// Who has a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    SignIn,
    OtherProcess,
}

/// Which process has which lock.
#[derive(Clone, Default)]
struct Locks(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    owners: BTreeMap<Lock, Owner>,
    /// Takes the lock of the record for the other process as soon as the sign-in has that of sign-ins.
    takes_record: bool,
    /// How often the sign-in was refused each lock.
    refused: BTreeMap<Lock, usize>,
    /// It has released a lock that it did not have.
    faults: Vec<Lock>,
    has_ended: bool,
}

impl Locks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release_others(&self) {
        self.state().owners.retain(|_, owner| *owner != Owner::OtherProcess);
    }

    fn is_refused(&self, lock: Lock) -> bool {
        self.state().refused.contains_key(&lock)
    }
}

/// The store of the sign-in, in memory.
pub struct LoggedStore {
    inner: MemoryStore,
    locks: Locks,
}

impl Store for LoggedStore {
    fn load(&mut self, key: &str) -> io::Result<Option<Vec<u8>>> {
        self.inner.load(key)
    }

    fn store(&mut self, key: &str, record: &[u8]) -> io::Result<()> {
        self.inner.store(key, record)
    }

    fn erase(&mut self, key: &str) -> io::Result<()> {
        self.inner.erase(key)
    }

    fn try_lock(&mut self, _: &str, lock: Lock) -> io::Result<bool> {
        let mut state = self.locks.state();
        if state.owners.contains_key(&lock) {
            *state.refused.entry(lock).or_default() += 1;
            return Ok(false);
        }
        state.owners.insert(lock, Owner::SignIn);
        if lock == Lock::SignIn && state.takes_record {
            state.owners.insert(Lock::Record, Owner::OtherProcess);
        }
        Ok(true)
    }

    fn unlock(&mut self, _: &str, lock: Lock) {
        let mut state = self.locks.state();
        if state.owners.remove(&lock) != Some(Owner::SignIn) {
            state.faults.push(lock);
        }
    }
}

impl Drop for LoggedStore {
    fn drop(&mut self) {
        self.locks.state().has_ended = true;
    }
}

/// Waits for an event.
fn wait_for(events: &Receiver<Event>, is_it: impl Fn(&Event) -> bool) {
    let until = Instant::now() + LONG;
    while !is_it(&events.recv_timeout(until.saturating_duration_since(Instant::now())).expect("an event")) {}
}

/// Runs all cases.
///
/// # Panics
///
/// If a lock is kept, or released by a process that does not have it.
pub fn a_lock_that_is_no_longer_wanted_is_not_taken(start: &Start<'_>) {
    for waits in [Waits::Record, Waits::SignIn, Waits::RecordWithSignIn] {
        for ends in [Ends::Dropped, Ends::TimedOut, Ends::SignedOut, Ends::Imported] {
            run(waits, ends, start);
        }
    }
}

fn run(waits: Waits, ends: Ends, start: &Start<'_>) {
    let what = format!("it waits for {waits:?} and ends: {ends:?}");
    let (server, locks) = (ProtectedServer::start(), Locks::default());
    {
        let mut state = locks.state();
        state.takes_record = waits == Waits::RecordWithSignIn;
        if !state.takes_record {
            state.owners.insert(waits.lock(), Owner::OtherProcess);
        }
    }
    let change = |config: &mut Config| {
        if ends == Ends::TimedOut {
            config.user_timeout = Duration::from_millis(300);
            // That of the record is twice this.
            config.request_timeout = Duration::from_secs(2);
        }
    };
    let (report, events) = channel();
    let store = LoggedStore { inner: MemoryStore::new(), locks: locks.clone() };
    let sign_in = start(&server.url(), store, &change, report);
    sign_in(Cause::Requested);
    wait_until(|| locks.is_refused(waits.lock()));
    let is_kept = |lock| locks.state().owners.get(&lock) == Some(&Owner::OtherProcess);
    let sign_in = match ends {
        Ends::Dropped => {
            drop(sign_in);
            wait_until(|| locks.state().has_ended);
            None
        }
        Ends::TimedOut => {
            let timed_out = |error: &SignInError| match waits {
                Waits::SignIn => matches!(error, SignInError::UserTimedOut { .. }),
                Waits::Record | Waits::RecordWithSignIn => matches!(error, SignInError::StoreTimedOut),
            };
            wait_for(&events, |event| matches!(event, Event::Refused(error) if timed_out(error)));
            // All that it had is released before.
            Some(sign_in)
        }
        Ends::SignedOut => {
            sign_in(Cause::SignOut);
            wait_for(&events, |event| matches!(event, Event::Refused(SignInError::SignedOut)));
            Some(sign_in)
        }
        Ends::Imported => {
            let tokens = br#"{"access_token":"a","token_type":"Bearer"}"#;
            let imported = Imported::from_mcp_remote(tokens, br#"{"client_id":"id"}"#).expect("tokens");
            sign_in(Cause::Imported(Box::new(imported)));
            Some(sign_in)
        }
    };
    assert!(is_kept(waits.lock()), "{what}: the other process has its lock");
    locks.release_others();
    match ends {
        Ends::Dropped | Ends::TimedOut => {}
        Ends::SignedOut => wait_for(&events, |event| matches!(event, Event::SignedOut { .. })),
        Ends::Imported => wait_for(&events, |event| matches!(event, Event::Authorized(_))),
    }
    thread::sleep(PAUSES);
    let state = locks.state();
    assert!(state.owners.is_empty(), "{what}: {:?}", state.owners);
    assert!(state.faults.is_empty(), "{what}: locks of the other process were released: {:?}", state.faults);
    drop(state);
    drop(sign_in);
}
