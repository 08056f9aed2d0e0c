//! The plan as it stands: groups of items, how far each is, how long the rest will
//! take. Pure.

use super::event::{Group, Item, Mark, Stage};

/// All groups that were declared.
#[derive(Debug, Default)]
pub struct Tree {
    groups: Vec<Branch>,
    /// Group and item that run, or ran last.
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
    /// Launches that ended without being done, or won't be begun.
    gone: u32,
    /// Time that launches took, and how many.
    took_ns: u64,
    launches: u64,
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

    /// Launches behind us.
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
    /// An item, or a group.
    pub is_item: bool,
    /// It runs, or ran last.
    pub is_current: bool,
    /// How it stands.
    pub mark: Mark,
    /// Its name.
    pub name: String,
    /// Launches behind us and in all.
    pub count: (u32, u32),
    /// Why it isn't done; may be empty.
    pub reason: String,
}

impl Tree {
    /// There is this to do. A group of that name and stage is replaced.
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

    /// A launch of an item begins; an item that nobody declared is added.
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

    /// A launch that waited goes on.
    pub fn go_on(&mut self, group: &str, item: &str) {
        self.current = self.find(group, item).or(self.current);
    }

    /// The launch of an item that began last is over, after `took_ns`.
    pub fn end(&mut self, group: &str, item: &str, mark: Mark, reason: String, took_ns: u64) {
        let Some(leaf) = self.leaf(group, item) else {
            return;
        };
        leaf.took_ns += took_ns;
        leaf.launches += 1;
        match mark {
            Mark::Done => {
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

    /// A launch of an item won't be begun.
    pub fn drop(&mut self, group: &str, item: &str, mark: Mark) {
        if let Some(leaf) = self.leaf(group, item) {
            leaf.gone += 1;
            leaf.item.mark = mark;
        }
    }

    /// The rows to show: every group, the items of the one that runs, and those of
    /// the others that failed or were skipped.
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

    /// Launches of a stage that are behind us, and in all.
    pub fn count(&self, stage: Option<Stage>) -> (u32, u32) {
        let leaves = || self.of_stage(stage).flat_map(|branch| &branch.items);
        (
            leaves().map(Leaf::behind).sum(),
            leaves().map(|leaf| leaf.item.total).sum(),
        )
    }

    /// Time until the items of a stage are done (ns): from what the same item took
    /// before; where it hasn't run yet, from what all of the stage took. `now`: the
    /// group and item that run, and for how long. `None` before any launch is over.
    pub fn eta_ns(&self, stage: Option<Stage>, now: Option<(&str, &str, u64)>) -> Option<u64> {
        let leaves = || self.of_stage(stage).flat_map(|branch| &branch.items);
        let launches: u64 = leaves().map(|leaf| leaf.launches).sum();
        if launches == 0 {
            return None;
        }
        let mean_ns = leaves().map(|leaf| leaf.took_ns).sum::<u64>() / launches;
        let mut eta_ns: u64 = 0;
        for branch in self.of_stage(stage) {
            for leaf in &branch.items {
                let each_ns = leaf.took_ns.checked_div(leaf.launches).unwrap_or(mean_ns);
                let left_ns = u64::from(leaf.left()) * each_ns;
                let elapsed_ns = now
                    .filter(|(group, item, _)| *group == branch.name && *item == leaf.item.name)
                    .map_or(0, |(_, _, elapsed_ns)| elapsed_ns.min(each_ns));
                eta_ns += left_ns.saturating_sub(elapsed_ns);
            }
        }
        Some(eta_ns)
    }

    /// Items of a stage that failed.
    pub fn failed(&self, stage: Option<Stage>) -> usize {
        let leaves = self.of_stage(stage).flat_map(|branch| &branch.items);
        leaves.filter(|leaf| leaf.item.mark == Mark::Failed).count()
    }

    fn of_stage(&self, stage: Option<Stage>) -> impl Iterator<Item = &Branch> {
        self.groups.iter().filter(move |b| b.stage == stage)
    }

    fn find(&self, group: &str, item: &str) -> Option<(usize, usize)> {
        let of_name = self
            .groups
            .iter()
            .enumerate()
            .filter(|(_, b)| b.name == group);
        of_name
            .filter_map(|(g, branch)| {
                let i = branch.items.iter().position(|l| l.item.name == item)?;
                Some((g, i))
            })
            .next_back()
    }

    fn leaf(&mut self, group: &str, item: &str) -> Option<&mut Leaf> {
        let (g, i) = self.find(group, item)?;
        Some(&mut self.groups[g].items[i])
    }
}

/// How a group stands, from how its items do.
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

    #[test]
    fn the_rest_takes_what_the_same_took_before_or_else_the_mean() {
        let mut tree = tree();
        assert_eq!(tree.eta_ns(MEASURE, None), None);
        run(&mut tree, "s", "a", Mark::Done, 10);
        run(&mut tree, "s", "b", Mark::Done, 30);
        // a 10, b 30, and four launches of c at the mean of 20.
        assert_eq!(tree.eta_ns(MEASURE, None), Some(120));
        tree.begin(MEASURE, "s", "b");
        assert_eq!(tree.eta_ns(MEASURE, Some(("s", "b", 12))), Some(108));
        // One that takes longer than it should counts as almost done, not as a debt.
        assert_eq!(tree.eta_ns(MEASURE, Some(("s", "b", 99))), Some(90));
        assert_eq!(tree.eta_ns(Some(Stage::Gate), None), None);
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
