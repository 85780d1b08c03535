//! What the help and the man pages state besides the options, and which options they leave out.

use std::fmt::Write;

use clap::Arg;

/// Options that few people need. They are fields of the file of `--config`; the command line accepts them, and the man pages
/// explain them.
pub(crate) const RARE: &[&str] = &[
    "allow_http",
    "answer_after",
    "audit_required",
    "authorize_params",
    "callback_host",
    "callback_path",
    "callback_port",
    "client_cert",
    "client_credentials",
    "client_key",
    "client_metadata_url",
    "connect_timeout",
    "device_code",
    "dpop",
    "idle_timeout",
    "identity_token_command",
    "identity_token_env",
    "leave_after",
    "max_requests",
    "pin_mode",
    "pin_new",
    "private_key",
    "resource",
    "scope",
    "session_idle",
    "shared_env",
    "shared_grace",
    "token_command",
    "token_scope",
    "tolerate",
    "user_env",
];

/// Options by which a stored account is found, and how its server is reached.
const OF_AN_ACCOUNT: &[&str] =
    &["url", "ca_file", "proxy", "profile", "credential_helper", "log_level", "log_file", "log_format"];

/// Leaves an option out of the help if few people need it.
pub(super) fn without_rare(option: Arg) -> Arg {
    let is_rare = RARE.contains(&option.get_id().as_str());
    option.hide(is_rare)
}

/// Leaves an option out of the help if an account that was signed in to is found without it.
pub(super) fn of_account(option: Arg) -> Arg {
    let is_needed = OF_AN_ACCOUNT.contains(&option.get_id().as_str());
    option.hide(!is_needed)
}

/// A part of a help text: its title, and entries with their explanations.
pub(crate) type Section = (&'static str, &'static [(&'static str, &'static str)]);

const EXIT_STATUS: &str = "Exit status";

/// What the help of `mcp-proxy` ends with.
pub(crate) const PROXY: &[Section] = &[
    (
        "Examples",
        &[
            (
                "mcp-proxy https://example.com/mcp",
                "What an editor starts for a remote server; a browser opens if it demands a sign-in",
            ),
            ("mcp-proxy --header 'X-Key: ${KEY}' https://example.com/mcp", "The same with a key from the environment"),
            ("mcp-proxy --check https://example.com/mcp", "Tries the server, and says what is wrong"),
            (
                "mcp-proxy --shared -- npx -y @modelcontextprotocol/server-memory",
                "One process of a server for all editors",
            ),
            ("mcp-proxy serve --config servers.json", "Serves the servers of an editor's file over HTTP"),
        ],
    ),
    (
        "Environment",
        &[
            (
                "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY",
                "The HTTP proxy, and the hosts that are reached without it",
            ),
            ("SSL_CERT_FILE, SSL_CERT_DIR", "The authorities of certificates, in the place of those of the system"),
            ("MCP_PROXY_HOME", "The folder for tokens, in the place of `mcp-proxy` in the user's folder for data"),
            ("MCP_PROXY_NONINTERACTIVE", "If it is not empty, no person is asked to sign in"),
        ],
    ),
    (
        EXIT_STATUS,
        &[
            (
                "0",
                "The editor has closed stdin or stdout, or one signal has arrived; the check or command has succeeded",
            ),
            ("1", "The server could not be started or has ended; the check or command has failed"),
            ("2", "The command line, or a file or variable that it names, cannot be used"),
            ("130", "A second signal has ended the proxy at once"),
        ],
    ),
    (
        "File of options",
        &[(
            "{ \"proxy\": { \"requestTimeout\": 60, \"callbackPort\": 3334 } }",
            "The object `proxy` of the file of `--config` may have each option, also those that few need and `--help` leaves \
                 out: https://github.com/mcp-proto/mcp-proto/blob/main/docs/proxy.md",
        )],
    ),
];

