//! The code that depends on the operating system.
//!
//! | file | what differs |
//! |---|---|
//! | `descriptors` | how many file descriptors the process may have |
//! | `desktop` | how a person sees a browser, and how a command of the shell is run |
//! | `file_stamp` | the identity of a file, by which a change is detected |
//! | `local_server` | where a gateway for programs of this machine listens, and how a hub is started |
//! | `signals` | how the process is asked to end |

mod descriptors;
mod desktop;
mod file_stamp;
mod local_server;
mod signals;

pub(crate) use descriptors::raise_descriptors;
pub(crate) use desktop::{has_display, shell};
pub(crate) use file_stamp::FileId;
pub(crate) use local_server::{
    HubPlace, ListeningFile, LocalListening, check_socket_path, inherited_local, inherited_tcp, listen_on_private_port,
    listen_on_unix_socket,
};
pub(crate) use signals::{Reopen, on_signal};
