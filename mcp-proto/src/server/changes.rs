//! Changes that the application publishes, and the resources for whose changes clients have subscribed.

use super::Server;
use super::change_notification::ChangeNotification;
use super::subscribed::SubscriptionChange;
use super::subscriptions::{self, Publication};
use super::transport::{ServerTransport, TransportNotice};
use crate::Instant;
use crate::conversation::keys::SessionKey;
use crate::error::UsageError;

impl<T: ServerTransport> Server<T> {
    /// Sends a change notification to all clients that it concerns: since 2026-07-28 to each subscription whose filter
    /// matches, and to each session of an earlier client; `resources/updated` only if that client has subscribed to the
    /// resource.
    ///
    /// # Errors
    ///
    /// [`UsageError::NoChange`] if the notification is none of `list_changed`, `resources/updated` and the extension's
    /// `notifications/tasks`, and [`UsageError::NotDeclared`] if
    /// [`Config::capabilities`](super::Config::capabilities) does not declare it.
    ///
    /// Rules: LC-18.
    pub fn publish(&mut self, change: impl Into<ChangeNotification>, now: Instant) -> Result<(), UsageError> {
        let change = change.into();
        self.publish_here(&change, now)?;
        self.notice(TransportNotice::Published(&change), now);
        Ok(())
    }

    /// Sends a change notification to all clients that are connected to this instance.
    pub(super) fn publish_here(&mut self, change: &ChangeNotification, now: Instant) -> Result<(), UsageError> {
        let notification = change.notification();
        let name = subscriptions::name_of(notification);
        let publication = Publication::of(&notification.method, name.as_deref())?;
        publication.check(self.config())?;
        let (sessions, stateless, shared) = &mut self.split(now);
        stateless.publish(change, &publication, shared);
        for session in sessions.values() {
            if shared.transport.sharing(Some(session.key)).has_client {
                session.publish(change, &publication, shared);
            }
        }
        Ok(())
    }

    /// Sends a change notification to the client of this session, as [`Server::publish`] sends it to all clients.
    ///
    /// # Errors
    ///
    /// As for [`Server::publish`], and [`UsageError::Closed`] if the session has ended.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::server::{Config, Server};
    /// use mcp_proto::{Instant, Json, Method, Notification, Stdio};
    ///
    /// let now = Instant::START;
    /// let config = Config::new("my-tools", "1.0.0").capabilities(Json::parse(r#"{"tools":{"listChanged":true}}"#)?);
    /// let mut server = Server::new(Stdio::new(), config)?;
    /// let initialize = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    /// server.handle_bytes(initialize, now);
    /// server.handle_bytes(b"\n", now);
    /// while server.poll_output().is_some() {}
    /// server.publish_to(server.session(), Notification::new(Method::TOOLS_LIST_CHANGED), now)?;
    /// assert!(server.poll_output().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publish_to(
        &mut self,
        session: SessionKey,
        change: impl Into<ChangeNotification>,
        now: Instant,
    ) -> Result<(), UsageError> {
        let change = change.into();
        let notification = change.notification();
        let name = subscriptions::name_of(notification);
        let publication = Publication::of(&notification.method, name.as_deref())?;
        publication.check(self.config_of(session))?;
        let (session, _, shared) = &mut self.split_at(session, now);
        session.as_ref().ok_or(UsageError::Closed)?.publish(&change, &publication, shared);
        Ok(())
    }

    /// The next resource that gained its first subscription or lost its last one: by `resources/subscribe`, which the
    /// machine answers, or by `subscriptions/listen` since 2026-07-28. Only an application that must watch a resource
    /// to detect its changes needs to call this.
    ///
    /// If this is never called, the unreported changes take no more memory than the subscriptions: a subscription that
    /// ends before it was reported is never reported. A resource that was reported as subscribed is reported once as
    /// unsubscribed, also when its client's session ends.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_proto::server::{Config, Server, SubscriptionChange};
    /// use mcp_proto::{Instant, Json, Stdio};
    ///
    /// let now = Instant::START;
    /// let config = Config::new("my-files", "1.0.0").capabilities(Json::parse(r#"{"resources":{"subscribe":true}}"#)?);
    /// let mut server = Server::new(Stdio::new(), config)?;
    /// for line in [
    ///     r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
    ///     r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///log"}}"#,
    /// ] {
    ///     server.handle_bytes(format!("{line}\n").as_bytes(), now);
    /// }
    /// assert_eq!(server.poll_subscription(), Some(SubscriptionChange::Subscribed("file:///log".into())));
    /// assert_eq!(server.poll_subscription(), None);
    /// server.close(now);
    /// assert_eq!(server.poll_subscription(), Some(SubscriptionChange::Unsubscribed("file:///log".into())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "a change is reported once"]
    pub fn poll_subscription(&mut self) -> Option<SubscriptionChange> {
        if self.resources.changed.is_empty() { None } else { self.resources.next_change() }
    }

    /// Whether a `subscriptions/listen` that [`Server::acknowledge_listens`] must acknowledge has arrived since the
    /// last call of this method. This is for
    /// [`Config::manual_acknowledgement`](super::Config::manual_acknowledgement), and `false` without it. The new
    /// resources of the request are reported by [`Server::poll_subscription`].
    #[must_use = "each arrival is reported once"]
    pub fn poll_unacknowledged(&mut self) -> bool {
        std::mem::take(&mut self.stateless.has_unacknowledged)
    }

    /// Acknowledges each unacknowledged `subscriptions/listen`, unless `is_pending` is `true` for one of its resources.
    /// From its acknowledgement on, a subscription receives the changes that are published.
    ///
    /// # Example: a proxy that subscribes at another server first
    ///
    /// ```
    /// use mcp_proto::server::{Config, Server, SubscriptionChange};
    /// use mcp_proto::{Instant, Json, Stdio};
    ///
    /// let now = Instant::START;
    /// let mut config = Config::new("my-proxy", "1.0.0").capabilities(Json::parse(r#"{"resources":{"subscribe":true}}"#)?);
    /// config.manual_acknowledgement = true;
    /// let mut server = Server::new(Stdio::new(), config)?;
    /// let listen = br#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a:b"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    /// server.handle_bytes(listen, now);
    /// server.handle_bytes(b"\n", now);
    /// assert_eq!(server.poll_subscription(), Some(SubscriptionChange::Subscribed("a:b".into())));
    /// assert!(server.poll_unacknowledged());
    ///
    /// server.acknowledge_listens(|uri| uri == "a:b", now);
    /// assert!(server.poll_output().is_none(), "the other server has not answered");
    /// server.acknowledge_listens(|_| false, now);
    /// assert!(server.poll_output().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acknowledge_listens(&mut self, is_pending: impl Fn(&str) -> bool, now: Instant) {
        let (_, stateless, shared) = &mut self.split(now);
        stateless.acknowledge_listens(is_pending, shared);
    }

    /// Removes a resource from each unacknowledged `subscriptions/listen`, because its changes cannot be observed: the
    /// acknowledgement will not contain it.
    ///
    /// Rules: MD-L-02.
    pub fn exclude_resource(&mut self, uri: &str, now: Instant) {
        let (_, stateless, shared) = &mut self.split(now);
        stateless.exclude_resource(uri, shared);
    }
}
