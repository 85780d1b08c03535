//! Options in the file of `--config`: its object `serve` has a field for each of `serve`, and `proxy` one for each of a proxy.
//!
//! A field has the name of the option, as `maxSessions` for `--max-sessions`. It becomes words of the command line, so that
//! what it may be and what it means are stated once. The command line comes before the file.

use std::error::Error;
use std::fmt::Write;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

use super::serve::OPTIONS;
use crate::json_file::{self, Mistake, Node};

/// Options that have a meaning on the command line alone.
const NOT_IN_A_FILE: [&str; 6] = ["name", "config", "check-config", "watch", "help", "version"];
/// The field with the tokens of users, which no option has: they would be visible to all users of the machine.
pub(crate) const TOKENS: &str = "tokens";

/// The words of the command line for the options in a file with this text, in the object with the name `object`. `is_set` states
/// which options, by their long names, the command line has itself.
///
/// # Errors
///
/// A mistake in the file.
pub(crate) fn words(
    command: &Command,
    object: &str,
    text: &str,
    is_set: impl Fn(&str) -> bool,
) -> Result<Vec<String>, Mistake> {
    let value = json_file::parse(text)?;
    let file = Node::file(&value, text);
    let Some(options) = file.object()?.get(object).cloned() else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for (name, node) in options.object()?.iter() {
        if name == TOKENS {
            continue;
        }
        let (arg, long) = option(command, name).ok_or_else(|| node.mistake("is not known"))?;
        let words = words_of(arg, long, node)?;
        check(command, &words, node)?;
        if !is_set(long) {
            all.extend(words);
        }
    }
    Ok(all)
}

/// Users and the texts of their tokens, in which variables are not replaced yet, in a file with this text.
///
/// # Errors
///
/// A mistake in the file.
pub(crate) fn tokens(text: &str) -> Result<Vec<(String, String)>, Mistake> {
    let value = json_file::parse(text)?;
    let file = Node::file(&value, text);
    let options = file.object()?.get(OPTIONS).map(Node::object).transpose()?;
    let Some(tokens) = options.as_ref().and_then(|options| options.get(TOKENS)) else { return Ok(Vec::new()) };
    let members = tokens.object()?;
    let mut found = Vec::new();
    for (user, node) in members.iter() {
        let token = node.string()?;
        if user.is_empty() || token.is_empty() {
            return Err(node.mistake(if user.is_empty() { "has a user without a name" } else { "is empty" }));
        }
        found.push((user.to_owned(), token.to_owned()));
    }
    Ok(found)
}

/// The names of all options that a file may have, as fields.
pub(crate) fn fields(command: &Command) -> impl Iterator<Item = (String, &Arg)> {
    command.get_arguments().filter_map(|arg| {
        let long = arg.get_long().filter(|long| !NOT_IN_A_FILE.contains(long))?;
        Some((field(long), arg))
    })
}

fn option<'c>(command: &'c Command, name: &str) -> Option<(&'c Arg, &'c str)> {
    let (_, arg) = fields(command).find(|(own, _)| own == name)?;
    Some((arg, arg.get_long()?))
}

/// The name of the field for an option: `maxSessions` for `max-sessions`.
fn field(long: &str) -> String {
    let mut name = String::new();
    for (index, word) in long.split('-').enumerate() {
        let mut characters = word.chars();
        match characters.next().filter(|_| index > 0) {
            Some(first) => name.extend(first.to_uppercase().chain(characters)),
            None => name.push_str(word),
        }
    }
    name
}

fn words_of(arg: &Arg, long: &str, node: &Node<'_>) -> Result<Vec<String>, Mistake> {
    let word = |value: &str| format!("--{long}={value}");
    let scalar = |node: &Node<'_>, kind: &str| {
        let text = node.string().ok().or_else(|| node.number());
        text.map(word).ok_or_else(|| node.mistake(kind))
    };
    let may_lack_value = arg.get_num_args().is_some_and(|number| number.min_values() == 0);
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return match node.boolean() {
            Some(true) => Ok(vec![format!("--{long}")]),
            Some(false) => Ok(Vec::new()),
            None => Err(node.mistake("must be true or false")),
        };
    }
    if let Some(is_on) = node.boolean().filter(|_| may_lack_value) {
        return Ok(if is_on { vec![format!("--{long}")] } else { Vec::new() });
    }
    if matches!(arg.get_action(), ArgAction::Append) {
        if node.is_object() {
            let members = node.object()?;
            let between = if long == "header" { ": " } else { "=" };
            let pair = |(name, node): (&str, &Node<'_>)| Ok(word(&format!("{name}{between}{}", node.string()?)));
            return members.iter().map(pair).collect();
        }
        if !node.is_array() {
            return Err(node.mistake("must be an array of strings"));
        }
        return node.array()?.iter().map(|node| Ok(word(node.string()?))).collect();
    }
    Ok(vec![scalar(node, "must be a string or a number")?])
}

