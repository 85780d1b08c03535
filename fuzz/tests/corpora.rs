//! Feeds every input that was ever worth keeping to its function again.

use std::fs;
use std::path::Path;

#[expect(clippy::print_stdout, reason = "the last line of a failed test names its input")]
fn replay(name: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("a corpus") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        run(&fs::read(path).expect("an input"));
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn line() {
    replay("line", fuzz::line);
}

#[test]
fn sse() {
    replay("sse", fuzz::sse);
}

#[test]
fn message() {
    replay("message", fuzz::message);
}

#[test]
fn client() {
    replay("client", fuzz::client);
}

#[test]
fn relay() {
    replay("relay", fuzz::relay);
}
