//! Writes the man pages and the shell completions of `mcp-proxy` into a folder: `pages FOLDER`.
//!
//! They are made from the command line that the binary has. This is a program of its own, so that the binary contains no
//! code for it.

use std::error::Error;
use std::path::PathBuf;
use std::{fs, io, iter};

use clap::{Arg, Command, CommandFactory, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use proxy::args::help;
use proxy::{
    args, environment, hub, json_file, logging, pin_file, platform, private_file, restrictions, secrets, sign_in,
};

/// The command line of the binary, from its own source.
#[path = "../../mcp-proxy/src"]
#[expect(dead_code, unused_imports, reason = "only the description of the command line is used")]
mod proxy {
    pub(crate) mod args;
    pub(crate) mod environment;
    pub(crate) mod hub;
    pub(crate) mod json_file;
    pub(crate) mod logging;
    pub(crate) mod pin_file;
    pub(crate) mod platform;
    pub(crate) mod private_file;
    pub(crate) mod restrictions;
    pub(crate) mod secrets;
    pub(crate) mod sign_in;
}

/// The command line with all options, also those that the help leaves out because few people need them.
fn complete() -> Command {
    let shown = |option: Arg| {
        let is_rare = help::RARE.contains(&option.get_id().as_str());
        if is_rare { option.hide(false) } else { option }
    };
    args::Args::command().mut_args(shown).mut_subcommand("serve", |serve| serve.mut_args(shown))
}

/// The man page of a command: what its help states, with the sections that its text ends with.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let sections = match command.get_name() {
        "serve" => help::SERVE,
        "login" | "logout" | "whoami" => help::ACCOUNT,
        "demo" => &[],
        _ => help::PROXY,
    };
    let source = concat!("mcp-proxy ", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command.clone()).source(source).manual("mcp-proxy");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    for (title, entries) in sections {
        let mut roff = Roff::new();
        roff.control("SH", [title.to_uppercase().as_str()]);
        for (entry, explanation) in *entries {
            roff.control("TP", []).text([bold(*entry)]).text([roman(*explanation)]);
        }
        roff.to_writer(&mut text)?;
    }
    if command.get_version().is_some() {
        page.render_version_section(&mut text)?;
    }
    Ok(text)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: pages FOLDER")?;
    fs::create_dir_all(&folder)?;
    let mut command = complete().disable_help_subcommand(true);
    command.build();
    for described in iter::once(&command).chain(command.get_subcommands()) {
        let name = described.get_display_name().unwrap_or("mcp-proxy");
        fs::write(folder.join(format!("{name}.1")), page(described)?)?;
    }
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut complete(), "mcp-proxy", &folder)?;
    }
    Ok(())
}
