//! Reads a process and all processes that it started, summed so that processes may come and go
//! without losing CPU time or making it run backwards.
//!
//! **What is counted.** For living processes, what they used themselves. When a process has ended,
//! the kernel adds what it used to the parent that waits for it, even if the process came and went
//! between two readings. The kernel doesn't where no parent waits (an orphan, or a parent that
//! ignores SIGCHLD), so the tree also keeps the last reading of each process. Both are lower bounds
//! of what ended processes used. The larger one is taken, so nothing counts twice. A process that
//! ends between the reading of its parent and its own would make the sum dip until the next
//! reading; the last sum is reported instead.
//!
//! **What belongs to the tree.** Every process that was once found under the root, even after its
//! parent died. The kernel lists children by the thread that started them; the first threads are
//! asked each time, all threads only in a thorough reading, because an engine may have hundreds.

use super::process::{Stat, Usage, stat};
use schema::record::Telemetry;
use std::collections::BTreeMap;

/// The maximum number of processes that are read.
const PROCESSES_MAX: usize = 1000;

#[derive(Default)]
pub(super) struct Tree {
    /// The living processes, parents before their children, so that one that ends during a reading
    /// is missed rather than counted twice.
    living: Vec<Member>,
    departed: Usage,
    reported: Usage,
    by_thread: bool,
}

struct Member {
    pid: u32,
    started_ticks: u64,
    own: Usage,
}

impl Tree {
    pub(super) fn new(root: u32) -> Self {
        let mut tree = Self {
            // Not every kernel is built to list children.
            by_thread: std::fs::exists("/proc/thread-self/children").unwrap_or(false),
            ..Self::default()
        };
        tree.add(root);
        tree
    }

    /// Ids of the processes that were alive at the last reading.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.living.iter().map(|member| member.pid)
    }

    /// Read the tree into `reading`; nothing is set where no process of it is left.
    pub(super) fn read(&mut self, thorough: bool, reading: &mut Telemetry) {
        self.discover(thorough);
        let stats = std::mem::take(&mut self.living)
            .into_iter()
            .map(|member| (stat(member.pid), member))
            .collect();
        self.account(stats, reading);
    }

    /// Sum the readings of all members, of which `None` belongs to one that has ended.
    fn account(&mut self, stats: Vec<(Option<Stat>, Member)>, reading: &mut Telemetry) {
        let (mut rss_bytes, mut threads) = (0, 0);
        let (mut own, mut waited) = (Usage::default(), Usage::default());
        for (stat, mut member) in stats {
            match stat.filter(|stat| stat.started_ticks == member.started_ticks) {
                Some(stat) => {
                    member.own = member.own.max(stat.own);
                    waited = waited.plus(stat.waited);
                    own = own.plus(member.own);
                    rss_bytes += stat.rss_bytes;
                    threads += stat.threads;
                    self.living.push(member);
                }
                None => self.departed = self.departed.plus(member.own),
            }
        }
        let usage = own.plus(waited.max(self.departed));
        self.reported = self.reported.max(usage);
        if !self.living.is_empty() {
            reading.rss_bytes = Some(rss_bytes);
            reading.threads = Some(threads);
            reading.processes = Some(self.living.len() as u32);
            reading.cpu_ns = Some(self.reported.cpu_ns);
            reading.minor_faults = Some(self.reported.minor_faults);
            reading.major_faults = Some(self.reported.major_faults);
        }
    }

    fn discover(&mut self, thorough: bool) {
        let mut of_all = match (self.by_thread, thorough) {
            (true, _) => BTreeMap::new(),
            (false, true) => children_of_all(),
            (false, false) => return,
        };
        let mut next = 0;
        while next < self.living.len() && self.living.len() < PROCESSES_MAX {
            let pid = self.living[next].pid;
            let children = match self.by_thread {
                true => children_by_thread(pid, thorough),
                false => of_all.remove(&pid).unwrap_or_default(),
            };
            children.into_iter().for_each(|child| self.add(child));
            next += 1;
        }
    }

    fn add(&mut self, pid: u32) {
        if self.living.iter().any(|member| member.pid == pid) {
            return;
        }
        if let Some(stat) = stat(pid) {
            self.living.push(Member {
                pid,
                started_ticks: stat.started_ticks,
                own: stat.own,
            });
        }
    }
}

/// The children that a process's first thread started or, with `any_thread`, any of its threads.
fn children_by_thread(pid: u32, any_thread: bool) -> Vec<u32> {
    let list = |path: String| -> Vec<u32> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace()
            .filter_map(|child| child.parse().ok())
            .collect()
    };
    if !any_thread {
        return list(format!("/proc/{pid}/task/{pid}/children"));
    }
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    threads
        .filter_map(|thread| thread.ok()?.file_name().into_string().ok())
        .flat_map(|thread| list(format!("/proc/{pid}/task/{thread}/children")))
        .collect()
}

