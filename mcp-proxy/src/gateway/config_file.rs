//! Reads the servers of a JSON file in the form that editors have: the object `mcpServers`, or `servers`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use mcp_intermediary::aggregate::Prefix;
use mcp_intermediary::relay;
use mcp_proto::spec::Primitive;

use super::server_settings::ServerSettings;
use super::servers::{Described, Kind, Program, Remote};
use crate::args::serve::{OPTIONS, Share, check_name};
use crate::args::{self, seconds};
use crate::environment::expand;
use crate::json_file::{self, Mistake, Node, Object};
use crate::restrictions::Restrictions;
use crate::secrets::Secrets;

/// The names that the object with the servers may have; a file has one of them.
const OBJECTS: [&str; 2] = ["mcpServers", "servers"];
/// The fields that are used.
const COMMAND_FIELDS: [&str; 4] = ["command", "args", "env", "cwd"];
const REMOTE_FIELDS: [&str; 2] = ["url", "headers"];
/// The fields that are known, but not needed.
const OTHER_FIELDS: [&str; 3] = ["type", "disabled", "alwaysAllow"];
/// The fields that are settings of every server.
const SETTINGS: [&str; 8] =
    ["disabledTools", "tools", "prompts", "resources", "timeout", "startTimeout", "share", "prefix"];

/// The servers of a file with this text, in the order of the file, without those that are `disabled`.
///
/// # Errors
///
/// A text for the user, with the place of the mistake, but without values.
pub(super) fn servers(text: &str, secrets: &mut Secrets) -> Result<Vec<Described>, Mistake> {
    let value = json_file::parse(text)?;
    let file = Node::file(&value, text);
    let members = file.object()?;
    let servers = OBJECTS.iter().find_map(|name| members.get(name));
    let servers = servers.ok_or_else(|| file.mistake_here("there is no object mcpServers".to_owned()))?;
    for (name, node) in members.iter() {
        if !OBJECTS.contains(&name) && ![OPTIONS, args::OPTIONS, "$schema"].contains(&name) {
            log::warn!("--config: {} is ignored, because it is not known", node.path());
        }
    }
    let mut described = Vec::new();
    for (name, node) in servers.object()?.iter() {
        check_name(name).map_err(|error| node.mistake_here(format!("{}: {error}", node.path())))?;
        let server = node.object()?;
        if server.get("disabled").and_then(Node::boolean) == Some(true) {
            log::info!("{} is disabled", node.path());
            continue;
        }
        let (kind, settings) = (kind(node, &server, secrets)?, settings(&server)?);
        described.push(Described { name: Some(name.to_owned()), kind, settings });
    }
    if described.is_empty() {
        return Err(servers.mistake("has no server"));
    }
    Ok(described)
}

fn kind(node: &Node<'_>, server: &Object<'_>, secrets: &mut Secrets) -> Result<Kind, Mistake> {
    let is_remote = match (server.has("command"), server.has("url")) {
        (true, false) => false,
        (false, true) => true,
        (true, true) => return Err(node.mistake("has both a command and a url")),
        (false, false) => return Err(node.mistake("has neither a command nor a url")),
    };
    let used = if is_remote { &REMOTE_FIELDS[..] } else { &COMMAND_FIELDS };
    for (name, node) in server.iter() {
        if ![used, &OTHER_FIELDS, &SETTINGS].iter().any(|fields| fields.contains(&name)) {
            log::warn!("--config: {} is ignored, because it is not known", node.path());
        }
    }
    let mut text = |name: &str| server.get(name).map(|node| expanded(node, secrets)).transpose();
    if is_remote {
        let url = text("url")?.unwrap_or_default();
        let headers = texts(server, "headers", secrets)?;
        return Ok(Kind::Remote(Remote::new(url, headers)));
    }
    let program = OsString::from(text("command")?.unwrap_or_default());
    if let Some(node) = server.get("command").filter(|_| program.is_empty()) {
        return Err(node.mistake("is empty"));
    }
    let cwd = text("cwd")?.map(PathBuf::from);
    let env = texts(server, "env", secrets)?;
    let mut arguments = Vec::new();
    for node in server.get("args").map(Node::array).transpose()?.unwrap_or_default() {
        arguments.push(OsString::from(expanded(&node, secrets)?));
    }
    Ok(Kind::Command(Program { name: program, arguments, env, cwd }))
}

