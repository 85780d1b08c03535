//! `subscriptions/listen`: changes that a client subscribes to (since 2026-07-28).

use super::define::object;
use super::value::Meta;

object! {
    /// The parameters of `subscriptions/listen`.
    SubscriptionsListenRequestParams {
        required {
            /// The changes to subscribe to.
            notifications: SubscriptionFilter = "notifications",
        }
        optional {
            /// Metadata.
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The changes that a client subscribes to, or of which a server has accepted the subscription (MD-L-01).
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{Payload, SubscriptionFilter};
    ///
    /// let filter = SubscriptionFilter::new().tools_list_changed(true).resource("file:///notes.txt");
    /// assert_eq!(
    ///     filter.to_json().as_bytes(),
    ///     br#"{"toolsListChanged":true,"resourceSubscriptions":["file:///notes.txt"]}"#,
    /// );
    /// ```
    SubscriptionFilter {
        optional {
            /// Changes of the list of tools.
            tools_list_changed: bool = "toolsListChanged",
            /// Changes of the list of prompts.
            prompts_list_changed: bool = "promptsListChanged",
            /// Changes of the list of resources.
            resources_list_changed: bool = "resourcesListChanged",
            /// The URIs of the resources whose changes are reported.
            resource_subscriptions: Vec<String> = "resourceSubscriptions",
            /// The ids of the tasks whose changes are reported, with the extension for tasks.
            task_ids: Vec<String> = "taskIds",
        }
    }
}

impl SubscriptionFilter {
    /// Adds a resource.
    #[must_use]
    pub fn resource(mut self, uri: &str) -> Self {
        self.resource_subscriptions.get_or_insert_default().push(uri.to_owned());
        self
    }

    /// Adds a task, with the extension for tasks.
    #[must_use]
    pub fn task(mut self, id: &str) -> Self {
        self.task_ids.get_or_insert_default().push(id.to_owned());
        self
    }
}

object! {
    /// The result of `subscriptions/listen`, with which the server ends the subscription (MD-L-09).
    SubscriptionsListenResult {
        optional {
            /// Metadata, with [`Meta::subscription_id`].
            meta: Meta = "_meta",
        }
    }
}

object! {
    /// The parameters of `notifications/subscriptions/acknowledged`, the first message for a subscription (MD-L-02).
    SubscriptionsAcknowledgedNotificationParams {
        required {
            /// The changes that the server reports.
            notifications: SubscriptionFilter = "notifications",
        }
        optional {
            /// Metadata, with [`Meta::subscription_id`].
            meta: Meta = "_meta",
        }
    }
}
