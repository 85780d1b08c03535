//! The lists that a client can request.

use mcp_proto::Method;
use mcp_proto::spec::List;

/// A list that a client can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    pub(super) const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    pub(super) fn of(method: &Method) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == *method)
    }

    pub(super) const fn list(self) -> List {
        match self {
            Self::Tools => List::Tools,
            Self::Prompts => List::Prompts,
            Self::Resources | Self::Templates => List::Resources,
        }
    }

    pub(super) const fn method(self) -> Method {
        match self {
            Self::Tools => Method::TOOLS_LIST,
            Self::Prompts => Method::PROMPTS_LIST,
            Self::Resources => Method::RESOURCES_LIST,
            Self::Templates => Method::RESOURCES_TEMPLATES_LIST,
        }
    }

    /// The member of the result with the items.
    pub(super) const fn member(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts | Self::Resources => self.list().capability(),
            Self::Templates => "resourceTemplates",
        }
    }

    /// The member of an item that identifies it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }
}
