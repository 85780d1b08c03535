//! The names under which clients see tools and prompts.
//!
//! A name is the prefix of its server, two underscores, and the name that the server uses. It follows from these two alone,
//! so that it does not change when other servers appear, and a call finds its server without any state. Only names that
//! were shortened, or that have no prefix, must be stored; they are learnt from lists.

use std::collections::BTreeMap;

use mcp_proto::UsageError;

use super::config::{Naming, ServerConfig};
use super::event::ServerKey;
use super::origin::hash;

/// The maximum length of a name, which several clients enforce.
const LONGEST: usize = 64;
/// The maximum length of a prefix.
const LONGEST_PREFIX: usize = 24;
/// Between the prefix and the name.
const SEPARATOR: &str = "__";
/// The length of the end of a shortened name: a hyphen and a checksum.
const CHECKSUM: usize = 17;
/// The maximum number of stored names, and of their bytes; each server has its share.
const STORED: usize = 8192;
const STORED_BYTES: usize = 1024 * 1024;

/// The prefixes of all servers.
#[derive(Debug)]
pub(super) struct Prefixes(Vec<Box<str>>);

impl Prefixes {
    /// # Errors
    ///
    /// [`UsageError`] if no prefix can be made of a name, or two would be equal.
    pub(super) fn new(servers: &[ServerConfig]) -> Result<Self, UsageError> {
        let mut prefixes: Vec<Box<str>> = Vec::new();
        for server in servers {
            let prefix = prefix_of(&server.name);
            if prefix.is_empty() {
                return Err(UsageError::ServerName { name: server.name.clone() });
            }
            if let Some(equal) = prefixes.iter().position(|other| **other == *prefix) {
                let other = servers.get(equal).map_or_else(Box::default, |other| other.name.clone());
                return Err(UsageError::SameServerName { name: server.name.clone(), other, prefix: prefix.into() });
            }
            prefixes.push(prefix.into());
        }
        Ok(Self(prefixes))
    }

    pub(super) fn get(&self, server: ServerKey) -> &str {
        self.0.get(server.index()).map_or("", |prefix| prefix)
    }

    pub(super) fn find(&self, prefix: &str) -> Option<ServerKey> {
        self.0.iter().position(|known| **known == *prefix).map(ServerKey::new)
    }

    /// The server of a name with a prefix, and the rest of the name.
    fn split<'n>(&self, name: &'n str) -> Option<(ServerKey, &'n str)> {
        // No prefix contains the separator, or ends with a part of it.
        let (prefix, rest) = name.split_once(SEPARATOR)?;
        Some((self.find(prefix)?, rest))
    }
}

/// The prefix for a server of this name: its letters, digits, hyphens and single underscores.
fn prefix_of(name: &str) -> String {
    let mut prefix = String::new();
    for character in name.chars() {
        let character = if character.is_ascii_alphanumeric() || character == '_' { character } else { '-' };
        let is_repeated = matches!(character, '_' | '-') && prefix.ends_with(character);
        if prefix.len() < LONGEST_PREFIX && !is_repeated {
            prefix.push(character);
        }
    }
    prefix.trim_matches(['_', '-']).to_owned()
}

/// The names of the tools or of the prompts that do not follow from the prefix alone.
#[derive(Debug, Default)]
pub(super) struct Names {
    stored: BTreeMap<Box<str>, (ServerKey, Box<str>)>,
    /// The number of stored names of each server, and of their bytes.
    usage: BTreeMap<ServerKey, (usize, usize)>,
}

/// What the name in a request stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// This name of this server.
    Known(ServerKey, String),
    /// Perhaps a name that was not listed yet: of this server or, with `None`, of any.
    Unlisted(Option<ServerKey>),
    /// No server can have it.
    Unknown,
}

