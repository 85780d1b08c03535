//! A client and a server with a handler of the application, connected in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use mcp_application::IncomingRequest;
use mcp_proto::client::{self, Call, Client, Outcome};
use mcp_proto::server::{self, Server};
use mcp_proto::{ErrorObject, Instant, Json, Method, Output, RequestKey, Stdio, StdioAction};

use crate::network::ByteStream;
use crate::random::Random;

/// The limit of steps in which a request must end. No correct handler needs that many.
const MAX_STEPS: u32 = 1_000_000;

/// What answers the requests of the server.
type Answer = Box<dyn FnMut(&Method, Option<&Json>) -> Result<Json, ErrorObject>>;

/// A client and a server machine that are connected by a simulated byte stream. The server's requests are handled by a
/// function of the application. A seed and a virtual clock determine the run, so nothing waits. When one of them closes
/// its stream, the end arrives at the other one after everything before.
///
/// # Example: a tool that asks the user
///
/// ```
/// use mcp_application::IncomingRequest;
/// use mcp_proto::client::Outcome;
/// use mcp_proto::server::{Config, InputRequired};
/// use mcp_proto::{ErrorObject, Json};
/// use mcp_testkit::pair::Pair;
///
/// fn serve(request: &IncomingRequest) -> Result<Json, ErrorObject> {
///     let params = request.params().cloned().unwrap_or(Json::empty_object());
///     if params.member("inputResponses").ok().flatten().is_none() {
///         let form = Json::parse(r#"{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}"#).unwrap();
///         return Ok(InputRequired::new().ask("sure", "elicitation/create", form).into());
///     }
///     Ok(Json::parse(r#"{"content":[{"type":"text","text":"Done."}]}"#).unwrap())
/// }
///
/// let config = Config::new("my-tools", "1.0.0").capabilities(Json::parse(r#"{"tools":{}}"#)?);
/// let mut pair = Pair::new(config, serve);
/// pair.on_request(|method, _| {
///     assert_eq!(method.as_str(), "elicitation/create");
///     Ok(Json::parse(r#"{"action":"accept","content":{}}"#).unwrap())
/// });
/// let Outcome::Result(result) = pair.request("tools/call", Json::parse(r#"{"name":"delete"}"#)?) else { panic!() };
/// assert!(result.to_text().contains("Done."));
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
pub struct Pair<H> {
    /// The client machine.
    pub client: Client<Stdio>,
    /// The server machine.
    pub server: Server<Stdio>,
    /// The current virtual time.
    pub now: Instant,
    handler: H,
    answer: Answer,
    random: Random,
    to_server: ByteStream,
    to_client: ByteStream,
    outcomes: BTreeMap<RequestKey, Outcome>,
    events: Vec<client::Event>,
}

impl<H> fmt::Debug for Pair<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("client", &self.client).field("server", &self.server).finish_non_exhaustive()
    }
}

