//! Threads, and what they wait with, for the modules whose orders of threads `tests/threads` explores. It compiles these modules
//! with the ones of `shuttle`.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
pub(crate) use std::thread;
