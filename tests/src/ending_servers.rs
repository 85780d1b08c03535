//! Servers in child processes that end in every way that a process can, for `sh`: the ends of the process, of its stdout and
//! of its stdin come together or not, and another process may keep the streams open.
//!
//! Both drivers run the table: each [`Ending`] while a call is in flight, and while none is.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcp_proto::Json;
use mcp_testkit::waiting::wait_until;

use crate::parallel::{case, run_all};

/// A way in which the process of a server ends.
#[derive(Debug, Clone, Copy)]
pub struct Ending {
    /// What happens.
    pub name: &'static str,
    /// What errors and logs must state.
    pub text: &'static str,
    /// Whether a process that is not of the server's group is left. It must be killed by the test.
    pub leaves_stranger: bool,
    /// What is started before the answer.
    before: &'static str,
    /// The processes that are to end, or the one that is left.
    pids: &'static str,
    /// What happens after the answer.
    after: &'static str,
    /// The server is the child of a shell.
    is_wrapped: bool,
}

const EXITS: Ending = Ending {
    name: "it exits",
    text: "exited with code 3",
    leaves_stranger: false,
    before: "",
    pids: "$$",
    after: "exit 3",
    is_wrapped: false,
};

/// All ways.
pub const ENDINGS: [Ending; 9] = [
    EXITS,
    Ending { name: "it is killed", text: "was ended by signal 9 (SIGKILL)", after: "kill -9 $$", ..EXITS },
    Ending {
        name: "only the program that has started it is killed",
        text: "was ended by signal 9 (SIGKILL)",
        pids: "$$,$PPID",
        after: "kill -9 $PPID",
        is_wrapped: true,
        ..EXITS
    },
    Ending {
        name: "only the program that has started it exits",
        text: "was ended by signal 15 (SIGTERM)",
        pids: "$$,$PPID",
        after: "kill -15 $PPID",
        is_wrapped: true,
        ..EXITS
    },
    Ending {
        name: "it exits, and what it has started keeps its streams",
        before: "sleep 1000 <&3 &",
        pids: "$$,$!",
        ..EXITS
    },
    Ending {
        name: "it exits, and what it has started writes without end",
        before: "yes '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}' 2>/dev/null &",
        pids: "$$,$!",
        ..EXITS
    },
    Ending {
        name: "it exits, and what has left its group keeps its streams",
        leaves_stranger: true,
        before: "setsid sleep 1000 <&3 2>/dev/null &",
        pids: "$$,$!",
        ..EXITS
    },
    Ending {
        name: "it closes its stdout and goes on",
        text: "closed its output without exiting",
        after: "exec >&-; sleep 1000",
        ..EXITS
    },
    Ending {
        name: "it closes its stdin and goes on",
        text: "closed its input without exiting",
        // What is written before that is lost without a trace.
        before: "exec <&- 3<&-",
        after: "sleep 1000",
        ..EXITS
    },
];

/// A client or gateway with this limit of queued bytes does not read what [`UNREAD`] writes last before that has ended.
pub const QUEUE: usize = 4096;

/// It sends requests without reading the answers, until nothing is read any more; then it answers the call, and exits. What it
/// has started keeps its stdin open, so that the answers still wait to be written.
pub const UNREAD: Ending = Ending {
    name: "it exits, and has read no answers",
    // The last ping is what a thread receives that had begun to read before the limit was reached.
    before: "ping() { echo '{\"jsonrpc\":\"2.0\",\"id\":'$1',\"method\":\"ping\"}'; }; sleep 1000 <&3 >/dev/null 2>&1 & \
             count=0; while [ $count -lt 1900 ]; do count=$((count + 1)); ping $count; done; sleep 1; ping 1901; sleep 1",
    pids: "$$,$!",
    ..EXITS
};

/// What a server does at each method, or at the call of the tool of this name. It answers `initialize`, and `pid` with the number of its process; it reports on stderr
/// that `wait` has arrived, and does not answer it; and at `end` it answers with the numbers of processes, and ends.
const SERVER: &str = r#"
exec 3<&0
while read -r line; do
    case "$line" in *'"id":'*) ;; *) continue ;; esac
    id=${line#*'"id":'}; id=${id%%[,\}]*}
    case "$line" in
        *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
        *'"wait"'*) echo waits >&2; continue ;;
        *'"end"'*) BEFORE
            echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[],\"pids\":[PIDS]}}"
            AFTER ;;
        *'"pid"'*) result="{\"content\":[],\"pids\":[$$]}" ;;
        *) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"method not found\"}}"; continue ;;
    esac
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done
"#;

