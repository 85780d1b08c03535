//! When a server on a byte stream counts as ended: the end of its process and the end of its stream come in any order, and
//! one of them may never come.

use std::time::Duration;

use mcp_proto::machine::HandleBytes;
use mcp_proto::{Instant, ProcessEnd};

use super::client_limits::CLOSED_INPUT_TIMEOUT;

/// How long the output of a process is read after its end, if another process keeps the stream open; and how long the end
/// of a process is waited for after the end of its output: 1 s.
pub const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// The most bytes that are read after the end of a process: 2 MiB, which is more than a pipe holds. Only another process
/// can write more.
const LAST_OUTPUT: usize = 2 * 1024 * 1024;

/// Decides when a server on a byte stream has ended, for a driver that also watches the server's process.
///
/// The driver reports what it sees: bytes, the end of the stream, the end of the process, and that the server has closed its
/// input. Whenever [`ChildEnd::due`] has passed, and after each of these, it calls [`ChildEnd::pass_to`].
///
/// * After the end of the process, its output is read until it ends, but for at most [`LAST_OUTPUT_TIMEOUT`]: a process that
///   the server has started may keep the stream open for ever. The driver must read even if the machine wants no bytes.
/// * After the end of its output, the end of the process is waited for as long, because it states why.
///
/// # Example
///
/// ```
/// use mcp_proto::client::{Client, Config};
/// use mcp_application::{ChildEnd, LAST_OUTPUT_TIMEOUT};
/// use mcp_proto::machine::ServerStream;
/// use mcp_proto::{Instant, ProcessEnd, Stdio};
///
/// let mut client = Client::new(Stdio::new(), Config::new("my-app", "1.0.0"))?;
/// let (mut end, now) = (ChildEnd::of_process(), Instant::START);
/// end.on_exited(ProcessEnd::Code(3), now);
/// end.pass_to(&mut client, ServerStream, now);
/// assert!(!client.is_closed(), "what it has written is still read");
/// end.pass_to(&mut client, ServerStream, now + LAST_OUTPUT_TIMEOUT);
/// assert!(client.is_closed());
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
pub struct ChildEnd {
    /// Whether the end of a process can be seen at all.
    has_process: bool,
    output_ended: bool,
    exited: Option<ProcessEnd>,
    input_closed: bool,
    /// Bytes that were read after the end of the process.
    last_output: usize,
    due: Option<Instant>,
    is_passed: bool,
}

impl ChildEnd {
    /// The server is the process at the other end of the stream, and the driver watches it.
    #[must_use]
    pub const fn of_process() -> Self {
        Self::new(true)
    }

    /// Nothing is known of the server but its stream.
    #[must_use]
    pub const fn of_stream() -> Self {
        Self::new(false)
    }

    const fn new(has_process: bool) -> Self {
        Self {
            has_process,
            output_ended: false,
            exited: None,
            input_closed: false,
            last_output: 0,
            due: None,
            is_passed: false,
        }
    }

    /// This many bytes were read.
    pub const fn on_read(&mut self, bytes: usize) {
        if self.has_exited() {
            self.last_output = self.last_output.saturating_add(bytes);
        }
    }

    /// The server's output has ended.
    pub fn on_output_ended(&mut self, now: Instant) {
        self.output_ended = true;
        self.wait_until(now + LAST_OUTPUT_TIMEOUT);
    }

    /// The server accepts no more input. It may still write for [`CLOSED_INPUT_TIMEOUT`].
    pub fn on_input_closed(&mut self, now: Instant) {
        self.input_closed = true;
        self.wait_until(now + CLOSED_INPUT_TIMEOUT);
    }

    /// The server's process has ended.
    pub fn on_exited(&mut self, end: ProcessEnd, now: Instant) {
        self.exited = Some(end);
        self.wait_until(now + LAST_OUTPUT_TIMEOUT);
    }

    /// Whether the process has ended, so that its output must be read even if the machine wants no bytes.
    #[must_use]
    pub const fn has_exited(&self) -> bool {
        self.exited.is_some()
    }

    /// When [`ChildEnd::pass_to`] must be called next; `None` if only something new can end the server.
    #[must_use]
    pub const fn due(&self) -> Option<Instant> {
        if self.is_passed { None } else { self.due }
    }

    /// Reports the end to the machine, once, if the server has ended.
    pub fn pass_to<S>(&mut self, machine: &mut impl HandleBytes<S>, stream: S, now: Instant) {
        if self.is_passed || !self.has_ended(now) {
            return;
        }
        self.is_passed = true;
        match self.exited {
            Some(end) => machine.handle_process_end(stream, end, now),
            None if !self.has_process => machine.handle_eof(stream, now),
            None if self.output_ended => machine.handle_process_end(stream, ProcessEnd::OutputClosed, now),
            None => machine.handle_process_end(stream, ProcessEnd::InputClosed, now),
        }
    }

