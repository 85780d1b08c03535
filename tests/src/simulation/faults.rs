//! The faults that are injected, and which failures of a call each of them allows.

/// One kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Nothing listens at the address of the server.
    Unreachable,
    /// An intermediary responds with this HTTP status, and the server receives nothing.
    Status(u16),
    /// The connection breaks while the request is sent.
    BrokenRequest,
    /// The server reads the request, and the connection breaks before the response begins.
    LostHead,
    /// The connection breaks within the response.
    BrokenResponse,
    /// The response ends normally although it is incomplete.
    ShortResponse,
    /// No part of the response arrives.
    SilentResponse,
    /// The response has the id of another request.
    ForeignId,
    /// The response is not JSON.
    Garbage,
    /// Before the response, there is an event with a response to another request, or without valid JSON.
    StrayEvent,
    /// The response arrives twice.
    Duplicate,
    /// The server is replaced with another one.
    Restart,
    /// The server's process exits.
    Exit,
    /// The server's process exits when it is probed, and is started again.
    Respawn,
    /// The clock jumps.
    Leap,
    /// The reader of a stream pauses.
    SlowReader,
    /// The reader of a response pauses so long that the server aborts the response.
    Unread,
    /// Another principal sends ids of this client.
    Intruder,
}

impl Fault {
    /// The name of the fault in a report.
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

    /// The server is busy, and asks to wait.
    pub const BUSY: Self = Self::Status(429);

    /// The failures ([`mcp_proto::Failed::name`]) that a call may end with if this fault affected its exchange.
    pub const fn allows(self) -> &'static [&'static str] {
        match self {
            Self::Unreachable => &["unreachable", "broken"],
            Self::Status(404) => &["refused", "session_lost"],
            // If the resumption of a stream is refused, the stream has ended without a response.
            Self::Status(_) => &["refused", "stream_ended"],
            Self::BrokenRequest | Self::LostHead | Self::BrokenResponse | Self::Unread => &["broken"],
            Self::ShortResponse => &["stream_ended", "invalid_response", "no_answer"],
            Self::ForeignId | Self::Garbage => &["invalid_response"],
            Self::Restart => &["broken", "unreachable", "session_lost"],
            Self::Exit => &["closed"],
            // A connection without traffic during the jump counts as dead, and the events for replay have expired.
            Self::Leap => &["broken", "session_lost", "stream_ended"],
            // The call ends at its timeout, which is valid for every call without a response.
            Self::SilentResponse
            | Self::StrayEvent
            | Self::Duplicate
            | Self::Respawn
            | Self::SlowReader
            | Self::Intruder => &[],
        }
    }
}
