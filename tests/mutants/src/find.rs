//! Finds the mutants of a source file.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Arm, Attribute, BinOp, Block, Expr, Pat, ReturnType, Signature, Stmt, Type};

use crate::attributes::is_built;
use crate::macros::Select;
use crate::operators::{is_deleted, replacements};
use crate::scope::{Scope, Use, variable};
use crate::values::{Values, of_return};

/// A mutant: a small change of the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The index in [`Found::functions`] of the function that it changes.
    pub function: usize,
    /// The old and the new code, on one line. It is unique within the function.
    pub change: String,
    /// The byte range of the code that it changes.
    pub span: Range<usize>,
    /// The lines of this code, counted from 1.
    pub lines: Range<usize>,
}

/// A function, including the functions nested in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name, after the names of its modules in the file and its type.
    pub name: String,
    /// Its byte range.
    pub span: Range<usize>,
    /// The byte range of `const` and the space after it, for a `const fn`.
    pub constant: Option<Range<usize>>,
}

/// How the code is rewritten so that a mutant can be chosen at run time. A mutant is given as its index in
/// [`Found::mutants`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rewrite {
    /// An expression is replaced with other text.
    Expression(Vec<(usize, String)>),
    /// A condition is negated.
    Opposite(usize),
    /// A comparison operator is replaced, where both operands can be evaluated twice.
    Comparison(Vec<(usize, String)>),
    /// `&&` is replaced with `||`, or the other way round.
    Junction { mutant: usize, is_and: bool, left: Range<usize>, right: Range<usize> },
    /// A `return` is inserted at the start of a body.
    Returns(Vec<(usize, String)>),
    /// The iterator that a body returns gives no items.
    NoItems(usize),
    /// The guard of an arm is always true or always false, or the arm is removed.
    Guard { always: usize, never: usize, without: Option<usize> },
    /// An arm without a guard is removed.
    Arm(usize),
    /// A statement is left out.
    Statement(usize),
    /// A statement is executed twice.
    Twice(usize),
    /// A variable of which a part is used, or to which there is a reference, is replaced with others.
    Place { alternatives: Vec<(usize, String)>, is_mutable: bool },
    /// The first or the last element is skipped by a loop over this expression.
    Loop { first: usize, last: usize },
    /// A condition with `let` does not hold.
    Never(usize),
    /// The error of this result, which is returned early, is a default value.
    Ignored(usize),
    /// The name of a field is inserted before its value.
    Field(String),
    /// The body of an arm gives the default value.
    Default(usize),
    /// The `const` of a function is removed, because a mutant is chosen at run time.
    Constant(usize),
}

/// A rewrite, and the byte range that it applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) rewrite: Rewrite,
}

/// The mutants, functions and modules of a file.
#[derive(Debug, Default)]
pub struct Found {
    /// The mutants, in the order of the file.
    pub mutants: Vec<Mutant>,
    /// All functions that are built and are not part of the tests.
    pub functions: Vec<Function>,
    /// The names of the modules that have files of their own.
    pub modules: Vec<String>,
    /// The rewrites, ordered by their start, outer ones first.
    pub(crate) nodes: Vec<Node>,
}

/// Finds all mutants of a source file.
///
/// # Errors
///
/// The source is not valid Rust.
pub fn find(source: &str) -> syn::Result<Found> {
    let file = syn::parse_file(source)?;
    let mut finder = Finder { source, ..Finder::default() };
    if is_built(&file.attrs) {
        finder.visit_file(&file);
    }
    let mut found = finder.found;
    found.nodes.sort_by_key(|node| (node.span.start, !node.span.is_empty(), usize::MAX - node.span.end));
    let mut counts = HashMap::new();
    for mutant in &mut found.mutants {
        let name = &found.functions[mutant.function].name;
        let count = counts.entry((name.clone(), mutant.change.clone())).or_insert(0);
        *count += 1;
        if *count > 1 {
            mutant.change = format!("{} [{count}]", mutant.change);
        }
    }
    Ok(found)
}

