//! The options that determine with which tokens a server is used.

use std::fs;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use mcp_auth::{CallbackHost, ClientIdentity, Config, Grant, Proofs, ProviderQuirk, ResourceParameter};
use mcp_blocking::sign_in::{Authorization, PrivateKey, Store};
use mcp_proto::auth::{ClientKey, Secret};

use super::credential_helper::CredentialHelper;
use super::token_source::TokenSource;
use super::{browser, places};
use crate::environment::environment;
use crate::secrets::{Secrets, shown_url};

/// The heading of these options in the help.
pub(crate) const HEADING: &str = "Options for signing in";

/// How a server is signed in to.
#[derive(Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct SignInOptions {
    /// The id of a client that was registered at the authorization server beforehand
    #[arg(long, value_name = "ID", help_heading = HEADING)]
    client_id: Option<String>,

    /// Takes the secret of the client from this environment variable
    #[arg(long, value_name = "VAR", requires = "client_id", help_heading = HEADING)]
    client_secret_env: Option<String>,

    /// The URL of the client's own metadata, which is its id at authorization servers that support this
    #[arg(long, value_name = "URL", conflicts_with = "client_id", help_heading = HEADING)]
    client_metadata_url: Option<String>,

    /// Authenticates the client with the private key in this PEM file (PKCS #8) instead of a secret
    #[arg(long, value_name = "PEM", requires = "client_id", conflicts_with = "client_secret_env", help_heading = HEADING)]
    private_key: Option<PathBuf>,

    /// Signs in as the client itself, with its id and its secret or key, and without a person
    #[arg(long, requires = "client_id", help_heading = HEADING)]
    client_credentials: bool,

    /// Signs in with the assertion of the platform in this environment variable (workload identity)
    #[arg(long, value_name = "VAR", requires = "client_id", conflicts_with = "client_credentials", help_heading = HEADING)]
    identity_token_env: Option<String>,

    /// Signs in with the assertion of the platform that this command prints (workload identity)
    #[arg(long, value_name = "COMMAND", requires = "client_id", conflicts_with_all = ["client_credentials", "identity_token_env"], help_heading = HEADING)]
    identity_token_command: Option<String>,

    /// Sends the access token that this command prints; it is run again when the server refuses the token
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["client_id", "client_metadata_url", "device_code"], help_heading = HEADING)]
    token_command: Option<String>,

    /// A person signs in on another device, with a code that is printed here
    #[arg(long, conflicts_with = "client_credentials", help_heading = HEADING)]
    device_code: bool,

    /// Binds tokens to a key wherever the authorization server supports that (`DPoP`), not only where it is demanded
    #[arg(long, help_heading = HEADING)]
    dpop: bool,

    /// The scopes to request, separated by spaces; by default, those that the server names
    #[arg(long, value_name = "SCOPES", help_heading = HEADING)]
    scope: Option<String>,

    /// The parameter `resource` of requests to the authorization server; by default, what the server publishes
    #[arg(long, value_name = "URI|none", help_heading = HEADING)]
    resource: Option<String>,

    /// Adds a parameter to the URL that is opened in the browser, such as `audience=…` (repeatable)
    #[arg(long = "authorize-param", value_name = "NAME=VALUE", help_heading = HEADING)]
    authorize_params: Vec<String>,

    /// The port on this machine to which the browser returns; by default, any that is free
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = HEADING)]
    callback_port: Option<u16>,

    /// The host of the URL to which the browser returns; by default 127.0.0.1, or localhost where a registration refuses that
    #[arg(long, value_parser = callback_hosts(), value_name = "127.0.0.1|localhost|[::1]", help_heading = HEADING)]
    callback_host: Option<CallbackHost>,

    /// The path of the URL to which the browser returns, for clients that were registered with another one than /callback
    #[arg(long, value_name = "PATH", help_heading = HEADING)]
    callback_path: Option<String>,

    /// Keeps these tokens apart from those of other accounts at the same server
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    profile: Option<String>,

    /// Stores the tokens with `docker-credential-NAME`, such as `osxkeychain` or `secretservice`, instead of in files
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    credential_helper: Option<String>,

    /// Accepts what the rules of OAuth forbid, for authorization servers that need it (repeatable)
    #[arg(long, value_parser = tolerated_quirks(), value_name = "WHAT", help_heading = HEADING)]
    tolerate: Vec<ProviderQuirk>,
}

