//! All entries of a list of a server.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
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
/// # async fn example(client: mcp_tokio::Client) -> Result<(), mcp_tokio::Error> {
/// let mut tools = client.list_all_tools();
/// while let Some(tool) = tools.next().await {
///     println!("{}", tool?.name);
/// }
/// let resources = client.list_all_resources().collect().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "pages are requested only when entries are taken"]
pub struct ListItems<R: RequestMethod<Result: Page>> {
    client: Client,
    pages: Pages<R>,
    request: Option<Request<R::Result>>,
}

type Request<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

type Item<R> = <<R as RequestMethod>::Result as Page>::Item;

impl<R> ListItems<R>
where
    R: RequestMethod<Params = PaginatedRequestParams, Result: Page + Send> + 'static,
{
    pub(super) const fn new(client: Client) -> Self {
        Self { client, pages: Pages::new(), request: None }
    }

    /// Waits for the next entry; `None` after the last one, and after an error. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<Item<R>, Error>> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Waits for all entries.
    ///
    /// # Errors
    ///
    /// As for [`Client::request_as`], [`Error::ListRepeats`], [`Error::ListTooLong`] and [`Error::ListTooLarge`].
    pub async fn collect(mut self) -> Result<Vec<Item<R>>, Error> {
        let mut items = Vec::new();
        while let Some(item) = self.next().await {
            items.push(item?);
        }
        Ok(items)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Item<R>, Error>>> {
        loop {
            if let Some(item) = self.pages.pop() {
                return Poll::Ready(Some(Ok(item)));
            }
            let Some(params) = self.pages.next_params() else { return Poll::Ready(None) };
            let request = self.request.get_or_insert_with(|| {
                let client = self.client.clone();
                Box::pin(async move { client.request_as::<R>(&params).await })
            });
            let page = ready!(request.as_mut().poll(context));
            self.request = None;
            if let Err(error) = self.pages.add(page) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl<R> Stream for ListItems<R>
where
    R: RequestMethod<Params = PaginatedRequestParams, Result: Page<Item: Unpin> + Send> + 'static,
{
    type Item = Result<Item<R>, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(context)
    }
}

mcp_application::opaque_debug!([R: RequestMethod<Result: Page>] ListItems[R], items => pages: items.pages);
