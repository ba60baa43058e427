//! Writes mutants into source: each stands beside what it replaces, behind `if crate::__mutant(number)`.
//!
//! Constants are evaluated by the compiler, which cannot ask; mutants in them, and deleted fields of a struct, are left
//! out and printed, to be tried by cargo-mutants itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::path::{Path, PathBuf};

use anyhow::Context;
use proc_macro2::LineColumn;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Block, Expr, UnOp, parse_quote};

use crate::listed::{self, Place};

/// Mutants of one file by kind and place: number and replacement.
type Places = BTreeMap<(String, Place), Vec<(u32, String)>>;

/// What is built, from the root of the tree, and what its tests read.
const COPIED: [&str; 6] = [".cargo", "Cargo.toml", "Cargo.lock", "crates", "examples", "docs"];

/// What a mutated crate asks: whether this mutant is the one to be tried. A run with the mutant `reached` tries none
/// and appends each number that is asked for, once, to the file that `TIDEGATE_REACHED` names.
const SWITCH: &str = r#"
#[doc(hidden)]
#[allow(missing_docs)]
#[inline]
pub(crate) fn __mutant(number: u32) -> bool {
    use std::sync::atomic::{AtomicU32, Ordering};
    const UNREAD: u32 = u32::MAX;
    const NONE: u32 = u32::MAX - 1;
    const REACHED: u32 = u32::MAX - 2;
    static CHOSEN: AtomicU32 = AtomicU32::new(UNREAD);
    let mut chosen = CHOSEN.load(Ordering::Relaxed);
    if chosen == UNREAD {
        chosen = match std::env::var("TIDEGATE_MUTANT") {
            Ok(text) if text == "reached" => REACHED,
            text => text.ok().and_then(|text| text.parse().ok()).unwrap_or(NONE),
        };
        CHOSEN.store(chosen, Ordering::Relaxed);
    }
    if chosen == REACHED {
        __reached(number);
    }
    chosen == number
}

#[cold]
fn __reached(number: u32) {
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};
    static SEEN: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
    let (word, bit) = (number as usize / 64, 1 << (number % 64));
    if SEEN[word].fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        let path = std::env::var_os("TIDEGATE_REACHED").expect("the file to write to");
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(format!("{number}\n").as_bytes())).expect("the disk works");
    }
}
"#;

