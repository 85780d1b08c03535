//! Reading and replacing single members of an object, and finding duplicate keys.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

use bytes::Bytes;

use super::Json;
use super::scan::{DEEPEST, Kind, Scanner};
use super::string::{quote_into, unquote};

/// The most names and indices of a path.
const PATH_DEPTH: usize = 8;

/// An object has two members with the same name, which different parsers interpret differently.
///
/// Rules: P2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an object has two members of one name")]
pub struct DuplicateKey;

impl Json {
    /// The value of the member `name` of this object; `None` if it has none or is not an object.
    ///
    /// Names are compared byte for byte after unescaping: `Name` is not `name`.
    ///
    /// # Errors
    ///
    /// [`DuplicateKey`] if there are two such members.
    ///
    /// # Example: reading one member and leaving the rest as text
    ///
    /// ```
    /// use mcp_proto::Json;
    ///
    /// let params = Json::parse(r#"{"name":"echo","arguments":{"n":1.0}}"#)?;
    /// assert_eq!(params.member("arguments")?.unwrap().as_bytes(), br#"{"n":1.0}"#);
    /// assert_eq!(params.member("cursor")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Rules: JS6.
    pub fn member(&self, name: &str) -> Result<Option<Self>, DuplicateKey> {
        let mut found = None;
        for member in members(&self.0) {
            if member.is_named(&self.0, name) {
                if found.is_some() {
                    return Err(DuplicateKey);
                }
                found = Some(member.value);
            }
        }
        Ok(found.map(|span| Self(self.0.slice(span))))
    }

    /// Finds out whether all members of each object, at any depth, have names of their own.
    ///
    /// # Errors
    ///
    /// [`DuplicateKey`] if an object has two members of one name.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::Json;
    ///
    /// assert!(Json::parse(r#"{"a":{"b":1},"b":2}"#)?.check_unique_keys().is_ok());
    /// assert!(Json::parse(r#"{"a":{"b":1,"\u0062":2}}"#)?.check_unique_keys().is_err());
    /// # Ok::<(), mcp_proto::JsonError>(())
    /// ```
    pub fn check_unique_keys(&self) -> Result<(), DuplicateKey> {
        check_unique_keys(self.as_bytes())
    }

    /// The value of the first member with this name, for objects whose names were checked to be unique; `None` if there
    /// is none, or if this is not an object.
    pub fn first_member(&self, name: &str) -> Option<Self> {
        members(&self.0).find(|member| member.is_named(&self.0, name)).map(|member| Self(self.0.slice(member.value)))
    }

    /// The values of the first members with these names, in the order of `names`, found in one pass.
    pub fn first_members<const N: usize>(&self, names: [&str; N]) -> [Option<Self>; N] {
        let mut found = [const { None }; N];
        for member in members(&self.0) {
            let Some(name) = member.key.name(&self.0) else { continue };
            for (slot, wanted) in found.iter_mut().zip(names) {
                if slot.is_none() && name.as_ref() == wanted.as_bytes() {
                    *slot = Some(Self(self.0.slice(member.value.clone())));
                }
            }
        }
        found
    }

    /// This object with the member `name` set to `value`; every other byte stays as it is.
    ///
    /// A text that is not an object is returned unchanged.
    #[must_use]
    pub fn with_member(&self, name: &str, value: &Self) -> Self {
        self.with_members(&[(name, value)])
    }

    /// As [`Json::with_member`] for several members, in one pass. New members are inserted at the beginning, in the
    /// given order.
    #[must_use]
    pub fn with_members(&self, set: &[(&str, &Self)]) -> Self {
        let text = &self.0;
        let Some(inside) = text.strip_prefix(b"{") else { return self.clone() };
        let mut missing = set.to_vec();
        let mut replaced = Vec::new();
        let mut is_empty = true;
        for member in members(text) {
            is_empty = false;
            if let Some(at) = missing.iter().position(|(name, _)| member.is_named(text, name)) {
                let (_, value) = missing.remove(at);
                replaced.push((member.value, value));
            }
        }
        let added: usize = set.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut edited = Vec::with_capacity(text.len() + added);
        edited.push(b'{');
        for (at, (name, value)) in missing.iter().enumerate() {
            quote_into(&mut edited, name);
            edited.push(b':');
            edited.extend_from_slice(&value.0);
            if !is_empty || at + 1 < missing.len() {
                edited.push(b',');
            }
        }
        let mut copied = text.len() - inside.len();
        for (span, value) in replaced {
            edited.extend_from_slice(text.get(copied..span.start).unwrap_or_default());
            edited.extend_from_slice(&value.0);
            copied = span.end;
        }
        edited.extend_from_slice(text.get(copied..).unwrap_or_default());
        Self(Bytes::from(edited))
    }

