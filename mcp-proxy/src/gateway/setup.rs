//! What a gateway has as long as it runs, whatever its configuration becomes.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcp_blocking::{Gateway, GatewayStatus};
use mcp_intermediary::{gateway, relay};
use mcp_proto::UsageError;
use mcp_proto::server::{Access, TwoEndpoints};

use super::audit::Audit;
use super::jwt;
use super::listen::Place;
use super::metrics::Metrics;
use super::observer::Observer;
use super::pages::Pages;
use super::plan::{Plan, restrictions};
use super::servers::{Described, Kind};
use crate::args::limits_of_messages;
use crate::args::serve::ServeArgs;
use crate::logging::Log;
use crate::record::Record;
use crate::{request_log, seed};

/// What a gateway has as long as it runs.
pub(super) struct Setup {
    pub(super) log: Log,
    pub(super) place: Place,
    pub(super) audit: Option<Arc<Audit>>,
    pub(super) record: Option<Record>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) status: GatewayStatus,
}

impl Setup {
    /// Adds to a gateway what a plan serves, and to whom. The servers at the paths `kept` keep their processes and sessions.
    ///
    /// # Errors
    ///
    /// A text for the user.
    pub(super) fn gateway(
        &self,
        mut gateway: Gateway,
        plan: &Plan,
        kept: &BTreeSet<String>,
    ) -> Result<Gateway, String> {
        let args = &plan.args;
        let access = self.place.access(args);
        for server in &plan.servers {
            let mut config = config(args, server, access.clone());
            config.http.protected_resource = jwt::resource(args, server)?;
            let pins = restrictions(args, server)?.apply(&mut config.relay)?;
            let observer = Observer::new(self, server, pins, config.relay.limits.message);
            let mut backend = server.backend(args).map_err(|error| error.to_string())?.observer(observer);
            for (name, filter) in member_filters(args, server)? {
                backend = backend.member_filter(&name, filter);
            }
            let added = if kept.contains(&server.path("mcp")) {
                gateway.kept_server(config, backend)
            } else {
                gateway.server(config, backend)
            };
            gateway = added.map_err(|error| in_words(&error))?;
        }
        if plan.users.are_known() {
            let users = Arc::clone(&plan.users);
            gateway = gateway.authenticate(move |head| users.authenticate(head));
        }
        let pages = Pages::new(args, self.status.clone(), Arc::clone(&self.metrics));
        gateway = gateway.pages(move |head| pages.answer(head));
        if let Some(audit) = self.audit.clone() {
            gateway = gateway.refuse(move |_| audit.refusal());
        }
        Ok(gateway)
    }

    /// Checks what a plan depends on besides itself.
    ///
    /// # Errors
    ///
    /// A text for the user.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), String> {
        self.place.check(&plan.args, plan.users.are_known())?;
        if self.record.is_some() { plan.secrets.check() } else { Ok(()) }
    }

    /// Removes the secrets of a plan from the log and the recording, too.
    pub(super) fn leave_out_too(&self, plan: &Plan) {
        self.log.leave_out(&plan.secrets);
        if let Some(record) = &self.record {
            record.leave_out(&plan.secrets);
        }
    }
}

/// The filters of the servers that are served as one, by their names.
fn member_filters(args: &ServeArgs, server: &Described) -> Result<Vec<(String, relay::Filter)>, String> {
    let Kind::All(members) = &server.kind else { return Ok(Vec::new()) };
    let mut filters = Vec::new();
    for member in members {
        let mut config = relay::Config::default();
        restrictions(args, member)?.filters().apply(&mut config)?;
        filters.extend(member.name.clone().map(|name| (name, config.filter)));
    }
    Ok(filters)
}

pub(super) fn config(args: &ServeArgs, server: &Described, access: Access) -> gateway::Config {
    let mut config = gateway::Config::default();
    config.sharing = server.settings.share(args).into();
    let (http, relay) = (&mut config.http, &mut config.relay);
    http.path = Some(server.path("mcp").into());
    http.two_endpoints =
        args.sse.then(|| TwoEndpoints { stream: server.path("sse").into(), messages: server.path("messages").into() });
    http.public_path = args.public_path().into();
    http.access = access;
    http.cors = !args.allow_origin.is_empty();
    http.max_sessions = usize::try_from(args.max_sessions).unwrap_or(usize::MAX);
    http.session_idle = args.session_idle;
    relay.versions.clone_from(&args.protocol.0);
    relay.limits = limits_of_messages(args.max_message);
    relay.limits.backends = args.max_backends.into();
    // A quarter of the connections is for subscriptions, as half of them is for streams.
    relay.limits.subscriptions = relay.limits.subscriptions.max(usize::from(args.max_connections) / 4);
    relay.request_timeout = server.settings.request_timeout(args);
    relay.initialize_timeout = server.settings.start_timeout(args);
    relay.drain_timeout = args.drain_timeout;
    relay.max_timeout = relay.max_timeout.max(relay.request_timeout);
    relay.reports_ended_requests = request_log::is_enabled() || args.metrics.is_some() || args.audit.file.is_some();
    relay.seed = seed();
    config
}

/// The only configuration that a person can make invalid is the size of messages.
fn in_words(error: &UsageError) -> String {
    format!("--max-message: {error}")
}