/// The children of each process of the machine, by the parent's id.
fn children_of_all() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Some(stat) = stat(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    children
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    fn usage(cpu_ns: u64) -> Usage {
        Usage {
            cpu_ns,
            ..Usage::default()
        }
    }

    fn member(pid: u32, own: u64) -> Member {
        Member {
            pid,
            started_ticks: u64::from(pid),
            own: usage(own),
        }
    }

    fn alive(pid: u32, own: u64, waited: u64) -> (Option<Stat>, Member) {
        let stat = Stat {
            parent: 1,
            started_ticks: u64::from(pid),
            threads: 2,
            rss_bytes: 100,
            own: usage(own),
            waited: usage(waited),
        };
        (Some(stat), member(pid, 0))
    }

    fn gone(pid: u32, own: u64) -> (Option<Stat>, Member) {
        (None, member(pid, own))
    }

    fn empty() -> Tree {
        Tree {
            by_thread: true,
            ..Tree::default()
        }
    }

    fn sum(tree: &mut Tree, stats: Vec<(Option<Stat>, Member)>) -> Telemetry {
        let mut reading = Telemetry::default();
        tree.living.clear();
        tree.account(stats, &mut reading);
        reading
    }

    fn cpu(tree: &mut Tree, stats: Vec<(Option<Stat>, Member)>) -> u64 {
        sum(tree, stats).cpu_ns.unwrap()
    }

    #[test]
    fn a_child_that_was_waited_for_is_counted_once() {
        let mut tree = empty();
        assert_eq!(cpu(&mut tree, vec![alive(1, 10, 0), alive(2, 50, 0)]), 60);
        // It used 5 more before it ended, which the kernel gave to its parent.
        assert_eq!(cpu(&mut tree, vec![alive(1, 10, 55), gone(2, 50)]), 65);
        assert_eq!(cpu(&mut tree, vec![alive(1, 12, 55)]), 67);
    }

    #[test]
    fn a_child_between_two_readings_is_counted_by_its_parent() {
        let mut tree = empty();
        assert_eq!(cpu(&mut tree, vec![alive(1, 10, 0)]), 10);
        assert_eq!(cpu(&mut tree, vec![alive(1, 11, 30)]), 41);
    }

    #[test]
    fn a_child_that_nobody_waited_for_keeps_its_last_reading() {
        let mut tree = empty();
        cpu(&mut tree, vec![alive(1, 10, 0), alive(2, 50, 0)]);
        assert_eq!(cpu(&mut tree, vec![alive(1, 10, 0), gone(2, 50)]), 60);
        assert_eq!(cpu(&mut tree, vec![alive(1, 11, 0)]), 61);
    }

    #[test]
    fn the_sum_never_runs_backwards() {
        let mut tree = empty();
        cpu(&mut tree, vec![alive(1, 10, 0), alive(2, 50, 20)]);
        // Process 2 ended and wasn't waited for, so what it had waited for is lost with it.
        assert_eq!(cpu(&mut tree, vec![alive(1, 10, 0), gone(2, 50)]), 80);
        assert_eq!(cpu(&mut tree, vec![alive(1, 15, 0)]), 80);
        assert_eq!(cpu(&mut tree, vec![alive(1, 45, 0)]), 95);
    }

    #[test]
    fn an_id_used_again_is_another_process() {
        let mut tree = empty();
        cpu(&mut tree, vec![alive(1, 10, 0), alive(2, 50, 0)]);
        let mut reused = alive(2, 7000, 0);
        reused.1 = member(2, 50);
        reused.0.as_mut().unwrap().started_ticks = 99;
        assert_eq!(cpu(&mut tree, vec![alive(1, 10, 0), reused]), 60);
        assert_eq!(tree.pids().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_tree_without_a_living_process_is_absent_not_zero() {
        assert_eq!(sum(&mut empty(), vec![gone(1, 5)]), Telemetry::default());
    }

    /// A shell that runs one line at a time.
    struct Shell(Child, BufReader<std::process::ChildStdout>);

    impl Shell {
        fn new() -> Self {
            let mut child = Command::new("sh")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let out = BufReader::new(child.stdout.take().unwrap());
            Self(child, out)
        }

        /// Run a line that ends with printing a line.
        fn run(&mut self, line: &str) {
            writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
            self.1.read_line(&mut String::new()).unwrap();
        }
    }

    fn read(tree: &mut Tree) -> Telemetry {
        let mut reading = Telemetry::default();
        tree.read(true, &mut reading);
        reading
    }

    #[test]
    fn real_processes_come_and_go() {
        let mut shell = Shell::new();
        shell.run("echo ready");
        let mut tree = Tree::new(shell.0.id());
        let before = read(&mut tree);
        assert_eq!(before.processes, Some(1));
        shell.run("sleep 100 & child=$!; echo started");
        let during = read(&mut tree);
        assert_eq!(during.processes, Some(2));
        // The child may not have touched a page yet.
        assert!(during.rss_bytes >= before.rss_bytes);
        // A child that comes and goes between two readings leaves its faults.
        shell.run("kill $child; wait $child 2>/dev/null; sh -c 'exit 0'; echo gone");
        let after = read(&mut tree);
        assert_eq!(after.processes, Some(1));
        assert!(after.cpu_ns >= during.cpu_ns);
        assert!(after.minor_faults > during.minor_faults);
        drop(shell.0.stdin.take());
        shell.0.wait().unwrap();
        assert_eq!(read(&mut tree), Telemetry::default());
    }

    #[test]
    fn both_ways_to_find_children_agree() {
        let mut shell = Shell::new();
        shell.run("sleep 100 & child=$!; echo started");
        let root = shell.0.id();
        let (mut by_thread, mut by_parent) = (Tree::new(root), Tree::new(root));
        by_parent.by_thread = false;
        read(&mut by_thread);
        read(&mut by_parent);
        assert!(by_parent.pids().eq(by_thread.pids()));
        assert_eq!(by_parent.pids().count(), 2);
        shell.run("kill $child; echo killed");
        drop(shell.0.stdin.take());
        shell.0.wait().unwrap();
    }
}
