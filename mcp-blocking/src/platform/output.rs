//! Writing to a pipe or a socket without blocking, and standard output.

#[cfg(target_os = "linux")]
pub(crate) use linux::WriteMode;
use std::io;
#[cfg(unix)]
pub(crate) use std::os::fd::AsFd as OwnedOutput;
#[cfg(windows)]
pub(crate) use std::os::windows::io::AsHandle as OwnedOutput;

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::{File, OpenOptions};
    use std::io::Write;
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::fs::OpenOptionsExt;

    use nix::fcntl::OFlag;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::stat::{SFlag, fstat};

    /// Bytes that a Unix socket accepts if it is writable at all, since then at most a quarter of its buffer is full.
    const ROOM: usize = 4096;

    /// How to write without blocking.
    #[derive(Debug)]
    pub(crate) enum WriteMode {
        /// To the same pipe, opened a second time: other users of the first descriptor may rely on blocking writes.
        Pipe(File),
        /// To the socket, if it is writable.
        Socket,
        Never,
    }

    impl WriteMode {
        pub(crate) fn of(output: &impl AsFd) -> Self {
            let kind = fstat(output).map(|status| SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT);
            match kind {
                Ok(SFlag::S_IFIFO) => reopened(output).map_or(Self::Never, Self::Pipe),
                Ok(SFlag::S_IFSOCK) => Self::Socket,
                _ => Self::Never,
            }
        }

        /// Returns how many of the bytes were written.
        pub(crate) fn write_now(&mut self, output: &mut (impl Write + AsFd), bytes: &[u8]) -> usize {
            match self {
                Self::Pipe(pipe) => pipe.write(bytes).unwrap_or_default(),
                Self::Socket if bytes.len() <= ROOM && has_room(output) => output.write(bytes).unwrap_or_default(),
                Self::Socket | Self::Never => 0,
            }
        }
    }

    /// Opens the pipe again. Returns `None` if there is no `/proc`, or if the pipe belongs to another user.
    fn reopened(pipe: &impl AsFd) -> Option<File> {
        let path = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
        OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).ok()
    }

    fn has_room(socket: &impl AsFd) -> bool {
        let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        poll(&mut polled, PollTimeout::ZERO) == Ok(1)
            && polled.iter().all(|polled| polled.revents() == Some(PollFlags::POLLOUT))
    }
}

/// Each write may block.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct WriteMode;

#[cfg(not(target_os = "linux"))]
impl WriteMode {
    pub(crate) const fn of(_: &impl OwnedOutput) -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "Linux can write")]
    pub(crate) const fn write_now<W>(&mut self, _: &mut W, _: &[u8]) -> usize {
        0
    }
}

/// Standard output without the line buffering of the standard library, which searches large messages for line ends.
pub(crate) fn stdout() -> io::Result<std::fs::File> {
    #[cfg(unix)]
    use std::os::fd::AsFd as _;
    #[cfg(windows)]
    use std::os::windows::io::AsHandle as _;

    #[cfg(unix)]
    let file = io::stdout().as_fd().try_clone_to_owned()?.into();
    #[cfg(windows)]
    let file = io::stdout().as_handle().try_clone_to_owned()?.into();
    widen(&file);
    Ok(file)
}

/// Enlarges a pipe to the size that any user may set, so that the reader and the writer of a large message switch less
/// often.
#[cfg(target_os = "linux")]
fn widen(file: &std::fs::File) {
    use nix::fcntl::{FcntlArg, fcntl};

    const ROOM: i32 = 1 << 20;
    // If this is not a pipe, or may not be so large, it is left unchanged.
    let _ = fcntl(file, FcntlArg::F_SETPIPE_SZ(ROOM));
}

#[cfg(not(target_os = "linux"))]
const fn widen(_: &std::fs::File) {}
