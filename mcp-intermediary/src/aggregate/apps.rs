//! Pages of MCP Apps (SEP-1865): which server has one, and which tools only pages call.
//!
//! A tool is linked to its page by a URI alone, and servers need not list pages. A page belongs to the first server with a
//! tool that is linked to it, whatever others list; tools of others are listed without the link. So no server supplies
//! the page of another one's tool. Only tools that clients can call count. As long as the tools of some server are not
//! known, a page without an owner may be that of one of them, so that nothing about it is requested of any server.

use std::collections::BTreeSet;

use mcp_proto::spec::List;
use mcp_proto::{Instant, Json};

use super::claims::Claims;
use super::event::ServerKey;
use super::list_kind::ListKind;
use super::pages::Part;
use super::{Aggregate, Event, Member};

/// The maximum of URIs of all servers, and of their bytes; each server has its share.
const STORED: usize = 8192;
const STORED_BYTES: usize = 1024 * 1024;
/// The maximum length of a URI.
const LONGEST: usize = 2048;

const META: &str = "_meta";
/// The entry of `_meta` of the extension, and the member of it with the URI of the page.
const UI: &str = "ui";
const LINK: &str = "resourceUri";
/// The entry of `_meta` with the URI that drafts of the extension had.
const DRAFT_LINK: &str = "ui/resourceUri";
/// The member of `ui` that restricts who may call a tool.
const VISIBILITY: &str = "visibility";

/// The servers of pages.
#[derive(Debug)]
pub(super) struct AppPages {
    uris: Claims,
    /// The servers whose tools were read since they have changed.
    known: BTreeSet<ServerKey>,
}

impl AppPages {
    /// No pages of this number of servers.
    pub(super) fn new(servers: usize) -> Self {
        let servers = servers.max(1);
        let most = (STORED / servers, STORED_BYTES / servers);
        Self { uris: Claims::new(most, LONGEST), known: BTreeSet::new() }
    }

    /// Stores that a tool of a server is linked to a page. Returns the server that the page belongs to; `None` if there is
    /// no room.
    fn learn(&mut self, uri: &str, server: ServerKey) -> Option<ServerKey> {
        self.uris.learn(uri, server);
        self.owner(uri)
    }

    /// Tools of a server were read, those at the end of its list if `is_last`; these are all pages that its tools are linked to, if
    /// all were read.
    fn on_listed(&mut self, server: ServerKey, is_last: bool, whole: Option<&BTreeSet<Box<str>>>) {
        if is_last {
            self.known.insert(server);
        }
        if let Some(whole) = whole {
            self.uris.retain(server, whole);
        }
    }

    /// Whether the tools of a server were read to their end since they have changed.
    pub(super) fn is_known(&self, server: ServerKey) -> bool {
        self.known.contains(&server)
    }

    /// The tools of a server may have changed. Its pages stay its own until the tools are read again.
    pub(super) fn on_changed(&mut self, server: ServerKey) {
        self.known.remove(&server);
    }

    /// The server with a tool that is linked to this page.
    pub(super) fn owner(&self, uri: &str) -> Option<ServerKey> {
        self.uris.owner(uri)
    }
}

impl Aggregate {
    /// The definition of a tool that clients can call, without links if one is to a page of another server.
    pub(super) fn with_own_pages(&mut self, server: ServerKey, tool: &Json, now: Instant) -> Json {
        let mut is_own = true;
        for uri in links(tool) {
            let is_new = self.app_pages.owner(&uri).is_none();
            let owner = self.app_pages.learn(&uri, server);
            is_own &= owner == Some(server);
            match owner {
                Some(owner) if owner != server => self.report_same_page(server, owner),
                // The list of resources had the page of the other one.
                Some(_) if is_new && self.resources.lister(&uri).is_some_and(|lister| lister != server) => {
                    self.announce_list(List::Resources, now);
                }
                Some(_) | None => {}
            }
        }
        if is_own { tool.clone() } else { without_links(tool) }
    }

    /// The tools of a server were read as far as one answer reaches.
    pub(super) fn on_tools_read(&mut self, server: ServerKey, part: &Part) {
        if !part.is_fresh || part.is_stale || part.pages.is_empty() {
            return;
        }
        let whole = part.is_whole().then(|| {
            let lists = part.pages.iter().filter_map(|page| page.content.first_member("tools"));
            let tools = lists.flat_map(|tools| tools.elements().collect::<Vec<_>>());
            tools.flat_map(|tool| links(&tool)).map(Box::from).collect()
        });
        self.app_pages.on_listed(server, part.next.is_none(), whole.as_ref());
    }

    /// A server that may have tools whose pages are not known. One that is late or does not run counts too.
    pub(super) fn with_unknown_tools(&self) -> Option<ServerKey> {
        let may_have = |member: &Member| member.has(ListKind::Tools.list().capability());
        let mut unknown = self.members.iter().filter(|(server, _)| !self.app_pages.is_known(**server));
        unknown.find(|(_, member)| may_have(member)).map(|(server, _)| *server)
    }

    /// Reports that tools of two servers are linked to the same page, once for each connection.
    fn report_same_page(&mut self, server: ServerKey, owner: ServerKey) {
        let Some(member) = self.members.get_mut(&server) else { return };
        if member.same_pages.insert(owner) {
            self.out.report(Event::SamePage { owner, other: server });
        }
    }
}

/// Whether a language model may see and call a tool.
pub(super) fn is_for_model(tool: &Json) -> bool {
    is_for(tool, "model")
}

/// Whether pages may call a tool.
pub(super) fn is_for_pages(tool: &Json) -> bool {
    is_for(tool, "app")
}