/// Copies `root` to `tree`, with all mutants of `list` but those of `without` written into its files, and prints what
/// it could not write. Files that are as they should be are not touched, so that they are not built again.
pub fn weave(list: &Path, root: &Path, tree: &Path, without: &Path) -> anyhow::Result<()> {
    let mutants = listed::read(list)?;
    let without: BTreeSet<u32> =
        std::fs::read_to_string(without)?.lines().map(str::parse).collect::<Result<_, _>>().context("--without")?;
    let mut files: BTreeMap<&str, Places> = BTreeMap::new();
    for (number, mutant) in (0..).zip(&mutants) {
        let places = files.entry(&mutant.file).or_default();
        if !without.contains(&number) {
            let at = (mutant.genre.clone(), mutant.span.start);
            places.entry(at).or_default().push((number, mutant.replacement.clone()));
        }
    }
    // Every crate has its switch, also where no mutant of its root is tried.
    let roots: BTreeSet<String> = mutants
        .iter()
        .filter_map(|mutant| Some(format!("{}/src/lib.rs", mutant.file.split_once("/src/")?.0)))
        .collect();
    for file in &roots {
        files.entry(file).or_default();
    }
    copy(root, tree, &files.keys().map(|file| root.join(file)).collect())?;
    for (file, places) in files {
        let text = std::fs::read_to_string(root.join(file)).with_context(|| file.to_owned())?;
        let mut parsed = syn::parse_file(&text).with_context(|| file.to_owned())?;
        let mut weaver = Weaver { places, failed: Vec::new() };
        weaver.visit_file_mut(&mut parsed);
        let missed: Vec<u32> = weaver.places.into_values().flatten().map(|(number, _)| number).collect();
        for number in missed.into_iter().chain(weaver.failed) {
            println!("{number} left out: {}", mutants[number as usize].name);
        }
        let mut text = String::new();
        if roots.contains(file) {
            parsed
                .attrs
                .push(parse_quote!(#![allow(warnings, missing_docs, arithmetic_overflow, unconditional_panic)]));
            text.push_str(SWITCH);
        }
        write(&tree.join(file), (prettyplease::unparse(&parsed) + &text).as_bytes())?;
    }
    Ok(())
}

/// Makes a copy of what is built, without `woven`, and removes from an older copy what there is no more.
fn copy(root: &Path, tree: &Path, woven: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    std::fs::create_dir_all(tree)?;
    for part in COPIED.map(|part| root.join(part)) {
        copy_part(&part, &tree.join(part.strip_prefix(root)?), woven)?;
    }
    Ok(())
}

fn copy_part(from: &Path, to: &Path, woven: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    if !from.is_dir() {
        return if woven.contains(from) { Ok(()) } else { write(to, &std::fs::read(from)?) };
    }
    std::fs::create_dir_all(to)?;
    for old in std::fs::read_dir(to)? {
        let old = old?;
        match from.join(old.file_name()).exists() {
            true => {}
            false if old.path().is_dir() => std::fs::remove_dir_all(old.path())?,
            false => std::fs::remove_file(old.path())?,
        }
    }
    for entry in std::fs::read_dir(from)? {
        let name = entry?.file_name();
        copy_part(&from.join(&name), &to.join(&name), woven)?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}

/// Prints the numbers of the mutants in which the errors on standard input stand: of each error the mutant that begins
/// on its line or is the next above.
pub fn blame(tree: &Path) -> anyhow::Result<()> {
    let mut blamed = BTreeSet::new();
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(&line?) else { continue };
        let message = &message["message"];
        if message["level"] != "error" {
            continue;
        }
        for span in message["spans"].as_array().into_iter().flatten().filter(|span| span["is_primary"] == true) {
            let (Some(file), Some(line)) = (span["file_name"].as_str(), span["line_start"].as_u64()) else { continue };
            let text = std::fs::read_to_string(tree.join(file))?;
            let above: Vec<&str> = text.lines().take(line as usize).collect();
            let nearest = above.iter().rev().find(|line| line.contains("__mutant("));
            for number in nearest.into_iter().flat_map(|line| line.split("__mutant(").skip(1)) {
                let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
                blamed.extend(digits.parse::<u32>());
            }
        }
    }
    for number in blamed {
        println!("{number}");
    }
    Ok(())
}

struct Weaver {
    places: Places,
    failed: Vec<u32>,
}

impl Weaver {
    /// The mutants of this kind that begin here.
    fn take(&mut self, genre: &str, start: LineColumn) -> Vec<(u32, String)> {
        let place = Place { line: start.line, column: start.column + 1 };
        self.places.remove(&(genre.to_owned(), place)).unwrap_or_default()
    }

    fn fail(&mut self, mutants: Vec<(u32, String)>) {
        self.failed.extend(mutants.into_iter().map(|(number, _)| number));
    }

    fn body(&mut self, constant: bool, block: &mut Block) {
        let Some(first) = block.stmts.first() else { return };
        let mutants = self.take("FnValue", first.span().start());
        if constant {
            return self.fail(mutants);
        }
        visit_mut::visit_block_mut(self, block);
        for (number, replacement) in mutants {
            match syn::parse_str::<Expr>(&replacement) {
                Ok(value) => block.stmts.insert(0, parse_quote!(if crate::__mutant(#number) { return #value; })),
                Err(_) => self.failed.push(number),
            }
        }
    }

    fn binary(&mut self, expression: &mut Expr) {
        let Expr::Binary(binary) = expression else { return };
        let mutants = self.take("BinaryOperator", binary.op.span().start());
        visit_mut::visit_expr_binary_mut(self, binary);
        if holds_let(&binary.left) || holds_let(&binary.right) {
            return self.fail(mutants);
        }
        let mut binary = binary.clone();
        // `a as u8 < b` does not parse.
        for side in [&mut binary.left, &mut binary.right] {
            let operand = &*side;
            *side = parse_quote!((#operand));
        }
        let (left, right) = (&binary.left, &binary.right);
        if let [(number, _)] = mutants[..] {
            // Written so that neither side stands twice, because such chains are long.
            match binary.op {
                BinOp::And(_) => {
                    let chosen: Expr = parse_quote!(crate::__mutant(#number));
                    *expression = parse_quote!((if (#left) != #chosen { #right } else { #chosen }));
                    return;
                }
                BinOp::Or(_) => {
                    let chosen: Expr = parse_quote!(crate::__mutant(#number));
                    *expression = parse_quote!((if (#left) == #chosen { #right } else { !#chosen }));
                    return;
                }
                _ => {}
            }
        }
        let mut woven: Expr = binary.clone().into();
        for (number, replacement) in mutants.into_iter().rev() {
            let Ok(op) = syn::parse_str::<BinOp>(&replacement) else {
                self.failed.push(number);
                continue;
            };
            let mut mutated = binary.clone();
            mutated.op = op;
            woven = parse_quote!((if crate::__mutant(#number) { #mutated } else { #woven }));
        }
        *expression = woven;
    }

    fn unary(&mut self, expression: &mut Expr) {
        let Expr::Unary(unary) = expression else { return };
        let start = match unary.op {
            UnOp::Not(not) => not.span().start(),
            UnOp::Neg(neg) => neg.span().start(),
            _ => return visit_mut::visit_expr_unary_mut(self, unary),
        };
        let mutants = self.take("UnaryOperator", start);
        visit_mut::visit_expr_unary_mut(self, unary);
        let whole = unary.clone();
        if let Some((number, _)) = mutants.first() {
            let operand = &whole.expr;
            *expression = parse_quote!((if crate::__mutant(#number) { #operand } else { #whole }));
        }
    }
}

/// Whether a chain of conditions holds a `let`, which stands only in a chain.
fn holds_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => holds_let(&binary.left) || holds_let(&binary.right),
        _ => false,
    }
}

/// Whether an arm takes whatever the arms before it leave: without such an arm, none can be deleted.
fn takes_everything(arm: &syn::Arm) -> bool {
    let takes = match &arm.pat {
        syn::Pat::Wild(_) => true,
        // `None` parses as a name, too.
        syn::Pat::Ident(bound) => bound.subpat.is_none() && !bound.ident.to_string().starts_with(char::is_uppercase),
        _ => false,
    };
    takes && arm.guard.is_none()
}

impl VisitMut for Weaver {
    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        match expression {
            Expr::Binary(_) => self.binary(expression),
            Expr::Unary(_) => self.unary(expression),
            // Its length is a constant.
            Expr::Repeat(repeat) => self.visit_expr_mut(&mut repeat.expr),
            Expr::Const(_) => {}
            Expr::Match(matched) => {
                if !matched.arms.last().is_some_and(takes_everything) {
                    let deleted: Vec<_> =
                        matched.arms.iter().flat_map(|arm| self.take("MatchArm", arm.span().start())).collect();
                    self.fail(deleted);
                }
                visit_mut::visit_expr_match_mut(self, matched);
            }
            other => visit_mut::visit_expr_mut(self, other),
        }
    }

    fn visit_arm_mut(&mut self, arm: &mut syn::Arm) {
        let deleted = self.take("MatchArm", arm.span().start());
        let guarded = arm.guard.as_ref().map(|(_, guard)| guard.span().start());
        let guards = guarded.map_or(Vec::new(), |start| self.take("MatchArmGuard", start));
        visit_mut::visit_arm_mut(self, arm);
        if let Some((_, guard)) = &mut arm.guard {
            if holds_let(guard) {
                return self.fail(guards);
            }
            for (number, replacement) in guards {
                **guard = match replacement.as_str() {
                    "true" => parse_quote!(crate::__mutant(#number) || (#guard)),
                    _ => parse_quote!(!crate::__mutant(#number) && (#guard)),
                };
            }
        }
        for (number, _) in deleted {
            arm.guard = Some((Default::default(), parse_quote!(!crate::__mutant(#number))));
        }
    }

    fn visit_item_fn_mut(&mut self, function: &mut syn::ItemFn) {
        self.body(function.sig.constness.is_some(), &mut function.block);
    }

    fn visit_impl_item_fn_mut(&mut self, function: &mut syn::ImplItemFn) {
        self.body(function.sig.constness.is_some(), &mut function.block);
    }

    fn visit_trait_item_fn_mut(&mut self, function: &mut syn::TraitItemFn) {
        if let Some(block) = &mut function.default {
            self.body(function.sig.constness.is_some(), block);
        }
    }

    // What only the compiler evaluates.
    fn visit_pat_mut(&mut self, _: &mut syn::Pat) {}
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
    fn visit_generics_mut(&mut self, _: &mut syn::Generics) {}
    fn visit_item_const_mut(&mut self, _: &mut syn::ItemConst) {}
    fn visit_impl_item_const_mut(&mut self, _: &mut syn::ImplItemConst) {}
    fn visit_trait_item_const_mut(&mut self, _: &mut syn::TraitItemConst) {}
    fn visit_item_static_mut(&mut self, _: &mut syn::ItemStatic) {}
    fn visit_item_enum_mut(&mut self, _: &mut syn::ItemEnum) {}
    fn visit_angle_bracketed_generic_arguments_mut(&mut self, _: &mut syn::AngleBracketedGenericArguments) {}
    fn visit_item_macro_mut(&mut self, _: &mut syn::ItemMacro) {}
}
