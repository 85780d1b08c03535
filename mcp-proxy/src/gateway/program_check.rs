//! Whether the program of a server can be found, before it is started for the first client.

use std::ffi::OsStr;
use std::path::Path;

/// Why a process of this program could not be started now, if that is known. `search` is the `PATH` of the process, and
/// `folder` the one in which it is started.
#[cfg(unix)]
pub(super) fn problem(program: &OsStr, search: Option<&OsStr>, folder: &Path) -> Option<&'static str> {
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    let may_run = |path: &PathBuf| {
        let is_executable = nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok();
        is_executable && path.is_file()
    };
    let candidates: Vec<PathBuf> = if program.as_bytes().contains(&b'/') {
        vec![folder.join(program)]
    } else {
        // The system has a default without the variable.
        std::env::split_paths(search?).map(|entry| folder.join(entry).join(program)).collect()
    };
    if candidates.iter().any(may_run) {
        None
    } else if candidates.iter().any(|path| path.exists()) {
        Some("its command may not be executed; is it a program, and may you run it?")
    } else {
        Some("its command was not found; is it installed and in PATH?")
    }
}

/// Other systems look in places and for endings of names that only they know.
#[cfg(not(unix))]
pub(super) const fn problem(_: &OsStr, _: Option<&OsStr>, _: &Path) -> Option<&'static str> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_where_the_system_does() {
        let found = |program: &str, search: Option<&str>, folder: &str| {
            problem(program.as_ref(), search.map(OsStr::new), Path::new(folder)).is_none()
        };
        for (program, search, folder, expected) in [
            ("sh", Some("/nowhere:/bin"), "/", true),
            ("sh", Some("/nowhere"), "/bin", false),
            ("sh", Some("bin"), "/", true),
            ("sh", Some(""), "/bin", true),
            ("sh", None, "/", true),
            ("/bin/sh", Some("/nowhere"), "/", true),
            ("./sh", Some("/nowhere"), "/bin", true),
            ("./sh", Some("/bin"), "/", false),
            ("/bin/no-such-program", Some("/bin"), "/", false),
            ("/dev/null", Some("/bin"), "/", false),
            ("/bin", Some("/bin"), "/", false),
        ] {
            assert_eq!(found(program, search, folder), expected, "{program} {search:?} {folder}");
        }
        let not_executable = problem("/dev/null".as_ref(), None, Path::new("/")).unwrap();
        assert!(not_executable.contains("may not be executed"));
    }
}
