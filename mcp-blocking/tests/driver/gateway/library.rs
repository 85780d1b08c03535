//! A gateway in the process of the test, for what no option of the command line sets.

use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use mcp_blocking::{Backend, Gateway, GatewayStatus, GatewayStopper, ServerStatus};
use mcp_proto::gateway::Config;
use mcp_testkit::raw_client::RawClient;
use mcp_testkit::waiting::wait_until;

/// A gateway with one server.
pub(crate) struct InProcess {
    pub(crate) raw: RawClient,
    pub(crate) stopper: GatewayStopper,
    status: GatewayStatus,
    thread: JoinHandle<std::io::Result<()>>,
}

impl InProcess {
    pub(crate) fn start(config: Config, backend: Backend) -> Self {
        tests::deadline::set();
        let gateway = Gateway::new().server(config, backend).unwrap();
        let (stopper, status) = (gateway.stopper(), gateway.status());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let raw = RawClient::new(&listener.local_addr().unwrap().to_string());
        let thread = thread::spawn(move || gateway.serve(listener));
        Self { raw, stopper, status, thread }
    }

    pub(crate) fn counts(&self) -> ServerStatus {
        self.status.servers().remove(0)
    }

    /// Stops the gateway, and waits for its end.
    pub(crate) fn end(self) {
        self.stopper.stop();
        wait_until(|| self.thread.is_finished());
        self.thread.join().unwrap().unwrap();
    }
}
