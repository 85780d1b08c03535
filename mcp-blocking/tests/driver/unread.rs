//! Tests of the blocking client with servers that do not read: every call has one outcome in time, and closing ends.

#![cfg(unix)]

use std::process::Command;
use std::time::Duration;

use mcp_blocking::{Builder, Client, Error, InFlight};
use mcp_proto::client::Call;
use mcp_proto::{Failed, ProtocolVersion, UsageError};
use mcp_testkit::http_client::legacy_versions;
use tests::parallel::{Case, case, run_all};
use tests::unread_pipes::{Life, MORE_THAN_A_PIPE, MORE_THAN_A_SOCKET, Reading, UnreadServer, params};

/// A client for servers that begin with `initialize`.
fn legacy_client() -> Builder {
    tests::deadline::set();
    Client::builder().versions(legacy_versions())
}

/// A time that is longer than any test.
const AGES: Duration = Duration::from_secs(3600);

/// The ways in which calls to a server that does not read end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Their timeout expires.
    Timeout,
    /// They are cancelled.
    Cancel,
    /// The client is dropped.
    Drop,
    /// The server's output ends, or its connections do.
    ServerEnds,
}

impl End {
    const ALL: [Self; 4] = [Self::Timeout, Self::Cancel, Self::Drop, Self::ServerEnds];

    fn timeout(self) -> Duration {
        if self == Self::Timeout { Duration::from_secs(1) } else { AGES }
    }
}

/// Makes calls until more bytes are queued than any buffer holds, or the server has ended. `wait` is called after each one, with
/// the number of calls so far.
fn calls(client: &Client, bytes: usize, wait: impl Fn(usize)) -> Vec<InFlight> {
    let call = |number| match client.call(Call::new("tools/call").params(params(bytes))) {
        Ok(call) => {
            wait(number);
            Some(call)
        }
        Err(Error::Usage(UsageError::Closed)) => None,
        Err(error) => panic!("{error}"),
    };
    (1..=3).filter_map(call).collect()
}

/// Waits for each call, and returns the outcomes.
fn outcomes(calls: Vec<InFlight>) -> Vec<Failed> {
    let wait = |call: InFlight| match call.wait() {
        Err(Error::Failed { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    calls.into_iter().map(wait).collect()
}

/// Ends the calls, then closes the client.
fn end(how: End, client: Client, bytes: usize, wait: impl Fn(usize), end_server: impl FnOnce()) {
    let calls = calls(&client, bytes, wait);
    let mut client = Some(client);
    match how {
        End::Timeout => {}
        End::Cancel => calls.iter().for_each(InFlight::cancel),
        End::Drop => drop(client.take()),
        End::ServerEnds => end_server(),
    }
    let reasons = outcomes(calls);
    for reason in &reasons {
        let is_timeout = matches!(reason, Failed::TimedOut { .. }) && how == End::Timeout;
        let is_cancelled = *reason == Failed::Cancelled && how == End::Cancel;
        // A connection that was closed or cut off, and a call for which there was no room in the queue.
        let is_broken = matches!(reason, Failed::Broken { .. } | Failed::Unreachable { .. });
        let is_refused = matches!(reason, Failed::QueueFull { .. });
        let is_full = if bytes == MORE_THAN_A_SOCKET { is_broken } else { is_refused };
        let is_expected = is_timeout || is_cancelled || is_full || reason.is_end_of_connection();
        assert!(is_expected, "{reasons:?}");
    }
    drop(client);
}

fn over_child(command: Command, how: End) -> Client {
    legacy_client()
        .child(command)
        .versions([ProtocolVersion::V2025_11_25])
        .request_timeout(how.timeout())
        .connect()
        .unwrap()
}

fn over_socket(server: &UnreadServer, how: End) -> Client {
    legacy_client().http(&server.url()).unwrap().request_timeout(how.timeout()).connect().unwrap()
}

#[test]
fn calls_end_and_closing_ends_whatever_a_child_does_not_read() {
    let mut cases = Vec::new();
    for reading in Reading::OF_CHILDREN {
        for how in End::ALL {
            if (reading, how) == (Reading::Flooding, End::ServerEnds) {
                continue;
            }
            cases.push(case(format!("{reading:?}, {how:?}"), move || {
                let ends = how == End::ServerEnds;
                let mut command = if ends { reading.child_whose_output_ends() } else { reading.child() };
                let life = Life::of(&mut command);
                end(how, over_child(command, how), MORE_THAN_A_PIPE, |_| {}, || {});
                life.ends();
            }));
        }
    }
    run_all(cases);
}

#[test]
fn calls_end_and_closing_ends_whatever_a_server_on_a_socket_does_not_read() {
    let cases = Reading::OF_SOCKETS.into_iter().flat_map(|reading| {
        End::ALL.map(|how| {
            case(format!("{reading:?}, {how:?}"), move || {
                let server = reading.server();
                let client = over_socket(&server, how);
                // The next call has room in the queue once a connection has taken this one. The stream for messages of the
                // server has one, too.
                let taken = |calls| server.wait_for_connections(calls + 1);
                end(how, client, MORE_THAN_A_SOCKET, taken, || server.end());
            })
        })
    });
    run_all(cases.collect::<Vec<Case>>());
}
