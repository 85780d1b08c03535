//! Gateways for programs of this machine: on Unix on Unix sockets, and on other systems at a private port.

#[cfg(any(not(unix), test))]
mod private_port_file;
#[cfg(unix)]
mod socket_file;

#[cfg(not(unix))]
mod private_port;
#[cfg(unix)]
mod unix;

use mcp_blocking::Listener;

#[cfg(not(unix))]
use private_port as own;
#[cfg(unix)]
use unix as own;

pub(crate) use own::{
    HubPlace, ListeningFile, check_socket_path, inherited_local, inherited_tcp, listen_on_private_port,
    listen_on_unix_socket,
};

/// A socket of this machine on which a gateway listens.
pub(crate) struct LocalListening {
    pub(crate) listener: Listener,
    /// The file by which clients find it, which is removed when this is dropped; `None` if it belongs to another program.
    pub(crate) file: Option<ListeningFile>,
    /// Where it is, for a person.
    pub(crate) place: String,
}
