//! The names under which clients see tools and prompts.
//!
//! The name of a server with a prefix is the prefix, two underscores, and the name that the server uses. It follows from these
//! two alone, so that it does not change when other servers appear, and a call finds its server without any state. Only names
//! that were shortened must be stored; they are learnt from lists.
//!
//! Names of servers without a prefix are stored, too. Each belongs to the first server in the configuration that has listed
//! it, until a later list of this server lacks it. No server may have the name of an earlier one: as long as an earlier server
//! without a prefix has not listed its names, those of the later ones begin with their tags, and a call without a prefix is
//! refused. A name that begins with the prefix of another server belongs to that server, listed or not.

use std::collections::{BTreeMap, BTreeSet};

use super::event::ServerKey;
use super::origin::hash;
use super::prefixes::Prefixes;

/// The maximum length of a name, which several clients enforce.
const LONGEST: usize = 64;
/// The length of the end of a shortened name: a hyphen and a checksum.
const CHECKSUM: usize = 17;
/// The maximum number of stored names, and of their bytes; each server has its share.
const STORED: usize = 8192;
const STORED_BYTES: usize = 1024 * 1024;

/// The names of the tools or of the prompts that do not follow from the prefix alone.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The servers that have listed a name, and what they call it themselves.
    claims: BTreeMap<Box<str>, BTreeMap<ServerKey, Box<str>>>,
    /// The number of names of each server in `claims`, and of their bytes.
    usage: BTreeMap<ServerKey, (usize, usize)>,
    /// The servers whose list was read once.
    read: BTreeSet<ServerKey>,
    /// The servers whose list was read since its last change.
    current: BTreeSet<ServerKey>,
    /// The servers without a prefix that were listed with their tags, because earlier ones had not listed their names.
    provisional: BTreeSet<ServerKey>,
}

/// How clients see a listed tool or prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Published {
    As(String),
    /// Not at all: its name is one of this other server.
    OfOther(ServerKey),
    /// Not at all: it cannot be distinguished from another one.
    LeftOut,
}

/// What the name in a request stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// This name of this server.
    Known(ServerKey, String),
    /// Perhaps a name that was not listed yet, of one of these servers.
    Unlisted(Vec<ServerKey>),
    /// It may be a name of this server, which has not listed its names.
    Undetermined(ServerKey),
    /// No server can have it.
    Unknown,
}

impl Names {
    /// Returns how clients see a tool or prompt that a server has listed.
    pub(super) fn publish(&mut self, server: ServerKey, name: &str, prefixes: &Prefixes) -> Published {
        if prefixes.off().contains(&server) {
            match prefixes.split(name) {
                Some((owner, _)) if owner != server => return Published::OfOther(owner),
                // After its tag again, it is not taken for a shorter name of the same server.
                Some(_) => {}
                None => {
                    let own = shortened(name.to_owned());
                    if !self.claim(&own, server, name, prefixes) {
                        return Published::LeftOut;
                    }
                    match self.owner(&own) {
                        Some((owner, _)) if owner != server => return Published::OfOther(owner),
                        Some(_) | None => {}
                    }
                    if self.undetermined(server, prefixes).is_none() {
                        return Published::As(own);
                    }
                    self.provisional.insert(server);
                }
            }
        }
        let joined = prefixes.joined(server, name);
        let is_short = joined.len() <= LONGEST;
        let public = shortened(joined);
        if is_short || self.claim(&public, server, name, prefixes) { Published::As(public) } else { Published::LeftOut }
    }

    /// Stores what a name stands for. `false` if the server has listed another name for it, or has no room.
    fn claim(&mut self, public: &str, server: ServerKey, name: &str, prefixes: &Prefixes) -> bool {
        if let Some(known) = self.claims.get(public).and_then(|servers| servers.get(&server)) {
            return **known == *name;
        }
        let servers = prefixes.servers().max(1);
        let (count, bytes) = self.usage.entry(server).or_default();
        let more = public.len() + name.len();
        if *count >= STORED / servers || *bytes + more > STORED_BYTES / servers {
            return false;
        }
        (*count, *bytes) = (*count + 1, *bytes + more);
        self.claims.entry(public.into()).or_default().insert(server, name.into());
        true
    }

    /// The first server in the configuration that has listed a name, and what it calls it itself.
    fn owner(&self, public: &str) -> Option<(ServerKey, &str)> {
        let (server, name) = self.claims.get(public)?.first_key_value()?;
        Some((*server, name))
    }

    /// A server without a prefix before this one that has not listed its names.
    fn undetermined(&self, server: ServerKey, prefixes: &Prefixes) -> Option<ServerKey> {
        let mut earlier = prefixes.off().iter().take_while(|other| **other < server);
        earlier.find(|other| !self.read.contains(other)).copied()
    }