/// Checks the value of an option by itself.
fn check(command: &Command, words: &[String], node: &Node<'_>) -> Result<(), Mistake> {
    let start = [command.get_name().to_owned()].into_iter();
    // What an option needs besides is checked with all options.
    let error = match command.clone().try_get_matches_from(start.chain(words.iter().cloned())) {
        Err(error) if [ErrorKind::ValueValidation, ErrorKind::InvalidValue].contains(&error.kind()) => error,
        Ok(_) | Err(_) => return Ok(()),
    };
    let mut reason = error.source().map_or_else(|| "has an invalid value".to_owned(), ToString::to_string);
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue) {
        reason = String::from("must be one of ");
        let _ = write!(reason, "{}", values.join(", "));
    }
    Err(node.mistake_here(format!("{}: {reason}", node.path())))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use serde_json::{Value, json};

    use super::*;
    use crate::args::{self, Args};

    fn proxy() -> Command {
        let mut command = Args::command();
        command.build();
        command
    }

    fn serve() -> Command {
        proxy().find_subcommand("serve").unwrap().clone()
    }

    fn words_for(options: &str) -> Result<Vec<String>, String> {
        let text = format!("{{\n\"serve\":\n{options}}}");
        words(&serve(), OPTIONS, &text, |_| false).map_err(String::from)
    }

    #[test]
    fn each_kind_of_option_has_a_form_in_the_file() {
        for (options, expected) in [
            (r#"{"listen":"127.0.0.1:1"}"#, &["--listen=127.0.0.1:1"][..]),
            (r#"{"maxSessions":5,"sessionIdle":1.5}"#, &["--max-sessions=5", "--session-idle=1.5"]),
            (r#"{"sse":true,"noAuth":false}"#, &["--sse"]),
            (r#"{"health":true,"metrics":"/m"}"#, &["--health", "--metrics=/m"]),
            (r#"{"health":false}"#, &[]),
            (r#"{"allowHost":["a","b"]}"#, &["--allow-host=a", "--allow-host=b"]),
            (r#"{"env":{"A":"1","B":"${C}"}}"#, &["--env=A=1", "--env=B=${C}"]),
            (r#"{"share":"all"}"#, &["--share=all"]),
            (r#"{"lazyTools":true}"#, &["--lazy-tools"]),
            (r#"{"lazyTools":["a*"]}"#, &["--lazy-tools=a*"]),
            (r#"{"tokens":{"ada":"x"}}"#, &[]),
        ] {
            let expected: Vec<_> = expected.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(words_for(options), Ok(expected), "{options}");
        }
        let set = |long: &str| long == "listen";
        let text = r#"{"serve":{"listen":"127.0.0.1:1","sse":true}}"#;
        let found = words(&serve(), OPTIONS, text, set);
        assert_eq!(found, Ok(vec!["--sse".to_owned()]), "the command line comes first");
        let text = r#"{"proxy":{"header":{"A":"1"},"callbackPort":7},"serve":{"sse":true}}"#;
        let found = words(&proxy(), args::OPTIONS, text, |_| false);
        assert_eq!(found, Ok(vec!["--header=A: 1".to_owned(), "--callback-port=7".to_owned()]));
    }

    #[test]
    fn a_mistake_in_an_option_is_named_with_its_line_and_without_its_value() {
        for (options, expected) in [
            (r#"{"no":1}"#, "line 3: serve.no is not known"),
            (r#"{"config":"x"}"#, "line 3: serve.config is not known"),
            ("{\n\"sse\":1}", "line 4: serve.sse must be true or false"),
            (r#"{"allowHost":"marked"}"#, "line 3: serve.allowHost must be an array of strings"),
            (r#"{"allowHost":[1]}"#, "line 3: serve.allowHost[0] must be a string"),
            (r#"{"maxSessions":{}}"#, "line 3: serve.maxSessions must be a string or a number"),
            (r#"{"maxSessions":0}"#, "line 3: serve.maxSessions: "),
            (r#"{"share":"marked"}"#, "line 3: serve.share: must be one of session, principal, all"),
            (r#"{"requestTimeout":0}"#, "line 3: serve.requestTimeout: must be more than 0 and at most a week"),
            (r#"{"listen":"marked"}"#, "line 3: serve.listen: must be an address with a port"),
            (r#""marked""#, "line 3: serve must be an object"),
        ] {
            let error = words_for(options).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains("marked"), "{options}: {error}");
        }
    }

    /// What the schema states of the rest of the file.
    const FILE: &str = r##"{
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of mcp-proxy",
        "type": "object",
        "properties": {
            "$schema": { "type": "string" },
            "mcpServers": { "$ref": "#/$defs/servers" },
            "servers": { "$ref": "#/$defs/servers" }
        },
        "$defs": {
            "servers": { "type": "object", "propertyNames": { "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$" }, "additionalProperties": { "$ref": "#/$defs/server" } },
            "server": {
                "type": "object",
                "oneOf": [{ "required": ["command"] }, { "required": ["url"] }],
                "properties": {
                    "command": { "type": "string", "minLength": 1, "description": "The program of a server over stdio" },
                    "args": { "type": "array", "items": { "type": "string" } },
                    "env": { "$ref": "#/$defs/texts", "description": "Added to the environment of the gateway" },
                    "cwd": { "type": "string" },
                    "url": { "type": "string", "description": "The URL of a remote server" },
                    "headers": { "$ref": "#/$defs/texts" },
                    "type": { "description": "Not needed" },
                    "alwaysAllow": { "description": "Not needed" },
                    "disabled": { "type": "boolean", "description": "Leaves the server out" },
                    "disabledTools": { "$ref": "#/$defs/patterns", "description": "Tools that are hidden, and whose calls are refused" },
                    "tools": { "$ref": "#/$defs/lists" },
                    "prompts": { "$ref": "#/$defs/lists" },
                    "resources": { "$ref": "#/$defs/lists" },
                    "timeout": { "$ref": "#/$defs/seconds", "description": "Instead of requestTimeout" },
                    "startTimeout": { "$ref": "#/$defs/seconds" },
                    "share": { "enum": ["session", "principal", "all"] },
                    "prefix": { "type": ["string", "boolean"], "description": "What its names begin with at /mcp, instead of its name" }
                }
            },
            "texts": { "type": "object", "additionalProperties": { "type": "string" } },
            "patterns": { "type": "array", "items": { "type": "string", "minLength": 1 } },
            "lists": { "type": "object", "additionalProperties": false, "properties": { "allow": { "$ref": "#/$defs/patterns", "minItems": 1 }, "deny": { "$ref": "#/$defs/patterns" } } },
            "seconds": { "type": "number", "exclusiveMinimum": 0, "maximum": 604800 }
        }
    }"##;

    /// The schema of a field.
    fn schema_of(arg: &Arg) -> Value {
        let may_lack_value = arg.get_num_args().is_some_and(|number| number.min_values() == 0);
        let values: Vec<_> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        let mut schema = if matches!(arg.get_action(), ArgAction::SetTrue) {
            json!({ "type": "boolean" })
        } else if matches!(arg.get_action(), ArgAction::Append) {
            let own =
                if arg.get_long().is_some_and(|long| ["env", "header"].contains(&long)) { "object" } else { "boolean" };
            let is_more = may_lack_value || own == "object";
            let kinds = if is_more { json!(["array", own]) } else { json!("array") };
            json!({ "type": kinds, "items": { "type": "string" } })
        } else if !values.is_empty() {
            json!({ "enum": values })
        } else if may_lack_value {
            json!({ "type": ["string", "boolean"] })
        } else {
            json!({ "type": ["string", "number"] })
        };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        schema["description"] = help.into();
        schema
    }

    /// `ACCEPT_TRANSCRIPTS=1` writes it.
    #[test]
    fn the_published_schema_has_each_option() {
        let mut schema: Value = serde_json::from_str(FILE).unwrap();
        let options = |command: &Command| -> serde_json::Map<_, _> {
            fields(command).map(|(name, arg)| (name, schema_of(arg))).collect()
        };
        schema["properties"][args::OPTIONS] =
            json!({ "type": "object", "additionalProperties": false, "properties": options(&proxy()) });
        let mut options = options(&serve());
        options.insert(TOKENS.to_owned(), json!({ "$ref": "#/$defs/texts", "description": "The token of each user" }));
        schema["properties"][OPTIONS] =
            json!({ "type": "object", "additionalProperties": false, "properties": options });
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.schema.json");
        if std::env::var_os("ACCEPT_TRANSCRIPTS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).is_ok_and(|published| published == text),
            "ACCEPT_TRANSCRIPTS=1 writes it"
        );
    }

    /// The names are in a file that people keep, so that they must not change by accident.
    #[test]
    fn each_option_of_serve_is_a_field() {
        let command = serve();
        let fields: Vec<_> = fields(&command).map(|(name, _)| name).collect();
        for name in [
            "listen",
            "share",
            "sse",
            "protocol",
            "tokenEnv",
            "tokenIssuer",
            "publicUrl",
            "allowTool",
            "pin",
            "logFormat",
            "audit",
            "caFile",
            "clientId",
        ] {
            assert!(fields.iter().any(|field| field == name), "{name} of {fields:?}");
        }
    }
}
