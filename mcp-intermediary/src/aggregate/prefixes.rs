//! What identifies the servers: in the names of their tools and prompts, and in the texts that clients return.
//!
//! Each server has a tag, which is made of its name and identifies it in cursors, states and ids. Its names begin with the
//! tag, too, unless another prefix is configured. No two servers have the same tag, or the same prefix.

use mcp_proto::UsageError;

use super::config::{Prefix, ServerConfig};
use super::event::ServerKey;

/// The maximum length of a prefix.
const LONGEST: usize = 24;
/// Between the prefix and the name.
pub(super) const SEPARATOR: &str = "__";

/// The tags and prefixes of all servers.
#[derive(Debug)]
pub(super) struct Prefixes {
    tags: Vec<Box<str>>,
    /// The tags of servers whose names have no prefix included.
    of_names: Vec<Box<str>>,
    /// The servers whose names have no prefix, in the order of the configuration.
    off: Vec<ServerKey>,
}

impl Prefixes {
    /// # Errors
    ///
    /// [`UsageError`] if no tag can be made of a name, a prefix is not one, or two would be equal.
    pub(super) fn new(servers: &[ServerConfig]) -> Result<Self, UsageError> {
        let (mut tags, mut of_names, mut off) = (Vec::<Box<str>>::new(), Vec::<Box<str>>::new(), Vec::new());
        for (index, server) in servers.iter().enumerate() {
            let ServerConfig { name, prefix, .. } = server;
            let other = |equal: usize| servers.get(equal).map_or_else(Box::default, |other| other.name.clone());
            let tag = tag_of(name);
            if tag.is_empty() {
                return Err(UsageError::ServerName { name: name.clone() });
            }
            if let Some(equal) = tags.iter().position(|known| **known == *tag) {
                let (name, other) = (name.clone(), other(equal));
                return Err(UsageError::SameServerName { name, other, prefix: tag.into() });
            }
            let of_name = match prefix {
                Prefix::Text(text) if !is_prefix(text) => {
                    return Err(UsageError::Prefix { name: name.clone(), prefix: text.clone() });
                }
                Prefix::Text(text) => text.clone(),
                Prefix::ServerName | Prefix::Off => Box::from(&*tag),
            };
            if let Some(equal) = of_names.iter().position(|known| *known == of_name) {
                let (name, other) = (name.clone(), other(equal));
                return Err(UsageError::SamePrefix { name, other, prefix: of_name });
            }
            off.extend((*prefix == Prefix::Off).then_some(ServerKey::new(index)));
            tags.push(tag.into());
            of_names.push(of_name);
        }
        Ok(Self { tags, of_names, off })
    }

    /// The tag of a server.
    pub(super) fn tag(&self, server: ServerKey) -> &str {
        self.tags.get(server.index()).map_or("", |tag| tag)
    }

    /// The server with this tag.
    pub(super) fn with_tag(&self, tag: &str) -> Option<ServerKey> {
        self.tags.iter().position(|known| **known == *tag).map(ServerKey::new)
    }

    /// A name of a server after its prefix; after its tag if it has none.
    pub(super) fn joined(&self, server: ServerKey, name: &str) -> String {
        let prefix = self.of_names.get(server.index()).map_or("", |prefix| prefix);
        format!("{prefix}{SEPARATOR}{name}")
    }

    /// The server of a name with a prefix, and the rest of the name.
    pub(super) fn split<'n>(&self, name: &'n str) -> Option<(ServerKey, &'n str)> {
        // No prefix contains the separator, or ends with a part of it.
        let (prefix, rest) = name.split_once(SEPARATOR)?;
        let server = self.of_names.iter().position(|known| **known == *prefix)?;
        Some((ServerKey::new(server), rest))
    }

    /// The servers whose names have no prefix, in the order of the configuration.
    pub(super) fn off(&self) -> &[ServerKey] {
        &self.off
    }

    /// The number of servers.
    pub(super) fn servers(&self) -> usize {
        self.tags.len()
    }
}

