//! Finds the mutants of a source file: operators replaced or removed, function bodies replaced by a value, arms of a
//! `match` and their guards switched off.
//!
//! A mutant is text to insert before and after a range of the file, so that any number of mutants fits into one
//! source: only the one whose number is chosen at run time changes what the code does. Constants, types, patterns,
//! arguments of macros and tests are left alone.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// One change of one place.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Place and change, the name of the mutant.
    pub name: String,
    /// What the inserted texts enclose.
    pub range: Range<usize>,
    /// Text before the range; `#` stands for the number of the mutant.
    pub before: String,
    /// Text after the range.
    pub after: &'static str,
}

/// All mutants of a file.
pub fn mutants(path: &str, text: &str) -> syn::Result<Vec<Mutant>> {
    let mut finder = Finder { path, text, function: Vec::new(), found: Vec::new() };
    finder.visit_file(&syn::parse_file(text)?);
    Ok(finder.found)
}

struct Finder<'a> {
    path: &'a str,
    text: &'a str,
    function: Vec<String>,
    found: Vec<Mutant>,
}

impl Finder<'_> {
    fn of(&self, node: &impl Spanned) -> &str {
        &self.text[node.span().byte_range()]
    }

    fn add(
        &mut self,
        place: &impl Spanned,
        what: String,
        range: Range<usize>,
        before: String,
        after: &'static str,
    ) {
        let at = place.span().start();
        let function = self.function.join("::");
        let name = format!("{}:{}:{}: {what} in {function}", self.path, at.line, at.column + 1);
        self.found.push(Mutant { name, range, before, after });
    }

    /// The expression becomes `mutated`.
    fn replace(&mut self, place: &impl Spanned, what: String, expression: &syn::Expr, mutated: &str) {
        let before = format!("(if crate::mutant::on(#) {{ {mutated} }} else {{ ");
        self.add(place, what, expression.span().byte_range(), before, " })");
    }

    /// The function returns at once.
    fn function(&mut self, signature: &syn::Signature, attributes: &[syn::Attribute], body: &syn::Block) {
        if signature.constness.is_some() || attributes.iter().any(|a| self.of(a).contains("test")) {
            return;
        }
        self.function.push(signature.ident.to_string());
        let values = match &signature.output {
            syn::ReturnType::Default => vec!["()".into()],
            syn::ReturnType::Type(_, of) => values(of),
        };
        let start = body.brace_token.span.open().byte_range().end;
        // A body that is this value already would be no mutant.
        let whole = self.text[start..body.brace_token.span.close().byte_range().start].trim().to_string();
        for value in values.iter().filter(|value| !whole.is_empty() && **value != whole) {
            let before = format!(" if crate::mutant::on(#) {{ return {value}; }}");
            self.add(&signature.ident, format!("return {value}"), start..start, before, "");
        }
        self.visit_block(body);
        self.function.pop();
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_expr_repeat(&mut self, node: &'ast syn::ExprRepeat) {
        self.visit_expr(&node.expr);
    }

    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        if !node.attrs.iter().any(|attribute| self.of(attribute).contains("test")) {
            visit::visit_item_mod(self, node);
        }
    }

    fn visit_item_impl(&mut self, node: &'ast syn::ItemImpl) {
        let name = self.of(node.self_ty.as_ref()).to_string();
        self.function.push(name);
        visit::visit_item_impl(self, node);
        self.function.pop();
    }

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.function(&node.sig, &node.attrs, &node.block);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.function(&node.sig, &node.attrs, &node.block);
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if let Some(body) = &node.default {
            self.function(&node.sig, &node.attrs, body);
        }
    }

    fn visit_expr(&mut self, node: &'ast syn::Expr) {
        match node {
            syn::Expr::Binary(binary) if !has_let(node) => {
                let (left, op, right) =
                    (self.of(&*binary.left), self.of(&binary.op), self.of(&*binary.right));
                let (left, op, right) = (left.to_string(), op.to_string(), right.to_string());
                for other in other_operators(&op) {
                    let left = if op.ends_with('=') && other.len() == 2 && !"==!=<=>=".contains(other) {
                        left.clone()
                    } else {
                        format!("({left})")
                    };
                    let mutated = format!("{left} {other} ({right})");
                    self.replace(&binary.op, format!("{op} becomes {other}"), node, &mutated);
                }
            }
            syn::Expr::Unary(unary) if !matches!(unary.op, syn::UnOp::Deref(_)) => {
                let (op, inner) = (self.of(&unary.op).to_string(), self.of(&*unary.expr).to_string());
                self.replace(&unary.op, format!("{op} is removed"), node, &inner);
            }
            _ => {}
        }
        visit::visit_expr(self, node);
    }

    fn visit_expr_match(&mut self, node: &'ast syn::ExprMatch) {
        self.visit_expr(&node.expr);
        let rest = node.arms.last().is_some_and(|arm| matches!(arm.pat, syn::Pat::Wild(_)));
        for (i, arm) in node.arms.iter().enumerate() {
            let shown = self.of(&arm.pat).replace('\n', " ");
            if let syn::Pat::Guard(guarded) = &arm.pat {
                for value in ["true", "false"] {
                    self.replace(&*guarded.guard, format!("guard becomes {value}"), &guarded.guard, value);
                }
                self.visit_expr(&guarded.guard);
            } else if rest && i + 1 < node.arms.len() {
                let end = arm.pat.span().byte_range().end;
                let before = " if !crate::mutant::on(#)".to_string();
                self.add(&arm.pat, format!("arm {shown} is removed"), end..end, before, "");
            }
            self.visit_expr(&arm.body);
        }
    }
}

