//! The skills of a router: their entries, their files, and the directories that these are in.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use mcp_model::{
    GetSkillRequest, JsonObject, ListSkillsRequest, ReadResourceDirectoryRequest, ReadResourceRequest, RequestMethod,
    Resource,
};
use mcp_proto::spec::SKILLS_EXTENSION;
use mcp_proto::{ErrorObject, Json, Method};

use super::entries::Entries;
use super::extension::Row;
use super::page;
use crate::skills::{InvalidSkill, ServedSkill};

/// The media type of a directory (SK-10).
const DIRECTORY: &str = "inode/directory";
/// The character behind `/`: the files of a directory are those from `directory/` up to `directory0`.
const BEHIND_SLASH: char = '0';

/// The skills of a router.
#[derive(Debug, Clone, Default)]
pub(super) struct Skills {
    /// The entry of each skill, by the URI of its `SKILL.md`.
    entries: Entries<Json>,
    /// The files of all skills, by URI.
    files: BTreeMap<String, File>,
}

#[derive(Debug, Clone)]
struct File {
    /// The entry of the file in lists of resources.
    resource: Json,
    /// The result of `resources/read`.
    result: Json,
}

impl Skills {
    /// Adds a skill, and returns the entry of its `SKILL.md` in the list of resources.
    pub(super) fn add(&mut self, skill: ServedSkill) -> Result<Json, InvalidSkill> {
        if let Some(other) = self.nested_with(&skill.uri) {
            return Err(InvalidSkill::Nested { other: other.into() });
        }
        let resource = skill.files.first().map_or(Json::empty_object(), |file| file.resource.clone());
        self.entries.add(&skill.uri, skill.entry.clone(), skill.entry);
        for file in skill.files {
            self.files.insert(file.uri, File { resource: file.resource, result: file.result });
        }
        Ok(resource)
    }

    /// Removes the skill whose `SKILL.md` has this URI. Returns whether there was one.
    pub(super) fn remove(&mut self, uri: &str) -> bool {
        if !self.entries.remove(uri) {
            return false;
        }
        let (from, to) = bounds(directory_of(uri));
        let removed: Vec<_> = self.files.range(from..to).map(|(uri, _)| uri.clone()).collect();
        for uri in removed {
            self.files.remove(&uri);
        }
        true
    }

    pub(super) fn has_file(&self, uri: &str) -> bool {
        self.files.contains_key(uri)
    }

    pub(super) fn has_same_list(&self, other: &Self) -> bool {
        self.entries.has_same_list(&other.entries)
    }

    /// The extension that serves these skills (SK-01); `None` if there has never been one.
    pub(super) fn extension<H>(skills: &Arc<Self>) -> Option<Row<H>> {
        let settings = JsonObject::new().with("directoryRead", true);
        let served = Arc::clone(skills);
        let own = Arc::new(move |method: &Method, params: Option<&Json>, page_size: usize| {
            served.answer(method, params, page_size)
        });
        skills.entries.is_offered().then(|| Row::answered(SKILLS_EXTENSION, settings, own))
    }

    /// The answer to a request, if it is one for skills.
    fn answer(&self, method: &Method, params: Option<&Json>, page_size: usize) -> Option<Result<Json, ErrorObject>> {
        if *method == ListSkillsRequest::METHOD {
            return Some(page("skills", &self.entries, params, page_size));
        }
        if *method == GetSkillRequest::METHOD {
            return Some(self.get(params));
        }
        if *method == ReadResourceDirectoryRequest::METHOD {
            return Some(self.read_directory(params, page_size));
        }
        if *method == ReadResourceRequest::METHOD {
            let uri = ReadResourceRequest::params(params).ok()?.uri;
            return self.files.get(&uri).map(|file| Ok(file.result.clone()));
        }
        None
    }

    fn get(&self, params: Option<&Json>) -> Result<Json, ErrorObject> {
        let uri = GetSkillRequest::params(params)?.uri;
        // SK-02: every skill of the router has an entry.
        let entry = self.entries.get(&uri).ok_or_else(|| {
            ErrorObject::invalid_params("no skill has this URI: 'skills/list' returns the URIs of all skills")
        })?;
        Ok(Json::empty_object().with_member("skill", entry))
    }

