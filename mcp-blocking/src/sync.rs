//! Threads, locks and atomics for the modules whose orders of threads `tests/threads` explores: those tests compile the
//! modules with the types of `shuttle` instead.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
pub(crate) use std::thread;
