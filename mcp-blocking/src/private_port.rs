//! A port of this machine for programs that have read the same private file.
//!
//! Every program of this machine, whoever runs it, can connect to a port of 127.0.0.1, and can listen at one that has become
//! free. So each connection begins with a handshake, in which both sides prove that they know the secret of the file:
//!
//! | side | what it sends |
//! |---|---|
//! | client | 32 random bytes |
//! | server | 32 random bytes, and its proof: HMAC-SHA256, with the secret, of its role, the port and both times 32 bytes |
//! | client | its proof, with its own role |
//!
//! The client sends nothing else before it has verified the server's proof, and the server reads nothing else before it has
//! verified the client's. The random bytes make a proof one for this connection, the role prevents that it is sent back, and the
//! port that a program at another port passes it on.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use ring::hmac::{self, HMAC_SHA256};

use crate::socket::Socket;

/// How long the handshake may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// The random bytes of each side.
const RANDOM: usize = 32;
/// The bytes of a proof.
const PROOF: usize = 32;
/// The bytes of the secret, which are two hexadecimal digits each in the file.
const SECRET: usize = 32;
/// The first word of the file, with the version of its form.
const FORM: &str = "mcp-private-port-1";
/// More bytes than the file has.
const MAX_FILE: u64 = 128;

/// A port of 127.0.0.1 that serves only programs which have read a file: for systems without Unix sockets, where every program
/// of the machine can connect to a port.
///
/// The file is to be one that only this user can read. Clients find the port by it ([`HttpOptions::private_port_of`]). Before
/// any HTTP, both sides prove that they know the secret of the file, without sending it. A connection without that proof is
/// closed without an answer.
///
/// What is sent afterwards is not encrypted: it does not leave the machine. The secret is a new one for each port.
///
/// [`HttpOptions::private_port_of`]: crate::HttpOptions::private_port_of
///
/// # Example
///
/// ```
/// use mcp_blocking::{Client, HttpOptions, Incoming, PrivatePort, Server};
/// use mcp_blocking::proto::Json;
/// use mcp_blocking::proto::server::{Config, HttpConfig};
///
/// let file = std::env::temp_dir().join(format!("mcp-private-port-{}", std::process::id()));
/// let port = PrivatePort::bind()?;
/// // In a folder that only this user can enter.
/// std::fs::write(&file, port.file_content())?;
///
/// let serve = |incoming: &Incoming| Ok(Json::from(incoming.method().as_str()));
/// let service = Server::new(Config::new("my-tools", "1.0.0"), serve).http(HttpConfig::new())?;
/// let stopper = service.stopper();
/// let running = std::thread::spawn(move || service.serve(port));
///
/// let mut options = HttpOptions::new();
/// options.private_port_of(&file, || Err(std::io::Error::other("the server has ended")));
/// let client = Client::builder().http("http://localhost/mcp")?.http_options(options).connect()?;
/// assert_eq!(client.request("x/y", None)?, Json::from("x/y"));
///
/// client.close();
/// stopper.stop();
/// running.join().expect("it does not panic")?;
/// std::fs::remove_file(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PrivatePort {
    pub(crate) listener: TcpListener,
    pub(crate) known: Known,
}

impl PrivatePort {
    /// Listens at a free port, with a new secret.
    ///
    /// # Errors
    ///
    /// The system has no port or no random bytes.
    pub fn bind() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let digits = random::<SECRET>()?.into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let secret = digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
        let port = listener.local_addr()?.port();
        Ok(Self { listener, known: Known { port, secret } })
    }

    /// What the file is to contain: a line of text, with the port and the secret.
    #[must_use]
    pub fn file_content(&self) -> String {
        let Known { port, secret } = &self.known;
        format!("{FORM} {port} {secret}\n")
    }
}

/// Shows only the port.
impl fmt::Debug for PrivatePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivatePort").field("port", &self.known.port).finish_non_exhaustive()
    }
}

