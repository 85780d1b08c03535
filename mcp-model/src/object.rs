//! Reading and writing of the model's values.
//!
//! Reading slices values out of the text without copying it. Writing appends to one buffer and cannot fail. `serde`'s
//! `flatten` is not used, because it buffers unknown members in a form that rounds numbers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use mcp_proto::Json;

use super::error::{ModelError, Problem};

/// A value that is read from its own JSON text, and appended to a buffer.
pub(super) trait Value: Sized {
    /// Whether `null` is a value of this type; otherwise a `null` for an optional member means that it is absent.
    const TAKES_NULL: bool = false;

    fn read(json: &Json) -> Result<Self, ModelError>;

    fn write(&self, out: &mut Vec<u8>);
}

/// A member of an object: a value, or an optional one.
pub(super) trait Member: Sized {
    fn read_member(found: Option<&Json>) -> Result<Self, ModelError>;

    /// The value to write, if there is one.
    fn written(&self) -> Option<&impl Value>;
}

impl<V: Value> Member for V {
    fn read_member(found: Option<&Json>) -> Result<Self, ModelError> {
        found.map_or(Err(ModelError::new(Problem::Missing)), V::read)
    }

    fn written(&self) -> Option<&impl Value> {
        Some(self)
    }
}

impl<V: Value> Member for Option<V> {
    fn read_member(found: Option<&Json>) -> Result<Self, ModelError> {
        match found {
            // Some peers write an absent optional member as `null`.
            Some(json) if V::TAKES_NULL || json.as_bytes() != b"null" => V::read(json).map(Some),
            Some(_) | None => Ok(None),
        }
    }

    fn written(&self) -> Option<&impl Value> {
        self.as_ref()
    }
}

/// The members of an object that have not been taken yet.
#[derive(Debug)]
pub(super) struct Reader {
    members: BTreeMap<String, Json>,
}

impl Reader {
    pub(super) fn new(json: &Json) -> Result<Self, ModelError> {
        if !json.is_object() {
            return Err(ModelError::expected("an object"));
        }
        let mut members = BTreeMap::new();
        for (name, value) in json.entries() {
            let name = name.ok_or(ModelError::expected("names without unpaired surrogates"))?;
            match members.entry(name) {
                Entry::Vacant(place) => place.insert(value),
                Entry::Occupied(_) => return Err(ModelError::new(Problem::DuplicateKey)), // P2
            };
        }
        Ok(Self { members })
    }

    pub(super) fn take<M: Member>(&mut self, name: &'static str) -> Result<M, ModelError> {
        M::read_member(self.members.remove(name).as_ref()).map_err(|error| error.inside(name))
    }

    /// Takes a member that older or non-conforming peers omit.
    pub(super) fn take_or_default<V: Value + Default>(&mut self, name: &'static str) -> Result<V, ModelError> {
        Ok(self.take::<Option<V>>(name)?.unwrap_or_default())
    }

    /// Takes the tag, and checks that it has this value.
    pub(super) fn take_tag(&mut self, name: &'static str, value: &'static str) -> Result<(), ModelError> {
        let found: String = self.take(name)?;
        if found == value { Ok(()) } else { Err(ModelError::expected(value).inside(name)) }
    }

    /// The members that were not taken.
    pub(super) fn rest(self) -> BTreeMap<String, Json> {
        self.members
    }
}

/// An object that is being written.
#[derive(Debug)]
pub(super) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> Writer<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    fn name(&mut self, name: &str) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        Json::quote_into(self.out, name);
        self.out.push(b':');
    }

    pub(super) fn value(&mut self, name: &str, value: &impl Value) {
        self.name(name);
        value.write(self.out);
    }

    pub(super) fn member(&mut self, name: &str, member: &impl Member) {
        if let Some(value) = member.written() {
            self.value(name, value);
        }
    }

    pub(super) fn tag(&mut self, name: &str, value: &str) {
        self.name(name);
        Json::quote_into(self.out, value);
    }

    /// Writes the unknown members. A name in `known` is skipped, because the type writes that member itself.
    pub(super) fn rest(&mut self, rest: &BTreeMap<String, Json>, known: &[&str]) {
        for (name, value) in rest.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            self.value(name, value);
        }
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

/// The text of a value.
pub(super) fn to_json(value: &impl Value) -> Json {
    let mut text = Vec::new();
    value.write(&mut text);
    Json::from_valid_text(text.into())
}

/// Reads the tag: the member that determines the kind of an object.
pub(super) fn tag(json: &Json, name: &'static str) -> Result<String, ModelError> {
    optional_tag(json, name)?.ok_or(ModelError::new(Problem::Missing).inside(name))
}

/// Reads a tag that may be absent.
pub(super) fn optional_tag(json: &Json, name: &'static str) -> Result<Option<String>, ModelError> {
    if !json.is_object() {
        return Err(ModelError::expected("an object"));
    }
    let found = json.member(name).map_err(|_| ModelError::new(Problem::DuplicateKey))?;
    Member::read_member(found.as_ref()).map_err(|error: ModelError| error.inside(name))
}

/// Whether an object has the member `name`.
pub(super) fn has(json: &Json, name: &str) -> bool {
    json.first_member(name).is_some()
}

impl Value for Json {
    const TAKES_NULL: bool = true;

    fn read(json: &Json) -> Result<Self, ModelError> {
        Ok(json.clone())
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Value for String {
    fn read(json: &Json) -> Result<Self, ModelError> {
        json.as_string().map(std::borrow::Cow::into_owned).ok_or(ModelError::expected("a string"))
    }

    fn write(&self, out: &mut Vec<u8>) {
        Json::quote_into(out, self);
    }
}

impl Value for bool {
    fn read(json: &Json) -> Result<Self, ModelError> {
        match json.as_bytes() {
            b"true" => Ok(true),
            b"false" => Ok(false),
            _ => Err(ModelError::expected("true or false")),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if *self { b"true" } else { b"false" });
    }
}

impl<V: Value> Value for Box<V> {
    fn read(json: &Json) -> Result<Self, ModelError> {
        V::read(json).map(Self::new)
    }

    fn write(&self, out: &mut Vec<u8>) {
        V::write(self, out);
    }
}

impl<V: Value> Value for Vec<V> {
    fn read(json: &Json) -> Result<Self, ModelError> {
        if json.as_bytes().first() != Some(&b'[') {
            return Err(ModelError::expected("an array"));
        }
        json.elements().enumerate().map(|(index, element)| V::read(&element).map_err(|error| error.at(index))).collect()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, value) in self.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            value.write(out);
        }
        out.push(b']');
    }
}

/// An object with names chosen by the sender. An error in it contains the position and not the name.
impl<V: Value> Value for BTreeMap<String, V> {
    fn read(json: &Json) -> Result<Self, ModelError> {
        let members = Reader::new(json)?.rest().into_iter().enumerate();
        members
            .map(|(index, (name, value))| V::read(&value).map(|value| (name, value)).map_err(|e| e.at(index)))
            .collect()
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut object = Writer::new(out);
        for (name, value) in self {
            object.value(name, value);
        }
        object.end();
    }
}