    /// This object without the members of these names; every byte of the others stays as it is.
    #[must_use]
    pub fn without_members(&self, names: &[&str]) -> Self {
        let text = &self.0;
        let is_kept = |member: &Member| !names.iter().any(|name| member.is_named(text, name));
        if members(text).all(|member| is_kept(&member)) {
            return self.clone();
        }
        let mut edited = Vec::with_capacity(text.len());
        edited.push(b'{');
        for member in members(text).filter(is_kept) {
            if edited.len() > 1 {
                edited.push(b',');
            }
            // The span of a key lies between its quotes.
            edited.extend_from_slice(text.get(member.key.span.start - 1..member.value.end).unwrap_or_default());
        }
        edited.push(b'}');
        Self(Bytes::from(edited))
    }

    /// This object with the members of `others` whose names it does not have. Where both have an object, its missing
    /// members are added in the same way.
    #[must_use]
    pub fn with_missing_members(&self, others: &Self) -> Self {
        others.entries().filter_map(|(name, other)| Some((name?, other))).fold(self.clone(), |all, (name, other)| {
            match all.first_member(&name) {
                None => all.with_member(&name, &other),
                Some(own) if own.is_object() && other.is_object() => {
                    all.with_member(&name, &own.with_missing_members(&other))
                }
                Some(_) => all,
            }
        })
    }

    /// An array of these elements.
    #[must_use]
    pub fn array<'e>(elements: impl IntoIterator<Item = &'e Self>) -> Self {
        let mut text = vec![b'['];
        for element in elements {
            if text.len() > 1 {
                text.push(b',');
            }
            text.extend_from_slice(&element.0);
        }
        text.push(b']');
        Self(Bytes::from(text))
    }

    /// This array with `change` applied to each element; a value that is not an array is returned unchanged.
    #[must_use]
    pub fn map_elements(&self, change: impl Fn(Self) -> Self) -> Self {
        if !self.0.starts_with(b"[") {
            return self.clone();
        }
        Self::array(&self.elements().map(change).collect::<Vec<_>>())
    }

    /// This object with `change` applied to the value of each member; every other byte stays as it is. A value that is not
    /// an object is returned unchanged.
    pub(crate) fn map_members(&self, change: impl Fn(Self) -> Self) -> Self {
        let text = &self.0;
        let mut edited = Vec::with_capacity(text.len());
        let mut copied = 0;
        for member in members(text) {
            edited.extend_from_slice(text.get(copied..member.value.start).unwrap_or_default());
            copied = member.value.end;
            edited.extend_from_slice(&change(Self(text.slice(member.value))).0);
        }
        edited.extend_from_slice(text.get(copied..).unwrap_or_default());
        Self(Bytes::from(edited))
    }

    /// Where the byte at `offset` is: the names of members and the indices of elements, such as `stops[2].city`, at most
    /// eight of them. Empty if it is in none.
    #[must_use]
    pub fn path_to(&self, offset: usize) -> String {
        let mut path = String::new();
        let mut start = 0;
        for _ in 0..PATH_DEPTH {
            let text = self.0.get(start..).unwrap_or_default();
            let at = offset.saturating_sub(start);
            let is_here = |span: &Range<usize>| span.start <= at && at <= span.end;
            if let Some(member) = members(text).find(|member| is_here(&member.value)) {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&String::from_utf8_lossy(&member.key.name(text).unwrap_or_default()));
                start += member.value.start;
            } else if let Some((index, span)) = elements(text).enumerate().find(|(_, span)| is_here(span)) {
                path.push('[');
                path.push_str(&index.to_string());
                path.push(']');
                start += span.start;
            } else {
                break;
            }
        }
        path
    }

    /// The names and values of this object's members, in order; empty if this is not an object. A name with an unpaired
    /// surrogate is not a string, and is `None`.
    pub fn entries(&self) -> impl Iterator<Item = (Option<String>, Self)> {
        members(&self.0).map(|member| {
            let name = member.key.name(&self.0).and_then(|name| String::from_utf8(name.into_owned()).ok());
            (name, Self(self.0.slice(member.value)))
        })
    }

    /// The elements of this array; empty if this is not an array.
    pub fn elements(&self) -> impl Iterator<Item = Self> {
        elements(&self.0).map(|span| Self(self.0.slice(span)))
    }
}

struct Member {
    key: super::scan::Key,
    value: Range<usize>,
}

impl Member {
    fn is_named(&self, text: &[u8], name: &str) -> bool {
        self.key.name(text).is_some_and(|key| key.as_ref() == name.as_bytes())
    }
}

