//! The files of a skill, as a server describes them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use mcp_model::{
    BlobResourceContents, Payload, ReadResourceResult, Resource, ResourceContents, Skill, SkillResource,
    TextResourceContents,
};
use mcp_proto::Json;

use super::error::InvalidSkill;
use super::frontmatter::frontmatter;
use super::{SKILL_FILE, digest_of};

/// The most files of a skill that all clients accept (SK-06).
const MOST_FILES: usize = 512;
/// The most bytes of all files of a skill that all clients accept (SK-06).
const MOST_BYTES: usize = 16 << 20;
/// The most characters of a name (agentskills.io).
const LONGEST_NAME: usize = 64;
/// The most characters of a description (agentskills.io).
const LONGEST_DESCRIPTION: usize = 1024;

/// The files of a skill, as a server describes them.
///
/// Its path, such as `acme/refunds`, is its place among the skills of the server; the last part is its name. Its files are
/// resources below `skill://acme/refunds`.
///
/// # Example
///
/// ```
/// use mcp_application::router::Router;
/// use mcp_application::skills::SkillDirectory;
///
/// let skill = SkillDirectory::new("acme/refunds", "Refunds an order", "Use `templates/email.md` to answer.")
///     .file("templates/email.md", "text/markdown", "Dear customer, …");
/// let mut router = Router::<()>::new();
/// router.add_skill(&skill);
/// assert!(router.capabilities(false).is_ok());
/// ```
#[derive(Debug, Clone)]
pub struct SkillDirectory {
    path: String,
    files: Vec<File>,
}

#[derive(Debug, Clone)]
struct File {
    path: String,
    mime_type: String,
    content: Bytes,
}

impl SkillDirectory {
    /// A skill with these instructions, in Markdown. The description states what the skill does, and when to use it.
    #[must_use]
    pub fn new(path: &str, description: &str, instructions: &str) -> Self {
        // JSON strings are YAML, too, and stay strings whatever they contain.
        let [name, description] = [name_of(path), description].map(Json::from);
        let (name, description) = (name.to_text(), description.to_text());
        Self::from_skill_md(path, format!("---\nname: {name}\ndescription: {description}\n---\n\n{instructions}\n"))
    }

    /// A skill with this `SKILL.md`: YAML with at least `name` and `description` between two lines of `---`, and the
    /// instructions in Markdown.
    #[must_use]
    pub fn from_skill_md(path: &str, skill_md: impl Into<Bytes>) -> Self {
        Self { path: path.to_owned(), files: Vec::new() }.file(SKILL_FILE, "text/markdown", skill_md)
    }

    /// Adds a file. Its path, such as `templates/email.md`, is relative to the skill. Content that is UTF-8 is sent as text.
    #[must_use]
    pub fn file(mut self, path: &str, mime_type: &str, content: impl Into<Bytes>) -> Self {
        self.files.push(File { path: path.to_owned(), mime_type: mime_type.to_owned(), content: content.into() });
        self
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The URI of its `SKILL.md`.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("skill://{}/{SKILL_FILE}", self.path)
    }

    /// What a server answers for the skill.
    pub(crate) fn served(&self) -> Result<ServedSkill, InvalidSkill> {
        self.check()?;
        let skill_md = self.files.first().and_then(|file| std::str::from_utf8(&file.content).ok()).unwrap_or_default();
        let frontmatter = frontmatter(skill_md)?;
        let text_of = |member| frontmatter.as_json().first_member(member)?.as_string().map(Cow::into_owned);
        // SK-03: the name can be read from the URI alone.
        if text_of("name").as_deref() != Some(name_of(&self.path)) {
            return Err(InvalidSkill::OtherName);
        }
        let described =
            text_of("description").filter(|text| (1..=LONGEST_DESCRIPTION).contains(&text.trim().chars().count()));
        let description = described.ok_or(InvalidSkill::Description { limit: LONGEST_DESCRIPTION })?;

        let (mut listed, mut files) = (Vec::new(), Vec::new());
        for file in &self.files {
            let uri = format!("skill://{}/{}", self.path, file.path);
            let size = u64::try_from(file.content.len()).unwrap_or(u64::MAX);
            listed.push(SkillResource::new(uri.as_str(), digest_of(&file.content), size));
            let name = if file.path == SKILL_FILE { &self.path } else { &file.path };
            let mut resource = Resource::new(uri.as_str(), name_of(name)).mime_type(file.mime_type.as_str()).size(size);
            resource.description = (file.path == SKILL_FILE).then(|| description.clone());
            files.push(ServedFile { result: file.result(&uri), uri, resource: resource.into() });
        }
        let uri = self.uri();
        let entry = Skill::new(uri.as_str(), frontmatter, listed).to_json();
        Ok(ServedSkill { uri, entry, files })
    }

