//! Functions that are not `Send`, on a `LocalSet`, of a server that is served by other threads.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mcp_model::{JsonObject, Tool};
use mcp_proto::server::Config;
use mcp_proto::{ErrorObject, Json};
use mcp_testkit::waiting::LONG;
use mcp_tokio::{Client, Error, HandlerError, Incoming, Router, Server, local_function, local_tool};
use tokio::sync::Notify;
use tokio::task::{LocalSet, yield_now};
use tokio::time::timeout;

fn tool(name: &str) -> Tool {
    Tool::new(name, JsonObject::new().with("type", "object"))
}

async fn connect(router: Router) -> Client {
    let server = Server::new(Config::new("s", "1"), router);
    Client::builder().in_memory(&server).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_from_any_thread_run_concurrently_on_the_set_with_one_state() {
    let set = LocalSet::new();
    set.run_until(async {
        let (running, most, log) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
        let (most_running, thread) = (Rc::clone(&most), std::thread::current().id());
        let written = Rc::clone(&log);
        let meet = local_tool(move |arguments: JsonObject, _: Incoming| {
            let (running, most, log) = (Rc::clone(&running), Rc::clone(&most_running), Rc::clone(&written));
            async move {
                assert_eq!(std::thread::current().id(), thread);
                running.set(running.get() + 1);
                // Each call waits until all are here.
                while most.get() < 3 {
                    most.set(most.get().max(running.get()));
                    yield_now().await;
                }
                log.borrow_mut().push(arguments.to_string());
                Ok::<_, HandlerError>(arguments.to_string())
            }
        });
        let client = connect(Router::new().tool_with_schema(&tool("meet"), meet)).await;
        let calls = [1, 2, 3].map(|number| {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool("meet", JsonObject::new().with("n", number)).await })
        });
        for (number, call) in (1..).zip(calls) {
            let result = timeout(LONG, call).await.unwrap().unwrap().unwrap();
            assert_eq!(result.all_text(), format!(r#"{{"n":{number}}}"#));
        }
        assert_eq!((most.get(), log.borrow().len()), (3, 3));
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_call_is_dropped_and_others_go_on() {
    struct Dropped(Rc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let set = LocalSet::new();
    set.run_until(async {
        let (begun, dropped) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
        let (is_begun, is_dropped) = (Rc::clone(&begun), Rc::clone(&dropped));
        let hang = local_tool(move |_: JsonObject, _: Incoming| {
            let guard = Dropped(Rc::clone(&dropped));
            let begun = Rc::clone(&begun);
            async move {
                let _guard = guard;
                begun.notify_one();
                std::future::pending::<Result<&str, HandlerError>>().await
            }
        });
        let client = connect(Router::new().tool_with_schema(&tool("hang"), hang)).await;
        for _ in 0..2 {
            let call = tokio::spawn({
                let client = client.clone();
                async move { client.call_tool("hang", ()).await }
            });
            timeout(LONG, is_begun.notified()).await.unwrap();
            call.abort();
            timeout(LONG, is_dropped.notified()).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_panic_is_an_error_of_its_call_alone_and_so_is_the_end_of_the_set() {
    let set = LocalSet::new();
    let (client, of_service) = set
        .run_until(async {
            let divide = local_tool(|arguments: JsonObject, _: Incoming| async move {
                assert!(arguments.to_string() != "{}", "as the test wants");
                Ok::<_, HandlerError>("fine")
            });
            let client = connect(Router::new().tool_with_schema(&tool("divide"), divide)).await;
            let failed = client.call_tool("divide", ()).await.unwrap();
            assert_eq!(failed.is_error, Some(true));
            assert_eq!(failed.all_text(), "the function panicked, or its LocalSet has ended");
            let other = client.call_tool("divide", JsonObject::new().with("n", 1)).await.unwrap();
            assert_eq!(other.all_text(), "fine");
            let serve = local_function(|_: Incoming| async { Ok::<_, ErrorObject>(Json::empty_object()) });
            let of_service =
                Client::builder().in_memory(&Server::new(Config::new("s", "1"), serve)).connect().await.unwrap();
            of_service.request("x", None).await.unwrap();
            (client, of_service)
        })
        .await;
    drop(set);
    let ended = client.call_tool("divide", JsonObject::new().with("n", 1)).await.unwrap();
    assert_eq!(ended.is_error, Some(true));
    let Err(Error::Server(error)) = of_service.request("x", None).await else { panic!("an answer") };
    assert_eq!(error.code(), -32603);
}