#[derive(Default)]
struct Finder<'s> {
    source: &'s str,
    found: Found,
    /// The names of the enclosing modules, types and functions.
    names: Vec<String>,
    /// The indices of the enclosing functions.
    functions: Vec<usize>,
    /// The byte ranges of expressions whose value, if any, is `()`.
    units: HashSet<(usize, usize)>,
    /// The byte ranges of expressions that can be left out, since they are statements.
    statements: HashSet<(usize, usize)>,
    /// The variables in scope.
    scope: Scope,
    /// Whether the enclosing functions return an `Option`, so that `?` is about no error.
    returns_option: Vec<bool>,
}

impl Finder<'_> {
    fn text(&self, span: Range<usize>) -> &str {
        &self.source[span]
    }

    fn add(&mut self, span: Range<usize>, lines: Range<usize>, change: String) -> usize {
        let function = *self.functions.last().expect("there are no mutants outside of functions");
        self.found.mutants.push(Mutant { function, change, span, lines });
        self.found.mutants.len() - 1
    }

    fn push(&mut self, span: Range<usize>, rewrite: Rewrite) {
        self.found.nodes.push(Node { span, rewrite });
    }

    fn within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.names.push(name);
        visit(self);
        self.names.pop();
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block, whole: Range<usize>) {
        if !is_built(attributes) || signature.unsafety.is_some() {
            return;
        }
        self.names.push(signature.ident.to_string());
        let name = self.names.join("::");
        let constant = signature.constness.as_ref().map(|constness| {
            let start = constness.span().byte_range().start;
            start..start + "const ".len()
        });
        self.functions.push(self.found.functions.len());
        if let Some(constant) = constant.clone() {
            self.push(constant, Rewrite::Constant(self.found.functions.len()));
        }
        self.found.functions.push(Function { name, span: whole, constant });
        self.body(signature, block);
        let source = self.source;
        let scope = std::mem::take(&mut self.scope);
        self.scope.add_parameters(signature, &|ty| type_text(source, ty));
        self.returns_option.push(returns_option(&signature.output));
        if returns_unit(&signature.output) {
            self.tail_is_unit(block);
        }
        self.visit_block(block);
        self.returns_option.pop();
        self.scope = scope;
        self.functions.pop();
        self.names.pop();
    }

    fn body(&mut self, signature: &Signature, block: &Block) {
        let whole = block.span().byte_range();
        let inner = whole.start + 1..whole.end - 1;
        let lines = lines(block);
        let body = squeezed(self.text(inner.clone()));
        if block.stmts.is_empty() {
            return;
        }
        match of_return(&signature.output) {
            Values::NoItems => {
                if !Returns::are_in(block) {
                    let mutant = self.add(whole.clone(), lines, "body -> no items".to_owned());
                    self.push(whole, Rewrite::NoItems(mutant));
                }
            }
            Values::Returned(values) => {
                let is_default =
                    signature.ident == "default" && self.names.iter().any(|name| name.contains("Default for"));
                let returns: Vec<_> = values
                    .into_iter()
                    .filter(|value| *value != body && !(is_default && value == "Default::default()"))
                    .map(|value| (self.add(inner.clone(), lines.clone(), format!("body -> {value}")), value))
                    .collect();
                self.push(inner.start..inner.start, Rewrite::Returns(returns));
            }
        }
    }

    fn tail_is_unit(&mut self, block: &Block) {
        if let Some(Stmt::Expr(tail, None)) = block.stmts.last() {
            self.is_unit(tail);
        }
    }

    fn is_unit(&mut self, expression: &Expr) {
        let span = expression.span().byte_range();
        self.units.insert((span.start, span.end));
    }

    /// Leaves out a call or an assignment that is a statement. If it is the whole body of a function, the mutant of the
    /// body does the same, so none is added.
    fn statement(&mut self, expression: &Expr, span: Range<usize>) {
        if !is_call(expression) && !matches!(expression, Expr::Assign(_)) {
            return;
        }
        let function = *self.functions.last().expect("statements are in functions");
        let is_all = self.found.functions[function].span.end.checked_sub(1).is_some_and(|end| {
            let before = self.source[..span.start].trim_end();
            let after = self.source[span.end..].trim_start();
            before.ends_with('{')
                && self.source.len() - after.len() == end
                && self.text(self.found.functions[function].span.start..span.start).matches('{').count() == 1
        });
        if is_all {
            return;
        }
        let change = format!("{} -> nothing", clipped(&squeezed(self.text(span.clone()))));
        let mutant = self.add(span.clone(), lines(expression), change);
        let inner = expression.span().byte_range();
        self.statements.insert((inner.start, inner.end));
        self.push(span.clone(), Rewrite::Statement(mutant));
        if let Some(method) = method_of(expression)
            && REPEATED.contains(&&*method.to_string())
        {
            let change = format!("{} -> twice", clipped(&squeezed(self.text(span.clone()))));
            let mutant = self.add(span.clone(), lines(expression), change);
            self.push(span, Rewrite::Twice(mutant));
        }
    }

    /// Adds the variables of a pattern to the scope.
    fn bind(&mut self, pattern: &Pat) {
        let source = self.source;
        self.scope.add(pattern, &|ty| type_text(source, ty));
    }

    /// Replaces the variable that an argument begins with by others in scope.
    fn argument(&mut self, argument: &Expr) {
        if self.functions.is_empty() {
            return;
        }
        let Some((name, usage)) = variable(argument) else { return };
        let span = name.span().byte_range();
        let context = clipped(&squeezed(self.text(argument.span().byte_range())));
        let alternatives = self.other_variables(&name.to_string(), &context, span.clone(), lines(argument));
        if alternatives.is_empty() {
            return;
        }
        match usage {
            Use::Value => self.push(span, Rewrite::Expression(alternatives)),
            Use::Place => self.push(span, Rewrite::Place { alternatives, is_mutable: false }),
            Use::Mutable => self.push(span, Rewrite::Place { alternatives, is_mutable: true }),
        }
    }

    fn other_variables(
        &mut self,
        name: &str,
        context: &str,
        span: Range<usize>,
        lines: Range<usize>,
    ) -> Vec<(usize, String)> {
        let others = self.scope.others(name);
        others
            .into_iter()
            .map(|other| (self.add(span.clone(), lines.clone(), format!("argument {context} -> {other}")), other))
            .collect()
    }

    /// Negates the condition of a closure that chooses elements.
    fn inverted(&mut self, call: &syn::ExprMethodCall) {
        let method = call.method.to_string();
        let Some(Expr::Closure(closure)) = call.args.last() else { return };
        if !CHOOSING.contains(&&*method) || call.args.len() != 1 || is_negated_otherwise(&closure.body) {
            return;
        }
        let span = closure.body.span().byte_range();
        let text = clipped(&squeezed(self.text(span.clone())));
        let mutant = self.add(span.clone(), lines(&*closure.body), format!("{method}({text}) -> inverted"));
        self.push(span, Rewrite::Opposite(mutant));
    }

    /// Leaves what is taken or removed where it is.
    fn kept(&mut self, call: &syn::ExprMethodCall) {
        let span = call.span().byte_range();
        if self.statements.contains(&(span.start, span.end)) || call.turbofish.is_some() {
            return;
        }
        let receiver = self.text(call.receiver.span().byte_range()).to_owned();
        let others = match (&*call.method.to_string(), call.args.first()) {
            ("take", None) => vec![("clone", format!("({receiver}).clone()"))],
            ("remove", Some(key)) if call.args.len() == 1 => {
                let key = self.text(key.span().byte_range()).to_owned();
                vec![
                    ("get", format!("({receiver}).get({key}).cloned()")),
                    ("contains", format!("({receiver}).contains({key})")),
                ]
            }
            _ => return,
        };
        let text = end_of(&squeezed(self.text(span.clone())));
        let alternatives: Vec<_> = others
            .into_iter()
            .map(|(method, other)| (self.add(span.clone(), lines(call), format!("{text} -> {method}")), other))
            .collect();
        self.push(span, Rewrite::Expression(alternatives));
    }

    /// Does not enter the block of a condition with `let`.
    fn never(&mut self, condition: &Expr, keyword: &str) {
        if self.functions.is_empty() || !has_let(condition) {
            return;
        }
        let span = condition.span().byte_range();
        let text = clipped(&squeezed(self.text(span.clone())));
        let mutant = self.add(span.clone(), lines(condition), format!("{keyword} {text} -> false"));
        self.push(span.end..span.end, Rewrite::Never(mutant));
    }
}

