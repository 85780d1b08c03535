//! Methods that set the fields of a configuration.

/// For each field a method of its name, which sets it. A method with `impl Into` converts its argument. With `Some`, the
/// field is an `Option`.
macro_rules! setters {
    ($config:ident: $($field:ident($($type:tt)+) $(=> $some:ident)?),+ $(,)?) => {
        impl $config {
            $(
                #[doc = concat!("Sets the field [`", stringify!($field), "`](field@", stringify!($config), "::", stringify!($field), ").")]
                #[must_use]
                pub fn $field(self, value: $($type)+) -> Self {
                    Self { $field: $($some)?(value.into()), ..self }
                }
            )+
        }
    };
}

pub(in crate::server) use setters;
