//! Actions of the store whose results are awaited.

use crate::conversation::keys::SessionKey;
use crate::server::http::exchange::ExchangeKey;

/// If a session in the store could not be kept from expiring, the next attempt follows after this fraction of its
/// lifetime.
pub(crate) const TOUCHES: u32 = 16;

/// An action of the store whose result is awaited.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pending {
    /// The record of the session that a request names.
    LookUp(ExchangeKey),
    /// The record of a session that has been in use for long.
    Touch(SessionKey),
    Save(SessionKey),
    /// The record that another instance has written, to apply the changes to it.
    Reload(SessionKey),
    /// The record is removed, for this DELETE.
    Forget(SessionKey, ExchangeKey),
    /// The record of a session that has ended here is removed.
    End,
    /// The last events of a stream whose session has ended.
    LastAppend,
    /// Whether the instance with the GET stream runs; this exchange is to take the stream over.
    Holder(ExchangeKey),
    /// Events of the stream of a request.
    Append(SessionKey, ExchangeKey),
    /// A message of this many bytes for the GET stream.
    AppendMessage(SessionKey, usize),
    /// The errors that end the stream on this exchange, because no instance adds to it any more.
    AppendErrors(ExchangeKey),
    Read(ExchangeKey),
    /// Whether the instance that adds to the stream on this exchange runs.
    Producer(ExchangeKey),
    /// Whether the instance with the task of a request runs.
    TaskInstance(ExchangeKey),
    /// The response of the task's instance, which arrives as a message.
    TaskAnswer(ExchangeKey),
}
