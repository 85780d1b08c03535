//! How many file descriptors the process may have.

#[cfg(unix)]
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// Lets this process, and those that it starts, have as many as `needed`, as far as the system permits. Returns how many it may
/// have if that is less.
#[cfg(unix)]
pub(crate) fn raise_descriptors(needed: u32) -> Option<rlim_t> {
    let needed = rlim_t::from(needed);
    let (usual, most) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    if usual >= needed {
        return None;
    }
    let raised = needed.min(most);
    let has = if setrlimit(Resource::RLIMIT_NOFILE, raised, most).is_ok() { raised } else { usual };
    (has < needed).then_some(has)
}

/// Windows has no such limit.
#[cfg(windows)]
pub(crate) fn raise_descriptors(_: u32) -> Option<u32> {
    None
}
