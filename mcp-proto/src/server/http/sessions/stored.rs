//! Sessions in a store that the instances of a server share ([`store`](crate::store)).
//!
//! | file | what it does |
//! |---|---|
//! | `pending` | actions of the store whose results are awaited |
//! | `work` | passes them to the store, and their results to what waits for them |
//! | `lookup` | how a request finds its session, and how sessions end |
//! | `record`, `saving` | the record of a session; its changes, and the responses that wait for them |
//! | `append` | messages for the streams of requests that are served here: stored, then written as events |
//! | `reader`, `read` | streams that are read from the store for clients |
//! | `get_stream` | messages for the GET stream of a session, which another instance may have |
//! | `instances` | which instance a client's answer or cancellation is for, and what instances report to each other |
//! | `task_requests` | requests about tasks of another instance |

pub(crate) mod append;
pub(crate) mod get_stream;
pub(crate) mod instances;
pub(crate) mod lookup;
pub(crate) mod pending;
pub(crate) mod read;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod saving;
pub(crate) mod task_requests;
pub(crate) mod work;
