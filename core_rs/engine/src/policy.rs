//! Who goes first on a replica: priorities and batch caps of the classes.

use crate::class_meter::Metric;
use crate::request::Request;
use crate::spec::ClassSpec;

/// What a replica must know of the classes.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Some classes go before others; else it is first come, first served.
    pub is_ranked: bool,
    /// Some class has a cap.
    pub has_caps: bool,
    /// Clients may go away.
    pub has_leavers: bool,
    /// Some class has a limit on gaps between tokens.
    pub has_gaps: bool,
    /// When a request was first looked at is kept.
    pub notes_looks: bool,
    /// When a request joined its first step is kept.
    pub notes_starts: bool,
    /// By class: 0 goes first.
    pub level: Vec<usize>,
    pub n_levels: usize,
    /// By class: the most that may run while one of it does.
    pub batch_cap: Vec<u64>,
}

impl Policy {
    pub fn new(classes: &[ClassSpec], notes_looks: bool) -> Self {
        let mut priorities: Vec<u32> = classes.iter().map(|class| class.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let limits = |metric| classes.iter().any(|class| class.limits.iter().any(|limit| limit.metric == metric));
        let level = |class: &ClassSpec| priorities.partition_point(|&priority| priority < class.priority);
        Self {
            is_ranked: priorities.len() > 1,
            has_leavers: classes.iter().any(|class| class.timeout_ns.is_some() || class.cancel_after_ns.is_some()),
            has_gaps: limits(Metric::Itl),
            has_caps: classes.iter().any(|class| class.batch_cap.is_some()),
            notes_looks,
            notes_starts: notes_looks || limits(Metric::Queue),
            level: classes.iter().map(level).collect(),
            n_levels: priorities.len(),
            batch_cap: classes.iter().map(|class| class.batch_cap.unwrap_or(u64::MAX)).collect(),
        }
    }

    /// The place of a request among those that wait, and among those that run: the largest is driven out first.
    pub fn rank(&self, request: &Request) -> (usize, u64, u64) {
        (self.level[usize::from(request.class)], request.arrival_ns, request.row)
    }
}
