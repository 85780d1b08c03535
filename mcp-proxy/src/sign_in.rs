//! Signing in: its options, and the commands `login`, `logout` and `whoami`.
//!
//! | file | what it does |
//! |---|---|
//! | `options` | the options that determine with which tokens a server is used |
//! | `places` | where tokens are stored, and whether a person may be asked |
//! | `credential_helper` | tokens in the keychain of the system |
//! | `token_source` | tokens that other programs issue |
//! | `browser` | shows a URL to a person |
//! | `known_server` | what servers have stated about themselves |
//! | `mcp_remote` | the tokens that `mcp-remote` has stored |

mod browser;
mod credential_helper;
mod known_server;
mod mcp_remote;
pub(crate) mod options;
mod places;
mod token_source;

use std::io::{self, BufRead, Write};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use mcp_auth::{Cause, Event, SignInError, Step, StoredSignIn, Waiting};
use mcp_blocking::sign_in::{Authorization, Redirects, Store as _};
use mcp_blocking::{Client, HttpOptions};
use mcp_proto::escape_text;

pub(crate) use known_server::KnownServerFile;

use crate::args::{Account, AccountSettings};

/// Characters that are shown of a text from a server.
const MAX_CHARS: usize = 300;

/// Signs in, and prints what was stored. Returns whether the server can be used with it.
///
/// # Errors
///
/// The I/O error of printing.
pub(crate) fn login(account: &Account, out: &mut impl Write) -> io::Result<bool> {
    if let Err(error) = connect(account.settings_or_exit()) {
        writeln!(out, "failed: {}", printable(&error.to_string()))?;
        return Ok(false);
    }
    if let Some(found) = stored(account)? {
        writeln!(out, "signed in")?;
        return print(out, &found).map(|()| true);
    }
    // The server has demanded nothing so far. It may still name an authorization server, and demand tokens for some calls.
    let AccountSettings { authorization, options, .. } = account.settings_or_exit();
    match obtain(asking(authorization), options, Cause::Requested)? {
        Ok(_) => report(account, "signed in", out),
        Err(SignInError::NoMetadata) => {
            writeln!(out, "the server demands no sign-in")?;
            Ok(true)
        }
        Err(error) => {
            writeln!(out, "failed: {}", printable(&error.to_string()))?;
            Ok(false)
        }
    }
}

/// Stores the tokens of `mcp-remote`, and prints what was stored. Returns whether there were any that can be used.
///
/// # Errors
///
/// The files cannot be read, or the I/O error of printing.
pub(crate) fn import(account: &Account, out: &mut impl Write) -> io::Result<bool> {
    let AccountSettings { url, authorization, options, .. } = account.settings_or_exit();
    let imported = mcp_remote::tokens(&url, &authorization.config().resource)?;
    match obtain(authorization, options, Cause::Imported(Box::new(imported)))? {
        Ok(_) => report(account, "imported", out),
        Err(error) => {
            writeln!(out, "failed: {}", printable(&error.to_string()))?;
            Ok(false)
        }
    }
}

