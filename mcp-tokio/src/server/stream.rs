//! The task of a server on a byte stream.

use std::io;
use std::time::Duration;

use mcp_proto::Stdio;
use mcp_proto::client::CloseReason;
use mcp_proto::machine::{ClientStream, Machine};
use mcp_proto::server::{Event, Server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;

use super::requests::{Commands, Requests};
use crate::byte_stream::{ByteStream, FromStream};
use crate::clock::{Alarm, now};
use crate::link::{Feed, Link};
use crate::stdio::Written;

/// How long the client may take to read the last messages.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves one client until its stream has ended. `written` reports what has left the process, if `client` is stdio.
pub(super) async fn serve(
    mut machine: Server<Stdio>,
    mut requests: Requests,
    mut commands: Commands,
    mut client: ByteStream<
        ClientStream,
        impl AsyncRead + Send + Unpin + 'static,
        impl AsyncWrite + Send + Unpin + 'static,
    >,
    written: Option<Written>,
) -> io::Result<CloseReason> {
    let mut alarm = Alarm::new();
    let reason = loop {
        if let Some(reason) = settle(&mut machine, &mut requests, &mut client) {
            break reason;
        }
        requests.report_subscriptions(&mut machine);
        let (due, wants_input, has_room) = (machine.poll_timeout(), client.wants_input(&machine), client.has_room());
        tokio::select! {
            received = client.receive(wants_input) => {
                let is_closed = matches!(received, FromStream::Closed);
                client.feed(&mut machine, received);
                if is_closed {
                    // A client that no longer reads sends nothing that could be answered.
                    client.feed(&mut machine, FromStream::Ended);
                }
            }
            // A handler that sends more than the client reads waits here.
            Some(command) = commands.commands.recv(), if has_room => {
                requests.on_command(command, &mut machine, now()).report();
            }
            Some(command) = commands.final_commands.recv() => requests.on_final_command(command, &mut machine, now()),
            () = alarm.wait(due) => machine.handle_timeout(now()),
        }
    };
    requests.report_end(&mut machine);
    // No command is carried out any more, and publishers must not wait for a client that does not read.
    drop(commands);
    client.flush(written, sleep(FLUSH_TIMEOUT)).await?;
    Ok(reason)
}

/// Carries out the machine's outputs; returns the reason once the connection has ended.
fn settle(
    machine: &mut Server<Stdio>,
    requests: &mut Requests,
    client: &mut impl Link<Action = mcp_proto::StdioAction>,
) -> Option<CloseReason> {
    loop {
        let event = machine.next_event(|action| client.act(action))?;
        let closed = if let Event::Closed { reason, .. } = &event { Some(*reason) } else { None };
        requests.on_event(event, machine);
        if closed.is_some() {
            return closed;
        }
    }
}
