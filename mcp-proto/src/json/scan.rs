//! A strict JSON scanner: it validates and measures, and builds nothing.
//!
//! Nesting is kept in a bit per level instead of on the call stack, so that no input can overflow it (JS1), and every
//! byte is looked at once (JS2).

use std::borrow::Cow;
use std::ops::Range;

use super::JsonError;
use super::string::{first_end, plain_prefix, unescape};

/// The deepest nesting that any limit may allow: one bit of [`Nesting`] per level.
pub(crate) const DEEPEST: usize = 1024;

/// What a value is, told by its first byte.
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

/// Where a value lies in the text, and what it is.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) span: Range<usize>,
    pub(crate) kind: Kind,
}

impl Value {
    /// Its text, out of the text that was scanned.
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
    /// The key as the text that it stands for (P1: compared after unescaping); `None` for an unpaired surrogate,
    /// which equals no name.
    pub(crate) fn name<'t>(&self, text: &'t [u8]) -> Option<Cow<'t, [u8]>> {
        let raw = text.get(self.span.clone())?;
        if !self.escaped {
            return Some(Cow::Borrowed(raw));
        }
        unescape(raw).map(|name| Cow::Owned(name.into_bytes()))
    }
}

/// Walks one text from left to right.
#[derive(Debug)]
pub(crate) struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    max_depth: usize,
    /// Containers entered by the caller and not yet left.
    depth: usize,
}

impl<'t> Scanner<'t> {
    pub(crate) const fn new(text: &'t [u8], max_depth: usize) -> Self {
        let max_depth = if max_depth > DEEPEST { DEEPEST } else { max_depth };
        Self { text, at: 0, max_depth, depth: 0 }
    }

    /// Accepts exactly one value with white space around it, and returns where it lies.
    pub(crate) fn whole_text(&mut self) -> Result<Range<usize>, JsonError> {
        let value = self.value()?;
        self.end_of_text()?;
        Ok(value.span)
    }

    /// Accepts white space up to the end of the text.
    pub(crate) fn end_of_text(&mut self) -> Result<(), JsonError> {
        self.skip_white_space();
        if self.at < self.text.len() {
            return Err(JsonError::TrailingText { offset: self.at });
        }
        Ok(())
    }

    /// What the next value is, without taking it.
    pub(crate) fn peek_kind(&mut self) -> Result<Kind, JsonError> {
        self.kind().map_err(|stop| self.error(stop))
    }

