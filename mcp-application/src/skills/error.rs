//! Why a skill cannot be served, or a file of a skill not be used.

/// Why a server cannot offer a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSkill {
    /// The name, the last part of the path, is not allowed for a skill.
    ///
    /// Rules: SK-03.
    #[error("its name must have 1 to 64 lower-case letters, digits and single hyphens between them")]
    Name,
    /// The `SKILL.md` has another name than the directory.
    ///
    /// Rules: SK-03.
    #[error("the name in its SKILL.md must be the last part of its path")]
    OtherName,
    /// The description is missing, empty or too long.
    #[error("its description must have 1 to {limit} characters")]
    Description {
        /// The most characters.
        limit: usize,
    },
    /// The `SKILL.md` does not begin with usable YAML.
    #[error("its SKILL.md cannot be used: {0}")]
    Frontmatter(#[from] InvalidFrontmatter),
    /// A path cannot be a part of a URI.
    #[error(
        "the path '{path}' cannot be a part of a URI: it must have names of letters, digits and -._~!$&'()*+,;= with \
         '/' between them, and no name may be '.' or '..'"
    )]
    Path {
        /// The path.
        path: Box<str>,
    },
    /// Two files have the same path, or one is also a directory.
    #[error("the path '{path}' belongs to two files, or to a file and a directory")]
    DuplicatePath {
        /// The path.
        path: Box<str>,
    },
    /// A file is already offered as a resource.
    #[error("the router has another resource '{uri}'")]
    DuplicateResource {
        /// The URI of the file.
        uri: Box<str>,
    },
    /// The skill contains another skill, or is inside of one.
    #[error("one of the skill and the skill '{other}' contains the other; a router serves no nested skills")]
    Nested {
        /// The URI of the other skill's `SKILL.md`.
        other: Box<str>,
    },
    /// The skill has more files than all clients accept.
    ///
    /// Rules: SK-06.
    #[error("it has more than {limit} files, which is the limit of the extension")]
    TooManyFiles {
        /// The most files.
        limit: usize,
    },
    /// The files of the skill are larger than all clients accept.
    ///
    /// Rules: SK-06.
    #[error("its files have more than {limit} bytes together, which is the limit of the extension")]
    TooLarge {
        /// The most bytes.
        limit: usize,
    },
}

/// Why the YAML at the beginning of a `SKILL.md` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidFrontmatter {
    /// There is no YAML.
    #[error("it must begin with YAML between two lines of '---'")]
    Missing,
    /// The YAML is too long.
    #[error("its YAML has more than {limit} bytes")]
    TooLong {
        /// The most bytes.
        limit: usize,
    },
    /// The text is no YAML.
    #[error("line {line} of its YAML is invalid")]
    Yaml {
        /// The line, counted from 1.
        line: usize,
    },
    /// The YAML has something that JSON does not have, or that is not supported.
    #[error("line {line} of its YAML has {what}")]
    Unsupported {
        /// The line, counted from 1.
        line: usize,
        /// What the line has, for the message.
        what: &'static str,
    },
    /// The YAML is no mapping.
    #[error("its YAML must be a mapping")]
    NoMapping,
}

/// Why a file of a skill must not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkillMismatch {
    /// The entry of the skill does not have the file.
    ///
    /// Rules: SK-08.
    #[error("the entry of the skill does not have this file")]
    NotListed,
    /// The entry of the skill has the file more than once.
    ///
    /// Rules: SK-04.
    #[error("the entry of the skill has this file more than once")]
    ListedTwice,
    /// The result is not the content of one file.
    #[error("the server returned something else than the content of this file")]
    Content,
    /// The file has another size than its entry states.
    ///
    /// Rules: SK-07.
    #[error("the file has {found} bytes instead of {stated}")]
    Size {
        /// The bytes of the file.
        found: usize,
        /// The bytes that the entry states, as text.
        stated: Box<str>,
    },
    /// The file has another digest than its entry states.
    ///
    /// Rules: SK-07.
    #[error("the file has another digest than the entry of the skill states")]
    Digest,
    /// The `SKILL.md` does not begin with usable YAML.
    ///
    /// Rules: SK-09.
    #[error("the SKILL.md cannot be used: {0}")]
    Frontmatter(#[from] InvalidFrontmatter),
    /// The YAML of the `SKILL.md` differs from the entry.
    ///
    /// Rules: SK-09.
    #[error("the SKILL.md begins with other YAML than the entry of the skill states")]
    OtherFrontmatter,
}
