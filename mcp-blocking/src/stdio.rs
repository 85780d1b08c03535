//! A pair of byte streams on two threads: one reads, one writes.
//!
//! Both send what happens to an inbox. `hand_in` converts it into the type of that inbox.
//!
//! | file | what it does |
//! |---|---|
//! | `writer` | the thread that writes, and its queue |
//! | `pipe` | writes to a pipe or a socket without blocking |

mod pipe;
mod writer;

use std::io::{self, Read};
use std::sync::Arc;

use writer::{STACK, is_passing};

pub(crate) use pipe::Pipe;
pub(crate) use writer::{CHUNK, Happened, MayBlock, Output, Writer};

use crate::backpressure::Backpressure;
use crate::inbox::Inbox;
use crate::sync::thread;

/// Reads until the end of the input, and waits whenever the backpressure is closed.
pub(crate) fn spawn_reader<I: Send + 'static>(
    mut input: impl Read + Send + 'static,
    inbox: Arc<dyn Inbox<I>>,
    backpressure: Arc<Backpressure>,
    hand_in: impl Fn(Happened) -> I + Send + 'static,
) -> io::Result<()> {
    thread::Builder::new().name("mcp-reader".to_owned()).stack_size(STACK).spawn(move || {
        let mut buffer = vec![0; CHUNK].into_boxed_slice();
        loop {
            backpressure.wait();
            let happened = match input.read(&mut buffer) {
                Ok(0) => Happened::InputEnded,
                Ok(length) => Happened::Read(buffer.get(..length).unwrap_or_default().to_vec()),
                Err(error) if is_passing(&error) => continue,
                Err(error) => {
                    log::warn!("reading the input failed: {error}");
                    Happened::InputEnded
                }
            };
            let is_last = matches!(happened, Happened::InputEnded);
            if !inbox.send(hand_in(happened)) || is_last {
                return;
            }
        }
    })?;
    Ok(())
}
