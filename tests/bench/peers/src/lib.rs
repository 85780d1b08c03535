//! `mcp-tokio` and rmcp, each as a client with its server in the same process.
//!
//! Both do the same: the client writes a number as the arguments of a tool, the server reads it and answers with a text
//! of [`TEXT`] bytes, and the client reads that text. Arguments and results are typed values on both sides.
//!
//! | file | what it does |
//! |---|---|
//! | `mcp_tokio_pair` | `mcp-tokio` |
//! | `rmcp_pair` | rmcp |
//! | `load` | calls one at a time and many at once |

pub mod load;
mod mcp_tokio_pair;
mod rmcp_pair;

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::RunningService;
use tokio::net::TcpListener;

/// The size of the text in each result, in bytes.
pub const TEXT: usize = 200;
/// The capacity of the stream in memory, in bytes.
const DUPLEX: usize = 64 * 1024;
const TOOL: &str = "repeat";

/// A client whose server runs in the same process.
#[derive(Clone)]
pub enum Caller {
    /// A client of `mcp-tokio`.
    McpTokio(mcp_tokio::Client),
    /// A client of rmcp.
    Rmcp(Arc<RunningService<RoleClient, ()>>),
}

/// A server over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpServer {
    /// `mcp-tokio` with its own listener.
    McpTokio,
    /// `mcp-tokio`, as a route of axum.
    McpTokioInAxum,
    /// rmcp with its defaults, as a route of axum: sessions, and events for answers.
    Rmcp,
    /// rmcp with JSON for answers, which it supports only without sessions.
    RmcpJson,
}

impl HttpServer {
    /// Starts the server on a free port of loopback, and returns its URL.
    pub async fn start(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        match self {
            Self::McpTokio => mcp_tokio_pair::listen(listener),
            Self::McpTokioInAxum => serve_in_axum(listener, mcp_tokio_pair::route()),
            Self::Rmcp => serve_in_axum(listener, rmcp_pair::route(false)),
            Self::RmcpJson => serve_in_axum(listener, rmcp_pair::route(true)),
        }
        format!("http://{address}/mcp")
    }

    /// Starts the server, and connects a client of the same library.
    pub async fn connect(self) -> Caller {
        let url = self.start().await;
        match self {
            Self::McpTokio | Self::McpTokioInAxum => Caller::McpTokio(mcp_tokio_pair::connect_http(&url).await),
            Self::Rmcp | Self::RmcpJson => Caller::Rmcp(Arc::new(rmcp_pair::connect_http(&url).await)),
        }
    }
}

impl Caller {
    /// `mcp-tokio` over a stream in memory.
    pub async fn mcp_tokio_in_memory() -> Self {
        Self::McpTokio(mcp_tokio_pair::connect_in_memory().await)
    }

    /// rmcp over a stream in memory.
    pub async fn rmcp_in_memory() -> Self {
        Self::Rmcp(Arc::new(rmcp_pair::connect_in_memory().await))
    }

    /// Calls the tool.
    pub async fn call(&self, number: u32) {
        let length = match self {
            Self::McpTokio(client) => mcp_tokio_pair::call(client, number).await,
            Self::Rmcp(client) => rmcp_pair::call(client, number).await,
        };
        assert_eq!(length, TEXT);
    }
}

fn serve_in_axum(listener: TcpListener, app: axum::Router) {
    use axum::serve::ListenerExt;
    // Servers of `mcp-tokio` set this option, too.
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("an option of TCP"));
    tokio::spawn(async move { axum::serve(listener, app).await });
}

/// The text of a result: the last digit of the number, repeated.
fn text(number: u32) -> String {
    (number % 10).to_string().repeat(TEXT)
}