/// A restriction that cannot be read permits no caller.
fn is_for(tool: &Json, caller: &str) -> bool {
    let ui = tool.first_member(META).and_then(|meta| meta.first_member(UI));
    let restriction = ui.and_then(|ui| ui.first_member(VISIBILITY));
    restriction.is_none_or(|callers| {
        callers.read::<Vec<String>>().is_ok_and(|callers| callers.iter().any(|permitted| permitted == caller))
    })
}

/// Whether a URI is that of a page.
pub(super) fn is_page(uri: &str) -> bool {
    uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("ui://"))
}

/// The pages that a tool is linked to, in all places where a client may read a link: names may not be unique.
fn links(tool: &Json) -> Vec<String> {
    let values = |object: &Json, name: &str| {
        let entries = object.entries().filter(|(entry, _)| entry.as_deref() == Some(name));
        entries.map(|(_, value)| value).collect::<Vec<_>>()
    };
    let mut links = Vec::new();
    for meta in values(tool, META) {
        links.extend(values(&meta, DRAFT_LINK));
        links.extend(values(&meta, UI).iter().flat_map(|ui| values(ui, LINK)));
    }
    links.iter().filter_map(|link| link.as_string().map(String::from)).filter(|uri| is_page(uri)).collect()
}

/// A tool that is linked to no page.
fn without_links(tool: &Json) -> Json {
    let meta = tool.first_member(META).unwrap_or(Json::empty_object());
    let mut linked_to_none = meta.without_members(&[DRAFT_LINK, UI]);
    if let Some(ui) = meta.first_member(UI) {
        linked_to_none = linked_to_none.with_member(UI, &ui.without_members(&[LINK]));
    }
    tool.without_members(&[META]).with_member(META, &linked_to_none)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(meta: &str) -> Json {
        Json::parse(format!(r#"{{"name":"t","_meta":{meta}}}"#)).expect("JSON")
    }

    #[test]
    fn links_are_found_and_removed_wherever_a_client_may_read_them() {
        for (meta, expected, without) in [
            ("{}", &[][..], "{}"),
            ("7", &[], "7"),
            (r#"{"ui":{"resourceUri":"ui://a"},"x":1}"#, &["ui://a"], r#"{"ui":{},"x":1}"#),
            (r#"{"ui\/resourceUri":"UI://\u0061"}"#, &["UI://a"], "{}"),
            (r#"{"ui/resourceUri":"ui://b","ui":{"resourceUri":"ui://a"}}"#, &["ui://b", "ui://a"], r#"{"ui":{}}"#),
            (r#"{"ui":{"visibility":[]},"ui":{"resourceUri":"ui://a"}}"#, &["ui://a"], r#"{"ui":{"visibility":[]}}"#),
            (r#"{"ui":{}},"_meta":{"ui":{"resourceUri":"ui://a"}}"#, &["ui://a"], r#"{"ui":{}}"#),
            (r#"{"ui":{"resourceUri":7},"ui/resourceUri":["ui://a"]}"#, &[], r#"{"ui":{}}"#),
            (r#"{"ui":"ui://a","ui/resourceUri":"x:a"}"#, &[], r#"{"ui":"ui://a"}"#),
        ] {
            let tool = tool(meta);
            assert_eq!(links(&tool), expected, "{meta}");
            let removed = without_links(&tool);
            assert_eq!(removed.entries().filter(|(name, _)| name.as_deref() == Some(META)).count(), 1, "{meta}");
            if meta != "7" {
                assert_eq!(removed.first_member(META), Some(Json::parse(without).expect("JSON")), "{meta}");
            }
            assert_eq!(links(&removed), [""; 0], "{meta}");
        }
    }

    #[test]
    fn a_tool_is_for_those_that_its_restriction_permits() {
        for (meta, model, pages) in [
            ("{}", true, true),
            (r#"{"ui":{"resourceUri":"ui://a"}}"#, true, true),
            (r#"{"ui":{"visibility":["app"]}}"#, false, true),
            (r#"{"ui":{"visibility":["\u006dodel","other"]}}"#, true, false),
            (r#"{"ui":{"visibility":["model","app"]}}"#, true, true),
            (r#"{"ui":{"visibility":[]}}"#, false, false),
            (r#"{"ui":7}"#, true, true),
            (r#"{"ui":{"visibility":"app"}}"#, false, false),
            (r#"{"ui":{"visibility":["app",7]}}"#, false, false),
            (r#"{"ui":{"visibility":null}}"#, false, false),
        ] {
            let tool = tool(meta);
            assert_eq!((is_for_model(&tool), is_for_pages(&tool)), (model, pages), "{meta}");
        }
    }

    #[test]
    fn what_is_stored_of_a_server_is_bounded_and_displaces_nothing_of_others() {
        let [a, b] = [0, 1].map(ServerKey::new);
        let mut pages = AppPages::new(2);
        for number in 0..STORED {
            let uri = format!("ui://{number:0200}");
            let has_room = (number + 1) * uri.len() <= STORED_BYTES / 2 && number < STORED / 2;
            assert_eq!(pages.learn(&uri, a), has_room.then_some(a), "{number}");
        }
        assert_eq!(pages.learn(&format!("ui://{}", "x".repeat(LONGEST)), b), None);
        assert_eq!(pages.learn("ui://b", b), Some(b));
        pages.on_listed(a, true, Some(&BTreeSet::new()));
        assert_eq!((pages.learn("ui://a", a), pages.learn("ui://b", a)), (Some(a), Some(b)));
    }
}
