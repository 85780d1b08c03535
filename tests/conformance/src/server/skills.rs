//! The extension `io.modelcontextprotocol/skills`.

use mcp_application::skills::SkillDirectory;

use super::samples::PNG;

/// A skill whose `SKILL.md` was written by hand, which the suite compares with its entry, and one that was not.
pub(super) fn all() -> [SkillDirectory; 2] {
    let workflow = SkillDirectory::from_skill_md("git-workflow", WORKFLOW)
        .file("templates/message.md", "text/markdown", "Do one thing")
        .file("templates/logo.txt", "text/plain", PNG)
        .file("seal.bin", "application/octet-stream", &b"\x00\xff"[..]);
    [workflow, SkillDirectory::new("acme/refunds", "Refunds an order", "Return the money.")]
}

const WORKFLOW: &str = r#"---
name: git-workflow
description: >-
  Branches and commits as this team does it:
  one idea, one commit
license: MIT OR Apache-2.0
allowed-tools: [git, "gh"]
metadata:
  version: 1.50
  reviewed: 2026-09-13
  stable: true
  replaced-by: ~
---

Commit each idea on its own, with a message like `templates/message.md`.
"#;
