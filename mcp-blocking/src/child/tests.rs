//! Tests with servers in child processes, each a shell that runs a script.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;

use ::mcp_testkit::waiting::{LONG, wait_until};
use mcp_application::{CLOSED_INPUT_TIMEOUT, LAST_OUTPUT_TIMEOUT};

use super::*;
use crate::clock;

/// A machine that records what a server has sent and accepted.
#[derive(Debug, Default)]
struct Recorder {
    text: String,
    ends: usize,
    /// How its process has ended.
    end: Option<ProcessEnd>,
    written: Vec<usize>,
}

impl HandleBytes<ServerStream> for Recorder {
    fn handle_bytes(&mut self, _: ServerStream, bytes: &[u8], _: Instant) {
        self.text.push_str(std::str::from_utf8(bytes).unwrap());
    }

    fn handle_eof(&mut self, _: ServerStream, _: Instant) {
        self.ends += 1;
    }

    fn handle_process_end(&mut self, stream: ServerStream, end: ProcessEnd, now: Instant) {
        self.end = Some(end);
        self.handle_eof(stream, now);
    }

    fn handle_written(&mut self, _: ServerStream, bytes: usize, _: Instant) {
        self.written.push(bytes);
    }

    fn wants_bytes(&self, _: ServerStream) -> bool {
        true
    }
}

/// A server, and what was received from it.
struct Running {
    child: Child<FromChild>,
    received: Recorder,
    inputs: Receiver<FromChild>,
    backpressure: Arc<Backpressure>,
}

