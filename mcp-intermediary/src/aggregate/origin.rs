//! Texts of servers that clients return: cursors, request states and ids of tasks. The client receives each with the name
//! of its server, so that no state is needed to pass it back.
//!
//! This is no protection: a client may use every server, and each server checks what it has issued. The checksum makes a
//! text that was damaged or invented an error of the client.

use mcp_proto::Json;

/// The text of a server with the prefix that identifies it.
pub(super) fn with_origin(prefix: &str, text: &str) -> String {
    format!("{:016x}.{prefix}.{text}", checksum(prefix, text))
}

/// The prefix of the server, and its text; `None` if [`with_origin`] has not returned this.
pub(super) fn origin_of(text: &str) -> Option<(&str, &str)> {
    let (sum, rest) = text.split_once('.')?;
    let (prefix, text) = rest.split_once('.')?;
    (sum == format!("{:016x}", checksum(prefix, text))).then_some((prefix, text))
}

/// Replaces a member that is a string by the same with its origin.
pub(super) fn add_origin(object: &Json, member: &str, prefix: &str) -> Json {
    let text = object.first_member(member);
    match text.as_ref().and_then(Json::as_string) {
        Some(text) => object.with_member(member, &with_origin(prefix, &text).into()),
        None => object.clone(),
    }
}

fn checksum(prefix: &str, text: &str) -> u64 {
    hash(prefix.bytes().chain([b'.']).chain(text.bytes()))
}

/// FNV-1a with 64 bits.
pub(super) fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_its_origin_unless_it_was_altered() {
        for (prefix, text) in [("files", "page 2"), ("a", ""), ("a", "x.y.z"), ("a-b", "\u{1f980}")] {
            let marked = with_origin(prefix, text);
            assert_eq!(origin_of(&marked), Some((prefix, text)));
            for altered in [marked.replacen('.', ".x", 1), format!("{marked}0"), format!("0{marked}")] {
                assert_eq!(origin_of(&altered), None, "{altered}");
            }
        }
        for other in ["", ".", "..", "page 2", "cbf29ce484222325..", "a.b.c"] {
            assert_eq!(origin_of(other), None, "{other}");
        }
    }
}