impl Names {
    /// Returns the name under which clients see a listed tool or prompt; `None` if it cannot be distinguished from
    /// another one.
    pub(super) fn publish(
        &mut self,
        server: ServerKey,
        name: &str,
        naming: Naming,
        prefixes: &Prefixes,
    ) -> Option<String> {
        // A name that looks like one with a prefix would hide that of another server.
        let may_be_unprefixed = naming == Naming::Unprefixed && name.len() <= LONGEST && prefixes.split(name).is_none();
        if may_be_unprefixed && self.store(name, server, name, prefixes) {
            return Some(name.to_owned());
        }
        let full = format!("{}{SEPARATOR}{name}", prefixes.get(server));
        if full.len() <= LONGEST {
            return Some(full);
        }
        let mut end = LONGEST - CHECKSUM;
        while !full.is_char_boundary(end) {
            end -= 1;
        }
        let start = full.get(..end).unwrap_or_default();
        let short = format!("{start}-{:016x}", hash(name.bytes()));
        self.store(&short, server, name, prefixes).then_some(short)
    }

    /// Stores what a name stands for. `false` if it stands for something else, or the server has no room.
    fn store(&mut self, public: &str, server: ServerKey, name: &str, prefixes: &Prefixes) -> bool {
        if let Some((owner, known)) = self.stored.get(public) {
            return *owner == server && **known == *name;
        }
        let servers = prefixes.0.len().max(1);
        let (count, bytes) = self.usage.entry(server).or_default();
        let more = public.len() + name.len();
        if *count >= STORED / servers || *bytes + more > STORED_BYTES / servers {
            return false;
        }
        (*count, *bytes) = (*count + 1, *bytes + more);
        self.stored.insert(public.into(), (server, name.into()));
        true
    }

    /// Finds what a name from a client stands for. If the servers `were_listed`, all of their names are known.
    pub(super) fn resolve(&self, name: &str, naming: Naming, prefixes: &Prefixes, were_listed: bool) -> Named {
        if let Some((server, name)) = self.stored.get(name) {
            return Named::Known(*server, String::from(&**name));
        }
        match prefixes.split(name) {
            // Without prefixes, the order in which servers are listed decides which of them keeps a name.
            Some((server, _)) if is_shortened(name) && !were_listed => {
                Named::Unlisted(Some(server).filter(|_| naming == Naming::Prefixed))
            }
            Some((server, rest)) => Named::Known(server, rest.to_owned()),
            None if naming == Naming::Unprefixed && !were_listed => Named::Unlisted(None),
            None => Named::Unknown,
        }
    }
}