/// The methods whose closure chooses elements.
const CHOOSING: [&str; 12] = [
    "all",
    "any",
    "extract_if",
    "filter",
    "find",
    "is_none_or",
    "is_some_and",
    "position",
    "retain",
    "retain_mut",
    "skip_while",
    "take_while",
];

/// The methods that are called twice: what they do is seen outside.
const REPEATED: [&str; 17] = [
    "act",
    "add",
    "answer",
    "close",
    "event",
    "extend",
    "finish",
    "open",
    "pass",
    "publish",
    "push",
    "push_back",
    "report",
    "respond",
    "send",
    "store",
    "write",
];

/// The last word of the names of fields with a moment at which something is due.
const MOMENTS: [&str; 11] =
    ["alarm", "at", "deadline", "due", "expires", "expiry", "pause", "since", "timeout", "timer", "until"];

fn method_of(expression: &Expr) -> Option<&syn::Ident> {
    match expression {
        Expr::MethodCall(call) => Some(&call.method),
        _ => None,
    }
}

/// Whether another mutant negates the value of an expression.
fn is_negated_otherwise(expression: &Expr) -> bool {
    match expression {
        Expr::Paren(inner) => is_negated_otherwise(&inner.expr),
        Expr::Unary(_) | Expr::Lit(_) => true,
        Expr::Binary(binary) => {
            matches!(binary.op, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Le(_) | BinOp::Ge(_))
        }
        _ => false,
    }
}