    /// The direct children of a directory (SK-10). The cursor is the name of the last child of a page, with `/` behind that of a
    /// directory, so that it stays valid when skills are added and removed.
    fn read_directory(&self, params: Option<&Json>, page_size: usize) -> Result<Json, ErrorObject> {
        let params = ReadResourceDirectoryRequest::params(params)?;
        let (start, end) = bounds(&params.uri);
        let first = self.files.range(start.clone()..end.clone()).next();
        let is_directory =
            !params.uri.ends_with('/') && first.is_some_and(|(uri, _)| name_behind(uri, &start).is_some());
        if !is_directory {
            return Err(ErrorObject::invalid_params("no directory of a skill has this URI"));
        }
        let mut from = match params.cursor.as_deref() {
            None => Bound::Included(start.clone()),
            Some(cursor) => behind(&start, cursor).ok_or_else(|| {
                ErrorObject::invalid_params("no page has this cursor; read the directory again, without one")
            })?,
        };
        let (mut children, mut last) = (Vec::new(), None);
        let end = Bound::Excluded(end);
        while let Some((uri, file)) = self.files.range::<String, _>((from.as_ref(), end.as_ref())).next() {
            if children.len() == page_size {
                break;
            }
            let Some((name, is_file)) = name_behind(uri, &start) else { break };
            children.push(if is_file {
                file.resource.clone()
            } else {
                Resource::new(format!("{start}{name}"), name).mime_type(DIRECTORY).into()
            });
            let name = if is_file { name.to_owned() } else { format!("{name}/") };
            let Some(next) = behind(&start, &name) else { break };
            from = next;
            last = Some(name);
        }
        let has_more = self.files.range::<String, _>((from.as_ref(), end.as_ref())).next().is_some();
        let result = Json::empty_object().with_member("resources", &Json::array(&children));
        let next = last.filter(|_| has_more);
        Ok(next.map_or(result.clone(), |next| result.with_member("nextCursor", &Json::from(next))))
    }

    /// A skill inside of the skill with this URI, or around it. The files of the inner skill would belong to the outer
    /// one, too (SK-04).
    fn nested_with(&self, uri: &str) -> Option<&str> {
        let directory = directory_of(uri);
        let (from, to) = bounds(directory);
        let inside =
            self.files.range(from..to).map(|(uri, _)| uri.as_str()).find(|uri| self.entries.get(uri).is_some());
        let around = || {
            directory.match_indices('/').filter_map(|(slash, _)| directory.get(..slash)).find_map(|around| {
                let (uri, _) = self.files.get_key_value(&format!("{around}/{}", file_name_of(uri)))?;
                self.entries.get(uri).map(|_| uri.as_str())
            })
        };
        inside.or_else(around)
    }
}

/// The directory that a file is in.
fn directory_of(uri: &str) -> &str {
    uri.rsplit_once('/').map_or(uri, |(directory, _)| directory)
}

fn file_name_of(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or_default()
}

/// The URIs of all files in a directory and its subdirectories: from the first up to the second.
fn bounds(directory: &str) -> (String, String) {
    (format!("{directory}/"), format!("{directory}{BEHIND_SLASH}"))
}

/// The first path segment below `start`, and whether it is the file itself.
fn name_behind<'u>(uri: &'u str, start: &str) -> Option<(&'u str, bool)> {
    let path = uri.strip_prefix(start)?;
    let (name, is_file) = path.split_once('/').map_or((path, true), |(name, _)| (name, false));
    // Between `skill:` and the first part of a path, there is no directory.
    (!name.is_empty()).then_some((name, is_file))
}

/// Where the children behind this one begin. `None` if no child has this name.
fn behind(start: &str, child: &str) -> Option<Bound<String>> {
    let name = child.strip_suffix('/').unwrap_or(child);
    if name.is_empty() || name.contains('/') {
        return None;
    }
    Some(if name.len() == child.len() {
        Bound::Excluded(format!("{start}{name}"))
    } else {
        Bound::Included(format!("{start}{name}{BEHIND_SLASH}"))
    })
}

#[cfg(test)]
mod tests {
    use mcp_model::{Payload, ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult, ResourceTemplate};
    use mcp_proto::ProtocolVersion;

    use super::*;
    use crate::router::{Routed, Router};
    use crate::skills::SkillDirectory;