/// Connects to the server whose file this is.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] or [`ErrorKind::ConnectionRefused`] if there is no file, if it names no port, or if no program there
/// knows its secret; [`ErrorKind::TimedOut`] at the deadline.
pub(crate) fn connect(file: &Path, deadline: Option<Instant>) -> io::Result<Socket> {
    let known = Known::read(file)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, known.port));
    let stream = match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
        None => TcpStream::connect(address)?,
        Some(Duration::ZERO) => return Err(ErrorKind::TimedOut.into()),
        Some(left) => TcpStream::connect_timeout(&address, left)?,
    };
    stream.set_nodelay(true)?;
    let socket = Socket::from(stream);
    let own_deadline = Instant::now() + HANDSHAKE_TIME;
    let deadline = deadline.map_or(own_deadline, |at| at.min(own_deadline));
    known.connect(&socket, deadline).map_err(|error| {
        let text = format!("the program at port {} does not prove that it has this file: {error}", known.port);
        io::Error::new(ErrorKind::ConnectionRefused, text)
    })?;
    Ok(socket)
}

/// What both sides know of a port.
#[derive(Clone)]
pub(crate) struct Known {
    port: u16,
    secret: String,
}

/// The sides of a connection. Their words have the same length, so that each part of what is proved has its place.
#[derive(Clone, Copy)]
enum Role {
    Client,
    Server,
}

impl Role {
    const fn word(self) -> &'static [u8] {
        match self {
            Self::Client => b"client",
            Self::Server => b"server",
        }
    }
}

/// The random bytes of a connection.
struct Randoms {
    client: [u8; RANDOM],
    server: [u8; RANDOM],
}

impl Known {
    /// Reads a file.
    fn read(file: &Path) -> io::Result<Self> {
        let mut text = Vec::new();
        File::open(file)?.take(MAX_FILE).read_to_end(&mut text)?;
        let known = std::str::from_utf8(&text).ok().and_then(Self::parse);
        known.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "the file does not name a private port"))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_suffix('\n')?.split(' ');
        let (Some(FORM), Some(port), Some(secret), None) = (words.next(), words.next(), words.next(), words.next())
        else {
            return None;
        };
        let is_secret = secret.len() == 2 * SECRET && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
        let port = port.parse().ok().filter(|port| *port != 0)?;
        is_secret.then(|| Self { port, secret: secret.to_owned() })
    }

    /// The handshake of the client.
    ///
    /// # Errors
    ///
    /// The server has sent no proof, or not in time; it has received nothing but random bytes.
    fn connect(&self, socket: &Socket, deadline: Instant) -> io::Result<()> {
        let mut timed = Timed { socket, deadline };
        let client = random()?;
        timed.write_all(&client)?;
        let randoms = Randoms { client, server: timed.read_array()? };
        self.verify(Role::Server, &randoms, &timed.read_array()?)?;
        timed.write_all(self.prove(Role::Client, &randoms).as_ref())?;
        // The user of the socket expects none.
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(None)
    }

    /// The handshake of the server.
    ///
    /// # Errors
    ///
    /// The client has sent no proof, or not in time.
    pub(crate) fn accept(&self, socket: &Socket) -> io::Result<()> {
        self.accept_until(socket, Instant::now() + HANDSHAKE_TIME)
    }

    fn accept_until(&self, socket: &Socket, deadline: Instant) -> io::Result<()> {
        let mut timed = Timed { socket, deadline };
        let randoms = Randoms { client: timed.read_array()?, server: random()? };
        let proof = self.prove(Role::Server, &randoms);
        // In one packet.
        timed.write_all(&[&randoms.server[..], proof.as_ref()].concat())?;
        self.verify(Role::Client, &randoms, &timed.read_array()?)
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(HMAC_SHA256, self.secret.as_bytes())
    }

    fn prove(&self, role: Role, randoms: &Randoms) -> hmac::Tag {
        hmac::sign(&self.key(), &self.proved(role, randoms))
    }

    fn verify(&self, role: Role, randoms: &Randoms, proof: &[u8; PROOF]) -> io::Result<()> {
        hmac::verify(&self.key(), &self.proved(role, randoms), proof)
            .map_err(|_| io::Error::new(ErrorKind::PermissionDenied, "its proof is wrong"))
    }

    /// The text that a side proves to know the secret by.
    fn proved(&self, role: Role, randoms: &Randoms) -> Vec<u8> {
        [role.word(), &self.port.to_be_bytes(), &randoms.client, &randoms.server].concat()
    }
}

