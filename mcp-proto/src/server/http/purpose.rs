//! What the exchanges of a server are for.

use bytes::Bytes;
use http::Response;

use crate::conversation::keys::{InstanceId, SessionKey};
use crate::jsonrpc::RequestId;
use crate::server::http::exchange::{self, ExchangeKey, ExchangeTypes};

/// A request at a server.
pub(crate) enum Serving {}

impl ExchangeTypes for Serving {
    type Plan = Plan;
    type Asked = Asked;
    type Opening = StreamOpening;
    type Then = Then;
    type Stream = StreamOf;
}

pub(crate) type Exchange = exchange::Exchange<Serving>;

/// What the server will do for a request, according to its head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Handle the message in the body. Without a session, it must be `initialize` or stateless.
    Post { session: Option<SessionKey> },
    /// Handle a message that is answered on the stream of a two-endpoint session.
    PostMessage { session: SessionKey },
    /// Open the GET stream, for messages that relate to no request.
    Get { session: SessionKey },
    /// Resume a stream after this event.
    Resume { session: SessionKey, after: Box<str> },
    /// Open a two-endpoint session.
    OpenStream,
    /// Send the metadata of the protected resource.
    Metadata,
    /// Permit a browser to request the metadata.
    MetadataPreflight,
    /// Permit a browser to send requests with these methods for a page.
    Preflight { methods: &'static str },
    /// End a session.
    Delete { session: SessionKey },
    /// Read the state of the session from the store, and plan again. `is_whole` if the request has arrived in full.
    LookUp { is_whole: bool },
}

impl Plan {
    /// The session of Streamable HTTP that the request names.
    pub(crate) const fn session(&self) -> Option<SessionKey> {
        match self {
            Self::Post { session } => *session,
            Self::Get { session } | Self::Resume { session, .. } | Self::Delete { session } => Some(*session),
            Self::PostMessage { .. }
            | Self::OpenStream
            | Self::Metadata
            | Self::MetadataPreflight
            | Self::Preflight { .. }
            | Self::LookUp { .. } => None,
        }
    }
}

/// What the response to a request of a session needs if it becomes a stream.
#[derive(Default)]
pub(crate) struct StreamOpening {
    /// The tag in the ids of its events.
    pub(crate) tag: u64,
    /// The ids of the requests in the body, if another instance may have to answer them.
    pub(crate) requests: Box<[RequestId]>,
}

/// How an exchange continues after the store has carried out its action.
pub(crate) enum Then {
    /// Sends the response.
    Respond(Response<Bytes>),
    /// Opens the GET stream of the session.
    OpenGetStream,
    /// Resumes a stream that may not exist.
    Resume,
}

/// A request that is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// `initialize`, which has opened this session.
    Opening(SessionKey),
    /// A request of this session.
    InSession(SessionKey),
    /// A request of 2026-07-28.
    Stateless,
    /// A request of 2026-07-28 about a task. `instance` has received it, and identifies it by `number`.
    Elsewhere { instance: InstanceId, number: u64 },
    /// A request of an older revision, at a server that opens no sessions (ER-43).
    Sessionless,
}

impl Asked {
    pub(crate) const fn session(self) -> Option<SessionKey> {
        match self {
            Self::Opening(session) | Self::InSession(session) => Some(session),
            Self::Stateless | Self::Elsewhere { .. } | Self::Sessionless => None,
        }
    }
}

/// The stream that a response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamOf {
    /// The GET stream of a session.
    Session(SessionKey),
    /// The stream of a request of a session, which arrived on this exchange.
    Request(SessionKey, ExchangeKey),
    /// The stream of a request without a session.
    Stateless,
}

impl StreamOf {
    pub(crate) const fn session(self) -> Option<SessionKey> {
        match self {
            Self::Session(session) | Self::Request(session, _) => Some(session),
            Self::Stateless => None,
        }
    }
}

impl Exchange {
    pub(crate) const fn session(&self) -> Option<SessionKey> {
        match self {
            Self::Receiving { .. } => None,
            Self::Waiting { asked, .. } | Self::Storing { asked, .. } => asked.session(),
            Self::Streaming(stream) => stream.session(),
        }
    }

    /// Whether a stateless request has not been answered.
    pub(crate) const fn is_stateless(&self) -> bool {
        match self {
            Self::Receiving { .. } => false,
            Self::Waiting { .. } | Self::Storing { .. } | Self::Streaming(_) => self.session().is_none(),
        }
    }
}