    fn skill(path: &str) -> SkillDirectory {
        SkillDirectory::new(path, "Does it", "Do it.")
    }

    fn answer(router: &Router<()>, method: &Method, params: &Json) -> Result<Json, ErrorObject> {
        let found = router.route(method, Some(params), ProtocolVersion::LATEST);
        let Routed::Answered(answer) = found else { panic!("{found:?}") };
        answer
    }

    fn read(router: &Router<()>, uri: &str, cursor: Option<&str>) -> Result<ReadResourceDirectoryResult, ErrorObject> {
        let params = ReadResourceDirectoryRequestParams::new(uri);
        let params = cursor.map_or(params.clone(), |cursor| params.cursor(cursor));
        let result = answer(router, &Method::RESOURCES_DIRECTORY_READ, &params.to_json())?;
        Ok(ReadResourceDirectoryResult::from_json(&result).unwrap())
    }

    /// The URIs of all children, from pages of any size.
    fn children(router: &mut Router<()>, uri: &str) -> Vec<String> {
        let mut results = (1..5).map(|size| {
            router.set_page_size(size);
            let (mut found, mut cursor) = (Vec::new(), None);
            loop {
                let page = read(router, uri, cursor.as_deref()).unwrap();
                assert!(page.resources.len() == size || page.next_cursor.is_none());
                found.extend(page.resources.into_iter().map(|resource| (resource.uri, resource.mime_type)));
                cursor = page.next_cursor;
                if cursor.is_none() {
                    return found;
                }
            }
        });
        let first = results.next().unwrap();
        assert!(results.all(|result| result == first));
        let of_directories = first.iter().filter(|(_, kind)| kind.as_deref() == Some(DIRECTORY));
        assert!(of_directories.clone().all(|(uri, _)| read(router, uri, None).is_ok()), "{first:?}");
        first.into_iter().map(|(uri, _)| uri).collect()
    }

