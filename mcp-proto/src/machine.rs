//! Traits over the machines, for drivers: one loop can run a client, a server, a relay, or a machine that another crate
//! composes of these.
//!
//! | trait | a machine that | implemented by |
//! |---|---|---|
//! | [`Machine`] | has outputs and deadlines | all machines |
//! | [`HandleBytes`] | reads and writes a byte stream | `Client<Stdio>`, `Server<Stdio>`, those of `mcp-intermediary` |
//! | [`HandleResponses`] | makes HTTP requests | `Client<Http>`, a relay over HTTP |
//! | [`HandleAuthorization`] | makes HTTP requests that may need authorization | `Client<Http>`, a relay over HTTP |
//! | [`HandleRequests`] | answers HTTP requests | `Server<Http>`, a gateway |
//!
//! A machine may implement several of them: a relay over HTTP reads the byte stream of its client and the responses of its
//! server. [`ServerStream`] and [`ClientStream`] name the streams of machines that have one or two. [`Received`] is
//! what a thread or task that performs an HTTP exchange sends to the one with the machine.
//!
//! For the author of a machine that is composed of others, such as the example `filtering_proxy`: [`Outbox`] is the
//! queue of its output, in which [`Weight`] measures actions and events against the limits, and [`Deadlines`] are its
//! timers.

mod ceilings;
mod received;

use http::{request, response};

pub use ceilings::{Ceilings, Intake};
pub use received::Received;

use crate::Instant;
use crate::auth::{Challenged, Credentials};
use crate::client::{self, Client, ClientTransport};
use crate::collections::outbox::Output;
use crate::error::{ProcessEnd, StartFailure, UsageError};
use crate::server::{self, Server};
use crate::store::{StoreKey, StoreResult};
use crate::transport::{Stdio, Transport};

pub use crate::collections::deadlines::Deadlines;
pub use crate::collections::outbox::{Outbox, Weight};

/// A machine: it has outputs for its driver, and a time at which it must be called next.
///
/// # Example: one loop for both ends of a byte stream
///
/// ```
/// use mcp_proto::client::{self, Client};
/// use mcp_proto::machine::{ClientStream, HandleBytes, Machine, ServerStream};
/// use mcp_proto::server::{self, Server};
/// use mcp_proto::{Instant, Output, Stdio, StdioAction};
///
/// /// Passes in the bytes that have arrived, and adds what the machine writes to `written`. Returns its events.
/// fn turn<S, M>(machine: &mut M, stream: S, arrived: &mut Vec<u8>, written: &mut Vec<u8>, now: Instant) -> Vec<M::Event>
/// where
///     S: Copy,
///     M: HandleBytes<S> + Machine<Action = StdioAction>,
/// {
///     if machine.wants_bytes(stream) {
///         machine.handle_bytes(stream, &std::mem::take(arrived), now);
///     }
///     if machine.poll_timeout().is_some_and(|due| due <= now) {
///         machine.handle_timeout(now);
///     }
///     let mut events = Vec::new();
///     while let Some(output) = machine.poll_output() {
///         match output {
///             Output::Action(StdioAction::Write(bytes)) => {
///                 written.extend_from_slice(&bytes);
///                 machine.handle_written(stream, bytes.len(), now);
///             }
///             Output::Action(_) => {}
///             Output::Event(event) => events.push(event),
///         }
///     }
///     events
/// }
///
/// let now = Instant::START;
/// let mut client = Client::new(Stdio::new(), client::Config::new("my-app", "1.0.0"))?;
/// let mut server = Server::new(Stdio::new(), server::Config::new("my-tools", "1.0.0"))?;
/// let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
/// client.connect(now)?;
/// let (mut of_client, mut of_server) = (Vec::new(), Vec::new());
/// for _ in 0..3 {
///     of_client.extend(turn(&mut client, ServerStream, &mut to_client, &mut to_server, now));
///     of_server.extend(turn(&mut server, ClientStream, &mut to_server, &mut to_client, now));
/// }
/// assert!(matches!(of_client.as_slice(), [client::Event::Connected { .. }]));
/// assert!(of_server.is_empty(), "the server answers `server/discover` by itself");
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
pub trait Machine {
    /// What the driver has to carry out.
    type Action;
    /// What the machine reports to the application.
    type Event;

