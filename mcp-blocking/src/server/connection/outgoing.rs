//! The pieces of a streamed body, as bytes for the socket.

use std::sync::mpsc::TryRecvError;

use bytes::Bytes;

use super::super::http1::Delimited;
use super::super::response_channel::{CHUNK, Reply, Responses};

/// What is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// There are bytes to write.
    Bytes,
    /// The driver has sent nothing more.
    Nothing,
    /// The body is written in full.
    Complete,
    /// The body is cut off: the driver sends no more of it.
    CutOff,
}

/// Bytes that are being written, some [`CHUNK`] at a time. All pieces that are queued are written together: one by one, a burst
/// would arrive faster than it is written.
pub(super) struct Outgoing {
    delimited: Delimited,
    /// The rest of the piece that is being written.
    piece: Bytes,
    buffer: Vec<u8>,
    /// How much of the buffer was written.
    at: usize,
    /// How many bytes of the body are in the buffer.
    weight: usize,
    end: Option<Left>,
}

impl Outgoing {
    pub(super) const fn new(delimited: Delimited) -> Self {
        Self { delimited, piece: Bytes::new(), buffer: Vec::new(), at: 0, weight: 0, end: None }
    }

    /// Takes what the driver has sent, as far as there is room.
    pub(super) fn fill(&mut self, responses: &Responses) -> Left {
        while self.buffer.len() < CHUNK && (!self.piece.is_empty() || self.end.is_none()) {
            if self.piece.is_empty() {
                match responses.try_recv() {
                    Ok(Reply::Piece(piece)) => self.begin(piece),
                    Ok(Reply::End) => {
                        self.end = Some(Left::Complete);
                        self.frame("0\r\n\r\n");
                    }
                    Err(TryRecvError::Empty) => break,
                    Ok(Reply::Continue | Reply::Whole(_) | Reply::Stream(_)) | Err(TryRecvError::Disconnected) => {
                        self.end = Some(Left::CutOff);
                    }
                }
            } else {
                let part = self.piece.split_to(self.piece.len().min(CHUNK - self.buffer.len()));
                self.buffer.extend_from_slice(&part);
                self.weight += part.len();
                if self.piece.is_empty() {
                    self.frame("\r\n");
                }
            }
        }
        if self.buffer.is_empty() { self.end.unwrap_or(Left::Nothing) } else { Left::Bytes }
    }

    /// The bytes to write.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.at..).unwrap_or_default()
    }

    /// So many of them were written.
    pub(super) fn advance(&mut self, written: usize, responses: &Responses) {
        self.at += written;
        if self.at >= self.buffer.len() {
            responses.count(std::mem::take(&mut self.weight));
            self.buffer.clear();
            self.at = 0;
        }
    }

    /// Gives up the memory of the buffer, if it is empty.
    pub(super) fn shrink(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = Vec::new();
        }
    }

    /// An empty chunk would end the body.
    fn begin(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.frame(&format!("{:x}\r\n", piece.len()));
            self.piece = piece;
        }
    }

    fn frame(&mut self, text: &str) {
        if self.delimited == Delimited::Chunks {
            self.buffer.extend_from_slice(text.as_bytes());
        }
    }
}
