//! The publishers of the servers that use one router.

use mcp_proto::UsageError;

/// Publishes changes to the clients of one server. How it does that differs between drivers.
pub trait Publisher {
    /// Whether nothing is left to which changes could be published.
    fn is_closed(&self) -> bool;

    /// Checks that the server has declared a capability.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotDeclared`] if it has not.
    fn check_declared(&self, capability: &'static str) -> Result<(), UsageError>;
}

/// The publishers of several servers.
///
/// # Example
///
/// ```
/// use mcp_application::{Publisher, Publishers};
/// use mcp_proto::UsageError;
///
/// #[derive(Clone)]
/// struct Mine {
///     is_closed: bool,
/// }
///
/// impl Publisher for Mine {
///     fn is_closed(&self) -> bool {
///         self.is_closed
///     }
///
///     fn check_declared(&self, capability: &'static str) -> Result<(), UsageError> {
///         Err(UsageError::NotDeclared { capability })
///     }
/// }
///
/// let mut publishers = Publishers::default();
/// publishers.add(Mine { is_closed: true });
/// publishers.add(Mine { is_closed: false });
/// assert_eq!(publishers.iter().count(), 1);
/// assert!(publishers.check_declared(&[]).is_ok() && publishers.check_declared(&["tools"]).is_err());
/// let outcomes = [Err(UsageError::Closed), Ok(())];
/// assert_eq!(Publishers::<Mine>::outcome(outcomes), Ok(()));
/// ```
#[derive(Debug, Clone)]
pub struct Publishers<P>(Vec<P>);

impl<P> Default for Publishers<P> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<P: Publisher> Publishers<P> {
    /// Adds the publisher of a server, and removes those of servers that have ended.
    pub fn add(&mut self, publisher: P) {
        self.0.retain(|publisher| !publisher.is_closed());
        self.0.push(publisher);
    }

    /// Checks that each server has declared these capabilities.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotDeclared`] if one has not.
    pub fn check_declared(&self, capabilities: &[&'static str]) -> Result<(), UsageError> {
        let checked = |publisher: &P| capabilities.iter().try_for_each(|it| publisher.check_declared(it));
        self.0.iter().try_for_each(checked)
    }

    /// The publishers, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &P> {
        self.0.iter()
    }

    /// What publishing one change to the clients of each server has led to.
    ///
    /// # Errors
    ///
    /// The first error. A server that has ended is none.
    pub fn outcome(published: impl IntoIterator<Item = Result<(), UsageError>>) -> Result<(), UsageError> {
        let mut outcome = Ok(());
        for published in published {
            match published {
                Ok(()) | Err(UsageError::Closed) => {}
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }
}
