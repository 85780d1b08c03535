//! The id of a frame that is no message.
//!
//! A request whose text is broken still deserves an answer (P6), and a broken response must fail the request that it
//! answers at once instead of leaving it to a timer. So the broken text is searched, leniently, for the outermost
//! members `id`, `method`, `result` and `error`. What is doubtful is not used: an id that stands there twice, or in a
//! text that is no object, is no id.

use super::{RequestId, Subject};
use crate::limits::Limits;

pub(crate) fn salvage(text: &[u8], limits: &Limits) -> Subject {
    let mut search = Search { text, at: 0, id: Found::Nothing, request: false, response: false };
    search.run();
    let Found::Once(id) = search.id else { return Subject::Unknown };
    if id.len() > limits.id {
        return Subject::Unknown;
    }
    let Some(id) = RequestId::from_json_text(id) else { return Subject::Unknown };
    match (search.request, search.response) {
        (true, false) => Subject::Request(id),
        (false, true) => Subject::Response(id),
        (true, true) | (false, false) => Subject::Unknown,
    }
}

enum Found<'t> {
    Nothing,
    Once(&'t [u8]),
    Twice,
}

struct Search<'t> {
    text: &'t [u8],
    at: usize,
    id: Found<'t>,
    request: bool,
    response: bool,
}

impl<'t> Search<'t> {
    fn run(&mut self) {
        self.skip_white_space();
        if self.peek() != Some(b'{') {
            return;
        }
        self.at += 1;
        let mut depth = 1_usize;
        let mut key_is_next = true;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    let Some(string) = self.string() else { return };
                    if key_is_next && depth == 1 {
                        key_is_next = false;
                        self.member(string);
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                b',' if depth == 1 => key_is_next = true,
                b' ' | b'\t' | b'\r' | b'\n' => {}
                // Anything else where a key should stand: what follows is not trusted to be one.
                _ => key_is_next = false,
            }
            self.at += 1;
        }
    }

    fn member(&mut self, key: &[u8]) {
        self.skip_white_space();
        if self.peek() != Some(b':') {
            return;
        }
        self.at += 1;
        match key {
            b"\"method\"" => self.request = true,
            b"\"result\"" | b"\"error\"" => self.response = true,
            b"\"id\"" => {
                self.skip_white_space();
                let scalar = if self.peek() == Some(b'"') { self.string() } else { Some(self.bare_word()) };
                self.id = match (&self.id, scalar) {
                    (Found::Nothing, Some(text)) => Found::Once(text),
                    (Found::Nothing, None) => Found::Nothing,
                    (Found::Once(_) | Found::Twice, _) => Found::Twice,
                };
            }
            _ => {}
        }
    }

    /// The string that begins here, with its quotes; `None` if it never ends.
    fn string(&mut self) -> Option<&'t [u8]> {
        let start = self.at;
        let mut at = start + 1;
        loop {
            at += memchr::memchr2(b'"', b'\\', self.text.get(at..)?)?;
            if self.text.get(at) == Some(&b'"') {
                self.at = at + 1;
                return self.text.get(start..self.at);
            }
            at += 2;
        }
    }

    fn bare_word(&mut self) -> &'t [u8] {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest
            .iter()
            .position(|byte| matches!(byte, b',' | b'}' | b']' | b'{' | b'[' | b'"' | b' ' | b'\t' | b'\r' | b'\n'))
            // A number that the text ends in may have lost digits.
            .unwrap_or(0);
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    fn skip_white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}