/// Whether a name with a prefix looks like one that was shortened.
fn is_shortened(name: &str) -> bool {
    // A character of several bytes may have been left out in front of the checksum.
    let at = name.len().checked_sub(CHECKSUM).filter(|at| *at + 4 > LONGEST - CHECKSUM);
    let end = at.and_then(|at| name.get(at..)).and_then(|end| end.strip_prefix('-'));
    end.is_some_and(|end| end.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay;

    fn prefixes(names: &[&str]) -> Result<Prefixes, UsageError> {
        let servers = names.iter().map(|name| ServerConfig::new(name, relay::Config::default()));
        Prefixes::new(&servers.collect::<Vec<_>>())
    }

    #[test]
    fn a_prefix_has_only_characters_that_names_of_tools_may_have() {
        for (name, prefix) in [
            ("files", "files"),
            ("My Server", "My-Server"),
            ("@acme/files (v2)", "acme-files-v2"),
            ("a__b", "a_b"),
            ("__a__", "a"),
            ("caf\u{e9}", "caf"),
            ("a-very-long-name-of-a-server", "a-very-long-name-of-a-se"),
            ("exactly-twenty-three_____x", "exactly-twenty-three_x"),
        ] {
            assert_eq!(prefix_of(name), prefix);
        }
        for name in ["", "__", "\u{1f980}"] {
            assert!(matches!(prefixes(&[name]), Err(UsageError::ServerName { .. })), "{name}");
        }
        assert!(matches!(prefixes(&["a b", "a-b"]), Err(UsageError::SameServerName { .. })));
    }

    #[test]
    fn a_call_finds_the_server_whose_list_contained_the_name() {
        let prefixes = prefixes(&["a", "a_b", "long"]).expect("different prefixes");
        let long = "n".repeat(80);
        for naming in [Naming::Prefixed, Naming::Unprefixed] {
            let mut names = Names::default();
            for (server, name) in
                [(0, "b__x"), (1, "x"), (0, "_x"), (2, "x"), (2, &long), (2, &long[1..]), (0, "long__x"), (1, "\u{e9}")]
            {
                let server = ServerKey::new(server);
                let public = names.publish(server, name, naming, &prefixes).expect("room");
                assert!(public.len() <= LONGEST, "{public}");
                let found = names.resolve(&public, naming, &prefixes, false);
                assert_eq!(found, Named::Known(server, name.to_owned()), "{public}");
                assert_eq!(names.publish(server, name, naming, &prefixes), Some(public), "it stays the same");
            }
        }
    }

    #[test]
    fn a_name_does_not_change_when_another_server_has_it_too() {
        let prefixes = prefixes(&["a", "b"]).expect("different prefixes");
        let [a, b] = [0, 1].map(ServerKey::new);
        for (naming, of_first, of_second) in [(Naming::Prefixed, "a__x", "b__x"), (Naming::Unprefixed, "x", "b__x")] {
            let mut names = Names::default();
            assert_eq!(names.publish(a, "x", naming, &prefixes).as_deref(), Some(of_first));
            assert_eq!(names.publish(b, "x", naming, &prefixes).as_deref(), Some(of_second));
            assert_eq!(names.publish(a, "x", naming, &prefixes).as_deref(), Some(of_first));
        }
    }

    #[test]
    fn names_that_were_not_listed_are_looked_up_only_if_they_may_exist() {
        let prefixes = prefixes(&["a"]).expect("a prefix");
        let a = ServerKey::new(0);
        let short = Names::default().publish(a, &"n".repeat(80), Naming::Prefixed, &prefixes).expect("room");
        let names = Names::default();
        for (name, naming, were_listed, expected) in [
            ("a__x", Naming::Prefixed, false, Named::Known(a, "x".to_owned())),
            ("x", Naming::Prefixed, false, Named::Unknown),
            ("b__x", Naming::Prefixed, false, Named::Unknown),
            ("x", Naming::Unprefixed, false, Named::Unlisted(None)),
            ("x", Naming::Unprefixed, true, Named::Unknown),
            (&short, Naming::Prefixed, false, Named::Unlisted(Some(a))),
            (&short, Naming::Prefixed, true, Named::Known(a, short[3..].to_owned())),
        ] {
            assert_eq!(names.resolve(name, naming, &prefixes, were_listed), expected, "{name}");
        }
    }

    #[test]
    fn a_name_that_is_too_short_to_have_been_shortened_is_not_looked_up() {
        let prefixes = prefixes(&["a"]).expect("a prefix");
        let a = ServerKey::new(0);
        // A character takes at most four bytes.
        for (length, is_looked_up) in [(LONGEST - 4, false), (LONGEST - 3, true), (LONGEST, true)] {
            let name = format!("{}-{:016x}", "n".repeat(length - CHECKSUM - "a__".len()), 7);
            let expected = if is_looked_up { Named::Unlisted(Some(a)) } else { Named::Known(a, name.clone()) };
            let found = Names::default().resolve(&format!("a__{name}"), Naming::Prefixed, &prefixes, false);
            assert_eq!(found, expected, "{length}");
        }
    }

    #[test]
    fn stored_names_are_bounded_and_those_of_a_server_displace_none_of_others() {
        let prefixes = prefixes(&["a", "b"]).expect("different prefixes");
        let [a, b] = [0, 1].map(ServerKey::new);
        for (length, most) in [(70, STORED / 2), (400, 1200)] {
            let mut names = Names::default();
            let published = (0..10_000).map(|number| format!("{number:0length$}"));
            let published = published.filter_map(|name| names.publish(a, &name, Naming::Prefixed, &prefixes)).count();
            assert!(published > most / 2 && published <= most && names.usage[&a].1 <= STORED_BYTES / 2, "{published}");
            let public = names.publish(b, &"n".repeat(80), Naming::Prefixed, &prefixes);
            assert!(public.is_some(), "another server has room");
        }
    }
}
