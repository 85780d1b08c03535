//! Tests that would wait for ever end by themselves.
#![cfg(unix)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tests::deadline::{output_of, output_within, set_within};

/// Set for the process that runs [`a_test_that_waits_for_ever`].
const WAITS: &str = "TESTS_DEADLINE_WAITS";

#[test]
fn a_test_that_waits_for_ever() {
    if std::env::var_os(WAITS).is_some() {
        set_within(Duration::from_millis(100));
        thread::park();
    }
}

#[test]
fn a_test_that_has_not_ended_in_time_ends_its_program_and_is_named() {
    let mut again = Command::new(std::env::current_exe().unwrap());
    let output = output_of(again.args(["--exact", "a_test_that_waits_for_ever"]).env(WAITS, "1"));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(101), "{errors}");
    assert!(errors.contains("the test a_test_that_waits_for_ever has not ended in time"), "{errors}");
}

#[test]
fn a_program_that_does_not_end_is_killed_with_what_it_has_written() {
    let ended = output_of(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
    assert_eq!((ended.status.code(), &*ended.stdout, &*ended.stderr), (Some(3), &b"out\n"[..], &b"err\n"[..]));
    // The last one has ended, but not what keeps its output open.
    for script in ["echo waits >&2; exec sleep 1000", "sleep 5 & exit 0"] {
        let waits = || output_within(Command::new("sh").args(["-c", script]), Duration::from_millis(300));
        let panic = catch_unwind(AssertUnwindSafe(waits)).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("have not ended within 300ms"), "{text}");
        assert_eq!(text.contains("waits\n"), script.contains("waits"), "{text}");
    }
}
