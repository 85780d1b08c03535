//! The end of a client or of the gateway while the process of a server is being started, which may take long.

use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use mcp_blocking::{AggregateProxy, AggregateServer, Backend, GatewayStopper, Proxy};
use mcp_intermediary::gateway::Config;
use mcp_intermediary::{aggregate, relay};
use mcp_proto::server::TwoEndpoints;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::raw_client::{RawClient, RawConnection};
use mcp_testkit::waiting::{LONG, wait_until};
use tests::parallel::{case, run_all};
use tests::unread_pipes::Life;

use super::library::InProcess;

/// A server that is ended before it has to answer.
const SERVER: &str = "while read -r line; do :; done";

/// What is started for a client.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Process,
    Proxy,
    Aggregate,
}

/// What happens while it is being started.
#[derive(Debug, Clone, Copy)]
enum Happens {
    /// The server has not answered in time.
    Timeout,
    /// A client of the older transport has closed its stream, and with it its session.
    ClientLeaves,
    Shutdown,
    Stop,
}

impl Happens {
    /// Opens a session, or begins to.
    fn open(self, raw: &RawClient) -> RawConnection {
        if !matches!(self, Self::ClientLeaves) {
            return raw.open(&TestRequest::post(initialize("2025-11-25")));
        }
        let mut stream = raw.open(&TestRequest::get().at("/sse"));
        let endpoint = stream.events(1).remove(0);
        assert_eq!(raw.answer(&TestRequest::post(initialize("2024-11-05")).at(&endpoint)).code(), 202);
        stream
    }

    fn happen(self, client: RawConnection, stopper: &GatewayStopper) {
        match self {
            Self::Timeout => {
                let refused = { client }.until(|sent| sent.is_over).text();
                assert!(refused.contains("did not answer within"), "{refused}");
            }
            Self::ClientLeaves => drop(client),
            Self::Shutdown => stopper.shutdown(Duration::ZERO),
            Self::Stop => stopper.stop(),
        }
    }
}

/// The process is started although its client or the gateway has ended: nothing of it may be left.
fn leaves_nothing(kind: Kind, happens: Happens) {
    let (began, begins) = channel();
    let (let_go, goes_on) = channel();
    let (lives, life) = channel();
    let goes_on = Mutex::new(goes_on);
    // It is called on a thread of its own.
    let slow = move || {
        began.send(()).unwrap();
        goes_on.lock().unwrap().recv_timeout(LONG).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", SERVER]);
        lives.send(Life::of(&mut command)).unwrap();
        command
    };
    let backend = match kind {
        Kind::Process => Backend::command(move |_| slow()),
        Kind::Proxy => Backend::proxy(move |_| Ok(Proxy::child(slow(), relay::Config::default())?)),
        Kind::Aggregate => Backend::aggregate(move |_| {
            let command = Mutex::new(Some(slow()));
            let server = AggregateServer::command(move || command.lock().unwrap().take().unwrap());
            Ok(AggregateProxy::new(aggregate::Config::new("all", "1")).server("one", relay::Config::default(), server))
        }),
    };
    let mut config = Config::default();
    config.http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    if matches!(happens, Happens::Timeout) {
        config.relay.initialize_timeout = Duration::from_millis(50);
    }
    let gateway = InProcess::start(config, backend);
    let client = happens.open(&gateway.raw);
    begins.recv_timeout(LONG).unwrap();
    // The thread may begin before the gateway has counted it.
    wait_until(|| gateway.counts().backends == 1);
    happens.happen(client, &gateway.stopper);
    wait_until(|| gateway.counts().sessions == 0);
    assert_eq!(gateway.counts().backends, 1, "it is being started");
    let_go.send(()).unwrap();
    wait_until(|| gateway.counts().backends == 0);
    let counts = gateway.counts();
    assert_eq!((counts.backends_started, counts.backends_stopped), (1, 1));
    life.recv_timeout(LONG).unwrap().ends();
    gateway.end();
}

#[test]
fn a_process_whose_client_or_gateway_has_ended_while_it_was_started_is_ended() {
    let kinds = [Kind::Process, Kind::Proxy, Kind::Aggregate];
    let happen = [Happens::Timeout, Happens::ClientLeaves, Happens::Shutdown, Happens::Stop];
    let all = kinds.into_iter().flat_map(|kind| happen.map(|happens| (kind, happens)));
    let cases =
        all.map(|(kind, happens)| case(format!("{kind:?}, {happens:?}"), move || leaves_nothing(kind, happens)));
    run_all(cases.collect());
}
