//! What is done to the machines on purpose, and which ends of a call each of it allows.

/// One kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Nothing answers where the server should be.
    Unreachable,
    /// Something in between answers with an HTTP error, and the server gets nothing.
    Status(u16),
    /// The connection breaks while the request is sent.
    BrokenRequest,
    /// The server reads the request, and the connection breaks before the response begins.
    LostHead,
    /// The connection breaks within the response.
    BrokenResponse,
    /// The response ends in good order although there is more.
    ShortResponse,
    /// Nothing of the response arrives.
    SilentResponse,
    /// The answer has the id of another request.
    ForeignId,
    /// What should be the answer is no JSON.
    Garbage,
    /// An event before the answer that is a response to another request, or no JSON.
    StrayEvent,
    /// The answer comes twice.
    Duplicate,
    /// The server ends, and another one takes its place.
    Restart,
    /// The server's process exits.
    Exit,
    /// The server's process exits when it is probed, and is started anew.
    Respawn,
    /// The clock leaps.
    Leap,
    /// The reader of a stream pauses.
    SlowReader,
    /// The reader of a response pauses for so long that the server aborts it.
    Unread,
    /// Another principal presents ids of this client.
    Intruder,
}

impl Fault {
    /// Its name, for a report.
    pub fn name(self) -> String {
        match self {
            Self::Status(status) => format!("status {status}"),
            Self::Unreachable
            | Self::BrokenRequest
            | Self::LostHead
            | Self::BrokenResponse
            | Self::ShortResponse
            | Self::SilentResponse
            | Self::ForeignId
            | Self::Garbage
            | Self::StrayEvent
            | Self::Duplicate
            | Self::Restart
            | Self::Exit
            | Self::Respawn
            | Self::Leap
            | Self::SlowReader
            | Self::Unread
            | Self::Intruder => {
                let name = format!("{self:?}");
                let mut words = String::new();
                for letter in name.chars() {
                    if letter.is_uppercase() && !words.is_empty() {
                        words.push(' ');
                    }
                    words.extend(letter.to_lowercase());
                }
                words
            }
        }
    }

    /// The failures, by [`mcp_proto::Failed::name`], with which a call may end whose exchange it met.
    pub const fn allows(self) -> &'static [&'static str] {
        match self {
            Self::Unreachable => &["unreachable", "broken"],
            Self::Status(404) => &["refused", "session_lost"],
            // A stream that is not resumed for this reason has ended without its answer.
            Self::Status(_) => &["refused", "stream_ended"],
            Self::BrokenRequest | Self::LostHead | Self::BrokenResponse | Self::Unread => &["broken"],
            Self::ShortResponse => &["stream_ended", "invalid_response", "no_answer"],
            Self::ForeignId | Self::Garbage => &["invalid_response"],
            Self::Restart => &["broken", "unreachable", "session_lost"],
            Self::Exit => &["closed"],
            // A connection that was silent meanwhile counts as dead, and what was kept of a stream has expired.
            Self::Leap => &["broken", "session_lost", "stream_ended"],
            // Such a call ends at its timeout, which is right for every call that is not answered.
            Self::SilentResponse
            | Self::StrayEvent
            | Self::Duplicate
            | Self::Respawn
            | Self::SlowReader
            | Self::Intruder => &[],
        }
    }
}
