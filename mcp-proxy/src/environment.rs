//! Values that are in variables of the environment.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;

use mcp_proto::escape_text;

use crate::secrets::Secrets;

/// The prefix of the path of a file in the place of the name of a variable.
const FILE: &str = "file:";
/// The largest file whose content replaces its path, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// Replaces `${NAME}` by the value of the environment variable, and `${file:PATH}` by the content of the file. Both are
/// treated as secrets.
pub(crate) fn expand(text: &str, secrets: &mut Secrets) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or_else(|| "'${' without '}'".to_owned())?;
        let (value, source) = if let Some(path) = name.strip_prefix(FILE) {
            (content(path)?, format!("the file {}", escape_text(path, 200)))
        } else {
            (environment(name)?, format!("the environment variable {name}"))
        };
        secrets.add(source, &value);
        expanded.push_str(before);
        expanded.push_str(&value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The names of the environment variables that [`expand`] replaces in a text.
pub(crate) fn variables(text: &str) -> impl Iterator<Item = &str> {
    let names = text.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    names.filter(|name| !name.starts_with(FILE))
}

/// The content of a file without its last line break.
fn content(path: &str) -> Result<String, String> {
    let in_file = |error: &dyn std::fmt::Display| format!("the file {}: {error}", escape_text(path, 200));
    let mut text = String::new();
    let file = File::open(path).map_err(|error| in_file(&error))?;
    let length = file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(|error| in_file(&error))?;
    if length as u64 > MAX_FILE {
        return Err(in_file(&"it is larger than 64 KiB"));
    }
    Ok(without_line_break(&text).to_owned())
}

fn without_line_break(text: &str) -> &str {
    text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line))
}

/// The value of an environment variable, without the trailing line break that it has if it was read from a file by
/// `cat`.
pub(crate) fn environment(name: &str) -> Result<String, String> {
    match std::env::var_os(name).map(OsString::into_string) {
        Some(Ok(value)) => Ok(without_line_break(&value).to_owned()),
        Some(Err(_)) => Err(format!("the environment variable {} is not UTF-8", escape_text(name, 80))),
        None => Err(format!("the environment variable {} is not set", escape_text(name, 80))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_wherever_they_stand() {
        let path = std::env::var("PATH").unwrap();
        let mut secrets = Secrets::default();
        assert_eq!(expand("a${PATH}b$c", &mut secrets), Ok(format!("a{path}b$c")));
        assert_eq!(secrets.leave_out(&format!("-{path}-")), "-[secret]-");
        assert!(expand("${NO_SUCH_VARIABLE_HERE}", &mut secrets).is_err());
        assert!(expand("${PATH", &mut secrets).is_err());
    }

    #[test]
    fn the_content_of_a_file_is_used_without_its_last_line_break() {
        let file = std::env::temp_dir().join(format!("mcp-proxy-expand-{}", std::process::id()));
        let text = format!("a${{file:{}}}b", file.display());
        let mut secrets = Secrets::default();
        assert!(expand(&text, &mut secrets).unwrap_err().contains("mcp-proxy-expand"));
        std::fs::write(&file, "token-4711\n\r\n").unwrap();
        assert_eq!(expand(&text, &mut secrets), Ok("atoken-4711\nb".to_owned()));
        assert_eq!(secrets.leave_out("-token-4711\n-"), "-[secret]-");
        std::fs::write(&file, vec![b'x'; 65 * 1024]).unwrap();
        assert!(expand(&text, &mut secrets).unwrap_err().contains("64 KiB"));
        std::fs::remove_file(file).unwrap();
    }
}