/// Revokes what is stored, if the authorization server can do that, and removes it. Returns whether it was removed.
///
/// # Errors
///
/// The record cannot be read, or the I/O error of printing.
pub(crate) fn logout(account: &Account, out: &mut impl Write) -> io::Result<bool> {
    if stored(account)?.is_none() {
        writeln!(out, "not signed in with these options")?;
        return Ok(true);
    }
    let AccountSettings { authorization, options, .. } = account.settings_or_exit();
    let (authorization, known) = KnownServerFile::new(authorization);
    if let Some(mut known) = known {
        known.erase();
    }
    let outcome = obtain(authorization, options, Cause::SignOut)?;
    match outcome {
        Ok(Outcome::SignedOut { is_revoked: true }) => {
            writeln!(out, "signed out: the tokens were revoked and removed")?;
        }
        Ok(_) => writeln!(
            out,
            "signed out: the tokens were removed; the authorization server did not revoke them, and they stay valid \
             until they expire"
        )?,
        Err(error) => {
            writeln!(out, "failed: {}", printable(&error.to_string()))?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Prints what is stored, without tokens. Returns whether anything is.
///
/// # Errors
///
/// The record cannot be read, or the I/O error of printing.
pub(crate) fn whoami(account: &Account, out: &mut impl Write) -> io::Result<bool> {
    report(account, "signed in", out)
}

fn report(account: &Account, heading: &str, out: &mut impl Write) -> io::Result<bool> {
    let Some(found) = stored(account)? else {
        writeln!(out, "not signed in with these options")?;
        return Ok(false);
    };
    writeln!(out, "{heading}")?;
    print(out, &found)?;
    Ok(true)
}

fn stored(account: &Account) -> io::Result<Option<StoredSignIn>> {
    let AccountSettings { authorization, mut store, .. } = account.settings_or_exit();
    let record = store.load(&authorization.config().store_key())?;
    Ok(record.and_then(|record| StoredSignIn::parse(&record)))
}

fn print(out: &mut impl Write, found: &StoredSignIn) -> io::Result<()> {
    let mut line = |name: &str, value: &str| writeln!(out, "{:<11}{}", format!("{name}:"), printable(value));
    line("issuer", &found.issuer)?;
    line("client id", &found.client_id)?;
    line("resource", found.resource.as_deref().unwrap_or("not named"))?;
    line("scopes", found.scope.as_deref().unwrap_or("not named"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let expiry = match found.expires_at {
        None => "unknown".to_owned(),
        Some(at) if at <= now => "now".to_owned(),
        Some(at) => format!("in {}", in_words(at - now)),
    };
    line("expires", &format!("{expiry}{}", if found.can_refresh { "; it is renewed without a sign-in" } else { "" }))
}

/// A time in words, in the largest unit that it contains at least twice.
fn in_words(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
}

/// Sends requests to the server, and signs in if it demands that: its challenge may state more than its metadata.
fn connect(settings: AccountSettings) -> Result<(), mcp_blocking::Error> {
    let AccountSettings { url, http, options, authorization, .. } = settings;
    let builder = Client::builder().name("mcp-proxy", env!("CARGO_PKG_VERSION")).http(&url)?;
    let builder = builder.configure_http(|own| *own = http).http_options(options);
    let client = builder.authorization(asking(authorization)).connect()?;
    let capabilities = client.initialize_result().first_member("capabilities");
    if capabilities.is_some_and(|capabilities| capabilities.first_member("tools").is_some()) {
        // Some servers demand nothing for the first request.
        client.request("tools/list", None)?;
    }
    client.close();
    Ok(())
}

/// How a sign-in or its opposite has ended.
enum Outcome {
    SignedIn,
    SignedOut { is_revoked: bool },
}

/// Runs a sign-in without a client. The inner error is the reason why it failed.
fn obtain(
    authorization: Authorization,
    options: HttpOptions,
    cause: Cause,
) -> io::Result<Result<Outcome, SignInError>> {
    let (sender, events) = channel();
    let sign_in = authorization.start(options, move |event| {
        // Nothing waits for further events after the first outcome.
        let _ = sender.send(event);
    })?;
    sign_in.begin(cause);
    for event in events {
        match event {
            Event::Authorized(_) => return Ok(Ok(Outcome::SignedIn)),
            Event::SignedOut { is_revoked } => return Ok(Ok(Outcome::SignedOut { is_revoked })),
            Event::Refused(error) => return Ok(Err(error)),
            Event::Waiting(waiting @ (Waiting::OtherProcess | Waiting::Device { .. })) => log::warn!("{waiting}"),
            Event::Step(step @ Step::ErrorWithoutState { .. }) => log::warn!("{}", printable(&step.to_string())),
            Event::NoToken | Event::Waiting(_) | Event::Step(_) | _ => {}
        }
    }
    Err(io::Error::other("the sign-in ended without an outcome"))
}

/// Lets a person sign in, in a browser of this machine or of another one.
fn asking(authorization: Authorization) -> Authorization {
    let redirects = authorization.redirects();
    authorization.configure(|config| config.may_ask_user = true).open_url(move |url| {
        browser::show(
            url,
            "If the browser is on another machine, paste the URL of the page to which it was sent at the end:",
        );
        read_redirects(redirects.clone());
    })
}

/// Passes in the URLs that a person pastes (OA-B-04). The thread ends with standard input.
fn read_redirects(redirects: Redirects) {
    let read = move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let line = line.trim();
            if !line.is_empty() && !redirects.pass(line) {
                log::warn!("this is not the URL to which the sign-in leads; it must contain code and state");
            }
        }
    };
    if let Err(error) = thread::Builder::new().name("mcp-paste".to_owned()).spawn(read) {
        log::warn!("cannot start a thread: {error}");
    }
}

/// Escapes text from a server, so that it can neither send control sequences to the terminal nor fill it (PX8).
fn printable(text: &str) -> String {
    escape_text(text, MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_the_largest_unit_that_fits() {
        for (seconds, text) in [
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7199, "119 min"),
            (7200, "2 h"),
            (172_799, "47 h"),
            (172_800, "2 days"),
        ] {
            assert_eq!(in_words(seconds), text);
        }
    }
}