/// What an operator is replaced by.
fn other_operators(op: &str) -> &'static [&'static str] {
    match op {
        "+" => &["-", "*"],
        "-" => &["+", "/"],
        "*" => &["+", "/"],
        "/" => &["*", "%"],
        "%" => &["/", "+"],
        "+=" => &["-=", "*="],
        "-=" => &["+=", "/="],
        "*=" => &["+=", "/="],
        "/=" => &["*=", "%="],
        "==" => &["!="],
        "!=" => &["=="],
        "<" => &["==", ">", "<="],
        ">" => &["==", "<", ">="],
        "<=" => &[">", "<"],
        ">=" => &["<", ">"],
        "&&" => &["||"],
        "||" => &["&&"],
        "<<" => &[">>"],
        ">>" => &["<<"],
        "&" => &["|", "^"],
        "|" => &["&", "^"],
        "^" => &["&", "|"],
        _ => &[],
    }
}

/// Whether the chain of `&&` and `||` binds a pattern: its parts cannot be enclosed.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Values that a function of this type could return by mistake.
fn values(of: &syn::Type) -> Vec<String> {
    let texts = |list: &[&str]| list.iter().map(|text| text.to_string()).collect::<Vec<_>>();
    match of {
        syn::Type::Tuple(tuple) => {
            let first =
                tuple.elems.iter().map(|part| values(part).into_iter().next()).collect::<Option<Vec<_>>>();
            first.map(|parts| format!("({})", parts.join(", "))).into_iter().collect()
        }
        syn::Type::Reference(reference) if reference.mutability.is_none() => match &*reference.elem {
            syn::Type::Slice(_) => texts(&["&[]"]),
            syn::Type::Path(path) if path.path.is_ident("str") => texts(&["\"\"", "\"xyzzy\""]),
            _ => Vec::new(),
        },
        syn::Type::Array(array) => {
            values(&array.elem).iter().map(|value| format!("std::array::from_fn(|_| {value})")).collect()
        }
        syn::Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Vec::new() };
            let inner = || match &last.arguments {
                syn::PathArguments::AngleBracketed(list) => match list.args.first() {
                    Some(syn::GenericArgument::Type(of)) => values(of),
                    _ => Vec::new(),
                },
                _ => texts(&["()"]),
            };
            let with = |start: &[&str], form: fn(String) -> String| {
                texts(start).into_iter().chain(inner().into_iter().map(form)).collect()
            };
            match last.ident.to_string().as_str() {
                "bool" => texts(&["true", "false"]),
                "usize" | "u8" | "u16" | "u32" | "u64" => texts(&["0", "1"]),
                "isize" | "i8" | "i16" | "i32" | "i64" => texts(&["0", "1", "-1"]),
                "f32" | "f64" => texts(&["0.0", "1.0", "-1.0"]),
                "T" => texts(&["T::ZERO", "T::ONE", "-T::ONE"]),
                "String" => texts(&["String::new()", "\"xyzzy\".to_string()"]),
                "Vec" => with(&["Vec::new()"], |value| format!("vec![{value}]")),
                "Option" => with(&["None"], |value| format!("Some({value})")),
                "Result" => with(&[], |value| format!("Ok({value})")),
                _ => texts(&["Default::default()"]),
            }
        }
        _ => Vec::new(),
    }
}
