//! Which server has a resource: learnt from the lists of resources and of templates.
//!
//! A resource belongs to the server that has listed its URI. If several servers have, it belongs to the first one; if
//! they were listed at the same time, to the first in the configuration. Only a URI that no server has listed belongs
//! to the server with a template for it: the template with the longest text in front of its first expression. Each
//! server has a bound of its own on what is stored, so that it displaces nothing of others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::claims::Claims;
use super::event::ServerKey;
use super::list_kind::ListKind;

/// The maximum of URIs of all servers, and of their bytes; each server has its share.
const STORED: usize = 16 * 1024;
const STORED_BYTES: usize = 2 * 1024 * 1024;
/// The maximum of templates of one server, and the length of one.
const TEMPLATES: usize = 256;
const LONGEST_TEMPLATE: usize = 2048;
/// The maximum of URIs that were found without lists, and the length of one.
const FOUND: usize = 1024;
const LONGEST_FOUND: usize = 1024;

/// The owners of resources.
#[derive(Debug)]
pub(super) struct Resources {
    uris: Claims,
    templates: Claims,
    /// The servers that have answered about a resource that no server has listed.
    found: BTreeMap<Box<str>, ServerKey>,
    /// The lists that were read since they have changed.
    known: BTreeSet<(ServerKey, ListKind)>,
}

impl Resources {
    /// No resources of this number of servers.
    pub(super) fn new(servers: usize) -> Self {
        let servers = servers.max(1);
        Self {
            uris: Claims::new((STORED / servers, STORED_BYTES / servers), usize::MAX),
            templates: Claims::new((TEMPLATES, TEMPLATES * LONGEST_TEMPLATE), LONGEST_TEMPLATE),
            found: BTreeMap::new(),
            known: BTreeSet::new(),
        }
    }

    /// Stores that a server has a resource or a template; returns the server that it belongs to.
    pub(super) fn learn(&mut self, kind: ListKind, text: &str, server: ServerKey) -> ServerKey {
        self.claims(kind).learn(text, server)
    }

    /// A list was read; `whole` are its items, if these are all.
    pub(super) fn on_listed(&mut self, kind: ListKind, server: ServerKey, whole: Option<BTreeSet<Box<str>>>) {
        self.known.insert((server, kind));
        if let Some(whole) = whole {
            self.claims(kind).retain(server, &whole);
        }
    }

    /// Whether a list was read since it has changed.
    pub(super) fn is_known(&self, server: ServerKey, kind: ListKind) -> bool {
        self.known.contains(&(server, kind))
    }

    /// The lists of a server may have changed. Its earlier entries stay valid until the lists are read again, so that
    /// no other server takes them.
    pub(super) fn on_changed(&mut self, server: ServerKey) {
        self.known.remove(&(server, ListKind::Resources));
        self.known.remove(&(server, ListKind::Templates));
    }

    /// A server has answered about a resource that no server has listed.
    pub(super) fn on_found(&mut self, uri: &str, server: ServerKey) {
        if self.found.len() < FOUND && uri.len() <= LONGEST_FOUND {
            self.found.insert(uri.into(), server);
        }
    }

    /// The server that has listed this URI.
    pub(super) fn lister(&self, uri: &str) -> Option<ServerKey> {
        self.uris.owner(uri)
    }

    /// The server that has listed this template.
    pub(super) fn template_owner(&self, template: &str) -> Option<ServerKey> {
        self.templates.owner(template)
    }

    /// The server that a resource belongs to.
    pub(super) fn owner(&self, uri: &str) -> Option<ServerKey> {
        self.lister(uri).or_else(|| self.best_template(uri)).or_else(|| self.found.get(uri).copied())
    }

    /// The server with the template that has the longest text in front of its first expression, then the longest text at
    /// all; of several servers the first.
    fn best_template(&self, uri: &str) -> Option<ServerKey> {
        let matching = self.templates.by_text.iter().filter(|(template, _)| matches(template, uri));
        let ranked =
            matching.filter_map(|(template, servers)| Some((lengths(template), Reverse(servers.first().copied()?))));
        ranked.max().map(|(_, Reverse(server))| server)
    }

