//! The signals that ask the process to end.

use std::io;

/// Calls this on a thread for each SIGINT, SIGTERM and SIGHUP.
///
/// # Errors
///
/// The system does not allow a handler.
#[cfg(unix)]
pub(crate) fn on_signal(handle: impl Fn() + Send + 'static) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("mcp-signals".to_owned()).spawn(move || {
        for _ in &mut signals {
            handle();
        }
    })?;
    Ok(())
}

/// Calls this on a thread for each Ctrl-C and Ctrl-Break, and when the console is closed, after which the system soon ends the
/// process.
///
/// # Errors
///
/// The system does not allow a handler.
#[cfg(windows)]
pub(crate) fn on_signal(handle: impl Fn() + Send + 'static) -> io::Result<()> {
    ctrlc::set_handler(handle).map_err(io::Error::other)
}
