//! A whole list, page by page.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use mcp_model::{Page, PaginatedRequestParams, Payload, RequestMethod};
use mcp_proto::Json;

use super::Error;

/// The most pages that are read of one list: 1000.
pub const MAX_PAGES: usize = 1000;

/// The most bytes of JSON that are read of one list that has several pages: 64 MiB.
pub const MAX_LIST: usize = 64 << 20;

/// Reads the pages of a list one after the other, and holds the entries of one page.
///
/// The list ends at a page without a cursor, or with the cursor that it was requested with, as the last pages of some
/// servers have. Such a page is left out if it equals the one before, because the server does not look at cursors. The
/// list of a server that repeats an earlier cursor has no end. Reading it ends with an error: before three times as
/// many pages were read as there are different ones, and after [`MAX_PAGES`] pages, or [`MAX_LIST`] bytes.
///
/// # Example: the loop of a driver
///
/// ```
/// use mcp_application::{Error, Pages};
/// use mcp_model::{ListToolsRequest, ListToolsResult, PaginatedRequestParams, Tool};
///
/// fn all_names(
///     mut request: impl FnMut(PaginatedRequestParams) -> Result<ListToolsResult, Error>,
/// ) -> Result<Vec<String>, Error> {
///     let mut pages = Pages::<ListToolsRequest>::new();
///     let mut names = Vec::new();
///     loop {
///         while let Some(tool) = pages.pop() {
///             names.push(tool.name);
///         }
///         let Some(params) = pages.next_params() else { return Ok(names) };
///         pages.add(request(params))?;
///     }
/// }
///
/// let names = all_names(|params| match params.cursor.as_deref() {
///     None => Ok(ListToolsResult::new([Tool::without_arguments("a")]).next_cursor("2")),
///     Some(_) => Ok(ListToolsResult::new([Tool::without_arguments("b")])),
/// });
/// assert_eq!(names.unwrap(), ["a", "b"]);
/// let unchanged = all_names(|_| Ok(ListToolsResult::new([Tool::without_arguments("a")]).next_cursor("last")));
/// assert_eq!(unchanged.unwrap(), ["a"]);
/// let endless = all_names(|params| {
///     let next = if params.cursor.as_deref() == Some("1") { "2" } else { "1" };
///     Ok(ListToolsResult::new([]).next_cursor(next))
/// });
/// assert!(matches!(endless, Err(Error::ListRepeats { .. })));
/// ```
///
/// Rules: MD-K-06.
pub struct Pages<R: RequestMethod<Result: Page>> {
    items: VecDeque<<R::Result as Page>::Item>,
    next: Next,
    count: usize,
    /// The bytes of the pages that were added.
    bytes: usize,
    /// The cursor of an earlier page, with which later ones are compared. It is replaced after 1, 2, 4, … pages, so that
    /// any period is found without a list of all cursors (the algorithm of Brent).
    compared: Option<String>,
    /// The digest of the latest page.
    last: Option<u64>,
}

/// The page to read next.
#[derive(Debug)]
enum Next {
    First,
    At(String),
    End,
}

impl<R: RequestMethod<Params = PaginatedRequestParams, Result: Page>> Pages<R> {
    /// A list of which no page was read.
    #[must_use]
    pub const fn new() -> Self {
        Self { items: VecDeque::new(), next: Next::First, count: 0, bytes: 0, compared: None, last: None }
    }

    /// Takes the next entry of the pages that were added.
    pub fn pop(&mut self) -> Option<<R::Result as Page>::Item> {
        self.items.pop_front()
    }

    /// The parameters of the request for the next page; `None` after the last one, and after an error.
    #[must_use]
    pub fn next_params(&self) -> Option<PaginatedRequestParams> {
        match &self.next {
            Next::First => Some(PaginatedRequestParams::new()),
            Next::At(cursor) => Some(PaginatedRequestParams::new().cursor(cursor.as_str())),
            Next::End => None,
        }
    }