/// Whether a text can be a prefix.
fn is_prefix(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_clear = !text.is_empty() && !text.contains(SEPARATOR) && !text.ends_with('_');
    is_clear && text.len() <= LONGEST && text.bytes().all(is_allowed)
}

/// The tag for a server of this name: its letters, digits, hyphens and single underscores.
fn tag_of(name: &str) -> String {
    let mut tag = String::new();
    for character in name.chars() {
        let character = if character.is_ascii_alphanumeric() || character == '_' { character } else { '-' };
        let is_repeated = matches!(character, '_' | '-') && tag.ends_with(character);
        if tag.len() < LONGEST && !is_repeated {
            tag.push(character);
        }
    }
    tag.trim_matches(['_', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay;

    fn prefixes(servers: &[(&str, Prefix)]) -> Result<Prefixes, UsageError> {
        let servers = servers.iter().map(|(name, prefix)| {
            let mut server = ServerConfig::new(name, relay::Config::default());
            server.prefix = prefix.clone();
            server
        });
        Prefixes::new(&servers.collect::<Vec<_>>())
    }

    #[test]
    fn a_tag_has_only_characters_that_names_of_tools_may_have() {
        for (name, tag) in [
            ("files", "files"),
            ("My Server", "My-Server"),
            ("@acme/files (v2)", "acme-files-v2"),
            ("a__b", "a_b"),
            ("__a__", "a"),
            ("caf\u{e9}", "caf"),
            ("a-very-long-name-of-a-server", "a-very-long-name-of-a-se"),
            ("exactly-twenty-three_____x", "exactly-twenty-three_x"),
        ] {
            assert_eq!(tag_of(name), tag);
            assert!(is_prefix(tag), "{tag}");
        }
        for name in ["", "__", "\u{1f980}"] {
            assert!(matches!(prefixes(&[(name, Prefix::ServerName)]), Err(UsageError::ServerName { .. })), "{name}");
        }
        let same = [("a b", Prefix::ServerName), ("a-b", Prefix::Text("c".into()))];
        assert!(matches!(prefixes(&same), Err(UsageError::SameServerName { .. })), "the tags are equal");
    }

    #[test]
    fn a_prefix_is_a_text_that_a_name_can_be_split_after() {
        for text in ["gh", "g", "_gh", "a_b-c", "-", "GH2", &"x".repeat(LONGEST)] {
            let prefixes = prefixes(&[("github", Prefix::Text(text.into())), ("b", Prefix::ServerName)]).unwrap();
            let a = ServerKey::new(0);
            for name in ["x", "__x", "_x", "", "gh__x"] {
                assert_eq!(prefixes.split(&prefixes.joined(a, name)), Some((a, name)), "{text} {name}");
            }
            assert_eq!(prefixes.split("github__x"), None, "the name of the server is no prefix");
        }
        for text in ["", "a_", "a__b", "a b", "a.b", "\u{e9}", "a\n", &"x".repeat(LONGEST + 1)] {
            let refused = prefixes(&[("github", Prefix::Text(text.into()))]);
            assert!(matches!(refused, Err(UsageError::Prefix { .. })), "{text}");
        }
    }

    #[test]
    fn no_two_servers_have_the_same_prefix() {
        let text = |text: &str| Prefix::Text(text.into());
        for (first, second, is_refused) in [
            (text("c"), text("c"), true),
            (text("b"), Prefix::ServerName, true),
            // Its names have this prefix until they are known to be those of no other server.
            (text("b"), Prefix::Off, true),
            (Prefix::Off, Prefix::Off, false),
            (text("b"), text("a"), false),
        ] {
            let made = prefixes(&[("a", first.clone()), ("b", second.clone())]);
            let is_same = matches!(made, Err(UsageError::SamePrefix { .. }));
            assert!(is_same == is_refused && made.is_err() == is_refused, "{first:?} {second:?}");
        }
    }
}
