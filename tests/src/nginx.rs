//! A reverse proxy for tests: nginx on a free port of loopback, with a folder of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

use mcp_testkit::raw_client::RawClient;

use crate::installed::is_installed;

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A running nginx, which is ended with the test.
#[derive(Debug)]
pub struct Nginx {
    /// The address at which clients reach it.
    pub client: RawClient,
    folder: PathBuf,
    child: Child,
}

impl Nginx {
    /// Starts nginx before the server at the address `upstream`. Requests below the path `prefix`, which is empty or begins
    /// with a slash, are passed on without it, as docs/gateway.md describes. `None` where nginx is not installed.
    ///
    /// # Panics
    ///
    /// If nginx cannot be started.
    pub fn start(at: RawClient, upstream: &str, prefix: &str, is_buffering: bool) -> Option<Self> {
        if !is_installed("nginx") {
            return None;
        }
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("mcp-nginx-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        let place = folder.display();
        let (address, buffering) = (at.address(), if is_buffering { "on" } else { "off" });
        // A user who is not root may write to no other folder.
        let configuration = format!(
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
        );
        let file = folder.join("nginx.conf");
        fs::write(&file, configuration).expect("a file");
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&folder).arg("-c").arg(&file).arg("-e").arg(folder.join("error.log"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("nginx cannot be started ({error}); install the package nginx-light");
        });
        at.wait();
        Some(Self { client: at, folder, child })
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The main process ends its worker on SIGTERM, and not if it is killed.
        let id = self.child.id().to_string();
        let is_told = Command::new("kill").args(["-TERM", &id]).status().is_ok_and(|status| status.success());
        if !is_told {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
