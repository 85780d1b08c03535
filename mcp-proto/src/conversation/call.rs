//! A request to be made, by either role.

use std::time::Duration;

use crate::json::Json;
use crate::spec::{Method, TraceContext};

/// A request to be made with [`Client::request`](crate::Client::request), or by a server with
/// [`Server::request`](crate::Server::request).
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use mcp_proto::Json;
/// use mcp_proto::client::Call;
///
/// let call = Call::new("tools/call")
///     .params(Json::parse(r#"{"name":"echo","arguments":{"text":"hi"}}"#)?)
///     .timeout(Duration::from_secs(5))
///     .with_progress();
/// # Ok::<(), mcp_proto::JsonError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub(crate) method: Method,
    pub(crate) params: Option<Json>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) progress: bool,
    pub(crate) meta: AddedMeta,
}

/// What a client of the modern era adds to the parameters of a request (MD-M-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AddedMeta {
    /// The revision, and the name and the capabilities of the client.
    #[default]
    Identity,
    /// The same, with the extension for tasks among the capabilities.
    IdentityWithTasks,
    /// Nothing, and the answer is reported as it was received.
    Nothing,
}

impl Call {
    /// A request without parameters.
    #[must_use]
    pub fn new(method: impl Into<Method>) -> Self {
        Self { method: method.into(), params: None, timeout: None, progress: false, meta: AddedMeta::Identity }
    }

    /// The method of the request.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The parameters.
    #[must_use]
    pub const fn parameters(&self) -> Option<&Json> {
        self.params.as_ref()
    }

    /// Sets the parameters. The machine may add members to them, such as `_meta`, and sends all others unchanged.
    #[must_use]
    pub fn params(mut self, params: impl Into<Json>) -> Self {
        self.params = Some(params.into());
        self
    }

    /// States the trace to which the request belongs, in `_meta` of the parameters that were set before.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::client::Call;
    /// use mcp_proto::{Json, TraceContext};
    ///
    /// let trace = TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    /// let call = Call::new("tools/call").params(Json::parse(r#"{"name":"echo"}"#)?).trace_context(&trace);
    /// # Ok::<(), mcp_proto::JsonError>(())
    /// ```
    #[must_use]
    pub fn trace_context(mut self, trace: &TraceContext) -> Self {
        let params = self.params.take().unwrap_or(Json::empty_object());
        self.params = Some(trace.add_to_params(&params));
        self
    }

    /// Sets the timeout of this request, which replaces the configured one.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Requests progress: a token is added to the parameters, unless they have one already.
    ///
    /// Rules: PR-01.
    #[must_use]
    pub const fn with_progress(mut self) -> Self {
        self.progress = true;
        self
    }

    /// Declares the extension `io.modelcontextprotocol/tasks` for this request, besides the capabilities of the client: a
    /// server of 2026-07-28 may answer `tools/call` with a task, and answers requests about tasks. This has no effect
    /// in sessions, for which capabilities are declared once.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::Json;
    /// use mcp_proto::client::Call;
    ///
    /// let call = Call::new("tools/call").params(Json::parse(r#"{"name":"index"}"#)?).with_tasks();
    /// # Ok::<(), mcp_proto::JsonError>(())
    /// ```
    ///
    /// Rules: RULES 8.9.
    #[must_use]
    pub const fn with_tasks(mut self) -> Self {
        self.meta = AddedMeta::IdentityWithTasks;
        self
    }

    /// Passes the request through: a client sends the parameters as they are, and reports the answer as it was
    /// received, except that tools with invalid header annotations are left out of lists over HTTP. This has no effect
    /// on a request of a server.
    ///
    /// The client adds no `_meta` to the parameters and does not check that they are an object. It does not interpret
    /// the result or error: a modern `input_required` result and an error about an unsupported revision are outcomes of
    /// the request. On a connection of the modern era, `subscriptions/listen` is a request like any other in this case.
    /// This is for an application that forwards the requests of another client, which supplies all this and reads the
    /// answers itself.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::client::{Call, Client, Config, Opening};
    /// use mcp_proto::{Instant, Json, Output, ProtocolVersion, Stdio, StdioAction};
    ///
    /// let now = Instant::START;
    /// let mut config = Config::new("my-gateway", "1.0.0");
    /// config.versions = vec![ProtocolVersion::V2026_07_28];
    /// let mut client = Client::new(Stdio::new(), config)?;
    /// client.connect_with(Opening::Discover(Json::parse("{}").unwrap()), now)?;
    /// client.poll_output();
    /// client.handle_bytes(
    ///     br#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}"#,
    ///     now,
    /// );
    /// client.handle_bytes(b"\n", now);
    /// client.poll_output(); // `Event::Connected`
    ///
    /// client.request(Call::new("tools/list").params(Json::parse(r#"{"_meta":{"a":1}}"#).unwrap()).unchanged(), now)?;
    /// let Some(Output::Action(StdioAction::Write(line))) = client.poll_output() else { panic!() };
    /// assert_eq!(&line[..], b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{\"_meta\":{\"a\":1}}}\n");
    /// # Ok::<(), mcp_proto::UsageError>(())
    /// ```
    ///
    /// Rules: MD-P-05.
    #[must_use]
    pub const fn unchanged(mut self) -> Self {
        self.meta = AddedMeta::Nothing;
        self
    }

    /// Whether the request is passed through ([`Call::unchanged`]).
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.meta == AddedMeta::Nothing
    }
}
