//! Unix: process groups, permissions of files.

#![expect(clippy::unnecessary_wraps, reason = "other systems can refuse it")]

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The process group of a server.
#[derive(Debug, Default)]
pub(crate) struct Tree(Option<Pid>);

/// The id of the process that leads the group, while it is known.
#[derive(Debug)]
pub(crate) struct LeaderId(Option<Pid>);

impl From<&Child> for LeaderId {
    fn from(child: &Child) -> Self {
        Self(pid(child.id()))
    }
}

#[cfg(feature = "tokio")]
impl From<&tokio::process::Child> for LeaderId {
    fn from(child: &tokio::process::Child) -> Self {
        Self(child.id().and_then(pid))
    }
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().map(Pid::from_raw)
}

pub(crate) fn lead(command: &mut Command) {
    command.process_group(0);
}

impl Tree {
    pub(crate) fn of(LeaderId(leader): LeaderId) -> io::Result<Self> {
        Ok(Self(leader))
    }

    pub(crate) fn terminate(&self) -> bool {
        self.signal(Signal::SIGTERM);
        true
    }

    pub(crate) fn on_leader_ended(&mut self) {
        self.0 = self.0.filter(|leader| killpg(*leader, None) != Err(Errno::ESRCH));
    }

    pub(crate) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
    }

    fn signal(&self, signal: Signal) {
        // A group without processes is not an error.
        let _ = self.0.map(|leader| killpg(leader, signal));
    }
}

/// An empty entry of `PATH` is the folder in which the program is started.
pub(crate) const EMPTY_ENTRY_COUNTS: bool = true;

/// The system itself searches.
pub(crate) const NEEDS_SEARCH: bool = false;

pub(crate) fn new_command(program: &Path) -> Command {
    Command::new(program)
}

/// `EPIPE` has a kind of its own.
pub(crate) const fn is_reader_gone(_: &io::Error) -> bool {
    false
}

/// `O_NONBLOCK` has no effect on ordinary files. With it, opening a pipe does not wait for the other end (K3).
pub(crate) fn set_private(options: &mut OpenOptions) {
    options.mode(0o600).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
}

pub(crate) fn open_error(error: io::Error) -> io::Error {
    match error.raw_os_error().map(Errno::from_raw) {
        // The link was created after its place was looked at.
        Some(Errno::ELOOP) => super::is_link(),
        Some(Errno::ENXIO) => io::Error::other("it is a pipe that no process reads; start its reader first"),
        Some(_) | None => error,
    }
}

/// Only new files are created with the mode of the options.
pub(crate) const fn protect_new(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn make_private(file: &File, found: &Metadata) -> io::Result<()> {
    // The group and others already have no permissions.
    if found.permissions().mode().trailing_zeros() >= 6 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(0o600))
}

pub(crate) fn create_directory(directory: &Path) -> io::Result<()> {
    match directory.metadata() {
        Ok(found) if found.permissions().mode().trailing_zeros() >= 6 => Ok(()),
        // It is ours alone: whatever created it with other permissions.
        Ok(_) => fs::set_permissions(directory, Permissions::from_mode(0o700)),
        Err(_) => DirBuilder::new().recursive(true).mode(0o700).create(directory),
    }
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// After a crash, the new name is there.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

pub(crate) fn set_blocking(file: &File) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
    fcntl(file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_appears_while_the_file_is_opened_is_named() {
        let eloop = open_error(io::Error::from_raw_os_error(Errno::ELOOP as i32));
        assert!(eloop.to_string().contains("is a symbolic link"), "{eloop}");
        let other = open_error(io::Error::from_raw_os_error(Errno::EACCES as i32));
        assert_eq!(other.kind(), io::ErrorKind::PermissionDenied);
    }
}
