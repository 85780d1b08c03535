//! The file of `--audit`: a line of JSON for each request that has ended. A line that cannot be written is counted, and
//! refuses further requests if that is configured.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use mcp_proto::server::EndedRequest;

use crate::logging::{Log, LogFormat, own_line};
use crate::private_file::{self, Existing};
use crate::request_log;

/// The answer to a request that is not served, because it could not be recorded.
const REFUSAL: &str =
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"the gateway cannot record requests now"}}"#;

/// Records requests in a file.
pub(super) struct Audit {
    path: PathBuf,
    /// Whether no request is served while none can be recorded.
    is_required: bool,
    /// Makes texts fit for display.
    log: Log,
    state: Mutex<State>,
}

struct State {
    output: Box<dyn Write + Send>,
    /// Requests that were not recorded since the last line.
    missing: u64,
    /// All requests that were not recorded.
    lost: u64,
}

impl Audit {
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(super) fn open(path: &Path, is_required: bool, log: Log) -> io::Result<Self> {
        let output = Box::new(private_file::open(path, Existing::Append)?);
        Ok(Self::with_output(path, is_required, log, output))
    }

    fn with_output(path: &Path, is_required: bool, log: Log, output: Box<dyn Write + Send>) -> Self {
        let state = Mutex::new(State { output, missing: 0, lost: 0 });
        Self { path: path.to_owned(), is_required, log, state }
    }

    /// Records a request to this server.
    pub(super) fn record(&self, server: &str, ended: &EndedRequest) {
        let line = request_log::with_record(server, ended, |record| self.log.json_line(record));
        let mut state = self.state();
        if self.note_loss(&mut state) && self.write(&mut state, &line) {
            return;
        }
        state.missing += 1;
        state.lost += 1;
    }

    /// How many requests were not recorded.
    pub(super) fn lost(&self) -> u64 {
        self.state().lost
    }

    /// The answer to a request that must not be served.
    pub(super) fn refusal(&self) -> Option<Response<Bytes>> {
        if !self.is_required || self.note_loss(&mut self.state()) {
            return None;
        }
        let mut response = Response::new(Bytes::from_static(REFUSAL.as_bytes()));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        Some(response)
    }

    /// Goes on with a new file, after the old one was renamed. If that is impossible, the old one is kept.
    pub(super) fn reopen(&self) {
        match private_file::open(&self.path, Existing::Append) {
            Ok(file) => self.replace(file),
            Err(error) => log::error!("--audit {}: {error}; the old file is kept", self.path.display()),
        }
    }

    fn replace(&self, file: File) {
        self.state().output = Box::new(file);
    }

    /// Records how many requests were not, if there are any. Returns whether all losses are recorded.
    fn note_loss(&self, state: &mut State) -> bool {
        if state.missing == 0 {
            return true;
        }
        let text = format!("requests were not recorded: {}", state.missing);
        // What was written last may be a part of a line.
        let line = format!("\n{}", own_line(log::Level::Error, text, LogFormat::Json));
        let is_written = self.write(state, &line);
        if is_written {
            log::warn!(
                "--audit {}: it can be written again; requests were not recorded: {}",
                self.path.display(),
                state.missing
            );
            state.missing = 0;
        }
        is_written
    }

    fn write(&self, state: &mut State, line: &str) -> bool {
        let written = state.output.write_all(format!("{line}\n").as_bytes()).and_then(|()| state.output.flush());
        if let Err(error) = &written {
            // Each further failure is one of the same.
            if state.missing == 0 {
                let then = if self.is_required { "no request is served" } else { "requests are not recorded" };
                log::error!("--audit {}: {error}; {then} until it can be written", self.path.display());
            }
        }
        written.is_ok()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::metrics::tests::ended;
    use super::*;
    use crate::secrets::Secrets;

    /// A file whose disk may be full, which writes a part of what does not fit.
    #[derive(Clone, Default)]
    struct Disk(Arc<(AtomicBool, Mutex<Vec<u8>>)>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (is_full, written) = &*self.0;
            if is_full.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            written.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Disk {
        fn fill(&self, is_full: bool) {
            self.0.0.store(is_full, Ordering::Relaxed);
        }

        /// The method and the message of each line.
        fn lines(&self) -> Vec<(Option<String>, String)> {
            let text = String::from_utf8(self.0.1.lock().unwrap().clone()).unwrap();
            let read = |line: &str| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                let text = |name: &str| line[name].as_str().map(str::to_owned);
                (text("mcp.method.name"), text("message").unwrap())
            };
            text.lines().filter(|line| !line.is_empty()).map(read).collect()
        }
    }

    fn audit(is_required: bool) -> (Audit, Disk) {
        let (disk, log, mut secrets) = (Disk::default(), Log::discarding(), Secrets::default());
        secrets.add("a test", "token-4711");
        log.leave_out(&secrets);
        let output = Box::new(disk.clone());
        (Audit::with_output(Path::new("x"), is_required, log, output), disk)
    }

    fn record(audit: &Audit, method: &str) {
        audit.record("files", &ended(method, "{}", Ok(mcp_proto::Json::empty_object().clone())));
    }

    #[test]
    fn a_full_disk_is_noticed_and_the_file_says_what_it_lacks() {
        for is_required in [false, true] {
            let (audit, disk) = audit(is_required);
            record(&audit, "a/b");
            assert!(audit.refusal().is_none() && audit.lost() == 0);
            disk.fill(true);
            record(&audit, "lost/1");
            record(&audit, "lost/2");
            let refused = audit.refusal().map(|response| response.status().as_u16());
            assert_eq!((audit.lost(), refused), (2, is_required.then_some(503)));
            disk.fill(false);
            // What is refused tries again, else the next request does.
            assert!(audit.refusal().is_none());
            record(&audit, "c/d");
            assert_eq!(audit.lost(), 2, "it is a count of all");
            let ended = "a request ended".to_owned();
            assert_eq!(
                disk.lines(),
                [
                    (Some("a/b".to_owned()), ended.clone()),
                    (None, "requests were not recorded: 2".to_owned()),
                    (Some("c/d".to_owned()), ended),
                ]
            );
        }
    }

    #[test]
    fn no_secret_is_recorded() {
        let (audit, disk) = audit(false);
        record(&audit, "x/token-4711");
        assert_eq!(disk.lines()[0].0.as_deref(), Some("x/[secret]"));
    }
}
