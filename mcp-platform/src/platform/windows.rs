//! Windows: job objects, access lists of files.

#![expect(clippy::unnecessary_wraps, reason = "other systems can refuse it")]

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::os::windows::io::{AsRawHandle, RawHandle};
use std::os::windows::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use win32job::{ExtendedLimitInfo, Job};

/// Ctrl-C in the console does not reach the process.
const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;
/// No window is opened for a program that needs a console.
const CREATE_NO_WINDOW: u32 = 0x0800_0000;

/// The group `OWNER RIGHTS`, which is the owner of a file.
const OWNER: &str = "*S-1-3-4";

/// The errors of a write to a pipe whose other end is closed, besides `ERROR_BROKEN_PIPE`.
const ERROR_NO_DATA: i32 = 232;
const ERROR_PIPE_NOT_CONNECTED: i32 = 233;

/// The errors of a change to a file that another program, such as a virus scanner, has open.
const ERROR_ACCESS_DENIED: i32 = 5;
const ERROR_SHARING_VIOLATION: i32 = 32;
/// How long such a program is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

/// The time for `icacls`, so that one that hangs is an error.
const ICACLS_TIME: Duration = Duration::from_secs(10);

/// A job object, which ends its processes when its last handle is closed: at the latest when this process ends, however it
/// does.
#[derive(Debug, Default)]
pub(crate) struct Tree(Option<Job>);

/// The handle of the process that is put into the job, while it is open.
#[derive(Debug)]
pub(crate) struct LeaderId(Option<RawHandle>);

impl From<&Child> for LeaderId {
    fn from(child: &Child) -> Self {
        Self(Some(child.as_raw_handle()))
    }
}

#[cfg(feature = "tokio")]
impl From<&tokio::process::Child> for LeaderId {
    fn from(child: &tokio::process::Child) -> Self {
        Self(child.raw_handle())
    }
}

/// The job is made once the process exists.
pub(crate) const fn lead(_: &mut Command) {}

impl Tree {
    /// What the process starts before it is in the job is not in it, but a program takes longer than this to start another.
    pub(crate) fn of(LeaderId(leader): LeaderId) -> io::Result<Self> {
        let Some(leader) = leader else { return Ok(Self::default()) };
        let mut limits = ExtendedLimitInfo::new();
        limits.limit_kill_on_job_close();
        let job = Job::create_with_limit_info(&limits).map_err(io::Error::other)?;
        job.assign_process(leader as isize).map_err(io::Error::other)?;
        Ok(Self(Some(job)))
    }

    #[expect(clippy::unused_self, reason = "there is no such signal")]
    pub(crate) const fn terminate(&self) -> bool {
        false
    }

    /// No other job gets its handle.
    #[expect(clippy::unused_self, reason = "there is nothing to do")]
    pub(crate) const fn on_leader_ended(&mut self) {}

    pub(crate) fn kill(&mut self) {
        self.0 = None;
    }
}

/// `PATH` often has empty entries without meaning. The folder of a project, whose files others may have written, must not be
/// searched because of one.
pub(crate) const EMPTY_ENTRY_COUNTS: bool = false;

/// The system itself would find only a file whose name ends in `.exe`.
pub(crate) const NEEDS_SEARCH: bool = true;

pub(crate) fn new_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
    command
}

pub(crate) fn is_reader_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(ERROR_NO_DATA | ERROR_PIPE_NOT_CONNECTED))
}

pub(crate) const fn set_private(_: &mut OpenOptions) {}

pub(crate) const fn open_error(error: io::Error) -> io::Error {
    error
}

/// Gives a new file or directory to its owner alone, unless it is in the profile of the user, which other users cannot read.
pub(crate) fn protect_new(path: &Path) -> io::Result<()> {
    if is_in_profile(path) {
        return Ok(());
    }
    let system = env::var_os("SystemRoot").map_or_else(|| PathBuf::from(r"C:\Windows"), PathBuf::from);
    give_to_owner(&system.join("System32").join("icacls.exe"), path)
}

fn give_to_owner(icacls: &Path, path: &Path) -> io::Result<()> {
    let is_directory = path.is_dir();
    let rights = if is_directory { "(OI)(CI)F" } else { "F" };
    let outcome = run_icacls(icacls, path, &format!("{OWNER}:{rights}"));
    if outcome.is_err() {
        // One that is there the next time is taken for private.
        let _ = if is_directory { fs::remove_dir(path) } else { fs::remove_file(path) };
    }
    outcome
}

