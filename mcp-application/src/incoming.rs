//! A request of a client, as its handler receives it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Extensions, HeaderMap};
use mcp_model::{ClientCapabilities, Implementation, JsonObject, Payload};
use mcp_proto::server::{Context, Principal, Server, ServerTransport, TaskId};
use mcp_proto::{Json, Method, ProtocolVersion, SessionKey, Ticket, TicketKey, TraceContext};

use crate::{CallSender, extension_in};

/// A request of a client, and its context.
pub struct IncomingRequest {
    method: Method,
    params: Option<Json>,
    ticket: TicketKey,
    context: Context,
    headers: HeaderMap,
    extensions: Extensions,
    /// Returns the seconds since 1970.
    unix_time: fn() -> u64,
    /// Whether hooks of a router have seen the request.
    is_hooked: AtomicBool,
}

/// Omits the headers, which contain credentials and the session id.
impl fmt::Debug for IncomingRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingRequest")
            .field("method", &self.method)
            .field("params", &self.params)
            .field("ticket", &self.ticket)
            .field("version", &self.context.version)
            .finish_non_exhaustive()
    }
}

impl IncomingRequest {
    /// Combines a request that the machine has reported with its context; `unix_time` returns the seconds since 1970.
    /// `None` if the client has cancelled the request in the meantime.
    pub fn new<T: ServerTransport>(
        machine: &Server<T>,
        ticket: &Ticket,
        method: Method,
        params: Option<Json>,
        unix_time: fn() -> u64,
    ) -> Option<Self> {
        let context = machine.context(ticket)?;
        let headers = machine.request_head(ticket).map(|head| head.headers.clone()).unwrap_or_default();
        // The clone of an empty map may allocate.
        let extensions = machine.extensions(ticket).filter(|extensions| !extensions.is_empty());
        let extensions = extensions.cloned().unwrap_or_default();
        let is_hooked = AtomicBool::new(false);
        Some(Self { method, params, ticket: ticket.key(), context, headers, extensions, unix_time, is_hooked })
    }

    /// The method of the request.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The parameters, as they were received.
    #[must_use]
    pub const fn params(&self) -> Option<&Json> {
        self.params.as_ref()
    }

    /// The key of the request.
    #[must_use]
    pub const fn ticket(&self) -> TicketKey {
        self.ticket
    }

    /// The session that the request belongs to; `None` for a stateless request.
    #[must_use]
    pub const fn session(&self) -> Option<SessionKey> {
        self.ticket.session()
    }

    /// The context of the request: its revision, and the client's info and capabilities.
    #[must_use]
    pub const fn context(&self) -> &Context {
        &self.context
    }

    /// The protocol revision of the request.
    #[must_use]
    pub const fn version(&self) -> ProtocolVersion {
        self.context.version
    }

    /// The client's capabilities; none if they cannot be read. Each call reads them anew.
    /// [`Context::client_capabilities`] of [`IncomingRequest::context`] has the JSON that the client has sent.
    #[must_use]
    pub fn client_capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::from_json(&self.context.client_capabilities).unwrap_or_default()
    }

    /// The settings with which the client has declared the extension of this id; `None` if it has not.
    #[must_use]
    pub fn client_extension(&self, id: &str) -> Option<JsonObject> {
        extension_in(&self.context.client_capabilities, id)
    }

    /// The name and version that the client states; `None` if it states none, or they cannot be read. They are not
    /// verified, so do not rely on them. Each call reads them anew. [`Context::client_info`] of
    /// [`IncomingRequest::context`] has the JSON that the client has sent.
    #[must_use]
    pub fn client_info(&self) -> Option<Implementation> {
        Implementation::from_json(self.context.client_info.as_ref()?).ok()
    }

    /// The id of a task for this call, of 16 random bytes from a secure source. If hooks of a router have seen the call, it is
    /// [`TaskId::unpublished`]: they would not see what is published.
    #[must_use]
    pub fn task_id(&self, random: [u8; 16]) -> TaskId {
        let id = TaskId::for_call(&self.context, random);
        if self.is_hooked.load(Ordering::Relaxed) { id.unpublished() } else { id }
    }

    /// Notes that hooks of a router see the request.
    pub(crate) fn set_hooked(&self) {
        self.is_hooked.store(true, Ordering::Relaxed);
    }

    /// The sender of the request, for a function that works on after the answer.
    #[must_use]
    pub fn sender(&self) -> CallSender {
        CallSender { principal: self.principal().cloned(), extensions: self.extensions.clone() }
    }

    /// The principal that sent the request, with the scopes of this request, if the driver authenticated it.
    #[must_use]
    pub const fn principal(&self) -> Option<&Principal> {
        self.context.principal.as_ref()
    }

    /// The headers of the HTTP request; empty on a byte stream.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The trace that the client has stated for the request, in `_meta` of the parameters, or else in the headers of
    /// the HTTP request.
    #[must_use]
    pub fn trace_context(&self) -> TraceContext {
        TraceContext::from_params(self.params.as_ref()).or(TraceContext::from_headers(&self.headers))
    }

    /// The values that a layer in front of the server, or the function that authenticates its requests
    /// ([`Authenticated`](super::Authenticated)), has added to the HTTP request, such as the tenant of its sender; empty
    /// on a byte stream.
    #[must_use]
    pub const fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// The seconds since 1970, by the driver's clock.
    #[must_use]
    pub fn unix_time(&self) -> u64 {
        (self.unix_time)()
    }
}
