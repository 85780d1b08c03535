//! The values that a URI has for the variables of a template.

use std::collections::{BTreeMap, BTreeSet};

use super::{Expression, Modifier, Operator, Part, TemplateValue, UriTemplate, Variable, encoded, is_escape};

type Values = BTreeMap<String, TemplateValue>;

impl UriTemplate {
    /// Whether it is clear where each value of a URI ends: no variable is twice in the template, and between an expression
    /// and a next one `{name}` or `{+name}` there is text.
    #[must_use]
    pub fn can_be_matched(&self) -> bool {
        let mut names = BTreeSet::new();
        let mut is_behind_expression = false;
        for part in &self.parts {
            let Part::Expression(expression) = part else {
                is_behind_expression = false;
                continue;
            };
            let has_new_names = expression.variables.iter().all(|variable| names.insert(variable.name.as_str()));
            if !has_new_names || is_behind_expression && expression.operator.first().is_none() {
                return false;
            }
            is_behind_expression = true;
        }
        true
    }

    /// The values of the variables, decoded, if the template stands for the URI; `None` if it does not, or if the template
    /// [cannot be matched](Self::can_be_matched).
    ///
    /// * A value ends where the text behind its expression occurs first, and the last one where the URI ends with that text.
    /// * `{name}` and `{+name}` have a value that is not empty; a variable of another expression may have none.
    /// * A value of `{+name}` and `{#name}` may have any characters. A value of others has no `/`, `?` and `#`, but its decoded text
    ///   may contain them: who opens files must check it.
    /// * The names of `{?a,b}` may occur in any order. Another name is part of the map of a variable `{?map*}`, if there is one.
    /// * An exploded variable such as `{/path*}` is a list, or a map. A variable that is not exploded is a text.
    #[must_use]
    pub fn match_uri(&self, uri: &str) -> Option<Values> {
        let has_wrong_escape = uri.match_indices('%').any(|(at, _)| !is_escape(uri, at));
        if has_wrong_escape || !self.can_be_matched() {
            return None;
        }
        // Characters that a URI cannot have mean the same as their encoded form.
        let uri = encoded(uri, true);
        let (mut values, mut rest, mut index) = (Values::new(), uri.as_str(), 0);
        while let Some(part) = self.parts.get(index) {
            index += 1;
            match part {
                Part::Text(text) => rest = rest.strip_prefix(text.as_str())?,
                Part::Expression(expression) => {
                    // One query may be in several expressions.
                    let mut variables: Vec<&Variable> = expression.variables.iter().collect();
                    while let Some(further) = self.continuation(expression, index) {
                        variables.extend(&further.variables);
                        index += 1;
                    }
                    let (own, behind) = rest.split_at_checked(self.next_part(index, rest)?)?;
                    expression.operator.values(&variables, own, &mut values)?;
                    rest = behind;
                }
            }
        }
        rest.is_empty().then_some(values)
    }

    /// The expression at the index, if it continues the query of this one.
    fn continuation(&self, expression: &Expression, index: usize) -> Option<&Expression> {
        let is_query = matches!(expression.operator, Operator::Query | Operator::QueryContinuation);
        match self.parts.get(index)? {
            Part::Expression(next) if is_query && next.operator == Operator::QueryContinuation => Some(next),
            Part::Text(_) | Part::Expression(_) => None,
        }
    }

    /// Where the parts from this index on may begin. Expressions that begin with a character may be empty.
    fn next_part(&self, index: usize, rest: &str) -> Option<usize> {
        let mut nearest: Option<usize> = None;
        let mut consider = |found: Option<usize>| {
            nearest = [nearest, found].into_iter().flatten().min();
            nearest
        };
        for (at, part) in self.parts.iter().enumerate().skip(index) {
            match part {
                Part::Text(text) if at + 1 == self.parts.len() => {
                    return consider(rest.strip_suffix(text.as_str()).map(str::len));
                }
                Part::Text(text) => return consider(rest.find(text.as_str())),
                Part::Expression(expression) => {
                    consider(expression.operator.first().and_then(|first| rest.find(first)));
                }
            }
        }
        consider(Some(rest.len()))
    }
}

impl Operator {
    /// Reads the text of an expression, or of several that are one query. `None` if it is not one that they make.
    fn values(self, variables: &[&Variable], text: &str, values: &mut Values) -> Option<()> {
        let text = match self.first() {
            None => Some(text).filter(|text| !text.is_empty())?,
            Some(_) if text.is_empty() => return Some(()),
            // Of a query whose first variables have no values, the continuation is what there is.
            Some('?') => text.strip_prefix(['?', '&'])?,
            Some(first) => text.strip_prefix(first)?,
        };
        if !self.allows_reserved() {
            let forbidden: &[char] = if self == Self::PathSegment { &['?', '#'] } else { &['/', '?', '#'] };
            if text.contains(forbidden) {
                return None;
            }
        }
        if self.is_named() {
            self.named_values(variables, text, values)
        } else {
            self.listed_values(variables, text, values)
        }
    }

    /// Reads values in the order of their variables. What is more than the variables is of the last one.
    fn listed_values(self, variables: &[&Variable], text: &str, values: &mut Values) -> Option<()> {
        let mut rest = Some(text);
        for (index, variable) in variables.iter().enumerate() {
            let Some(own) = rest else { break };
            let is_last = index + 1 == variables.len();
            if variable.modifier == Modifier::Explode {
                let list = own.split(self.separator()).map(decode).collect::<Option<Vec<_>>>()?;
                values.insert(variable.name.clone(), TemplateValue::List(list));
                return is_last.then_some(());
            }
            let (value, behind) = match own.split_once(self.separator()) {
                Some((value, behind)) if !is_last => (value, Some(behind)),
                // A separator that belongs to the value of these operators would be encoded.
                Some(_) if matches!(self, Self::Label | Self::PathSegment) => return None,
                Some(_) | None => (own, None),
            };
            values.insert(variable.name.clone(), variable.text(value)?);
            rest = behind;
        }
        Some(())
    }

    fn named_values(self, variables: &[&Variable], text: &str, values: &mut Values) -> Option<()> {
        let map = variables.iter().find(|variable| variable.modifier == Modifier::Explode);
        for piece in text.split(self.separator()) {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            let decoded = decode(name)?;
            let found = variables.iter().find(|variable| variable.name == name || variable.name == decoded);
            match found {
                Some(variable) if variable.modifier == Modifier::Explode => {
                    let list = values.entry(variable.name.clone()).or_insert_with(|| TemplateValue::List(Vec::new()));
                    let TemplateValue::List(list) = list else { return None };
                    list.push(decode(value)?);
                }
                Some(variable) => {
                    if values.insert(variable.name.clone(), variable.text(value)?).is_some() {
                        return None;
                    }
                }
                None => {
                    let members = values.entry(map?.name.clone()).or_insert_with(|| TemplateValue::Map(Vec::new()));
                    let TemplateValue::Map(members) = members else { return None };
                    members.push((decoded, decode(value)?));
                }
            }
        }
        Some(())
    }
}

impl Variable {
    fn text(&self, value: &str) -> Option<TemplateValue> {
        let text = decode(value)?;
        let is_too_long = match self.modifier {
            Modifier::Prefix(length) => text.chars().count() > length,
            Modifier::None | Modifier::Explode => false,
        };
        (!is_too_long).then_some(TemplateValue::Text(text))
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