    fn check(&self) -> Result<(), InvalidSkill> {
        let name = name_of(&self.path);
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if name.len() > LONGEST_NAME || !name.split('-').all(is_word) {
            return Err(InvalidSkill::Name);
        }
        let invalid =
            [&self.path].into_iter().chain(self.files.iter().map(|file| &file.path)).find(|path| !is_path(path));
        if let Some(path) = invalid {
            return Err(InvalidSkill::Path { path: path.as_str().into() });
        }
        if self.files.len() > MOST_FILES {
            return Err(InvalidSkill::TooManyFiles { limit: MOST_FILES });
        }
        if self.files.iter().map(|file| file.content.len()).sum::<usize>() > MOST_BYTES {
            return Err(InvalidSkill::TooLarge { limit: MOST_BYTES });
        }
        let mut paths = BTreeSet::new();
        for file in &self.files {
            if !paths.insert(file.path.as_str()) {
                return Err(InvalidSkill::DuplicatePath { path: file.path.as_str().into() });
            }
        }
        let mut folders = self
            .files
            .iter()
            .flat_map(|file| file.path.match_indices('/').filter_map(|(slash, _)| file.path.get(..slash)));
        match folders.find(|folder| paths.contains(folder)) {
            Some(path) => Err(InvalidSkill::DuplicatePath { path: path.into() }),
            None => Ok(()),
        }
    }
}

impl File {
    /// The result of `resources/read`.
    fn result(&self, uri: &str) -> Json {
        // Both forms have the bytes to which the digest belongs.
        let contents: ResourceContents = match std::str::from_utf8(&self.content) {
            Ok(text) => TextResourceContents::new(uri, text).mime_type(self.mime_type.as_str()).into(),
            Err(_) => BlobResourceContents::from_bytes(uri, &self.content).mime_type(self.mime_type.as_str()).into(),
        };
        ReadResourceResult::new([contents]).into()
    }
}

/// What a server answers for a skill.
#[derive(Debug)]
pub(crate) struct ServedSkill {
    /// The URI of its `SKILL.md`.
    pub(crate) uri: String,
    /// Its entry.
    pub(crate) entry: Json,
    /// The files of the skill; the first one is `SKILL.md`.
    pub(crate) files: Vec<ServedFile>,
}

/// What a server answers for a file of a skill.
#[derive(Debug)]
pub(crate) struct ServedFile {
    pub(crate) uri: String,
    /// The entry of the file in lists of resources.
    pub(crate) resource: Json,
    /// The result of `resources/read`.
    pub(crate) result: Json,
}