impl Ending {
    /// The arguments of `sh`.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        self.arguments_with(self.script(), "sh -c \"$0\"", &["-c"])
    }

    /// The same with the script in this file.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    #[must_use]
    pub fn arguments_in(&self, file: &Path) -> Vec<String> {
        std::fs::write(file, self.script()).expect("a file");
        self.arguments_with(file.to_string_lossy().into_owned(), "sh \"$0\"", &[])
    }

    fn arguments_with(&self, script: String, shell: &str, option: &[&str]) -> Vec<String> {
        // A background process has no stdin of its own accord.
        let wrapper = format!("exec 3<&0; {shell} <&3 3<&- & wait");
        let before: Vec<_> = if self.is_wrapped { vec!["-c", &wrapper] } else { option.to_vec() };
        before.into_iter().map(str::to_owned).chain([script]).collect()
    }

    fn script(&self) -> String {
        SERVER.replace("BEFORE", self.before).replace("PIDS", self.pids).replace("AFTER", self.after)
    }

    /// Whether a process that was started answers calls for a moment after the end of the one that has started it.
    #[must_use]
    pub const fn is_wrapped(&self) -> bool {
        self.is_wrapped
    }

    /// The numbers of processes in an answer to `pid` or `end`.
    ///
    /// # Panics
    ///
    /// If this is no such answer.
    #[must_use]
    pub fn pids(result: &Json) -> Vec<u32> {
        let pids = result.first_member("pids").unwrap_or_else(|| panic!("{}", result.to_text())).to_text().into_owned();
        pids.trim_matches(['[', ']']).split(',').map(|pid| pid.parse().expect("a number")).collect()
    }

    /// The numbers of processes in the body of an HTTP response, which may be a stream.
    ///
    /// # Panics
    ///
    /// If there is no such answer in it.
    #[must_use]
    pub fn pids_in(body: &str) -> Vec<u32> {
        let answer = body.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(body);
        let answer = Json::parse(answer.to_owned()).expect("a message");
        Self::pids(&answer.first_member("result").unwrap_or_else(|| panic!("{}", answer.to_text())))
    }

    /// Waits until all of these processes have ended that must, and kills the one that need not.
    ///
    /// # Panics
    ///
    /// If one does not end, or if the one that is left has ended.
    pub fn leaves_nothing(&self, pids: Vec<u32>) {
        let (own, stranger) = self.split(pids);
        wait_until(|| !own.iter().copied().any(runs));
        if let Some(stranger) = stranger {
            assert!(runs(stranger), "{}", self.name);
            assert!(signal(stranger, "-9"));
        }
    }

    /// The processes among these that must not be left, and the one that is left, and must be killed.
    #[must_use]
    pub fn split(&self, mut pids: Vec<u32>) -> (Vec<u32>, Option<u32>) {
        let stranger = if self.leaves_stranger { pids.pop() } else { None };
        (pids, stranger)
    }
}

/// Far below the timeout of requests, and many times what is needed: at most the three waits of a few seconds each.
const BOUND: Duration = Duration::from_secs(80);

/// One table runs at a time: each starts many processes.
static TABLE: Mutex<()> = Mutex::new(());

/// Runs one case for each ending, with a call in flight and without.
///
/// # Panics
///
/// If a case does, or takes too long.
pub fn run_each(what: &'static str, run: fn(Ending, bool)) {
    let _one_at_a_time = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let all = ENDINGS.into_iter().flat_map(|ending| [(ending, true), (ending, false)]);
    let cases = all.map(|(ending, in_flight)| {
        case(format!("{what}: {}, a call in flight: {in_flight}", ending.name), move || {
            let began = Instant::now();
            run(ending, in_flight);
            assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
        })
    });
    run_all(cases.collect());
}

/// Whether a process runs; on Windows, one of [`scripted`](crate::scripted).
///
/// # Panics
///
/// If `kill` cannot be started.
#[must_use]
pub fn runs(pid: u32) -> bool {
    if cfg!(windows) { crate::scripted::runs(pid) } else { signal(pid, "-0") }
}

fn signal(pid: u32, signal: &str) -> bool {
    let mut kill = Command::new("kill");
    kill.args([signal, &pid.to_string()]).stderr(Stdio::null()).status().expect("kill runs").success()
}