    /// The next action or event. The driver takes all outputs after each input and command.
    #[must_use = "an output that is dropped is lost"]
    fn poll_output(&mut self) -> Option<Output<Self::Action, Self::Event>>;

    /// The next event. The actions before it are passed to `act`, which carries them out.
    #[must_use = "an event that is dropped is lost"]
    fn next_event(&mut self, mut act: impl FnMut(Self::Action)) -> Option<Self::Event>
    where
        Self: Sized,
    {
        loop {
            match self.poll_output()? {
                Output::Action(action) => act(action),
                Output::Event(event) => return Some(event),
            }
        }
    }

    /// When [`Machine::handle_timeout`] must be called next; `None` if no timer is set.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant>;

    /// Handles all timers that are due. Calling this early or twice has no effect.
    ///
    /// Rules: CL2.
    fn handle_timeout(&mut self, now: Instant);

    /// Ends the connection, or all connections.
    fn close(&mut self, now: Instant);
}

/// A machine that reads and writes a byte stream, which a value of `S` identifies: [`ServerStream`], [`ClientStream`],
/// or the key of one of several streams.
///
/// The machine returns what must be written as [`StdioAction`](crate::StdioAction)s.
pub trait HandleBytes<S> {
    /// Bytes have arrived on the stream, in pieces of any size.
    fn handle_bytes(&mut self, stream: S, bytes: &[u8], now: Instant);

    /// The stream has accepted this many more of the bytes to write. Those of a process that was replaced
    /// ([`StdioAction::Respawn`](crate::StdioAction::Respawn)) must not be reported.
    fn handle_written(&mut self, stream: S, bytes: usize, now: Instant);

    /// The incoming stream has ended.
    fn handle_eof(&mut self, stream: S, now: Instant);

    /// The process at the other end of the stream has ended, and what it had written was passed in.
    fn handle_process_end(&mut self, stream: S, _end: ProcessEnd, now: Instant) {
        self.handle_eof(stream, now);
    }

    /// The process at the other end of the stream could not be started.
    fn handle_not_started(&mut self, stream: S, _failure: StartFailure, now: Instant) {
        self.handle_eof(stream, now);
    }

    /// Whether the driver should read more of the stream. `false` while a queue of the machine is full.
    ///
    /// Rules: H5.
    #[must_use]
    fn wants_bytes(&self, stream: S) -> bool;
}

/// Identifies the byte stream to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerStream;

/// Identifies the byte stream to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientStream;

/// A machine that makes HTTP requests, which it returns as [`client::HttpAction`]s.
pub trait HandleResponses {
    /// The request of an exchange was written in full. This call is optional: it allows the machine to send a
    /// cancellation before the response begins.
    fn handle_sent(&mut self, exchange: client::ExchangeKey, now: Instant);

    /// The head of the response of an exchange has arrived. Interim responses (1xx) must not be passed in.
    fn handle_response(&mut self, exchange: client::ExchangeKey, head: &response::Parts, now: Instant);

    /// A part of the body of an exchange has arrived, without the chunked transfer coding.
    fn handle_body(&mut self, exchange: client::ExchangeKey, chunk: &[u8], now: Instant);

    /// The body of an exchange is complete.
    fn handle_end(&mut self, exchange: client::ExchangeKey, now: Instant);

    /// An exchange has failed: it could not be started, or it broke off.
    fn handle_failure(&mut self, exchange: client::ExchangeKey, failure: client::Failure, now: Instant);

    /// Sends every request from now on with the headers of this configuration, as
    /// [`Client::set_headers`](client::Client::set_headers) does.
    ///
    /// # Errors
    ///
    /// [`UsageError::AuthorizationHeader`] if only one of the two configurations has an `Authorization` header.
    fn set_headers(&mut self, from: &client::HttpConfig) -> Result<(), UsageError>;

    /// Whether the driver should read more of the responses. `false` while a queue of the machine is full.
    ///
    /// Rules: H5.
    #[must_use]
    fn wants_body(&self) -> bool;

    /// Something was received in an exchange: calls the method for it.
    fn handle_received<B: AsRef<[u8]>>(&mut self, exchange: client::ExchangeKey, received: Received<B>, now: Instant)
    where
        Self: Sized,
    {
        match received {
            Received::Sent => self.handle_sent(exchange, now),
            Received::Head(head) => self.handle_response(exchange, &head, now),
            Received::Body(part) => self.handle_body(exchange, part.as_ref(), now),
            Received::End => self.handle_end(exchange, now),
            Received::Failed(failure) => self.handle_failure(exchange, failure, now),
        }
    }
}

