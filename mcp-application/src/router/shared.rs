//! A router that may change while servers use it.

#![expect(clippy::disallowed_types, reason = "servers share this among threads; no machine contains it")]

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_proto::spec::capability;
use mcp_proto::{Json, Notification, UsageError};

use crate::{InvalidService, Publisher, Publishers};

/// A router that may change while servers use it. `R` is the driver's router, `P` are the publishers of the servers that
/// use it, and `C` identifies the caller of [`SharedRoutes::change`], for example its thread.
///
/// # Example: a router of which only the capabilities matter
///
/// ```
/// use mcp_application::router::{ChangeableRouter, Router, SharedRoutes};
/// use mcp_application::InvalidService;
/// use mcp_proto::{Json, Notification};
/// use mcp_model::{Prompt, Tool};
///
/// #[derive(Clone)]
/// struct Mine(Router<()>);
///
/// impl ChangeableRouter for Mine {
///     fn capabilities(&self) -> Result<Json, InvalidService> {
///         self.0.capabilities(true).map(Json::from)
///     }
///
///     fn changes(&self, later: &Self) -> Vec<Notification> {
///         self.0.changes(&later.0)
///     }
/// }
///
/// let shared: SharedRoutes<Mine, Vec<&str>, u32> = SharedRoutes::new(Mine(Router::new()));
/// shared.add(|publishers| publishers.push("server"));
/// let changed = shared.change(1, |mut router| {
///     router.0.add_prompt(&Prompt::new("hello"), ());
///     router
/// })?;
/// assert_eq!(changed.notifications[0].method.as_str(), "notifications/prompts/list_changed");
/// assert_eq!((changed.publishers, changed.added), (vec!["server"], vec!["prompts"]));
/// # Ok::<(), InvalidService>(())
/// ```
pub struct SharedRoutes<R, P, C> {
    state: Mutex<State<R, P, C>>,
    /// Locked during a change, so that changes are made one after the other. Requests do not wait for it.
    turn: Mutex<()>,
}

struct State<R, P, C> {
    router: Arc<R>,
    publishers: P,
    /// The caller whose change is being made.
    changer: Option<C>,
}

/// A router of a driver: routes, and what serves everything else.
pub trait ChangeableRouter: Clone {
    /// The capabilities of a server with this router, whose lists may change.
    ///
    /// # Errors
    ///
    /// The mistakes of the application.
    fn capabilities(&self) -> Result<Json, InvalidService>;

    /// The notifications about the lists that differ between this router and a later one.
    fn changes(&self, later: &Self) -> Vec<Notification>;
}

/// A change that was made.
#[derive(Debug)]
#[non_exhaustive]
pub struct Changed<R, P> {
    /// The router before the change.
    pub earlier: Arc<R>,
    /// The router after the change.
    pub later: Arc<R>,
    /// The publishers of the servers that have been created with an earlier router.
    pub publishers: P,
    /// The notifications for the clients of these servers.
    pub notifications: Vec<Notification>,
    /// The capabilities that only the later router has, so that these servers may not have declared them
    /// ([`Config::check_declared`](mcp_proto::server::Config::check_declared)).
    pub added: Vec<&'static str>,
}

impl<R, P: Publisher> Changed<R, Publishers<P>> {
    /// Passes each publisher to `created`, with the earlier and the later router, and checks that the servers have declared
    /// the capabilities that only the later router has.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotDeclared`] if one has not.
    pub fn announce(&self, created: impl Fn(&R, &R, &P)) -> Result<(), UsageError> {
        for publisher in self.publishers.iter() {
            created(&self.earlier, &self.later, publisher);
        }
        self.publishers.check_declared(&self.added)
    }
}

impl<R: ChangeableRouter, P: Clone + Default, C: PartialEq> SharedRoutes<R, P, C> {
    /// A router without servers.
    #[must_use]
    pub fn new(router: R) -> Self {
        let state = State { router: Arc::new(router), publishers: P::default(), changer: None };
        Self { state: Mutex::new(state), turn: Mutex::default() }
    }

    /// The router as it is now.
    pub fn current(&self) -> Arc<R> {
        Arc::clone(&self.state().router)
    }

    /// Adds the publisher of a server that was created. Returns the router with which the server begins; each later
    /// router comes in a [`Changed`] that has this publisher.
    pub fn add(&self, add: impl FnOnce(&mut P)) -> Arc<R> {
        let mut state = self.state();
        add(&mut state.publishers);
        Arc::clone(&state.router)
    }

