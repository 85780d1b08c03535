//! Servers that do not read what is written to them. Whatever they do, calls end within their timeout, and so do the
//! client and the processes that it has started.

#![cfg(all(unix, feature = "http-client"))]

use std::future::Future;
use std::time::Duration;

use mcp_proto::client::{Call, Config};
use mcp_proto::{Failed, Json, ProtocolVersion};
use mcp_testkit::http_client::legacy_versions;
use mcp_tokio::{Builder, Client, Error, InFlight};
use tests::unread_pipes::{Life, MORE_THAN_A_PIPE, MORE_THAN_A_SOCKET, Reading, params};
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A client for servers that begin with `initialize`.
fn legacy_client() -> Builder {
    tests::deadline::set();
    Client::builder().versions(legacy_versions())
}

/// The event that ends the calls of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The timeout of the call: [`GIVEN`].
    Timeout,
    /// The application cancels the call.
    Cancel,
    /// The application closes the client.
    Close,
    /// The application drops the client.
    Drop,
    /// The server's output ends.
    EndOfInput,
}

const ENDINGS: [Ending; 5] = [Ending::Timeout, Ending::Cancel, Ending::Close, Ending::Drop, Ending::EndOfInput];

/// The timeout of calls that must end by it.
const GIVEN: Duration = Duration::from_secs(2);
/// The timeout of all other calls, which is never reached.
const LONG: Duration = Duration::from_secs(3600);
/// About ten times the limits that `Client::close` documents: the machine that runs the test may be slow.
const BOUND: Duration = Duration::from_secs(60);

async fn in_time<T>(what: &str, ends: impl Future<Output = T>) -> T {
    timeout(BOUND, ends).await.unwrap_or_else(|_| panic!("{what} does not end"))
}

fn configure(ending: Ending) -> impl FnOnce(&mut Config) {
    move |config| {
        config.versions = vec![ProtocolVersion::V2025_11_25];
        config.request_timeout = if ending == Ending::Timeout { GIVEN } else { LONG };
        config.max_timeout = LONG;
    }
}

/// A call whose parameters are larger than what the pipe takes, and small ones after it.
async fn call(client: &Client, large: usize) -> Vec<InFlight> {
    let mut calls = Vec::new();
    for bytes in [large, 10, 10, 10] {
        calls.push(client.call(Call::new("tools/call").params(params(bytes))).await.unwrap());
    }
    calls
}

/// Ends the calls in this way. All of them must fail, for a reason that `is_right` accepts.
async fn end(
    what: &str,
    ending: Ending,
    client: Client,
    calls: Vec<InFlight>,
    end_input: impl FnOnce(),
    is_right: impl Fn(&Failed) -> bool,
) {
    let mut client = Some(client);
    match ending {
        Ending::Timeout => {}
        Ending::Cancel => calls.iter().for_each(InFlight::cancel),
        Ending::Close => in_time(what, client.as_ref().unwrap().close()).await,
        Ending::Drop => drop(client.take()),
        Ending::EndOfInput => end_input(),
    }
    for call in calls {
        match in_time(what, call.wait()).await {
            Err(Error::Failed { reason, .. }) if is_right(&reason) => {}
            outcome => panic!("{what}: {outcome:?}"),
        }
    }
    if let Some(client) = client {
        in_time(what, client.close()).await;
    }
}

async fn with_child(reading: Reading, ending: Ending) {
    let what = format!("{reading:?}, {ending:?}");
    let mut command = if ending == Ending::EndOfInput { reading.child_whose_output_ends() } else { reading.child() };
    let mut life = Life::of(&mut command);
    let client = legacy_client().configure(configure(ending)).child(Command::from(command)).connect().await.unwrap();
    let calls = call(&client, MORE_THAN_A_PIPE).await;
    assert!(life.goes_on(), "{what}");
    // If the server has closed its input, the connection ends after reading has continued for a while.
    let may_be_gone = reading == Reading::Closed;
    end(
        &what,
        ending,
        client,
        calls,
        || (),
        |reason| match ending {
            Ending::Timeout => {
                matches!(reason, Failed::TimedOut { after: GIVEN }) || may_be_gone && reason.is_end_of_connection()
            }
            Ending::Cancel => *reason == Failed::Cancelled,
            Ending::Close | Ending::Drop | Ending::EndOfInput => reason.is_end_of_connection(),
        },
    )
    .await;
    in_time(&what, tokio::task::spawn_blocking(|| life.ends())).await.unwrap();
}

