//! The contract of stores: the one in memory. `mcp-tokio/tests/driver/store.rs` has the engines of that driver.

use std::time::Duration;

use bytes::Bytes;
use mcp_proto::store::{MemoryStore, StoreAction, StoreResult};
use mcp_proto::{InstanceId, Instant};
use mcp_testkit::store_contract::{BEHAVIOURS, Engine};

struct InMemory(MemoryStore, Instant);

impl Engine for InMemory {
    fn register(&mut self, instance: InstanceId) {
        self.0.register(instance);
    }

    fn unregister(&mut self, instance: InstanceId) {
        self.0.unregister(instance);
    }

    fn carry_out(&mut self, from: InstanceId, action: StoreAction) -> StoreResult {
        self.0.carry_out(from, &action, self.1).unwrap_or(StoreResult::Done)
    }

    fn receive(&mut self, by: InstanceId, count: usize) -> Vec<Bytes> {
        std::iter::from_fn(|| self.0.poll_message(by)).take(count).collect()
    }

    fn pass(&mut self, time: Duration) {
        self.1 += time;
    }
}

#[test]
fn the_store_in_memory_fulfils_the_contract() {
    let mut engine = InMemory(MemoryStore::new(), Instant::START);
    for behaviour in BEHAVIOURS {
        behaviour.check(&mut engine);
    }
}