    const fn claims(&mut self, kind: ListKind) -> &mut Claims {
        match kind {
            ListKind::Templates => &mut self.templates,
            ListKind::Resources | ListKind::Tools | ListKind::Prompts => &mut self.uris,
        }
    }
}

/// The length of a template's text in front of its first expression, and of its text outside of all expressions.
fn lengths(template: &str) -> (usize, usize) {
    let mut all = 0;
    let mut rest = template;
    let first = template.find('{').unwrap_or(template.len());
    while let Some((text, after)) = rest.split_once('{') {
        all += text.len();
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    (first, all + rest.len())
}

/// Whether a URI has the texts between the expressions of a template (RFC 6570), in order. The server decides what the
/// expressions stand for.
fn matches(template: &str, uri: &str) -> bool {
    let Some((start, mut rest_of_template)) = template.split_once('{') else { return template == uri };
    let Some(mut rest) = uri.strip_prefix(start) else { return false };
    loop {
        let Some((_, after)) = rest_of_template.split_once('}') else { return false };
        let Some((text, next)) = after.split_once('{') else { return rest.ends_with(after) };
        let Some(at) = rest.find(text) else { return false };
        rest = rest.get(at + text.len()..).unwrap_or_default();
        rest_of_template = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_stands_for_uris_with_its_texts() {
        for (template, uri, expected) in [
            ("file:///{path}", "file:///a.txt", true),
            ("file:///{+path}", "file:///a/b.txt", true),
            ("file:///{path}", "mail:///a.txt", false),
            ("db://{table}/{row}", "db://users/7", true),
            ("db://{table}/rows", "db://users/7", false),
            ("db://{table}/rows", "db://users/rows", true),
            ("x:{a}/end", "x:1/end/end", true),
            ("x:{a}/end", "x:1/end/more", false),
            ("find:{?q,page}", "find:?q=a", true),
            ("x:{a}{b}", "x:12", true),
            ("x:whole", "x:whole", true),
            ("x:whole", "x:wholes", false),
            ("x:{a", "x:1", false),
        ] {
            assert_eq!(matches(template, uri), expected, "{template} {uri}");
        }
    }

    #[test]
    fn the_first_server_that_lists_a_resource_has_it_until_it_lists_it_no_more() {
        let [a, b] = [0, 1].map(ServerKey::new);
        let mut resources = Resources::new(2);
        for (server, owner) in [(b, b), (a, b), (b, b)] {
            assert_eq!(resources.learn(ListKind::Resources, "x:1", server), owner);
        }
        resources.on_changed(b);
        assert_eq!(resources.learn(ListKind::Resources, "x:1", a), b, "a change of a list hands nothing over");
        resources.on_listed(ListKind::Resources, b, Some(["x:1".into()].into()));
        assert_eq!(resources.owner("x:1"), Some(b));
        resources.on_listed(ListKind::Resources, b, None);
        assert_eq!(resources.owner("x:1"), Some(b), "only a part was read");
        resources.on_listed(ListKind::Resources, b, Some(["x:2".into()].into()));
        assert_eq!(resources.owner("x:1"), Some(a));
        resources.on_listed(ListKind::Resources, a, Some(BTreeSet::new()));
        assert_eq!((resources.owner("x:1"), resources.uris.usage[&a]), (None, (0, 0)));
    }

    #[test]
    fn a_listed_uri_comes_before_templates_and_the_most_specific_template_before_others() {
        let [a, b, c] = [0, 1, 2].map(ServerKey::new);
        let mut resources = Resources::new(3);
        resources.on_found("x:/found", c);
        assert_eq!(resources.owner("x:/found"), Some(c));
        for (template, server) in
            [("{+any}", a), ("x:/{+path}", b), ("x:/{id}/rows", c), ("x:/same", c), ("y:{a}", b), ("y:{b}", a)]
        {
            assert_eq!(resources.learn(ListKind::Templates, template, server), server);
        }
        assert_eq!(resources.learn(ListKind::Templates, "x:/{+path}", a), b);
        resources.learn(ListKind::Resources, "x:/1/rows", b);
        for (uri, owner) in
            [("x:/1/rows", b), ("x:/2/rows", c), ("x:/2", b), ("z:", a), ("y:1", a), ("x:/found", b), ("x:/same", c)]
        {
            assert_eq!(resources.owner(uri), Some(owner), "{uri}");
        }
        assert_eq!(resources.template_owner("x:/{+path}"), Some(b));
        assert_eq!(resources.lister("x:/2/rows"), None);
    }

    #[test]
    fn what_is_stored_of_a_server_is_bounded_and_displaces_nothing_of_others() {
        let [a, b] = [0, 1].map(ServerKey::new);
        let mut resources = Resources::new(2);
        for number in 0..20_000 {
            assert_eq!(resources.learn(ListKind::Resources, &format!("{number:0200}"), a), a);
            resources.learn(ListKind::Templates, &number.to_string(), a);
            resources.on_found(&number.to_string(), a);
        }
        let (count, bytes) = resources.uris.usage[&a];
        assert!(bytes <= STORED_BYTES / 2 && count <= STORED / 2 && count > 5000, "{count} {bytes}");
        let stored: usize = resources.uris.by_text.keys().map(|uri| uri.len()).sum();
        assert_eq!(stored, bytes);
        assert_eq!((resources.templates.usage[&a].0, resources.found.len()), (TEMPLATES, FOUND));
        for kind in [ListKind::Resources, ListKind::Templates] {
            assert_eq!(resources.learn(kind, "x:1", b), b);
        }
        assert_eq!((resources.lister("x:1"), resources.template_owner("x:1")), (Some(b), Some(b)));
    }

    #[test]
    fn each_server_has_its_share_of_what_is_stored_also_after_it_has_listed_again() {
        let [one, other] = [0, 1].map(ServerKey::new);
        let mut resources = Resources::new(2);
        let share = STORED / 2;
        let uris: BTreeSet<Box<str>> = (0..share).map(|number| Box::from(format!("a:{number}"))).collect();
        for uri in &uris {
            resources.learn(ListKind::Resources, uri, one);
        }
        for is_listed_again in [false, true] {
            if is_listed_again {
                resources.on_listed(ListKind::Resources, one, Some(uris.clone()));
            }
            resources.learn(ListKind::Resources, "a:more", one);
            assert_eq!(resources.lister("a:more"), None, "listed again: {is_listed_again}");
        }
        resources.learn(ListKind::Resources, "a:other", other);
        assert_eq!(resources.lister("a:other"), Some(other));
        resources.on_listed(ListKind::Resources, one, Some(BTreeSet::new()));
        resources.learn(ListKind::Resources, "a:more", one);
        assert_eq!(resources.lister("a:more"), Some(one));
    }

    #[test]
    fn of_templates_with_the_same_start_the_one_with_the_longest_text_is_for_a_uri() {
        let [one, other] = [0, 1].map(ServerKey::new);
        for (short, long, uri) in [
            ("a:{+a_long_name}", "a:{x}b", "a:1b"),
            ("a:{x}", "a:{x}/b{y}", "a:1/b2"),
            ("a:{x}b{a_long_name}", "a:{x}bc", "a:1bc"),
        ] {
            for (first, second) in [(short, long), (long, short)] {
                let mut resources = Resources::new(2);
                resources.learn(ListKind::Templates, first, one);
                resources.learn(ListKind::Templates, second, other);
                let expected = if first == long { one } else { other };
                assert_eq!(resources.owner(uri), Some(expected), "{first} {second}");
            }
        }
    }
}
