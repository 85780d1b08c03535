//! The URI that a template makes of values (RFC 6570, section 3).

use std::collections::BTreeMap;

use super::{Expression, Modifier, Operator, Part, TemplateValue, UriTemplate, Variable, encoded};

impl UriTemplate {
    /// The URI with these values in the place of the expressions. A variable without a value, with an empty list or with an
    /// empty map leaves nothing.
    ///
    /// # Example
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use mcp_model::{TemplateValue, UriTemplate};
    ///
    /// let template: UriTemplate = "notes://{+folder}{?q,limit}".parse()?;
    /// let values = [("folder", "a/b"), ("q", "c & d")];
    /// let values = values.map(|(name, text)| (name.to_owned(), TemplateValue::from(text)));
    /// assert_eq!(template.expand(&BTreeMap::from(values)), "notes://a/b?q=c%20%26%20d");
    /// # Ok::<(), mcp_model::InvalidUriTemplate>(())
    /// ```
    #[must_use]
    pub fn expand(&self, values: &BTreeMap<String, TemplateValue>) -> String {
        let mut uri = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => uri.push_str(text),
                Part::Expression(expression) => expression.expand(values, &mut uri),
            }
        }
        uri
    }
}

impl Expression {
    fn expand(&self, values: &BTreeMap<String, TemplateValue>, uri: &mut String) {
        let mut is_first = true;
        for variable in &self.variables {
            let Some(value) = values.get(&variable.name) else { continue };
            for piece in variable.pieces(value, self.operator) {
                let between = if is_first { self.operator.first() } else { Some(self.operator.separator()) };
                uri.extend(between);
                uri.push_str(&piece);
                is_first = false;
            }
        }
    }
}

impl Variable {
    /// What is written for a value, between separators.
    fn pieces(&self, value: &TemplateValue, operator: Operator) -> Vec<String> {
        let encoded = |text: &str| encoded(text, operator.allows_reserved());
        let named = |name: &str, text: String| match (operator, text.is_empty()) {
            (Operator::PathParameter, true) => name.to_owned(),
            _ if operator.is_named() => format!("{name}={text}"),
            _ => text,
        };
        let pair = |between: &str, (name, text): &(String, String)| encoded(name) + between + &encoded(text);
        match (value, self.modifier) {
            (TemplateValue::Text(text), Modifier::Prefix(length)) => {
                let end = text.char_indices().nth(length).map_or(text.len(), |(end, _)| end);
                vec![named(&self.name, encoded(text.get(..end).unwrap_or(text)))]
            }
            (TemplateValue::Text(text), Modifier::None | Modifier::Explode) => vec![named(&self.name, encoded(text))],
            (TemplateValue::List(list), Modifier::Explode) => {
                list.iter().map(|text| named(&self.name, encoded(text))).collect()
            }
            (TemplateValue::Map(members), Modifier::Explode) => {
                members.iter().map(|member| pair("=", member)).collect()
            }
            (TemplateValue::List(list), _) if list.is_empty() => Vec::new(),
            (TemplateValue::Map(members), _) if members.is_empty() => Vec::new(),
            (TemplateValue::List(list), _) => {
                vec![named(&self.name, list.iter().map(|text| encoded(text)).collect::<Vec<_>>().join(","))]
            }
            (TemplateValue::Map(members), _) => {
                let pairs: Vec<_> = members.iter().map(|member| pair(",", member)).collect();
                vec![named(&self.name, pairs.join(","))]
            }
        }
    }
}