/// A machine whose messages can wait until the server accepts its credentials
/// ([`HttpConfig::managed_authorization`](client::HttpConfig::managed_authorization)).
pub trait HandleAuthorization: Machine {
    /// The demand of the server that an event reports; `None` if it is another event.
    #[must_use]
    fn challenged(event: &Self::Event) -> Option<&Challenged>;

    /// Sends requests with these credentials from now on, and sends everything again that waits for authorization.
    fn authorize(&mut self, credentials: Credentials, now: Instant);

    /// There will be no authorization: everything that waits for it fails for this reason, which a person reads.
    fn refuse_authorization(&mut self, reason: &str, now: Instant);

    /// A person signs in at this URL; `None` if no person signs in any more. A machine needs the URL if its own client
    /// can be asked to open it, or reads it in errors.
    ///
    /// Rules: OA-G-07.
    fn set_sign_in_url(&mut self, _url: Option<&str>) {}
}

/// A machine that answers HTTP requests, with [`server::HttpAction`]s.
pub trait HandleRequests {
    /// The head of a request has arrived. All later calls and actions for the request carry the returned key.
    fn handle_request(&mut self, head: request::Parts, info: server::RequestInfo, now: Instant) -> server::ExchangeKey;

    /// A part of the body of a request has arrived.
    fn handle_body(&mut self, exchange: server::ExchangeKey, chunk: &[u8], now: Instant);

    /// The body of a request is complete.
    fn handle_end(&mut self, exchange: server::ExchangeKey, now: Instant);

    /// This many more bytes of the body of a response were written.
    fn handle_written(&mut self, exchange: server::ExchangeKey, bytes: usize, now: Instant);

    /// The client has disconnected from an exchange.
    fn handle_disconnect(&mut self, exchange: server::ExchangeKey, now: Instant);

    /// The client has ended its sending side after a whole request, and may still read the response.
    fn handle_half_close(&mut self, exchange: server::ExchangeKey, now: Instant);

    /// The store has answered an action ([`HttpAction::Store`](server::HttpAction::Store)). A machine without a store
    /// ignores it.
    fn handle_stored(&mut self, key: StoreKey, result: StoreResult, now: Instant) {
        let _ = (key, result, now);
    }

    /// A message of another instance has arrived over the store. A machine without a store ignores it.
    fn handle_message(&mut self, message: &[u8], now: Instant) {
        let _ = (message, now);
    }

    /// Whether the driver should read more requests. `false` while a queue of the machine is full.
    ///
    /// Rules: H5.
    #[must_use]
    fn wants_request(&self) -> bool;
}

/// Implements [`Machine`] by the methods of the same names, also for the machines of `mcp-intermediary`.
#[doc(hidden)]
#[macro_export]
macro_rules! impl_machine {
    ([$($generics:tt)*] $machine:ty, $action:ty, $event:ty) => {
        impl<$($generics)*> $crate::machine::Machine for $machine {
            type Action = $action;
            type Event = $event;

            fn poll_output(&mut self) -> Option<$crate::Output<Self::Action, Self::Event>> {
                <$machine>::poll_output(self)
            }

            fn poll_timeout(&self) -> Option<$crate::Instant> {
                <$machine>::poll_timeout(self)
            }

            fn handle_timeout(&mut self, now: $crate::Instant) {
                <$machine>::handle_timeout(self, now);
            }

            fn close(&mut self, now: $crate::Instant) {
                <$machine>::close(self, now);
            }
        }
    };
}

impl_machine!([T: ClientTransport] Client<T>, T::Action, client::Event);
impl_machine!([] Server<Stdio>, <Stdio as Transport>::Action, server::Event);
impl_machine!([] Server<server::Http>, <server::Http as Transport>::Action, server::Event);

