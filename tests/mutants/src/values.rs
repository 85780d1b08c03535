//! The values that a mutant of a function body returns, by the return type.

use syn::{GenericArgument, PathArguments, PathSegment, ReturnType, Type, TypeParamBound};

/// The most values for one type.
const MOST: usize = 6;

const DEFAULT: &str = "Default::default()";

/// The replacements of a function's body.
pub(crate) enum Values {
    /// A `return` of each of these values.
    Returned(Vec<String>),
    /// An iterator without items, for a function that returns an iterator.
    NoItems,
}

/// The replacements for a return type; none if there is no known value.
pub(crate) fn of_return(output: &ReturnType) -> Values {
    match output {
        ReturnType::Default => Values::Returned(vec!["()".to_owned()]),
        ReturnType::Type(_, ty) => match &**ty {
            Type::ImplTrait(opaque) => {
                let is_iterator = opaque.bounds.iter().any(|bound| match bound {
                    TypeParamBound::Trait(bound) => {
                        bound.path.segments.last().is_some_and(|last| last.ident == "Iterator")
                    }
                    _ => false,
                });
                if is_iterator { Values::NoItems } else { Values::Returned(Vec::new()) }
            }
            ty => Values::Returned(of_type(ty)),
        },
    }
}

fn of_type(ty: &Type) -> Vec<String> {
    let mut values = match ty {
        Type::Never(_) | Type::ImplTrait(_) | Type::Macro(_) => Vec::new(),
        Type::Paren(inner) => of_type(&inner.elem),
        Type::Group(inner) => of_type(&inner.elem),
        Type::Tuple(tuple) => {
            let mut rows = vec![Vec::new()];
            for part in &tuple.elems {
                let values = of_type(part);
                rows = rows
                    .iter()
                    .flat_map(|row: &Vec<String>| {
                        values.iter().map(|value| [row.as_slice(), std::slice::from_ref(value)].concat())
                    })
                    .take(MOST)
                    .collect();
            }
            rows.into_iter().map(|row| format!("({})", row.join(", "))).collect()
        }
        Type::Array(array) if matches!(array.len, syn::Expr::Lit(_) | syn::Expr::Path(_)) => vec![DEFAULT.to_owned()],
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => text(&["", "xyzzy"], |value| format!("{value:?}")),
            Type::Slice(slice) => {
                let mut values = vec!["Vec::leak(Vec::new())".to_owned()];
                values.extend(of_type(&slice.elem).iter().map(|value| format!("Vec::leak(vec![{value}])")));
                values
            }
            elem => of_type(elem).iter().map(|value| format!("Box::leak(Box::new({value}))")).collect(),
        },
        Type::Path(path) => path.path.segments.last().map(of_segment).unwrap_or_default(),
        _ => vec![DEFAULT.to_owned()],
    };
    values.truncate(MOST);
    values
}

fn text(values: &[&str], form: impl Fn(&str) -> String) -> Vec<String> {
    values.iter().map(|value| form(value)).collect()
}

fn of_segment(segment: &PathSegment) -> Vec<String> {
    let name = segment.ident.to_string();
    let arguments: Vec<&Type> = match &segment.arguments {
        PathArguments::AngleBracketed(list) => list
            .args
            .iter()
            .filter_map(|argument| if let GenericArgument::Type(ty) = argument { Some(ty) } else { None })
            .collect(),
        PathArguments::None | PathArguments::Parenthesized(_) => Vec::new(),
    };
    let first = || arguments.first().map_or_else(|| vec![DEFAULT.to_owned()], |ty| of_type(ty));
    let each = |form: &dyn Fn(&str) -> String| first().iter().map(|value| form(value)).collect::<Vec<_>>();
    let with = |empty: &str, mut values: Vec<String>| {
        values.insert(0, empty.to_owned());
        values
    };
    match &*name {
        "bool" => text(&["true", "false"], str::to_owned),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => text(&["0", "1"], str::to_owned),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => text(&["0", "1", "-1"], str::to_owned),
        "f32" | "f64" => text(&["0.0", "1.0", "-1.0"], str::to_owned),
        "String" => text(&["String::new()", "\"xyzzy\".into()"], str::to_owned),
        "Option" => with("None", each(&|value| format!("Some({value})"))),
        "Result" => each(&|value| format!("Ok({value})")),
        "Vec" => with("vec![]", each(&|value| format!("vec![{value}]"))),
        "Box" | "Arc" | "Rc" | "Cell" | "RefCell" | "Mutex" | "RwLock" => {
            each(&|value| format!("{name}::new({value})"))
        }
        "Cow" => match arguments.first() {
            Some(Type::Path(path)) if path.path.is_ident("str") => {
                text(&["", "xyzzy"], |value| format!("std::borrow::Cow::Borrowed({value:?})"))
            }
            Some(Type::Slice(_)) => text(&["&[]", "&[0]"], |value| format!("std::borrow::Cow::Borrowed({value})")),
            _ => vec![DEFAULT.to_owned()],
        },
        "BTreeSet" | "HashSet" | "VecDeque" | "BinaryHeap" => {
            with(DEFAULT, each(&|value| format!("[{value}].into_iter().collect()")))
        }
        name if name.starts_with("NonZero") => vec!["1.try_into().unwrap()".to_owned()],
        _ => vec![DEFAULT.to_owned()],
    }
}
