//! Sessions in a store that the instances of a server share ([`store`](crate::store)).
//!
//! | file | what it does |
//! |---|---|
//! | `pending` | actions of the store whose results are awaited |
//! | `work` | carries them out, and finds what waits for them |
//! | `lookup` | how a request finds its session, and how sessions end |
//! | `record`, `saving` | the record of a session; its changes, and the responses that wait for them |
//! | `append` | events of requests that are served here, which are stored, then written |
//! | `reader`, `read` | streams that are read from the store for clients |
//! | `get_stream` | the GET stream of a session |
//! | `instances` | messages between instances |
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
