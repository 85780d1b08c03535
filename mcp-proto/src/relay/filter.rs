//! Which tools, prompts and resources of a server clients may use.

use super::glob::Glob;
use mcp_proto::UsageError;
use mcp_proto::server::Principal;
use mcp_proto::spec::Primitive;

/// The maximum number of characters of a pattern.
const PATTERN: usize = 1024;

/// Which tools, prompts and resources of a server clients may use: those that no rule denies and, if there are rules that
/// allow some of their kind, that one of these allows.
///
/// What a client may not use is left out of lists, and a request for it is answered as one for an unknown name. The rest of
/// lists, and all other messages, stay as they are. Descriptions and results are not searched: they may mention anything.
///
/// # Example
///
/// ```
/// use mcp_proto::relay::{Filter, Rule};
/// use mcp_proto::server::Principal;
/// use mcp_proto::spec::Primitive::{Prompt, Tool};
///
/// let ada = Principal::new("ada");
/// let mut filter = Filter::new();
/// filter.add(Rule::allow(Tool, "read_*")?);
/// filter.add(Rule::deny(Tool, "*_secret")?);
/// filter.add(Rule::allow(Tool, "write_*")?.for_principal(ada.clone()));
/// assert!(filter.allows(Tool, "read_file", None) && !filter.allows(Tool, "read_secret", None));
/// assert!(!filter.allows(Tool, "write_file", None) && filter.allows(Tool, "write_file", Some(&ada)));
/// assert!(filter.allows(Prompt, "review", None), "there are no rules for prompts");
/// # Ok::<(), mcp_proto::UsageError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Filter {
    rules: Vec<Rule>,
}

/// A rule of a [`Filter`]: a pattern of names or URIs that are allowed or denied.
///
/// In a pattern, `*` stands for any characters, also none and also `/`, and `?` for any one character. What is denied is
/// denied in upper and lower case, what is allowed only as the pattern is written. A URI is also compared without escapes
/// (`%2e`), empty segments and the segments `.` and `..` (RFC 3986, section 6.2.2): it is denied if one of its forms is, and
/// allowed if both are.
#[derive(Debug, Clone)]
pub struct Rule {
    effect: Effect,
    primitive: Primitive,
    /// One for each form of a name.
    globs: Vec<Glob>,
    principal: Option<Principal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Allow,
    Deny,
}

impl Rule {
    /// Allows what has such a name or URI, and denies every other of its kind for which there is no such rule.
    ///
    /// # Errors
    ///
    /// [`UsageError::InvalidPattern`] if the pattern is empty or has more than 1,024 characters.
    pub fn allow(primitive: Primitive, pattern: &str) -> Result<Self, UsageError> {
        Self::new(Effect::Allow, primitive, pattern)
    }

    /// Denies what has such a name or URI, whatever other rules allow.
    ///
    /// # Errors
    ///
    /// [`UsageError::InvalidPattern`] if the pattern is empty or has more than 1,024 characters.
    pub fn deny(primitive: Primitive, pattern: &str) -> Result<Self, UsageError> {
        Self::new(Effect::Deny, primitive, pattern)
    }

    fn new(effect: Effect, primitive: Primitive, pattern: &str) -> Result<Self, UsageError> {
        if pattern.is_empty() || pattern.chars().count() > PATTERN {
            return Err(UsageError::InvalidPattern { limit: PATTERN });
        }
        let forms = Forms::of(primitive, pattern);
        let globs = forms.for_effect(effect).iter().map(|form| Glob::new(form)).collect();
        Ok(Self { effect, primitive, globs, principal: None })
    }

    /// Restricts the rule to requests of this principal, which only a gateway knows.
    #[must_use]
    pub fn for_principal(mut self, principal: Principal) -> Self {
        self.principal = Some(principal);
        self
    }

    fn applies_to(&self, primitive: Primitive, principal: Option<&Principal>) -> bool {
        self.primitive == primitive && self.principal.as_ref().is_none_or(|own| Some(own) == principal)
    }

    fn matches(&self, name: &Forms) -> bool {
        let mut pairs = self.globs.iter().zip(name.for_effect(self.effect));
        match self.effect {
            Effect::Allow => pairs.all(|(glob, form)| glob.matches(form)),
            Effect::Deny => pairs.any(|(glob, form)| glob.matches(form)),
        }
    }
}

