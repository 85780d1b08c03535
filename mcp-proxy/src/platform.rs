//! The code that depends on the operating system.
//!
//! | file | what differs |
//! |---|---|
//! | `desktop` | how a person sees a browser, and how a command of the shell is run |
//! | `file_stamp` | what tells that a file has changed |
//! | `signals` | how the process is asked to end |

mod desktop;
mod file_stamp;
mod signals;

pub(crate) use desktop::{has_display, shell};
pub(crate) use file_stamp::FileId;
pub(crate) use signals::on_signal;
