//! A file of a skill, as a client expects it.

use mcp_model::{JsonObject, ReadResourceResult, ResourceContents, Skill, SkillResource, SkillResources};

use super::error::SkillMismatch;
use super::frontmatter::{frontmatter, is_same_content};
use super::{SKILL_FILE, digest_of};

/// A file of a skill, before it is read. What the server returns is used only if it is the file that the entry describes.
///
/// # Example
///
/// ```
/// use mcp_model::{JsonObject, ReadResourceResult, Skill, SkillResource, TextResourceContents};
/// use mcp_application::skills::{ExpectedFile, SkillMismatch};
///
/// let uri = "skill://greet/SKILL.md";
/// let text = "---\nname: greet\ndescription: Greets.\n---\nSay hello.\n";
/// let digest = "sha256:a4ae524fdafacd140939a8b88bd3ec3c58e9542393f54319f0062c85ae929348";
/// let frontmatter = JsonObject::new().with("name", "greet").with("description", "Greets.");
/// let skill = Skill::new(uri, frontmatter, vec![SkillResource::new(uri, digest, text.len() as u64)]);
///
/// let read = |text: &str| ReadResourceResult::new([TextResourceContents::new(uri, text).into()]);
/// let file = ExpectedFile::new(&skill, uri)?;
/// assert_eq!(file.verify(&read(text))?, text.as_bytes());
/// assert_eq!(file.verify(&read(&text.replace("hello", "adieu"))), Err(SkillMismatch::Digest));
/// # Ok::<(), SkillMismatch>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ExpectedFile<'s> {
    uri: &'s str,
    /// `None` if the content of the skill is generated.
    stated: Option<&'s SkillResource>,
    /// The frontmatter in the entry of the skill, if the file is its `SKILL.md`.
    frontmatter: Option<&'s JsonObject>,
}

impl<'s> ExpectedFile<'s> {
    /// The file with this URI. Files of a skill whose content is generated can have any URI below that of the skill.
    ///
    /// # Errors
    ///
    /// The skill does not have the file: it must not even be requested.
    pub fn new(skill: &'s Skill, uri: &'s str) -> Result<Self, SkillMismatch> {
        let stated = match &skill.resources {
            SkillResources::Listed(files) => {
                let mut found = files.iter().filter(|file| file.uri == uri);
                // While a skill is used, only files of its entry are read (SK-08).
                let file = found.next().ok_or(SkillMismatch::NotListed)?;
                if found.next().is_some() {
                    return Err(SkillMismatch::ListedTwice);
                }
                Some(file)
            }
            SkillResources::Dynamic => {
                let folder = skill.uri.strip_suffix(SKILL_FILE).ok_or(SkillMismatch::NotListed)?;
                let path = uri.strip_prefix(folder).ok_or(SkillMismatch::NotListed)?;
                if path.split('/').any(|name| matches!(name, "" | "." | "..")) {
                    return Err(SkillMismatch::NotListed);
                }
                None
            }
        };
        Ok(Self { uri, stated, frontmatter: (uri == skill.uri).then_some(&skill.frontmatter) })
    }

    /// The bytes of the file, if they are those of the entry: size, digest, and the frontmatter of a `SKILL.md`.
    ///
    /// Of a skill whose content is generated, only the frontmatter is compared.
    ///
    /// # Errors
    ///
    /// The file differs from the entry, and must not be used. The skill may have changed since the entry was requested: its
    /// new entry has other digests, to which the user has not agreed yet.
    pub fn verify(&self, result: &ReadResourceResult) -> Result<Vec<u8>, SkillMismatch> {
        let content = self.content_of(result)?;
        if let Some(stated) = self.stated {
            // SK-07: a file of another size is not the one of the entry, whatever its digest.
            if stated.size.as_u64() != u64::try_from(content.len()).ok() {
                return Err(SkillMismatch::Size { found: content.len(), stated: stated.size.to_string().into() });
            }
            if stated.digest != digest_of(&content) {
                return Err(SkillMismatch::Digest);
            }
        }
        if let Some(expected) = self.frontmatter {
            // SK-09: what the user agreed to is what the model receives.
            let text = std::str::from_utf8(&content).map_err(|_| SkillMismatch::Content)?;
            if !is_same_content(frontmatter(text)?.as_json(), expected.as_json()) {
                return Err(SkillMismatch::OtherFrontmatter);
            }
        }
        Ok(content)
    }

