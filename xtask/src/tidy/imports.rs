//! Finds which modules of a crate use which. Sibling modules must form a directed acyclic graph, at
//! every level. A module and its submodules count as one and may use each other.
//!
//! It reads paths that begin with `crate`, `super` or `self`, in `use` trees and in code. Tokens
//! suffice for that. A parser crate would add a tenth to the compile time of the harness, which
//! everybody compiles first.

use super::source;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// The modules of one crate, by path from its root (`["run", "launch"]`), each with the modules
/// that it names.
#[derive(Debug, Default)]
pub struct Modules {
    uses: BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
}

/// Sibling modules, each with the others that it uses.
type Level = BTreeMap<String, BTreeSet<String>>;

impl Modules {
    /// Read a crate's files, given as names (from `src/`) and texts. Tests are left out.
    pub fn read<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let mut named = BTreeMap::new();
        for (name, text) in files {
            let module = module_of(name);
            if !module.iter().any(|part| part == "tests") {
                named.insert(module, paths(&source::tokens(name, text)?));
            }
        }
        let known: BTreeSet<Vec<String>> = named.keys().cloned().collect();
        let uses = named
            .into_iter()
            .map(|(module, paths)| {
                let found = paths
                    .iter()
                    .filter_map(|path| target(&module, path, &known));
                let found = found.filter(|other| *other != module).collect();
                (module, found)
            })
            .collect();
        Ok(Self { uses })
    }

    /// Return the sibling modules of each level, and what each uses of the others.
    fn levels(&self) -> BTreeMap<Vec<String>, Level> {
        let mut levels: BTreeMap<Vec<String>, Level> = BTreeMap::new();
        for (module, others) in &self.uses {
            if let Some((name, inside)) = module.split_last() {
                let level = levels.entry(inside.to_vec()).or_default();
                level.entry(name.clone()).or_default();
            }
            for other in others {
                let same = module.iter().zip(other).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.get(same), other.get(same)) {
                    let level = levels.entry(module[..same].to_vec()).or_default();
                    level.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        levels
    }

    /// Return one cycle of each level that has any, such as `run::a → run::b → run::a`.
    pub fn cycles(&self) -> Vec<String> {
        let levels = self.levels().into_iter();
        let found = levels.filter_map(|(inside, level)| {
            let cycle = layers(level).err()?;
            let path = |name: String| [&inside[..], &[name]].concat().join("::");
            let paths: Vec<String> = cycle.into_iter().map(path).collect();
            Some(paths.join(" → "))
        });
        found.collect()
    }

    /// Return the crate's own modules in layers, each using only modules of earlier layers; `None`
    /// where there is a cycle.
    pub fn layers(&self) -> Option<Vec<Vec<String>>> {
        let own = self.levels().remove(&Vec::new());
        layers(own.unwrap_or_default()).ok()
    }
}

/// Return the path, from the crate's root, of the module that a file holds.
fn module_of(name: &str) -> Vec<String> {
    let name = name.strip_suffix(".rs").unwrap_or(name);
    let mut parts: Vec<String> = name.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod") || matches!(name, "lib" | "main") {
        parts.pop();
    }
    parts
}

/// Return the known module that a path in `module` refers to.
fn target(
    module: &[String],
    path: &[String],
    known: &BTreeSet<Vec<String>>,
) -> Option<Vec<String>> {
    let mut at = module.to_vec();
    let mut rest = path;
    while let Some((first, others)) = rest.split_first() {
        match first.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            _ => break,
        }
        rest = others;
    }
    at.extend_from_slice(rest);
    while !known.contains(&at) {
        at.pop()?;
    }
    Some(at)
}

/// Return the paths that begin with `crate`, `super` or `self`.
fn paths(tokens: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        // A path that begins with `$crate` belongs to the modules that call its macro.
        let begins = at == 0 || tokens[at - 1] != "$";
        if begins && matches!(tokens[at].as_str(), "crate" | "super" | "self") {
            at = tree(tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Collect the paths of a `use` tree that begins at a token, each after `prefix`; return the next
/// token's index.
fn tree(tokens: &[String], start: usize, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let is_name = |token: &str| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut path = prefix.to_vec();
    let mut at = start;
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = tree(tokens, at, &path, found);
                }
                return at + 1;
            }
            Some(name) if is_name(name) => path.push(name.to_owned()),
            _ => break, // a glob, a comma, or the end of the path
        }
        at += 1;
        if tokens.get(at..at + 2).is_none_or(|pair| pair != [":", ":"]) {
            break;
        }
        at += 2;
    }
    found.push(path);
    // Always advance, whatever token stands there, so that the loop ends.
    at.max(start + 1)
}

