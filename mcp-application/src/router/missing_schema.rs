//! What the compiler states if the feature `schema` is missing.

/// A bound that no type has, for the functions of a router that need the feature `schema` of the driver.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this function needs the feature `schema`, which makes the schema of `{Self}`",
    label = "needs the feature `schema` of the crate of `Router`",
    note = "enable it, for example with `cargo add mcp-tokio --features schema`; or write the schema: `Router::tool_with_schema`"
)]
pub trait NeedsFeatureSchema {}

/// The functions of a router that need the feature `schema`, for a driver without it, so that the compiler names the
/// feature. `first` is what the functions receive first; the rest is as in
/// [`router_functions!`](crate::router_functions).
#[doc(hidden)]
#[macro_export]
macro_rules! functions_without_schema {
    (
        first: [$($first:tt)*],
        incoming: [$($incoming:tt)+],
        context: [$($context:tt)+],
        returned: $returned:ty,
        generics: [$($generics:tt)*],
        bounds: [$($bounds:tt)*] $(,)?
    ) => {
        #[doc(hidden)]
        #[must_use]
        pub fn tool<A, O, F $($generics)*>(self, _: &str, _: &str, _: F) -> Self
        where
            A: $crate::router::NeedsFeatureSchema,
            F: Fn($($first)* A, $($incoming)+) -> $returned,
            $($bounds)*
        {
            self
        }

        #[doc(hidden)]
        #[must_use]
        pub fn tool_with<A, O, F $($generics)*>(
            self,
            _: &str,
            _: impl FnOnce(::mcp_model::Tool) -> ::mcp_model::Tool,
            _: F,
        ) -> Self
        where
            A: $crate::router::NeedsFeatureSchema,
            F: Fn($($first)* A, $($incoming)+) -> $returned,
            $($bounds)*
        {
            self
        }

        #[doc(hidden)]
        #[must_use]
        pub fn task_tool<A, O, F $($generics)*>(
            self,
            _: &str,
            _: impl FnOnce(::mcp_model::Tool) -> ::mcp_model::Tool,
            _: F,
        ) -> Self
        where
            A: $crate::router::NeedsFeatureSchema,
            F: Fn($($first)* A, $($context)+) -> $returned,
            $($bounds)*
        {
            self
        }

        #[doc(hidden)]
        #[must_use]
        pub fn prompt<A, O, F $($generics)*>(self, _: &str, _: &str, _: F) -> Self
        where
            A: $crate::router::NeedsFeatureSchema,
            F: Fn($($first)* A, $($incoming)+) -> $returned,
            $($bounds)*
        {
            self
        }
    };
}
