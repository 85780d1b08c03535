//! The server for clients of other SDKs. Usage: `zoo-server blocking|tokio [stdio]`. Without `stdio`, the first line that it
//! writes is its URL.

use std::error::Error;
use std::io::{self, Write};

use mcp_proto::server::HttpConfig;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let driver = arguments.next().ok_or("usage: zoo-server blocking|tokio [stdio]")?;
    let is_stdio = arguments.next().is_some();
    match driver.as_str() {
        "blocking" if is_stdio => drop(interop_zoo::blocking().serve_stdio()?),
        "blocking" => {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            show(listener.local_addr()?.port())?;
            interop_zoo::blocking().http(HttpConfig::new())?.serve(listener)?;
        }
        "tokio" => serve(is_stdio)?,
        _ => return Err(format!("there is no driver '{driver}'").into()),
    }
    Ok(())
}

#[tokio::main]
async fn serve(is_stdio: bool) -> Result<(), Box<dyn Error>> {
    if is_stdio {
        interop_zoo::tokio().serve_stdio().await?;
        return Ok(());
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    show(listener.local_addr()?.port())?;
    interop_zoo::tokio().http(HttpConfig::new())?.serve(listener).await?;
    Ok(())
}

fn show(port: u16) -> io::Result<()> {
    writeln!(io::stdout(), "http://localhost:{port}/mcp")
}
