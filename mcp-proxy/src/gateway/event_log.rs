//! The lines of the log for events of the machines.

use log::Level;
use mcp_intermediary::gateway::Event;
use mcp_intermediary::relay;

/// Returns the level and text of the log line for an event.
pub(super) fn log_line(event: &Event, server: &str) -> Option<(Level, String)> {
    Some(match event {
        Event::Backend { backend, event } => crate::log_line(event, &format!("process {backend} of {server}"))?,
        Event::NotStarted { reason, retry_in } => (
            Level::Warn,
            format!("{}; the next attempt may be made in {:.0} s", reason.describe(server), retry_in.as_secs_f64()),
        ),
        Event::Faulted(fault) => (Level::Info, format!("from a client of {server}: {fault}")),
        Event::Drained { cancelled: 0 } => return None,
        Event::Drained { cancelled } => {
            (Level::Warn, format!("requests to {server} were cancelled, because the gateway is stopped: {cancelled}"))
        }
        // It is a line with fields.
        Event::RequestEnded(_) | _ => return None,
    })
}

/// Logs an event of the machines. The log limits the lines that clients can cause in any number.
pub(super) fn log_event(level: Level, text: &str, is_caused_by_client: bool) {
    let target = if is_caused_by_client { "mcp_proxy::gateway::client_fault" } else { "mcp_proxy::gateway" };
    log::log!(target: target, level, "{text}");
}

/// Whether each message of a client can cause the event.
pub(super) const fn is_caused_by_client(event: &relay::Event) -> bool {
    use relay::Event as E;
    matches!(event, E::Faulted { .. } | E::Failed(_) | E::NotPassed { .. } | E::Postponed { .. })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_proto::Failed;

    use super::*;

    #[test]
    fn only_lines_that_each_message_of_a_client_can_cause_are_limited() {
        use mcp_proto::Fault;
        use mcp_proto::client::{CloseReason, Unavailable};
        let faulted = relay::Event::Faulted { side: relay::Side::Client, fault: Fault::DuplicateKey };
        let unavailable = relay::Event::Unavailable { reason: Unavailable::Failed(Failed::Closed), retry_in: None };
        for (event, is_limited) in [
            (faulted, true),
            (relay::Event::Failed(Failed::Closed), true),
            (relay::Event::SessionLost, false),
            (relay::Event::Closed(CloseReason::Peer), false),
            (unavailable, false),
        ] {
            assert_eq!(is_caused_by_client(&event), is_limited, "{event:?}");
        }
    }

    #[test]
    fn a_process_that_is_not_started_yet_is_logged_with_the_time_until_the_next_attempt() {
        let event = Event::NotStarted { reason: Failed::Closed, retry_in: Duration::from_secs(3) };
        let (level, text) = log_line(&event, "the server").unwrap();
        assert_eq!(level, Level::Warn);
        assert!(text.ends_with("; the next attempt may be made in 3 s"), "{text}");
    }
}
