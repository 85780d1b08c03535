//! A lock that another process has.

use super::action::Lock;

/// The lock that a driver tries to take again and again, because another process has it.
///
/// # Example
///
/// ```
/// use mcp_auth::{AwaitedLock, Lock};
///
/// let mut awaited = AwaitedLock::default();
/// assert!(!awaited.tried(Lock::Record, false));
/// assert_eq!(awaited.lock(), Some(Lock::Record), "it is tried again");
/// assert!(!awaited.unlock(Lock::Record), "it was not taken, so it is not released");
/// assert!(awaited.tried(Lock::Record, true) && awaited.unlock(Lock::Record));
/// ```
#[derive(Debug, Clone, Default)]
pub struct AwaitedLock(Option<Lock>);

impl AwaitedLock {
    /// The lock to try again.
    #[must_use]
    pub const fn lock(&self) -> Option<Lock> {
        self.0
    }

    /// The driver has tried to take a lock. Returns whether it was taken.
    pub fn tried(&mut self, lock: Lock, is_taken: bool) -> bool {
        self.0 = (!is_taken).then_some(lock);
        is_taken
    }

    /// Handles [`Action::Unlock`](crate::Action::Unlock). Returns whether the lock was taken, so that it must be released.
    pub fn unlock(&mut self, lock: Lock) -> bool {
        let is_taken = self.0 != Some(lock);
        self.0 = self.0.filter(|_| is_taken);
        is_taken
    }
}
