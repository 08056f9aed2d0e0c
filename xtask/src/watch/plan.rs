//! What a run has to do, as the groups that are shown: a group a scenario, an item a
//! target. Pure.

use super::event::{Group, Item, Mark};
use schema::plan::Launch;

/// The groups of the launches planned, of which `left` are still to be made. `why_not`
/// says of a target and scenario without any left why that is, where they aren't done.
pub fn groups<'a>(
    planned: impl IntoIterator<Item = &'a Launch>,
    left: impl Fn(&Launch) -> bool,
    why_not: impl Fn(&Launch) -> Option<(Mark, String)>,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for launch in planned {
        let at = groups
            .iter()
            .position(|group| group.name == launch.scenario);
        let at = at.unwrap_or_else(|| {
            groups.push(Group {
                name: launch.scenario.clone(),
                items: Vec::new(),
            });
            groups.len() - 1
        });
        let items = &mut groups[at].items;
        let known = items.iter().position(|item| item.name == launch.target);
        let item = known.unwrap_or_else(|| {
            items.push(Item::waiting(&launch.target, 0));
            items.len() - 1
        });
        let item = &mut items[item];
        if left(launch) {
            item.total += 1;
            item.mark = Mark::Waiting;
            continue;
        }
        match why_not(launch) {
            None => {
                item.total += 1;
                item.done += 1;
            }
            // Something of it may be left all the same: that counts then.
            Some((mark, reason)) => {
                if item.total == 0 {
                    item.mark = mark;
                }
                item.reason = reason;
            }
        }
    }
    for item in groups.iter_mut().flat_map(|group| &mut group.items) {
        if item.total > 0 && item.done == item.total {
            item.mark = Mark::Done;
        }
    }
    for group in &mut groups {
        // The plan's order is drawn anew in every block.
        group.items.sort_by(|a, b| a.name.cmp(&b.name));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(invocation: u32, target: &str, scenario: &str) -> Launch {
        Launch {
            invocation,
            target: target.into(),
            scenario: scenario.into(),
            cases: vec!["p10".into()],
        }
    }

    #[test]
    fn what_is_left_is_waiting_and_what_is_not_says_why() {
        let targets = ["late", "half", "done", "lost", "new"];
        let planned: Vec<Launch> = (0..2)
            .flat_map(|i| targets.map(|target| launch(i, target, "s")))
            .collect();
        let left = |launch: &Launch| match launch.target.as_str() {
            "new" | "late" => true,
            "half" => launch.invocation == 1,
            _ => false,
        };
        let why_not = |launch: &Launch| {
            (launch.target == "lost").then(|| (Mark::Failed, "crashed".to_owned()))
        };
        let groups = groups(&planned, left, why_not);
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
