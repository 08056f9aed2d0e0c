//! The plan with its progress: groups of items, how far each one is, and how long the rest will
//! take. Pure.

use super::eta::{self, UnderWay, Work};
use super::event::{Group, Item, Mark, Stage};

/// The tree of all groups that were declared, with their items.
#[derive(Debug, Default)]
pub struct Tree {
    groups: Vec<Branch>,
    /// Indices of the group and the item that run, or ran last.
    current: Option<(usize, usize)>,
}

#[derive(Debug)]
struct Branch {
    stage: Option<Stage>,
    name: String,
    items: Vec<Leaf>,
}

#[derive(Debug)]
struct Leaf {
    item: Item,
    /// Number of launches that ended without being done, or won't be begun.
    gone: u32,
    /// Total time (ns) of the launches that were done since the item was declared; `launches` is
    /// their number.
    took_ns: u64,
    launches: u32,
}

/// A launch that has begun and isn't over.
pub struct Now<'a> {
    pub group: &'a str,
    pub item: &'a str,
    /// Time that the launch has run, without waiting for turns (ns).
    pub elapsed_ns: u64,
    pub parts: &'a [String],
    /// Time that the launch had run when the last part was complete (ns).
    pub parts_ns: u64,
}

impl Leaf {
    fn new(item: Item) -> Self {
        Self {
            item,
            gone: 0,
            took_ns: 0,
            launches: 0,
        }
    }

    /// Number of launches that are over, or won't be begun.
    fn behind(&self) -> u32 {
        self.item.done + self.gone
    }

    fn left(&self) -> u32 {
        self.item.total.saturating_sub(self.behind())
    }
}

/// A row of the plan as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whether the row is an item, and not a group.
    pub is_item: bool,
    /// Whether the item or group runs, or ran last.
    pub is_current: bool,
    pub mark: Mark,
    pub name: String,
    /// Number of launches that are over or won't be begun, and of all.
    pub count: (u32, u32),
    /// Why the item isn't done; may be empty.
    pub reason: String,
}

impl Tree {
    /// Add a group that is to be done. It replaces a group of that name and stage.
    pub fn declare(&mut self, stage: Option<Stage>, group: Group) {
        let branch = Branch {
            stage,
            name: group.name,
            items: group.items.into_iter().map(Leaf::new).collect(),
        };
        let same = |other: &&mut Branch| other.stage == stage && other.name == branch.name;
        match self.groups.iter_mut().find(same) {
            Some(other) => *other = branch,
            None => self.groups.push(branch),
        }
    }

    /// Note that a launch of an item begins. An item that wasn't declared is added.
    pub fn begin(&mut self, stage: Option<Stage>, group: &str, item: &str) {
        let at = self.find(group, item).unwrap_or_else(|| {
            let new = Leaf::new(Item::waiting(item, 1));
            match self.groups.iter().position(|b| b.name == group) {
                Some(at) => self.groups[at].items.push(new),
                None => self.groups.push(Branch {
                    stage,
                    name: group.to_owned(),
                    items: vec![new],
                }),
            }
            self.find(group, item).expect("just added")
        });
        self.groups[at.0].items[at.1].item.mark = Mark::Running;
        self.current = Some(at);
    }

    /// Note that a launch that waited goes on.
    pub fn go_on(&mut self, group: &str, item: &str) {
        self.current = self.find(group, item).or(self.current);
    }

    /// Note that the launch of an item that began last is over, after `took_ns`.
    pub fn end(&mut self, group: &str, item: &str, mark: Mark, reason: String, took_ns: u64) {
        let Some(leaf) = self.leaf(group, item) else {
            return;
        };
        match mark {
            Mark::Done => {
                leaf.took_ns += took_ns;
                leaf.launches += 1;
                leaf.item.done += 1;
                leaf.item.mark = match leaf.left() {
                    0 => Mark::Done,
                    _ => Mark::Waiting,
                };
            }
            mark => {
                leaf.gone += 1;
                leaf.item.mark = mark;
            }
        }
        if !reason.is_empty() {
            leaf.item.reason = reason;
        }
    }

    /// Note that a launch of an item won't be begun.
    pub fn drop(&mut self, group: &str, item: &str, mark: Mark) {
        if let Some(leaf) = self.leaf(group, item) {
            leaf.gone += 1;
            leaf.item.mark = mark;
        }
    }

