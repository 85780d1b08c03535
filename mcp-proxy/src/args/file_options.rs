//! Options of `serve` in the file of `--config`: its object `serve` has a field for each.
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

/// The words of the command line for the options in a file with this text. `is_set` states which options, by their long names,
/// the command line has itself.
///
/// # Errors
///
/// A mistake in the file.
pub(crate) fn words(command: &Command, text: &str, is_set: impl Fn(&str) -> bool) -> Result<Vec<String>, Mistake> {
    let value = json_file::parse(text)?;
    let file = Node::file(&value, text);
    let Some(options) = file.object()?.get(OPTIONS).cloned() else { return Ok(Vec::new()) };
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
            let pair = |(name, node): (&str, &Node<'_>)| Ok(word(&format!("{name}={}", node.string()?)));
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

    use super::*;
    use crate::args::Args;

    fn serve() -> Command {
        let mut command = Args::command();
        command.build();
        command.find_subcommand("serve").unwrap().clone()
    }

    fn words_for(options: &str) -> Result<Vec<String>, String> {
        let text = format!("{{\n\"serve\":\n{options}}}");
        words(&serve(), &text, |_| false).map_err(String::from)
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
        assert_eq!(words(&serve(), text, set), Ok(vec!["--sse".to_owned()]), "the command line comes first");
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