impl Filter {
    /// A filter without rules, which allows everything.
    #[must_use]
    pub const fn new() -> Self {
        Self { rules: Vec::new() }
    }

    /// Adds a rule. The order of rules does not matter.
    pub fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// Whether a client may use what has this name or URI. The principal is `None` if it is not known.
    #[must_use]
    pub fn allows(&self, primitive: Primitive, name: &str, principal: Option<&Principal>) -> bool {
        let name = Forms::of(primitive, name);
        let rules = || self.rules.iter().filter(|rule| rule.applies_to(primitive, principal));
        let mut denying = rules().filter(|rule| rule.effect == Effect::Deny);
        let mut allowing = rules().filter(|rule| rule.effect == Effect::Allow).peekable();
        !denying.any(|rule| rule.matches(&name))
            && (allowing.peek().is_none() || allowing.any(|rule| rule.matches(&name)))
    }

    /// Whether there are rules for a kind, perhaps for some principals only.
    pub(super) fn has_rules_for(&self, primitive: Primitive) -> bool {
        self.rules.iter().any(|rule| rule.primitive == primitive)
    }
}

/// The forms of a name or URI, or of a pattern, that are compared.
struct Forms {
    forms: Vec<String>,
    /// The number of forms at the beginning that differ in upper and lower case.
    cased: usize,
}

impl Forms {
    fn of(primitive: Primitive, name: &str) -> Self {
        let mut forms = vec![name.to_owned()];
        if primitive == Primitive::Resource {
            forms.push(normalized(name));
        }
        let cased = forms.len();
        let folded: Vec<_> = forms.iter().map(|form| without_case(form)).collect();
        forms.extend(folded);
        Self { forms, cased }
    }

    fn for_effect(&self, effect: Effect) -> &[String] {
        match effect {
            Effect::Allow => self.forms.get(..self.cased).unwrap_or_default(),
            Effect::Deny => &self.forms,
        }
    }
}

/// A text in which letters that differ in case only are equal. In both directions, because some letters, such as the sign
/// of kelvin, have the case of others in only one.
pub(super) fn without_case(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).flat_map(char::to_uppercase).collect()
}

/// A URI without escapes, empty segments and dot segments, as servers see it that resolve it to a file.
fn normalized(uri: &str) -> String {
    let plain = without_escapes(uri).replace('\\', "/");
    let (scheme, path) = match plain.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            plain.split_at(scheme.len() + "://".len() + end)
        }
        None => ("", plain.as_str()),
    };
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    let (before, after) = (if path.starts_with('/') { "/" } else { "" }, if path.ends_with('/') { "/" } else { "" });
    let after = if segments.is_empty() { "" } else { after };
    format!("{scheme}{before}{}{after}", segments.join("/"))
}

