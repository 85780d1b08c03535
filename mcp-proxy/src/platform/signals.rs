//! The signals that ask the process to end.

use std::io;

/// What a process does that goes on with new files.
pub(crate) type Reopen = Box<dyn Fn() + Send>;

/// Calls `end` on a thread for each SIGINT, SIGTERM and SIGHUP, and for SIGHUP `reopen` instead, if there is one.
///
/// # Errors
///
/// The system does not allow a handler.
#[cfg(unix)]
pub(crate) fn on_signal(end: impl Fn() + Send + 'static, reopen: Option<Reopen>) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("mcp-signals".to_owned()).spawn(move || {
        for signal in &mut signals {
            match &reopen {
                Some(reopen) if signal == SIGHUP => reopen(),
                Some(_) | None => end(),
            }
        }
    })?;
    Ok(())
}

/// Calls `end` on a thread for each Ctrl-C and Ctrl-Break, and when the console is closed, after which the system soon ends the
/// process.
///
/// # Errors
///
/// The system does not allow a handler.
#[cfg(windows)]
pub(crate) fn on_signal(end: impl Fn() + Send + 'static, _: Option<Reopen>) -> io::Result<()> {
    ctrlc::set_handler(end).map_err(io::Error::other)
}