    /// The rows to show: every group, all items of the group that runs, and of the other groups the
    /// items that failed or were skipped.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (g, branch) in self.groups.iter().enumerate() {
            let current = self.current.filter(|at| at.0 == g).map(|at| at.1);
            let leaves = || branch.items.iter();
            rows.push(Row {
                is_item: false,
                is_current: current.is_some(),
                mark: whole(leaves().map(|leaf| leaf.item.mark)),
                name: branch.name.clone(),
                count: (
                    leaves().map(Leaf::behind).sum(),
                    leaves().map(|leaf| leaf.item.total).sum(),
                ),
                reason: String::new(),
            });
            for (i, leaf) in leaves().enumerate() {
                let is_worth_a_row = matches!(leaf.item.mark, Mark::Failed | Mark::Skipped);
                if current.is_none() && !is_worth_a_row {
                    continue;
                }
                rows.push(Row {
                    is_item: true,
                    is_current: current == Some(i),
                    mark: leaf.item.mark,
                    name: leaf.item.name.clone(),
                    count: (leaf.behind(), leaf.item.total),
                    reason: leaf.item.reason.clone(),
                });
            }
        }
        rows
    }

    /// Number of a stage's launches that are over or won't be begun, and of all.
    pub fn count(&self, stage: Option<Stage>) -> (u32, u32) {
        let leaves = || self.of_stage(stage).flat_map(|branch| &branch.items);
        (
            leaves().map(Leaf::behind).sum(),
            leaves().map(|leaf| leaf.item.total).sum(),
        )
    }

    /// Estimated time until the items of a stage are done (ns), see [`eta`]. `now`: the launches
    /// under way. `None` where nothing is known.
    pub fn eta_ns(&self, stage: Option<Stage>, now: &[Now]) -> Option<u64> {
        let s = |ns: u64| ns as f64 / 1e9;
        let mut all = Vec::new();
        for branch in self.of_stage(stage) {
            for leaf in &branch.items {
                let expected = leaf.item.expected.as_ref();
                let is_it = |now: &&Now| (now.group, now.item) == (&branch.name, &leaf.item.name);
                let under_way = now.iter().find(is_it).map(|now| UnderWay {
                    elapsed_s: s(now.elapsed_ns),
                    parts_expected_s: expected.map_or(0.0, |of| of.until(now.parts)),
                    parts_took_s: s(now.parts_ns),
                });
                all.push(Work {
                    expected_s: expected.map(|of| of.launch_s),
                    left: leaf.left(),
                    done: leaf.launches,
                    took_s: s(leaf.took_ns),
                    under_way,
                });
            }
        }
        let prior_s = match stage {
            Some(Stage::Build) => eta::PROGRAMS_PRIOR_S,
            _ => eta::LAUNCHES_PRIOR_S,
        };
        eta::left_s(&all, prior_s).map(|left_s| (left_s * 1e9) as u64)
    }

    /// Number of a stage's items that failed.
    pub fn failed(&self, stage: Option<Stage>) -> usize {
        let leaves = self.of_stage(stage).flat_map(|branch| &branch.items);
        leaves.filter(|leaf| leaf.item.mark == Mark::Failed).count()
    }

    fn of_stage(&self, stage: Option<Stage>) -> impl Iterator<Item = &Branch> {
        self.groups.iter().filter(move |b| b.stage == stage)
    }

    fn find(&self, group: &str, item: &str) -> Option<(usize, usize)> {
        let latest_first = self.groups.iter().enumerate().rev();
        let mut found = latest_first.filter_map(|(g, branch)| {
            let is_it = |leaf: &Leaf| branch.name == group && leaf.item.name == item;
            Some((g, branch.items.iter().position(is_it)?))
        });
        found.next()
    }

    fn leaf(&mut self, group: &str, item: &str) -> Option<&mut Leaf> {
        let (g, i) = self.find(group, item)?;
        Some(&mut self.groups[g].items[i])
    }
}

