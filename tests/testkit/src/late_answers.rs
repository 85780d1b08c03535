//! HTTP responses of servers that arrive after the timeout or never in full. Every driver with a client runs the table
//! over sockets.
//!
//! Each name begins with the rows of the catalogue that it belongs to.

use std::time::Duration;
use std::{io, thread};

use crate::bad_answers::{BadAnswer, ok};
use crate::loopback_server::Connection;
use crate::messages::event;

/// The client's timeout for [`LATE_ANSWERS`]: the value for its configuration, and the text of its error.
pub const PATIENCE: (Duration, &str) = (Duration::from_secs(1), "did not answer within 1s");

/// Sends one byte of `text` at a time, for longer than the timeout.
fn dribble(connection: &mut Connection, text: &str) -> io::Result<()> {
    connection.close();
    for byte in text.bytes().cycle().take(60) {
        connection.raw([byte])?;
        thread::sleep(PATIENCE.0 / 20);
    }
    Ok(())
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

/// Responses that arrive too late. Every call fails with the error of [`PATIENCE`].
pub const LATE_ANSWERS: &[BadAnswer] = &[
    BadAnswer {
        name: "RP13, HT14: an answer after the time was up",
        answer: |asked, connection| {
            thread::sleep(PATIENCE.0 * 2);
            connection.json(ok(asked))
        },
        fails: Some(PATIENCE.1),
    },
    BadAnswer {
        name: "RP13, HT14: an event after the time was up",
        answer: |asked, connection| {
            connection.begin_events()?;
            thread::sleep(PATIENCE.0 * 2);
            connection.chunk(event(&ok(asked)))?;
            connection.finish()
        },
        fails: Some(PATIENCE.1),
    },
    BadAnswer {
        name: "HT13: headers that dribble",
        answer: |_, connection| {
            connection.raw("HTTP/1.1 200 OK\r\n")?;
            dribble(connection, "x-y: z\r\n")
        },
        fails: Some(PATIENCE.1),
    },
    BadAnswer {
        name: "HT13: a body that dribbles",
        answer: |_, connection| {
            connection.raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n")?;
            dribble(connection, "{\"x\":")
        },
        fails: Some(PATIENCE.1),
    },
    BadAnswer {
        name: "HT13: comments that dribble",
        answer: |_, connection| {
            connection.raw(HEAD)?;
            dribble(connection, ":\n\n")
        },
        fails: Some(PATIENCE.1),
    },
    BadAnswer { name: "HT13: no response", answer: |_, connection| connection.hang(), fails: Some(PATIENCE.1) },
];