async fn with_socket(reading: Reading, ending: Ending) {
    let what = format!("{reading:?}, {ending:?}");
    let server = reading.server();
    let client = legacy_client().configure(configure(ending)).http(&server.url()).unwrap().connect().await.unwrap();
    let calls = call(&client, MORE_THAN_A_SOCKET).await;
    // If the server closes the connection, the call fails at once.
    let is_closed = |reason: &Failed| matches!(reason, Failed::Broken { .. } | Failed::Unreachable { .. });
    let may_be_closed = reading == Reading::Closed;
    end(
        &what,
        ending,
        client,
        calls,
        || server.end(),
        |reason| match ending {
            _ if may_be_closed && is_closed(reason) => true,
            Ending::Timeout => matches!(reason, Failed::TimedOut { after: GIVEN }),
            Ending::Cancel => *reason == Failed::Cancelled,
            Ending::Close | Ending::Drop => *reason == Failed::Closed,
            Ending::EndOfInput => is_closed(reason),
        },
    )
    .await;
}

/// Waits for the cases of a table, which run concurrently.
async fn all(cells: Vec<JoinHandle<()>>) {
    for cell in cells {
        cell.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_clients_end_in_time_whatever_a_child_reads() {
    let mut cells = Vec::new();
    for reading in Reading::OF_CHILDREN {
        // The output of a flood does not end.
        let endings =
            ENDINGS.into_iter().filter(|ending| (reading, *ending) != (Reading::Flooding, Ending::EndOfInput));
        cells.extend(endings.map(|ending| tokio::spawn(with_child(reading, ending))));
    }
    all(cells).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_clients_end_in_time_whatever_a_server_on_a_socket_reads() {
    let mut cells = Vec::new();
    for reading in Reading::OF_SOCKETS {
        cells.extend(ENDINGS.into_iter().map(|ending| tokio::spawn(with_socket(reading, ending))));
    }
    all(cells).await;
}

/// A server that has closed its stdin may still send an answer, which must not be lost.
#[tokio::test]
async fn an_answer_that_follows_a_closed_stdin_is_delivered() {
    let script = "exec 3<&0 </dev/null; read -r initialize <&3; echo \"$0\"; read -r initialized <&3; \
                  read -r call <&3; exec 3<&-; sleep 0.6; echo '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"late\":1}}'; \
                  sleep 1000";
    let mut command = Command::new("sh");
    let answer = mcp_testkit::messages::result("1", &mcp_testkit::messages::initialize_result("2025-11-25"));
    command.args(["-c", script, &answer]);
    let client = legacy_client().configure(configure(Ending::Close)).child(command).connect().await.unwrap();
    let first = client.call(Call::new("tools/call").params(params(10))).await.unwrap();
    let mut others = Vec::new();
    // At some point, one of them detects that the pipe is closed.
    for _ in 0..50 {
        // No call is accepted after the client has ended.
        let Ok(other) = client.call(Call::new("tools/call").params(params(10))).await else { break };
        others.push(other);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let answer = in_time("the first call", first.wait()).await.unwrap();
    assert_eq!(answer, Json::parse(r#"{"late":1}"#.to_owned()).unwrap());
    for other in others {
        let outcome = in_time("another call", other.wait()).await;
        assert!(matches!(&outcome, Err(Error::Failed { reason, .. }) if reason.is_end_of_connection()), "{outcome:?}");
    }
}
