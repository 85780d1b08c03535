//! An output that may be a pipe or a socket.

use std::io::{self, BufWriter, Write};

use super::Output;

/// Bytes of small messages that are written at once.
const BUFFER: usize = 8 * 1024;

/// An output with a file descriptor, where there are any.
#[derive(Debug)]
pub(crate) struct Pipe<W: Write> {
    output: BufWriter<W>,
    now: Now,
}

impl<W: Write> Write for Pipe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(target_os = "linux")]
use linux::Now;

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::{File, OpenOptions};
    use std::io::{BufWriter, Write};
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::fs::OpenOptionsExt;

    use nix::fcntl::OFlag;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::stat::{SFlag, fstat};

    use super::{BUFFER, Output, Pipe};

    /// What a Unix socket that has room for anything has room for, a quarter of its buffer being full at most.
    const ROOM: usize = 4096;

    /// How something is written without waiting.
    #[derive(Debug)]
    pub(super) enum Now {
        /// To the same pipe, which was opened once more: who shares the first descriptor may want to wait.
        Pipe(File),
        /// To a socket, once it says that there is room.
        Socket,
        Never,
    }

    impl<W: Write + AsFd> Pipe<W> {
        pub(crate) fn new(output: W) -> Self {
            let kind = fstat(&output).map(|status| SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT);
            let now = match kind {
                Ok(SFlag::S_IFIFO) => reopened(&output).map_or(Now::Never, Now::Pipe),
                Ok(SFlag::S_IFSOCK) => Now::Socket,
                _ => Now::Never,
            };
            Self { output: BufWriter::with_capacity(BUFFER, output), now }
        }
    }

    /// None where there is no `/proc`, or where the pipe belongs to another user.
    fn reopened(pipe: &impl AsFd) -> Option<File> {
        let path = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
        OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).ok()
    }

    impl<W: Write + AsFd + Send> Output for Pipe<W> {
        fn write_now(&mut self, bytes: &[u8]) -> usize {
            match &mut self.now {
                Now::Pipe(pipe) => pipe.write(bytes).unwrap_or_default(),
                Now::Socket if bytes.len() <= ROOM && has_room(self.output.get_ref()) => {
                    self.output.get_mut().write(bytes).unwrap_or_default()
                }
                Now::Socket | Now::Never => 0,
            }
        }
    }

    fn has_room(socket: &impl AsFd) -> bool {
        let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        poll(&mut polled, PollTimeout::ZERO) == Ok(1)
            && polled.iter().all(|polled| polled.revents() == Some(PollFlags::POLLOUT))
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct Now;

#[cfg(not(target_os = "linux"))]
impl<W: Write> Pipe<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { output: BufWriter::with_capacity(BUFFER, output), now: Now }
    }
}

#[cfg(not(target_os = "linux"))]
impl<W: Write + Send> Output for Pipe<W> {
    fn write_now(&mut self, _: &[u8]) -> usize {
        let Now = self.now;
        0
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    use super::*;

    /// Writes until nothing more is taken, and returns how much was.
    fn fill(output: &mut impl Output) -> usize {
        std::iter::repeat_with(|| output.write_now(&[b'x'; 1000])).take_while(|taken| *taken > 0).sum()
    }

    #[test]
    fn a_pipe_takes_what_it_has_room_for_and_stays_as_it_was_for_others() {
        let mut reader = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = reader.stdin.take().unwrap();
        let shared = stdin.as_fd().try_clone_to_owned().unwrap();
        let mut output = Pipe::new(stdin);
        // Nobody reads what is copied, so that both pipes become full.
        assert!(fill(&mut output) >= 4000);
        assert!(!OFlag::from_bits_truncate(fcntl(&shared, FcntlArg::F_GETFL).unwrap()).contains(OFlag::O_NONBLOCK));
        let mut copied = [0; 1000];
        reader.stdout.take().unwrap().read_exact(&mut copied).unwrap();
        assert_eq!(copied, [b'x'; 1000]);
        drop((output, shared));
        // Nothing holds the pipe open any more.
        reader.wait().unwrap();
    }

    #[test]
    fn a_socket_takes_what_it_has_room_for_and_a_file_is_left_to_the_thread() {
        let (writer, reader) = UnixStream::pair().unwrap();
        let mut output = Pipe::new(writer);
        assert!(fill(&mut output) >= 1000);
        assert_eq!(output.write_now(&[b'x'; 5000]), 0);
        drop(reader);
        assert_eq!((output.write_now(b"x"), fill(&mut Pipe::new(File::create("/dev/null").unwrap()))), (0, 0));
    }
}
