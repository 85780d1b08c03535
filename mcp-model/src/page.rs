//! Results that are one page of a list.

use super::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult, ListTasksResult,
    ListToolsResult, Payload, Prompt, Resource, ResourceTemplate, Skill, Task, Tool,
};

/// A result that is one page of a list.
pub trait Page: Payload {
    /// An entry of the list.
    type Item;

    /// Whether there is a cursor of a next page.
    fn has_next(&self) -> bool;

    /// The entries of this page, and the cursor of the next one. An empty cursor is a cursor like any other; only an
    /// absent one ends the list (MD-K-06).
    fn into_parts(self) -> (Vec<Self::Item>, Option<String>);
}

macro_rules! pages {
    ($($result:ident: $items:ident($item:ident);)*) => {
        $(impl Page for $result {
            type Item = $item;

            fn has_next(&self) -> bool {
                self.next_cursor.is_some()
            }

            fn into_parts(self) -> (Vec<$item>, Option<String>) {
                (self.$items, self.next_cursor)
            }
        })*
    };
}

pages! {
    ListToolsResult: tools(Tool);
    ListPromptsResult: prompts(Prompt);
    ListResourcesResult: resources(Resource);
    ListResourceTemplatesResult: resource_templates(ResourceTemplate);
    ListTasksResult: tasks(Task);
    ListSkillsResult: skills(Skill);
}
