//! Options and commands of other programs, which people paste. The error for each names what does the same here.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// An option or a word, and what does the same.
const ANSWERS: &[(&str, &str)] = &[
    // mcp-remote
    ("--debug", "the log has levels: --log-level debug --log-file FILE"),
    ("--silent", "the log can be turned off: --log-level off"),
    ("--host", "the address to which a browser returns after a sign-in is set with --callback-host"),
    ("--static-oauth-client-info", "a registered client is named with --client-id and --client-secret-env"),
    ("--static-oauth-client-metadata", "scopes are asked for with --scope, and a registered client with --client-id"),
    ("--enable-proxy", "HTTP_PROXY, HTTPS_PROXY and NO_PROXY apply by themselves; --proxy URL sets another one"),
    ("--disable-resource-parameter", "the parameter is left out with --resource none"),
    ("--ignore-tool", "tools are hidden with --deny-tool PATTERN"),
    ("--auth-timeout", "how long the client waits for a person to sign in is set with --answer-after SECONDS"),
    // supergateway
    ("--stdio", "a command is served over HTTP with: mcp-proxy serve -- COMMAND"),
    ("--sse", "the URL is an argument without an option: mcp-proxy URL"),
    ("--streamableHttp", "the URL is an argument without an option: mcp-proxy URL"),
    ("--outputTransport", "`serve` has Streamable HTTP, and with --sse the older transport too"),
    ("--port", "an address is set with: mcp-proxy serve --listen 127.0.0.1:PORT -- COMMAND"),
    ("--oauth2Bearer", "a token is read from the environment: --bearer-env VARIABLE"),
    ("--logLevel", "the log has levels: --log-level debug"),
    ("--cors", "web pages are allowed with: mcp-proxy serve --allow-origin ORIGIN"),
    ("--healthEndpoint", "`serve` has a page with the state of its servers: --health PATH"),
    ("--stateful", "`serve` has sessions, as their clients ask for them"),
    ("--sessionTimeout", "`serve` ends unused sessions after --session-idle SECONDS"),
    ("--ssePath", "the paths of `serve` are /mcp, /sse and /messages, below /NAME with --name"),
    ("--messagePath", "the paths of `serve` are /mcp, /sse and /messages, below /NAME with --name"),
    ("--streamableHttpPath", "the paths of `serve` are /mcp, /sse and /messages, below /NAME with --name"),
    ("--baseUrl", "`serve` learns the URL that clients use with --public-url URL"),
    // mcp-proxy of PyPI
    ("--headers", "a header is set with --header 'NAME: VALUE'"),
    ("--named-server", "several servers are served with: mcp-proxy serve --name NAME=COMMAND"),
    ("--named-server-config", "a file with servers is served with: mcp-proxy serve --config FILE"),
    ("--pass-environment", "the environment is passed on by itself"),
    ("--client-secret", "the secret is read from the environment: --client-secret-env VARIABLE"),
    ("--token-url", "the token endpoint is found by itself; a client signs in as itself with --client-credentials"),
    ("--env", "variables of a served command are set with: mcp-proxy serve --env NAME=VALUE -- COMMAND"),
    ("--cwd", "the folder of a served command is set with: mcp-proxy serve --cwd FOLDER -- COMMAND"),
    ("--stateless", "no option is needed: clients of the revision 2026-07-28 have no sessions"),
    ("--sse-host", "an address is set with: mcp-proxy serve --listen ADDRESS:PORT -- COMMAND"),
    ("--sse-port", "an address is set with: mcp-proxy serve --listen 127.0.0.1:PORT -- COMMAND"),
    ("--allow-origin", "web pages are allowed with: mcp-proxy serve --allow-origin ORIGIN"),
    ("--no-verify-ssl", "a private certificate authority is trusted with --ca-file FILE"),
];

/// Words that are no command here, and what does the same.
const COMMANDS: &[(&str, &str)] = &[
    ("check", "a server is checked with: mcp-proxy --check URL"),
    ("run", "the command of a server follows two hyphens: mcp-proxy -- COMMAND"),
    ("version", "the version is printed with: mcp-proxy --version"),
];

/// Adds to the error what to write instead, if other programs have the unknown option or command. `words` are those of
/// the command line.
pub(super) fn explained(error: clap::Error, words: &[String], command: &mut Command) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return error };
    let first = words.get(1).map(String::as_str).unwrap_or_default();
    let name = unknown.split(['=', ' ']).next().unwrap_or_default();
    let find = |table: &[(&str, &'static str)], word: &str| {
        table.iter().find(|(own, _)| *own == word).map(|(_, answer)| *answer)
    };
    let answer = find(ANSWERS, name).or_else(|| find(COMMANDS, first)).map(str::to_owned);
    let answer = answer.or_else(|| split_header(words, unknown));
    let answer = answer.or_else(|| served(first, unknown)).or_else(|| is_port(words, unknown));
    match answer {
        Some(answer) => command.error(ErrorKind::UnknownArgument, format!("unexpected argument '{unknown}': {answer}")),
        None => error,
    }
}

/// Some editors split an argument at its blank, so that the value of a header is an argument of its own.
fn split_header(words: &[String], unknown: &str) -> Option<String> {
    let position = words.iter().position(|word| word == unknown)?;
    let before = words.get(position.checked_sub(1)?)?;
    let option = words.get(position.checked_sub(2)?)?;
    (option == "--header" && before.ends_with(':')).then(|| {
        format!(
            "a header and its value are one argument; if the editor splits it at the blank, write it without one: \
             --header \"{before}VALUE\", or with the value in a variable: --header \"{before}${{VARIABLE}}\""
        )
    })
}

/// What `serve` serves, as if it were an argument of the bridge.
fn served(first: &str, unknown: &str) -> Option<String> {
    let answer = if is_url(unknown) {
        "remote servers are named in the file of: mcp-proxy serve --config FILE"
    } else {
        "the command of a server follows two hyphens: mcp-proxy serve -- COMMAND"
    };
    (first == "serve" && !unknown.starts_with('-')).then(|| answer.to_owned())
}

/// mcp-remote takes the port of its callback after the URL.
fn is_port(words: &[String], unknown: &str) -> Option<String> {
    (words.iter().any(|word| is_url(word)) && unknown.parse::<u16>().is_ok())
        .then(|| format!("the port to which a browser returns after a sign-in is set with --callback-port {unknown}"))
}

fn is_url(word: &str) -> bool {
    word.starts_with("http://") || word.starts_with("https://")
}
