//! `application/x-www-form-urlencoded`: bodies of requests, and queries.

use std::fmt;

use form_urlencoded::Serializer;

/// A body or a query. Its `Debug` form is empty, because it contains codes and secrets.
pub(super) struct Form(Serializer<'static, String>);

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Form")
    }
}

impl Form {
    pub(super) fn new() -> Self {
        Self(Serializer::new(String::new()))
    }

    pub(super) fn add(&mut self, name: &str, value: &str) {
        self.0.append_pair(name, value);
    }

    pub(super) fn add_some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.0.finish()
    }
}

/// A text as it is written in a form.
pub(super) fn encode_component(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// The value of a parameter; `Err` if it occurs twice, because two readers could see different ones.
pub(super) fn parameter(form: &str, name: &str) -> Result<Option<String>, Repeated> {
    let mut values = form_urlencoded::parse(form.as_bytes()).filter(|(own, _)| own == name).map(|(_, value)| value);
    let first = values.next();
    if values.next().is_some() { Err(Repeated) } else { Ok(first.map(std::borrow::Cow::into_owned)) }
}

/// A parameter occurs twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repeated;