/// The last part of a path.
fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether its parts can be parts of a URI without encoding, so that the first can be an authority (RFC 3986, `reg-name`),
/// and references relative to a skill mean the same on every computer.
fn is_path(path: &str) -> bool {
    let may_have = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte);
    path.split('/').all(|name| !matches!(name, "" | "." | "..") && name.bytes().all(may_have))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skills::InvalidFrontmatter;

    const SKILL_MD: &str = "---\nname: refunds\ndescription: Refunds an order\nlicense: MIT\n---\nDo it.\n";

    #[test]
    fn the_entry_of_a_skill_has_the_frontmatter_of_its_author_and_every_file() {
        let skill = SkillDirectory::from_skill_md("acme/refunds", SKILL_MD).file("a/b.bin", "image/png", &b"\xff"[..]);
        let served = skill.served().unwrap();
        let entry = r#"{"uri":"skill://acme/refunds/SKILL.md","frontmatter":{"name":"refunds","description":"Refunds an order","license":"MIT"},"resources":[{"uri":"skill://acme/refunds/SKILL.md","digest":"sha256:433ddf236dd6ab4c15e45bec093decda082598f44004e2843ccb560326ae62df","size":72},{"uri":"skill://acme/refunds/a/b.bin","digest":"sha256:a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89","size":1}]}"#;
        assert_eq!(served.entry.to_text(), entry);
        let resources: Vec<_> = served.files.iter().map(|file| file.resource.to_text().into_owned()).collect();
        assert_eq!(
            resources,
            [
                r#"{"uri":"skill://acme/refunds/SKILL.md","name":"refunds","description":"Refunds an order","mimeType":"text/markdown","size":72}"#,
                r#"{"uri":"skill://acme/refunds/a/b.bin","name":"b.bin","mimeType":"image/png","size":1}"#,
            ]
        );
        let blob = r#"{"contents":[{"uri":"skill://acme/refunds/a/b.bin","blob":"/w==","mimeType":"image/png"}]}"#;
        assert_eq!(served.files[1].result.to_text(), blob);
    }

    #[test]
    fn names_and_descriptions_stay_text_in_yaml() {
        for (name, description) in [("null", "true"), ("1", "a: \"b\" # c\n- d\t\u{7f}\u{85}"), ("on", "'{[&*!|>%@`")] {
            let entry = SkillDirectory::new(name, description, "Do it.").served().unwrap().entry;
            let frontmatter = entry.first_member("frontmatter").unwrap();
            let found = frontmatter.first_members(["name", "description"]).map(Option::unwrap);
            assert_eq!(found, [Json::from(name), Json::from(description)]);
        }
    }

    #[test]
    fn a_skill_that_some_clients_would_refuse_is_not_served() {
        let new = |path: &str| SkillDirectory::new(path, "d", "i");
        let with = |path: &str| new("a").file(path, "text/plain", "x");
        let many = (0..MOST_FILES).fold(new("a"), |skill, number| skill.file(&number.to_string(), "text/plain", ""));
        let path = |path: &str| InvalidSkill::Path { path: path.into() };
        let twice = |path: &str| InvalidSkill::DuplicatePath { path: path.into() };
        let long = "x".repeat(LONGEST_NAME + 1);
        for (skill, expected) in [
            (new(""), InvalidSkill::Name),
            (new("A"), InvalidSkill::Name),
            (new("a--b"), InvalidSkill::Name),
            (new("-a"), InvalidSkill::Name),
            (new("a/"), InvalidSkill::Name),
            (new(&long), InvalidSkill::Name),
            (new("/a"), path("/a")),
            (new("../a"), path("../a")),
            (new("x y/a"), path("x y/a")),
            (with("b c"), path("b c")),
            (with("b/../c"), path("b/../c")),
            (with("ä"), path("ä")),
            (with("SKILL.md"), twice("SKILL.md")),
            (with("b").file("b/c/d", "text/plain", ""), twice("b")),
            (many, InvalidSkill::TooManyFiles { limit: MOST_FILES }),
            (with("b").file("c", "text/plain", vec![0; MOST_BYTES]), InvalidSkill::TooLarge { limit: MOST_BYTES }),
            (SkillDirectory::new("a", " ", "i"), InvalidSkill::Description { limit: LONGEST_DESCRIPTION }),
            (
                SkillDirectory::new("a", &"x".repeat(LONGEST_DESCRIPTION + 1), "i"),
                InvalidSkill::Description { limit: LONGEST_DESCRIPTION },
            ),
            (SkillDirectory::from_skill_md("a", SKILL_MD), InvalidSkill::OtherName),
            (SkillDirectory::from_skill_md("a", "x"), InvalidFrontmatter::Missing.into()),
            (SkillDirectory::from_skill_md("a", &b"\xff"[..]), InvalidFrontmatter::Missing.into()),
        ] {
            assert_eq!(skill.served().unwrap_err(), expected);
        }
        assert!(new("a/b-1").file("b.c/d", "text/plain", "").file("b", "text/plain", "").served().is_ok());
    }

    #[test]
    fn a_skill_may_have_as_many_files_as_the_limit() {
        let count = |all: usize| {
            let all = (1..all).fold(SkillDirectory::new("a", "d", "i"), |skill, number| {
                skill.file(&number.to_string(), "text/plain", "")
            });
            all.served().map(|served| served.files.len())
        };
        assert_eq!(count(MOST_FILES), Ok(MOST_FILES));
        assert_eq!(count(MOST_FILES + 1), Err(InvalidSkill::TooManyFiles { limit: MOST_FILES }));
    }
}
