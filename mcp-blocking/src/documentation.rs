//! Further pages of the documentation.

pub mod logging {
    //! What is logged.
    //!
    //! Events are logged with the crate `log`: failures of the operating system, panics of handlers, faults of clients and
    //! servers, lost sessions, and notifications that were dropped. This crate never logs payloads and header values, but a
    //! line may show a short text of the peer, such as the challenge of a server. The crate `ureq`, which it uses for HTTP,
    //! logs everything that is sent and received at the level `trace`; a filter for the target `mcp_blocking` leaves that
    //! out.
}

pub mod threads {
    //! The threads of this crate, and what bounds their memory.
    //!
    //! ```text
    //!   callers ──┐                       ┌──▶ worker: one exchange at a time, connections kept alive
    //!   workers ──┴─ bounded channel ─▶ driver ─▶ worker …           (Limits::exchanges)
    //! ```
    //!
    //! One driver thread runs a client's machine, so there is no lock around it. Workers are started on demand and reused.
    //! A body is read only while the machine has room for it; [`mcp_proto::Limits`] states how much the machine may hold.
    //!
    //! ```text
    //!   reader: stdin ──┐           ┌──▶ worker …
    //!   worker ─────────┼──▶ lock ──┼──▶ stdout, or its writer where that would wait
    //!   time ───────────┘           └──▶ time
    //! ```
    //!
    //! A proxy has a lock instead of a driver: the thread that has read something passes it to the machine, and carries out
    //! the resulting actions. Waking another thread would take longer than the machine does. Nothing that is done under the
    //! lock waits for a peer: a write to stdout stops where it would block, and if the lock is held, the input is queued
    //! for the thread that holds it.
    //!
    //! When a server on stdin and stdout is stopped, or its client no longer reads, the thread that reads stdin stays blocked
    //! until stdin ends, because a blocking read cannot be interrupted. The process can exit nevertheless.
}
