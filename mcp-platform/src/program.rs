//! Programs that start servers, as a shell would find them.

use std::ffi::OsStr;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt};

use mcp_proto::escape_text;

use crate::platform;

/// How much of a name or a path an error shows, in bytes.
const EXCERPT: usize = 500;

/// A command that starts this program, which is looked for as a shell would do it: on Windows, with each ending of `PATHEXT`,
/// so that `npx` is `npx.cmd`.
///
/// On Windows, Ctrl-C in the console does not reach the program, as it does not on Unix with
/// [`ProcessTree::lead`](crate::ProcessTree::lead). The arguments of a `.cmd` or `.bat` file are quoted by the standard
/// library, and starting it fails if that is impossible. A program that is not found is one that cannot be started.
///
/// # Example
///
/// ```
/// let version = mcp_platform::command("cargo").arg("--version").output()?;
/// assert!(version.stdout.starts_with(b"cargo "));
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    command_in(program, env::var_os("PATH").as_deref(), &env::current_dir().unwrap_or_default())
}

/// As [`command`], for a program with another `PATH` or in another folder, which the caller sets. On Unix, the system looks
/// in the `PATH` that is set for the command.
#[must_use]
pub fn command_in(program: impl AsRef<OsStr>, search: Option<&OsStr>, folder: &Path) -> Command {
    let program = program.as_ref();
    match platform::NEEDS_SEARCH.then(|| find_program(program, search, folder)) {
        Some(Ok(path)) => platform::new_command(&path),
        Some(Err(_)) | None => platform::new_command(Path::new(program)),
    }
}

/// Why a program cannot be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// There is no such file.
    NotFound,
    /// There is a file, which this user may not execute.
    NotExecutable,
}

/// Shows it with a question that helps the person.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "its command was not found; is it installed and in PATH?",
            Self::NotExecutable => "its command may not be executed; is it a program, and may you run it?",
        })
    }
}

/// The path of a program that is started in this folder. `search` is the `PATH` in which a name without a separator is looked
/// for; without it, the system has a default that is not known here.
///
/// # Errors
///
/// The program could not be started now.
///
/// # Example
///
/// ```
/// use std::path::Path;
///
/// use mcp_platform::{Problem, find_program};
///
/// let path = std::env::var_os("PATH");
/// assert!(find_program("cargo", path.as_deref(), Path::new(".")).is_ok());
/// assert_eq!(find_program("no-such-program", path.as_deref(), Path::new(".")), Err(Problem::NotFound));
/// ```
pub fn find_program(program: impl AsRef<OsStr>, search: Option<&OsStr>, folder: &Path) -> Result<PathBuf, Problem> {
    let program = program.as_ref();
    let folders: Vec<_> = if is_path(program) {
        vec![folder.to_owned()]
    } else if let Some(search) = search {
        // An entry may be relative to the folder in which the program is started.
        let counts = |entry: &PathBuf| platform::EMPTY_ENTRY_COUNTS || !entry.as_os_str().is_empty();
        env::split_paths(search).filter(counts).map(|entry| folder.join(entry)).collect()
    } else {
        return Ok(program.into());
    };
    let found = env::join_paths(&folders).map(|search| which::which_in(program, Some(search), folder));
    if let Ok(Ok(path)) = found {
        return Ok(path);
    }
    let is_there = folders.iter().any(|folder| folder.join(program).exists());
    Err(if is_there { Problem::NotExecutable } else { Problem::NotFound })
}

/// Whether it is not only a name.
fn is_path(program: &OsStr) -> bool {
    Path::new(program).components().count() > 1 || Path::new(program).is_absolute()
}