impl<H: FnMut(&IncomingRequest) -> Result<Json, ErrorObject>> Pair<H> {
    /// Connects a client of all revisions, which declares `roots`, `sampling` and `elicitation`, to a server with this
    /// configuration and handler.
    ///
    /// # Panics
    ///
    /// The configuration is invalid.
    pub fn new(config: server::Config, handler: H) -> Self {
        let mut client = client::Config::new("mcp-testkit", env!("CARGO_PKG_VERSION"));
        let declared = r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}"#;
        client.capabilities = Json::parse(declared).expect("JSON");
        client.versions = mcp_proto::ProtocolVersion::ALL.to_vec();
        Self::with(client, config, handler, 0)
    }

    /// Connects a client and a server with these configurations. The seed determines how the streams split and delay.
    ///
    /// # Panics
    ///
    /// A configuration is invalid.
    pub fn with(client: client::Config, server: server::Config, handler: H, seed: u64) -> Self {
        let now = Instant::START;
        let mut client = Client::new(Stdio::new(), client).expect("a valid configuration of the client");
        client.connect(now).expect("a fresh client");
        let server = Server::new(Stdio::new(), server).expect("a valid configuration of the server");
        Self {
            client,
            server,
            now,
            handler,
            answer: Box::new(|method, _| Err(ErrorObject::method_not_found(method))),
            random: Random::new(seed),
            to_server: ByteStream::new(),
            to_client: ByteStream::new(),
            outcomes: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    /// Sets what answers the requests of the server, in either era. Default: they are refused.
    pub fn on_request(&mut self, answer: impl FnMut(&Method, Option<&Json>) -> Result<Json, ErrorObject> + 'static) {
        self.answer = Box::new(answer);
    }

    /// Makes a request, and runs until it has ended.
    ///
    /// # Panics
    ///
    /// The client refuses the request, or it never ends.
    pub fn request(&mut self, method: impl Into<Method>, params: impl Into<Json>) -> Outcome {
        let request = self.begin(Call::new(method).params(params));
        self.run_until(|pair| pair.outcomes.remove(&request))
    }

    /// Makes a request without running.
    ///
    /// # Panics
    ///
    /// The client refuses the request.
    pub fn begin(&mut self, call: Call) -> RequestKey {
        self.client.request(call, self.now).expect("a request that the client may send")
    }

    /// The outcome of a request, if it has ended. Each is returned once.
    pub fn outcome(&mut self, request: RequestKey) -> Option<Outcome> {
        self.outcomes.remove(&request)
    }

    /// The other events of the client since the last call, such as progress and notifications.
    pub fn events(&mut self) -> Vec<client::Event> {
        std::mem::take(&mut self.events)
    }

    /// Runs for this time.
    ///
    /// # Panics
    ///
    /// The machines never stop writing.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        self.run_until(|pair| pair.next_moment().is_none_or(|at| at > until).then_some(()));
        self.now = until;
    }

    /// Carries out the outputs of the machines, and advances the time, until `find` returns something.
    fn run_until<T>(&mut self, mut find: impl FnMut(&mut Self) -> Option<T>) -> T {
        for _ in 0..MAX_STEPS {
            self.settle();
            if let Some(found) = find(self) {
                return found;
            }
            let at = self.next_moment().expect("something that happens later");
            self.now = self.now.max(at);
            self.step();
        }
        panic!("the machines never stop writing");
    }

    fn next_moment(&self) -> Option<Instant> {
        let arrivals = [self.to_server.next_arrival(), self.to_client.next_arrival()];
        arrivals.into_iter().chain([self.client.poll_timeout(), self.server.poll_timeout()]).flatten().min()
    }

    /// Passes in what has arrived, with the ends of the streams, and fires the timers that are due.
    fn step(&mut self) {
        while let Some(bytes) = self.to_server.read(self.now) {
            self.server.handle_bytes(&bytes, self.now);
        }
        while let Some(bytes) = self.to_client.read(self.now) {
            self.client.handle_bytes(&bytes, self.now);
        }
        if self.to_server.take_end(self.now) {
            self.server.handle_eof(self.now);
        }
        if self.to_client.take_end(self.now) {
            self.client.handle_eof(self.now);
        }
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
    }

    fn settle(&mut self) {
        loop {
            if let Some(output) = self.client.poll_output() {
                match output {
                    Output::Action(StdioAction::Write(bytes)) => {
                        self.client.handle_written(bytes.len(), self.now);
                        self.to_server.write(bytes, self.now, &mut self.random);
                    }
                    Output::Action(StdioAction::CloseWrite) => self.to_server.close(self.now),
                    Output::Action(StdioAction::Respawn) => {
                        // There is no program to start again, so that the stream of the new process ends at once.
                        self.to_client = ByteStream::new();
                        self.to_client.close(self.now);
                    }
                    Output::Action(action) => panic!("{action:?} is new"),
                    Output::Event(event) => self.on_client_event(event),
                }
            } else if let Some(output) = self.server.poll_output() {
                match output {
                    Output::Action(StdioAction::Write(bytes)) => {
                        self.server.handle_written(bytes.len(), self.now);
                        self.to_client.write(bytes, self.now, &mut self.random);
                    }
                    Output::Action(StdioAction::CloseWrite) => self.to_client.close(self.now),
                    Output::Action(action) => panic!("{action:?} of a server"),
                    Output::Event(event) => self.on_server_event(event),
                }
            } else {
                return;
            }
        }
    }

    fn on_client_event(&mut self, event: client::Event) {
        match event {
            client::Event::Responded { request, outcome } => {
                let earlier = self.outcomes.insert(request, outcome);
                assert!(earlier.is_none(), "a request has two outcomes");
            }
            client::Event::Requested { ticket, method, params, .. } => {
                let answer = (self.answer)(&method, params.as_ref());
                self.client.answer(ticket, answer, self.now);
            }
            event => self.events.push(event),
        }
    }

    fn on_server_event(&mut self, event: server::Event) {
        let server::Event::Requested { ticket, method, params } = event else { return };
        let Some(request) = IncomingRequest::new(&self.server, &ticket, method, params, unix_time) else { return };
        let answer = (self.handler)(&request);
        if let Err(error) = self.server.respond(ticket, answer, self.now) {
            panic!("the handler's answer to {} must not be sent: {error}", request.method());
        }
    }
}

/// The wall time of simulated requests: 2026-07-28, in seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    1_785_196_800
}