    /// Whether the server has ended. Before [`ChildEnd::pass_to`] reports the end, a driver may pass in what it has
    /// read.
    #[must_use]
    pub fn has_ended(&self, now: Instant) -> bool {
        let is_complete = self.output_ended && (self.has_exited() || !self.has_process);
        is_complete || self.last_output > LAST_OUTPUT || self.due.is_some_and(|due| due <= now)
    }

    /// The first of several ends sets the time.
    fn wait_until(&mut self, until: Instant) {
        self.due = Some(self.due.map_or(until, |due| due.min(until)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine was told.
    #[derive(Default)]
    struct Told(Vec<String>);

    impl HandleBytes<()> for Told {
        fn handle_bytes(&mut self, (): (), _: &[u8], _: Instant) {}

        fn handle_written(&mut self, (): (), _: usize, _: Instant) {}

        fn handle_eof(&mut self, (): (), _: Instant) {
            self.0.push("eof".to_owned());
        }

        fn handle_process_end(&mut self, (): (), end: ProcessEnd, _: Instant) {
            self.0.push(end.to_string());
        }

        fn wants_bytes(&self, (): ()) -> bool {
            true
        }
    }

    /// What the machine is told at this time after the start.
    fn told(end: &mut ChildEnd, after: Duration) -> Vec<String> {
        let mut told = Told::default();
        end.pass_to(&mut told, (), Instant::START + after);
        told.0
    }

    #[test]
    fn both_ends_together_are_reported_at_once_in_any_order() {
        let now = Instant::START;
        for exits_first in [true, false] {
            let mut end = ChildEnd::of_process();
            assert_eq!((end.due(), told(&mut end, Duration::MAX / 4).len()), (None, 0));
            if exits_first {
                end.on_exited(ProcessEnd::Code(3), now);
            } else {
                end.on_output_ended(now);
            }
            assert!(told(&mut end, Duration::ZERO).is_empty());
            if exits_first {
                end.on_output_ended(now);
            } else {
                end.on_exited(ProcessEnd::Code(3), now);
            }
            assert_eq!(told(&mut end, Duration::ZERO), ["exited with code 3"]);
            assert!(told(&mut end, LAST_OUTPUT_TIMEOUT).is_empty() && end.due().is_none(), "it is reported once");
        }
    }

    #[test]
    fn an_end_that_does_not_come_is_waited_for_but_not_for_ever() {
        let now = Instant::START;
        let early = LAST_OUTPUT_TIMEOUT.saturating_sub(Duration::from_nanos(1));
        let mut helper_writes = ChildEnd::of_process();
        helper_writes.on_exited(ProcessEnd::Signal(9), now);
        assert_eq!((helper_writes.due(), helper_writes.has_exited()), (Some(now + LAST_OUTPUT_TIMEOUT), true));
        helper_writes.on_read(LAST_OUTPUT);
        assert!(told(&mut helper_writes, early).is_empty());
        assert_eq!(told(&mut helper_writes, LAST_OUTPUT_TIMEOUT), ["was ended by signal 9 (SIGKILL)"]);

        let mut lives = ChildEnd::of_process();
        lives.on_output_ended(now);
        assert!(told(&mut lives, early).is_empty());
        assert_eq!(told(&mut lives, LAST_OUTPUT_TIMEOUT), ["closed its output without exiting"]);

        let mut deaf = ChildEnd::of_process();
        deaf.on_input_closed(now);
        assert!(told(&mut deaf, LAST_OUTPUT_TIMEOUT).is_empty());
        assert_eq!(told(&mut deaf, CLOSED_INPUT_TIMEOUT), ["closed its input without exiting"]);
    }

    #[test]
    fn a_helper_that_writes_without_end_is_read_up_to_a_limit() {
        let mut end = ChildEnd::of_process();
        end.on_read(2 * LAST_OUTPUT);
        end.on_exited(ProcessEnd::Code(0), Instant::START);
        assert!(told(&mut end, Duration::ZERO).is_empty(), "what came before does not count");
        end.on_read(LAST_OUTPUT + 1);
        assert_eq!(told(&mut end, Duration::ZERO), ["exited with code 0"]);
    }

    #[test]
    fn a_stream_without_a_process_ends_at_once() {
        let mut end = ChildEnd::of_stream();
        end.on_output_ended(Instant::START);
        assert_eq!(told(&mut end, Duration::ZERO), ["eof"]);
        let mut deaf = ChildEnd::of_stream();
        deaf.on_input_closed(Instant::START);
        assert!(told(&mut deaf, Duration::ZERO).is_empty());
        assert_eq!(told(&mut deaf, CLOSED_INPUT_TIMEOUT), ["eof"]);
    }
}