    fn content_of(&self, result: &ReadResourceResult) -> Result<Vec<u8>, SkillMismatch> {
        match result.contents.as_slice() {
            [ResourceContents::Text(text)] if text.uri == self.uri => Ok(text.text.clone().into_bytes()),
            [ResourceContents::Blob(blob)] if blob.uri == self.uri => {
                blob.to_bytes().map_err(|_| SkillMismatch::Content)
            }
            _ => Err(SkillMismatch::Content),
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_model::{BlobResourceContents, TextResourceContents};

    use super::*;

    const URI: &str = "skill://a/greet/SKILL.md";
    const TEXT: &str = "---\nname: greet\ndescription: Greets.\n---\nHello\n";

    fn entry(files: impl Into<SkillResources>) -> Skill {
        Skill::new(URI, JsonObject::new().with("description", "Greets.").with("name", "greet"), files)
    }

    fn listed(content: &str) -> Skill {
        entry(vec![SkillResource::new(URI, digest_of(content.as_bytes()), content.len() as u64)])
    }

    fn read(text: &str) -> ReadResourceResult {
        ReadResourceResult::new([TextResourceContents::new(URI, text).into()])
    }

    #[test]
    fn a_file_that_differs_from_its_entry_is_refused() {
        let other_text = TEXT.replace("Hello", "Howdy");
        let other_name = TEXT.replace("Greets.", "Steals.");
        let blob = |bytes: &[u8]| ReadResourceResult::new([BlobResourceContents::from_bytes(URI, bytes).into()]);
        let elsewhere = ReadResourceResult::new([TextResourceContents::new("skill://b/SKILL.md", TEXT).into()]);
        let twice = ReadResourceResult::new([read(TEXT).contents[0].clone(), read(TEXT).contents[0].clone()]);
        let dynamic = entry(SkillResources::Dynamic);
        for (skill, result, expected) in [
            (listed(TEXT), read(TEXT), Ok(TEXT)),
            (listed(TEXT), blob(TEXT.as_bytes()), Ok(TEXT)),
            (listed(TEXT), read(&other_text), Err(SkillMismatch::Digest)),
            (listed(TEXT), read("x"), Err(SkillMismatch::Size { found: 1, stated: "47".into() })),
            (listed(&other_name), read(&other_name), Err(SkillMismatch::OtherFrontmatter)),
            (listed("---"), read("---"), Err(SkillMismatch::Frontmatter(super::super::InvalidFrontmatter::Missing))),
            (listed(TEXT), elsewhere, Err(SkillMismatch::Content)),
            (listed(TEXT), twice, Err(SkillMismatch::Content)),
            (listed(TEXT), ReadResourceResult::new([]), Err(SkillMismatch::Content)),
            (dynamic.clone(), read(&other_text), Ok(&*other_text)),
            (dynamic.clone(), blob(b"\xff"), Err(SkillMismatch::Content)),
            (dynamic, read(&other_name), Err(SkillMismatch::OtherFrontmatter)),
        ] {
            let found = ExpectedFile::new(&skill, URI).and_then(|file| file.verify(&result));
            assert_eq!(found, expected.map(|text| text.as_bytes().to_vec()), "{result:?}");
        }
    }

    #[test]
    fn a_file_that_the_entry_does_not_have_is_not_requested() {
        let new = |skill: &Skill, uri: &str| ExpectedFile::new(skill, uri).map(drop);
        let skill = listed(TEXT);
        assert_eq!(new(&skill, "skill://a/greet/more.md"), Err(SkillMismatch::NotListed));
        let file = SkillResource::new(URI, digest_of(b""), 0);
        assert_eq!(new(&entry(vec![file.clone(), file]), URI), Err(SkillMismatch::ListedTwice));
        let dynamic = entry(SkillResources::Dynamic);
        assert_eq!(new(&dynamic, "skill://a/greet/more/x.md"), Ok(()));
        for uri in ["skill://a/other.md", "skill://a/greet/../other.md", "skill://a/greet/", "skill://a/greeting"] {
            assert_eq!(new(&dynamic, uri), Err(SkillMismatch::NotListed), "{uri}");
        }
    }
}