fn settings(server: &Object<'_>) -> Result<ServerSettings, Mistake> {
    let mut settings = ServerSettings::default();
    if let Some(node) = server.get("disabledTools") {
        settings.restrictions.push(restrictions(node, Primitive::Tool, Vec::new(), patterns(node)?)?);
    }
    for (name, kind) in [("tools", Primitive::Tool), ("prompts", Primitive::Prompt), ("resources", Primitive::Resource)]
    {
        let Some(node) = server.get(name) else { continue };
        let lists = node.object()?;
        if let Some((_, other)) = lists.iter().find(|(name, _)| !["allow", "deny"].contains(name)) {
            return Err(other.mistake("is not known: there are allow and deny"));
        }
        let list = |name: &str| lists.get(name).map(patterns).transpose();
        let (allowed, denied) = (list("allow")?, list("deny")?);
        if let Some(empty) = lists.get("allow").filter(|_| allowed.as_ref().is_some_and(Vec::is_empty)) {
            return Err(empty.mistake("is empty: to allow nothing, deny \"*\""));
        }
        let (allowed, denied) = (allowed.unwrap_or_default(), denied.unwrap_or_default());
        settings.restrictions.push(restrictions(node, kind, allowed, denied)?);
    }
    let time = |name: &str| server.get(name).map(time).transpose();
    (settings.request_timeout, settings.start_timeout) = (time("timeout")?, time("startTimeout")?);
    if let Some(node) = server.get("share") {
        let found = node.string().ok().and_then(|share| Share::from_str(share, false).ok());
        settings.share = Some(found.ok_or_else(|| node.mistake("must be session, principal or all"))?);
    }
    if let Some(node) = server.get("prefix") {
        settings.prefix = match (node.boolean(), node.string()) {
            (Some(false), _) | (_, Ok("")) => Prefix::Off,
            (Some(true), _) => Prefix::ServerName,
            (None, Ok(text)) => Prefix::Text(text.into()),
            (None, Err(_)) => return Err(node.mistake("must be a string or false")),
        };
    }
    Ok(settings)
}

/// A text, in which `${VAR}` is replaced from the environment.
pub(super) fn expanded(node: &Node<'_>, secrets: &mut Secrets) -> Result<String, Mistake> {
    expand(node.string()?, secrets).map_err(|error| node.mistake_here(format!("{}: {error}", node.path())))
}

/// A list of names or patterns.
fn patterns(node: &Node<'_>) -> Result<Vec<String>, Mistake> {
    node.array()?.iter().map(|node| node.string().map(str::to_owned)).collect()
}

/// What clients may use, whose patterns are checked.
fn restrictions(
    node: &Node<'_>,
    kind: Primitive,
    allowed: Vec<String>,
    denied: Vec<String>,
) -> Result<Restrictions, Mistake> {
    let restrictions = Restrictions::of_lists(kind, allowed, denied);
    match restrictions.apply(&mut relay::Config::default()) {
        Ok(_) => Ok(restrictions),
        Err(error) => {
            // The option that has the same meaning comes first.
            let reason = error.split_once(": ").map_or(&*error, |(_, reason)| reason);
            Err(node.mistake_here(format!("{}: {reason}", node.path())))
        }
    }
}

/// A time in seconds.
fn time(node: &Node<'_>) -> Result<Duration, Mistake> {
    let text = node.number().ok_or_else(|| node.mistake("must be a number of seconds"))?;
    seconds(text).map_err(|error| node.mistake_here(format!("{}, in seconds: {error}", node.path())))
}

