//! How the process of a server ends, for clients and gateways in the process of the test.

use std::process::Command;
use std::time::Duration;

use mcp_blocking::{Backend, Client, Error, InFlight};
use mcp_intermediary::gateway::{Config, Sharing};
use mcp_proto::Failed;
use mcp_proto::client::Call;
use mcp_testkit::http_client::legacy_versions;
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::messages::request;
use mcp_testkit::waiting::wait_until;
use tests::ending_servers::{Ending, QUEUE, UNREAD, run_each};

use super::library::InProcess;

#[test]
fn a_client_notices_the_end_of_its_server() {
    run_each("client", |ending, in_flight| {
        let mut command = Command::new("sh");
        command.args(ending.arguments()).stderr(std::process::Stdio::null());
        let client = Client::builder().versions(legacy_versions()).child(command).connect().unwrap();
        let waiting = in_flight.then(|| client.call(Call::new("wait")).unwrap());
        let pids = Ending::pids(&client.request("end", None).unwrap());
        // It has an outcome. A server that has closed its stdin is noticed when it is written to; what is written while another
        // process is started is lost, because that one has a copy of the pipe until its program runs.
        let next = client.call(Call::new("pid").timeout(Duration::from_secs(5))).and_then(InFlight::wait);
        assert!(next.is_err() || ending.is_wrapped());
        let next = std::iter::from_fn(|| Some(client.request("pid", None))).find_map(Result::err).unwrap();
        // It may be made when the client has just ended.
        let is_late = matches!(next, Error::Usage(_) | Error::Failed { reason: Failed::Closed, .. });
        assert!(is_late || next.to_string().contains(ending.text), "{next}");
        if let Some(waiting) = waiting {
            let failed = waiting.wait().unwrap_err();
            assert!(matches!(failed, Error::Failed { reason: Failed::ProcessEnded { opening: None, .. }, .. }));
            assert!(failed.to_string().contains(&format!("the server {}", ending.text)), "{failed}");
        }
        client.close();
        ending.leaves_nothing(pids);
    });
}

/// The arguments of `sh` for [`UNREAD`].
fn unread() -> Command {
    let mut command = Command::new("sh");
    command.args(UNREAD.arguments()).stderr(std::process::Stdio::null());
    command
}

#[test]
fn what_a_server_has_written_last_reaches_a_client_that_had_stopped_reading() {
    let builder = Client::builder().versions(legacy_versions()).configure(|config| config.limits.queue_bytes = QUEUE);
    let client = builder.child(unread()).connect().unwrap();
    UNREAD.leaves_nothing(Ending::pids(&client.request("end", None).unwrap()));
    let next = client.request("pid", None).unwrap_err();
    assert!(matches!(next, Error::Usage(_)) || next.to_string().contains(UNREAD.text), "{next}");
}

#[test]
fn what_a_server_has_written_last_reaches_the_client_of_a_gateway_that_had_stopped_reading() {
    for sharing in [Sharing::PerSession, Sharing::Shared] {
        let mut config = Config::default();
        config.sharing = sharing;
        config.relay.limits.queue_bytes = QUEUE;
        // The clients do not answer, and the errors for the others are not read either.
        config.relay.limits.requests_in = 1;
        let gateway = InProcess::start(config, Backend::command(|_| unread()));
        let session = gateway.raw.session("2025-11-25");
        let answer = gateway.raw.answer(&TestRequest::post(request("5", "end", "{}")).in_session(&session)).text();
        UNREAD.leaves_nothing(Ending::pids_in(&answer));
        wait_until(|| gateway.counts().backends == 0);
        gateway.end();
    }
}
