//! The variables in scope, and those that can take the place of another one.

use syn::visit::{self, Visit};
use syn::{Expr, FnArg, Ident, Pat, Signature};

/// A variable, with its type if that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Variable {
    name: String,
    ty: Option<String>,
}

/// The variables in scope, the innermost last.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    variables: Vec<Variable>,
}

/// The most variables that replace another one at one place.
const MOST: usize = 2;

/// The last word of the name of a variable, or of its type, by which clients, requests and exchanges are distinguished.
const KEYS: [&str; 22] = [
    "backend",
    "client",
    "connection",
    "exchange",
    "id",
    "instance",
    "key",
    "listing",
    "member",
    "name",
    "nonce",
    "of",
    "owner",
    "principal",
    "request",
    "server",
    "session",
    "source",
    "stream",
    "task",
    "ticket",
    "token",
];

impl Scope {
    pub(crate) fn len(&self) -> usize {
        self.variables.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.variables.truncate(len);
    }

    pub(crate) fn add_parameters(&mut self, signature: &Signature, text: &dyn Fn(&syn::Type) -> String) {
        for input in &signature.inputs {
            if let FnArg::Typed(typed) = input {
                self.add_typed(&typed.pat, Some(text(&typed.ty)));
            }
        }
    }

    /// Adds the variables of a pattern.
    pub(crate) fn add(&mut self, pattern: &Pat, text: &dyn Fn(&syn::Type) -> String) {
        match pattern {
            Pat::Type(typed) => self.add_typed(&typed.pat, Some(text(&typed.ty))),
            other => self.add_typed(other, None),
        }
    }

    fn add_typed(&mut self, pattern: &Pat, ty: Option<String>) {
        if let Pat::Ident(variable) = pattern {
            self.push(&variable.ident, ty);
        } else {
            let mut names = Names::default();
            names.visit_pat(pattern);
            for name in &names.found {
                self.push(name, None);
            }
        }
    }

    fn push(&mut self, name: &Ident, ty: Option<String>) {
        let name = name.to_string();
        // Constants and variants look like variables in a pattern.
        if name.starts_with(|first: char| first.is_ascii_lowercase()) {
            self.variables.push(Variable { name, ty: ty.filter(|ty| !ty.contains("impl ")) });
        }
    }

    /// The variables that can take the place of `name`: those of the same type, and if it is a key, those that may have
    /// its type.
    pub(crate) fn others(&self, name: &str) -> Vec<String> {
        let Some(variable) = self.variables.iter().rev().find(|variable| variable.name == name) else {
            return Vec::new();
        };
        let mut found: Vec<String> = Vec::new();
        let mut seen = vec![name];
        for other in self.variables.iter().rev() {
            if seen.contains(&&*other.name) {
                continue;
            }
            seen.push(&other.name);
            let is_alike = match (&variable.ty, &other.ty) {
                (Some(ty), Some(other)) => ty == other,
                _ => is_key(variable) && is_key(other),
            };
            if is_alike && found.len() < MOST {
                found.push(other.name.clone());
            }
        }
        found
    }
}

fn is_key(variable: &Variable) -> bool {
    let last_word = |name: &str| name.rsplit('_').next().is_some_and(|word| KEYS.contains(&word));
    last_word(&variable.name)
        || variable.ty.as_ref().is_some_and(|ty| {
            let start = ty.rfind(char::is_uppercase).unwrap_or_default();
            let word: String = ty[start..].chars().take_while(char::is_ascii_alphanumeric).collect();
            KEYS.contains(&&*word.to_lowercase())
        })
}

/// The names that a pattern binds.
#[derive(Default)]
struct Names<'a> {
    found: Vec<&'a Ident>,
}

impl<'a> Visit<'a> for Names<'a> {
    fn visit_pat_ident(&mut self, pattern: &'a syn::PatIdent) {
        self.found.push(&pattern.ident);
        visit::visit_pat_ident(self, pattern);
    }
    fn visit_expr(&mut self, _: &'a Expr) {}
}

/// How an argument uses the variable that it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// As it is.
    Value,
    /// By `&mut`.
    Mutable,
    /// By reference, or only a part of it.
    Place,
}

/// The variable that an argument begins with.
pub(crate) fn variable(argument: &Expr) -> Option<(&Ident, Use)> {
    const VIEWS: [&str; 10] =
        ["as_deref", "as_mut", "as_ref", "as_str", "as_bytes", "clone", "cloned", "copied", "to_owned", "to_string"];
    match argument {
        Expr::Path(path) => path.path.get_ident().filter(|name| *name != "self").map(|name| (name, Use::Value)),
        Expr::Paren(inner) => variable(&inner.expr),
        Expr::Reference(inner) if inner.mutability.is_some() => match &*inner.expr {
            Expr::Path(_) => variable(&inner.expr).map(|(name, _)| (name, Use::Mutable)),
            _ => None,
        },
        Expr::Reference(inner) => variable(&inner.expr).map(|(name, _)| (name, Use::Place)),
        Expr::Unary(inner) if matches!(inner.op, syn::UnOp::Deref(_)) => {
            variable(&inner.expr).map(|(name, _)| (name, Use::Place))
        }
        Expr::Field(inner) => variable(&inner.base).map(|(name, _)| (name, Use::Place)),
        Expr::MethodCall(call) if call.args.is_empty() && VIEWS.contains(&&*call.method.to_string()) => {
            variable(&call.receiver).map(|(name, _)| (name, Use::Place))
        }
        _ => None,
    }
}