/// The texts of an object of the server.
fn texts(server: &Object<'_>, name: &str, secrets: &mut Secrets) -> Result<Vec<(String, String)>, Mistake> {
    let Some(node) = server.get(name) else { return Ok(Vec::new()) };
    let members = node.object()?;
    let texts = members.iter().map(|(name, node)| {
        let text = expanded(node, secrets)?;
        // Editors keep tokens here.
        secrets.add(node.path(), &text);
        Ok((name.to_owned(), text))
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use mcp_testkit::random::Random;
    use serde_json::{Map, Value, json};

    use super::*;

    #[test]
    fn the_servers_of_a_file_are_commands_and_urls() {
        let path = std::env::var("PATH").unwrap();
        let text = r#"{"mcpServers":{
            "files":{"command":"npx","args":["-y","files","${PATH}"],"env":{"KEY":"value-4711"},"cwd":"/tmp"},
            "remote":{"type":"http","url":"https://example.com/mcp","headers":{"X-Key":"secret-key"}},
            "off":{"command":"x","disabled":true}
        }}"#;
        let mut secrets = Secrets::default();
        let found = servers(text, &mut secrets).unwrap();
        let [files, remote] = &found[..] else { panic!("{found:?}") };
        assert_eq!((files.name.as_deref(), remote.name.as_deref()), (Some("files"), Some("remote")));
        let Kind::Command(Program { name: program, arguments, env, cwd }) = &files.kind else { panic!("{files:?}") };
        assert_eq!(program, "npx");
        assert_eq!(arguments, &["-y", "files", &path]);
        assert_eq!((&env[..], cwd.as_deref()), (&[("KEY".into(), "value-4711".into())][..], Some("/tmp".as_ref())));
        let Kind::Remote(Remote { url, headers, .. }) = &remote.kind else { panic!("{remote:?}") };
        assert_eq!(
            (url.as_str(), &headers[..]),
            ("https://example.com/mcp", &[("X-Key".into(), "secret-key".into())][..])
        );
        assert_eq!(secrets.leave_out("value-4711 secret-key"), "[secret] [secret]");
    }

    #[test]
    fn the_settings_of_a_server_are_its_own_and_come_before_the_options() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: args::serve::ServeArgs,
        }
        let args = |options: &[&str]| {
            <Line as clap::Parser>::try_parse_from([&["x"], options, &["--", "sh"]].concat()).unwrap().args
        };
        let text = r#"{"mcpServers":{
            "own":{"command":"x","timeout":7,"startTimeout":1.5,"share":"all","alwaysAllow":["t"],"disabledTools":["t1"],
                "tools":{"allow":["t*"],"deny":["t2"]},"prompts":{"deny":["p"]},"resources":{"allow":["file:///a/*"]}},
            "plain":{"command":"x"}
        }}"#;
        let found = servers(text, &mut Secrets::default()).unwrap();
        let [own, plain] = [&found[0].settings, &found[1].settings];
        let options = args(&["--request-timeout", "20", "--start-timeout", "30", "--deny-tool", "t3"]);
        let seconds = Duration::from_secs_f64;
        assert_eq!((own.request_timeout(&options), own.start_timeout(&options)), (seconds(7.0), seconds(1.5)));
        assert_eq!((plain.request_timeout(&options), plain.start_timeout(&options)), (seconds(20.0), seconds(30.0)));
        assert_eq!((own.share(&options), plain.share(&options)), (Share::All, Share::Session));
        for (settings, primitive, name, allowed) in [
            (own, Primitive::Tool, "t", true),
            (own, Primitive::Tool, "t1", false),
            (own, Primitive::Tool, "t2", false),
            (own, Primitive::Tool, "t3", false),
            (own, Primitive::Tool, "x", false),
            (own, Primitive::Prompt, "p", false),
            (own, Primitive::Prompt, "q", true),
            (own, Primitive::Resource, "file:///a/b", true),
            (own, Primitive::Resource, "file:///c", false),
            (plain, Primitive::Tool, "t1", true),
            (plain, Primitive::Tool, "t3", false),
            (plain, Primitive::Resource, "file:///c", true),
        ] {
            let mut config = relay::Config::default();
            settings.restrictions(&options).unwrap().apply(&mut config).unwrap();
            assert_eq!(config.filter.allows(primitive, name, None), allowed, "{name}");
        }
        // Two lists of what is allowed would allow more than each.
        let error = own.restrictions(&args(&["--allow-tool", "x"])).unwrap_err();
        assert!(error.contains("--allow-tool"), "{error}");
    }

    #[test]
    fn a_prefix_is_a_text_or_off() {
        for (field, expected) in [
            ("", Prefix::ServerName),
            (r#","prefix":true"#, Prefix::ServerName),
            (r#","prefix":"gh""#, Prefix::Text("gh".into())),
            (r#","prefix":"""#, Prefix::Off),
            (r#","prefix":false"#, Prefix::Off),
        ] {
            let text = format!(r#"{{"mcpServers":{{"a":{{"command":"x"{field}}}}}}}"#);
            let found = servers(&text, &mut Secrets::default()).unwrap();
            assert_eq!(found[0].settings.prefix, expected, "{field}");
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_place_and_without_values() {
        for (text, expected) in [
            ("{\n  \"mcpServers\": [,", "line 2: column 18"),
            ("{}", "there is no object mcpServers"),
            (r#"{"servers":[]}"#, "servers must be an object"),
            (r#"{"mcpServers":{}}"#, "mcpServers has no server"),
            (r#"{"mcpServers":{"a/b":{"command":"x"}}}"#, "mcpServers.a/b: the name 'a/b' of a server must"),
            (r#"{"mcpServers":{"a":"secret"}}"#, "mcpServers.a must be an object"),
            (r#"{"mcpServers":{"a":{}}}"#, "mcpServers.a has neither a command nor a url"),
            (r#"{"mcpServers":{"a":{"command":"x","url":"y"}}}"#, "mcpServers.a has both a command and a url"),
            (r#"{"mcpServers":{"a":{"command":""}}}"#, "mcpServers.a.command is empty"),
            (r#"{"mcpServers":{"a":{"command":1}}}"#, "mcpServers.a.command must be a string"),
            (r#"{"mcpServers":{"a":{"command":"x","args":"secret"}}}"#, "mcpServers.a.args must be an array"),
            (r#"{"mcpServers":{"a":{"command":"x","args":["y",2]}}}"#, "mcpServers.a.args[1] must be a string"),
            (r#"{"mcpServers":{"a":{"command":"x","env":{"K":null}}}}"#, "mcpServers.a.env.K must be a string"),
            (
                r#"{"mcpServers":{"a":{"command":"x","disabledTools":"t"}}}"#,
                "mcpServers.a.disabledTools must be an array",
            ),
            (
                r#"{"mcpServers":{"a":{"command":"x","disabledTools":["t",1]}}}"#,
                "mcpServers.a.disabledTools[1] must be a string",
            ),
            (r#"{"mcpServers":{"a":{"command":"x","disabledTools":[""]}}}"#, "mcpServers.a.disabledTools: a pattern"),
            (r#"{"mcpServers":{"a":{"command":"x","tools":["secret"]}}}"#, "mcpServers.a.tools must be an object"),
            (r#"{"mcpServers":{"a":{"command":"x","tools":{"only":[]}}}}"#, "mcpServers.a.tools.only is not known"),
            (r#"{"mcpServers":{"a":{"command":"x","tools":{"allow":[]}}}}"#, "mcpServers.a.tools.allow is empty"),
            (
                r#"{"mcpServers":{"a":{"command":"x","timeout":"7"}}}"#,
                "mcpServers.a.timeout must be a number of seconds",
            ),
            (
                r#"{"mcpServers":{"a":{"command":"x","timeout":0}}}"#,
                "mcpServers.a.timeout, in seconds: must be more than 0",
            ),
            (r#"{"mcpServers":{"a":{"command":"x","startTimeout":9e9}}}"#, "mcpServers.a.startTimeout, in seconds"),
            (
                r#"{"mcpServers":{"a":{"command":"x","share":"secret"}}}"#,
                "mcpServers.a.share must be session, principal or all",
            ),
            (r#"{"mcpServers":{"a":{"command":"x","prefix":7}}}"#, "mcpServers.a.prefix must be a string or false"),
            (
                r#"{"mcpServers":{"a":{"command":"x","env":{"K":"${NO_SUCH_VARIABLE_HERE}"}}}}"#,
                "mcpServers.a.env.K: the environment variable NO_SUCH_VARIABLE_HERE is not set",
            ),
        ] {
            let error = servers(text, &mut Secrets::default()).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{text}: {error}");
        }
    }
    /// A JSON value of any kind: mostly a string with a mark, which no error may contain.
    fn any_value(random: &mut Random) -> Value {
        match random.below(10) {
            0 => Value::Null,
            1 => Value::from(4711),
            2 => json!(["marked-1", 2]),
            3 => json!({ "K": "marked-2", "L": ["marked-3"] }),
            4 => Value::from(""),
            5 => Value::from("${PATH} marked-4 ${NO_SUCH_VARIABLE_HERE}"),
            6 => Value::from("marked-5 ${"),
            _ => Value::from("marked-6"),
        }
    }

    /// A server whose fields are mostly as they should be.
    fn any_server(random: &mut Random) -> Value {
        if random.one_in(20) {
            return any_value(random);
        }
        let mut server = Map::new();
        let is_remote = random.one_in(3);
        server.insert(if is_remote { "url" } else { "command" }.to_owned(), "marked-7".into());
        for (name, value) in [
            ("args", json!(["marked-8", "--flag"])),
            ("env", json!({ "KEY": "marked-9" })),
            ("headers", json!({ "X-Key": "marked-10" })),
            ("cwd", json!("marked-11")),
            ("disabled", json!(random.one_in(2))),
            ("type", json!("marked-12")),
            ("other", json!("marked-13")),
            ("command", json!("marked-14")),
            ("url", json!("marked-15")),
            ("disabledTools", json!(["marked-16"])),
            ("tools", json!({ "allow": ["marked-17"], "deny": ["marked-*"] })),
            ("resources", json!({ "deny": ["marked-18:*"] })),
            ("timeout", json!(7)),
            ("startTimeout", json!(0.5)),
            ("share", json!("all")),
            ("prefix", json!("marked-19")),
        ] {
            if random.one_in(3) && !["command", "url"].contains(&name) || random.one_in(20) {
                server.insert(name.to_owned(), if random.one_in(6) { any_value(random) } else { value });
            }
        }
        Value::Object(server)
    }

    /// The text of a value that needs no expansion.
    fn plain(value: &Value) -> Option<&str> {
        value.as_str().filter(|text| !text.contains("${"))
    }

    fn plain_pairs(server: &Value, name: &str) -> Option<Vec<(String, String)>> {
        let Some(value) = server.get(name) else { return Some(Vec::new()) };
        value.as_object()?.iter().map(|(name, value)| Some((name.clone(), plain(value)?.to_owned()))).collect()
    }

    /// Whether a naive reader finds no mistake in the settings of a server.
    fn has_fine_settings(server: &Value) -> bool {
        let is_list = |list: &Value| {
            list.as_array()
                .is_some_and(|list| list.iter().all(|name| name.as_str().is_some_and(|name| !name.is_empty())))
        };
        let are_lists = |lists: &Value| {
            lists.as_object().is_some_and(|lists| {
                lists.iter().all(|(name, list)| match name.as_str() {
                    "allow" => is_list(list) && list != &json!([]),
                    "deny" => is_list(list),
                    _ => false,
                })
            })
        };
        let is_time = |time: &Value| time.as_f64().is_some_and(|time| time > 0.0 && time <= 604_800.0);
        let is_fine = |name: &str, is_so: &dyn Fn(&Value) -> bool| server.get(name).is_none_or(is_so);
        is_fine("disabledTools", &is_list)
            && ["tools", "prompts", "resources"].iter().all(|name| is_fine(name, &are_lists))
            && ["timeout", "startTimeout"].iter().all(|name| is_fine(name, &is_time))
            && is_fine("prefix", &|prefix| prefix.is_string() || prefix.is_boolean())
            && is_fine("share", &|share| ["session", "principal", "all"].iter().any(|name| share == name))
    }

    /// What a naive reader finds in a server that must be used; `None` if it has a mistake.
    fn expected(server: &Value) -> Option<Kind> {
        if !has_fine_settings(server) {
            return None;
        }
        let text = |name: &str| server.get(name).map(|value| plain(value).map(str::to_owned));
        match (server.get("command"), server.get("url")) {
            (Some(_), None) => {
                let arguments = match server.get("args") {
                    Some(values) => values.as_array()?.iter().map(plain).collect::<Option<Vec<_>>>()?,
                    None => Vec::new(),
                };
                let name = text("command")?.filter(|name| !name.is_empty())?.into();
                let cwd = text("cwd").map_or(Some(None), |cwd| cwd.map(|cwd| Some(PathBuf::from(cwd))))?;
                let arguments = arguments.into_iter().map(OsString::from).collect();
                Some(Kind::Command(Program { name, arguments, env: plain_pairs(server, "env")?, cwd }))
            }
            (None, Some(_)) => {
                let (url, headers) = (text("url")??, plain_pairs(server, "headers")?);
                Some(Kind::Remote(Remote::new(url, headers)))
            }
            _ => None,
        }
    }

    #[test]
    fn any_file_gives_the_servers_that_a_naive_reader_finds_or_an_error_without_values() {
        let (mut found, mut refused) = (0, 0);
        for seed in 0..5000 {
            let mut random = Random::new(seed);
            let names = ["a", "b-2", "C", "d.e", "f/g", ""];
            let count = usize::try_from(random.below(4)).unwrap();
            let described: Map<String, Value> =
                (0..count).map(|_| ((*random.pick(&names)).to_owned(), any_server(&mut random))).collect();
            let is_enabled = |server: &&Value| server.get("disabled") != Some(&Value::Bool(true));
            let are_named = described.keys().all(|name| check_name(name).is_ok());
            let are_objects = described.values().all(Value::is_object);
            let enabled = described.iter().filter(|(_, server)| is_enabled(server));
            let expected: Option<Vec<_>> =
                enabled.map(|(name, server)| Some(format!("{name} {:?}", expected(server)?))).collect();
            let expected = expected.filter(|servers| are_named && are_objects && !servers.is_empty());
            let mut text = json!({ "mcpServers": described, "other": any_value(&mut random) }).to_string();
            let is_damaged = random.one_in(5);
            if is_damaged {
                text.truncate(usize::try_from(random.below(text.len() as u64)).unwrap());
            }
            match servers(&text, &mut Secrets::default()) {
                Ok(servers) => {
                    let servers: Vec<_> = servers
                        .iter()
                        .map(|server| format!("{} {:?}", server.name.as_deref().unwrap_or("-"), server.kind))
                        .collect();
                    assert_eq!(Some(servers), expected.filter(|_| !is_damaged), "seed {seed}: {text}");
                    found += 1;
                }
                Err(error) => {
                    let error = error.to_string();
                    assert!(!error.contains("marked"), "seed {seed}: {error}");
                    assert!(is_damaged || expected.is_none(), "seed {seed}: {error}: {text}");
                    refused += 1;
                }
            }
        }
        assert!(found > 500 && refused > 500, "{found} {refused}");
    }
}
