//! Values that are in variables of the environment.

use std::ffi::OsString;

use mcp_proto::escape_text;

use crate::secrets::Secrets;

/// Replaces `${NAME}` by the value of the environment variable, which is treated as a secret.
pub(crate) fn expand(text: &str, secrets: &mut Secrets) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or_else(|| "'${' without '}'".to_owned())?;
        let value = environment(name)?;
        secrets.add(format!("the environment variable {name}"), &value);
        expanded.push_str(before);
        expanded.push_str(&value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The value of an environment variable, without the trailing line break that it has if it was read from a file by
/// `cat`.
pub(crate) fn environment(name: &str) -> Result<String, String> {
    match std::env::var_os(name).map(OsString::into_string) {
        Some(Ok(value)) => {
            let value = value.strip_suffix('\n').map_or(value.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
            Ok(value.to_owned())
        }
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
}