/// Adds the name of the program and a hint to the error of starting it.
///
/// A name that was not found is one that a terminal may find: an editor that is started from a desktop has another `PATH`.
///
/// # Example
///
/// ```
/// use std::io::{Error, ErrorKind};
///
/// let error = mcp_platform::not_started("no-such-server", &Error::from(ErrorKind::NotFound));
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// let text = error.to_string();
/// assert!(text.starts_with("cannot start `no-such-server`: entity not found; is it installed and in PATH?"), "{text}");
/// ```
#[must_use]
pub fn not_started(program: &str, error: &Error) -> Error {
    let hint = if error.kind() == ErrorKind::NotFound && is_path(OsStr::new(program)) {
        "; is it installed?".to_owned()
    } else if error.kind() == ErrorKind::NotFound {
        searched(env::var_os("PATH").as_deref())
    } else if error.kind() == ErrorKind::PermissionDenied {
        "; is it a program, and may you run it?".to_owned()
    } else {
        String::new()
    };
    Error::new(error.kind(), format!("cannot start `{}`: {error}{hint}", escape_text(program, EXCERPT)))
}

fn searched(path: Option<&OsStr>) -> String {
    let path = path.map(OsStr::to_string_lossy).unwrap_or_default();
    format!(
        "; is it installed and in PATH? An editor may have another PATH than a terminal; here it is `{}`, and the whole path \
         of the program can be used instead",
        escape_text(&path, EXCERPT)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_its_name_in_a_list_of_folders_and_by_its_path() {
        let this = env::current_exe().unwrap();
        let (folder, name) = (this.parent().unwrap(), this.file_name().unwrap());
        let (above, last) = (folder.parent().unwrap(), folder.file_name().unwrap());
        let other = env::temp_dir();
        let folders = env::join_paths([Path::new("no-such-folder"), folder]).unwrap();
        let dotted = Path::new(".").join(name);
        for (program, search, start, expected) in [
            (name, Some(folders.as_os_str()), &*other, Ok(())),
            (name, Some(last), above, Ok(())),
            (name, Some(OsStr::new("")), folder, if cfg!(unix) { Ok(()) } else { Err(Problem::NotFound) }),
            (name, Some(OsStr::new("no-such-folder")), folder, Err(Problem::NotFound)),
            (name, None, &other, Ok(())),
            (this.as_os_str(), Some(OsStr::new("no-such-folder")), &other, Ok(())),
            (dotted.as_os_str(), Some(OsStr::new("no-such-folder")), folder, Ok(())),
            (dotted.as_os_str(), Some(folder.as_os_str()), &other, Err(Problem::NotFound)),
            (OsStr::new("no-such-program"), Some(&folders), folder, Err(Problem::NotFound)),
            (last, Some(above.as_os_str()), &other, Err(Problem::NotExecutable)),
            (folder.as_os_str(), None, &other, Err(Problem::NotExecutable)),
        ] {
            let found = find_program(program, search, start);
            assert_eq!(
                found.as_ref().map(drop).map_err(|problem| *problem),
                expected,
                "{program:?} {search:?} {start:?}"
            );
        }
    }

    #[test]
    fn a_problem_with_a_program_asks_what_may_be_its_reason() {
        assert!(Problem::NotFound.to_string().ends_with("is it installed and in PATH?"));
        assert!(Problem::NotExecutable.to_string().ends_with("is it a program, and may you run it?"));
    }

    #[test]
    fn a_program_that_is_not_found_is_named_with_the_places_where_it_was_looked_for() {
        let not_found = Error::from(ErrorKind::NotFound);
        let text = not_started("npx", &not_found).to_string();
        let path = env::var("PATH").unwrap();
        let start: String = path.chars().take(20).collect();
        assert!(text.contains(&start) && text.contains("An editor may have another PATH than a terminal"), "{text}");
        let text = not_started("bin/npx", &not_found).to_string();
        assert!(text.ends_with("; is it installed?"), "{text}");
        let text = not_started("npx", &Error::from(ErrorKind::PermissionDenied)).to_string();
        assert!(text.ends_with("; is it a program, and may you run it?"), "{text}");
        let long = "x".repeat(5000);
        assert!(not_started(&long, &not_found).to_string().len() < 2000);
    }
}
