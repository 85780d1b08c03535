//! What the driver of an HTTP server is asked to do.

use std::fmt;

use bytes::Bytes;
use http::Response;

use super::ExchangeKey;
use crate::conversation::outbox::Weight;

/// What the driver of an HTTP server is asked to do.
#[non_exhaustive]
pub enum HttpAction {
    /// The head of a request is accepted: a client that expects `100 Continue` is sent that before its body is read
    /// (RFC 9110, section 10.1.1). Nothing is sent to a client that expects nothing ([`expects_continue`]).
    ///
    /// [`expects_continue`]: crate::server::expects_continue
    Continue {
        /// Which exchange.
        exchange: ExchangeKey,
    },
    /// Send this response. Nothing more comes for the exchange, and what is still coming of its request is dropped.
    /// Report the bytes of the body with [`Server::handle_written`](crate::Server::handle_written) as they are taken.
    Respond {
        /// Which exchange.
        exchange: ExchangeKey,
        /// The whole response.
        response: Response<Bytes>,
    },
    /// Send the head of a response whose body comes in pieces.
    Stream {
        /// Which exchange.
        exchange: ExchangeKey,
        /// The head.
        head: Response<()>,
    },
    /// Send a piece of the body, at once. Report its bytes with
    /// [`Server::handle_written`](crate::Server::handle_written) as they are taken.
    Write {
        /// Which exchange.
        exchange: ExchangeKey,
        /// The piece.
        chunk: Bytes,
    },
    /// The body ends here. Nothing more comes for the exchange.
    Finish {
        /// Which exchange.
        exchange: ExchangeKey,
    },
    /// The client does not take its response: drop what is unwritten of it at once, and close its connection. This may come
    /// after [`HttpAction::Respond`] or [`HttpAction::Finish`] of the exchange, as long as not all bytes were reported; if
    /// they have been written meanwhile, there is nothing to do. Nothing more comes for the exchange, and nothing more of
    /// it has to be reported.
    Abort {
        /// Which exchange.
        exchange: ExchangeKey,
    },
}

/// Shows no header and no byte of a body: among them are session ids.
impl fmt::Debug for HttpAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, exchange) = match self {
            Self::Continue { exchange } => ("Continue", exchange),
            Self::Respond { exchange, .. } => ("Respond", exchange),
            Self::Stream { exchange, .. } => ("Stream", exchange),
            Self::Write { exchange, .. } => ("Write", exchange),
            Self::Finish { exchange } => ("Finish", exchange),
            Self::Abort { exchange } => ("Abort", exchange),
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
            Self::Continue { .. } | Self::Finish { .. } | Self::Abort { .. } => {}
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
            Self::Continue { .. } | Self::Finish { .. } | Self::Abort { .. } => 0,
        }
    }
}