/// The state of a group, from those of its items.
fn whole(marks: impl Iterator<Item = Mark>) -> Mark {
    let marks: Vec<Mark> = marks.collect();
    let any = |mark| marks.contains(&mark);
    let open = any(Mark::Waiting);
    match () {
        () if any(Mark::Running) => Mark::Running,
        () if open && any(Mark::Done) => Mark::Running,
        () if open => Mark::Waiting,
        () if any(Mark::Failed) => Mark::Failed,
        () if any(Mark::Skipped) => Mark::Skipped,
        () if any(Mark::Done) => Mark::Done,
        () if any(Mark::Refused) => Mark::Refused,
        () => Mark::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Expected;

    const MEASURE: Option<Stage> = Some(Stage::Measure);

    fn tree() -> Tree {
        let mut tree = Tree::default();
        for name in ["s", "c"] {
            let items = vec![Item::waiting("a", 2), Item::waiting("b", 2)];
            let name = name.to_owned();
            tree.declare(MEASURE, Group { name, items });
        }
        tree
    }

    fn run(tree: &mut Tree, group: &str, item: &str, mark: Mark, took_ns: u64) {
        tree.begin(MEASURE, group, item);
        tree.end(group, item, mark, String::new(), took_ns);
    }

    fn shown(tree: &Tree) -> Vec<String> {
        let rows = tree.rows();
        let row = |row: &Row| {
            let indent = if row.is_item { " " } else { "" };
            format!("{indent}{} {:?} {:?}", row.name, row.mark, row.count)
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn the_running_group_is_open_and_failures_stay_in_sight() {
        let mut tree = tree();
        assert_eq!(shown(&tree), ["s Waiting (0, 4)", "c Waiting (0, 4)"]);
        tree.begin(MEASURE, "s", "a");
        assert_eq!(
            shown(&tree),
            [
                "s Running (0, 4)",
                " a Running (0, 2)",
                " b Waiting (0, 2)",
                "c Waiting (0, 4)"
            ]
        );
        tree.end("s", "a", Mark::Failed, "crashed".into(), 1);
        tree.drop("s", "a", Mark::Failed);
        run(&mut tree, "s", "b", Mark::Done, 1);
        run(&mut tree, "s", "b", Mark::Done, 1);
        tree.begin(MEASURE, "c", "a");
        assert_eq!(
            shown(&tree),
            [
                "s Failed (4, 4)",
                " a Failed (2, 2)",
                "c Running (0, 4)",
                " a Running (0, 2)",
                " b Waiting (0, 2)"
            ]
        );
        assert_eq!(tree.rows()[1].reason, "crashed");
        assert_eq!((tree.count(MEASURE), tree.failed(MEASURE)), ((4, 8), 1));
        assert_eq!(tree.count(None), (0, 0));
    }

    fn s(seconds: u64) -> u64 {
        seconds * 1_000_000_000
    }

    #[test]
    fn the_rest_takes_what_the_same_took_before_or_else_the_mean() {
        let mut tree = tree();
        let at = |item, elapsed_ns| Now {
            group: "s",
            item,
            elapsed_ns,
            parts: &[],
            parts_ns: 0,
        };
        assert_eq!(tree.eta_ns(MEASURE, &[]), None);
        run(&mut tree, "s", "a", Mark::Done, s(10));
        run(&mut tree, "s", "b", Mark::Done, s(30));
        // a 10, b 30, and four launches of c at the mean of 20.
        assert_eq!(tree.eta_ns(MEASURE, &[]), Some(s(120)));
        // Launches that take turns are under way together.
        let now = [at("b", s(12)), at("a", s(3))];
        assert_eq!(tree.eta_ns(MEASURE, &now), Some(s(105)));
        assert_eq!(tree.eta_ns(Some(Stage::Gate), &[]), None);
    }

    #[test]
    fn a_launch_that_failed_says_nothing_of_how_long_one_takes() {
        let mut tree = tree();
        run(&mut tree, "s", "a", Mark::Failed, s(1));
        assert_eq!(tree.eta_ns(MEASURE, &[]), None);
        run(&mut tree, "s", "b", Mark::Done, s(30));
        assert_eq!(tree.eta_ns(MEASURE, &[]), Some(s(6 * 30)));
    }

    #[test]
    fn parts_that_are_complete_correct_what_was_expected() {
        let mut item = Item::waiting("a", 2);
        item.expected = Some(Expected {
            launch_s: 50.0,
            load_s: 10.0,
            parts_s: vec![("p".into(), 30.0), ("q".into(), 10.0)],
        });
        let mut tree = Tree::default();
        let (name, items) = ("s".to_owned(), vec![item]);
        tree.declare(MEASURE, Group { name, items });
        assert_eq!(tree.eta_ns(MEASURE, &[]), Some(s(100)));
        tree.begin(MEASURE, "s", "a");
        let now = Now {
            group: "s",
            item: "a",
            elapsed_ns: s(25),
            parts: &["p".into()],
            parts_ns: s(20),
        };
        // 40 s of the estimate took 20, and 10 s are added to both: the factor is 30 / 50.
        let left_s = tree.eta_ns(MEASURE, &[now]).unwrap() as f64 / 1e9;
        assert!(
            (left_s - (100.0 * 30.0 / 50.0 - 25.0)).abs() < 1e-6,
            "{left_s}"
        );
    }

    #[test]
    fn what_was_not_declared_is_added() {
        let mut tree = Tree::default();
        run(&mut tree, "m", "a", Mark::Done, 1);
        run(&mut tree, "m", "b", Mark::Skipped, 1);
        assert_eq!(
            shown(&tree),
            ["m Skipped (2, 2)", " a Done (1, 1)", " b Skipped (1, 1)"]
        );
    }
}
