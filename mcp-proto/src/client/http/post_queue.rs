//! Waiting messages in order, with a running total of their sizes.

use std::collections::BTreeMap;

use super::Post;
use crate::client::carrier::Backlog;

/// Waiting messages, by their places in the order.
#[derive(Debug, Default)]
pub(super) struct PostQueue {
    posts: BTreeMap<u64, Post>,
    backlog: Backlog,
}

impl PostQueue {
    pub(super) fn insert(&mut self, place: u64, post: Post) {
        self.backlog = self.backlog.plus(weight(&post));
        self.posts.insert(place, post);
    }

    pub(super) fn remove(&mut self, place: u64) -> Option<Post> {
        let post = self.posts.remove(&place)?;
        self.backlog = self.backlog.minus(weight(&post));
        Some(post)
    }

    pub(super) fn pop_first(&mut self) -> Option<Post> {
        let place = *self.posts.first_key_value()?.0;
        self.remove(place)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.posts.is_empty()
    }

    pub(super) fn places(&self) -> impl Iterator<Item = u64> {
        self.posts.keys().copied()
    }

    pub(super) fn posts(&self) -> impl Iterator<Item = &Post> {
        self.posts.values()
    }

    pub(super) fn into_posts(self) -> impl Iterator<Item = Post> {
        self.posts.into_values()
    }

    pub(super) const fn backlog(&self) -> Backlog {
        self.backlog
    }
}

fn weight(post: &Post) -> Backlog {
    let bytes = post.body.len() + size_of::<Post>();
    match post.role.request() {
        Some(_) => Backlog { bytes, ..Backlog::default() },
        None => Backlog { messages: 1, message_bytes: bytes, bytes },
    }
}