/// Reads the host of a redirect URI.
fn callback_hosts() -> impl TypedValueParser<Value = CallbackHost> {
    let names = CallbackHost::ALL.map(CallbackHost::as_str);
    PossibleValuesParser::new(names).map(|name| {
        let host = CallbackHost::ALL.into_iter().find(|host| host.as_str() == name);
        host.unwrap_or_default()
    })
}

/// Reads the name of what is tolerated.
fn tolerated_quirks() -> impl TypedValueParser<Value = ProviderQuirk> {
    let quirks = ProviderQuirk::ALL.into_iter();
    let values = quirks.filter_map(|quirk| Some(PossibleValue::new(quirk.tolerated_name()?).help(quirk.description())));
    PossibleValuesParser::new(values)
        .try_map(|name| ProviderQuirk::tolerated_as(&name).ok_or("there is nothing of this name to tolerate"))
}

impl SignInOptions {
    /// The environment variables that contain secrets.
    pub(crate) fn secret_variables(&self) -> impl Iterator<Item = &str> {
        [&self.client_secret_env, &self.identity_token_env].into_iter().flatten().map(String::as_str)
    }

    /// How the server with this URL is signed in to.
    ///
    /// # Errors
    ///
    /// A text for the user, to be shown with the usage.
    pub(crate) fn authorization(&self, url: &str, secrets: &mut Secrets) -> Result<Authorization, String> {
        let mut authorization =
            Authorization::new(url, "mcp-proxy").map_err(|error| format!("{}: {error}", shown_url(url)))?;
        let command = self.login_command(url);
        let mut outcome = Ok(());
        authorization = authorization.configure(|config| {
            config.may_ask_user = places::may_ask();
            config.sign_in_command = Some(command.clone());
            outcome = self.configure(config, secrets);
        });
        outcome?;
        if let Some((key, _)) = self.read_key()? {
            authorization = authorization.private_key(key);
        }
        if let Some((source, _)) = self.token_source() {
            authorization = authorization.obtain_token(move || source.read());
        }
        let hint = format!("If the browser is on another machine, run `{command}` in a terminal instead.");
        Ok(authorization.store(self.store(url)?).open_url(move |url| browser::show(url, &hint)))
    }

    /// Where the tokens are stored.
    ///
    /// # Errors
    ///
    /// A text for the user, to be shown with the usage.
    pub(crate) fn store(&self, url: &str) -> Result<Box<dyn Store>, String> {
        let files = places::store();
        let Some(name) = &self.credential_helper else { return Ok(files) };
        let helper = CredentialHelper::new(name, &shown_url(url), files);
        helper.map(|helper| Box::new(helper) as Box<dyn Store>).map_err(|error| format!("--credential-helper: {error}"))
    }

    /// Refuses these options where there is no sign-in.
    ///
    /// # Errors
    ///
    /// A text for the user: there are some.
    pub(crate) fn refuse_any(&self) -> Result<(), String> {
        if *self == Self::default() {
            return Ok(());
        }
        Err(format!(
            "{}: there is no sign-in with --no-auth, --bearer-env or a header Authorization",
            self.arguments().first().map_or("", |argument| argument)
        ))
    }

    fn configure(&self, config: &mut Config, secrets: &mut Secrets) -> Result<(), String> {
        if let Some(id) = &self.client_id {
            let mut client = ClientIdentity::new(id);
            if let Some(variable) = &self.client_secret_env {
                let secret = environment(variable).map_err(|error| format!("--client-secret-env: {error}"))?;
                secrets.add(format!("the environment variable {variable}"), &secret);
                client = client.with_secret(Secret::new(secret));
            }
            if let Some((_, public)) = self.read_key()? {
                client = client.with_key(public);
            }
            config.registered = Some(client);
        }
        if let Some(url) = &self.client_metadata_url {
            config.client_metadata_url(url).map_err(|error| format!("--client-metadata-url: {error}"))?;
        }
        if self.client_credentials {
            if self.client_secret_env.is_none() && self.private_key.is_none() {
                return Err("--client-credentials: this needs --client-secret-env or --private-key".to_owned());
            }
            config.grant = Grant::ClientCredentials;
        }
        if let Some((_, grant)) = self.token_source() {
            config.grant = grant;
        }
        if self.dpop {
            config.proofs = Proofs::Supported;
        }
        if self.device_code {
            config.grant = Grant::DeviceCode;
        }
        config.scope.clone_from(&self.scope);
        config.resource = match self.resource.as_deref() {
            None => ResourceParameter::Published,
            Some("none") => ResourceParameter::Omitted,
            Some(uri) => ResourceParameter::Fixed(uri.to_owned()),
        };
        for parameter in &self.authorize_params {
            let (name, value) = parameter
                .split_once('=')
                .ok_or_else(|| "--authorize-param: a parameter is written as NAME=VALUE".to_owned())?;
            config
                .authorization_parameter(name, value)
                .map_err(|error| format!("--authorize-param {}: {error}", mcp_proto::escape_text(name, 80)))?;
        }
        config.callback_port = self.callback_port;
        config.profile = self.profile.clone().unwrap_or_default();
        config.callback_host = self.callback_host;
        if let Some(path) = &self.callback_path {
            config.callback_path(path).map_err(|error| format!("--callback-path: {error}"))?;
        }
        for quirk in &self.tolerate {
            config.exceptions.tolerate(*quirk);
        }
        Ok(())
    }