/// The text of a type on one line, without lifetimes.
fn type_text(source: &str, ty: &Type) -> String {
    squeezed(&source[ty.span().byte_range()])
}

fn returns_option(output: &ReturnType) -> bool {
    match output {
        ReturnType::Type(_, ty) => match &**ty {
            Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "Option"),
            _ => false,
        },
        ReturnType::Default => false,
    }
}

/// Whether a pattern is that of an error.
fn is_error(pattern: &Pat) -> bool {
    match pattern {
        Pat::TupleStruct(variant) => variant.path.segments.last().is_some_and(|last| last.ident == "Err"),
        _ => false,
    }
}

/// The whole item of a function, without its attributes and its documentation.
fn whole(signature: &Signature, block: &Block) -> Range<usize> {
    signature.span().byte_range().start..block.span().byte_range().end
}

fn returns_unit(output: &ReturnType) -> bool {
    match output {
        ReturnType::Default => true,
        ReturnType::Type(_, ty) => matches!(&**ty, Type::Tuple(tuple) if tuple.elems.is_empty()),
    }
}

fn lines(part: &impl syn::spanned::Spanned) -> Range<usize> {
    part.span().start().line..part.span().end().line + 1
}

/// The text on one line, with single spaces.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const LONGEST: usize = 60;

fn clipped(text: &str) -> String {
    if text.chars().count() <= LONGEST { text.to_owned() } else { start_of(text) }
}

fn start_of(text: &str) -> String {
    let mut start: String = text.chars().take(LONGEST).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}

fn end_of(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(LONGEST);
    let end: String = text.chars().skip(skipped).collect();
    if skipped > 0 { format!("…{end}") } else { end }
}

