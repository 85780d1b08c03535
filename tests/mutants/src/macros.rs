//! The one macro whose arguments are searched for mutants: `tokio::select!`.

use syn::parse::{Parse, ParseStream};
use syn::{Expr, Pat, Token};

/// The branches of `select!`.
pub(crate) struct Select {
    /// The futures, the preconditions and the handlers of the branches.
    pub(crate) expressions: Vec<Expr>,
}

impl Parse for Select {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(syn::Ident) && input.peek2(Token![;]) {
            input.parse::<syn::Ident>()?;
            input.parse::<Token![;]>()?;
        }
        let mut expressions = Vec::new();
        while !input.is_empty() {
            if input.peek(Token![else]) {
                input.parse::<Token![else]>()?;
            } else {
                Pat::parse_multi_with_leading_vert(input)?;
                input.parse::<Token![=]>()?;
                expressions.push(input.parse()?);
                if input.peek(Token![,]) {
                    input.parse::<Token![,]>()?;
                    input.parse::<Token![if]>()?;
                    expressions.push(input.parse()?);
                }
            }
            input.parse::<Token![=>]>()?;
            expressions.push(input.parse()?);
            if input.peek(Token![,]) {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self { expressions })
    }
}
