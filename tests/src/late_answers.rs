//! What servers answer over HTTP when it is too late, or never whole. Every adapter with a client runs the table over
//! sockets.
//!
//! A name begins with the rows of the catalogue that it belongs to.

use std::io;
use std::thread;
use std::time::Duration;

use crate::bad_answers::{BadAnswer, ok};
use crate::loopback::Connection;
use crate::world::event;

/// How long a client waits for the answers of [`LATE_ANSWERS`], as its configuration and as its errors say it.
pub const PATIENCE: (Duration, &str) = (Duration::from_secs(1), "did not answer within 1s");

/// Sends a byte of this every now and then, for longer than anybody waits.
fn dribble(connection: &mut Connection, text: &str) -> io::Result<()> {
    connection.close();
    for byte in text.bytes().cycle().take(60) {
        connection.raw([byte])?;
        thread::sleep(PATIENCE.0 / 20);
    }
    Ok(())
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

/// Answers that come too late, all of which fail with what [`PATIENCE`] says.
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
    BadAnswer { name: "HT13: silence", answer: |_, connection| connection.hang(), fails: Some(PATIENCE.1) },
];
