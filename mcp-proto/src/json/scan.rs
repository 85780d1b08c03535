//! A strict JSON scanner: it validates the text and finds the spans of values, and builds no tree.
//!
//! Nesting is stored as one bit per level instead of on the call stack, so that no input can overflow the stack (JS1).
//! Every byte is read once (JS2), or twice where the text is not ASCII or not JSON.

use std::borrow::Cow;
use std::ops::Range;

use super::JsonError;
use super::string::{self, unescape};
use crate::swar;

/// The deepest nesting that any limit may allow: one bit of [`Nesting`] per level.
pub(crate) const DEEPEST: usize = 1024;

/// The kind of a value, determined by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

/// The span of a value in the text, and its kind.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) span: Range<usize>,
    pub(crate) kind: Kind,
}

impl Value {
    /// The value's slice of the scanned text.
    pub(crate) fn text<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        text.get(self.span.clone()).unwrap_or_default()
    }
}

/// A member's key: the span between its quotes.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) span: Range<usize>,
    pub(crate) escaped: bool,
}

impl Key {
    /// The unescaped key, since names are compared after unescaping (P1); `None` for an unpaired surrogate, which
    /// equals no name.
    pub(crate) fn name<'t>(&self, text: &'t [u8]) -> Option<Cow<'t, [u8]>> {
        let raw = text.get(self.span.clone())?;
        if !self.escaped {
            return Some(Cow::Borrowed(raw));
        }
        unescape(raw).map(|name| Cow::Owned(name.into_bytes()))
    }
}

/// Scans one text from left to right.
#[derive(Debug)]
pub(crate) struct Scanner<'t> {
    text: &'t [u8],
    cursor: Cursor<'t>,
    max_depth: usize,
    /// Containers entered by the caller and not yet left.
    depth: usize,
}

impl<'t> Scanner<'t> {
    pub(crate) const fn new(text: &'t [u8], max_depth: usize) -> Self {
        let max_depth = if max_depth > DEEPEST { DEEPEST } else { max_depth };
        Self { text, cursor: Cursor { rest: text, is_ascii: true }, max_depth, depth: 0 }
    }

    /// Accepts exactly one value with white space around it, and returns its span.
    pub(crate) fn whole_text(&mut self) -> Result<Range<usize>, JsonError> {
        let value = self.value()?;
        self.end_of_text()?;
        Ok(value.span)
    }

    /// Accepts white space up to the end of the text.
    pub(crate) fn end_of_text(&mut self) -> Result<(), JsonError> {
        self.cursor.skip_white_space();
        if self.cursor.rest.is_empty() { Ok(()) } else { Err(JsonError::TrailingText { offset: self.offset() }) }
    }

    /// Refuses a text that is not UTF-8 (JR-02); this error takes precedence over all others. Call it after the scan;
    /// `is_wrong` is whether the scan failed.
    pub(crate) fn check_utf8(&self, is_wrong: bool) -> Result<(), JsonError> {
        // Outside of strings, only ASCII was accepted.
        if !is_wrong && self.cursor.is_ascii {
            return Ok(());
        }
        match std::str::from_utf8(self.text) {
            Ok(_) => Ok(()),
            Err(error) => Err(JsonError::NotUtf8 { offset: error.valid_up_to() }),
        }
    }

    /// The kind of the next value, without consuming it.
    #[inline]
    pub(crate) fn peek_kind(&mut self) -> Result<Kind, JsonError> {
        self.cursor.skip_white_space();
        self.cursor.kind().map_err(|stop| self.error(stop))
    }

    /// Enters an object or array whose opening byte is next; `false` if it was empty, and its end is consumed too.
    pub(crate) fn enter(&mut self) -> Result<bool, JsonError> {
        if self.depth >= self.max_depth {
            return Err(self.error(Stop::TooDeep));
        }
        let close = if self.cursor.peek() == Some(b'{') { b'}' } else { b']' };
        self.cursor.skip_byte();
        self.cursor.skip_white_space();
        if self.cursor.peek() == Some(close) {
            self.cursor.skip_byte();
            return Ok(false);
        }
        self.depth += 1;
        Ok(true)
    }