impl Running {
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Self::start_command(command)
    }

    fn start_command(command: Command) -> Self {
        let ((inbox, inputs), backpressure) = (sync_channel(INBOX), Arc::new(Backpressure::new()));
        let child = Child::start(command, Process::default(), Arc::new(inbox), Arc::clone(&backpressure)).unwrap();
        Self { child, received: Recorder::default(), inputs, backpressure }
    }

    fn act(&mut self, action: StdioAction) {
        self.child.act(action);
    }

    fn write(&mut self, text: &'static str) {
        self.act(StdioAction::Write(text.as_bytes().into()));
    }

    /// Feeds inputs until the condition holds.
    fn until(&mut self, is_met: impl Fn(&Recorder) -> bool) {
        while !is_met(&self.received) {
            let received = self.inputs.recv_timeout(LONG);
            let received = received.unwrap_or_else(|error| panic!("{error}: {:?}", self.received));
            self.child.feed(&mut self.received, received, clock::now());
        }
    }

    fn happened(&mut self, happened: Happened, now: Instant) {
        let (incarnation, happened) = (self.child.incarnation, What::Stream(happened));
        self.child.feed(&mut self.received, FromChild { incarnation, happened }, now);
    }

    fn catch_up(&mut self, now: Instant) {
        self.child.catch_up(&mut self.received, now);
    }

    fn max_wait(&self, is_stalled: bool, now: Instant) -> Duration {
        <Child<FromChild> as Link>::max_wait(&self.child, is_stalled, now)
    }

    /// The numbers that the server has printed, one per line.
    fn numbers(&self) -> Vec<u32> {
        self.received.text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Waits until all processes have closed the server's stdout.
    fn is_over(inputs: &Receiver<FromChild>) -> bool {
        loop {
            match inputs.recv_timeout(LONG) {
                Ok(FromChild { happened: What::Stream(Happened::InputEnded), .. }) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
}

/// Sleeps, and returns that the end is not urgent.
fn patient(time: Duration) -> bool {
    thread::sleep(time);
    false
}

/// Whether the process exists; this includes a zombie.
#[cfg(target_os = "linux")]
fn is_left(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

#[test]
fn a_server_is_written_to_and_read_until_its_stdin_is_closed() {
    let mut running = Running::start("read -r line; echo \"got $line\"; cat; echo ended; exit 3");
    running.write("hello\n");
    running.until(|received| received.text == "got hello\n");
    let now = clock::now();
    running.catch_up(now);
    running.catch_up(now);
    assert_eq!(running.received.written, [6], "reported once, and no count of zero");
    running.write("more\n");
    running.act(StdioAction::CloseWrite);
    running.until(|received| received.ends == 1);
    assert_eq!(running.received.text, "got hello\nmore\nended\n");
    running.child.end(&mut patient);
}

#[test]
fn how_a_server_has_ended_is_reported_after_what_it_has_written() {
    for (script, end) in [("exit 3", ProcessEnd::Code(3)), ("kill -9 $$", ProcessEnd::Signal(9))] {
        let mut running = Running::start(&format!("echo last; {script}"));
        running.until(|received| received.ends == 1);
        assert_eq!((running.received.text.as_str(), running.received.end), ("last\n", Some(end)));
        running.child.end(&mut patient);
    }
}

#[test]
fn a_server_whose_stdout_another_process_keeps_open_has_ended_after_some_time() {
    let mut running = Running::start("sleep 1000 & echo last; exit 3");
    // Nothing is read for the sake of the machine.
    running.backpressure.set(false);
    let exited = loop {
        let received = running.inputs.recv_timeout(LONG).unwrap();
        if let What::Exited(_) = received.happened {
            break received;
        }
        running.child.feed(&mut running.received, received, clock::now());
    };
    let now = clock::now();
    running.child.feed(&mut running.received, exited, now);
    running.backpressure.set(false);
    running.until(|received| received.text == "last\n");
    assert_eq!((running.received.ends, running.max_wait(false, now)), (0, LAST_OUTPUT_TIMEOUT));
    running.catch_up(now + LAST_OUTPUT_TIMEOUT);
    assert_eq!((running.received.ends, running.received.end), (1, Some(ProcessEnd::Code(3))));
    running.child.end(&mut patient);
    assert!(Running::is_over(&running.inputs), "the other process has ended");
}

#[test]
fn a_server_that_closes_its_stdout_and_goes_on_has_ended_after_some_time() {
    let mut running = Running::start("exec >&-; sleep 1000");
    let ended = running.inputs.recv_timeout(LONG).unwrap();
    let now = clock::now();
    running.child.feed(&mut running.received, ended, now);
    assert_eq!((running.received.ends, running.max_wait(false, now)), (0, LAST_OUTPUT_TIMEOUT));
    running.catch_up(now + LAST_OUTPUT_TIMEOUT);
    assert_eq!((running.received.ends, running.received.end), (1, Some(ProcessEnd::OutputClosed)));
    assert_eq!(running.max_wait(false, now), Duration::MAX);
}

#[test]
fn st17_at_the_end_stdin_is_closed_and_the_remaining_output_is_read() {
    let mut running = Running::start("cat; echo ended; exit 3");
    running.write("x");
    running.until(|received| received.text == "x");
    running.backpressure.set(false);
    running.child.end(&mut patient);
    running.until(|received| received.ends == 1);
    assert_eq!(running.received.text, "xended\n");
}

#[test]
fn px3_nothing_is_left_of_what_a_server_has_started_once_it_has_ended() {
    // Each process that it has started inherits its stdout.
    let mut running = Running::start("sleep 1000 & cat");
    running.child.end(&mut patient);
    assert!(Running::is_over(&running.inputs));
}

#[test]
fn px3_nothing_is_left_of_a_server_that_is_dropped() {
    let mut running = Running::start("sleep 1000 & echo $$; echo $!; wait");
    running.until(|received| received.text.lines().count() == 2);
    let numbers = running.numbers();
    let Running { child, inputs, .. } = running;
    drop(child);
    assert!(Running::is_over(&inputs));
    #[cfg(target_os = "linux")]
    {
        assert!(!is_left(numbers[0]));
        wait_until(|| !is_left(numbers[1]));
    }
}

#[test]
fn no_thread_waits_for_the_output_of_a_process_that_has_left_the_group() {
    let mut running = Running::start("setsid sleep 1000 2>/dev/null & echo $!; exit 3");
    running.until(|received| received.text.ends_with('\n'));
    let stranger = running.received.text.trim().to_owned();
    running.child.end(&mut patient);
    let Running { child, inputs, .. } = running;
    drop(child);
    let end = loop {
        if let Err(end) = inputs.recv_timeout(LONG) {
            break end;
        }
    };
    assert_eq!(end, RecvTimeoutError::Disconnected, "a thread holds the inbox");
    assert!(Command::new("kill").args(["-9", &stranger]).status().unwrap().success(), "it is left");
}

#[test]
fn st18_a_server_has_less_time_to_end_once_that_is_urgent() {
    let mut running = Running::start("trap 'echo asked; exit' TERM; sleep 1.7 & wait; echo by itself");
    let mut pauses = 0;
    running.child.end(&mut |time| {
        thread::sleep(time);
        pauses += 1;
        pauses < 3
    });
    running.until(|received| received.ends == 1);
    assert_eq!(running.received.text, "asked\n");
}

#[test]
fn er06_a_server_that_is_started_anew_takes_the_place_of_the_first() {
    let mut running = Running::start("echo $$; cat >/dev/null");
    running.until(|received| received.text.ends_with('\n'));
    let now = clock::now();
    running.happened(Happened::OutputClosed, now);
    running.act(StdioAction::Respawn);
    assert_eq!(running.max_wait(false, now), Duration::MAX, "the new one reads");
    running.until(|received| received.text.lines().count() == 2);
    let numbers = running.numbers();
    assert_ne!(numbers[0], numbers[1]);
    #[cfg(target_os = "linux")]
    assert!(!is_left(numbers[0]) && is_left(numbers[1]));
    // The threads of the first process have ended: only the three threads of the second one and the driver hold the
    // inbox.
    wait_until(|| Arc::strong_count(&running.child.inbox) == 4);
    while let Ok(received) = running.inputs.try_recv() {
        running.child.feed(&mut running.received, received, now);
    }
    assert_eq!(running.received.ends, 0, "the end of the first is not that of the second");
}

#[test]
fn er06_a_server_that_cannot_be_started_anew_has_ended() {
    let link = std::env::current_exe().unwrap().with_extension("server-of-one-start");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink("/bin/cat", &link).unwrap();
    let mut running = Running::start_command(Command::new(&link));
    std::fs::remove_file(&link).unwrap();
    running.act(StdioAction::Respawn);
    let now = clock::now();
    assert_eq!(running.max_wait(false, now), Duration::ZERO);
    running.catch_up(now);
    running.catch_up(now);
    assert_eq!((running.received.ends, running.max_wait(false, now)), (1, Duration::MAX));
    running.child.end(&mut |_| panic!("there is nothing to wait for"));
}

#[test]
fn px3_a_server_that_reads_no_more_has_ended_after_some_time() {
    let mut running = Running::start("exec <&-; echo ready; sleep 1000");
    running.until(|received| received.text == "ready\n");
    // A process that another test is starting may briefly hold the other end of the pipe.
    let happened = loop {
        running.write("x");
        if let Ok(received) = running.inputs.recv_timeout(Duration::from_millis(20)) {
            break received.happened;
        }
    };
    assert!(matches!(happened, What::Stream(Happened::OutputClosed)));
    let now = clock::now();
    running.happened(Happened::OutputClosed, now);
    assert_eq!(
        (running.max_wait(false, now), running.max_wait(false, now + CLOSED_INPUT_TIMEOUT)),
        (CLOSED_INPUT_TIMEOUT, Duration::ZERO)
    );
    running.catch_up(now + CLOSED_INPUT_TIMEOUT.saturating_sub(Duration::from_millis(1)));
    assert!(running.inputs.recv_timeout(Duration::from_millis(50)).is_err(), "it goes on");
    running.catch_up(now + CLOSED_INPUT_TIMEOUT);
    assert_eq!(running.max_wait(false, now + CLOSED_INPUT_TIMEOUT), Duration::MAX, "nothing is left to do");
    assert_eq!((running.received.ends, running.received.end), (1, Some(ProcessEnd::InputClosed)));
}

#[test]
fn fr14_a_stalled_machine_gets_the_count_of_written_bytes_without_a_wait() {
    let mut running = Running::start("cat >/dev/null");
    let now = clock::now();
    assert_eq!((running.max_wait(false, now), running.max_wait(true, now)), (Duration::MAX, Duration::MAX));
    running.write("x");
    wait_until(|| running.child.writer.as_ref().unwrap().waiting() == 0);
    assert_eq!((running.max_wait(true, now), running.max_wait(false, now)), (Duration::ZERO, Duration::MAX));
    running.catch_up(now);
    assert_eq!((running.received.written.clone(), running.max_wait(true, now)), (vec![1], Duration::MAX));
}

#[test]
fn no_server_is_started_after_it_was_killed_for_the_last_time() {
    let process = Process::default();
    process.start(Command::new("sh").args(["-c", "sleep 1000"])).unwrap();
    process.kill_finally();
    let error = process.start(&mut Command::new("sh")).unwrap_err();
    assert!(error.to_string().contains("about to exit"), "{error}");
}
