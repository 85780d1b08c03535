//! Which tools, prompts and resources of a server clients may use.

use mcp_proto::UsageError;
use mcp_proto::server::Principal;
use mcp_proto::spec::Primitive;

use super::canonical_uri;
use super::readings::{self, Pattern, Reading};

/// The maximum number of characters of a pattern.
const PATTERN: usize = 1024;

/// Which tools, prompts and resources of a server clients may use: those that no rule denies. If there are rules that
/// allow some of a kind, clients may use only those of that kind that one of these rules allows.
///
/// What a client may not use is left out of lists, and a request for it is answered as one for an unknown name. The rest of
/// lists, and all other messages, stay as they are. Descriptions and results are not searched: they may mention anything.
///
/// # Example
///
/// ```
/// use mcp_intermediary::relay::{Filter, Rule};
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
    /// What this one allows must be allowed by it, too.
    other: Option<Box<Self>>,
}

/// A rule of a [`Filter`]: a pattern of names or URIs that are allowed or denied.
///
/// In a pattern, `*` stands for any characters, also none and also `/`, and `?` for any one character. What is denied is
/// denied in upper and lower case, what is allowed only as the pattern is written.
///
/// Where there are rules for resources, a URI is denied unless it is in canonical form, which parsers of RFC 3986 and
/// of the WHATWG URL standard both leave unchanged: a scheme and a host in lower case, two slashes after `http:` and
/// its like, three after `file:`; no user name, default port, empty label of a host, backslash, blank, control
/// character or segment `.` or `..`, also not escaped; escapes only where they are needed, in capitals, and none that
/// begins a host, ends a part of one, or is a blank that parsers remove, when it is decoded once or repeatedly. The URI is
/// compared as it is, decoded, decoded repeatedly, and without its query and fragment. It is denied if one of these
/// forms is denied, as it is, with its host as the first segment of the path, or with its path from a drive of Windows
/// on. It is allowed if all of these forms are allowed as they are; the form without the query must be allowed only where
/// the pattern has no `?` for the query.
#[derive(Debug, Clone)]
pub struct Rule {
    effect: Effect,
    primitive: Primitive,
    pattern: Pattern,
    principal: Option<Principal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Allow,
    Deny,
}

impl Rule {
    /// Allows everything of this kind whose name or URI matches the pattern. All others of this kind are denied, unless
    /// another such rule allows them.
    ///
    /// # Errors
    ///
    /// [`UsageError::InvalidPattern`] if the pattern is empty or has more than 1,024 characters, and
    /// [`UsageError::NotCanonical`] if it is for resources and can match no canonical URI.
    pub fn allow(primitive: Primitive, pattern: &str) -> Result<Self, UsageError> {
        Self::new(Effect::Allow, primitive, pattern)
    }

    /// Denies what has such a name or URI, whatever other rules allow.
    ///
    /// # Errors
    ///
    /// [`UsageError::InvalidPattern`] if the pattern is empty or has more than 1,024 characters, and
    /// [`UsageError::NotCanonical`] if it is for resources and can match no canonical URI.
    pub fn deny(primitive: Primitive, pattern: &str) -> Result<Self, UsageError> {
        Self::new(Effect::Deny, primitive, pattern)
    }

    fn new(effect: Effect, primitive: Primitive, pattern: &str) -> Result<Self, UsageError> {
        if pattern.is_empty() || pattern.chars().count() > PATTERN {
            return Err(UsageError::InvalidPattern { limit: PATTERN });
        }
        let pattern = match primitive {
            Primitive::Tool | Primitive::Prompt => Pattern::of_names(pattern),
            Primitive::Resource => {
                canonical_uri::check_pattern(pattern).map_err(|reason| UsageError::NotCanonical { reason })?;
                Pattern::of_uris(pattern)
            }
        };
        Ok(Self { effect, primitive, pattern, principal: None })
    }

    /// Restricts the rule to requests of this principal, which only a gateway knows. Subscriptions of clients of 2026-07-28 to
    /// resources of a server of an earlier revision are joined, so that such a rule does not apply to them.
    #[must_use]
    pub fn for_principal(mut self, principal: Principal) -> Self {
        self.principal = Some(principal);
        self
    }

    fn applies_to(&self, primitive: Primitive, principal: Option<&Principal>) -> bool {
        self.primitive == primitive && self.principal.as_ref().is_none_or(|own| Some(own) == principal)
    }

    fn matches(&self, readings: &[Reading]) -> bool {
        match self.effect {
            Effect::Allow => self.pattern.matches_all(readings),
            Effect::Deny => self.pattern.matches_any(readings),
        }
    }
}

impl Filter {
    /// A filter without rules, which allows everything.
    #[must_use]
    pub const fn new() -> Self {
        Self { rules: Vec::new(), other: None }
    }