    /// Adds the page that was requested with [`Pages::next_params`], or the reason why there is none.
    ///
    /// # Errors
    ///
    /// This reason, [`Error::ListRepeats`], [`Error::ListTooLong`] or [`Error::ListTooLarge`]. The list has ended then,
    /// without the entries of this page.
    pub fn add(&mut self, page: Result<R::Result, Error>) -> Result<(), Error> {
        let requested = std::mem::replace(&mut self.next, Next::End);
        let page = page?;
        // The limit of messages suffices for a list of one page.
        let json = (page.has_next() || self.count > 0).then(|| page.to_json());
        let json = json.as_ref().map(Json::as_bytes).unwrap_or_default();
        self.bytes = self.bytes.saturating_add(json.len());
        if self.bytes > MAX_LIST {
            return Err(Error::ListTooLarge { bytes: MAX_LIST });
        }
        let digest = page.has_next().then(|| digest(json));
        let (items, cursor) = page.into_parts();
        self.count += 1;
        let Some(cursor) = cursor else {
            self.items.extend(items);
            return Ok(());
        };
        if matches!(&requested, Next::At(requested) if *requested == cursor) {
            if self.last != digest {
                self.items.extend(items);
            }
            return Ok(());
        }
        self.last = digest;
        self.continue_at(cursor)?;
        self.items.extend(items);
        Ok(())
    }

    fn continue_at(&mut self, cursor: String) -> Result<(), Error> {
        if self.compared.as_ref() == Some(&cursor) {
            return Err(Error::ListRepeats { pages: self.count });
        }
        if self.count == MAX_PAGES {
            return Err(Error::ListTooLong { pages: MAX_PAGES });
        }
        if self.count.is_power_of_two() {
            self.compared = Some(cursor.clone());
        }
        self.next = Next::At(cursor);
        Ok(())
    }
}

fn digest(page: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    page.hash(&mut hasher);
    hasher.finish()
}

impl<R: RequestMethod<Params = PaginatedRequestParams, Result: Page>> Default for Pages<R> {
    fn default() -> Self {
        Self::new()
    }
}

