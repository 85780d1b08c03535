//! A change notification, and who may receive it.

use super::principal::Principal;
use crate::jsonrpc::Notification;

/// A change notification, and who may receive it: all clients that it concerns, if it is made of a [`Notification`].
///
/// # Example
///
/// ```
/// use mcp_proto::Notification;
/// use mcp_proto::server::{ChangeNotification, Principal};
///
/// let change = Notification::new("notifications/tools/list_changed");
/// assert_eq!(ChangeNotification::from(change.clone()).notification(), &change);
/// assert_ne!(ChangeNotification::for_principal(change.clone(), Some(&Principal::new("ada"))), change.into());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeNotification {
    notification: Notification,
    recipients: Recipients,
}

/// Whose subscriptions are notified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Recipients {
    All,
    /// The subscriptions of this principal, or of clients without one.
    Of(Option<Principal>),
}

impl ChangeNotification {
    /// A change for the subscriptions of this principal only, or with `None` for those of clients without a principal.
    /// Clients of revisions up to 2025-11-25 are not notified.
    #[must_use]
    pub fn for_principal(notification: Notification, principal: Option<&Principal>) -> Self {
        Self { notification, recipients: Recipients::Of(principal.cloned()) }
    }

    /// The notification.
    #[must_use]
    pub const fn notification(&self) -> &Notification {
        &self.notification
    }

    pub(super) const fn recipients(&self) -> &Recipients {
        &self.recipients
    }

    pub(super) fn is_for_all(&self) -> bool {
        self.recipients == Recipients::All
    }

    /// Whether a client with this principal may receive the notification.
    pub(super) fn is_for(&self, principal: Option<&Principal>) -> bool {
        match &self.recipients {
            Recipients::All => true,
            Recipients::Of(owner) => owner.as_ref() == principal,
        }
    }
}

impl From<Notification> for ChangeNotification {
    fn from(notification: Notification) -> Self {
        Self { notification, recipients: Recipients::All }
    }
}
