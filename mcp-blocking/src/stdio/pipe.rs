//! An output that may be a pipe or a socket, written to without blocking.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use super::Output;
use crate::platform::{self, OwnedOutput, WriteMode};

/// Size of the buffer that joins small messages, in bytes.
const BUFFER: usize = 8 * 1024;

/// An output that is written to without blocking where the system allows it.
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

impl Pipe<File> {
    /// Standard output, optimized for large messages.
    pub(crate) fn of_stdout() -> io::Result<Self> {
        platform::stdout().map(Self::new)
    }
}

impl<W: Write + OwnedOutput> Pipe<W> {
    pub(crate) fn new(output: W) -> Self {
        let mode = WriteMode::of(&output);
        Self { output: BufWriter::with_capacity(BUFFER, output), mode }
    }
}

impl<W: Write + OwnedOutput + Send> Output for Pipe<W> {
    fn write_now(&mut self, bytes: &[u8]) -> usize {
        self.mode.write_now(self.output.get_mut(), bytes)
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
