//! What the command line refuses and explains.

use std::net::TcpListener;

use super::serving::folder;
use crate::editor::command;

/// Runs a gateway that cannot be started; returns its exit code and what it has printed.
fn run(args: &[&str]) -> (Option<i32>, String) {
    let mut gateway = command(&[&["serve"], args].concat());
    let output = tests::deadline::output_of(gateway.env("TOKEN", "token").env_remove("NO_TOKEN"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}

#[test]
fn wrong_options_are_refused_with_what_is_wrong() {
    let folder = folder("wrong");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let broken = file("broken.json", "{\"mcpServers\": {\n  \"a\": }");
    let wrong = file("wrong.json", r#"{"mcpServers":{"a":{"command":"x","args":[1]}}}"#);
    let bad_url = file("url.json", r#"{"mcpServers":{"a":{"url":"ftp://a.example/x?key=secret"}}}"#);
    let valid = file("valid.json", r#"{"mcpServers":{"a":{"command":"x"}}}"#);
    for (args, expected) in [
        (&[][..], "required"),
        (&["--name", "a"], "must be NAME=COMMAND"),
        (&["--name", "a/b=x"], "the name 'a/b' of a server"),
        (&["--name", "a='x"], "' is not closed"),
        (&["--name", "a=x", "--name", "a=y"], "two servers have the name a"),
        (&["--name", "a=x", "--config", &valid], "two servers have the name a"),
        (&["--name", "a=x", "--", "y"], "cannot be used with"),
        (&["--config", "/no/such/file"], "--config /no/such/file: No such file or directory"),
        (&["--config", &broken], "broken.json: line 2: column 8: "),
        (&["--config", &wrong], "wrong.json: line 1: mcpServers.a.args[0] must be a string"),
        (&["--config", &bad_url], "ftp://a.example/x: "),
        (&["--listen", "8080", "--", "x"], "must be an address with a port"),
        (&["--share", "some", "--", "x"], "possible values: session, principal, all"),
        (&["--share", "principal", "--", "x"], "--share principal needs --token-env"),
        (&["--user-env", "A", "--", "x"], "--user-env needs --token-env"),
        (&["--token-issuer", "https://auth.example", "--", "x"], "--token-keys"),
        (
            &["--token-issuer", "https://auth.example", "--token-keys", &valid, "--public-url", "https://x", "--", "x"],
            "valid.json: missing field `keys`",
        ),
        (
            &["--user-env", "A", "--token-env", "TOKEN", "--share", "all", "--", "x"],
            "--user-env has no effect with --share all",
        ),
        (&["--token-env", "NO_TOKEN", "--", "x"], "the environment variable NO_TOKEN is not set"),
        (&["--env", "A", "--", "x"], "must be NAME=VALUE"),
        (&["--env", "A=${NO_TOKEN}", "--", "x"], "--env A: the environment variable NO_TOKEN is not set"),
        (&["--allow-host", "https://a.example", "--", "x"], "must be a host such as mcp.example.com"),
        (&["--allow-host", "a.example/mcp", "--", "x"], "must be a host such as mcp.example.com"),
        (&["--allow-host", "user@a.example", "--", "x"], "must be a host such as mcp.example.com"),
        (&["--cwd", "/no/such/folder", "--", "x"], "the working directory /no/such/folder is no folder"),
        (&["--allow-origin", "app.example", "--", "x"], "must be an origin such as https://app.example.com"),
        (&["--health", "/mcp", "--", "x"], "the path /mcp is that of a server"),
        (&["--health", "/x", "--metrics", "/x", "--", "x"], "--health and --metrics have the same path"),
        (&["--max-backends", "0", "--", "x"], "--max-backends"),
        (&["--max-message", "2GiB", "--", "x"], "--max-message: the limit 'message' must be"),
        (&["--record", "/no/such/folder/x", "--", "x"], "--record /no/such/folder/x: "),
    ] {
        let (code, printed) = run(args);
        assert_eq!(code, Some(2), "{args:?}: {printed}");
        assert!(printed.contains(expected) && !printed.contains("secret"), "{args:?}: {printed}");
    }
}

#[test]
fn a_place_that_cannot_be_listened_on_is_named_with_a_hint() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let file = folder("taken").join("file");
    std::fs::write(&file, "no socket").unwrap();
    let file = format!("unix:{}", file.display());
    for (listen, expected) in [
        (address.as_str(), "is another program listening there?"),
        ("192.0.2.1:80", "does this machine have this address?"),
        ("unix:/no/such/folder/x", "cannot listen on /no/such/folder/x: No such file or directory"),
        (&file, "there is a file that is no socket"),
        ("stdin", "stdin is no listening socket"),
    ] {
        let (code, printed) = run(&["--listen", listen, "--", "x"]);
        assert_eq!(code, Some(1), "{listen}: {printed}");
        assert!(printed.contains(expected), "{listen}: {printed}");
    }
}
