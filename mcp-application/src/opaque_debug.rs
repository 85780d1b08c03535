//! `Debug` forms without contents.

/// Implements `Debug` for types of drivers whose contents say nothing, or must not be in a log, except for one field.
#[doc(hidden)]
#[macro_export]
macro_rules! opaque_debug {
    ($($name:ident),+) => {
        $(impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        })+
    };
    ($name:ident, $this:ident => $field:ident: $value:expr) => {
        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                let $this = self;
                f.debug_struct(stringify!($name)).field(stringify!($field), &$value).finish_non_exhaustive()
            }
        }
    };
}
