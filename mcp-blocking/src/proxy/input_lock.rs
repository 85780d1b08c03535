//! A lock with a queue of input: a thread that has input for the locked state passes it in itself, or leaves it to the thread that
//! holds the lock.

use std::collections::VecDeque;
use std::sync::{PoisonError, TryLockError};

use crate::sync::{Mutex, MutexGuard};

/// A state, and the input that was not yet passed to it.
pub(crate) struct InputLock<S, I> {
    state: Mutex<S>,
    /// A thread that adds input ensures that the state lock is taken afterwards. Locked after the state, or alone.
    inputs: Mutex<VecDeque<I>>,
    /// With more input than this, a thread waits for the lock.
    most: usize,
}

impl<S, I> InputLock<S, I> {
    pub(crate) fn new(state: S, most: usize) -> Self {
        Self { state: Mutex::new(state), inputs: Mutex::new(VecDeque::new()), most }
    }

    /// Locks the state. After its release, the thread must check [`InputLock::has_input`]: others may have left input.
    pub(crate) fn state(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inputs(&self) -> MutexGuard<'_, VecDeque<I>> {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_input(&self) -> bool {
        self.waiting() > 0
    }

    /// The number of inputs that were not yet passed in.
    pub(crate) fn waiting(&self) -> usize {
        self.inputs().len()
    }

    /// Takes the next input, for a thread that has locked the state.
    pub(crate) fn next(&self) -> Option<I> {
        self.inputs().pop_front()
    }

    /// Adds input, and lets `pass` pass in all that is queued, unless another thread does. Returns what `pass` has returned, or
    /// `true`.
    pub(crate) fn send(&self, input: I, pass: impl Fn(&mut S) -> bool) -> bool {
        let mut inputs = self.inputs();
        inputs.push_back(input);
        let mut is_full = inputs.len() > self.most;
        drop(inputs);
        loop {
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(state)) => state.into_inner(),
                Err(TryLockError::WouldBlock) if is_full => self.state(),
                // The thread that holds the lock checks for input once more after it has released the lock.
                Err(TryLockError::WouldBlock) => return true,
            };
            let is_taken = pass(&mut state);
            drop(state);
            is_full = false;
            if !self.has_input() {
                return is_taken;
            }
        }
    }
}
