//! The identity that a client states: its name, and what it can be asked for.

use crate::conversation::call::AddedMeta;
use crate::error::UsageError;
use crate::json::Json;
use crate::spec::meta::{self, CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION};
use crate::spec::{Method, ProtocolVersion, tasks_capability};

/// The identity that a client states in `initialize`, or in every request of the modern era.
#[derive(Debug)]
pub(super) struct Identity {
    client_info: Json,
    capabilities: Json,
    /// The same, with the extension for tasks.
    with_tasks: Json,
}

impl Identity {
    /// # Errors
    ///
    /// [`UsageError::NotAnObject`] if one of them is not an object.
    pub(super) fn new(client_info: Json, capabilities: Json) -> Result<Self, UsageError> {
        for (value, what) in [(&client_info, "client_info"), (&capabilities, "capabilities")] {
            if !value.is_object() {
                return Err(UsageError::NotAnObject { what });
            }
        }
        let with_tasks = capabilities.with_missing_members(&tasks_capability());
        Ok(Self { client_info, capabilities, with_tasks })
    }

    pub(super) fn initialize_params(&self, version: ProtocolVersion) -> Json {
        Json::empty_object()
            .with_member("clientInfo", &self.client_info)
            .with_member("capabilities", &self.capabilities)
            .with_member("protocolVersion", &Json::from(version.as_str()))
    }

    /// Parameters with the `_meta` members that every request of the modern era carries (MD-M-01).
    pub(super) fn stamped(&self, params: Option<&Json>, version: ProtocolVersion, meta: AddedMeta) -> Json {
        let set = [
            (PROTOCOL_VERSION, &Json::from(version.as_str())),
            (CLIENT_CAPABILITIES, self.declared(meta)),
            (CLIENT_INFO, &self.client_info),
        ];
        meta::stamp(params.unwrap_or(&Json::empty_object()), &set)
    }

    /// Whether the client declares the capability that a request of the server needs.
    pub(super) fn declares(&self, method: &Method) -> bool {
        method.facts().client_capability.is_none_or(|name| self.capabilities.first_member(name).is_some())
    }

    /// Whether a request declares an extension.
    pub(super) fn declares_extensions(&self, meta: AddedMeta) -> bool {
        let extensions = self.declared(meta).first_member("extensions");
        extensions.is_some_and(|extensions| extensions.is_object() && extensions.as_bytes() != b"{}")
    }

    /// What the server may request, and the extensions: an object.
    pub(super) const fn capabilities(&self) -> &Json {
        &self.capabilities
    }

    /// The capabilities that a request declares.
    const fn declared(&self, meta: AddedMeta) -> &Json {
        match meta {
            AddedMeta::Identity | AddedMeta::Nothing => &self.capabilities,
            AddedMeta::IdentityWithTasks => &self.with_tasks,
        }
    }
}
