//! What a sign-in waits for in vain, and which locks it has meanwhile: the machine of `mcp_proto::auth` with servers and
//! processes that do not answer.

use std::time::Duration;

use mcp_auth::{Cause, FetchFailure, SignInError};
use mcp_testkit::authorization::{Person, World, config};

const RESOURCE_DOCUMENT: &str = "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp";
const METADATA: &str = "https://as.example/.well-known/";
const TOKEN: &str = "https://as.example/t/token";

/// How long a flow waits for a driver that reports no outcome of a request.
fn longest() -> Duration {
    config().request_timeout * 2
}

#[test]
fn a_flow_ends_if_the_driver_reports_no_outcome_of_a_request_whichever_it_is() {
    for silent in [RESOURCE_DOCUMENT, METADATA, "https://as.example/t/register", TOKEN] {
        let mut world = World::new();
        world.silent = Some(silent.to_owned());
        world.challenge(0, 401, "Bearer");
        world.pass(longest().saturating_sub(Duration::from_secs(1)));
        assert!(world.processes[0].refused.is_empty(), "{silent}");
        world.pass(Duration::from_secs(1));
        let refused = &world.processes[0].refused;
        let is_meant = |error: &SignInError| matches!(error, SignInError::Fetch { url, reason: FetchFailure::TimedOut } if url.starts_with(silent));
        assert!(refused.len() == 1 && is_meant(&refused[0]), "{silent}: {refused:?}");
        world.check();
    }
}

#[test]
fn a_refresh_ends_if_the_driver_reports_no_outcome_of_it() {
    let mut world = World::new();
    world.challenge(0, 401, "Bearer");
    world.pass_until_refresh(0);
    world.silent = Some(TOKEN.to_owned());
    world.run();
    assert!(world.processes[0].authorizer.is_busy());
    world.pass(longest());
    assert_eq!(
        (world.processes[0].authorized.len(), world.processes[0].refused.len()),
        (1, 0),
        "the token is still valid"
    );
    world.check();
}

#[test]
fn a_challenge_that_comes_while_the_record_is_read_is_met_without_its_lock() {
    // After so many actions of the start.
    for turns in 0..3 {
        for is_stored in [false, true] {
            let mut world = World::new();
            world.issuer().refreshes = false;
            if is_stored {
                world.challenge(0, 401, "Bearer");
                world.crash(0);
                // The token has expired.
                world.pass(Duration::from_secs(4000));
            }
            world.cause(0, Cause::Start);
            for _ in 0..turns {
                world.turn();
            }
            world.challenge(0, 401, "Bearer");
            assert_eq!(world.processes[0].token(), Some(if is_stored { "access-2" } else { "access-1" }));
            // It also shows that no metadata was read under the lock.
            world.check();
        }
    }
}

#[test]
fn a_sign_out_erases_the_record_under_its_lock_although_the_request_before_it_fails() {
    for is_refresh in [false, true] {
        let mut steps = 0;
        loop {
            let mut world = World::new();
            if is_refresh {
                world.challenge(0, 401, "Bearer");
                world.pass_until_refresh(0);
            } else {
                world.begin(0, 401, "Bearer");
            }
            world.unreachable = Some((TOKEN.to_owned(), FetchFailure::Unreachable));
            if (0..steps).filter(|_| world.turn()).count() < steps {
                break;
            }
            world.person = Person::IsAway;
            world.cause(0, Cause::SignOut);
            world.run();
            assert_eq!(world.processes[0].signed_out, [false], "{is_refresh} {steps}");
            assert_eq!(world.stored, None);
            world.check();
            steps += 1;
        }
        assert!(steps > 2, "{steps}");

        // The driver reports no outcome of the request.
        let mut world = World::new();
        if is_refresh {
            world.challenge(0, 401, "Bearer");
            world.pass_until_refresh(0);
        }
        world.silent = Some(TOKEN.to_owned());
        if is_refresh {
            world.run();
        } else {
            world.challenge(0, 401, "Bearer");
        }
        world.cause(0, Cause::SignOut);
        world.run();
        assert!(world.processes[0].signed_out.is_empty(), "the tokens that may come are erased too");
        world.pass(longest());
        assert_eq!((&world.processes[0].signed_out[..], &world.stored), (&[false][..], &None), "{is_refresh}");
        world.check();
    }
}

#[test]
fn a_lock_that_another_process_keeps_is_waited_for_and_then_given_up_once() {
    // The other process waits for the token server, with the lock of the record.
    let keeps_record = || {
        let mut world = World::new();
        let other = world.add_process();
        world.challenge(other, 401, "Bearer");
        world.pass_until_refresh(other);
        world.silent = Some(TOKEN.to_owned());
        world.run();
        world
    };
    for (cause, is_refused) in [(Cause::Requested, false), (Cause::SignOut, true)] {
        let mut world = keeps_record();
        world.cause(0, cause);
        world.run();
        world.pass(longest());
        let process = &world.processes[0];
        assert!(process.signed_out.is_empty() && process.token().is_none());
        if is_refused {
            assert!(matches!(process.refused[..], [SignInError::StoreTimedOut]), "{:?}", process.refused);
            assert!(world.stored.is_some(), "it is erased only under the lock");
        }
        world.silent = None;
        world.pass(longest());
        world.check();
    }
    // The other process waits for its person, with the lock of sign-ins.
    let mut world = World::new();
    world.person = Person::IsAway;
    let other = world.add_process();
    world.challenge(other, 401, "Bearer");
    world.pass(Duration::from_secs(1));
    world.challenge(0, 401, "Bearer");
    world.person = Person::SignsIn;
    world.sign_in(other);
    world.run();
    assert_eq!(world.processes[0].token(), Some("access-1"), "it is that of the other process");
    world.check();
}
