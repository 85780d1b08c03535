//! Which URIs a resource template stands for (RFC 6570, levels 1 and 2, without prefixes and lists).

use std::collections::BTreeMap;

/// A template as its texts and variables, in turn.
#[derive(Debug, Clone)]
pub(super) struct UriTemplate {
    /// The text before the first variable.
    start: String,
    /// Each variable, with the text behind it.
    variables: Vec<Variable>,
}

#[derive(Debug, Clone)]
struct Variable {
    name: String,
    /// Whether the variable was written `{+name}`.
    is_reserved: bool,
    /// The text behind the variable. Only the last variable may have none.
    then: String,
}

impl UriTemplate {
    /// `None` if the template has other expressions than `{name}` and `{+name}`, a name twice, or two expressions
    /// without text between them, so that it is unclear where the first ends.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('{');
        let start = parts.next().filter(|start| !start.contains('}'))?.to_owned();
        let mut variables: Vec<Variable> = Vec::new();
        for part in parts {
            let (expression, then) = part.split_once('}').filter(|(_, then)| !then.contains('}'))?;
            let name = expression.strip_prefix('+').unwrap_or(expression);
            let is_name =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte));
            if !is_name || variables.iter().any(|earlier| earlier.name == name || earlier.then.is_empty()) {
                return None;
            }
            let is_reserved = expression.starts_with('+');
            variables.push(Variable { name: name.to_owned(), is_reserved, then: then.to_owned() });
        }
        Some(Self { start, variables })
    }

    /// The values of the variables for a URI, decoded; `None` if the template does not stand for it. A value ends where
    /// the text behind its expression occurs first; the last one, where the URI ends with that text.
    pub(super) fn variables_of(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        let mut rest = uri.strip_prefix(self.start.as_str())?;
        let mut values = BTreeMap::new();
        for (index, variable) in self.variables.iter().enumerate() {
            let is_last = index + 1 == self.variables.len();
            let (value, after) = if is_last {
                (rest.strip_suffix(variable.then.as_str())?, "")
            } else {
                rest.split_once(&variable.then)?
            };
            let may_have = |byte: &u8| variable.is_reserved || !b"/?#".contains(byte);
            if value.is_empty() || !value.as_bytes().iter().all(may_have) {
                return None;
            }
            values.insert(variable.name.clone(), decode(value)?);
            rest = after;
        }
        rest.is_empty().then_some(values)
    }
}

/// Decodes `%XX`; `None` if the text is not encoded correctly, or the result is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => digit(bytes.next()?)? * 16 + digit(bytes.next()?)?,
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_stand_for_the_uris_that_their_expressions_allow() {
        for (template, uri, expected) in [
            ("file:///{name}", "file:///a.txt", Some(&[("name", "a.txt")][..])),
            ("file:///{name}", "file:///a/b.txt", None),
            ("file:///{name}", "file:///a%2Fb%20c", Some(&[("name", "a/b c")])),
            ("file:///{name}", "file:///", None),
            ("file:///{name}", "file:///a?b", None),
            ("file:///{name}", "file:///a%2", None),
            ("file:///{name}", "file:///%ff", None),
            ("file:///{+path}", "file:///a/b.txt", Some(&[("path", "a/b.txt")])),
            ("db://{table}/{row}", "db://users/7", Some(&[("table", "users"), ("row", "7")])),
            ("db://{table}/{row}", "db://users/7/8", None),
            ("db://{table}/row", "db://users/row", Some(&[("table", "users")])),
            ("x:{+all}/end", "x:a/end/end", Some(&[("all", "a/end")])),
            ("x:{a}-{b}", "x:1-2-3", Some(&[("a", "1"), ("b", "2-3")])),
            ("x:whole", "x:whole", Some(&[])),
            ("x:whole", "x:wholes", None),
        ] {
            let expected = expected
                .map(|pairs| pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect());
            assert_eq!(UriTemplate::parse(template).unwrap().variables_of(uri), expected, "{template} {uri}");
        }
    }

    #[test]
    fn templates_that_cannot_be_matched_are_refused() {
        for template in
            ["{", "}", "x:{}", "x:{a", "x:a}", "x:{a}{b}", "x:{a}/{a}", "x:{?q}", "x:{a*}", "x:{a:3}", "x:{{a}}"]
        {
            assert!(UriTemplate::parse(template).is_none(), "{template}");
        }
    }
}
