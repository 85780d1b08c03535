//! What depends on the operating system.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use socket2::Socket;

/// A free port, reserved by a socket.
#[cfg(not(windows))]
pub(crate) fn reserve() -> (SocketAddr, Option<Arc<Socket>>) {
    let reserved = crate::raw_client::tcp_socket();
    // A listener that sets the same option, as most do, may bind to the address too.
    reserved.set_reuse_address(true).expect("a socket");
    reserved.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
    let address = reserved.local_addr().ok().and_then(|address| address.as_socket()).expect("its address");
    (address, Some(Arc::new(reserved)))
}

/// A free port below those that the system chooses. On Windows, listeners do not share an address with a socket that reserves it.
#[cfg(windows)]
pub(crate) fn reserve() -> (SocketAddr, Option<Arc<Socket>>) {
    use std::sync::atomic::{AtomicU32, Ordering};

    const FIRST: u32 = 10_000;
    /// The numbers of ports from which this process takes its own.
    const COUNT: u32 = 20_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);

    // Processes that run at the same time begin at different numbers.
    let mut candidates = (0..COUNT).map(|_| {
        let next = std::process::id().wrapping_mul(97).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + next % COUNT).expect("a port");
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    });
    let address = candidates.find(|address| std::net::TcpListener::bind(address).is_ok()).expect("a free port");
    (address, None)
}