fn is_call(expression: &Expr) -> bool {
    match expression {
        Expr::Call(_) | Expr::MethodCall(_) => true,
        Expr::Await(inner) => is_call(&inner.base),
        Expr::Try(inner) => is_call(&inner.expr),
        Expr::Paren(inner) => is_call(&inner.expr),
        _ => false,
    }
}

fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// The rewrite for a replaced operator. Where possible, a mutant counts as reached only if it changes the value, so
/// that fewer tests are run in vain.
fn rewrite(binary: &syn::ExprBinary, alternatives: Vec<(usize, String)>) -> Rewrite {
    let only = alternatives.first().map_or(0, |(mutant, _)| *mutant);
    match binary.op {
        BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Le(_) | BinOp::Ge(_) => Rewrite::Opposite(only),
        BinOp::And(_) | BinOp::Or(_) => Rewrite::Junction {
            mutant: only,
            is_and: matches!(binary.op, BinOp::And(_)),
            left: binary.left.span().byte_range(),
            right: binary.right.span().byte_range(),
        },
        BinOp::Lt(_) | BinOp::Gt(_) if is_plain(&binary.left) && is_plain(&binary.right) => {
            Rewrite::Comparison(alternatives)
        }
        _ => Rewrite::Expression(alternatives),
    }
}

/// Whether an expression can be evaluated twice without an effect.
fn is_plain(expression: &Expr) -> bool {
    const LOOKS: [&str; 8] =
        ["len", "is_empty", "is_some", "is_none", "as_str", "as_bytes", "saturating_add", "saturating_sub"];
    match expression {
        Expr::Path(_) | Expr::Lit(_) => true,
        Expr::Field(field) => is_plain(&field.base),
        Expr::Paren(inner) => is_plain(&inner.expr),
        Expr::Reference(inner) => inner.mutability.is_none() && is_plain(&inner.expr),
        Expr::Unary(inner) => is_plain(&inner.expr),
        Expr::Cast(inner) => is_plain(&inner.expr),
        Expr::Index(inner) => is_plain(&inner.expr) && is_plain(&inner.index),
        Expr::Binary(inner) => {
            matches!(inner.op, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_) | BinOp::Rem(_))
                && is_plain(&inner.left)
                && is_plain(&inner.right)
        }
        Expr::MethodCall(call) => {
            LOOKS.contains(&&*call.method.to_string()) && is_plain(&call.receiver) && call.args.iter().all(is_plain)
        }
        _ => false,
    }
}

/// Finds expressions that leave a function early.
#[derive(Default)]
struct Returns {
    found: bool,
}

impl Returns {
    fn are_in(block: &Block) -> bool {
        let mut returns = Self::default();
        returns.visit_block(block);
        returns.found
    }
}

impl<'a> Visit<'a> for Returns {
    fn visit_expr_return(&mut self, _: &'a syn::ExprReturn) {
        self.found = true;
    }
    fn visit_expr_try(&mut self, _: &'a syn::ExprTry) {
        self.found = true;
    }
    fn visit_expr_closure(&mut self, _: &'a syn::ExprClosure) {}
    fn visit_item(&mut self, _: &'a syn::Item) {}
}

impl<'a> Visit<'a> for Finder<'_> {
    // These are not executed code, or must be constant.
    fn visit_attribute(&mut self, _: &'a Attribute) {}
    fn visit_type(&mut self, _: &'a Type) {}
    fn visit_pat(&mut self, _: &'a Pat) {}
    fn visit_generic_argument(&mut self, _: &'a syn::GenericArgument) {}
    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'a syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'a syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'a syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'a syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, repeat: &'a syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        if !is_built(&module.attrs) {
            return;
        }
        if module.content.is_none() {
            self.found.modules.push(module.ident.to_string());
        }
        self.within(module.ident.to_string(), |finder| visit::visit_item_mod(finder, module));
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if !is_built(&item.attrs) {
            return;
        }
        let ty = squeezed(self.text(item.self_ty.span().byte_range()));
        let name = match &item.trait_ {
            None => ty.split('<').next().unwrap_or_default().to_owned(),
            Some((_, path, _)) => {
                if path.segments.last().is_some_and(|last| last.ident == "Debug") {
                    return;
                }
                format!("<{} for {ty}>", squeezed(self.text(path.span().byte_range())))
            }
        };
        self.within(name, |finder| visit::visit_item_impl(finder, item));
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        if is_built(&item.attrs) {
            self.within(item.ident.to_string(), |finder| visit::visit_item_trait(finder, item));
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block, whole(&item.sig, &item.block));
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block, whole(&item.sig, &item.block));
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block, whole(&item.sig, block));
        }
    }

