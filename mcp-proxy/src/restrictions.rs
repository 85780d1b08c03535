//! Options that restrict what clients may use of a server.

use std::path::PathBuf;

use clap::ValueEnum;
use mcp_intermediary::relay::{Config, NewTools, PinMode, Pinning, Rule};
use mcp_proto::UsageError;
use mcp_proto::spec::Primitive;

use crate::pin_file::PinFile;

/// The heading in the help.
const HEADING: &str = "Options that restrict what clients may use";

/// What clients may use of a server.
///
/// In a pattern, `*` stands for any characters and `?` for any one.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct Restrictions {
    /// Allows the tools whose names match the pattern, such as `read_*`, and no others (repeatable)
    #[arg(long, value_name = "PATTERN", help_heading = HEADING)]
    allow_tool: Vec<String>,

    /// Hides the tools whose names match the pattern, and refuses their calls (repeatable)
    #[arg(long, value_name = "PATTERN", help_heading = HEADING)]
    deny_tool: Vec<String>,

    /// Allows the prompts whose names match the pattern, and no others (repeatable)
    #[arg(long, value_name = "PATTERN", help_heading = HEADING)]
    allow_prompt: Vec<String>,

    /// Hides the prompts whose names match the pattern (repeatable)
    #[arg(long, value_name = "PATTERN", help_heading = HEADING)]
    deny_prompt: Vec<String>,

    /// Allows the resources and templates whose URIs match the pattern, such as `file:///home/me/*`, and no others
    /// (repeatable)
    #[arg(long, value_name = "PATTERN", help_heading = HEADING)]
    allow_resource: Vec<String>,

    /// Hides the resources and templates whose URIs match the pattern (repeatable)
    #[arg(long, value_name = "PATTERN", help_heading = HEADING)]
    deny_resource: Vec<String>,

    /// Stores the definitions of the tools in this file when they are listed first, and compares later ones with them; of
    /// several servers, each has a file with its name appended
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pin: Option<PathBuf>,

    /// What follows if the definition of a tool has changed: it is blocked, or there is only a warning in the log
    #[arg(long, value_enum, default_value_t, requires = "pin", help_heading = HEADING)]
    pin_mode: Mode,

    /// What follows if a tool is listed that the complete list in the file does not have
    #[arg(long, value_enum, default_value_t, requires = "pin", help_heading = HEADING)]
    pin_new: New,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Mode {
    /// Hides the tool, and refuses its calls, until its pin is removed from the file
    #[default]
    Block,
    /// Logs a warning
    Warn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum New {
    /// Pins the tool
    #[default]
    Accept,
    /// Treats the tool as one that has changed
    Refuse,
}

impl Restrictions {
    /// The same for one of several servers, whose pins are in a file of its own: its name follows that of the file.
    pub(crate) fn of_server(&self, name: Option<&str>) -> Self {
        let pin = self.pin.clone().map(|mut path| {
            if let Some(name) = name {
                path.as_mut_os_string().push(format!(".{name}"));
            }
            path
        });
        Self { pin, ..self.clone() }
    }

    /// The restrictions on these names and URIs, which a file states for one server.
    pub(crate) fn of_lists(kind: Primitive, allowed: Vec<String>, denied: Vec<String>) -> Self {
        let none = Self::default();
        match kind {
            Primitive::Tool => Self { allow_tool: allowed, deny_tool: denied, ..none },
            Primitive::Prompt => Self { allow_prompt: allowed, deny_prompt: denied, ..none },
            Primitive::Resource => Self { allow_resource: allowed, deny_resource: denied, ..none },
        }
    }

    /// These restrictions, and those of the file for one server.
    ///
    /// # Errors
    ///
    /// A text for the user: both allow only some names of a kind, which would allow more than each of them.
    pub(crate) fn and(&self, of_file: &Self) -> Result<Self, String> {
        let mut both = self.clone();
        for (allowed, more, option) in [
            (&mut both.allow_tool, &of_file.allow_tool, "--allow-tool"),
            (&mut both.allow_prompt, &of_file.allow_prompt, "--allow-prompt"),
            (&mut both.allow_resource, &of_file.allow_resource, "--allow-resource"),
        ] {
            if !allowed.is_empty() && !more.is_empty() {
                return Err(format!("{option}: the file has such a list for this server, too; use one of them"));
            }
            allowed.extend(more.iter().cloned());
        }
        both.deny_tool.extend(of_file.deny_tool.iter().cloned());
        both.deny_prompt.extend(of_file.deny_prompt.iter().cloned());
        both.deny_resource.extend(of_file.deny_resource.iter().cloned());
        Ok(both)
    }

    /// The restrictions on names and URIs, without pins.
    pub(crate) fn filters(&self) -> Self {
        Self { pin: None, ..self.clone() }
    }

    /// The restrictions that concern pins, without names and URIs.
    pub(crate) fn pins(&self) -> Self {
        Self { pin: self.pin.clone(), pin_mode: self.pin_mode, pin_new: self.pin_new, ..Self::default() }
    }

    /// Sets the filter and the pins of a relay or a gateway. Returns the file of the pins, if there is one.
    ///
    /// # Errors
    ///
    /// A text for the user, to be shown with the usage.
    pub(crate) fn apply(&self, config: &mut Config) -> Result<Option<PinFile>, String> {
        type MakeRule = fn(Primitive, &str) -> Result<Rule, UsageError>;
        let options: [(&str, &[String], MakeRule, Primitive); 6] = [
            ("--allow-tool", &self.allow_tool, Rule::allow, Primitive::Tool),
            ("--deny-tool", &self.deny_tool, Rule::deny, Primitive::Tool),
            ("--allow-prompt", &self.allow_prompt, Rule::allow, Primitive::Prompt),
            ("--deny-prompt", &self.deny_prompt, Rule::deny, Primitive::Prompt),
            ("--allow-resource", &self.allow_resource, Rule::allow, Primitive::Resource),
            ("--deny-resource", &self.deny_resource, Rule::deny, Primitive::Resource),
        ];
        for (option, patterns, rule, primitive) in options {
            for pattern in patterns {
                config.filter.add(rule(primitive, pattern).map_err(|error| format!("{option}: {error}"))?);
            }
        }
        let Some(path) = &self.pin else { return Ok(None) };
        let file = PinFile::new(path.clone());
        let pins = file.open().map_err(|error| format!("--pin {}: {error}", path.display()))?;
        let mut pinning = Pinning::new(pins);
        pinning.mode = match self.pin_mode {
            Mode::Block => PinMode::Block,
            Mode::Warn => PinMode::Warn,
        };
        pinning.new_tools = match self.pin_new {
            New::Accept => NewTools::Accept,
            New::Refuse => NewTools::Refuse,
        };
        pinning.is_shared = true;
        config.pinning = Some(pinning);
        Ok(Some(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_has_an_effect_on_its_kind() {
        use Primitive::{Prompt, Resource, Tool};
        let one = || vec!["a*".to_owned()];
        for (restrictions, primitive, allows) in [
            (Restrictions { allow_tool: one(), ..Restrictions::default() }, Tool, [true, false]),
            (Restrictions { deny_tool: one(), ..Restrictions::default() }, Tool, [false, true]),
            (Restrictions { allow_prompt: one(), ..Restrictions::default() }, Prompt, [true, false]),
            (Restrictions { deny_prompt: one(), ..Restrictions::default() }, Prompt, [false, true]),
            (Restrictions { allow_resource: one(), ..Restrictions::default() }, Resource, [true, false]),
            (Restrictions { deny_resource: one(), ..Restrictions::default() }, Resource, [false, true]),
        ] {
            let mut config = Config::default();
            assert!(restrictions.apply(&mut config).unwrap().is_none() && config.pinning.is_none());
            for other in [Tool, Prompt, Resource] {
                let expected = if other == primitive { allows } else { [true; 2] };
                assert_eq!(["ab:1", "b:1"].map(|name| config.filter.allows(other, name, None)), expected);
            }
        }
        let of_one = Restrictions { pin: Some("pins.json".into()), ..Restrictions::default() };
        assert_eq!(of_one.of_server(None).pin, Some("pins.json".into()));
        assert_eq!(of_one.of_server(Some("files")).pin, Some("pins.json.files".into()));
        assert_eq!((of_one.pins().pin, of_one.filters().pin), (of_one.pin.clone(), None));
        let empty = Restrictions { deny_prompt: vec![String::new()], ..Restrictions::default() };
        let error = empty.apply(&mut Config::default()).unwrap_err();
        assert!(error.starts_with("--deny-prompt: a pattern of names must have"), "{error}");
    }
}