/// Implements [`HandleBytes`] by these methods, also for the machines of `mcp-intermediary`.
#[doc(hidden)]
#[macro_export]
macro_rules! impl_handle_bytes {
    (
        [$($generics:tt)*] $machine:ty, $stream:ty: $bytes:ident, $written:ident, $eof:ident, $wants:ident
        $(; $process_end:ident, $not_started:ident)?
    ) => {
        impl<$($generics)*> $crate::machine::HandleBytes<$stream> for $machine {
            fn handle_bytes(&mut self, _: $stream, bytes: &[u8], now: $crate::Instant) {
                <$machine>::$bytes(self, bytes, now);
            }

            fn handle_written(&mut self, _: $stream, bytes: usize, now: $crate::Instant) {
                <$machine>::$written(self, bytes, now);
            }

            fn handle_eof(&mut self, _: $stream, now: $crate::Instant) {
                <$machine>::$eof(self, now);
            }

            fn wants_bytes(&self, _: $stream) -> bool {
                <$machine>::$wants(self)
            }
            $(
                fn handle_process_end(&mut self, _: $stream, end: $crate::ProcessEnd, now: $crate::Instant) {
                    <$machine>::$process_end(self, end, now);
                }

                fn handle_not_started(&mut self, _: $stream, failure: $crate::StartFailure, now: $crate::Instant) {
                    <$machine>::$not_started(self, failure, now);
                }
            )?
        }
    };
}

impl_handle_bytes!(
    [] Client<Stdio>, ServerStream: handle_bytes, handle_written, handle_eof, wants_input;
    handle_process_end, handle_not_started
);
impl_handle_bytes!([] Server<Stdio>, ClientStream: handle_bytes, handle_written, handle_eof, wants_input);

impl HandleResponses for Client<client::Http> {
    fn handle_sent(&mut self, exchange: client::ExchangeKey, now: Instant) {
        Self::handle_sent(self, exchange, now);
    }

    fn handle_response(&mut self, exchange: client::ExchangeKey, head: &response::Parts, now: Instant) {
        Self::handle_response(self, exchange, head, now);
    }

    fn handle_body(&mut self, exchange: client::ExchangeKey, chunk: &[u8], now: Instant) {
        Self::handle_body(self, exchange, chunk, now);
    }

    fn handle_end(&mut self, exchange: client::ExchangeKey, now: Instant) {
        Self::handle_end(self, exchange, now);
    }

    fn handle_failure(&mut self, exchange: client::ExchangeKey, failure: client::Failure, now: Instant) {
        Self::handle_failure(self, exchange, failure, now);
    }

    fn set_headers(&mut self, from: &client::HttpConfig) -> Result<(), UsageError> {
        Self::set_headers(self, from)
    }

    fn wants_body(&self) -> bool {
        Self::wants_input(self)
    }
}

impl HandleAuthorization for Client<client::Http> {
    fn challenged(event: &Self::Event) -> Option<&Challenged> {
        if let client::Event::Challenged(challenged) = event { Some(challenged) } else { None }
    }

    fn authorize(&mut self, credentials: Credentials, now: Instant) {
        Self::authorize(self, credentials, now);
    }

    fn refuse_authorization(&mut self, reason: &str, now: Instant) {
        Self::refuse_authorization(self, reason, now);
    }
}

impl HandleRequests for Server<server::Http> {
    fn handle_request(&mut self, head: request::Parts, info: server::RequestInfo, now: Instant) -> server::ExchangeKey {
        Self::handle_request(self, head, info, now)
    }

    fn handle_body(&mut self, exchange: server::ExchangeKey, chunk: &[u8], now: Instant) {
        Self::handle_body(self, exchange, chunk, now);
    }

    fn handle_end(&mut self, exchange: server::ExchangeKey, now: Instant) {
        Self::handle_end(self, exchange, now);
    }

    fn handle_written(&mut self, exchange: server::ExchangeKey, bytes: usize, now: Instant) {
        Self::handle_written(self, exchange, bytes, now);
    }

    fn handle_disconnect(&mut self, exchange: server::ExchangeKey, now: Instant) {
        Self::handle_disconnect(self, exchange, now);
    }

    fn handle_half_close(&mut self, exchange: server::ExchangeKey, now: Instant) {
        Self::handle_half_close(self, exchange, now);
    }

    fn handle_stored(&mut self, key: StoreKey, result: StoreResult, now: Instant) {
        Self::handle_stored(self, key, result, now);
    }

    fn handle_message(&mut self, message: &[u8], now: Instant) {
        Self::handle_message(self, message, now);
    }

    fn wants_request(&self) -> bool {
        self.wants_input()
    }
}