    #[test]
    fn a_directory_has_each_direct_child_once_on_pages_of_any_size() {
        let mut router = Router::new();
        let refunds = ["a.md", "a/x", "a/y/z", "a0", "a-b/x"];
        let refunds = refunds.iter().fold(skill("acme/refunds"), |skill, path| skill.file(path, "text/plain", "x"));
        router.add_skill(&refunds);
        router.add_skill(&skill("acme/refunds-2"));
        router.add_skill(&skill("git"));
        router.capabilities(false).unwrap();
        for (uri, expected) in [
            ("skill://acme", &["/refunds", "/refunds-2"][..]),
            ("skill://acme/refunds", &["/SKILL.md", "/a-b", "/a.md", "/a", "/a0"]),
            ("skill://acme/refunds/a", &["/x", "/y"]),
            ("skill://acme/refunds/a/y", &["/z"]),
            ("skill://git", &["/SKILL.md"]),
        ] {
            let mut found = children(&mut router, uri);
            let mut expected: Vec<_> = expected.iter().map(|name| format!("{uri}{name}")).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn only_directories_of_skills_can_be_read_as_directories() {
        let mut router = Router::new();
        router.add_skill(&skill("a/b"));
        for uri in [
            "",
            "skill:",
            "skill:/",
            "skill://",
            "skill://a/",
            "skill://a/b/SKILL.md",
            "skill://a/bc",
            "skill://c",
            "x:a",
        ] {
            assert_eq!(read(&router, uri, None).unwrap_err().code(), -32602, "{uri}");
        }
        for cursor in ["", "/", "b/SKILL.md"] {
            assert_eq!(read(&router, "skill://a", Some(cursor)).unwrap_err().code(), -32602, "{cursor}");
        }
        assert_eq!(read(&router, "skill://a", Some("z")).unwrap().resources, []);
    }

    #[test]
    fn nothing_is_left_of_a_skill_that_was_removed() {
        let mut router = Router::new();
        router.add_skill(&skill("a").file("b/c", "text/plain", "x"));
        router.add_skill(&skill("a-b"));
        let before = router.clone();
        assert!(!router.remove_resource("skill://a/SKILL.md"), "it is removed with its skill");
        assert!(router.remove_skill("skill://a/SKILL.md") && !router.remove_skill("skill://a/SKILL.md"));
        let changes = before.changes(&router);
        assert_eq!(
            changes.iter().map(|change| change.method.as_str()).collect::<Vec<_>>(),
            [Method::RESOURCES_LIST_CHANGED.as_str()]
        );
        let uri = |uri: &str| Json::empty_object().with_member("uri", &Json::from(uri));
        for (method, params, expected) in [
            (Method::SKILLS_GET, uri("skill://a/SKILL.md"), -32602),
            (Method::RESOURCES_READ, uri("skill://a/b/c"), -32602),
            (Method::RESOURCES_DIRECTORY_READ, uri("skill://a"), -32602),
        ] {
            assert_eq!(answer(&router, &method, &params).unwrap_err().code(), expected);
        }
        assert!(answer(&router, &Method::SKILLS_GET, &uri("skill://a-b/SKILL.md")).is_ok());
        // The list is empty when the last skill was removed, and another one can have its place.
        assert!(router.remove_skill("skill://a-b/SKILL.md"));
        assert_eq!(
            answer(&router, &Method::SKILLS_LIST, &Json::empty_object()).unwrap().as_bytes(),
            br#"{"skills":[]}"#
        );
        router.add_skill(&skill("a"));
        assert!(answer(&router, &Method::RESOURCES_READ, &uri("skill://a/SKILL.md")).is_ok());
    }

    #[test]
    fn other_content_of_the_same_size_is_a_change_of_the_resources() {
        let [one, other] = ["x", "y"].map(|content| {
            let mut router = Router::<()>::new();
            router.add_skill(&skill("a").file("b", "text/plain", content));
            router
        });
        assert_eq!(one.changes(&other).len(), 1);
        assert_eq!(one.changes(&one.clone()).len(), 0);
    }

    #[test]
    fn the_capabilities_have_the_extension_and_resources() {
        let mut router = Router::new();
        router.add_resource_template(&ResourceTemplate::new("skill://{+path}", "t"), ());
        assert_eq!(Json::from(router.capabilities(false).unwrap()).as_bytes(), br#"{"resources":{}}"#);
        for method in [Method::SKILLS_LIST, Method::SKILLS_GET] {
            assert!(matches!(router.route(&method, None, ProtocolVersion::LATEST), Routed::Unrouted));
        }
        let mut router = Router::<()>::new();
        router.add_skill(&skill("a"));
        let declared = br#"{"resources":{},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}"#;
        assert_eq!(Json::from(router.capabilities(false).unwrap()).as_bytes(), declared);
    }

    #[test]
    fn skills_that_share_files_with_others_are_mistakes() {
        type Mistake = fn(&mut Router<()>);
        let cases: [(Mistake, &str); 6] = [
            (
                |router| router.add_skill(&skill("a/b")),
                "two skills have the name 'skill://a/b/SKILL.md'; each needs a name of its own",
            ),
            (
                |router| router.add_skill(&skill("a/b/c/d")),
                "the skill 'a/b/c/d' cannot be served: one of the skill and the skill 'skill://a/b/SKILL.md' contains the \
                 other; a router serves no nested skills",
            ),
            (
                |router| router.add_skill(&skill("a")),
                "the skill 'a' cannot be served: one of the skill and the skill 'skill://a/b/SKILL.md' contains the other; \
                 a router serves no nested skills",
            ),
            (
                |router| router.add_skill(&skill("c").file("r", "text/plain", "")),
                "the skill 'c' cannot be served: the router has another resource 'skill://c/r'",
            ),
            (
                |router| router.add_resource(&Resource::new("skill://a/b/x", "x"), ()),
                "two resources have the name 'skill://a/b/x'; each needs a name of its own",
            ),
            (
                |router| router.add_skill(&skill("C")),
                "the skill 'C' cannot be served: its name must have 1 to 64 lower-case letters, digits and single hyphens between them",
            ),
        ];
        for (mistake, expected) in cases {
            let mut router = Router::new();
            router.add_skill(&skill("a/b").file("x", "text/plain", ""));
            router.add_resource(&Resource::new("skill://c/r", "r"), ());
            assert!(router.capabilities(false).is_ok());
            mistake(&mut router);
            assert_eq!(router.capabilities(false).unwrap_err().to_string(), expected);
        }
    }
}