fn run_icacls(icacls: &Path, path: &Path, rights: &str) -> io::Result<()> {
    let mut command = Command::new(icacls);
    command.arg(path).args(["/inheritance:r", "/grant:r", rights, "/q"]).creation_flags(CREATE_NO_WINDOW);
    let mut icacls = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let until = Instant::now() + ICACLS_TIME;
    loop {
        match icacls.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(format!("icacls ended with {status}"))),
            None if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
            None => {
                icacls.kill()?;
                icacls.wait()?;
                return Err(io::Error::new(io::ErrorKind::TimedOut, "icacls did not end"));
            }
        }
    }
}

fn is_in_profile(path: &Path) -> bool {
    let Some(profile) = env::var_os("USERPROFILE") else { return false };
    match (fs::canonicalize(path), fs::canonicalize(profile)) {
        (Ok(path), Ok(profile)) => path.starts_with(profile),
        (Ok(_) | Err(_), _) => false,
    }
}

pub(crate) const fn make_private(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

pub(crate) fn create_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).create(directory)?;
    protect_new(directory)
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match fs::rename(from, to) {
            Err(error) if is_in_use(&error) && Instant::now() < until => thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}

fn is_in_use(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(ERROR_ACCESS_DENIED | ERROR_SHARING_VIOLATION))
}

/// A directory cannot be opened as a file.
pub(crate) const fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) const fn set_blocking(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Problem, command, find_program};

    use super::*;

    #[test]
    fn a_script_is_found_without_its_ending_and_gets_its_arguments_whole() {
        let folder = env::temp_dir().join(format!("mcp-platform script {}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let script = folder.join("tool.cmd");
        fs::write(&script, "@echo off\r\necho [%1] [%2]\r\n").unwrap();
        let found = find_program("tool", Some(folder.as_os_str()), Path::new("."));
        assert!(
            found.as_ref().is_ok_and(|found| fs::canonicalize(found).unwrap() == fs::canonicalize(&script).unwrap()),
            "{found:?}"
        );
        assert_eq!(find_program("tool.exe", Some(folder.as_os_str()), Path::new(".")), Err(Problem::NotFound));
        let output = command(found.unwrap()).args(["a b", "c&d"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), r#"["a b"] ["c&d"]"#);
        let refused = command(&script).arg("a\nb").output().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{refused}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_another_program_has_open_is_replaced_once_it_is_closed() {
        use std::os::windows::fs::OpenOptionsExt;

        let path = env::temp_dir().join(format!("mcp-platform-replaced-{}", std::process::id()));
        let new = path.with_extension("new");
        fs::write(&path, "before").unwrap();
        fs::write(&new, "after").unwrap();
        // As programs open files that do not allow others to rename them.
        let opened = OpenOptions::new().read(true).share_mode(1).open(&path).unwrap();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            drop(opened);
        });
        rename(&new, &path).unwrap();
        other.join().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_outside_the_profile_is_given_to_its_owner() {
        let folder = Path::new(r"C:\").join(format!("mcp-platform-{}", std::process::id()));
        assert!(!is_in_profile(Path::new(r"C:\")) && is_in_profile(&env::temp_dir()));
        create_directory(&folder).unwrap();
        let file = folder.join("file");
        fs::write(&file, "").unwrap();
        protect_new(&file).unwrap();
        let listed = Command::new("icacls").arg(&file).output().unwrap().stdout;
        let listed = String::from_utf8_lossy(&listed);
        // The program of that name in Wine does nothing.
        assert!(listed.is_empty() || (listed.contains("OWNER RIGHTS:(F)") && !listed.contains("Users")), "{listed}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_cannot_be_given_to_its_owner_is_removed() {
        let folder = env::temp_dir().join(format!("mcp-platform-unprotected-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("file");
        let opened = File::create(&file).unwrap();
        let unprotected = |path: &Path| give_to_owner(Path::new(r"C:\no\icacls.exe"), path).unwrap_err();
        assert_eq!(unprotected(&file).kind(), io::ErrorKind::NotFound);
        drop(opened);
        assert!(!file.exists());
        assert_eq!(unprotected(&folder).kind(), io::ErrorKind::NotFound);
        assert!(!folder.exists());
    }
}
