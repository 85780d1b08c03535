//! The bodies of the fuzz targets.
//!
//! Each function takes arbitrary bytes and panics when an invariant does not hold. `fuzz/run SECONDS NAME` runs it with new
//! inputs; `cargo test -p fuzz` runs it with the inputs of `corpus/NAME`, and compares the transcripts of the machines with
//! those in `transcripts`.
//!
//! | where | contents |
//! |---|---|
//! | `src/targets` | the bodies: `codecs`, machines over `http` and on byte streams (`stdio`), header parameters, era detection, what a sign-in receives (`authorization`, `redirect`), skills (`frontmatter`), filters (`rules`), templates of URIs (`uri_template`), extensions of a router (`extensions`), JSON Schemas (`schema`), any calls (`api`), gateways and aggregates (`gateway`, `aggregate`), servers that share a store (`instances`), also one whose contents are damaged (`stored`) |
//! | `src/script.rs` | a fuzz input as a source of decisions |
//! | `src/inputs.rs` | the inputs of the corpora, and scripts that are generated from seeds |
//! | `fuzz_targets`, `dictionaries` | for libFuzzer: an entry point and a dictionary for each target |
//! | `corpus` | for each target, the smallest set of inputs with the same coverage, as text; `corpus_files` unpacks and packs it |
//! | `transcripts` | the digest of the transcript of each input |

#![expect(clippy::panic, clippy::missing_panics_doc, reason = "a panic is how a finding is reported")]
#![expect(clippy::indexing_slicing, reason = "so is an index that is out of bounds")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a target reads the events that it checks, and ignores the others")]

pub mod inputs;
mod script;
mod targets;

pub use targets::{
    aggregate, api, challenge, client, client_stdio, era, extensions, frontmatter, gateway, instances, line, message,
    metadata, param_headers, redirect, relay, rules, schema, server, server_stdio, splice, sse, stored, token_response,
    uri_template,
};

/// A target: its name and function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 25] = [
    ("aggregate", aggregate),
    ("api", api),
    ("challenge", challenge),
    ("client", client),
    ("client_stdio", client_stdio),
    ("era", era),
    ("extensions", extensions),
    ("frontmatter", frontmatter),
    ("gateway", gateway),
    ("instances", instances),
    ("line", line),
    ("message", message),
    ("metadata", metadata),
    ("param_headers", param_headers),
    ("redirect", redirect),
    ("relay", relay),
    ("rules", rules),
    ("schema", schema),
    ("server", server),
    ("server_stdio", server_stdio),
    ("splice", splice),
    ("sse", sse),
    ("stored", stored),
    ("token_response", token_response),
    ("uri_template", uri_template),
];