    /// The list of a server was read; `whole` are its names, if these are all. Returns whether other servers without a
    /// prefix are listed with other names from now on.
    pub(super) fn on_listed(
        &mut self,
        server: ServerKey,
        whole: Option<&BTreeSet<Box<str>>>,
        prefixes: &Prefixes,
    ) -> bool {
        self.current.insert(server);
        self.read.insert(server);
        if let Some(whole) = whole {
            self.retain(server, whole);
        }
        let mut provisional = std::mem::take(&mut self.provisional);
        let before = provisional.len();
        provisional.retain(|later| self.undetermined(*later, prefixes).is_some());
        self.provisional = provisional;
        self.provisional.len() < before
    }

    /// Drops what a server has listed earlier, except for these names.
    fn retain(&mut self, server: ServerKey, names: &BTreeSet<Box<str>>) {
        let (mut count, mut bytes) = (0, 0);
        self.claims.retain(|public, servers| {
            if let Some(name) = servers.get(&server) {
                if names.contains(name) {
                    (count, bytes) = (count + 1, bytes + public.len() + name.len());
                } else {
                    servers.remove(&server);
                }
            }
            !servers.is_empty()
        });
        self.usage.insert(server, (count, bytes));
    }

    /// The list of a server may have changed. Its earlier names stay valid until the list is read again, so that no other
    /// server takes them.
    pub(super) fn on_changed(&mut self, server: ServerKey) {
        self.current.remove(&server);
    }

    /// Finds what a name from a client stands for. If the servers `were_listed`, all of their names are known.
    pub(super) fn resolve(&self, name: &str, prefixes: &Prefixes, were_listed: bool) -> Named {
        let may_have_more = |server: &ServerKey| !were_listed && !self.current.contains(server);
        let split = prefixes.split(name);
        let owned = self.owner(name);
        match (owned, split) {
            (Some((server, own)), Some(_)) => return Named::Known(server, own.to_owned()),
            (None, Some((server, _))) if is_shortened(name) && may_have_more(&server) => {
                return Named::Unlisted(vec![server]);
            }
            (None, Some((server, rest))) => return Named::Known(server, rest.to_owned()),
            (_, None) => {}
        }
        let last = owned.map(|(server, _)| server);
        let is_earlier = |server: &&ServerKey| last.is_none_or(|last| **server < last);
        let earlier = || prefixes.off().iter().filter(is_earlier);
        let undetermined = earlier().find(|server| !self.read.contains(server)).copied();
        if owned.is_none() || undetermined.is_some() {
            let unlisted: Vec<_> = earlier().copied().filter(may_have_more).collect();
            if !unlisted.is_empty() {
                return Named::Unlisted(unlisted);
            }
        }
        match (undetermined, owned) {
            (Some(server), _) => Named::Undetermined(server),
            (None, Some((server, own))) => Named::Known(server, own.to_owned()),
            (None, None) => Named::Unknown,
        }
    }
}