/// The members of an object in validated text, outermost level only.
fn members(text: &[u8]) -> impl Iterator<Item = Member> {
    let mut scanner = Scanner::new(text, DEEPEST);
    let mut more = scanner.peek_kind() == Ok(Kind::Object) && scanner.enter() == Ok(true);
    std::iter::from_fn(move || {
        if !more {
            return None;
        }
        let key = scanner.key().ok()?;
        let value = scanner.value().ok()?.span;
        more = scanner.next_element(b'}').ok()?;
        Some(Member { key, value })
    })
    .fuse()
}

fn elements(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut scanner = Scanner::new(text, DEEPEST);
    let mut more = scanner.peek_kind() == Ok(Kind::Array) && scanner.enter() == Ok(true);
    std::iter::from_fn(move || {
        if !more {
            return None;
        }
        let value = scanner.value().ok()?.span;
        more = scanner.next_element(b']').ok()?;
        Some(value)
    })
    .fuse()
}

/// Refuses validated text in which any object, at any depth, has two members with the same name (JS6).
///
/// Each key of an object that is open takes 8 bytes, so a text that consists of keys takes about its own length again.
/// Keys are sorted by hash and, for equal hashes, by text, so that neither many keys nor chosen collisions make this
/// slower than sorting.
fn check_unique_keys(text: &[u8]) -> Result<(), DuplicateKey> {
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut keys: Vec<HashedKey> = Vec::new();
    let mut key_is_next = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                let end = end_of_string(text, at);
                if key_is_next {
                    keys.push(HashedKey::new(text, at..end));
                    key_is_next = false;
                }
                at = end;
                continue;
            }
            b'{' => {
                open.push(Some(keys.len()));
                key_is_next = true;
            }
            b'[' => {
                open.push(None);
                key_is_next = false;
            }
            b'}' | b']' => {
                if let Some(Some(first)) = open.pop() {
                    check_one_object(text, keys.get_mut(first..).unwrap_or_default())?;
                    keys.truncate(first);
                }
                key_is_next = false;
            }
            b',' => key_is_next = matches!(open.last(), Some(Some(_))),
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

struct HashedKey {
    hash: u32,
    /// Where its text begins, at the opening quote.
    start: u32,
}

impl HashedKey {
    /// `span` is the key's text with its quotes. Frames are shorter than 4 GiB (`Limits::check`).
    fn new(text: &[u8], span: Range<usize>) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(&name(text, &span));
        let [a, b, c, d, ..] = hasher.finish().to_ne_bytes();
        Self { hash: u32::from_ne_bytes([a, b, c, d]), start: u32::try_from(span.start).unwrap_or(u32::MAX) }
    }

    fn name<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let start = self.start as usize;
        name(text, &(start..end_of_string(text, start)))
    }

    fn compare(&self, other: &Self, text: &[u8]) -> Ordering {
        self.hash.cmp(&other.hash).then_with(|| self.name(text).cmp(&other.name(text)))
    }
}

/// The unescaped key; for a key with an unpaired surrogate, its raw text.
fn name<'t>(text: &'t [u8], span: &Range<usize>) -> Cow<'t, [u8]> {
    let raw = text.get(span.clone()).unwrap_or_default();
    match unquote(raw) {
        Some(Cow::Borrowed(name)) => Cow::Borrowed(name.as_bytes()),
        Some(Cow::Owned(name)) => Cow::Owned(name.into_bytes()),
        None => Cow::Borrowed(raw),
    }
}

fn check_one_object(text: &[u8], keys: &mut [HashedKey]) -> Result<(), DuplicateKey> {
    keys.sort_unstable_by(|a, b| a.compare(b, text));
    let twice = keys.windows(2).any(|pair| match pair {
        [a, b] => a.compare(b, text) == Ordering::Equal,
        _ => false,
    });
    if twice { Err(DuplicateKey) } else { Ok(()) }
}

