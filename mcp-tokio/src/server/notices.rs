//! Events for a service besides requests, handled one after the other: notifications, ends of sessions, subscriptions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_application::NoticeLoad;
use mcp_proto::client::CloseReason;
use mcp_proto::server::{Server, ServerTransport, SubscriptionChange};
use mcp_proto::{Notification, SessionKey};
use tokio::sync::mpsc;

use super::commands::FinalCommand;
use super::publisher::ServerPublisher;
use super::service::AnyService;
use crate::panics::caught;

/// The queue to the task that calls the service.
pub(super) struct Notices {
    sender: mpsc::UnboundedSender<Notice>,
    /// The notifications that are not handled yet.
    load: Arc<Mutex<NoticeLoad>>,
    /// The service is still handling earlier changes of subscriptions. The machine collects new ones meanwhile.
    is_reporting: bool,
}

enum Notice {
    Notified(SessionKey, Notification),
    Ended(SessionKey, CloseReason),
    Subscriptions(Vec<SubscriptionChange>),
}

impl Notices {
    /// The task ends when this is dropped and everything was handled.
    pub(super) fn new(service: &Arc<dyn AnyService>, final_commands: mpsc::UnboundedSender<FinalCommand>) -> Self {
        let (sender, mut waiting) = mpsc::unbounded_channel();
        let publisher = ServerPublisher::of(final_commands.clone());
        let load = Arc::default();
        let (service, queued) = (Arc::clone(service), Arc::clone(&load));
        tokio::spawn(async move {
            while let Some(notice) = waiting.recv().await {
                match notice {
                    Notice::Notified(session, notification) => {
                        lock(&queued).remove(&notification);
                        // A handler that panics does not prevent the handling of later events.
                        if caught(async { service.notified(session, notification).await }).await.is_none() {
                            tracing::error!("the handler of a notification panicked");
                        }
                    }
                    Notice::Ended(session, reason) => {
                        if caught(async { service.ended(session, reason).await }).await.is_none() {
                            tracing::error!("the handler of a session's end panicked");
                        }
                    }
                    Notice::Subscriptions(changes) => {
                        for change in changes {
                            if caught(report(&*service, change, &publisher)).await.is_none() {
                                tracing::error!("the handler of a subscription panicked");
                            }
                        }
                        let _ = final_commands.send(FinalCommand::Reported);
                    }
                }
            }
        });
        Self { sender, load, is_reporting: false }
    }

    pub(super) fn notified(&self, session: SessionKey, notification: Notification) {
        if !lock(&self.load).add(&notification) {
            tracing::warn!(method = %notification.method, "a notification was dropped: the service is too slow");
            return;
        }
        let _ = self.sender.send(Notice::Notified(session, notification));
    }

    /// The queue is unbounded, but the number of sessions is limited, and each ends once.
    pub(super) fn ended(&self, session: SessionKey, reason: CloseReason) {
        let _ = self.sender.send(Notice::Ended(session, reason));
    }

    /// Passes on the changes of subscriptions, unless earlier changes are still being handled.
    pub(super) fn report<T: ServerTransport>(&mut self, machine: &mut Server<T>) {
        if !self.is_reporting {
            self.report_all(machine);
        }
    }

    /// The service has handled the changes that were passed on.
    pub(super) const fn on_reported(&mut self) {
        self.is_reporting = false;
    }

    /// Passes on the changes of subscriptions, even if earlier changes are still being handled.
    pub(super) fn report_all<T: ServerTransport>(&mut self, machine: &mut Server<T>) {
        let changes: Vec<_> = std::iter::from_fn(|| machine.poll_subscription()).collect();
        if !changes.is_empty() {
            self.is_reporting = true;
            let _ = self.sender.send(Notice::Subscriptions(changes));
        }
    }
}

fn lock(load: &Mutex<NoticeLoad>) -> MutexGuard<'_, NoticeLoad> {
    load.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn report(service: &dyn AnyService, change: SubscriptionChange, publisher: &ServerPublisher) {
    match change {
        SubscriptionChange::Subscribed(uri) => service.subscribed(uri, publisher.clone()).await,
        SubscriptionChange::Unsubscribed(uri) => service.unsubscribed(uri).await,
    }
}
