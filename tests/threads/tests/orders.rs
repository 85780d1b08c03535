//! Each protocol in many orders of its threads. A thread that waits for ever fails a test, with the order of the run.

use shuttle::{check_dfs, check_pct, check_random};

/// The number of runs in a random order.
const RUNS: usize = 300;

/// Explores the orders by chance, with few changes of the thread that runs, and one after the other.
fn explore(run: impl Fn() + Send + Sync + Copy + 'static) {
    check_random(run, RUNS);
    check_pct(run, RUNS, 3);
    check_dfs(run, Some(RUNS));
}

#[test]
fn a_queue_loses_nothing_without_counting_it() {
    explore(threads::a_queue_loses_nothing_without_counting_it);
}

#[test]
fn whoever_waits_under_backpressure_is_woken() {
    explore(threads::whoever_waits_under_backpressure_is_woken);
}

#[test]
fn what_is_released_stays_open() {
    explore(threads::what_is_released_stays_open);
}

#[test]
fn a_caller_receives_its_progress_and_then_its_outcome() {
    for is_dropped in [false, true] {
        explore(move || threads::a_caller_receives_its_progress_and_then_its_outcome(is_dropped));
    }
}

#[test]
fn a_connection_receives_everything_with_and_without_a_thread() {
    for begins_with_thread in [false, true] {
        explore(move || threads::a_connection_receives_everything_with_and_without_a_thread(begins_with_thread));
    }
}

#[test]
fn no_input_is_left_and_one_thread_works_at_a_time() {
    for most in [0, 1, 64] {
        explore(move || threads::no_input_is_left_and_one_thread_works_at_a_time(most));
    }
}

#[test]
fn a_writer_writes_everything_in_order_and_reports_it() {
    for at_once in [0, 1, 64] {
        explore(move || threads::a_writer_writes_everything_in_order_and_reports_it(at_once));
    }
}

#[test]
fn a_writer_whose_output_fails_reports_that_and_holds_nothing() {
    explore(threads::a_writer_whose_output_fails_reports_that_and_holds_nothing);
}
