//! Where tokens are kept between runs, and the locks that processes share.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_auth::Lock;

/// Keeps the records of sign-ins, which contain tokens: one for each key, which is 64 hexadecimal digits.
///
/// A lock of a key belongs to one sign-in at a time, in whatever process. The store must release the locks of a process
/// that ends without releasing them.
pub trait Store: Send + 'static {
    /// Reads a record; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The record exists, and cannot be read.
    fn load(&mut self, key: &str) -> io::Result<Option<Vec<u8>>>;

    /// Replaces a record, durably: after a crash, either the earlier or the new one is there (OA-F-03).
    ///
    /// # Errors
    ///
    /// The record was not stored.
    fn store(&mut self, key: &str, record: &[u8]) -> io::Result<()>;

    /// Removes a record; it is no error if there is none.
    ///
    /// # Errors
    ///
    /// The record is still there.
    fn erase(&mut self, key: &str) -> io::Result<()>;

    /// Takes a lock if it is free. Returns whether it was taken.
    ///
    /// # Errors
    ///
    /// The store has no locks, or cannot be reached.
    fn try_lock(&mut self, key: &str, lock: Lock) -> io::Result<bool>;

    /// Releases a lock.
    fn unlock(&mut self, key: &str, lock: Lock);
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn load(&mut self, key: &str) -> io::Result<Option<Vec<u8>>> {
        (**self).load(key)
    }

    fn store(&mut self, key: &str, record: &[u8]) -> io::Result<()> {
        (**self).store(key, record)
    }

    fn erase(&mut self, key: &str) -> io::Result<()> {
        (**self).erase(key)
    }

    fn try_lock(&mut self, key: &str, lock: Lock) -> io::Result<bool> {
        (**self).try_lock(key, lock)
    }

    fn unlock(&mut self, key: &str, lock: Lock) {
        (**self).unlock(key, lock);
    }
}

/// A store in the memory of this process. Its clones share the records and the locks.
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    records: BTreeMap<String, Vec<u8>>,
    locked: BTreeSet<(String, Lock)>,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with<R>(&self, act: impl FnOnce(&mut Shared) -> R) -> R {
        act(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Shows no records.
impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl Store for MemoryStore {
    fn load(&mut self, key: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.with(|shared| shared.records.get(key).cloned()))
    }

    fn store(&mut self, key: &str, record: &[u8]) -> io::Result<()> {
        self.with(|shared| shared.records.insert(key.to_owned(), record.to_vec()));
        Ok(())
    }

    fn erase(&mut self, key: &str) -> io::Result<()> {
        self.with(|shared| shared.records.remove(key));
        Ok(())
    }

    fn try_lock(&mut self, key: &str, lock: Lock) -> io::Result<bool> {
        Ok(self.with(|shared| shared.locked.insert((key.to_owned(), lock))))
    }

    fn unlock(&mut self, key: &str, lock: Lock) {
        self.with(|shared| shared.locked.remove(&(key.to_owned(), lock)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two stores that share their records and locks: one is in memory, the other one is whatever a box contains.
    fn two() -> (MemoryStore, Box<dyn Store>) {
        let memory = MemoryStore::new();
        (memory.clone(), Box::new(memory))
    }

    #[test]
    fn a_record_is_kept_until_it_is_replaced_or_erased() {
        let (mut memory, mut boxed) = two();
        assert_eq!((memory.load("5a").unwrap(), boxed.load("5a").unwrap()), (None, None));
        memory.store("5a", b"first").unwrap();
        boxed.store("5b", b"other").unwrap();
        assert_eq!(boxed.load("5a").unwrap().as_deref(), Some(&b"first"[..]));
        boxed.store("5a", b"second").unwrap();
        assert_eq!(memory.load("5a").unwrap().as_deref(), Some(&b"second"[..]));
        boxed.erase("5a").unwrap();
        boxed.erase("5a").unwrap();
        assert_eq!(memory.load("5a").unwrap(), None);
        assert_eq!(memory.load("5b").unwrap().as_deref(), Some(&b"other"[..]));
        memory.erase("5b").unwrap();
        assert_eq!(boxed.load("5b").unwrap(), None);
    }

    #[test]
    fn a_lock_is_taken_once_until_it_is_released() {
        let (mut memory, mut boxed) = two();
        assert!(memory.try_lock("5a", Lock::Record).unwrap());
        assert!(!boxed.try_lock("5a", Lock::Record).unwrap());
        assert!(boxed.try_lock("5a", Lock::SignIn).unwrap() && boxed.try_lock("5b", Lock::Record).unwrap());
        memory.unlock("5a", Lock::Record);
        assert!(boxed.try_lock("5a", Lock::Record).unwrap());
        assert!(!memory.try_lock("5a", Lock::Record).unwrap());
        boxed.unlock("5a", Lock::Record);
        assert!(memory.try_lock("5a", Lock::Record).unwrap() && !memory.try_lock("5a", Lock::SignIn).unwrap());
    }

    #[test]
    fn the_debug_form_of_a_store_has_its_name_and_no_record() {
        let mut store = MemoryStore::new();
        store.store("5a", b"secret").unwrap();
        assert_eq!(format!("{store:?}"), "MemoryStore { .. }");
    }
}
