//! Examples of the package whose test asks for them.

use std::path::PathBuf;
use std::process::{Child, Command};

use crate::socket::Remote;

/// The example `name`, ready to be run. `cargo test` builds the examples beside the tests, unless it is asked for one
/// test only.
pub fn example(name: &str) -> Command {
    let mut folder: PathBuf = std::env::current_exe().expect("a test is a program");
    folder.pop();
    folder.pop();
    Command::new(folder.join("examples").join(name))
}

/// The process of an example that serves. It is ended when this is dropped.
#[derive(Debug)]
pub struct Serving {
    process: Child,
    remote: Remote,
}

impl Serving {
    /// Starts the example of this name with an address to listen on, and waits until it listens.
    pub fn start(name: &str) -> Self {
        let remote = Remote::free();
        let process = example(name).arg(remote.address()).spawn();
        let process = process.expect("`cargo test` builds the examples, unless it is asked for one test");
        let serving = Self { process, remote };
        serving.remote.wait();
        serving
    }

    /// What the example of this name writes that is a client, and calls the tool `hello`.
    pub fn called_by(&self, name: &str) -> String {
        let output = example(name).args([&format!("http://{}/mcp", self.remote.address()), "hello"]).output();
        let output = output.expect("the example of the client is built too");
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
