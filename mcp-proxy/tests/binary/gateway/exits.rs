//! Processes that exit, and what they leave behind.

use mcp_testkit::messages::request;
use mcp_testkit::waiting::wait_until;
use tests::ending_servers::runs;

use super::serving::{ENDED, Serving, member};

#[test]
fn a_server_that_exits_ends_its_session_and_no_other() {
    let serving = Serving::start(&[]);
    let (a, b) = (serving.session(), serving.session());
    let pid = b.pid();
    let answer = a.call("exit");
    assert!(answer.contains(r#""error":{"code":-32603"#), "{answer}");
    assert_eq!(a.send(&request("9", "pid", "{}")).code(), 404, "the client opens another session");
    serving.wait_for_load((1, 1));
    assert_eq!(b.pid(), pid);
    assert_ne!(serving.session().pid(), pid);
    serving.wait_for_error("exited with code 3; see its stderr for the reason");
}

#[test]
fn a_shared_server_that_exits_is_started_again_for_the_next_session() {
    let serving = Serving::start(&["--share", "all"]);
    let (a, b) = (serving.session(), serving.session());
    let pid = a.pid();
    assert!(a.call("exit").contains(r#""error""#));
    for session in [&a, &b] {
        assert_eq!(session.send(&request("9", "pid", "{}")).code(), 404);
    }
    wait_until(|| !runs(pid));
    assert_ne!(serving.session().pid(), pid);
}

#[test]
fn st17_nothing_is_left_of_what_a_server_has_started_when_its_session_ends() {
    let serving = Serving::start(&[]);
    let (a, b) = (serving.session(), serving.session());
    let started = [&a, &b].map(|session| member(&session.call("fork"), "pid").parse().unwrap());
    assert!(started.into_iter().all(runs));
    a.delete();
    wait_until(|| !runs(started[0]));
    assert!(runs(started[1]));
    let (code, errors) = serving.end("INT");
    assert_eq!(code, ENDED, "{errors}");
    wait_until(|| !runs(started[1]));
}
