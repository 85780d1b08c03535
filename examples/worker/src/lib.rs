//! A server as a function from a request to a response, as the workers of CDNs and functions in a cloud are.
//!
//! It needs no operating system: `examples/worker/run` builds it for `wasm32-unknown-unknown` and runs it under Node.
//! The machine stays between requests, so that clients of the revisions before 2026-07-28 have sessions. A platform
//! that starts another instance for some requests serves only 2026-07-28, whose requests are independent of each other:
//! `config.versions = vec![ProtocolVersion::LATEST]`.

mod exports;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use mcp_model::{
    CallToolRequest, CallToolResult, ListToolsResult, RequestMethod as _, ServerCapabilities, Tool, ToolsCapability,
};
use mcp_proto::server::{Config, Event, Http, HttpAction, HttpConfig, RequestInfo, Server};
use mcp_proto::{ErrorObject, Instant, Json, Method, Output, UsageError};

/// A server, which answers each request before it receives the next one.
#[derive(Debug)]
pub struct Worker(Server<Http>);

impl Worker {
    /// A server with one tool, for clients on this machine.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid.
    pub fn new() -> Result<Self, UsageError> {
        let capabilities = ServerCapabilities::new().tools(ToolsCapability::new());
        let mut http = HttpConfig::new();
        // A stream would have to stay open after the response.
        http.get_stream = false;
        let config = Config::new("my-worker", "1.0.0").capabilities(capabilities);
        Ok(Self(Server::new(Http::new(http), config)?))
    }

    /// Answers a request. `nonce` has random bytes from a secure source, which are different for each request.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if an answer of the application is invalid.
    pub fn fetch(
        &mut self,
        request: Request<Bytes>,
        nonce: [u8; 32],
        now: Instant,
    ) -> Result<Response<Bytes>, UsageError> {
        let Self(server) = self;
        server.handle_timeout(now);
        let (head, body) = request.into_parts();
        let exchange = server.handle_request(head, RequestInfo::new(nonce), now);
        server.handle_body(exchange, &body, now);
        server.handle_end(exchange, now);

        let (mut response, mut streamed) = (Response::default(), BytesMut::new());
        while let Some(output) = server.poll_output() {
            match output {
                Output::Event(Event::Requested { ticket, method, params }) => {
                    server.respond(ticket, serve(&method, params.as_ref()), now)?;
                }
                Output::Action(HttpAction::Respond { response: whole, .. }) => response = whole,
                Output::Action(HttpAction::Stream { head, .. }) => response = head.map(|()| Bytes::new()),
                Output::Action(HttpAction::Write { chunk, .. }) => streamed.extend_from_slice(&chunk),
                Output::Action(_) | Output::Event(_) => {}
            }
        }
        server.handle_written(exchange, response.body().len() + streamed.len(), now);
        // A stream that is open now, that of `subscriptions/listen`, ends with this response.
        server.handle_disconnect(exchange, now);
        Ok(if streamed.is_empty() { response } else { response.map(|_| streamed.freeze()) })
    }
}

fn serve(method: &Method, params: Option<&Json>) -> Result<Json, ErrorObject> {
    match method.as_str() {
        "tools/list" => Ok(ListToolsResult::new([Tool::without_arguments("hello").description("Says hello.")]).into()),
        "tools/call" if CallToolRequest::params(params)?.name == "hello" => Ok(CallToolResult::text("Hello!").into()),
        "tools/call" => Err(ErrorObject::invalid_params("unknown tool")),
        _ => Err(ErrorObject::method_not_found(method)),
    }
}
