//! An output that may be a pipe or a socket, written to without blocking.

use std::io::{self, BufWriter, Write};

use super::Output;

/// Size of the buffer that joins small messages, in bytes.
const BUFFER: usize = 8 * 1024;

/// An output with a file descriptor, on platforms that have them.
#[derive(Debug)]
pub(crate) struct Pipe<W: Write> {
    output: BufWriter<W>,
    mode: WriteMode,
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
use linux::WriteMode;

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

    /// Bytes that a Unix socket accepts if it is writable at all, since then at most a quarter of its buffer is full.
    const ROOM: usize = 4096;

    /// How to write without blocking.
    #[derive(Debug)]
    pub(super) enum WriteMode {
        /// To the same pipe, opened a second time: other users of the first descriptor may rely on blocking writes.
        Pipe(File),
        /// To the socket, if it is writable.
        Socket,
        Never,
    }

    impl<W: Write + AsFd> Pipe<W> {
        pub(crate) fn new(output: W) -> Self {
            let kind = fstat(&output).map(|status| SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT);
            let mode = match kind {
                Ok(SFlag::S_IFIFO) => reopened(&output).map_or(WriteMode::Never, WriteMode::Pipe),
                Ok(SFlag::S_IFSOCK) => WriteMode::Socket,
                _ => WriteMode::Never,
            };
            Self { output: BufWriter::with_capacity(BUFFER, output), mode }
        }
    }

    /// Opens the pipe again. Returns `None` if there is no `/proc`, or if the pipe belongs to another user.
    fn reopened(pipe: &impl AsFd) -> Option<File> {
        let path = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
        OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).ok()
    }

    impl<W: Write + AsFd + Send> Output for Pipe<W> {
        fn write_now(&mut self, bytes: &[u8]) -> usize {
            match &mut self.mode {
                WriteMode::Pipe(pipe) => pipe.write(bytes).unwrap_or_default(),
                WriteMode::Socket if bytes.len() <= ROOM && has_room(self.output.get_ref()) => {
                    self.output.get_mut().write(bytes).unwrap_or_default()
                }
                WriteMode::Socket | WriteMode::Never => 0,
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
struct WriteMode;

#[cfg(not(target_os = "linux"))]
impl<W: Write> Pipe<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { output: BufWriter::with_capacity(BUFFER, output), mode: WriteMode }
    }
}

#[cfg(not(target_os = "linux"))]
impl<W: Write + Send> Output for Pipe<W> {
    fn write_now(&mut self, _: &[u8]) -> usize {
        let WriteMode = self.mode;
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

    /// Writes until nothing more is accepted, and returns the number of bytes written.
    fn fill(output: &mut impl Output) -> usize {
        std::iter::repeat_with(|| output.write_now(&[b'x'; 1000])).take_while(|taken| *taken > 0).sum()
    }

    #[test]
    fn a_pipe_takes_what_it_has_room_for_and_stays_as_it_was_for_others() {
        let mut reader = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = reader.stdin.take().unwrap();
        let shared = stdin.as_fd().try_clone_to_owned().unwrap();
        let mut output = Pipe::new(stdin);
        // The output of `cat` is not read, so both pipes become full.
        assert!(fill(&mut output) >= 4000);
        assert!(!OFlag::from_bits_truncate(fcntl(&shared, FcntlArg::F_GETFL).unwrap()).contains(OFlag::O_NONBLOCK));
        let mut copied = [0; 1000];
        reader.stdout.take().unwrap().read_exact(&mut copied).unwrap();
        assert_eq!(copied, [b'x'; 1000]);
        drop((output, shared));
        // Nothing keeps the pipe open any more.
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
