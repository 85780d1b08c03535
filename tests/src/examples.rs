//! Runs the examples of the package whose test calls this module.

use std::path::PathBuf;
use std::process::{Child, Command};

use mcp_testkit::raw_client::RawClient;

use crate::deadline::{self, output_of};

/// The command that runs the example `name`. `cargo test` builds the examples together with the tests, unless a single
/// test target is selected.
pub fn example(name: &str) -> Command {
    deadline::set();
    let mut folder: PathBuf = std::env::current_exe().expect("a test is a program");
    folder.pop();
    folder.pop();
    Command::new(folder.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION))
}

/// Runs the example `client` over stdio and over HTTP against the example `server`, whose three tools, resource and prompt
/// it uses, and checks what it prints.
pub fn check_tool_client(client: &str, server: &str) {
    let program = example(server).get_program().to_owned();
    let serving = Serving::start(server);
    let url = format!("http://{}/mcp", serving.remote().address());
    for arguments in [vec![program], vec![url.into(), "the-token-of-ada".into()]] {
        let output = output_of(example(client).args(&arguments));
        assert_eq!(String::from_utf8_lossy(&output.stdout), USED_TOOLS, "{arguments:?}: {output:?}");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

/// Runs the example `server`, which has a prompt, over a stdin and a stdout that another program has made non-blocking, and
/// checks that it waits for the next request, and for the client to read a large answer.
#[cfg(unix)]
pub fn check_non_blocking_streams(server: &str) {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::Duration;

    use mcp_testkit::http_exchange::initialize;
    use mcp_testkit::messages::{INITIALIZED, request};

    let ((mut requests, stdin), (answers, stdout)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    for stream in [&stdin, &stdout] {
        stream.set_nonblocking(true).unwrap();
    }
    let mut process = example(server).stdin(OwnedFd::from(stdin)).stdout(OwnedFd::from(stdout)).spawn().unwrap();
    let name = "x".repeat(1 << 20);
    thread::sleep(Duration::from_millis(50));
    writeln!(requests, "{}", initialize("2025-11-25")).unwrap();
    let get = request("2", "prompts/get", &format!(r#"{{"name":"review","arguments":{{"name":"{name}"}}}}"#));
    writeln!(requests, "{INITIALIZED}\n{get}").unwrap();
    thread::sleep(Duration::from_millis(200));
    let mut lines = BufReader::new(answers).lines();
    assert!(lines.next().unwrap().unwrap().contains("protocolVersion"));
    let answer = lines.next().expect("the connection is open").unwrap();
    assert!(answer.contains(r#""id":2,"result""#) && answer.contains(&name), "{} bytes", answer.len());
    drop(requests);
    assert!(process.wait().unwrap().success());
    assert!(lines.next().is_none());
}

const USED_TOOLS: &str = "\
revision 2026-07-28
tool add: Adds two numbers.
tool count: Counts slowly.
tool greet: Greets the user.
the sum is 5
the server asks: Who are you?
Hello, Ada!
progress 1
progress 2
the count is cancelled
resource welcome: Welcome!
prompt: Review welcome.
";

/// The process of an example that is a server. It is killed on drop.
#[derive(Debug)]
pub struct Serving {
    process: Child,
    remote: RawClient,
}

impl Serving {
    /// Starts the example `name` with an address to listen on, and waits until it listens.
    pub fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    /// Starts the example `name` with an address to listen on and further arguments, and waits until it listens.
    pub fn start_with(name: &str, arguments: &[&str]) -> Self {
        Self::start_command(example(name), arguments)
    }

    /// Starts a program with an address to listen on and further arguments, and waits until it listens.
    pub fn start_command(mut program: Command, arguments: &[&str]) -> Self {
        let remote = RawClient::free();
        let process = program.arg(remote.address()).args(arguments).spawn();
        let process = process.expect("`cargo test` builds the examples, unless it is asked for one test");
        let serving = Self { process, remote };
        serving.remote.wait();
        serving
    }

    /// The server, for requests of any form.
    pub const fn remote(&self) -> &RawClient {
        &self.remote
    }

    /// Runs the example `name`, a client, which calls the tool `hello` of this server; returns its stdout and stderr.
    pub fn called_by(&self, name: &str) -> String {
        let output = output_of(example(name).args([&format!("http://{}/mcp", self.remote.address()), "hello"]));
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{text}");
        text
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