/// The index after the closing quote of the string that begins at `start`, in validated text.
pub(super) fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if text.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &'static str) -> Json {
        Json::parse(text).expect("the test's text is JSON")
    }

    #[test]
    fn a_member_is_found_by_its_unescaped_name_and_exact_case() {
        let object = json(r#"{"\u0061":1,"B":2,"c":{"d":3}}"#);
        for (name, expected) in [("a", Some("1")), ("b", None), ("B", Some("2")), ("d", None), ("c", Some("{\"d\":3}"))]
        {
            let found = object.member(name).unwrap();
            assert_eq!(found.as_ref().map(|value| value.to_text().into_owned()).as_deref(), expected, "{name}");
        }
        assert_eq!(json("[1]").member("a"), Ok(None));
        assert_eq!(json(r#"{"a":1,"\u0061":2}"#).member("a"), Err(DuplicateKey));
    }

    #[test]
    fn an_edited_object_is_written_into_room_for_itself_and_what_is_added() {
        let name = "a-name";
        let value = json(r#"{"of":"some length"}"#);
        let edited = json(r#"{"x":1}"#).with_member(name, &value);
        let added = r#""a-name":{"of":"some length"},"#.len();
        let length = r#"{"x":1}"#.len() + added;
        assert_eq!(edited.len(), length);
        let bytes = edited.to_bytes();
        // Bytes with another reference would be copied.
        drop(edited);
        assert_eq!(Vec::from(bytes).capacity(), length);
    }

    #[test]
    fn setting_a_member_leaves_every_other_byte() {
        for (before, after) in [
            (r"{}", r#"{"k":7}"#),
            (r"{ }", r#"{"k":7 }"#),
            (r#"{ "a" : 1.0 }"#, r#"{"k":7, "a" : 1.0 }"#),
            (r#"{"a":1,"k":{"x":[]} ,"b":2}"#, r#"{"a":1,"k":7 ,"b":2}"#),
            (r#"{"\u006b":null}"#, r#"{"\u006b":7}"#),
            (r"[1]", r"[1]"),
        ] {
            assert_eq!(json(before).with_member("k", &json("7")).to_text(), after);
        }
    }

    #[test]
    fn taking_members_out_leaves_every_byte_of_the_others() {
        for (before, after) in [
            ("{}", "{}"),
            (r#"{ "a" : 1.0 }"#, r#"{ "a" : 1.0 }"#),
            (r#"{"k":7}"#, "{}"),
            (r#"{"k":7,"a":1e0 , "\u006c":[{"k":1}]}"#, r#"{"a":1e0}"#),
            (r#"{ "a": {"k":1}, "k":null, "b":"x" }"#, r#"{"a": {"k":1},"b":"x"}"#),
            ("[1]", "[1]"),
        ] {
            assert_eq!(json(before).without_members(&["k", "l"]).to_text(), after);
        }
    }

    #[test]
    fn elements_are_changed_one_by_one() {
        let without_a = |element: Json| element.without_members(&["a"]);
        for (before, after) in
            [(r#"[{"a":1}, {"b":2} ,3]"#, r#"[{},{"b":2},3]"#), ("[ ]", "[]"), (r#"{"a":1}"#, r#"{"a":1}"#)]
        {
            assert_eq!(json(before).map_elements(without_a).to_text(), after);
        }
    }

    #[test]
    fn several_members_are_read_and_set_in_one_pass() {
        let object = json(r#"{"a":1,"b": 2,"a":3}"#);
        assert_eq!(object.first_members(["b", "c", "a"]), [Some(json("2")), None, Some(json("1"))]);
        let seven = json("7");
        for (before, after) in [
            ("{}", r#"{"x":7,"b":7}"#),
            (r#"{"a":1,"b": 2 }"#, r#"{"x":7,"a":1,"b": 7 }"#),
            (r#"{"b":1,"x":2}"#, r#"{"b":7,"x":7}"#),
        ] {
            assert_eq!(json(before).with_members(&[("x", &seven), ("b", &seven)]).to_text(), after);
        }
    }

    #[test]
    fn js6_duplicate_keys_are_found_at_any_depth() {
        for (text, unique) in [
            (r#"{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}"#, true),
            (r#"{"a":"a","b":"a"}"#, true),
            (r#"["a","a"]"#, true),
            (r#"{"a":[1,"b","b"],"b":2}"#, true),
            (r#"{"a":1,"a":1}"#, false),
            (r#"{"a":1,"\u0061":1}"#, false),
            (r#"{"x":[{"y":{"k":1,"l":2,"k":3}}]}"#, false),
            (r#"{"a":{"b":1},"c":2,"a":3}"#, false),
            (r#"{"a\"":1,"a\u0022":2}"#, false),
        ] {
            assert_eq!(json(text).check_unique_keys().is_ok(), unique, "{text}");
        }
    }

    #[test]
    fn js6_keys_with_equal_hashes_differ_by_their_names() {
        let text = br#"{"a":1,"b":2,"\u0061":3,"c":4}"#;
        let key = |start| HashedKey { hash: 7, start };
        let compared = [(1, 7), (7, 1), (1, 13), (13, 1), (7, 24)].map(|(a, b)| key(a).compare(&key(b), text));
        let expected = [Ordering::Less, Ordering::Greater, Ordering::Equal, Ordering::Equal, Ordering::Less];
        assert_eq!(compared, expected);
    }
}