    /// The private key of the client, and what its identity states about it.
    fn read_key(&self) -> Result<Option<(PrivateKey, ClientKey)>, String> {
        let Some(path) = &self.private_key else { return Ok(None) };
        let key = fs::read_to_string(path).and_then(|pem| PrivateKey::from_pem(&pem));
        let key = key.map_err(|error| format!("--private-key {}: {error}", path.display()))?;
        let public = key.client_key();
        Ok(Some((key, public)))
    }

    /// Where tokens of another program come from, and what they are used for.
    fn token_source(&self) -> Option<(TokenSource, Grant)> {
        let variable = self.identity_token_env.clone().map(TokenSource::Variable);
        let assertion = variable.or_else(|| self.identity_token_command.clone().map(TokenSource::Command));
        let token = self.token_command.clone().map(TokenSource::Command);
        let assertion = assertion.map(|source| (source, Grant::WorkloadIdentity));
        assertion.or_else(|| token.map(|source| (source, Grant::External)))
    }

    /// The command with which a person signs in with these options.
    fn login_command(&self, url: &str) -> String {
        let words = ["mcp-proxy".to_owned(), "login".to_owned()].into_iter().chain(self.arguments());
        words.chain([shown_url(url)]).map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
    }

    /// These options, as they are written on the command line.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut add = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                arguments.push(format!("--{name}"));
                arguments.extend((!value.is_empty()).then(|| value.to_owned()));
            }
        };
        add("client-id", self.client_id.as_deref());
        add("client-secret-env", self.client_secret_env.as_deref());
        add("client-metadata-url", self.client_metadata_url.as_deref());
        add("private-key", self.private_key.as_ref().map(|path| path.to_string_lossy()).as_deref());
        add("identity-token-env", self.identity_token_env.as_deref());
        add("identity-token-command", self.identity_token_command.as_deref());
        add("token-command", self.token_command.as_deref());
        add("dpop", self.dpop.then_some(""));
        add("client-credentials", self.client_credentials.then_some(""));
        add("device-code", self.device_code.then_some(""));
        add("scope", self.scope.as_deref());
        add("resource", self.resource.as_deref());
        for parameter in &self.authorize_params {
            add("authorize-param", Some(parameter));
        }
        add("callback-port", self.callback_port.map(|port| port.to_string()).as_deref());
        add("callback-host", self.callback_host.map(CallbackHost::as_str));
        add("callback-path", self.callback_path.as_deref());
        add("profile", self.profile.as_deref());
        add("credential-helper", self.credential_helper.as_deref());
        for quirk in &self.tolerate {
            add("tolerate", quirk.tolerated_name());
        }
        arguments
    }
}