fn without_escapes(text: &str) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = if let [high, low, ..] = after { hexadecimal(*high).zip(hexadecimal(*low)) } else { None };
        rest = after;
        match escaped.filter(|_| *first == b'%') {
            Some((high, low)) => {
                plain.push(high << 4 | low);
                rest = after.get(2..).unwrap_or_default();
            }
            None => plain.push(*first),
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(rules: &[(Effect, Primitive, &str)]) -> Filter {
        let rules = rules.iter().map(|(effect, primitive, pattern)| Rule::new(*effect, *primitive, pattern));
        Filter { rules: rules.collect::<Result<_, _>>().expect("patterns") }
    }

    const DENY: Effect = Effect::Deny;
    const ALLOW: Effect = Effect::Allow;

    #[test]
    fn what_is_denied_is_denied_and_allowing_some_denies_the_others() {
        use Primitive::{Prompt, Tool};
        for (rules, allowed, denied) in [
            (&[][..], &["a", ""][..], &[][..]),
            (&[(DENY, Tool, "a*")], &["b"], &["a", "ab"]),
            (&[(ALLOW, Tool, "a*")], &["a", "ab"], &["b", ""]),
            (&[(ALLOW, Tool, "a*"), (ALLOW, Tool, "b")], &["ab", "b"], &["bc"]),
            (&[(ALLOW, Tool, "*"), (DENY, Tool, "a")], &["b"], &["a"]),
            (&[(DENY, Tool, "a"), (ALLOW, Tool, "a")], &[], &["a", "b"]),
            (&[(DENY, Prompt, "*"), (ALLOW, Prompt, "x")], &["a"], &[]),
        ] {
            let filter = filter(rules);
            assert!(allowed.iter().all(|name| filter.allows(Tool, name, None)), "{rules:?}");
            assert!(!denied.iter().any(|name| filter.allows(Tool, name, None)), "{rules:?}");
        }
    }

    #[test]
    fn letter_case_evades_neither_kind_of_rule() {
        use Primitive::Tool;
        let denying = filter(&[(DENY, Tool, "shell_k?")]);
        for name in ["shell_kx", "SHELL_KX", "Shell_kX", "\u{17f}hell_\u{212a}x", "shell_kß"] {
            assert!(!denying.allows(Tool, name, None), "{name}");
        }
        let allowing = filter(&[(ALLOW, Tool, "read")]);
        assert!(allowing.allows(Tool, "read", None) && !allowing.allows(Tool, "Read", None));
    }

    #[test]
    fn a_uri_is_compared_in_all_its_forms() {
        use Primitive::Resource;
        let denying = filter(&[(DENY, Resource, "file:///etc/*")]);
        for uri in [
            "file:///etc/passwd",
            "FILE:///ETC/passwd",
            "file:///etc%2fpasswd",
            "file:///%65tc/passwd",
            "file:///x/../etc/passwd",
            "file:///x/%2E%2e/etc/passwd",
            "file:////etc//passwd",
            "file:///./etc/passwd",
            "file:///..\\etc\\passwd",
        ] {
            assert!(!denying.allows(Resource, uri, None), "{uri}");
        }
        assert!(denying.allows(Resource, "file:///home/etc/x", None));
        let allowing = filter(&[(ALLOW, Resource, "file:///home/a%20b/*"), (ALLOW, Resource, "note:*")]);
        for uri in ["file:///home/a%20b/x", "file:///home/a%20b/x/../y", "note:1", "note:a/b/"] {
            assert!(allowing.allows(Resource, uri, None), "{uri}");
        }
        for uri in ["file:///home/a%20b/../x", "file:///home/a%20b/%2e%2E/x", "File:///home/a%20b/x", "file:///x"] {
            assert!(!allowing.allows(Resource, uri, None), "{uri}");
        }
    }

    #[test]
    fn the_normal_form_of_a_uri_has_no_escapes_and_no_dot_segments() {
        for (uri, form) in [
            ("file:///a/./b//c/../d/", "file:///a/b/d/"),
            ("file:///../..", "file:///"),
            ("http://h%41:1/a?x=%2F", "http://hA:1/a?x=/"),
            ("http://h", "http://h"),
            ("note:%zz%4", "note:%zz%4"),
            ("note:%ff", "note:\u{fffd}"),
            ("a/b/..", "a"),
            ("", ""),
        ] {
            assert_eq!(normalized(uri), form);
        }
    }

    #[test]
    fn a_rule_for_a_principal_applies_to_no_other() {
        let (ada, bob) = (Principal::new("ada"), Principal::new("bob"));
        let mut filter = filter(&[(DENY, Primitive::Tool, "a")]);
        filter.add(Rule::deny(Primitive::Tool, "b").expect("a pattern").for_principal(ada.clone()));
        let allowed = |principal| ["a", "b", "c"].map(|name| filter.allows(Primitive::Tool, name, principal));
        assert_eq!(allowed(Some(&ada)), [false, false, true]);
        assert_eq!(allowed(Some(&bob)), [false, true, true]);
        assert_eq!(allowed(None), [false, true, true]);
    }

    #[test]
    fn a_pattern_is_neither_empty_nor_too_long() {
        assert!(Rule::allow(Primitive::Tool, &"é".repeat(PATTERN)).is_ok());
        for pattern in ["", &"a".repeat(PATTERN + 1)] {
            let error = Rule::deny(Primitive::Tool, pattern).unwrap_err();
            assert_eq!(error, UsageError::InvalidPattern { limit: PATTERN });
        }
    }
}
