//! The examples, one against the other.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use tests::examples::example;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_client_calls_the_servers_tool() {
    let mut server = Running(
        example("server")
            .arg("127.0.0.1:0")
            .stderr(Stdio::piped())
            .spawn()
            .expect("`cargo test` builds the examples, unless it is asked for one test"),
    );
    let mut url = String::new();
    BufReader::new(server.0.stderr.take().unwrap()).read_line(&mut url).unwrap();
    let output = example("client").args([url.trim(), "hello"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(
        text.starts_with("revision 2025-11-25\n") && text.contains("Says hello.") && text.contains("Hello!"),
        "{text}"
    );
}
