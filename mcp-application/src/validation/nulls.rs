//! Members that are null where a schema accepts none.

use jsonschema::paths::LocationSegment;
use serde_json::Value;

use super::deviations::{Deviations, is_negated_twice};

/// The most times that a value is validated, and the most bytes of all that is validated unless these are few times.
const MOST_TIMES: usize = 100;
const MOST_BYTES: usize = 4 << 20;
const FEW_TIMES: usize = 4;

/// Removes the members that are null where the schema accepts none; `length` is that of the value in bytes. Returns whether no
/// other deviation is found.
pub(super) fn leave_out(value: &mut Value, length: usize, deviations: &Deviations) -> bool {
    let times = (MOST_BYTES / length.max(1)).clamp(FEW_TIMES, MOST_TIMES);
    let mut nulls = Nulls { value, deviations, left: times };
    loop {
        match nulls.leave_out_next() {
            Some(Next::Conforms) => return true,
            Some(Next::IsRemoved) => {}
            None => return false,
        }
    }
}

enum Next {
    Conforms,
    IsRemoved,
}

struct Nulls<'v> {
    value: &'v mut Value,
    deviations: &'v Deviations,
    /// How many times the value may be validated.
    left: usize,
}

/// A member: the JSON Pointer of its object, and its name.
type Member = (String, String);

impl Nulls<'_> {
    /// `None` if there is a deviation that is not of members that are null, or the value was validated too often.
    fn leave_out_next(&mut self) -> Option<Next> {
        self.left = self.left.checked_sub(1)?;
        let Some(error) = self.deviations.first(self.value) else { return Some(Next::Conforms) };
        let is_removed = if error.instance().is_null() {
            let path: Vec<_> = error.instance_path().segments().map(Step::from).collect();
            drop(error);
            remove(self.value, &path, self.deviations.is_uniform)
        } else if is_negated_twice(&error) {
            let place = error.instance_path().to_string();
            drop(error);
            self.leave_out_within(&place)?
        } else {
            false
        };
        is_removed.then_some(Next::IsRemoved)
    }

    /// Which members that are null what is negated twice does not accept, its deviation does not state: all are removed, and those are
    /// put back with which it still has no deviation.
    fn leave_out_within(&mut self, place: &str) -> Option<bool> {
        let chosen = self.value.pointer_mut(place)?;
        let before = chosen.clone();
        let mut nulls = Vec::new();
        take_nulls(chosen, &mut vec![place.to_owned()], self.left, &mut nulls);
        if nulls.is_empty() || !self.conforms(place)? {
            *self.value.pointer_mut(place)? = before;
            return Some(false);
        }
        for (object, name) in nulls {
            self.members(&object)?.insert(name.clone(), Value::Null);
            if !self.conforms(place)? {
                self.members(&object)?.remove(&name);
            }
        }
        Some(true)
    }

    fn members(&mut self, place: &str) -> Option<&mut serde_json::Map<String, Value>> {
        self.value.pointer_mut(place)?.as_object_mut()
    }

    /// Whether the value at this place has no deviation that is found first.
    fn conforms(&mut self, place: &str) -> Option<bool> {
        self.left = self.left.checked_sub(1)?;
        let Some(error) = self.deviations.first(self.value) else { return Some(true) };
        let below = error.instance_path().as_str().strip_prefix(place);
        Some(!below.is_some_and(|below| below.is_empty() || below.starts_with('/')))
    }
}

/// A step of a path.
enum Step {
    Name(String),
    Index(usize),
}

impl From<LocationSegment<'_>> for Step {
    fn from(segment: LocationSegment<'_>) -> Self {
        match segment {
            LocationSegment::Property(name) => Self::Name(name.into_owned()),
            LocationSegment::Index(index) => Self::Index(index),
        }
    }
}

/// Removes the member at this path if it is null, and that of the other elements of its lists `if everywhere`. Returns whether one
/// was removed.
fn remove(value: &mut Value, path: &[Step], everywhere: bool) -> bool {
    match (value, path) {
        (Value::Object(members), [Step::Name(name)]) => {
            members.get(name).is_some_and(Value::is_null) && members.remove(name).is_some()
        }
        (Value::Object(members), [Step::Name(name), below @ ..]) => {
            members.get_mut(name).is_some_and(|member| remove(member, below, everywhere))
        }
        (Value::Array(elements), [Step::Index(_), below @ ..]) if everywhere => {
            elements.iter_mut().filter_map(|element| remove(element, below, true).then_some(())).count() > 0
        }
        (Value::Array(elements), [Step::Index(index), below @ ..]) => {
            elements.get_mut(*index).is_some_and(|element| remove(element, below, false))
        }
        _ => false,
    }
}

/// Removes the members that are null at and below this place, at most so many, and stores them.
fn take_nulls(value: &mut Value, place: &mut Vec<String>, most: usize, nulls: &mut Vec<Member>) {
    match value {
        Value::Object(members) => members.retain(|name, member| {
            if member.is_null() && nulls.len() < most {
                nulls.push((place.concat(), name.clone()));
                return false;
            }
            if member.is_object() || member.is_array() {
                place.push(format!("/{}", name.replace('~', "~0").replace('/', "~1")));
                take_nulls(member, place, most, nulls);
                place.pop();
            }
            true
        }),
        Value::Array(elements) => {
            for (index, element) in elements.iter_mut().enumerate() {
                place.push(format!("/{index}"));
                take_nulls(element, place, most, nulls);
                place.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