    fn visit_block(&mut self, block: &'a Block) {
        let last = block.stmts.len().saturating_sub(1);
        let outer = self.scope.len();
        for (place, statement) in block.stmts.iter().enumerate() {
            match statement {
                Stmt::Local(local) if !is_built(&local.attrs) => continue,
                Stmt::Local(local) => {
                    if let (Pat::Wild(_), Some(init)) = (&local.pat, &local.init) {
                        self.statement(&init.expr, local.span().byte_range());
                    }
                }
                Stmt::Expr(expression, Some(_)) => self.statement(expression, statement.span().byte_range()),
                // An expression statement without a semicolon has the type `()` unless it is the last one.
                Stmt::Expr(expression, None) if place < last => self.is_unit(expression),
                Stmt::Expr(..) | Stmt::Item(_) | Stmt::Macro(_) => {}
            }
            self.visit_stmt(statement);
            if let Stmt::Local(local) = statement {
                self.bind(&local.pat);
            }
        }
        self.scope.truncate(outer);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        let span = expression.span().byte_range();
        if self.units.contains(&(span.start, span.end)) {
            match expression {
                Expr::If(branch) => {
                    self.tail_is_unit(&branch.then_branch);
                    if let Some((_, otherwise)) = &branch.else_branch {
                        self.is_unit(otherwise);
                    }
                }
                Expr::Match(choice) => choice.arms.iter().for_each(|arm| self.is_unit(&arm.body)),
                Expr::Block(block) => self.tail_is_unit(&block.block),
                _ => self.statement(expression, span),
            }
        }
        match expression {
            Expr::ForLoop(looping) => self.tail_is_unit(&looping.body),
            Expr::While(looping) => self.tail_is_unit(&looping.body),
            Expr::Loop(looping) => self.tail_is_unit(&looping.body),
            _ => {}
        }
        visit::visit_expr(self, expression);
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        let is_condition = matches!(binary.op, BinOp::And(_)) && (has_let(&binary.left) || has_let(&binary.right));
        if let (false, Some((operator, others)), false) =
            (is_condition, replacements(&binary.op), self.functions.is_empty())
        {
            let left = self.text(binary.left.span().byte_range()).to_owned();
            let right = self.text(binary.right.span().byte_range()).to_owned();
            let (start, end) = (end_of(&squeezed(&left)), start_of(&squeezed(&right)));
            let alternatives: Vec<_> = others
                .iter()
                .map(|other| {
                    let change = format!("{start} {operator} {end} -> {other}");
                    let mutant = self.add(binary.span().byte_range(), lines(binary), change);
                    (mutant, format!("{left} {other} {right}"))
                })
                .collect();
            self.push(binary.span().byte_range(), rewrite(binary, alternatives));
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'a syn::ExprUnary) {
        if is_deleted(&unary.op) && !self.functions.is_empty() {
            let inner = self.text(unary.expr.span().byte_range()).to_owned();
            let text = start_of(&squeezed(&inner));
            let sign = if matches!(unary.op, syn::UnOp::Not(_)) { "!" } else { "-" };
            let mutant = self.add(unary.span().byte_range(), lines(unary), format!("{sign}{text} -> {text}"));
            self.push(unary.span().byte_range(), Rewrite::Expression(vec![(mutant, inner)]));
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        call.args.iter().for_each(|argument| self.argument(argument));
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        if !self.functions.is_empty() {
            self.kept(call);
            self.inverted(call);
        }
        call.args.iter().for_each(|argument| self.argument(argument));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_closure(&mut self, closure: &'a syn::ExprClosure) {
        let outer = self.scope.len();
        closure.inputs.iter().for_each(|input| self.bind(input));
        self.returns_option.push(returns_option(&closure.output));
        visit::visit_expr_closure(self, closure);
        self.returns_option.pop();
        self.scope.truncate(outer);
    }

    fn visit_expr_for_loop(&mut self, looping: &'a syn::ExprForLoop) {
        if !self.functions.is_empty() {
            let span = looping.expr.span().byte_range();
            let text = clipped(&squeezed(self.text(span.clone())));
            let skipped = |which| format!("for … in {text} -> without the {which}");
            let (first, last) = (skipped("first"), skipped("last"));
            let first = self.add(span.clone(), lines(&*looping.expr), first);
            let last = self.add(span.clone(), lines(&*looping.expr), last);
            self.push(span, Rewrite::Loop { first, last });
        }
        self.visit_expr(&looping.expr);
        let outer = self.scope.len();
        self.bind(&looping.pat);
        self.visit_block(&looping.body);
        self.scope.truncate(outer);
    }

    fn visit_expr_if(&mut self, branch: &'a syn::ExprIf) {
        self.never(&branch.cond, "if");
        let outer = self.scope.len();
        self.visit_expr(&branch.cond);
        self.visit_block(&branch.then_branch);
        self.scope.truncate(outer);
        if let Some((_, otherwise)) = &branch.else_branch {
            self.visit_expr(otherwise);
        }
    }

    fn visit_expr_while(&mut self, looping: &'a syn::ExprWhile) {
        self.never(&looping.cond, "while");
        let outer = self.scope.len();
        self.visit_expr(&looping.cond);
        self.visit_block(&looping.body);
        self.scope.truncate(outer);
    }

    /// The variables stay in scope until the end of the `if` or `while`, which removes them.
    fn visit_expr_let(&mut self, condition: &'a syn::ExprLet) {
        self.visit_expr(&condition.expr);
        self.bind(&condition.pat);
    }

    fn visit_arm(&mut self, arm: &'a Arm) {
        let outer = self.scope.len();
        self.bind(&arm.pat);
        visit::visit_arm(self, arm);
        self.scope.truncate(outer);
    }

    fn visit_expr_try(&mut self, attempt: &'a syn::ExprTry) {
        if !self.functions.is_empty() && self.returns_option.last() == Some(&false) {
            let span = attempt.expr.span().byte_range();
            let text = end_of(&squeezed(self.text(span.clone())));
            let mutant = self.add(span.clone(), lines(attempt), format!("{text}? -> the default for an error"));
            self.push(span, Rewrite::Ignored(mutant));
        }
        visit::visit_expr_try(self, attempt);
    }

    fn visit_field_value(&mut self, field: &'a syn::FieldValue) {
        let syn::Member::Named(name) = &field.member else { return visit::visit_field_value(self, field) };
        let name = name.to_string();
        if self.functions.is_empty() || !is_built(&field.attrs) {
            return visit::visit_field_value(self, field);
        }
        let value = field.expr.span().byte_range();
        let mut alternatives = Vec::new();
        if name.rsplit('_').next().is_some_and(|word| MOMENTS.contains(&word)) && self.text(value.clone()) != "None" {
            let change = format!("{{ {name}: … }} -> None");
            alternatives.push((self.add(value.clone(), lines(field), change), "None".to_owned()));
        }
        if field.colon_token.is_some() {
            if !alternatives.is_empty() {
                self.push(value, Rewrite::Expression(alternatives));
            }
            self.argument(&field.expr);
            return visit::visit_field_value(self, field);
        }
        alternatives.extend(self.other_variables(&name, &format!("{{ {name} }}"), value.clone(), lines(field)));
        if !alternatives.is_empty() {
            self.push(value.start..value.start, Rewrite::Field(name));
            self.push(value, Rewrite::Expression(alternatives));
        }
    }

    fn visit_expr_struct(&mut self, literal: &'a syn::ExprStruct) {
        if let (Some(base), false) = (&literal.rest, self.functions.is_empty()) {
            let path = squeezed(self.text(literal.path.span().byte_range()));
            let fields: Vec<String> =
                literal.fields.iter().map(|field| self.text(field.span().byte_range()).to_owned()).collect();
            let base = self.text(base.span().byte_range()).to_owned();
            let mut alternatives = Vec::new();
            for (place, field) in literal.fields.iter().enumerate() {
                let name = match &field.member {
                    syn::Member::Named(name) => name.to_string(),
                    syn::Member::Unnamed(index) => index.index.to_string(),
                };
                let mut others: Vec<String> = fields
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| *other != place)
                    .map(|(_, text)| text.clone())
                    .collect();
                others.push(format!("..{base}"));
                let mutant =
                    self.add(field.span().byte_range(), lines(field), format!("{path} {{ {name}: … }} -> nothing"));
                alternatives.push((mutant, format!("{path} {{ {} }}", others.join(", "))));
            }
            self.push(literal.span().byte_range(), Rewrite::Expression(alternatives));
        }
        visit::visit_expr_struct(self, literal);
    }

    fn visit_expr_match(&mut self, choice: &'a syn::ExprMatch) {
        let has_wildcard = choice.arms.iter().any(|arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none());
        for arm in &choice.arms {
            if !self.functions.is_empty() && is_built(&arm.attrs) {
                self.arm(arm, has_wildcard);
            }
        }
        visit::visit_expr_match(self, choice);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        if self.functions.is_empty() || call.path.segments.last().is_none_or(|last| last.ident != "select") {
            return;
        }
        for expression in call.parse_body::<Select>().iter().flat_map(|select| &select.expressions) {
            // These expressions have a shorter lifetime than the file, which is fine: no reference to them is kept.
            Finder::visit_expr(self, expression);
        }
    }
}

impl Finder<'_> {
    fn arm(&mut self, arm: &Arm, has_wildcard: bool) {
        let is_catch_all = matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none();
        let pattern = clipped(&squeezed(self.text(arm.pat.span().byte_range())));
        if is_error(&arm.pat) {
            self.error_arm(arm, &pattern);
        }
        let without = (has_wildcard && !is_catch_all).then(|| {
            let span = arm.pat.span().byte_range().start..arm.body.span().byte_range().end;
            self.add(span, lines(&arm.pat), format!("arm {pattern} -> nothing"))
        });
        if let Some((_, guard)) = &arm.guard {
            let span = guard.span().byte_range();
            if has_let(guard) {
                return;
            }
            let text = clipped(&squeezed(self.text(span.clone())));
            let always = self.add(span.clone(), lines(&**guard), format!("{pattern} if {text} -> if true"));
            let never = self.add(span.clone(), lines(&**guard), format!("{pattern} if {text} -> if false"));
            self.push(span, Rewrite::Guard { always, never, without });
        } else if let Some(without) = without {
            let end = arm.pat.span().byte_range().end;
            self.push(end..end, Rewrite::Arm(without));
        }
    }

    /// Takes an error for success.
    fn error_arm(&mut self, arm: &Arm, pattern: &str) {
        let span = arm.body.span().byte_range();
        let text = squeezed(self.text(span.clone()));
        // What is done already, or by the mutant of a statement.
        let is_default = ["{}", "()", "None", "false", "0", "Vec::new()"].contains(&&*text)
            || matches!(&*arm.body, Expr::Block(block) if block.block.stmts.len() == 1)
            || (self.units.contains(&(span.start, span.end))
                && !matches!(&*arm.body, Expr::Block(_) | Expr::Return(_)));
        if !is_default {
            let mutant = self.add(span.clone(), lines(&*arm.body), format!("arm {pattern} -> the default"));
            self.push(span, Rewrite::Default(mutant));
        }
    }
}
