//! Skills and directories (the extension `io.modelcontextprotocol/skills`).

use mcp_proto::Json;

use super::common::CacheScope;
use super::define::{object, payload};
use super::error::ModelError;
use super::object::Value;
use super::resources::Resource;
use super::value::{JsonObject, Meta, Number};

object! {
    /// The result of `skills/list`.
    ListSkillsResult {
        required {
            /// The skills of this page.
            skills: Vec<Skill> = "skills",
        }
        optional {
            /// The cursor of the next page; absent on the last page.
            next_cursor: String = "nextCursor",
            /// How many milliseconds the result may be cached.
            ttl_ms: Number = "ttlMs",
            /// Which clients may use the cached result.
            cache_scope: CacheScope = "cacheScope",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The entry of a skill, with all that a client needs to verify its files. The files are resources.
    Skill {
        required {
            /// The URI of its file `SKILL.md`, which identifies the skill among those of its server.
            uri: String = "uri",
            /// The YAML at the beginning of its `SKILL.md`, as JSON: `name`, `description`, and what else the author wrote.
            frontmatter: JsonObject = "frontmatter",
            /// All its files.
            resources: SkillResources = "resources",
        }
    }
}

/// The files of a skill.
#[derive(Debug, Clone, PartialEq)]
pub enum SkillResources {
    /// All files, `SKILL.md` included.
    Listed(Vec<SkillResource>),
    /// The content is generated, so that it has no lasting digests: `"dynamic"` on the wire.
    Dynamic,
}

const DYNAMIC: &str = "dynamic";

impl From<Vec<SkillResource>> for SkillResources {
    fn from(files: Vec<SkillResource>) -> Self {
        Self::Listed(files)
    }
}

impl Value for SkillResources {
    fn read(json: &Json) -> Result<Self, ModelError> {
        match json.as_string() {
            Some(word) if word == DYNAMIC => Ok(Self::Dynamic),
            // Any other value is invalid (SK-04).
            Some(_) => Err(ModelError::expected("an array or \"dynamic\"")),
            None => Value::read(json).map(Self::Listed),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Listed(files) => files.write(out),
            Self::Dynamic => Json::from(DYNAMIC).write(out),
        }
    }
}

payload! { SkillResources }

object! {
    /// A file of a skill.
    SkillResource {
        required {
            /// Its URI.
            uri: String = "uri",
            /// The SHA-256 digest of its bytes: `sha256:` and 64 lower-case hexadecimal digits.
            digest: String = "digest",
            /// The number of its bytes.
            size: Number = "size",
        }
    }
}

object! {
    /// The parameters of `skills/get`.
    GetSkillRequestParams {
        required {
            /// The URI of the skill's `SKILL.md`.
            uri: String = "uri",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The result of `skills/get`.
    GetSkillResult {
        required {
            /// The entry of the skill.
            skill: Skill = "skill",
        }
        optional {
            /// How many milliseconds the result may be cached.
            ttl_ms: Number = "ttlMs",
            /// Which clients may use the cached result.
            cache_scope: CacheScope = "cacheScope",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `resources/directory/read`.
    ReadResourceDirectoryRequestParams {
        required {
            /// The URI of the directory, without a slash at its end.
            uri: String = "uri",
        }
        optional {
            /// The cursor of the page; absent for the first page.
            cursor: String = "cursor",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The result of `resources/directory/read`.
    ReadResourceDirectoryResult {
        required {
            /// The direct children of the directory. Those with the media type `inode/directory` are directories.
            resources: Vec<Resource> = "resources",
        }
        optional {
            /// The cursor of the next page; absent on the last page.
            next_cursor: String = "nextCursor",
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}
