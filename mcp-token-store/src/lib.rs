//! Where clients that sign in store their tokens.
//!
//! A sign-in ([`mcp_auth::Authorizer`]) stores one record for each server and account: the registration of the
//! client and its tokens. Its driver passes the record to a [`Store`], under the key of the sign-in's configuration
//! ([`Config::store_key`](mcp_auth::Config::store_key)). The drivers `mcp-blocking` and `mcp-tokio` use these
//! stores and export them.
//!
//! | store | records | locks are shared by |
//! |---|---|---|
//! | [`MemoryStore`] | are lost at the end of the process | clones of the store |
//! | [`FileStore`] | are files that only this user can read | all processes that use the directory |
//!
//! The lock [`Lock::Record`](mcp_auth::Lock) is held while a record is read, tokens are requested and the new record
//! is stored, because authorization servers accept each refresh token once (OA-F-04). The lock
//! [`Lock::SignIn`](mcp_auth::Lock) is held while a person signs in, so that several processes open one browser
//! window (OA-G-03).
//!
//! # Example: two sign-ins that share a store
//!
//! ```sh
//! cargo add mcp-auth
//! cargo add mcp-token-store
//! ```
//!
//! ```
//! use mcp_auth::Lock;
//! use mcp_token_store::{MemoryStore, Store};
//!
//! fn main() -> std::io::Result<()> {
//!     let (mut first, key) = (MemoryStore::new(), "5a");
//!     let mut second = first.clone();
//!     assert!(first.try_lock(key, Lock::Record)?);
//!     assert!(!second.try_lock(key, Lock::Record)?, "it waits until the first has stored its record");
//!     first.store(key, b"record")?;
//!     first.unlock(key, Lock::Record);
//!     assert!(second.try_lock(key, Lock::Record)?);
//!     assert_eq!(second.load(key)?, Some(b"record".to_vec()));
//!     Ok(())
//! }
//! ```

mod file_store;
mod store;

pub use file_store::FileStore;
pub use store::{MemoryStore, Store};

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