    /// After an element: `true` if another one follows, `false` if the container was left.
    #[inline]
    pub(crate) fn next_element(&mut self, close: u8) -> Result<bool, JsonError> {
        self.cursor.skip_white_space();
        match self.cursor.peek() {
            Some(b',') => {
                self.cursor.skip_byte();
                self.cursor.skip_white_space();
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.cursor.skip_byte();
                self.depth -= 1;
                Ok(false)
            }
            Some(_) | None => Err(self.error(Stop::NotJson)),
        }
    }

    /// Accepts a key and its colon.
    #[inline]
    pub(crate) fn key(&mut self) -> Result<Key, JsonError> {
        let start = self.offset() + 1;
        match self.cursor.key() {
            Ok((behind, escaped)) => Ok(Key { span: start..self.text.len() - behind - 1, escaped }),
            Err(stop) => Err(self.error(stop)),
        }
    }

    /// Accepts one value of any kind, nested up to the limit.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<Value, JsonError> {
        let kind = self.peek_kind()?;
        let start = self.offset();
        let outcome = match kind {
            Kind::Object | Kind::Array => self.container(),
            Kind::String | Kind::Number | Kind::True | Kind::False | Kind::Null => self.cursor.scalar(kind),
        };
        match outcome {
            Ok(()) => Ok(Value { span: start..self.offset(), kind }),
            Err(stop) => Err(self.error(stop)),
        }
    }

    /// Accepts an object or array whose opening byte is next.
    fn container(&mut self) -> Result<(), Stop> {
        // The compiler keeps this local copy in registers.
        let mut cursor = self.cursor;
        let outcome = cursor.container(self.depth, self.max_depth);
        self.cursor = cursor;
        outcome
    }

    /// The scanner's position in the text.
    const fn offset(&self) -> usize {
        self.text.len() - self.cursor.rest.len()
    }

    const fn error(&self, stop: Stop) -> JsonError {
        match stop {
            Stop::NotJson => JsonError::NotJson { offset: self.offset() },
            Stop::TooDeep => JsonError::TooDeep { limit: self.max_depth },
        }
    }
}

/// A position in a text.
#[derive(Debug, Clone, Copy)]
struct Cursor<'t> {
    /// The text from that position on.
    rest: &'t [u8],
    /// Whether the strings so far, and the few bytes read beyond them, are all ASCII.
    is_ascii: bool,
}

