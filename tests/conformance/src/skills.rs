//! The behaviour of `skills-client` in the scenarios for skills.

use std::error::Error;

use mcp_application::Error as CallError;
use mcp_model::{Skill, SkillResources};

type Done = Result<(), Box<dyn Error>>;

/// Whether the scenario loads skills. The other one lists them, and fails if a file is read.
fn loads(scenario: &str) -> Result<bool, String> {
    match scenario {
        "sep-2640-client-no-prefetch" => Ok(false),
        "sep-2640-client-verify-digest" | "sep-2640-client-verify-size" | "sep-2640-client-verify-frontmatter" => {
            Ok(true)
        }
        unknown => Err(format!("no such scenario: {unknown}")),
    }
}

/// The files of a skill besides its `SKILL.md`.
fn other_files(skill: &Skill) -> impl Iterator<Item = &str> {
    let files = match &skill.resources {
        SkillResources::Listed(files) => files.as_slice(),
        SkillResources::Dynamic => &[],
    };
    files.iter().map(|file| file.uri.as_str()).filter(|uri| *uri != skill.uri)
}

/// A skill whose file was refused is not used any further.
fn unless_refused(read: Result<(), CallError>) -> Done {
    match read {
        Ok(()) => Ok(()),
        Err(CallError::Skill(reason)) => {
            log::info!("a skill is not used: {reason}");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs the client's part of a scenario on `mcp-blocking`.
///
/// # Errors
///
/// The scenario is unknown, or a request to the server failed.
pub fn run_blocking(scenario: &str, builder: mcp_blocking::Builder<mcp_blocking::HttpServer>) -> Done {
    let client = builder.connect()?;
    let skills = client.list_all_skills().collect::<Result<Vec<_>, _>>()?;
    let load = |skill: &Skill| {
        client.read_skill_file(skill, &skill.uri)?;
        other_files(skill).try_for_each(|uri| client.read_skill_file(skill, uri).map(drop))
    };
    if loads(scenario)? {
        skills.iter().try_for_each(|skill| unless_refused(load(skill)))?;
    }
    client.close();
    Ok(())
}

/// Runs the client's part of a scenario on `mcp-tokio`.
///
/// # Errors
///
/// The scenario is unknown, or a request to the server failed.
pub async fn run_tokio(scenario: &str, builder: mcp_tokio::Builder<mcp_tokio::HttpServer>) -> Done {
    let client = builder.connect().await?;
    let skills = client.list_all_skills().collect().await?;
    let load = async |skill: &Skill| {
        client.read_skill_file(skill, &skill.uri).await?;
        for uri in other_files(skill) {
            client.read_skill_file(skill, uri).await?;
        }
        Ok(())
    };
    if loads(scenario)? {
        for skill in &skills {
            unless_refused(load(skill).await)?;
        }
    }
    client.close().await;
    Ok(())
}