mcp_application::opaque_debug!(Known);

/// A socket on which all reads and writes together end at a deadline.
struct Timed<'s> {
    socket: &'s Socket,
    deadline: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }

    fn read_array<const LENGTH: usize>(&mut self) -> io::Result<[u8; LENGTH]> {
        let mut bytes = [0; LENGTH];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        let mut socket = self.socket;
        socket.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        let mut socket = self.socket;
        socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn random<const LENGTH: usize>() -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use ::mcp_testkit::waiting::LONG;

    use super::*;

    /// A socket of each side.
    fn pair() -> (Socket, Socket) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client.into(), listener.accept().unwrap().0.into())
    }

    fn known(port: u16, secret: char) -> Known {
        Known { port, secret: secret.to_string().repeat(2 * SECRET) }
    }

    fn soon() -> Instant {
        Instant::now() + LONG
    }

    /// The outcomes of a client and a server that know these, and what the server has received after the handshake.
    fn handshake(client: &Known, server: Known) -> (io::Result<()>, io::Result<()>, Vec<u8>) {
        let (ours, theirs) = pair();
        let serving = thread::spawn(move || {
            let outcome = server.accept_until(&theirs, soon());
            let mut rest = Vec::new();
            if outcome.is_ok() {
                let _ = { &theirs }.read_to_end(&mut rest);
            }
            (outcome, rest)
        });
        let outcome = client.connect(&ours, soon());
        if outcome.is_ok() {
            let Socket::Tcp(stream) = &ours else { panic!("a socket of TCP") };
            let timeouts = (stream.read_timeout().unwrap(), stream.write_timeout().unwrap());
            assert_eq!(timeouts, (None, None), "those of the handshake are over");
            { &ours }.write_all(b"GET").unwrap();
        }
        drop(ours);
        let (other_outcome, rest) = serving.join().unwrap();
        (outcome, other_outcome, rest)
    }

    #[test]
    fn sides_with_the_same_file_are_connected() {
        let (client, server, rest) = handshake(&known(7, 'a'), known(7, 'a'));
        client.unwrap();
        server.unwrap();
        assert_eq!(rest, b"GET", "nothing that follows the handshake is lost");
    }

    #[test]
    fn sides_with_another_secret_or_at_another_port_are_not_connected() {
        for (client, server) in [(known(7, 'a'), known(7, 'b')), (known(7, 'a'), known(8, 'a'))] {
            let (client, server, _) = handshake(&client, server);
            assert_eq!(client.unwrap_err().kind(), ErrorKind::PermissionDenied);
            server.unwrap_err();
        }
    }

    #[test]
    fn a_server_without_the_secret_receives_random_bytes_only() {
        let mut seen = Vec::new();
        for length in [0, 63, 64, 100_000] {
            let (ours, theirs) = pair();
            let connecting = thread::spawn(move || known(7, 'a').connect(&ours, soon()));
            let mut bytes = [0; RANDOM];
            { &theirs }.read_exact(&mut bytes).unwrap();
            // The client may have closed the connection before it has taken all.
            let _ = { &theirs }.write_all(&vec![7; length]);
            let _ = theirs.shutdown(std::net::Shutdown::Write);
            connecting.join().unwrap().unwrap_err();
            let mut rest = Vec::new();
            let _ = { &theirs }.read_to_end(&mut rest);
            assert!(rest.is_empty(), "{} bytes", rest.len());
            seen.push(bytes);
        }
        seen.dedup();
        assert_eq!(seen.len(), 4, "they are others each time");
    }

    /// The program at a port of its own passes what the client sends on to the server at its port, and back.
    #[test]
    fn a_proof_that_is_passed_on_from_another_port_is_refused() {
        let ((client, relayed), (relay, server)) = (pair(), pair());
        let serving = thread::spawn(move || known(8, 'a').accept_until(&server, soon()));
        let connecting = thread::spawn(move || known(7, 'a').connect(&client, soon()));
        let mut bytes = [0; RANDOM];
        { &relayed }.read_exact(&mut bytes).unwrap();
        { &relay }.write_all(&bytes).unwrap();
        let mut answer = [0; RANDOM + PROOF];
        { &relay }.read_exact(&mut answer).unwrap();
        { &relayed }.write_all(&answer).unwrap();
        assert_eq!(connecting.join().unwrap().unwrap_err().kind(), ErrorKind::PermissionDenied);
        drop(relay);
        serving.join().unwrap().unwrap_err();
    }

    #[test]
    fn the_proof_of_one_side_is_none_of_the_other() {
        let (ours, theirs) = pair();
        let serving = thread::spawn(move || known(7, 'a').accept_until(&theirs, soon()));
        { &ours }.write_all(&[7; RANDOM]).unwrap();
        let mut answer = [0; RANDOM + PROOF];
        { &ours }.read_exact(&mut answer).unwrap();
        { &ours }.write_all(&answer[RANDOM..]).unwrap();
        assert_eq!(serving.join().unwrap().unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_client_that_ends_early_or_sends_other_bytes_is_refused() {
        for (length, kind) in [
            (0, ErrorKind::UnexpectedEof),
            (31, ErrorKind::UnexpectedEof),
            (63, ErrorKind::UnexpectedEof),
            (64, ErrorKind::PermissionDenied),
            (1_000_000, ErrorKind::PermissionDenied),
        ] {
            let (ours, theirs) = pair();
            let serving = thread::spawn(move || known(7, 'a').accept_until(&theirs, soon()));
            // The server closes the connection before it has taken all.
            let _ = { &ours }.write_all(&vec![7; length]);
            let _ = ours.shutdown(std::net::Shutdown::Write);
            assert_eq!(serving.join().unwrap().unwrap_err().kind(), kind, "{length}");
        }
    }

    /// Each byte is in time.
    #[test]
    fn a_peer_that_sends_little_by_little_has_the_same_time_for_all() {
        for is_client in [true, false] {
            let (ours, theirs) = pair();
            let within = Duration::from_millis(300);
            let began = Instant::now();
            let waiting = thread::spawn(move || {
                if is_client {
                    known(7, 'a').connect(&theirs, began + within)
                } else {
                    known(7, 'a').accept_until(&theirs, began + within)
                }
            });
            while !waiting.is_finished() {
                let _ = { &ours }.write(&[7]);
                thread::sleep(within / 10);
                assert!(began.elapsed() < LONG, "it waits");
            }
            let error = waiting.join().unwrap().unwrap_err();
            assert!(crate::socket::is_timeout(&error), "{error}");
            assert!(began.elapsed() >= within);
        }
    }

    #[test]
    fn only_a_line_with_the_form_a_port_and_a_secret_is_a_file() {
        let port = PrivatePort::bind().unwrap();
        let content = port.file_content();
        let read = Known::parse(&content).unwrap();
        assert_eq!((read.port, &read.secret), (port.known.port, &port.known.secret));
        assert!(content.len() < usize::try_from(MAX_FILE).unwrap());
        assert_ne!(port.known.secret, PrivatePort::bind().unwrap().known.secret);
        let secret = "a".repeat(2 * SECRET);
        assert!(Known::parse(&format!("{FORM} 7 {secret}\n")).is_some());
        for text in [
            String::new(),
            "\n".to_owned(),
            format!("{FORM} 7 {secret}"),
            format!("{FORM} 7 {secret}\n\n"),
            format!("{FORM} 7 {secret} \n"),
            format!("{FORM} 0 {secret}\n"),
            format!("{FORM} 65536 {secret}\n"),
            format!("{FORM} 7 {secret}a\n"),
            format!("{FORM} 7 {}g\n", &secret[1..]),
            format!("{FORM} 7 \n"),
            format!("{FORM} {secret} 7\n"),
            format!("mcp-private-port-2 7 {secret}\n"),
        ] {
            assert!(Known::parse(&text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn nothing_shows_the_secret() {
        let port = PrivatePort::bind().unwrap();
        let shown = format!("{port:?} {:?} {:?}", port.known, crate::Listener::from(PrivatePort::bind().unwrap()));
        let number = port.known.port;
        assert!(shown.contains(&format!("PrivatePort {{ port: {number}, .. }}")), "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
    }
}
