//! Files that may hold what others must not read: records and logs.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// What becomes of a file that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It is emptied, and made private.
    Replace,
    /// It is kept, with the permissions that it has, and written to at its end.
    Append,
}

/// Opens a file for writing that only this user may read if it is new (mode 0600), never through a symbolic link: in a
/// directory that others may write to, a link would let them choose what is overwritten.
///
/// # Errors
///
/// The path is a symbolic link or a directory, or cannot be written or made private.
pub(crate) fn open(path: &Path, existing: Existing) -> io::Result<File> {
    if path.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
        return Err(is_link());
    }
    let mut options = OpenOptions::new();
    // Not truncated before it is known what it is.
    options.create(true).append(existing == Existing::Append).write(true);
    without_links(&mut options);
    let file = options.open(path).map_err(in_words)?;
    let found = file.metadata()?;
    if existing == Existing::Replace && found.is_file() {
        make_private(&file, &found)?;
        file.set_len(0)?;
    }
    Ok(file)
}

fn is_link() -> io::Error {
    io::Error::other("it is a symbolic link, which is not followed; name the file itself")
}

#[cfg(unix)]
fn without_links(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;

    use nix::fcntl::OFlag;

    options.mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
}

#[cfg(not(unix))]
fn without_links(_: &mut OpenOptions) {}

/// The link was put there after the check above.
#[cfg(unix)]
fn in_words(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) { is_link() } else { error }
}

#[cfg(not(unix))]
fn in_words(error: io::Error) -> io::Error {
    error
}

#[cfg(unix)]
fn make_private(file: &File, found: &Metadata) -> io::Result<()> {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    // Nothing for the group and for others.
    if found.permissions().mode().trailing_zeros() >= 6 {
        return Ok(());
    }
    let private = file.set_permissions(Permissions::from_mode(0o600));
    private.map_err(|error| {
        io::Error::new(error.kind(), format!("others may read it, and that cannot be changed: {error}"))
    })
}

#[cfg(not(unix))]
fn make_private(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn defect_x3_what_is_replaced_becomes_private_and_what_is_appended_to_stays_as_it_is() {
        let path = std::env::current_exe().unwrap().with_extension("private-file");
        for (existing, before, after, text) in [
            (Existing::Replace, 0o644, 0o600, "new"),
            (Existing::Replace, 0o620, 0o600, "new"),
            (Existing::Replace, 0o700, 0o700, "new"),
            (Existing::Append, 0o644, 0o644, "before\nnew"),
        ] {
            fs::write(&path, "before\n").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
            open(&path, existing).unwrap().write_all(b"new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, after, "{existing:?} {before:o}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            fs::remove_file(&path).unwrap();
            open(&path, existing).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{existing:?}");
            fs::remove_file(&path).unwrap();
        }
        assert!(open(Path::new("/"), Existing::Append).is_err());
    }

    #[test]
    fn defect_x3_a_link_that_appears_while_the_file_is_opened_is_named() {
        let eloop = in_words(io::Error::from_raw_os_error(nix::errno::Errno::ELOOP as i32));
        assert!(eloop.to_string().contains("is a symbolic link"), "{eloop}");
        let other = in_words(io::Error::from_raw_os_error(nix::errno::Errno::EACCES as i32));
        assert_eq!(other.kind(), io::ErrorKind::PermissionDenied);
    }
}
