//! Implementations of traits that differ only by the name of the type.

/// Implements `Debug` for types of drivers whose contents say nothing, or must not be in a log, except for one field.
#[doc(hidden)]
#[macro_export]
macro_rules! opaque_debug {
    ([$($generics:tt)*] $name:ident [$($arguments:tt)*]) => {
        impl<$($generics)*> ::core::fmt::Debug for $name<$($arguments)*> {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
    ($($name:ident),+) => {
        $(impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        })+
    };
    ($([$($generics:tt)*])? $name:ident $([$($arguments:tt)*])?, $this:ident => $field:ident: $value:expr) => {
        impl $(<$($generics)*>)? ::core::fmt::Debug for $name $(<$($arguments)*>)? {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                let $this = self;
                f.debug_struct(stringify!($name)).field(stringify!($field), &$value).finish_non_exhaustive()
            }
        }
    };
}

/// Implements `Deref` for a type of a driver to one of its fields, so that it has the methods of that.
#[doc(hidden)]
#[macro_export]
macro_rules! deref_to {
    ($type:ty, $field:ident: $target:ty) => {
        impl ::core::ops::Deref for $type {
            type Target = $target;

            fn deref(&self) -> &$target {
                &self.$field
            }
        }
    };
}