/// Omits the entries and the cursors, which are payload.
impl<R: RequestMethod<Result: Page>> fmt::Debug for Pages<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("pages", &self.count).field("items", &self.items.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mcp_model::{ListToolsRequest, ListToolsResult, Tool};

    use super::*;

    /// Reads a list whose cursors are a function of the number of the page, and returns how many pages were read.
    fn read(cursor: impl Fn(usize) -> Option<String>) -> (usize, Result<(), Error>) {
        let mut pages = Pages::<ListToolsRequest>::new();
        let mut asked = 0;
        while pages.next_params().is_some() {
            let mut page = ListToolsResult::new([Tool::without_arguments("a")]);
            page.next_cursor = cursor(asked);
            asked += 1;
            let outcome = pages.add(Ok(page));
            assert_eq!(pages.pop().is_some(), outcome.is_ok(), "each page has one entry");
            if outcome.is_err() {
                assert!(pages.next_params().is_none(), "an error ends the list");
                return (asked, outcome);
            }
        }
        (asked, Ok(()))
    }

    #[test]
    fn a_list_whose_cursors_repeat_ends_with_an_error_before_three_times_its_pages() {
        for (before, period) in [(0, 2), (1, 2), (3, 5), (10, 2), (1, 60), (100, 100)] {
            let (asked, outcome) =
                read(|page| Some(if page < before { page } else { before + (page - before) % period }.to_string()));
            assert!(matches!(outcome, Err(Error::ListRepeats { pages }) if pages == asked), "{before} {period}");
            assert!(asked > period && asked <= 3 * (before + period) + 1, "{before} {period}: {asked}");
        }
    }

    #[test]
    fn a_list_ends_at_a_cursor_that_does_not_change_and_a_page_that_is_sent_again_is_left_out() {
        let page = |names: &[&str], cursor: &str| {
            let mut page =
                ListToolsResult::new(names.iter().map(|name| Tool::without_arguments(name)).collect::<Vec<_>>());
            page.next_cursor = Some(cursor.to_owned());
            page
        };
        for (answers, expected) in [
            // The server does not look at cursors.
            (vec![page(&["a", "b"], ""), page(&["a", "b"], "")], vec!["a", "b"]),
            (vec![page(&["a"], "x"), page(&["a"], "x")], vec!["a"]),
            // The last page has the cursor that it was requested with.
            (vec![page(&["a"], "1"), page(&["b"], "2"), page(&["c"], "2")], vec!["a", "b", "c"]),
            (vec![page(&["a"], ""), page(&["b"], "")], vec!["a", "b"]),
        ] {
            let mut pages = Pages::<ListToolsRequest>::new();
            let mut names = Vec::new();
            let mut answers = answers.into_iter();
            while pages.next_params().is_some() {
                pages.add(Ok(answers.next().expect("no page is read after the last one"))).expect("no error");
                names.extend(std::iter::from_fn(|| pages.pop()).map(|tool| tool.name));
            }
            assert_eq!((names, answers.next()), (expected.into_iter().map(str::to_owned).collect(), None));
        }
    }

    #[test]
    fn a_list_without_an_end_ends_with_an_error_and_one_of_the_longest_length_does_not() {
        let (asked, outcome) = read(|page| Some(page.to_string()));
        assert!(asked == MAX_PAGES && matches!(outcome, Err(Error::ListTooLong { pages: MAX_PAGES })));
        let (asked, outcome) = read(|page| (page + 1 < MAX_PAGES).then(|| page.to_string()));
        assert!(asked == MAX_PAGES && outcome.is_ok());
    }

    #[test]
    fn a_list_whose_pages_are_too_large_together_ends_with_an_error_and_one_page_of_any_size_does_not() {
        let page = |bytes: usize, cursor: Option<String>| {
            let mut page = ListToolsResult::new([Tool::without_arguments("a").description("x".repeat(bytes))]);
            page.next_cursor = cursor;
            page
        };
        let mut pages = Pages::<ListToolsRequest>::new();
        for number in 1..=4 {
            let outcome = pages.add(Ok(page(MAX_LIST / 4, Some(number.to_string()))));
            let is_too_large = matches!(outcome, Err(Error::ListTooLarge { bytes: MAX_LIST }));
            assert_eq!(
                (is_too_large, pages.pop().is_none(), pages.next_params().is_none()),
                (number == 4, number == 4, number == 4)
            );
        }
        let mut pages = Pages::<ListToolsRequest>::new();
        pages.add(Ok(page(MAX_LIST / 2, Some("1".to_owned())))).unwrap();
        assert!(matches!(pages.add(Ok(page(MAX_LIST / 2, None))), Err(Error::ListTooLarge { .. })));
        let mut pages = Pages::<ListToolsRequest>::new();
        assert!(pages.add(Ok(page(MAX_LIST, None))).is_ok());
    }

    #[test]
    fn a_list_ends_with_the_error_of_a_page() {
        let mut pages = Pages::<ListToolsRequest>::new();
        let first = ListToolsResult::new([Tool::without_arguments("a")]).next_cursor("1");
        for (page, is_fine) in [(Ok(first), true), (Err(Error::ListTooLong { pages: 1 }), false)] {
            assert!(pages.next_params().is_some());
            assert_eq!(pages.add(page).is_ok(), is_fine);
        }
        assert!(pages.next_params().is_none());
    }

    #[test]
    fn md_k_06_an_empty_cursor_is_a_cursor_and_only_absence_ends_a_list() {
        let (asked, outcome) = read(|page| (page == 0).then(String::new));
        assert!(asked == 2 && outcome.is_ok());
    }
}
