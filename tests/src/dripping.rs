//! Servers that never finish what connecting to them takes: each sends a byte now and then.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

/// How long such a server sends its bytes: more than any client may wait.
const DRIPPING: Duration = Duration::from_secs(40);
/// The time between two bytes, which is less than any timeout.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a client that gives a second to connecting may take. It is much less than [`Dripping`] servers send bytes.
pub const BOUND: Duration = Duration::from_secs(20);

/// What the bytes of a server look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dripping {
    /// The first record of a TLS handshake.
    Handshake,
    /// The head of the response to `CONNECT`.
    ProxyResponse,
}

impl Dripping {
    /// Starts the server, and returns its address. Its threads end by themselves.
    #[must_use]
    pub fn start(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("an address").to_string();
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || {
                    let begin: &[u8] = match self {
                        // A record of 16,000 bytes.
                        Self::Handshake => &[0x16, 3, 3, 0x3e, 0x80, 2, 0, 0x3e, 0x7c],
                        Self::ProxyResponse => b"HTTP/1.1 200 OK\r\nx: ",
                    };
                    let until = Instant::now() + DRIPPING;
                    let is_begun = stream.read(&mut [0; 4096]).is_ok() && stream.write_all(begin).is_ok();
                    while is_begun && Instant::now() < until && stream.write_all(b"x").is_ok() {
                        thread::sleep(PAUSE);
                    }
                });
            }
        });
        address
    }
}
