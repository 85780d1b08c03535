//! Subscriptions to changes: each server has the part that concerns it.
//!
//! A server of a session notifies of changed lists by itself, and of resources after `resources/subscribe`, which is
//! forwarded like other requests. A server without a session has one subscription for everything that clients have
//! subscribed to. When that changes, another subscription replaces it.

use std::collections::BTreeSet;

use mcp_proto::client::SubscriptionKey;
use mcp_proto::server::SubscriptionChange;
use mcp_proto::spec::{Change, List};
use mcp_proto::{Instant, Json, Method, Notification};

use super::apps::is_page;
use super::connection::Opener;
use super::event::ServerKey;
use super::member::MemberState;
use super::{Aggregate, AggregateTimer};

impl Aggregate {
    /// Handles the changes of the client's subscriptions that are not bound to a session. Returns whether there were any.
    pub(super) fn take_subscription(&mut self, now: Instant) -> bool {
        let mut has_changed = false;
        while let Some(change) = self.server.poll_subscription() {
            has_changed = true;
            if self.stage.opener().is_some_and(Opener::is_stateless) {
                self.on_subscription_change(&change, now);
            }
        }
        for server in self.keys() {
            let watch = self.members.get_mut(&server).map(|member| &mut member.watch);
            if watch.is_some_and(|watch| std::mem::take(&mut watch.is_outdated)) {
                self.listen_anew(server, now);
            }
        }
        if self.server.poll_unacknowledged() {
            has_changed = true;
            self.acknowledge(now);
        }
        has_changed
    }

    fn on_subscription_change(&mut self, change: &SubscriptionChange, now: Instant) {
        match change {
            SubscriptionChange::Subscribed(uri) => {
                let owner = self.app_pages.owner(uri);
                // It may be the page of a tool that is not known yet.
                let is_undetermined = owner.is_none() && is_page(uri) && self.with_unknown_tools().is_some();
                let owner = owner.or_else(|| self.resources.owner(uri));
                let (resources, subscribe) = Change::Resource.capability();
                let (mut is_watched, mut late) = (false, Vec::new());
                for (server, member) in &mut self.members {
                    let concerns = !is_undetermined && owner.is_none_or(|owner| owner == *server);
                    let has = member.has_flag(resources, subscribe);
                    if concerns && has && member.watch.uris.has_room_for(uri) {
                        member.watch.uris.insert(uri.clone());
                        member.watch.is_outdated = true;
                        is_watched = true;
                        // One that is connected is listened to anew.
                        late.extend(Some(*server).filter(|_| !member.is_usable()));
                    }
                }
                if !is_watched {
                    self.server.exclude_resource(uri, now);
                }
                for server in late {
                    self.await_watch(server, now);
                }
            }
            SubscriptionChange::Unsubscribed(uri) => {
                for member in self.members.values_mut() {
                    if member.watch.contains(uri) {
                        member.watch.remove(uri);
                        member.watch.is_outdated = true;
                    }
                }
            }
        }
    }

    /// Replaces the subscription at a server, because the filter of an open one cannot be changed (BR-L-04).
    pub(super) fn listen_anew(&mut self, server: ServerKey, now: Instant) {
        if self.stage.opener().is_none_or(|opener| !opener.is_stateless()) {
            return;
        }
        let Some(member) = self.members.get_mut(&server) else { return };
        let MemberState::Running(connection) = &mut member.state else { return };
        if connection.usable_since.is_none() {
            return;
        }
        self.active.insert(server);
        let watch = &mut member.watch;
        if let Some(next) = watch.next.take() {
            connection.client.unlisten(next, now);
        }
        let mut filter = Json::empty_object();
        if let Some(uris) = watch.uris.to_json() {
            filter = filter.with_member("resourceSubscriptions", &uris);
        }
        for list in List::ALL {
            let (capability, flag) = Change::List(*list).capability();
            let declared = member.capabilities.as_ref().and_then(|all| all.first_member(capability));
            if declared.and_then(|declared| declared.first_member(flag)).is_some_and(|flag| flag.as_bytes() == b"true")
            {
                filter = filter.with_member(list.filter_member(), &Json::from(true));
            }
        }
        if filter == Json::empty_object() {
            if let Some(current) = watch.current.take() {
                connection.client.unlisten(current, now);
            }
            return;
        }
        watch.next = connection.client.listen(filter, now).ok();
        if watch.next.is_none() {
            return self.exclude_unwatched(server, now);
        }
        self.await_watch(server, now);
    }

