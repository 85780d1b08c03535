//! Shows a URL to a person: in a browser, and on standard error.

use std::io::{self, Write};
use std::thread;

use super::places;

/// Opens a URL in the browser if the person sees this machine's screen, and prints it with a hint. Returns without waiting
/// for either.
pub(super) fn show(url: &str, hint: &str) {
    let (url, hint) = (url.to_owned(), hint.to_owned());
    // Starting a browser takes time, and standard error may not be read.
    let shown = thread::Builder::new().name("mcp-browser".to_owned()).spawn(move || {
        // The URL is passed as one argument, without a shell (OA-Q-10).
        let is_opened = places::has_display() && open::that_detached(&url).is_ok();
        let text = if is_opened {
            "sign in with the browser that was opened at"
        } else {
            "open this URL in a browser to sign in:"
        };
        let _ = writeln!(io::stderr(), "mcp-proxy: {text} {url}\nmcp-proxy: {hint}");
    });
    if let Err(error) = shown {
        log::warn!("cannot start a thread: {error}");
    }
}
