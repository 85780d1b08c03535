//! A form of a text that is equal for texts with the same content.

use std::ops::Range;

use bytes::Bytes;

use super::Json;
use super::edit::end_of_string;
use super::string::{quote_into, unquote};

impl Json {
    /// This value without white space, with the members of all objects in the order of their names, and with no more
    /// escapes in strings than necessary. Numbers keep their digits: `1` and `1.0` differ.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::Json;
    ///
    /// let one = Json::parse(r#"{ "b": "\u0041", "a": [1.0] }"#)?;
    /// let other = Json::parse(r#"{"a":[1.0],"b":"A"}"#)?;
    /// assert_ne!(one, other);
    /// assert_eq!(one.to_canonical(), other);
    /// # Ok::<(), mcp_proto::JsonError>(())
    /// ```
    #[must_use]
    pub fn to_canonical(&self) -> Self {
        Self::from_valid_text(Bytes::from(canonical(self.as_bytes())))
    }
}

/// A member that was written: where it begins, and where its name ends.
struct Written {
    start: usize,
    name_end: usize,
}

/// The canonical form of validated text.
fn canonical(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    // For each container that is open, the number of members before it; `None` for an array.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut members: Vec<Written> = Vec::new();
    let mut name_is_next = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => {}
            b'"' => {
                let (start, end) = (out.len(), end_of_string(text, at - 1));
                write_string(&mut out, text.get(at - 1..end).unwrap_or_default());
                at = end;
                if std::mem::take(&mut name_is_next) {
                    members.push(Written { start, name_end: out.len() });
                }
            }
            b'{' | b'[' => {
                name_is_next = byte == b'{';
                open.push(name_is_next.then_some(members.len()));
                out.push(byte);
            }
            b'}' | b']' => {
                if let Some(Some(first)) = open.pop() {
                    sort_members(&mut out, members.get(first..).unwrap_or_default());
                    members.truncate(first);
                }
                name_is_next = false;
                out.push(byte);
            }
            b',' => {
                name_is_next = matches!(open.last(), Some(Some(_)));
                out.push(byte);
            }
            _ => out.push(byte),
        }
    }
    out
}

/// Writes a string. A string with an unpaired surrogate is not text, and is written as it is.
fn write_string(out: &mut Vec<u8>, quoted: &[u8]) {
    match unquote(quoted) {
        Some(value) => quote_into(out, &value),
        None => out.extend_from_slice(quoted),
    }
}

/// Sorts the members of the object at the end of `out` by their names; those with the same name keep their order.
fn sort_members(out: &mut Vec<u8>, members: &[Written]) {
    let Some(first) = members.first() else { return };
    let name = |member: &Written| out.get(member.start..member.name_end).unwrap_or_default();
    if members.is_sorted_by_key(name) {
        return;
    }
    let next_starts = members.iter().skip(1).map(|next| next.start - 1).chain([out.len()]);
    let mut spans: Vec<(&Written, Range<usize>)> =
        members.iter().zip(next_starts).map(|(member, end)| (member, member.start..end)).collect();
    spans.sort_by_key(|(member, _)| name(member));
    let mut sorted = Vec::with_capacity(out.len() - first.start);
    for (_, span) in spans {
        if !sorted.is_empty() {
            sorted.push(b',');
        }
        sorted.extend_from_slice(out.get(span).unwrap_or_default());
    }
    out.truncate(first.start);
    out.append(&mut sorted);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_white_space_and_escapes_make_no_difference_and_all_else_does() {
        for (text, canonical) in [
            ("{}", "{}"),
            (" [ ] ", "[]"),
            (
                r#"{ "b" : 1 , "a" : { "d" : [ 2 , { } ] , "c" : "\u00e9\/\n" } }"#,
                r#"{"a":{"c":"é/\n","d":[2,{}]},"b":1}"#,
            ),
            (r#"["b","a"]"#, r#"["b","a"]"#),
            (r#"[{"b":1,"a":2},{"a":"b","c":[]}]"#, r#"[{"a":2,"b":1},{"a":"b","c":[]}]"#),
            (r#"{"ab":1,"a":2,"\u0061a":3}"#, r#"{"a":2,"aa":3,"ab":1}"#),
            // The later of two members of one name stays the later one.
            (r#"{"b":1,"a":2,"a":1}"#, r#"{"a":2,"a":1,"b":1}"#),
            (r#"{"b":"","a":["","\"","\\",{}]}"#, r#"{"a":["","\"","\\",{}],"b":""}"#),
            (r#"{"b":"\ud800","a":1.0e1}"#, r#"{"a":1.0e1,"b":"\ud800"}"#),
            (
                r#"{"b":{"d":1,"c":2},"a":{"f":1,"e":{"h":1,"g":2}}}"#,
                r#"{"a":{"e":{"g":2,"h":1},"f":1},"b":{"c":2,"d":1}}"#,
            ),
        ] {
            let json = Json::parse(text).expect("JSON");
            assert_eq!(json.to_canonical().to_text(), canonical);
            assert_eq!(json.to_canonical().to_canonical().to_text(), canonical, "it is its own canonical form");
        }
    }
}
