//! Which items are built, and which are for tests only.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// Whether the item is built on this platform and is not part of the tests.
pub(crate) fn is_built(attributes: &[Attribute]) -> bool {
    attributes.iter().all(|attribute| {
        let path = attribute.path();
        if path.is_ident("cfg") {
            return attribute.parse_args::<Meta>().is_ok_and(|condition| holds(&condition));
        }
        path.segments.last().is_none_or(|last| last.ident != "test")
    })
}

/// Whether a condition of `cfg` holds. An unknown condition counts as true.
fn holds(condition: &Meta) -> bool {
    let name = condition.path().get_ident().map(ToString::to_string).unwrap_or_default();
    match condition {
        Meta::Path(_) => match &*name {
            "unix" => cfg!(unix),
            "windows" => cfg!(windows),
            other => other != "test",
        },
        Meta::NameValue(pair) => {
            let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(value), .. }) = &pair.value else { return true };
            match &*name {
                "target_os" => value.value() == std::env::consts::OS,
                "target_family" => value.value() == std::env::consts::FAMILY,
                "target_arch" => value.value() == std::env::consts::ARCH,
                _ => true,
            }
        }
        Meta::List(list) => {
            let Ok(inner) = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) else { return true };
            match &*name {
                "not" => !inner.iter().all(holds),
                "any" => inner.iter().any(holds),
                "all" => inner.iter().all(holds),
                _ => true,
            }
        }
    }
}