    /// Replaces the router. Requests are served by the earlier one until `change` has returned.
    ///
    /// # Errors
    ///
    /// The mistakes of the new router: then nothing has changed. [`InvalidService::NestedChange`] if this was called by
    /// `change`.
    pub fn change(&self, caller: C, change: impl FnOnce(R) -> R) -> Result<Changed<R, P>, InvalidService> {
        if self.state().changer.as_ref() == Some(&caller) {
            return Err(InvalidService::NestedChange);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let _changing = Changing::begin(self, caller);
        let earlier = self.current();
        let later = change(R::clone(&earlier));
        let capabilities = later.capabilities()?;
        // A fallback may have had a mistake that is mended now.
        let added = capability::added(&earlier.capabilities().unwrap_or_else(|_| Json::empty_object()), &capabilities);
        let notifications = earlier.changes(&later);
        let later = Arc::new(later);
        let publishers = {
            let mut state = self.state();
            state.router = Arc::clone(&later);
            state.publishers.clone()
        };
        Ok(Changed { earlier, later, publishers, notifications, added })
    }
}

impl<R, P, C> SharedRoutes<R, P, C> {
    /// A panic while the lock is held leaves the earlier router in place.
    fn state(&self) -> MutexGuard<'_, State<R, P, C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R, P, C> fmt::Debug for SharedRoutes<R, P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRoutes").finish_non_exhaustive()
    }
}

/// A change that is being made. Dropping it, also in a panic, ends this.
struct Changing<'s, R, P, C>(&'s SharedRoutes<R, P, C>);

impl<'s, R, P, C> Changing<'s, R, P, C> {
    fn begin(shared: &'s SharedRoutes<R, P, C>, caller: C) -> Self {
        shared.state().changer = Some(caller);
        Self(shared)
    }
}

impl<R, P, C> Drop for Changing<'_, R, P, C> {
    fn drop(&mut self) {
        self.0.state().changer = None;
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use mcp_proto::Method;

    use super::*;

    /// A router with the tools of these names.
    #[derive(Debug, Clone, PartialEq)]
    struct Named(Vec<&'static str>);

    impl ChangeableRouter for Named {
        fn capabilities(&self) -> Result<Json, InvalidService> {
            if self.0.contains(&"wrong") {
                return Err(InvalidService::ToolSchema { tool: "wrong".into() });
            }
            let tools = Json::parse(r#"{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#).unwrap();
            Ok(if self.0.is_empty() { Json::empty_object() } else { tools })
        }

        fn changes(&self, later: &Self) -> Vec<Notification> {
            if self == later { Vec::new() } else { vec![Notification::new(Method::TOOLS_LIST_CHANGED)] }
        }
    }

    type Shared = SharedRoutes<Named, Vec<u8>, u8>;

    fn with(name: &'static str) -> impl FnOnce(Named) -> Named {
        move |mut named| {
            named.0.push(name);
            named
        }
    }

    #[test]
    fn a_change_states_what_it_has_changed_and_for_which_servers() {
        let shared = Shared::new(Named(Vec::new()));
        assert_eq!(*shared.add(|publishers| publishers.push(7)), Named(Vec::new()));
        let first = shared.change(0, with("a")).unwrap();
        assert_eq!((&*first.earlier, &*first.later), (&Named(Vec::new()), &Named(vec!["a"])));
        assert_eq!((first.publishers, first.notifications.len()), (vec![7], 1));
        assert_eq!(first.added, ["tools", "io.modelcontextprotocol/tasks"]);
        assert_eq!(*shared.add(|publishers| publishers.push(8)), Named(vec!["a"]));
        let second = shared.change(0, with("b")).unwrap();
        assert_eq!((second.publishers, second.added), (vec![7, 8], Vec::new()));
        let third = shared.change(0, |named| named).unwrap();
        assert!(third.notifications.is_empty());
    }

    #[test]
    fn a_change_that_is_mistaken_or_panics_leaves_the_earlier_router() {
        let shared = Shared::new(Named(vec!["a"]));
        assert!(matches!(shared.change(0, with("wrong")), Err(InvalidService::ToolSchema { .. })));
        assert!(catch_unwind(AssertUnwindSafe(|| shared.change(0, |_| panic!("a mistake")))).is_err());
        assert_eq!(*shared.current(), Named(vec!["a"]));
        assert_eq!(*shared.change(0, with("b")).unwrap().later, Named(vec!["a", "b"]));
        let wrong = Shared::new(Named(vec!["wrong"]));
        assert_eq!(wrong.change(0, |_| Named(vec!["a"])).unwrap().added.len(), 2, "a mistake is mended");
    }

    #[test]
    fn servers_are_created_and_requests_served_while_a_change_is_made_but_no_other_change_is() {
        let shared = Shared::new(Named(vec!["a"]));
        let changed = shared.change(1, |named| {
            assert_eq!(*shared.current(), Named(vec!["a"]));
            shared.add(|publishers| publishers.push(7));
            assert!(matches!(shared.change(1, with("nested")), Err(InvalidService::NestedChange)));
            with("b")(named)
        });
        let changed = changed.unwrap();
        assert_eq!((&*changed.later, changed.publishers), (&Named(vec!["a", "b"]), vec![7]));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the changes must overlap")]
    fn changes_of_several_threads_follow_one_another() {
        let shared = Shared::new(Named(Vec::new()));
        std::thread::scope(|scope| {
            for caller in 0..4 {
                let shared = &shared;
                scope.spawn(move || {
                    for _ in 0..10 {
                        let slowly = |named| {
                            std::thread::sleep(Duration::from_millis(1));
                            with("a")(named)
                        };
                        shared.change(caller, slowly).unwrap();
                    }
                });
            }
        });
        assert_eq!(shared.current().0.len(), 40);
    }
}