    /// Enters an object or array whose opening byte is next; `false` if it is empty and already left again.
    pub(crate) fn enter(&mut self) -> Result<bool, JsonError> {
        if self.depth >= self.max_depth {
            return Err(self.error(Stop::TooDeep));
        }
        let close = if self.peek() == Some(b'{') { b'}' } else { b']' };
        self.at += 1;
        self.skip_white_space();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(false);
        }
        self.depth += 1;
        Ok(true)
    }

    /// After an element: `true` if another one follows, `false` if the container was left.
    pub(crate) fn next_element(&mut self, close: u8) -> Result<bool, JsonError> {
        self.skip_white_space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.skip_white_space();
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            Some(_) | None => Err(self.error(Stop::NotJson)),
        }
    }

    /// Accepts a key and its colon.
    pub(crate) fn key(&mut self) -> Result<Key, JsonError> {
        let start = self.at + 1;
        match self.quoted_key() {
            Ok((end, escaped)) => Ok(Key { span: start..end, escaped }),
            Err(stop) => Err(self.error(stop)),
        }
    }

    /// Accepts one value of any kind, however deep within the limit.
    pub(crate) fn value(&mut self) -> Result<Value, JsonError> {
        let kind = self.peek_kind()?;
        let start = self.at;
        let outcome = match kind {
            Kind::Object | Kind::Array => self.container(kind),
            Kind::String => self.string().map(|_| ()),
            Kind::Number => self.number(),
            Kind::True => self.word(b"true"),
            Kind::False => self.word(b"false"),
            Kind::Null => self.word(b"null"),
        };
        match outcome {
            Ok(()) => Ok(Value { span: start..self.at, kind }),
            Err(stop) => Err(self.error(stop)),
        }
    }

    #[inline]
    fn kind(&mut self) -> Result<Kind, Stop> {
        self.skip_white_space();
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

    fn container(&mut self, outermost: Kind) -> Result<(), Stop> {
        let mut nesting = Nesting::new(self.depth, self.max_depth);
        let mut kind = outermost;
        loop {
            // One value: a container is opened, a scalar taken whole.
            match kind {
                Kind::String => {
                    self.string()?;
                }
                Kind::Object => {
                    self.at += 1;
                    self.skip_white_space();
                    nesting.push(true)?;
                    if self.peek() != Some(b'}') {
                        self.quoted_key()?;
                        kind = self.kind()?;
                        continue;
                    }
                }
                Kind::Array => {
                    self.at += 1;
                    self.skip_white_space();
                    nesting.push(false)?;
                    if self.peek() != Some(b']') {
                        kind = self.kind()?;
                        continue;
                    }
                }
                Kind::Number => self.number()?,
                Kind::True => self.word(b"true")?,
                Kind::False => self.word(b"false")?,
                Kind::Null => self.word(b"null")?,
            }
            // After it: close what ends here, until something else follows.
            loop {
                let Some(in_object) = nesting.innermost() else { return Ok(()) };
                self.skip_white_space();
                match (self.peek(), in_object) {
                    (Some(b','), true) => {
                        self.at += 1;
                        self.skip_white_space();
                        self.quoted_key()?;
                        kind = self.kind()?;
                        break;
                    }
                    (Some(b','), false) => {
                        self.at += 1;
                        kind = self.kind()?;
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        nesting.pop();
                    }
                    (Some(_) | None, _) => return Err(Stop::NotJson),
                }
            }
        }
    }

    /// Accepts a key and its colon; returns where its closing quote is and whether it has escapes.
    #[inline]
    fn quoted_key(&mut self) -> Result<(usize, bool), Stop> {
        if self.peek() != Some(b'"') {
            return Err(Stop::NotJson);
        }
        let escaped = self.string()?;
        let end = self.at - 1;
        self.skip_white_space();
        if self.peek() != Some(b':') {
            return Err(Stop::NotJson);
        }
        self.at += 1;
        Ok((end, escaped))
    }

    /// Accepts a string whose opening quote is next; returns whether it has escapes.
    #[inline]
    fn string(&mut self) -> Result<bool, Stop> {
        let start = self.at + 1;
        // Most keys fit into a word.
        if let Some(&word) = self.text.get(start..).and_then(<[u8]>::first_chunk) {
            if let Some(length) = first_end(word) {
                if self.text.get(start + length) == Some(&b'"') {
                    self.at = start + length + 1;
                    return Ok(false);
                }
            }
        }
        self.long_string()
    }

    #[inline(never)]
    fn long_string(&mut self) -> Result<bool, Stop> {
        self.at += 1;
        let mut escaped = false;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let Some(length) = plain_prefix(rest) else {
                self.at = self.text.len();
                return Err(Stop::NotJson);
            };
            self.at += length;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) | None => return Err(Stop::NotJson),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Stop> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(Stop::NotJson);
                    }
                    self.at += 1;
                }
            }
            Some(_) | None => return Err(Stop::NotJson),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Stop> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.skip_digits(),
            Some(_) | None => return Err(Stop::NotJson),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Stop> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(Stop::NotJson);
        }
        self.skip_digits();
        Ok(())
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Stop> {
        for &expected in word {
            if self.peek() != Some(expected) {
                return Err(Stop::NotJson);
            }
            self.at += 1;
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn skip_white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    const fn error(&self, stop: Stop) -> JsonError {
        match stop {
            Stop::NotJson => JsonError::NotJson { offset: self.at },
            Stop::TooDeep => JsonError::TooDeep { limit: self.max_depth },
        }
    }
}

/// Why the scanner stops where it is.
#[derive(Debug, Clone, Copy)]
enum Stop {
    NotJson,
    TooDeep,
}

/// Which containers are open: a bit per level, set for an object.
struct Nesting {
    bits: [u64; DEEPEST / 64],
    depth: usize,
    /// Levels that lie outside of this value.
    base: usize,
    limit: usize,
}

impl Nesting {
    const fn new(base: usize, limit: usize) -> Self {
        Self { bits: [0; DEEPEST / 64], depth: base, base, limit }
    }

    fn push(&mut self, object: bool) -> Result<(), Stop> {
        if self.depth >= self.limit {
            return Err(Stop::TooDeep);
        }
        if let Some(word) = self.bits.get_mut(self.depth / 64) {
            let bit = 1 << (self.depth % 64);
            *word = if object { *word | bit } else { *word & !bit };
        }
        self.depth += 1;
        Ok(())
    }

    const fn pop(&mut self) {
        self.depth -= 1;
    }

    /// Whether the innermost container is an object; `None` outside of all.
    fn innermost(&self) -> Option<bool> {
        if self.depth == self.base {
            return None;
        }
        let level = self.depth - 1;
        self.bits.get(level / 64).map(|word| word & (1 << (level % 64)) != 0)
    }
}
