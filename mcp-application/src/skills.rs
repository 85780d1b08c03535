//! Skills: directories of files with instructions for a language model (feature `skills`).
//!
//! The extension `io.modelcontextprotocol/skills` (SEP-2640) defines how a server offers them: each file is a resource, and
//! `skills/list` returns the digests of all files. The format is that of <https://agentskills.io/specification>: each skill
//! has a file `SKILL.md`, which begins with YAML, the *frontmatter*.
//!
//! A server describes a skill with a [`SkillDirectory`], and adds it to a router. A client checks each file that it reads
//! with an [`ExpectedFile`]; the drivers do both.
//!
//! A digest shows only that a file is the one of the entry. Neither is trustworthy because of it: the application asks its
//! user before a skill of a server is used.
//!
//! | file | what it does |
//! |---|---|
//! | `directory` | the files of a skill, as a server describes them |
//! | `expected` | a file of a skill, as a client expects it |
//! | `frontmatter` | the YAML at the beginning of a `SKILL.md`, as JSON |
//! | `yaml` | YAML to JSON |
//! | `error` | why a skill cannot be served, or a file not be used |

mod directory;
mod error;
mod expected;
mod frontmatter;
mod yaml;

use std::fmt::Write;

use sha2::{Digest, Sha256};

pub(crate) use directory::ServedSkill;
pub use directory::SkillDirectory;
pub use error::{InvalidFrontmatter, InvalidSkill, SkillMismatch};
pub use expected::ExpectedFile;
pub use frontmatter::frontmatter;

/// The file that each skill has.
const SKILL_FILE: &str = "SKILL.md";

/// The digest of a file, as entries of skills state it (SK-04).
fn digest_of(content: &[u8]) -> String {
    Sha256::digest(content).iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