#[expect(clippy::inline_always, reason = "else a cursor does not live in registers, which costs a fifth")]
impl Cursor<'_> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    #[inline]
    fn skip_byte(&mut self) {
        if let [_, rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    #[inline]
    fn skip_white_space(&mut self) {
        while let [b' ' | b'\n' | b'\r' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// The kind of the value that begins here.
    #[inline]
    fn kind(&self) -> Result<Kind, Stop> {
        Ok(match self.peek() {
            Some(b'"') => Kind::String,
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            Some(b't') => Kind::True,
            Some(b'f') => Kind::False,
            Some(b'n') => Kind::Null,
            Some(_) | None => return Err(Stop::NotJson),
        })
    }

    #[inline]
    fn container(&mut self, depth: usize, max_depth: usize) -> Result<(), Stop> {
        let mut nesting = Nesting::new(depth, max_depth);
        let mut key_is_next = false;
        loop {
            if key_is_next {
                self.key()?;
                self.skip_white_space();
            }
            // One value: a container is opened, a scalar is consumed.
            match self.kind()? {
                kind @ (Kind::Object | Kind::Array) => {
                    self.skip_byte();
                    self.skip_white_space();
                    key_is_next = kind == Kind::Object;
                    nesting.push(key_is_next)?;
                    if self.peek() != Some(if key_is_next { b'}' } else { b']' }) {
                        continue;
                    }
                }
                scalar @ (Kind::String | Kind::Number | Kind::True | Kind::False | Kind::Null) => {
                    self.scalar(scalar)?;
                }
            }
            // After the value: close the containers that end here.
            loop {
                self.skip_white_space();
                key_is_next = nesting.is_in_object();
                match self.peek() {
                    Some(b',') => {
                        self.skip_byte();
                        self.skip_white_space();
                        break;
                    }
                    Some(b'}') if key_is_next => {}
                    Some(b']') if !key_is_next => {}
                    Some(_) | None => return Err(Stop::NotJson),
                }
                self.skip_byte();
                if nesting.pop() {
                    return Ok(());
                }
            }
        }
    }

    #[inline(always)]
    fn scalar(&mut self, kind: Kind) -> Result<(), Stop> {
        match kind {
            Kind::String => self.string().map(|_| ()),
            Kind::Number => self.take(number(self.rest)),
            Kind::True => self.take(word(self.rest, b"true")),
            Kind::False => self.take(word(self.rest, b"false")),
            Kind::Null => self.take(word(self.rest, b"null")),
            Kind::Object | Kind::Array => Err(Stop::NotJson),
        }
    }

    /// Skips the accepted bytes, or the bytes up to the violation.
    #[inline]
    fn take(&mut self, bytes: Result<usize, usize>) -> Result<(), Stop> {
        let (length, outcome) = match bytes {
            Ok(length) => (length, Ok(())),
            Err(length) => (length, Err(Stop::NotJson)),
        };
        self.rest = self.rest.get(length..).unwrap_or_default();
        outcome
    }

    /// Accepts a key and its colon; returns the number of bytes after its closing quote, and whether it has escapes.
    #[inline(always)]
    fn key(&mut self) -> Result<(usize, bool), Stop> {
        if self.peek() != Some(b'"') {
            return Err(Stop::NotJson);
        }
        let escaped = self.string()?;
        let behind = self.rest.len();
        self.skip_white_space();
        if self.peek() != Some(b':') {
            return Err(Stop::NotJson);
        }
        self.skip_byte();
        Ok((behind, escaped))
    }

    /// Accepts a string whose opening quote is next; returns whether it has escapes.
    #[inline(always)]
    fn string(&mut self) -> Result<bool, Stop> {
        self.skip_byte();
        // Most keys fit in one or two words.
        for _ in 0..2 {
            let Some((bytes, after)) = self.rest.split_first_chunk() else { break };
            let word = swar::load(*bytes);
            self.is_ascii &= swar::is_ascii(word);
            if let Some(length) = swar::first(string::ends_in(word)) {
                if let Some([b'"', rest @ ..]) = self.rest.get(length..) {
                    self.rest = rest;
                    return Ok(false);
                }
                break;
            }
            self.rest = after;
        }
        let (length, end) = end_of_string(self.rest);
        self.rest = self.rest.get(length..).unwrap_or_default();
        self.is_ascii &= !end.has(EndOfString::NOT_ASCII);
        if end.has(EndOfString::BROKEN) { Err(Stop::NotJson) } else { Ok(end.has(EndOfString::ESCAPED)) }
    }
}

/// The length of `word` if `text` begins with it, else the position of the first difference.
#[inline]
fn word(text: &[u8], word: &[u8]) -> Result<usize, usize> {
    if text.starts_with(word) {
        return Ok(word.len());
    }
    Err(text.iter().zip(word).take_while(|(found, expected)| found == expected).count())
}

/// The length of the number at the start of `text`, else the position at which it is malformed.
fn number(text: &[u8]) -> Result<usize, usize> {
    let digits = |at: usize| {
        let digits = text.get(at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 { Ok(at + digits) } else { Err(at) }
    };
    let mut at = usize::from(text.first() == Some(&b'-'));
    at = if text.get(at) == Some(&b'0') { at + 1 } else { digits(at)? };
    if text.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let signed = matches!(text.get(at + 1), Some(b'+' | b'-'));
        at = digits(at + 1 + usize::from(signed))?;
    }
    Ok(at)
}

/// Flags: what the search for the end of a string found.
#[derive(Debug, Clone, Copy)]
struct EndOfString(u8);

impl EndOfString {
    const ESCAPED: u8 = 1;
    const NOT_ASCII: u8 = 2;
    const BROKEN: u8 = 4;

    const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }
}

/// Finds the end of a string, from a position in it that is not inside an escape. Returns the number of bytes including
/// the closing quote, or up to where the string is malformed.
#[inline(never)]
fn end_of_string(text: &[u8]) -> (usize, EndOfString) {
    let end = |at, is_escaped, seen| {
        let escaped = if is_escaped { EndOfString::ESCAPED } else { 0 };
        (at, EndOfString(escaped | if swar::is_ascii(seen) { 0 } else { EndOfString::NOT_ASCII }))
    };
    let broken = |at| (at, EndOfString(EndOfString::BROKEN));
    // The bitwise OR of all words read, to detect non-ASCII bytes.
    let mut seen = 0;
    let mut is_escaped = false;
    let mut rest = text;
    // Marks before this position belong to an escape.
    let mut known = 0;
    while let Some((block, after)) = rest.split_first_chunk() {
        let words @ [a, b, c, d] = swar::load_four(block);
        seen |= a | b | c | d;
        let ends @ [a, b, c, d] = words.map(string::ends_in);
        if a | b | c | d != 0 {
            let start = text.len() - rest.len();
            for (place, mut ends) in (start..).step_by(swar::WIDTH).zip(ends) {
                while let Some(first) = swar::first(ends) {
                    ends &= ends - 1;
                    let found = place + first;
                    // Otherwise the byte is part of an escape, or marked only because of a borrow from the byte before
                    // it.
                    if found >= known && text.get(found).is_some_and(|&byte| string::ends(byte)) {
                        match step(text, found) {
                            Step::Inside(after) => known = after,
                            Step::Behind(at) => return end(at, is_escaped, seen),
                            Step::Broken(at) => return broken(at),
                        }
                        is_escaped = true;
                    }
                }
            }
        }
        rest = after;
    }
    let mut at = known.max(text.len() - rest.len());
    loop {
        if let Some(&byte) = text.get(at) {
            seen |= u64::from(byte);
            if !string::ends(byte) {
                at += 1;
                continue;
            }
        }
        match step(text, at) {
            Step::Inside(after) => at = after,
            Step::Behind(at) => return end(at, is_escaped, seen),
            Step::Broken(at) => return broken(at),
        }
        is_escaped = true;
    }
}

/// What follows the plain part of a string. Each variant contains the position after it, or of the violation.
enum Step {
    /// An escape; the string continues after it.
    Inside(usize),
    /// The closing quote.
    Behind(usize),
    /// An invalid byte or escape.
    Broken(usize),
}

#[inline]
fn step(text: &[u8], at: usize) -> Step {
    match text.get(at) {
        Some(b'"') => Step::Behind(at + 1),
        Some(b'\\') => match text.get(at + 1) {
            Some(b'n' | b'"' | b'\\' | b'/' | b'b' | b'f' | b'r' | b't') => Step::Inside(at + 2),
            Some(b'u') => hex_digits(text, at + 2),
            Some(_) | None => Step::Broken(at + 1),
        },
        Some(_) | None => Step::Broken(at),
    }
}

#[inline(never)]
fn hex_digits(text: &[u8], mut at: usize) -> Step {
    for _ in 0..4 {
        if !text.get(at).is_some_and(u8::is_ascii_hexdigit) {
            return Step::Broken(at);
        }
        at += 1;
    }
    Step::Inside(at)
}

/// Why the scanner stops at its position.
#[derive(Debug, Clone, Copy)]
enum Stop {
    NotJson,
    TooDeep,
}

/// The open containers: one bit per level, set for an object.
struct Nesting {
    /// The innermost levels, the deepest in the lowest bit: [`Nesting::depth`] modulo the number of bits, or all bits.
    innermost: u64,
    /// The levels outside of `innermost`.
    outer: [u64; DEEPEST / LEVELS],
    depth: usize,
    /// Levels outside of this value.
    base: usize,
    limit: usize,
}

/// Levels per word.
const LEVELS: usize = 64;

impl Nesting {
    const fn new(base: usize, limit: usize) -> Self {
        Self { innermost: 0, outer: [0; DEEPEST / LEVELS], depth: base, base, limit }
    }

    #[inline]
    fn push(&mut self, object: bool) -> Result<(), Stop> {
        if self.depth >= self.limit {
            return Err(Stop::TooDeep);
        }
        if self.depth % LEVELS == 0 {
            if let Some(word) = self.outer.get_mut(self.depth / LEVELS) {
                *word = self.innermost;
            }
        }
        self.innermost = self.innermost << 1 | u64::from(object);
        self.depth += 1;
        Ok(())
    }

    /// Leaves the innermost container; returns whether that was the outermost one of this value.
    #[inline]
    fn pop(&mut self) -> bool {
        self.depth -= 1;
        self.innermost >>= 1;
        if self.depth % LEVELS == 0 {
            if let Some(word) = self.outer.get(self.depth / LEVELS) {
                self.innermost = *word;
            }
        }
        self.depth == self.base
    }

    /// Whether the innermost container is an object.
    #[inline]
    const fn is_in_object(&self) -> bool {
        self.innermost & 1 != 0
    }
}
