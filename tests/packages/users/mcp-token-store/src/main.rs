//! Two clients of one process that share a store.

use mcp_proto::auth::Lock;
use mcp_token_store::{MemoryStore, Store};

fn main() -> std::io::Result<()> {
    let mut first = MemoryStore::new();
    let mut second = first.clone();
    assert!(first.try_lock("5a", Lock::Record)?);
    assert!(!second.try_lock("5a", Lock::Record)?);
    first.store("5a", b"a record")?;
    first.unlock("5a", Lock::Record);
    assert_eq!(second.load("5a")?, Some(b"a record".to_vec()));
    Ok(())
}
