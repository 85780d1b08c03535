//! The listening socket of a gateway, and who may connect to it.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;

use mcp_blocking::Listener;
use mcp_proto::escape_text;
use mcp_proto::server::Access;

use crate::args::serve::{Listen, ServeArgs};
use crate::platform::{
    ListeningFile, LocalListening, inherited_local, inherited_tcp, listen_on_private_port, listen_on_unix_socket,
};

/// The hosts that name this machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

pub(super) struct Listening {
    pub(super) listener: Listener,
    /// The file by which clients find the socket, which is removed when this is dropped.
    pub(super) file: Option<ListeningFile>,
    pub(super) place: Place,
}

/// Where it is listened.
pub(super) enum Place {
    Tcp(SocketAddr),
    /// For programs of this machine, in words.
    Local(String),
}

impl Listening {
    /// Listens where the command line says.
    ///
    /// # Errors
    ///
    /// A text for the user.
    pub(super) fn open(args: &ServeArgs) -> io::Result<Self> {
        match &args.listen {
            Listen::Tcp(address) => {
                let bound = TcpListener::bind(address).and_then(Self::tcp);
                bound.map_err(|error| not_bound(address, &error))
            }
            Listen::Unix(path) => Self::at_file(path, listen_on_unix_socket),
            Listen::Private(path) => Self::at_file(path, listen_on_private_port),
            Listen::Stdin => Self::inherited().map_err(|error| not_bound("stdin", &error)),
        }
    }

    fn at_file(path: &Path, listen: impl FnOnce(&Path) -> io::Result<LocalListening>) -> io::Result<Self> {
        listen(path).map(Self::local).map_err(|error| not_bound(&path.to_string_lossy(), &error))
    }

    /// The listening socket that was passed as stdin, of TCP or of Unix.
    fn inherited() -> io::Result<Self> {
        match inherited_tcp()? {
            Some(listener) => Self::tcp(listener),
            None => Ok(Self::local(inherited_local()?)),
        }
    }

    fn local(LocalListening { listener, file, place }: LocalListening) -> Self {
        Self { listener, file, place: Place::Local(place) }
    }

    fn tcp(listener: TcpListener) -> io::Result<Self> {
        let place = Place::Tcp(listener.local_addr()?);
        Ok(Self { listener: listener.into(), file: None, place })
    }
}

impl Place {
    /// Checks that those who can connect may use the servers.
    ///
    /// # Errors
    ///
    /// A text for the user.
    pub(super) fn check(&self, args: &ServeArgs, has_users: bool) -> Result<(), String> {
        let Self::Tcp(address) = self else { return Ok(()) };
        if !has_users && !args.allow_unauthenticated && !address.ip().is_loopback() {
            return Err(format!(
                "--listen {address}: other machines reach this address, and anyone who does could use the servers; \
                 demand tokens with --token-env or --token-issuer, or allow that with --allow-unauthenticated"
            ));
        }
        if address.ip().is_unspecified() && args.allow_host.is_empty() && args.public_url.is_none() {
            log::warn!(
                "only requests for localhost are served; name the host that clients use with --allow-host, since \
                 {address} is all addresses of this machine"
            );
        }
        Ok(())
    }

    /// Which hosts and origins requests may have.
    pub(super) fn access(&self, args: &ServeArgs) -> Access {
        match self {
            Self::Tcp(address) => access(args, Some(address.ip())),
            Self::Local(_) => access(args, None),
        }
    }

    /// Where a path is reached, for a person.
    pub(super) fn url(&self, path: &str) -> String {
        match self {
            Self::Tcp(address) => format!("http://{address}{path}"),
            Self::Local(socket) => format!("http://localhost{path} on {}", escape_text(socket, 200)),
        }
    }
}

/// Without options, the hosts and origins are those of this machine. A Unix socket and a private port are reached by no web page,
/// and who may connect to them is decided by the permissions of their file; clients send `Host: localhost`.
fn access(args: &ServeArgs, address: Option<IpAddr>) -> Access {
    let is_local = address.is_none_or(|address| address.is_loopback());
    let public = args.public_url.as_ref().and_then(|url| url.parse::<http::Uri>().ok()?.host().map(str::to_owned));
    if is_local && args.allow_host.is_empty() && args.allow_origin.is_empty() && public.is_none() {
        return Access::Loopback;
    }
    let own = address.filter(|address| !address.is_unspecified()).map(|address| match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    });
    let hosts = LOOPBACK.into_iter().map(str::to_owned).chain(own).chain(public).chain(args.allow_host.iter().cloned());
    let origins = args.allow_origin.iter().map(|origin| origin.as_str().into()).collect();
    Access::Listed { hosts: hosts.map(String::into_boxed_str).collect(), origins }
}

fn not_bound(place: &str, error: &io::Error) -> io::Error {
    let hints = [
        (ErrorKind::AddrInUse, "; is another program listening there?"),
        (ErrorKind::PermissionDenied, "; may you use this port or folder?"),
        (ErrorKind::AddrNotAvailable, "; does this machine have this address?"),
    ];
    let hint = hints.iter().find(|(kind, _)| *kind == error.kind()).map_or("", |(_, hint)| hint);
    io::Error::new(error.kind(), format!("cannot listen on {}: {error}{hint}", escape_text(place, 200)))
}
