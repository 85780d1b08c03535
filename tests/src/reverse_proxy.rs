//! Reverse proxies for tests: nginx and Caddy on a free port of loopback, with a folder of their own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

use mcp_testkit::raw_client::RawClient;

use crate::installed::is_installed;

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A program that is a reverse proxy, as docs/gateway.md configures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReverseProxyKind {
    /// nginx.
    Nginx {
        /// It may keep parts of responses back.
        is_buffering: bool,
    },
    /// Caddy.
    Caddy,
}

impl ReverseProxyKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Nginx { is_buffering: true }, Self::Nginx { is_buffering: false }, Self::Caddy];

    const fn program(self) -> &'static str {
        match self {
            Self::Nginx { .. } => "nginx",
            Self::Caddy => "caddy",
        }
    }

    /// The text of its configuration, with which it writes to this folder only: a user who is not root may write to no other.
    fn configuration(self, folder: &Path, address: &str, upstream: &str, prefix: &str) -> String {
        let place = folder.display();
        match self {
            Self::Nginx { is_buffering } => {
                let buffering = if is_buffering { "on" } else { "off" };
                format!(
                    "daemon off; worker_processes 1; pid {place}/pid; error_log {place}/error.log;
                     events {{}}
                     http {{
                         access_log off;
                         client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;
                         fastcgi_temp_path {place}/fastcgi; uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
                         server {{
                             listen {address};
                             proxy_http_version 1.1;
                             proxy_set_header Connection '';
                             proxy_buffering {buffering};
                             proxy_read_timeout 1h;
                             location {prefix}/ {{ proxy_pass http://{upstream}/; }}
                             location /.well-known/oauth-protected-resource{prefix}/ {{ proxy_pass http://{upstream}; }}
                         }}
                     }}"
                )
            }
            Self::Caddy => {
                let (host, port) = address.rsplit_once(':').unwrap_or_default();
                let below = if prefix.is_empty() { "handle".to_owned() } else { format!("handle_path {prefix}/*") };
                format!(
                    "{{
                         admin off
                         auto_https off
                         grace_period 1ms
                         storage file_system {place}
                     }}
                     :{port} {{
                         bind {host}
                         handle /.well-known/oauth-protected-resource{prefix}/* {{
                             reverse_proxy {upstream}
                         }}
                         {below} {{
                             reverse_proxy {upstream} {{
                                 flush_interval -1
                             }}
                         }}
                     }}
                     "
                )
            }
        }
    }

    fn command(self, folder: &Path, file: &Path) -> Command {
        let mut command = Command::new(self.program());
        match self {
            Self::Nginx { .. } => {
                command.arg("-p").arg(folder).arg("-c").arg(file).arg("-e").arg(folder.join("error.log"));
                command.stderr(Stdio::inherit());
            }
            Self::Caddy => {
                command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
                for folder_of in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
                    command.env(folder_of, folder);
                }
                // Its log.
                command.stderr(Stdio::null());
            }
        }
        command
    }
}

/// A reverse proxy that runs, and is ended with the test.
#[derive(Debug)]
pub struct ReverseProxy {
    /// The address at which clients reach it.
    pub client: RawClient,
    folder: PathBuf,
    child: Child,
}

impl ReverseProxy {
    /// Starts it before the server at the address `upstream`. Requests below the path `prefix`, which is empty or begins
    /// with a slash, are passed on without it. `None` where the program is not installed.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(kind: ReverseProxyKind, at: RawClient, upstream: &str, prefix: &str) -> Option<Self> {
        let program = kind.program();
        if !is_installed(program) {
            return None;
        }
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("mcp-{program}-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        let file = folder.join("configuration");
        fs::write(&file, kind.configuration(&folder, at.address(), upstream, prefix)).expect("a file");
        let mut command = kind.command(&folder, &file);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| panic!("{program} cannot be started: {error}"));
        at.wait();
        Some(Self { client: at, folder, child })
    }
}

impl Drop for ReverseProxy {
    fn drop(&mut self) {
        // The main process of nginx ends its worker on SIGTERM, and not if it is killed.
        let id = self.child.id().to_string();
        let is_told = Command::new("kill").args(["-TERM", &id]).status().is_ok_and(|status| status.success());
        if !is_told {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
