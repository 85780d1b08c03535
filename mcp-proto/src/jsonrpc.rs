//! JSON-RPC messages as MCP uses them: requests, notifications, responses, and batches of them.
//!
//! | file | what it does |
//! |---|---|
//! | `id` | request ids, exact to the byte |
//! | `error` | the error member of a response |
//! | `parse` | frame to message: the envelope is parsed, payloads stay text |
//! | `recover_id` | the id of a malformed frame, so that it can be answered |
//! | `encode` | message to frame |

mod encode;
mod error;
mod id;
mod parse;
pub(crate) mod recover_id;

pub use error::ErrorObject;
pub use id::RequestId;
pub(crate) use parse::Oddities;
pub use parse::{Frame, ParseError, ParseErrorKind, Subject};

use crate::json::Json;
use crate::spec::Method;

/// One JSON-RPC 2.0 message.
///
/// # Example: parse and write again
///
/// ```
/// use bytes::Bytes;
/// use mcp_proto::{Frame, Limits, Message};
///
/// let line = Bytes::from(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"n":1.10}}"#);
/// let Frame::Single(message) = Frame::parse(&line, &Limits::default())? else { panic!() };
/// let Message::Request(request) = &message else { panic!() };
/// assert_eq!(request.method.as_str(), "tools/call");
/// assert_eq!(message.to_bytes(), line);
/// # Ok::<(), mcp_proto::ParseError>(())
/// ```
///
/// Rules: JR-01.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A request, which gets exactly one response.
    Request(Request),
    /// A notification, which gets no response.
    ///
    /// Rules: JR-11.
    Notification(Notification),
    /// The response to a request.
    Response(Response),
}

/// A request: a method, its parameters, and the id that its response will contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The id, chosen by the sender.
    ///
    /// Rules: JR-03.
    pub id: RequestId,
    /// The method to call.
    pub method: Method,
    /// The parameters, an object or array, if there are any. MCP uses only objects.
    ///
    /// Rules: JR-12.
    pub params: Option<Json>,
}

/// A notification: a method and its parameters, never answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The method of the notification.
    pub method: Method,
    /// The parameters, an object or array, if there are any. MCP uses only objects.
    ///
    /// Rules: JR-12.
    pub params: Option<Json>,
}

/// The response to a request: exactly one of result and error.
///
/// Rules: JR-08.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// The request succeeded.
    Result {
        /// The id of the request.
        ///
        /// Rules: JR-07.
        id: RequestId,
        /// The result: any JSON value, although all methods of MCP return objects.
        ///
        /// Rules: JR-13.
        result: Json,
    },
    /// The request failed, or could not be parsed.
    Error {
        /// The id of the request; `None` if it was `null` or absent.
        ///
        /// Rules: JR-09.
        id: Option<RequestId>,
        /// Why it failed.
        error: ErrorObject,
    },
}

impl Response {
    /// The response to the request with this id.
    #[must_use]
    pub fn new(id: RequestId, answer: Result<Json, ErrorObject>) -> Self {
        match answer {
            Ok(result) => Self::Result { id, result },
            Err(error) => Self::Error { id: Some(id), error },
        }
    }
}

impl Notification {
    /// A notification without parameters.
    #[must_use]
    pub fn new(method: impl Into<Method>) -> Self {
        Self { method: method.into(), params: None }
    }

    /// A notification with parameters.
    #[must_use]
    pub fn with_params(method: impl Into<Method>, params: Json) -> Self {
        Self { method: method.into(), params: Some(params) }
    }
}

impl Response {
    /// The id of the request that is answered, if the response contains one.
    #[must_use]
    pub const fn id(&self) -> Option<&RequestId> {
        match self {
            Self::Result { id, .. } => Some(id),
            Self::Error { id, .. } => id.as_ref(),
        }
    }
}

impl From<Request> for Message {
    fn from(request: Request) -> Self {
        Self::Request(request)
    }
}

impl From<Notification> for Message {
    fn from(notification: Notification) -> Self {
        Self::Notification(notification)
    }
}

impl From<Response> for Message {
    fn from(response: Response) -> Self {
        Self::Response(response)
    }
}
