//! Writes the man pages and the shell completions of `mcp-proxy` into a folder: `pages FOLDER`.
//!
//! They are made from the command line that the binary has. This is a program of its own, so that the binary contains no
//! code for it.

use std::error::Error;
use std::path::PathBuf;
use std::{fs, iter};

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
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

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: pages FOLDER")?;
    fs::create_dir_all(&folder)?;
    let mut command = args::Args::command().disable_help_subcommand(true);
    command.build();
    for described in iter::once(&command).chain(command.get_subcommands()) {
        let page =
            Man::new(described.clone()).source(concat!("mcp-proxy ", env!("CARGO_PKG_VERSION"))).manual("mcp-proxy");
        page.generate_to(&folder)?;
    }
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut args::Args::command(), "mcp-proxy", &folder)?;
    }
    Ok(())
}
