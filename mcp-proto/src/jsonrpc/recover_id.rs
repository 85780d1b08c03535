//! Recovers the id of a malformed frame.
//!
//! A malformed request must still be answered (P6), and a malformed response must fail its request at once instead of
//! by a timeout. So the text is searched, leniently, for the outermost members `id`, `method`, `result` and `error`. An
//! ambiguous id is not used: one that occurs twice, or in a text that is not an object.

use super::{RequestId, Subject};
use crate::limits::Limits;

pub(crate) fn recover_id(text: &[u8], limits: &Limits) -> Subject {
    let mut search = Search { text, at: 0, id: Found::Nothing, request: false, response: false };
    search.run();
    let Found::Once(id) = search.id else { return Subject::Unknown };
    if id.len() > limits.id {
        return Subject::Unknown;
    }
    let Some(id) = RequestId::from_json_text(id) else { return Subject::Unknown };
    match (search.request, search.response) {
        (true, false) => Subject::Request(id),
        // RP6: a response may repeat the method of its request.
        (_, true) => Subject::Response(id),
        (false, false) => Subject::Unknown,
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
                // Anything else at the place of a key: a following string may not be a key.
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

    /// The string that begins here, with its quotes; `None` if it is unterminated.
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
            // A number at the end of the text may be truncated.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rp4_the_id_and_the_kind_of_a_broken_frame_are_found_where_they_are_not_doubtful() {
        let request = || Subject::Request(RequestId::from(7));
        let response = || Subject::Response(RequestId::from(7));
        for (text, wanted) in [
            (r#"{"id":7,"method":"a",!"#, request()),
            (r#"{"method":"a","id":7,!"#, request()),
            (r#"{"id":7,"result":{}"#, response()),
            (r#"{"id":7,"error":{}"#, response()),
            ("  \n{ \"id\" \t:\r\n 7 , \"method\" : 1", request()),
            (r#"{"id" :"7","method":!"#, Subject::Request(RequestId::from("7"))),
            (r#"{"id": "7","method":!"#, Subject::Request(RequestId::from("7"))),
            // Nested members are not members of the frame.
            (r#"{"params":{"id":8,"method":1,"result":1},"id":7,"method":!"#, request()),
            (r#"{"params":["id",8,{"result":"x","error":{}}],"id":7,"method":!"#, request()),
            (r#"{"params":{"method":1},"id":7"#, Subject::Unknown),
            // A value is not a key, even with a colon after it.
            (r#"{"x":"method":1,"id":7,!"#, Subject::Unknown),
            (r#"{"x":1"result":1,"id":7,"method":!"#, request()),
            (r#"{!"result":1,"id":7,"method":!"#, request()),
            (r#"{"method","id":7,"#, Subject::Unknown),
            // Escapes do not end a string.
            (r#"{"a\"":1,"id":7,"method":!"#, request()),
            (r#"{"a\\":1,"id":7,"method":!"#, request()),
            (r#"{"abcdefg\",\"id\":8":"\\\"","id":7,"method":!"#, request()),
            (r#"{"id":"\"7","method":!"#, Subject::Request(RequestId::from("\"7"))),
            (r#"{"id":7,"method":1,"result":!"#, response()),
            // A duplicate or truncated id, neither request nor response, or not an id.
            (r#"{"id":7,"id":7,"method":!"#, Subject::Unknown),
            (r#"{"id":7,"id":8,"id":9,"method":!"#, Subject::Unknown),
            (r#"{"method":1,"id":7"#, Subject::Unknown),
            (r#"{"method":1,"id":"7"#, Subject::Unknown),
            (r#"{"method":1,"id":"7\"#, Subject::Unknown),
            (r#"{"id":7,"params":!"#, Subject::Unknown),
            (r#"{"id":7.5,"method":!"#, Subject::Unknown),
            (r#"{"id":{},"method":!"#, Subject::Unknown),
            (r#"{"id":null,"method":!"#, Subject::Unknown),
            // Not an object, or after its end.
            (r#"["id":7,"method":!"#, Subject::Unknown),
            (r#""id":7,"method":!"#, Subject::Unknown),
            (r#"{"method":1}{"id":7,"#, Subject::Unknown),
            (r#"{"method":1}],"id":7,"#, Subject::Unknown),
            ("", Subject::Unknown),
        ] {
            assert_eq!(recover_id(text.as_bytes(), &Limits::default()), wanted, "{text}");
        }
    }

    #[test]
    fn an_id_of_a_broken_frame_that_is_longer_than_the_limit_is_not_used() {
        let limits = Limits { id: 4, ..Limits::default() };
        for (id, is_used) in [(r#""ab""#, true), (r#""abc""#, false), ("1234", true), ("12345", false)] {
            let found = recover_id(format!(r#"{{"id":{id},"method":!"#).as_bytes(), &limits);
            assert_eq!(found != Subject::Unknown, is_used, "{id}");
        }
    }
}
