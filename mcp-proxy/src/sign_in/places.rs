//! Where tokens are stored, and what the environment states about the person.

use std::env;
use std::path::PathBuf;

use etcetera::BaseStrategy;
use mcp_blocking::sign_in::{FileStore, MemoryStore, Store};

use crate::platform;

/// The variable with the directory of this program's data.
const HOME: &str = "MCP_PROXY_HOME";
/// The variable that forbids asking a person, unless it is empty.
const NONINTERACTIVE: &str = "MCP_PROXY_NONINTERACTIVE";

/// The directory of this program's data; `None` if the user has no home directory.
pub(super) fn data() -> Option<PathBuf> {
    if let Some(path) = env::var_os(HOME).filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    etcetera::choose_base_strategy().ok().map(|places| places.data_dir().join("mcp-proxy"))
}

/// The store of tokens: in files, or without a home directory in memory.
pub(super) fn store() -> Box<dyn Store> {
    match data() {
        Some(data) => Box::new(FileStore::new(&data.join("tokens"))),
        None => Box::new(MemoryStore::new()),
    }
}

/// Whether a person may be asked to sign in (OA-G-05).
pub(super) fn may_ask() -> bool {
    env::var_os(NONINTERACTIVE).is_none_or(|value| value.is_empty())
}

/// Whether this process can open a browser that the person sees.
pub(super) fn has_display() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("SSH_CONNECTION") && platform::has_display(is_set)
}