    /// Limits how long subscriptions of the client wait for the acknowledgement of a server.
    fn await_watch(&mut self, server: ServerKey, now: Instant) {
        let timer = AggregateTimer::Watch(server);
        let Some(member) = self.members.get_mut(&server) else { return };
        member.watch.is_overdue |= member.is_late && !member.is_usable();
        if member.watch.is_overdue {
            return self.exclude_unwatched(server, now);
        }
        if !self.timers.is_set(timer) {
            self.timers.set(timer, now + self.config.server_timeout);
        }
    }

    /// A server has not acknowledged its subscription in time.
    pub(super) fn on_watch_overdue(&mut self, server: ServerKey, now: Instant) {
        if let Some(member) = self.members.get_mut(&server) {
            member.watch.is_overdue = true;
        }
        self.exclude_unwatched(server, now);
    }

    /// A server has acknowledged a subscription; `filter` is the part of it that the server supports.
    pub(super) fn on_listening(
        &mut self,
        server: ServerKey,
        subscription: SubscriptionKey,
        filter: &Json,
        now: Instant,
    ) {
        let Some(member) = self.members.get_mut(&server) else { return };
        let watch = &mut member.watch;
        if watch.current == Some(subscription) {
            // The subscription was interrupted and is open again: changes in between may have been missed.
            return self.report_gap(server, now);
        }
        if watch.next != Some(subscription) {
            return;
        }
        (watch.next, watch.is_overdue) = (None, false);
        self.timers.clear(AggregateTimer::Watch(server));
        let uris = filter.first_member("resourceSubscriptions").unwrap_or(Json::empty_object());
        let supported: BTreeSet<Box<str>> =
            uris.elements().filter_map(|uri| uri.as_string().map(|uri| Box::from(&*uri))).collect();
        watch.in_effect = watch.uris.iter().filter(|uri| supported.contains(&***uri)).cloned().collect();
        let replaced = watch.current.replace(subscription);
        if let (Some(replaced), MemberState::Running(connection)) = (replaced, &mut member.state) {
            self.active.insert(server);
            connection.client.unlisten(replaced, now);
        }
        self.exclude_unwatched(server, now);
    }

    /// A subscription at a server has ended.
    pub(super) fn on_listening_ended(&mut self, server: ServerKey, subscription: SubscriptionKey, now: Instant) {
        let Some(watch) = self.members.get_mut(&server).map(|member| &mut member.watch) else { return };
        if watch.current == Some(subscription) {
            watch.current = None;
            watch.in_effect.clear();
        } else if watch.next == Some(subscription) {
            watch.next = None;
            self.timers.clear(AggregateTimer::Watch(server));
            self.exclude_unwatched(server, now);
        }
    }

    /// The connection to a server has ended, and its subscriptions with it.
    pub(super) fn on_connection_lost(&mut self, server: ServerKey, now: Instant) {
        if let Some(member) = self.members.get_mut(&server) {
            (member.watch.current, member.watch.next) = (None, None);
            member.watch.in_effect.clear();
        }
        self.acknowledge(now);
    }

    /// Acknowledges the subscriptions that some server supports; leaves out the rest.
    fn exclude_unwatched(&mut self, server: ServerKey, now: Instant) {
        let uris = self.members.get(&server).map(|member| member.watch.uris()).unwrap_or_default();
        for uri in uris {
            if !self.is_in_effect(&uri) && !self.is_pending(&uri) {
                self.server.exclude_resource(&uri, now);
            }
        }
        self.acknowledge(now);
    }

    fn acknowledge(&mut self, now: Instant) {
        let Self { server, members, .. } = self;
        server.acknowledge_listens(|uri| members.values().any(|member| member.is_pending(uri)), now);
    }

    fn is_in_effect(&self, uri: &str) -> bool {
        self.members.values().any(|member| member.watch.in_effect.contains(uri))
    }

    fn is_pending(&self, uri: &str) -> bool {
        self.members.values().any(|member| member.is_pending(uri))
    }

    fn report_gap(&mut self, server: ServerKey, now: Instant) {
        self.announce(server, now);
        let uris = self.members.get(&server).map(|member| member.watch.uris()).unwrap_or_default();
        for uri in uris {
            let params = Json::empty_object().with_member("uri", &Json::from(&*uri));
            self.publish(Notification::with_params(Method::RESOURCES_UPDATED, params), now);
        }
    }
}

impl super::Member {
    /// Whether the server may still acknowledge that it notifies of changes of a resource.
    fn is_pending(&self, uri: &str) -> bool {
        let MemberState::Running(connection) = &self.state else { return false };
        let is_replaced = self.watch.next.is_some() || self.watch.is_outdated;
        let is_open = !is_replaced && connection.usable_since.is_some();
        let is_awaited = !is_open && !self.watch.is_overdue;
        is_awaited && !self.watch.in_effect.contains(uri) && self.watch.contains(uri)
    }
}
