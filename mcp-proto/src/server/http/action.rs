//! What the driver of an HTTP server is asked to do.

use bytes::Bytes;
use http::Response;

use super::ExchangeKey;
use crate::outbox::Weight;

/// What the driver of an HTTP server is asked to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum HttpAction {
    /// Send this response. Nothing more comes for the exchange, and what is still coming of its request is dropped.
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
    /// Send a piece of the body, at once.
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
}

impl Weight for HttpAction {
    fn weight(&self) -> usize {
        match self {
            Self::Respond { response, .. } => 256 + response.body().len(),
            Self::Stream { .. } => 256,
            Self::Write { chunk, .. } => chunk.len(),
            Self::Finish { .. } => 0,
        }
    }
}