    /// The filter that allows what both of these allow.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_intermediary::relay::{Filter, Rule};
    /// use mcp_proto::spec::Primitive::Tool;
    ///
    /// let mut reading = Filter::new();
    /// reading.add(Rule::allow(Tool, "read_*")?);
    /// let mut files = Filter::new();
    /// files.add(Rule::allow(Tool, "*_file")?);
    /// let both = reading.and(files);
    /// assert!(both.allows(Tool, "read_file", None));
    /// assert!(!both.allows(Tool, "read_mail", None) && !both.allows(Tool, "write_file", None));
    /// # Ok::<(), mcp_proto::UsageError>(())
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let last = match self.other {
            Some(own) => own.and(other),
            None => other,
        };
        Self { rules: self.rules, other: Some(Box::new(last)) }
    }

    /// Adds a rule. The order of rules does not matter.
    pub fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// Whether a client may use what has this name or URI. The principal is `None` if it is not known.
    #[must_use]
    pub fn allows(&self, primitive: Primitive, name: &str, principal: Option<&Principal>) -> bool {
        self.decide(primitive, principal, &|| match primitive {
            Primitive::Tool | Primitive::Prompt => Some(readings::of_name(name)),
            Primitive::Resource => canonical_uri::check(name).is_ok().then(|| readings::of_uri(name)),
        })
    }

    /// Whether a client may see a resource template, and complete its arguments. A template is compared as it is written:
    /// what it is expanded to is a URI, which is checked when the client uses it.
    #[must_use]
    pub fn allows_template(&self, template: &str, principal: Option<&Principal>) -> bool {
        self.decide(Primitive::Resource, principal, &|| {
            canonical_uri::check_template(template).is_ok().then(|| readings::of_template(template))
        })
    }

    /// Applies the rules to these readings; without them, a client may not use it if there are rules.
    fn decide(
        &self,
        primitive: Primitive,
        principal: Option<&Principal>,
        readings: &dyn Fn() -> Option<Vec<Reading>>,
    ) -> bool {
        self.decide_alone(primitive, principal, readings)
            && self.other.as_ref().is_none_or(|other| other.decide(primitive, principal, readings))
    }

    fn decide_alone(
        &self,
        primitive: Primitive,
        principal: Option<&Principal>,
        readings: &dyn Fn() -> Option<Vec<Reading>>,
    ) -> bool {
        let rules = || self.rules.iter().filter(|rule| rule.applies_to(primitive, principal));
        if rules().next().is_none() {
            return true;
        }
        let Some(readings) = readings() else { return false };
        let mut denying = rules().filter(|rule| rule.effect == Effect::Deny);
        let mut allowing = rules().filter(|rule| rule.effect == Effect::Allow).peekable();
        !denying.any(|rule| rule.matches(&readings))
            && (allowing.peek().is_none() || allowing.any(|rule| rule.matches(&readings)))
    }

    /// Whether there are rules for a kind, perhaps for some principals only.
    pub(super) fn has_rules_for(&self, primitive: Primitive) -> bool {
        self.rules.iter().any(|rule| rule.primitive == primitive)
            || self.other.as_ref().is_some_and(|other| other.has_rules_for(primitive))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(rules: &[(Effect, Primitive, &str)]) -> Filter {
        let rules = rules.iter().map(|(effect, primitive, pattern)| Rule::new(*effect, *primitive, pattern));
        Filter { rules: rules.collect::<Result<_, _>>().expect("patterns"), other: None }
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
    fn two_filters_together_allow_what_each_of_them_allows() {
        use Primitive::{Prompt, Resource, Tool};
        let names = ["a", "ab", "b", "bc", "file:///a", "file:///b"];
        let all = [
            filter(&[]),
            filter(&[(ALLOW, Tool, "a*"), (DENY, Resource, "file:///a")]),
            filter(&[(DENY, Tool, "ab"), (ALLOW, Prompt, "b*")]),
            filter(&[(ALLOW, Tool, "*b*"), (ALLOW, Resource, "file:///*")]),
        ];
        for one in &all {
            for two in &all {
                for three in &all {
                    let together = one.clone().and(two.clone()).and(three.clone());
                    for primitive in [Tool, Prompt, Resource] {
                        let has_rules = [one, two, three].iter().any(|filter| filter.has_rules_for(primitive));
                        assert_eq!(together.has_rules_for(primitive), has_rules);
                        for name in names {
                            let allowed = [one, two, three].iter().all(|filter| filter.allows(primitive, name, None));
                            assert_eq!(together.allows(primitive, name, None), allowed, "{primitive:?} {name}");
                        }
                    }
                }
            }
        }
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
