//! Which server has a resource: learnt from the lists of resources and of templates.

use std::collections::BTreeMap;

use super::event::ServerKey;

/// The maximum of resources, and of the bytes of their URIs.
const STORED: usize = 16 * 1024;
const STORED_BYTES: usize = 2 * 1024 * 1024;
/// The maximum of templates of one server, and the length of one.
const TEMPLATES: usize = 256;
const LONGEST_TEMPLATE: usize = 2048;

/// The owners of resources.
#[derive(Debug, Default)]
pub(super) struct Resources {
    owners: BTreeMap<Box<str>, ServerKey>,
    bytes: usize,
    templates: BTreeMap<ServerKey, Vec<Box<str>>>,
}

impl Resources {
    /// Stores that a server has a resource. `false` if another one has it, which was listed earlier.
    pub(super) fn learn(&mut self, uri: &str, server: ServerKey) -> bool {
        if let Some(owner) = self.owners.get(uri) {
            return *owner == server;
        }
        if self.owners.len() < STORED && self.bytes + uri.len() <= STORED_BYTES {
            self.bytes += uri.len();
            self.owners.insert(uri.into(), server);
        }
        true
    }

    /// Stores a template of a server, if there is room.
    pub(super) fn learn_template(&mut self, template: &str, server: ServerKey) {
        let templates = self.templates.entry(server).or_default();
        let is_known = templates.iter().any(|known| **known == *template);
        if !is_known && templates.len() < TEMPLATES && template.len() <= LONGEST_TEMPLATE {
            templates.push(template.into());
        }
    }

    /// The server that has the resource or the template with this URI, or the first one with a template for it.
    pub(super) fn owner(&self, uri: &str) -> Option<ServerKey> {
        if let Some(owner) = self.owners.get(uri) {
            return Some(*owner);
        }
        let has = |test: fn(&str, &str) -> bool| {
            self.templates
                .iter()
                .find(|(_, templates)| templates.iter().any(|template| test(template, uri)))
                .map(|(server, _)| *server)
        };
        has(|template, uri| template == uri).or_else(|| has(matches))
    }

    /// Drops what a server has listed, because its list has changed.
    pub(super) fn forget(&mut self, server: ServerKey) {
        self.templates.remove(&server);
        let bytes = &mut self.bytes;
        self.owners.retain(|uri, owner| {
            let is_kept = *owner != server;
            if !is_kept {
                *bytes -= uri.len();
            }
            is_kept
        });
    }
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
    fn the_first_server_that_lists_a_resource_has_it_until_its_list_changes() {
        let [a, b] = [0, 1].map(ServerKey::new);
        let mut resources = Resources::default();
        assert!(resources.learn("x:1", b) && !resources.learn("x:1", a) && resources.learn("x:1", b));
        resources.learn_template("x:{id}", a);
        resources.learn_template("x:{+path}", b);
        assert_eq!((resources.owner("x:1"), resources.owner("x:2"), resources.owner("y:2")), (Some(b), Some(a), None));
        assert_eq!(resources.owner("x:{+path}"), Some(b), "a template that a client asks about");
        resources.forget(b);
        assert_eq!((resources.owner("x:1"), resources.bytes), (Some(a), 0));
        assert!(resources.learn("x:1", a));
    }

    #[test]
    fn resources_and_templates_are_bounded() {
        let a = ServerKey::new(0);
        let mut resources = Resources::default();
        for number in 0..20_000 {
            assert!(resources.learn(&format!("{number:0200}"), a));
            resources.learn_template(&number.to_string(), a);
        }
        assert!(resources.bytes <= STORED_BYTES && resources.owners.len() <= STORED);
        assert_eq!(resources.templates[&a].len(), TEMPLATES);
    }
}
