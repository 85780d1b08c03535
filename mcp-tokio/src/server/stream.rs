//! The task of a server on a byte stream.

use bytes::{Buf, BytesMut};
use mcp_proto::client::CloseReason;
use mcp_proto::server::{Event, Server};
use mcp_proto::{Output, Stdio, StdioAction};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::timeout;

use super::requests::{Commands, Requests};
use crate::clock::{Alarm, now};
use crate::lines::{FLUSH, Lines};

/// The number of bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// The maximum number of bytes that are read while the machine accepts none, so that the end of the stream is detected:
/// a pipe holds at most as much.
const AHEAD: usize = 1 << 20;

/// Serves one client until its stream has ended.
pub(super) async fn serve(
    mut machine: Server<Stdio>,
    mut requests: Requests,
    mut commands: Commands,
    mut read: impl AsyncRead + Unpin,
    write: impl AsyncWrite + Unpin,
) -> CloseReason {
    let (mut lines, mut alarm) = (Lines::new(write), Alarm::new());
    let mut buffer = BytesMut::with_capacity(CHUNK);
    let (mut is_readable, mut is_writable) = (true, true);
    let reason = loop {
        if let Some(reason) = settle(&mut machine, &mut requests, &mut lines, is_writable) {
            break reason;
        }
        requests.report_subscriptions(&mut machine);
        if !buffer.is_empty() && machine.wants_input() {
            let length = buffer.len().min(CHUNK);
            machine.handle_bytes(buffer.get(..length).unwrap_or_default(), now());
            buffer.advance(length);
            continue;
        }
        buffer.reserve(CHUNK);
        let due = machine.poll_timeout();
        tokio::select! {
            // Reading continues while lines are queued: the client may be blocked on its own output.
            length = read.read_buf(&mut buffer), if is_readable && buffer.len() < AHEAD => match length {
                Ok(0) | Err(_) => {
                    is_readable = false;
                    machine.handle_bytes(&buffer, now());
                    buffer.clear();
                    machine.handle_eof(now());
                }
                Ok(_) => {}
            },
            written = lines.write_some(), if is_writable && !lines.is_idle() => match written {
                Ok(bytes) => machine.handle_written(bytes, now()),
                Err(error) => {
                    tracing::debug!(%error, "the client has closed its input");
                    (is_readable, is_writable) = (false, false);
                    buffer.clear();
                    machine.handle_eof(now());
                }
            },
            // A handler that sends more than the client reads waits here.
            Some(command) = commands.commands.recv(), if lines.has_room() => requests.on_command(command, &mut machine, now()).report(),
            Some(last) = commands.last.recv() => requests.on_last(last, &mut machine, now()),
            () = alarm.wait(due) => machine.handle_timeout(now()),
        }
    };
    requests.report_end(&mut machine);
    // The last lines are written, unless the client does not read them in time.
    let _ = timeout(FLUSH, lines.finish()).await;
    reason
}

/// Carries out the machine's outputs; returns the reason once the connection has ended.
fn settle(
    machine: &mut Server<Stdio>,
    requests: &mut Requests,
    lines: &mut Lines<impl AsyncWrite + Unpin>,
    is_writable: bool,
) -> Option<CloseReason> {
    loop {
        match machine.poll_output()? {
            Output::Action(StdioAction::Write(line)) if is_writable => lines.push(line),
            Output::Action(_) => {}
            Output::Event(event) => {
                let closed = if let Event::Closed { reason, .. } = &event { Some(*reason) } else { None };
                requests.on_event(event, machine);
                if closed.is_some() {
                    return closed;
                }
            }
        }
    }
}
