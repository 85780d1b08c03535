//! A store over a credential helper of Docker: `docker-credential-NAME get|store|erase`, with JSON on its standard input
//! and output. The locks are those of files.

use std::io::{self, Write};
use std::process::Stdio;

use mcp_auth::Lock;
use mcp_blocking::sign_in::Store;
use serde::{Deserialize, Serialize};

/// What a helper prints if it has no record.
const NOT_FOUND: &str = "credentials not found in native keychain";

/// Keeps records through a credential helper, for example in the keychain of the system.
pub(super) struct CredentialHelper {
    program: String,
    /// The server, which people see in the list of their credentials.
    server: String,
    locks: Box<dyn Store>,
}

/// A credential, as helpers read and write it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Credential {
    #[serde(rename = "ServerURL")]
    server_url: String,
    username: String,
    secret: String,
}

impl CredentialHelper {
    /// Uses the helper with this name for the records of a server. `locks` has the locks.
    ///
    /// # Errors
    ///
    /// A text for the user: the name is not one of a helper.
    pub(super) fn new(name: &str, server: &str, locks: Box<dyn Store>) -> Result<Self, String> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_valid) {
            return Err("a helper is named without `docker-credential-`, such as `osxkeychain`".to_owned());
        }
        Ok(Self { program: format!("docker-credential-{name}"), server: server.to_owned(), locks })
    }

    /// Runs the helper; returns whether it succeeded, and what it has printed.
    fn run(&self, action: &str, input: &str) -> io::Result<(bool, String)> {
        let in_words = |error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", self.program));
        let mut command = mcp_platform::command(&self.program);
        command.arg(action).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(in_words)?;
        let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().map_err(in_words)?;
        written.map_err(in_words)?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    fn failed(&self, action: &str) -> io::Error {
        // The output of the helper may contain the record.
        io::Error::other(format!("`{} {action}` failed", self.program))
    }
}

/// Under which name a record is kept.
fn url_of(key: &str) -> String {
    format!("mcp-proxy:{key}")
}

impl Store for CredentialHelper {
    fn load(&mut self, key: &str) -> io::Result<Option<Vec<u8>>> {
        let (is_done, printed) = self.run("get", &url_of(key))?;
        if !is_done {
            return if printed.contains(NOT_FOUND) { Ok(None) } else { Err(self.failed("get")) };
        }
        let found: Credential = serde_json::from_str(&printed).map_err(|_| self.failed("get"))?;
        Ok(Some(found.secret.into_bytes()))
    }

    fn store(&mut self, key: &str, record: &[u8]) -> io::Result<()> {
        let secret = String::from_utf8_lossy(record).into_owned();
        let credential = Credential { server_url: url_of(key), username: self.server.clone(), secret };
        let (is_done, _) = self.run("store", &serde_json::to_string(&credential)?)?;
        if is_done { Ok(()) } else { Err(self.failed("store")) }
    }

    fn erase(&mut self, key: &str) -> io::Result<()> {
        // Helpers differ in what they return if there is nothing to erase.
        if self.load(key)?.is_none() {
            return Ok(());
        }
        let (is_done, _) = self.run("erase", &url_of(key))?;
        if is_done { Ok(()) } else { Err(self.failed("erase")) }
    }

    fn try_lock(&mut self, key: &str, lock: Lock) -> io::Result<bool> {
        self.locks.try_lock(key, lock)
    }

    fn unlock(&mut self, key: &str, lock: Lock) {
        self.locks.unlock(key, lock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_helper_is_no_path() {
        let new = |name| CredentialHelper::new(name, "server", Box::new(mcp_blocking::sign_in::MemoryStore::new()));
        assert!(new("secret-service_2").is_ok());
        for name in ["", "../x", "a b", "x/y", "é"] {
            assert!(new(name).is_err(), "{name}");
        }
        let mut missing = new("no-such-helper-here").unwrap();
        assert!(missing.load("5a").unwrap_err().to_string().starts_with("`docker-credential-no-such-helper-here`: "));
    }
}
