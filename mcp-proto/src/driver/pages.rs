//! A whole list, page by page.

use std::collections::VecDeque;
use std::fmt;

use super::Error;
use crate::model::{Page, PaginatedRequestParams, RequestMethod};

/// The most pages that are read of one list: 1000.
pub const MAX_PAGES: usize = 1000;

/// The pages of a list, of which a client reads one after the other. It holds the entries of one page.
///
/// A server can repeat a cursor, so that its list has no end. This ends with an error: after a repeated cursor, before
/// three times as many pages were read as there are different ones, and after [`MAX_PAGES`] pages.
///
/// # Example: the loop of a driver
///
/// ```
/// use mcp_proto::driver::{Error, Pages};
/// use mcp_proto::model::{ListToolsRequest, ListToolsResult, PaginatedRequestParams, Tool};
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
/// let endless = all_names(|_| Ok(ListToolsResult::new([]).next_cursor("again")));
/// assert!(matches!(endless, Err(Error::ListRepeats { .. })));
/// ```
pub struct Pages<R: RequestMethod<Result: Page>> {
    items: VecDeque<<R::Result as Page>::Item>,
    next: Next,
    count: usize,
    /// The cursor of an earlier page, with which later ones are compared. It is replaced after 1, 2, 4, … pages, so that
    /// any period is found without a list of all cursors (the algorithm of Brent).
    compared: Option<String>,
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
        Self { items: VecDeque::new(), next: Next::First, count: 0, compared: None }
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
    /// This reason, [`Error::ListRepeats`] or [`Error::ListTooLong`]. The list has ended then, without the entries of
    /// this page.
    pub fn add(&mut self, page: Result<R::Result, Error>) -> Result<(), Error> {
        self.next = Next::End;
        let (items, cursor) = page?.into_parts();
        self.count += 1;
        if let Some(cursor) = cursor {
            self.continue_at(cursor)?;
        }
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
    use super::*;
    use crate::model::{ListToolsRequest, ListToolsResult, Tool};

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
        for (before, period) in [(0, 1), (0, 2), (1, 1), (3, 5), (10, 1), (1, 60), (100, 100)] {
            let (asked, outcome) =
                read(|page| Some(if page < before { page } else { before + (page - before) % period }.to_string()));
            assert!(matches!(outcome, Err(Error::ListRepeats { pages }) if pages == asked), "{before} {period}");
            assert!(asked > period && asked <= 3 * (before + period) + 1, "{before} {period}: {asked}");
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
    fn md_k_06_an_empty_cursor_is_a_cursor_and_only_absence_ends_a_list() {
        let (asked, outcome) = read(|page| (page == 0).then(String::new));
        assert!(asked == 2 && outcome.is_ok());
    }
}
