//! Actions for the driver of an HTTP server.

use std::fmt;

use bytes::Bytes;
use http::Response;

use crate::collections::outbox::Weight;
use crate::server::http::ExchangeKey;
use crate::store::StoreAction;

/// An action for the driver of an HTTP server.
#[non_exhaustive]
pub enum HttpAction {
    /// Send `100 Continue`, for one of two reasons. Before the body is read, it states that the head was accepted; this
    /// comes only for requests that expect it ([`expects_continue`]; RFC 9110, section 10.1.1). After
    /// [`Server::handle_half_close`](crate::Server::handle_half_close), it shows whether the client is gone. Clients of
    /// HTTP/1.0 are sent nothing.
    ///
    /// [`expects_continue`]: crate::server::expects_continue
    Continue {
        /// The exchange.
        exchange: ExchangeKey,
    },
    /// Send this response. No further action follows for the exchange, except [`HttpAction::Abort`]; the rest of its
    /// request is ignored. Report the bytes of the body with [`Server::handle_written`](crate::Server::handle_written)
    /// as they are written.
    Respond {
        /// The exchange.
        exchange: ExchangeKey,
        /// The whole response.
        response: Response<Bytes>,
    },
    /// Send the head of a response whose body follows in chunks.
    Stream {
        /// The exchange.
        exchange: ExchangeKey,
        /// The head.
        head: Response<()>,
    },
    /// Send a chunk of the body, without delay. Report its bytes with
    /// [`Server::handle_written`](crate::Server::handle_written) as they are written.
    Write {
        /// The exchange.
        exchange: ExchangeKey,
        /// The chunk.
        chunk: Bytes,
    },
    /// End the body. No further action follows for the exchange, except [`HttpAction::Abort`].
    Finish {
        /// The exchange.
        exchange: ExchangeKey,
    },
    /// Drop the unwritten bytes of the response at once and close the connection, because the client does not read.
    /// This may come after [`HttpAction::Respond`] or [`HttpAction::Finish`] of the exchange, as long as not all bytes
    /// were reported; if they have been written since, there is nothing to do. No further action follows for the
    /// exchange, and no further bytes of it have to be reported.
    Abort {
        /// The exchange.
        exchange: ExchangeKey,
    },
    /// Carry this out at the store that the instances of the server share. Only a server whose sessions are
    /// [`SessionMode::Stored`](super::super::SessionMode::Stored) has such actions.
    Store(StoreAction),
}

/// Shows neither headers nor bodies, because they contain session ids.
impl fmt::Debug for HttpAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, exchange) = match self {
            Self::Continue { exchange } => ("Continue", exchange),
            Self::Respond { exchange, .. } => ("Respond", exchange),
            Self::Stream { exchange, .. } => ("Stream", exchange),
            Self::Write { exchange, .. } => ("Write", exchange),
            Self::Finish { exchange } => ("Finish", exchange),
            Self::Abort { exchange } => ("Abort", exchange),
            Self::Store(action) => return f.debug_tuple("Store").field(action).finish(),
        };
        let mut shown = f.debug_struct(name);
        shown.field("exchange", exchange);
        match self {
            Self::Respond { response, .. } => {
                shown.field("status", &response.status()).field("bytes", &response.body().len());
            }
            Self::Stream { head, .. } => {
                shown.field("status", &head.status());
            }
            Self::Write { chunk, .. } => {
                shown.field("bytes", &chunk.len());
            }
            Self::Continue { .. } | Self::Finish { .. } | Self::Abort { .. } | Self::Store(_) => {}
        }
        shown.finish()
    }
}

impl Weight for HttpAction {
    fn weight(&self) -> usize {
        match self {
            Self::Respond { response, .. } => 256 + response.body().len(),
            Self::Stream { .. } => 256,
            Self::Write { chunk, .. } => chunk.len(),
            Self::Store(action) => 256 + action.payload(),
            Self::Continue { .. } | Self::Finish { .. } | Self::Abort { .. } => 0,
        }
    }
}
