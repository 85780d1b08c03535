//! What is learnt from the lists of servers: which server has a name or a resource, and the definitions of tools.

use std::collections::BTreeSet;

use mcp_proto::spec::Change;
use mcp_proto::{Instant, Json};

use super::event::ServerKey;
use super::list_kind::ListKind;
use super::names::Published;
use super::pages::Part;
use super::pending::Composed;
use super::{Aggregate, Event};

impl Aggregate {
    /// An item as the client sees it, and what is learnt from it. `None` if the client could not use it.
    pub(super) fn learn(&mut self, server: ServerKey, kind: ListKind, item: &Json, now: Instant) -> Option<Json> {
        let text = item.first_member(kind.name())?;
        let text = text.as_string()?;
        let names = match kind {
            ListKind::Resources | ListKind::Templates => {
                let lister = self.resources.learn(kind, &text, server);
                let owner = self.app_pages.owner(&text).unwrap_or(lister);
                self.report_same_resource(server, owner);
                return (owner == server).then(|| item.clone());
            }
            ListKind::Prompts => &mut self.prompts,
            ListKind::Tools => &mut self.tools,
        };
        match names.publish(server, &text, &self.prefixes) {
            Published::As(public) if kind == ListKind::Tools && self.is_reserved(&public) => None,
            Published::As(public) => {
                let own = (kind == ListKind::Tools).then(|| self.with_own_pages(server, item, now));
                Some(own.as_ref().unwrap_or(item).with_member(kind.name(), &Json::from(public)))
            }
            Published::OfOther(owner) => {
                self.report_same_name(server, owner, kind);
                None
            }
            Published::LeftOut => None,
        }
    }

    /// Learns from all pages of a list that does not answer a request.
    pub(super) fn learn_all(&mut self, list: &Composed, now: Instant) {
        let kind = list.kind;
        for (server, part) in &list.parts {
            for page in &part.pages {
                for item in page.content.first_member(kind.member()).iter().flat_map(Json::elements) {
                    let _ = self.learn(*server, kind, &item, now);
                }
            }
            self.on_whole_list(*server, kind, part, now);
        }
    }

    /// The list of a server was read as far as one answer reaches.
    pub(super) fn on_whole_list(&mut self, server: ServerKey, kind: ListKind, part: &Part, now: Instant) {
        let is_read = part.next.is_none() && part.error.is_none() && !part.pages.is_empty();
        let is_whole = part.is_whole();
        let items = part.pages.iter().filter_map(|page| page.content.first_member(kind.member()));
        let texts = items.flat_map(|items| items.elements().collect::<Vec<_>>());
        let texts = texts.filter_map(|item| item.first_member(kind.name())?.as_string().map(|text| Box::from(&*text)));
        let whole = is_whole.then(|| texts.collect());
        if kind == ListKind::Tools {
            self.on_tools_read(server, part);
        }
        match kind {
            ListKind::Resources | ListKind::Templates if part.is_fresh => self.resources.on_listed(kind, server, whole),
            ListKind::Tools | ListKind::Prompts if is_read => {
                if is_whole && !part.is_stale && kind == ListKind::Tools && self.config.lazy_tools.is_some() {
                    let most = self.limits().held / 4;
                    self.catalogue.set(server, part, most);
                }
                self.on_names_listed(server, kind, whole.as_ref(), now);
            }
            ListKind::Resources | ListKind::Templates | ListKind::Tools | ListKind::Prompts => {}
        }
    }

    /// The names of a server were listed. If those of others depend on that, the client is notified.
    pub(super) fn on_names_listed(
        &mut self,
        server: ServerKey,
        kind: ListKind,
        whole: Option<&BTreeSet<Box<str>>>,
        now: Instant,
    ) {
        let (capability, flag) = Change::List(kind.list()).capability();
        let is_notified = self.members.get(&server).is_some_and(|member| member.has_flag(capability, flag));
        let names = if kind == ListKind::Tools { &mut self.tools } else { &mut self.prompts };
        let is_announced = names.on_listed(server, whole, &self.prefixes);
        if !is_notified {
            names.on_changed(server);
        }
        if is_announced {
            self.catalogue.on_renamed();
            self.announce_list(kind.list(), now);
        }
    }

    /// Reports that the list of a server is longer than the aggregate reads, once for each connection.
    pub(super) fn report_too_long(&mut self, server: ServerKey, kind: ListKind) {
        let Some(member) = self.members.get_mut(&server) else { return };
        if member.too_long.insert(kind) {
            self.out.report(Event::ListTooLong { server, method: kind.method() });
        }
    }

    /// Reports that a server lists names of another one, once for each connection and kind.
    fn report_same_name(&mut self, server: ServerKey, owner: ServerKey, kind: ListKind) {
        let Some(member) = self.members.get_mut(&server) else { return };
        if member.same_names.insert((owner, kind)) {
            self.out.report(Event::SameName { owner, other: server, method: kind.method() });
        }
    }

    /// Reports that two servers list the same resource, once for each connection.
    fn report_same_resource(&mut self, server: ServerKey, owner: ServerKey) {
        let Some(member) = self.members.get_mut(&server).filter(|_| owner != server) else { return };
        if member.same_as.insert(owner) {
            self.out.report(Event::SameResource { owner, other: server });
        }
    }
}
