//! All entries of a list of a server.

use mcp_application::{Error, Pages};
use mcp_model::{Page, PaginatedRequestParams, RequestMethod};

use super::Client;

/// All entries of a list of a server, which are requested page by page. The method `R` lists them.
///
/// It ends with an error if the server's pages repeat, after 1000 pages, or after 64 MiB on several pages
/// ([`Error::ListRepeats`], [`Error::ListTooLong`], [`Error::ListTooLarge`]).
///
/// # Example
///
/// ```no_run
/// # fn example(client: mcp_blocking::Client) -> Result<(), mcp_blocking::Error> {
/// for tool in client.list_all_tools() {
///     println!("{}", tool?.name);
/// }
/// let resources: Vec<_> = client.list_all_resources().collect::<Result<_, _>>()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "pages are requested only when entries are taken"]
pub struct ListItems<R: RequestMethod<Result: Page>> {
    client: Client,
    pages: Pages<R>,
}

impl<R: RequestMethod<Params = PaginatedRequestParams, Result: Page>> ListItems<R> {
    pub(super) const fn new(client: Client) -> Self {
        Self { client, pages: Pages::new() }
    }
}

/// `next` waits for the next entry.
impl<R: RequestMethod<Params = PaginatedRequestParams, Result: Page>> Iterator for ListItems<R> {
    type Item = Result<<R::Result as Page>::Item, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.pages.pop() {
                return Some(Ok(item));
            }
            let page = self.client.request_as::<R>(&self.pages.next_params()?);
            if let Err(error) = self.pages.add(page) {
                return Some(Err(error));
            }
        }
    }
}

mcp_application::opaque_debug!([R: RequestMethod<Result: Page>] ListItems[R], items => pages: items.pages);
