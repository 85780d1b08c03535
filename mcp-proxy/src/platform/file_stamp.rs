//! The identity of a file, which shows a change besides its time and its length.

use std::fs::Metadata;

/// The number of the file, and when its entry changed, on systems that have them.
#[cfg(unix)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64, i64, i64);

#[cfg(unix)]
impl FileId {
    pub(crate) fn of(file: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;

        Self(file.dev(), file.ino(), file.ctime(), file.ctime_nsec())
    }
}

/// When the file was created, as far as the system states it.
#[cfg(windows)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(u64);

#[cfg(windows)]
impl FileId {
    pub(crate) fn of(file: &Metadata) -> Self {
        Self(std::os::windows::fs::MetadataExt::creation_time(file))
    }
}
