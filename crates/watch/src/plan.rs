//! What a run has to do, as the groups that are shown: a scenario is a group, and a target an item
//! of it. Pure.

use super::event::{Group, Item, Mark};
use std::collections::BTreeMap;

/// A launch that a run has planned.
pub struct Planned {
    /// The launch's scenario.
    pub group: String,
    /// The launch's target.
    pub item: String,
    /// What has become of the launch so far.
    pub fate: Fate,
}

/// What became of a launch.
pub enum Fate {
    /// The launch is still to be made.
    Left,
    /// The launch was made.
    Done,
    /// The launch won't be made: the item's mark, and why.
    Dropped(Mark, String),
}

/// Group planned launches by scenario and target.
pub fn groups(planned: impl IntoIterator<Item = Planned>) -> Vec<Group> {
    // Items are sorted by name, because the plan's order is drawn anew in every block.
    let mut groups: Vec<(String, BTreeMap<String, Item>)> = Vec::new();
    for launch in planned {
        let at = groups.iter().position(|(name, _)| *name == launch.group);
        let at = at.unwrap_or_else(|| {
            groups.push((launch.group, BTreeMap::new()));
            groups.len() - 1
        });
        let new = Item::waiting(&launch.item, 0);
        let item = groups[at].1.entry(launch.item).or_insert(new);
        match launch.fate {
            Fate::Left => {
                item.total += 1;
                item.mark = Mark::Waiting;
            }
            Fate::Done => {
                item.total += 1;
                item.done += 1;
            }
            // Other launches of the item may still be left: then those determine its mark.
            Fate::Dropped(mark, reason) => {
                if item.total == 0 {
                    item.mark = mark;
                }
                item.reason = reason;
            }
        }
    }
    for item in groups.iter_mut().flat_map(|(_, items)| items.values_mut()) {
        if item.total > 0 && item.done == item.total {
            item.mark = Mark::Done;
        }
    }
    let groups = groups.into_iter().map(|(name, items)| Group {
        name,
        items: items.into_values().collect(),
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_waiting_and_what_is_not_says_why() {
        let targets = ["late", "half", "done", "lost", "new"];
        let fate = |block, target: &str| match (target, block) {
            ("new" | "late", _) | ("half", 1) => Fate::Left,
            ("lost", _) => Fate::Dropped(Mark::Failed, "crashed".into()),
            _ => Fate::Done,
        };
        let planned = (0..2).flat_map(|block| {
            targets.map(|target| Planned {
                group: "s".into(),
                item: target.into(),
                fate: fate(block, target),
            })
        });
        let groups = groups(planned);
        assert_eq!(groups.len(), 1);
        let items: Vec<_> = groups[0]
            .items
            .iter()
            .map(|item| (item.name.as_str(), item.done, item.total, item.mark))
            .collect();
        assert_eq!(
            items,
            [
                ("done", 2, 2, Mark::Done),
                ("half", 1, 2, Mark::Waiting),
                ("late", 0, 2, Mark::Waiting),
                ("lost", 0, 0, Mark::Failed),
                ("new", 0, 2, Mark::Waiting),
            ]
        );
        assert_eq!(groups[0].items[3].reason, "crashed");
    }
}
