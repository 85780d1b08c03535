//! A stream that is read from the store for a client.

use crate::conversation::keys::InstanceId;
use crate::server::http::exchange::ExchangeKey;
use crate::server::http::stream::label::Label;
use crate::store::{After, StreamId};

/// A stream that is read from the store for a client.
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub(crate) struct Reader {
    pub(crate) stream: StreamId,
    pub(crate) is_get_stream: bool,
    pub(crate) after: After,
    /// The store has not answered the last read.
    pub(crate) is_reading: bool,
    /// The stream must be read again after that.
    pub(crate) has_more: bool,
    /// The client has not taken what was written.
    pub(crate) is_behind: bool,
    /// If the next read finds no events, the store is asked whether the instance that adds events runs.
    pub(crate) is_polling: bool,
    pub(crate) label: Option<Label>,
    /// The open stream that this one is to replace: a client that resumes has lost the old connection, even if the server has
    /// not detected that.
    pub(crate) replaces: Option<ExchangeKey>,
    pub(crate) takes_over: TakesOver,
    pub(crate) start: Start,
}

/// From which instance a GET stream of a session may be taken over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakesOver {
    /// From any: a client that resumes has lost the connection.
    All,
    /// From this one, if it has ended.
    Ended(InstanceId),
    /// From none: it is a new stream.
    Nothing,
}

/// What is known of the first events of a stream that is read from its start.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    /// Nothing was read yet.
    Unread,
    /// The first read found nothing, so that the end of the stream is read next.
    Sought,
    /// Perhaps the events up to this one were removed before they were read.
    Lost(u64),
    Known,
}

impl Reader {
    /// The number of the last event that was written, if it is known.
    pub(crate) const fn sent(&self) -> Option<u64> {
        match self.after {
            After::Number(number) => Some(number),
            After::Latest => None,
        }
    }

    /// Skips the events up to this one, which were sent, perhaps by another instance. A client that resumes states its
    /// position itself.
    pub(crate) fn skip_sent(&mut self, sent: u64) {
        if let (After::Number(after), false) = (&mut self.after, self.takes_over == TakesOver::All) {
            *after = sent.max(*after);
        }
    }
}