/// Sort modules into layers, each using only modules of earlier layers. The error is a cycle: each
/// of its modules uses the next one, and the first one stands at its end once more.
fn layers(mut left: Level) -> Result<Vec<Vec<String>>, Vec<String>> {
    let mut layers = Vec::new();
    while !left.is_empty() {
        let used = |name: &String| left[name].iter().find(|other| left.contains_key(*other));
        let free = left.keys().filter(|name| used(name).is_none());
        let layer: Vec<String> = free.cloned().collect();
        if layer.is_empty() {
            // Each of these uses another one of them: follow them until one comes again.
            let mut path: Vec<&String> = Vec::new();
            let mut next = left.keys().next();
            while let Some(name) = next.filter(|name| !path.contains(name)) {
                path.push(name);
                next = used(name);
            }
            let cycle = path.into_iter().skip_while(|name| Some(*name) != next);
            return Err(cycle.chain(next).cloned().collect());
        }
        left.retain(|name, _| !layer.contains(name));
        layers.push(layer);
    }
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Modules {
        Modules::read(files.iter().copied()).unwrap()
    }

    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        read(files).cycles()
    }

    #[test]
    fn a_planted_cycle_is_found_whatever_way_a_module_is_named() {
        for text in [
            "use crate::a::X;",
            "use super::a;",
            "use crate::{c::Y, a::{self, X}};",
            "fn f() { crate::a::x(); }",
            "println!(\"{}\", super::a::x());",
            "fn f() { X { ..super::a::x() } }",
            "use crate::a::*;",
        ] {
            let found = cycles(&[
                ("lib.rs", "mod a;\nmod b;"),
                ("a.rs", "use crate::b::B;"),
                ("b.rs", text),
                ("c.rs", ""),
            ]);
            assert_eq!(found, ["a → b → a"], "{text}");
        }
    }

    #[test]
    fn what_is_no_use_closes_no_cycle() {
        for text in [
            "// use crate::a::X;",
            "const X: &str = \"crate::a::X\";",
            "const X: &str = r#\"use crate::a::X;\"#;",
            "#[cfg(test)]\nmod tests {\n    use crate::a::X;\n}",
            "use a::X;",
            "const A: char = '\"'; // crate::a::X",
        ] {
            let found = cycles(&[("a.rs", "use crate::b::B;"), ("b.rs", text)]);
            assert!(found.is_empty(), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_module_and_its_own_are_one_and_those_beside_each_other_are_not() {
        let inside = [
            ("run/mod.rs", "use launch::Launch;"),
            ("run/launch.rs", "use super::Run;"),
            ("run/load.rs", "use super::launch::X;"),
        ];
        assert!(cycles(&inside).is_empty());
        let mut with = inside.to_vec();
        with[1].1 = "use super::load::Y;";
        assert_eq!(cycles(&with), ["run::launch → run::load → run::launch"]);
        // The cycle goes through modules of different parents.
        let through = [
            ("a/x.rs", "use crate::b::y::Y;"),
            ("b/y.rs", "use crate::a::X;"),
            ("a/mod.rs", ""),
        ];
        assert_eq!(cycles(&through), ["a → b → a"]);
    }

    #[test]
    fn layers_use_earlier_ones_only() {
        let modules = read(&[
            ("top.rs", "use crate::{left, right};"),
            ("left.rs", "use crate::base::X;"),
            ("right.rs", "use crate::base::{X, Y};"),
            ("base.rs", ""),
        ]);
        let layers = modules.layers().unwrap();
        assert_eq!(layers, [vec!["base"], vec!["left", "right"], vec!["top"]]);
        assert_eq!(
            read(&[("a.rs", "use crate::b;"), ("b.rs", "use crate::a;")]).layers(),
            None
        );
    }
}
