//! The options of `--check`.

use mcp_intermediary::relay;
use mcp_intermediary::relay::Filter;

use crate::restrictions::Restrictions;

/// The heading in the help.
const HEADING: &str = "Options of --check";

/// Whether the server is checked, and how.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct CheckOptions {
    /// Connects, prints what was found, and exits with 0 if the server can be used
    #[arg(long, conflicts_with = "record")]
    check: bool,

    /// Checks the server, and calls this tool without arguments, which may have effects
    #[arg(long, value_name = "NAME", conflicts_with = "record", help_heading = HEADING)]
    check_tool: Option<String>,

    /// Prints the names of the tools, with `--check`
    #[arg(long, help_heading = HEADING)]
    verbose: bool,

    /// Prints one JSON object, with `--check`
    #[arg(long, help_heading = HEADING)]
    json: bool,
}

impl CheckOptions {
    /// What the check has to do for a bridge with these restrictions.
    ///
    /// # Errors
    ///
    /// A text for the user, to be shown with the usage.
    pub(super) fn asked(&self, restrictions: &Restrictions) -> Result<Asked, String> {
        let mut config = relay::Config::default();
        restrictions.filters().apply(&mut config)?;
        Ok(Asked { tool: self.check_tool.clone(), names: self.verbose, json: self.json, filter: config.filter })
    }

    /// Whether the server is to be checked.
    pub(super) const fn is_check(&self) -> bool {
        self.check || self.check_tool.is_some()
    }
}

/// What is asked of a check.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// A tool that is called without arguments.
    pub(crate) tool: Option<String>,
    /// The names of the tools are printed, not only their number.
    pub(crate) names: bool,
    /// One JSON object is printed instead of lines.
    pub(crate) json: bool,
    /// What clients of the bridge may use.
    pub(crate) filter: Filter,
}
