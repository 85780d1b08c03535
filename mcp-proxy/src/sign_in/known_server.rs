//! What a server has stated about itself, for the answer to `initialize` while a person signs in (OA-G-07).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_auth::Event;
use mcp_blocking::sign_in::{Authorization, FileStore, Store};
use mcp_intermediary::relay::KnownServer;

use super::places;

/// The file with what one server has stated. Servers that need no sign-in have none.
pub(crate) struct KnownServerFile {
    files: FileStore,
    key: String,
    is_signed_in: Arc<AtomicBool>,
}

impl KnownServerFile {
    /// The file for the server of this sign-in; `None` without a home directory.
    pub(crate) fn new(authorization: Authorization) -> (Authorization, Option<Self>) {
        let Some(data) = places::data() else { return (authorization, None) };
        let (files, key) = (FileStore::new(&data.join("servers")), authorization.config().store_key());
        let file = Self { files, key, is_signed_in: Arc::default() };
        let is_signed_in = Arc::clone(&file.is_signed_in);
        let authorization = authorization.observe(move |event| {
            if let Event::Authorized(_) = event {
                is_signed_in.store(true, Ordering::Relaxed);
            }
        });
        (authorization, Some(file))
    }

    /// Reads what is stored.
    pub(crate) fn read(&mut self) -> Option<KnownServer> {
        let stored = self.files.load(&self.key).ok()??;
        KnownServer::parse(&stored)
    }

    /// Replaces what is stored, if the server was signed in to.
    pub(crate) fn write(&mut self, server: &KnownServer) {
        if !self.is_signed_in.load(Ordering::Relaxed) || self.read().as_ref() == Some(server) {
            return;
        }
        if let Err(error) = self.files.store(&self.key, server.to_text().as_bytes()) {
            log::info!("cannot store what the server states about itself: {error}");
        }
    }

    /// Removes what is stored.
    pub(super) fn erase(&mut self) {
        if let Err(error) = self.files.erase(&self.key) {
            log::warn!("cannot remove what the server has stated about itself: {error}");
        }
    }
}