/// A name of at most the longest length: one that is too long ends with its checksum.
fn shortened(name: String) -> String {
    if name.len() <= LONGEST {
        return name;
    }
    let mut end = LONGEST - CHECKSUM;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let start = name.get(..end).unwrap_or_default();
    format!("{start}-{:016x}", hash(name.bytes()))
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
    use crate::aggregate::{Prefix, ServerConfig};
    use crate::relay;

    /// The prefixes of servers with these names.
    fn prefixes(servers: &[(&str, Prefix)]) -> Prefixes {
        let servers = servers.iter().map(|(name, prefix)| {
            let mut server = ServerConfig::new(name, relay::Config::default());
            server.prefix = prefix.clone();
            server
        });
        Prefixes::new(&servers.collect::<Vec<_>>()).expect("different prefixes")
    }

    fn with_prefixes(names: &[&str]) -> Prefixes {
        prefixes(&names.iter().map(|name| (*name, Prefix::ServerName)).collect::<Vec<_>>())
    }

    fn published(name: &str) -> Published {
        Published::As(name.to_owned())
    }

    fn known(server: ServerKey, name: &str) -> Named {
        Named::Known(server, name.to_owned())
    }

    fn all(names: &[&str]) -> BTreeSet<Box<str>> {
        names.iter().map(|name| Box::from(*name)).collect()
    }

    #[test]
    fn a_call_finds_the_server_whose_list_contained_the_name() {
        let (on, off, gh) = (Prefix::ServerName, Prefix::Off, Prefix::Text("gh".into()));
        let long = "n".repeat(80);
        for kinds in [[on.clone(), on.clone(), on.clone()], [gh, on, off.clone()], [off.clone(), off.clone(), off]] {
            let [one, two, three] = kinds;
            let prefixes = prefixes(&[("a", one), ("a_b", two), ("long", three)]);
            let mut names = Names::default();
            let mut listed = Vec::new();
            for (server, of_server) in [
                (0, vec!["b__x", "_x", "long__x", "a__x", "x1"]),
                (1, vec!["x2", "\u{e9}"]),
                (2, vec!["x3", "long__y", &long, &long[1..]]),
            ] {
                let server = ServerKey::new(server);
                for name in &of_server {
                    let published = names.publish(server, name, &prefixes);
                    let Published::As(public) = published else {
                        assert_eq!(*name, "long__x", "it is that of another server: {published:?}");
                        continue;
                    };
                    assert!(public.len() <= LONGEST, "{public}");
                    assert_eq!(
                        names.publish(server, name, &prefixes),
                        Published::As(public.clone()),
                        "it stays the same"
                    );
                    listed.push((public, server, (*name).to_owned()));
                }
                names.on_listed(server, Some(&all(&of_server)), &prefixes);
            }
            let different: BTreeSet<_> = listed.iter().map(|(public, ..)| public).collect();
            assert_eq!(different.len(), listed.len(), "{listed:?}");
            for (public, server, name) in listed {
                assert_eq!(names.resolve(&public, &prefixes, false), Named::Known(server, name), "{public}");
            }
        }
    }

    #[test]
    fn of_servers_without_a_prefix_the_first_in_the_configuration_has_a_name() {
        let prefixes = prefixes(&[("a", Prefix::Off), ("b", Prefix::Off), ("c", Prefix::Off)]);
        let [a, b, c] = [0, 1, 2].map(ServerKey::new);
        let mut names = Names::default();
        for (server, expected) in [(a, published("x")), (b, Published::OfOther(a)), (c, Published::OfOther(a))] {
            assert_eq!(names.publish(server, "x", &prefixes), expected);
            names.on_listed(server, Some(&all(&["x"])), &prefixes);
        }
        assert_eq!(names.resolve("x", &prefixes, false), known(a, "x"));
        // The first server is started again, and has not listed anything yet.
        names.on_changed(a);
        assert_eq!(names.publish(b, "x", &prefixes), Published::OfOther(a));
        assert_eq!(names.resolve("x", &prefixes, false), known(a, "x"));
        names.on_listed(a, None, &prefixes);
        assert_eq!(names.resolve("x", &prefixes, false), known(a, "x"), "only a part was read");
        names.on_listed(a, Some(&all(&["y"])), &prefixes);
        assert_eq!(names.publish(b, "x", &prefixes), published("x"), "the first one lists it no more");
        assert_eq!(names.publish(c, "x", &prefixes), Published::OfOther(b));
        assert_eq!(names.resolve("x", &prefixes, false), known(b, "x"));
        assert_eq!(names.publish(a, "x", &prefixes), published("x"), "the first one lists it again");
        assert_eq!(names.publish(b, "x", &prefixes), Published::OfOther(a));
    }

    #[test]
    fn a_name_is_given_to_no_server_while_an_earlier_one_has_not_listed_its_names() {
        let prefixes = prefixes(&[("a", Prefix::Off), ("p", Prefix::ServerName), ("b", Prefix::Off)]);
        let [a, p, b] = [0, 1, 2].map(ServerKey::new);
        let mut names = Names::default();
        assert_eq!(names.publish(b, "x", &prefixes), published("b__x"), "a may have it");
        assert!(!names.on_listed(b, Some(&all(&["x"])), &prefixes), "nothing follows from its list for others");
        assert_eq!(names.resolve("x", &prefixes, false), Named::Unlisted(vec![a]));
        assert_eq!(names.resolve("x", &prefixes, true), Named::Undetermined(a));
        assert_eq!(names.resolve("b__x", &prefixes, true), known(b, "x"));
        assert_eq!(names.publish(p, "x", &prefixes), published("p__x"), "its names depend on no other server");
        assert!(names.on_listed(a, Some(&all(&["y"])), &prefixes), "b has other names now");
        assert!(!names.on_listed(a, Some(&all(&["y"])), &prefixes), "once");
        assert_eq!(names.publish(b, "x", &prefixes), published("x"));
        assert_eq!(names.resolve("x", &prefixes, false), known(b, "x"));
        assert_eq!(names.resolve("b__x", &prefixes, false), known(b, "x"), "the earlier name stays valid");
    }

    #[test]
    fn a_server_without_a_prefix_cannot_have_a_name_with_the_prefix_of_another() {
        let gh = Prefix::Text("gh".into());
        let prefixes = prefixes(&[("a", Prefix::Off), ("github", gh), ("b", Prefix::Off)]);
        let [a, github, b] = [0, 1, 2].map(ServerKey::new);
        let mut names = Names::default();
        for (name, expected) in [
            ("gh__x", Published::OfOther(github)),
            ("b__x", Published::OfOther(b)),
            ("a__x", published("a__a__x")),
            ("github__x", published("github__x")),
            ("gh_x", published("gh_x")),
        ] {
            assert_eq!(names.publish(a, name, &prefixes), expected, "{name}");
        }
        let listed = all(&["gh__x", "b__x", "a__x", "github__x", "gh_x"]);
        names.on_listed(a, Some(&listed), &prefixes);
        // Nothing is known of the lists of the others.
        assert_eq!(names.resolve("gh__x", &prefixes, false), known(github, "x"));
        assert_eq!(names.resolve("b__x", &prefixes, false), known(b, "x"));
        assert_eq!(names.resolve("a__a__x", &prefixes, false), known(a, "a__x"));
        // A name that is shortened does not get such a prefix either.
        let long = format!("gh_{}__x", "n".repeat(LONGEST));
        let Published::As(short) = names.publish(a, &long, &prefixes) else { panic!("{long}") };
        assert_eq!(names.resolve(&short, &prefixes, false), known(a, &long));
    }

    #[test]
    fn names_that_were_not_listed_are_looked_up_only_if_they_may_exist() {
        let on = with_prefixes(&["a"]);
        let off = prefixes(&[("a", Prefix::Off)]);
        let a = ServerKey::new(0);
        let Published::As(short) = Names::default().publish(a, &"n".repeat(80), &on) else { panic!("it has room") };
        let listed = || {
            let mut names = Names::default();
            names.on_listed(a, Some(&BTreeSet::new()), &off);
            names
        };
        for (name, prefixes, were_listed, expected) in [
            ("a__x", &on, false, known(a, "x")),
            ("x", &on, false, Named::Unknown),
            ("b__x", &on, false, Named::Unknown),
            ("x", &off, false, Named::Unlisted(vec![a])),
            ("x", &off, true, Named::Undetermined(a)),
            ("a__x", &off, false, known(a, "x")),
            (&short, &on, false, Named::Unlisted(vec![a])),
            (&short, &on, true, known(a, &short[3..])),
        ] {
            assert_eq!(Names::default().resolve(name, prefixes, were_listed), expected, "{name}");
            if let Named::Unlisted(_) | Named::Undetermined(_) = expected {
                let found = listed().resolve(name, prefixes, false);
                assert!(matches!(found, Named::Unknown | Named::Known(..)), "{name} is not in a list that was read");
            }
        }
        let mut names = listed();
        names.on_changed(a);
        assert_eq!(names.resolve("x", &off, false), Named::Unlisted(vec![a]), "the list has changed");
    }

    #[test]
    fn a_name_that_is_too_short_to_have_been_shortened_is_not_looked_up() {
        let prefixes = with_prefixes(&["a"]);
        let a = ServerKey::new(0);
        // A character takes at most four bytes.
        for (length, is_looked_up) in [(LONGEST - 4, false), (LONGEST - 3, true), (LONGEST, true)] {
            let name = format!("{}-{:016x}", "n".repeat(length - CHECKSUM - "a__".len()), 7);
            let expected = if is_looked_up { Named::Unlisted(vec![a]) } else { known(a, &name) };
            let found = Names::default().resolve(&format!("a__{name}"), &prefixes, false);
            assert_eq!(found, expected, "{length}");
        }
    }

    #[test]
    fn stored_names_are_bounded_and_those_of_a_server_displace_none_of_others() {
        for (prefixes, least) in
            [(with_prefixes(&["a", "b"]), 70), (prefixes(&[("a", Prefix::Off), ("b", Prefix::Off)]), 5)]
        {
            let [a, b] = [0, 1].map(ServerKey::new);
            for (length, most) in [(least, STORED / 2), (400, 1200)] {
                let mut names = Names::default();
                let listed = (0..10_000).map(|number| format!("{number:0length$}"));
                let listed = listed.filter(|name| matches!(names.publish(a, name, &prefixes), Published::As(_)));
                let listed: BTreeSet<Box<str>> = listed.map(Box::from).collect();
                let count = listed.len();
                assert!(count > most / 2 && count <= most && names.usage[&a].1 <= STORED_BYTES / 2, "{count}");
                let usage = names.usage[&a];
                names.on_listed(a, Some(&listed), &prefixes);
                assert_eq!(names.usage[&a], usage, "they are counted in the same way after they were read again");
                let public = names.publish(b, &"m".repeat(80), &prefixes);
                assert!(matches!(public, Published::As(_)), "another server has room");
                names.on_listed(a, Some(&BTreeSet::new()), &prefixes);
                assert_eq!((names.usage[&a], names.claims.len()), ((0, 0), 1), "nothing is kept of what is not listed");
            }
        }
    }
}