/// What the help of `serve` ends with.
pub(crate) const SERVE: &[Section] = &[
    (
        "Examples",
        &[
            (
                "mcp-proxy serve -- npx -y @modelcontextprotocol/server-everything",
                "A command at http://127.0.0.1:8080/mcp",
            ),
            (
                "mcp-proxy serve --config servers.json --check-config",
                "Says what is wrong with a file, and serves nothing",
            ),
            (
                "mcp-proxy serve --config servers.json --listen 0.0.0.0:8080 --allow-host mcp.example.com --token-env ada=ADA_TOKEN",
                "For other machines, behind a reverse proxy with TLS, and for one user",
            ),
        ],
    ),
    (
        "Signals",
        &[
            ("SIGHUP", "Reads the file of `--config` again, and opens the files of `--log-file` and `--audit` again"),
            ("SIGTERM, SIGINT", "Ends after the requests in progress; the second one ends at once"),
        ],
    ),
    (
        "Environment",
        &[
            (
                "${VARIABLE} in the file of --config",
                "Is replaced, as in the values of `--env`; ${file:PATH} is the content of a file",
            ),
            (
                "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY",
                "The HTTP proxy to remote servers, and the hosts that are reached without it",
            ),
            ("SSL_CERT_FILE, SSL_CERT_DIR", "The authorities of certificates, in the place of those of the system"),
            ("MCP_PROXY_HOME", "The folder for tokens of remote servers"),
        ],
    ),
    (
        EXIT_STATUS,
        &[
            ("0", "A signal has ended it"),
            ("1", "It cannot listen, or has not ended in time; with `--check-config`, a program is not there"),
            ("2", "The command line or the file of `--config` cannot be used"),
            ("130", "A second signal has ended it at once"),
        ],
    ),
    (
        "File of options",
        &[(
            "{ \"mcpServers\": {}, \"serve\": { \"listen\": \"127.0.0.1:8080\", \"sessionIdle\": 600 } }",
            "The object `serve` of the file of `--config` may have each option, also those that few need and `--help` leaves \
                 out: https://github.com/mcp-proto/mcp-proto/blob/main/docs/gateway.md",
        )],
    ),
];

/// What the help of `login`, `logout` and `whoami` ends with.
pub(crate) const ACCOUNT: &[Section] = &[
    (
        "Examples",
        &[
            ("mcp-proxy login https://example.com/mcp", "Opens a browser, and stores the tokens for all proxies"),
            ("mcp-proxy login --profile work https://example.com/mcp", "Another account at the same server"),
            ("mcp-proxy whoami https://example.com/mcp", "Prints the account, without its tokens"),
        ],
    ),
    (
        "Environment",
        &[
            ("MCP_PROXY_HOME", "The folder for tokens, in the place of `mcp-proxy` in the user's folder for data"),
            ("MCP_REMOTE_CONFIG_DIR", "The folder from which `login --import` takes tokens"),
        ],
    ),
    (
        EXIT_STATUS,
        &[
            ("0", "It has succeeded"),
            ("1", "It has failed, or there are no tokens"),
            ("2", "The command line cannot be used"),
        ],
    ),
];

/// The text of these sections.
pub(super) fn text(sections: &[Section]) -> String {
    let mut text = String::new();
    for (title, entries) in sections {
        let _ = writeln!(text, "{title}:");
        for (entry, explanation) in *entries {
            let _ = writeln!(text, "  {entry}\n          {explanation}");
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Args;

    /// The help of this command that people read first.
    fn options(name: &str) -> Vec<String> {
        let mut command = Args::command();
        command.build();
        let command = command.find_subcommand(name).unwrap_or(&command).clone();
        let shown = command.get_arguments().filter(|option| !option.is_hide_set());
        shown.filter_map(|option| Some(option.get_long()?.to_owned())).collect()
    }

    #[test]
    fn the_help_leaves_out_what_few_need_and_a_command_about_an_account_what_has_no_effect() {
        for (name, most, some, hidden) in [
            ("", 40, &["header", "check", "config", "client-id"][..], &["callback-port", "max-requests"][..]),
            ("serve", 52, &["listen", "config", "token-env", "audit"], &["session-idle", "dpop"]),
            ("login", 40, &["callback-port", "import"], &[]),
            ("logout", 12, &["profile", "ca-file", "log-level"], &["dpop", "callback-port"]),
            ("whoami", 12, &["profile", "credential-helper"], &["scope"]),
        ] {
            let options = options(name);
            let has = |option: &str| options.iter().any(|own| own == option);
            assert!(options.len() <= most, "{name}: {}", options.len());
            assert!(
                some.iter().all(|&option| has(option)) && !hidden.iter().any(|&option| has(option)),
                "{name}: {options:?}"
            );
        }
    }

    #[test]
    fn each_option_that_the_help_names_by_its_id_exists() {
        let mut command = Args::command();
        command.build();
        let of = |name: &str| command.find_subcommand(name).unwrap().get_arguments();
        let exists = |id: &str| command.get_arguments().chain(of("serve")).any(|option| option.get_id() == id);
        assert_eq!(RARE.iter().find(|id| !exists(id)), None);
        let exists = |id: &str| of("logout").any(|option| option.get_id() == id);
        assert_eq!(OF_AN_ACCOUNT.iter().find(|id| !exists(id)), None);
    }
}