/// A word of a command line, quoted for shells where that is needed.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: SignInOptions,
    }

    fn options(args: &[&str]) -> SignInOptions {
        Line::try_parse_from([&["x"], args].concat()).unwrap().options
    }

    fn config(args: &[&str]) -> Result<Config, String> {
        let authorization =
            options(args).authorization("https://mcp.example/mcp?key=secret", &mut Secrets::default())?;
        Ok(authorization.config().clone())
    }

    #[test]
    fn every_option_reaches_the_configuration() {
        let usual = config(&[]).unwrap();
        assert!(usual.registered.is_none() && usual.scope.is_none() && usual.callback_port.is_none());
        assert_eq!(
            (usual.grant.clone(), usual.resource.clone()),
            (Grant::AuthorizationCode, ResourceParameter::Published)
        );
        let other = config(&[
            "--client-id",
            "id",
            "--client-secret-env",
            "PATH",
            "--client-credentials",
            "--scope",
            "a b",
            "--resource",
            "api://x",
            "--authorize-param",
            "audience=a=b",
            "--callback-port",
            "4000",
            "--callback-host",
            "[::1]",
            "--callback-path",
            "/oauth/callback",
            "--profile",
            "work",
            "--tolerate",
            "other-issuer",
            "--tolerate",
            "unlisted-pkce",
            "--tolerate",
            "private-addresses",
            "--tolerate",
            "missing-issuer",
        ])
        .unwrap();
        let path = std::env::var("PATH").unwrap();
        let client = ClientIdentity::new("id").with_secret(Secret::new(path));
        assert_eq!((other.registered.as_ref(), other.grant), (Some(&client), Grant::ClientCredentials));
        assert_eq!((other.scope.as_deref(), other.callback_port), (Some("a b"), Some(4000)));
        assert_eq!(
            (other.resource.clone(), other.profile.as_str()),
            (ResourceParameter::Fixed("api://x".to_owned()), "work")
        );
        let tolerated = &other.exceptions;
        assert!(tolerated.other_issuer && tolerated.missing_issuer);
        assert!(tolerated.unlisted_pkce && tolerated.private_addresses);
        assert_eq!((usual.callback_host, other.callback_host), (None, Some(CallbackHost::Ipv6)));
        assert_eq!(usual.store_key(), config(&["--callback-host", "localhost"]).unwrap().store_key());
        assert_eq!(config(&["--device-code"]).unwrap().grant, Grant::DeviceCode);
        for (args, grant) in [
            (&["--client-id", "id", "--identity-token-env", "PATH"][..], Grant::WorkloadIdentity),
            (&["--client-id", "id", "--identity-token-command", "x"], Grant::WorkloadIdentity),
            (&["--token-command", "x"], Grant::External),
        ] {
            assert_eq!(config(args).unwrap().grant, grant);
        }
        assert_eq!((usual.proofs, config(&["--dpop"]).unwrap().proofs), (Proofs::Demanded, Proofs::Supported));
        assert_eq!(config(&["--resource", "none"]).unwrap().resource, ResourceParameter::Omitted);
        // All that could lead to other tokens leads to another record (OA-M-03).
        let keys = [
            &[][..],
            &["--client-id", "id"],
            &["--client-metadata-url", "https://me.example/client"],
            &["--scope", "a"],
            &["--resource", "none"],
            &["--authorize-param", "a=b"],
            &["--profile", "work"],
        ];
        let keys: std::collections::BTreeSet<_> = keys.map(|args| config(args).unwrap().store_key()).into();
        assert_eq!(keys.len(), 7);
    }

    #[test]
    fn the_command_to_sign_in_has_the_same_options() {
        for (args, command) in [
            (&[][..], "mcp-proxy login https://mcp.example/mcp"),
            (
                &["--client-id", "i'd", "--scope", "a b", "--tolerate", "unlisted-pkce"],
                r"mcp-proxy login --client-id 'i'\''d' --scope 'a b' --tolerate unlisted-pkce https://mcp.example/mcp",
            ),
            (
                &["--callback-host", "[::1]", "--callback-path", "/oauth/callback", "--tolerate", "missing-issuer"],
                "mcp-proxy login --callback-host '[::1]' --callback-path /oauth/callback --tolerate missing-issuer https://mcp.example/mcp",
            ),
            (
                &["--client-id", "i", "--client-secret-env", "PATH", "--client-credentials", "--callback-port", "1"],
                "mcp-proxy login --client-id i --client-secret-env PATH --client-credentials --callback-port 1 https://mcp.example/mcp",
            ),
        ] {
            assert_eq!(config(args).unwrap().sign_in_command.as_deref(), Some(command));
        }
    }

    #[test]
    fn options_that_cannot_be_used_are_named() {
        for (args, text) in [
            (&["--client-id", "a", "--client-secret-env", "NO_SUCH_VARIABLE"][..], "--client-secret-env: "),
            (&["--client-metadata-url", "http://me.example/client"], "--client-metadata-url: "),
            (&["--authorize-param", "a"], "--authorize-param: a parameter is written as NAME=VALUE"),
            (&["--authorize-param", "state=a"], "--authorize-param state: "),
            (&["--client-id", "a", "--client-credentials"], "--client-credentials: this needs"),
            (&["--client-id", "a", "--private-key", "/no/such"], "--private-key /no/such: "),
            (&["--credential-helper", "../x"], "--credential-helper: "),
            (
                &["--callback-path", "callback"],
                "--callback-path: the path of the redirect URI must begin with one slash",
            ),
        ] {
            let error = config(args).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
        assert_eq!(options(&[]).refuse_any(), Ok(()));
        assert!(options(&["--scope", "a"]).refuse_any().unwrap_err().starts_with("--scope: there is no sign-in"));
    }
}
