//! Further pages of the documentation.

pub mod drivers {
    //! What drivers of clients, servers and proxies use of this crate.
    //!
    //! What drivers of clients and of servers use:
    //!
    //! | items | purpose |
    //! |---|---|
    //! | [`Operation`], [`OperationEnd`], [`request_id_text`] | what a span or a metric states about a request, without its payload |
    //! | [`OperationNames`], [`OperationLabel`] | which names of methods, tools and prompts metrics contain, so that peers cannot make up series |
    //! | [`DURATION_BUCKETS`] | the buckets of durations |
    //!
    //! What a driver of clients uses:
    //!
    //! | items | purpose |
    //! |---|---|
    //! | [`ClientEvent`], [`Notice`] | sort the events of a client by who receives them: a caller, a subscription, the handler |
    //! | [`Connected`], [`SharedConnected`], [`NotConnected`] | what is known about the server, or why it could not be connected to |
    //! | [`ClientHandlers`], [`RequestKind`] | functions of the application for single kinds of requests and notifications, and the capabilities that they need |
    //! | [`ProgressBytes`], [`ProgressQueue`] | progress notifications that callers have not received yet, with their limits |
    //! | [`Pages`], [`MAX_PAGES`], [`MAX_LIST`] | a whole list, page by page |
    //! | [`TaskCall`], [`TaskStep`] | a call of a tool whose result may be a task |
    //! | [`tool_call`], [`prompt`], [`completion`], [`page`], [`directory`] | the parameters of calls that a driver offers as functions |
    //! | [`ChildEnd`], [`LAST_OUTPUT_TIMEOUT`] | when a server in a child process has ended, of which the process and the stream end separately |
    //! | [`CONNECT_TIMEOUT`], [`STORED_TOKEN_TIMEOUT`], [`EXIT_TIMEOUT`], [`CLOSED_INPUT_TIMEOUT`], [`LONGEST_TIMEOUT`] | how long it waits |
    //! | [`MAX_CHANGES`], [`MAX_CHANGE_BYTES`], [`NOTICES`], [`NOTICE_BYTES`] | how much it queues |
    //!
    //! What a driver of servers and proxies uses:
    //!
    //! | items | purpose |
    //! |---|---|
    //! | [`SharedConnections`], [`Admitted`], [`ConnectionSlot`] | which connections a listening server serves, and which it closes for others |
    //! | [`ConnectionTimeouts`] | how long the client of a connection may take |
    //! | [`may_accept_later`] | whether a listening socket can be used after an error |
    //! | [`NoticeLoad`] | how much is queued for a service |
    //! | [`Running`], [`ChangeReceiver`] | what a server and its clones share, and who receives the changes that are published |
    //! | [`Publisher`], [`Publishers`] | the servers to whose clients changes of a router are published |
    //! | [`TaskRuns`], [`TaskEffect`] | the tasks of a server, and the functions that work on them |
    //! | [`SharedTaskRuns`], [`RouterTasks`] | the same behind a lock, with the publishers of their changes |
    //! | [`TaskCaller`], [`CallSender`] | the client whose call is a task |
    //! | [`TaskInput`], [`TaskInputs`] | input that such a function needs from the client, one or several at one time |
    //! | [`not_read`] | the error of a client that does not read |
    //! | [`STREAM_FLUSH_TIMEOUT`], [`PROXY_FLUSH_TIMEOUT`], [`URGENT_PROXY_FLUSH_TIMEOUT`] | how long it waits for such a client |

    use crate::*;
}
