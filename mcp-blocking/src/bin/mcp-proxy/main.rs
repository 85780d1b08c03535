//! tmp
use mcp_blocking::*;
struct S;
impl Observer for S { fn told(&mut self, e: &mcp_proto::relay::Event) { eprintln!("{e:?}"); } }
fn main() {
    let url = std::env::args().nth(1).unwrap();
    let p = Proxy::new(mcp_proto::client::HttpConfig::new(&url).unwrap(), mcp_proto::relay::Config::default(), HttpOptions::new()).unwrap();
    p.run(std::io::stdin(), std::io::stdout(), &mut S).unwrap();
}
