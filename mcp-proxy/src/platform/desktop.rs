//! The desktop and the shell of the person.

use std::process::Command;

/// Whether this process can show a window, if none of the variables says so.
#[cfg(any(windows, target_os = "macos"))]
const ALWAYS_HAS_DISPLAY: bool = true;
#[cfg(not(any(windows, target_os = "macos")))]
const ALWAYS_HAS_DISPLAY: bool = false;

/// Whether this process can show a window. `is_set` finds out whether an environment variable has a value.
pub(crate) fn has_display(is_set: impl Fn(&str) -> bool) -> bool {
    ALWAYS_HAS_DISPLAY || ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"].into_iter().any(is_set)
}

/// The shell, which runs this command.
#[cfg(windows)]
pub(crate) fn shell(command: &str) -> Command {
    use std::os::windows::process::CommandExt;

    let mut shell = Command::new("cmd");
    // `cmd` removes the outer quotes only, and has rules of its own for those within.
    shell.args(["/D", "/S", "/C"]).raw_arg(format!("\"{command}\""));
    shell
}

#[cfg(unix)]
pub(crate) fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command);
    shell
}
