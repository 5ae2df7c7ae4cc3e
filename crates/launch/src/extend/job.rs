//! Finds the parallel job (MPI, Slurm) of which this process is a rank. Launchers of jobs set
//! environment variables for each rank.

use std::{env, ffi::OsStr};

/// For each launcher, the variables that together name a job. PMIx (Open MPI from version 4 on, and
/// others) has the first variable, and older versions of Open MPI have the second. Slurm has a
/// variable for the job and one for the job step.
const NAMES: [&[&str]; 3] =
    [&["PMIX_NAMESPACE"], &["OMPI_MCA_ess_base_jobid"], &["SLURM_JOB_ID", "SLURM_STEP_ID"]];

/// For each launcher, the variable with the number of ranks on this node: of Open MPI, of MPICH and
/// its derivatives, and of Slurm. Slurm's variable lists the numbers for all nodes of the job
/// ([`ranks_of`]).
const RANKS: [&str; 3] =
    ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"];

/// The parallel job of which this process is a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The name of the job, the same for all ranks on this node.
    pub name: String,
    /// The number of ranks on this node; `None` if unknown.
    pub ranks: Option<u32>,
}

impl Job {
    /// Returns the job of which this process is a rank; `None` outside a job.
    pub fn find() -> Option<Self> {
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        Self::from_variables(&|name| env::var_os(name), parent)
    }

    fn from_variables(
        variable: &dyn Fn(&str) -> Option<std::ffi::OsString>,
        parent: i32,
    ) -> Option<Self> {
        let text = |name: &str| {
            let value = variable(name)?;
            let value = OsStr::to_string_lossy(&value).into_owned();
            Some(value).filter(|value| !value.is_empty())
        };
        let words = |names: &&[&str]| {
            let words: Option<Vec<String>> = names.iter().map(|name| text(name)).collect();
            words.map(|words| words.join("-"))
        };
        let named = NAMES.iter().find_map(words);
        // MPICH gives its ranks no job name, but all ranks on a node have the same parent.
        let name = named.or_else(|| text("PMI_RANK").map(|_| format!("{parent}")))?;
        // The job's name is also the name of a folder. It is therefore cut to 100 characters, and
        // `_` replaces characters other than letters, digits, `-` and `_`.
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
        let name = format!("job-{}", name.chars().map(plain).take(100).collect::<String>());
        let node = text("SLURM_NODEID").and_then(|node| node.parse().ok()).unwrap_or(0);
        let ranks = RANKS.iter().find_map(|name| ranks_of(&text(name)?, node));
        Some(Self { name, ranks })
    }
}

/// Returns the number of ranks on a node. `list` is Slurm's list of the numbers for all nodes, such
/// as `4(x2),3`: 4 ranks on each of two nodes, and 3 on the next. `node` is the index of the node
/// in this list. For a node beyond the list, returns the number of the first node.
fn ranks_of(list: &str, node: usize) -> Option<u32> {
    let (mut first, mut nodes_before) = (None, 0_usize);
    for group in list.split(',') {
        let (ranks, nodes) = match group.strip_suffix(')').and_then(|it| it.split_once("(x")) {
            Some((ranks, nodes)) => (ranks, nodes.parse().ok()?),
            None => (group, 1),
        };
        let ranks = ranks.parse().ok()?;
        nodes_before = nodes_before.saturating_add(nodes);
        if node < nodes_before {
            return Some(ranks);
        }
        first = first.or(Some(ranks));
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(variables: &[(&str, &str)]) -> Option<(String, Option<u32>)> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).into())
        };
        Job::from_variables(&variable, 77).map(|job| (job.name, job.ranks))
    }

    #[test]
    fn launchers_are_identified_by_their_environment() {
        let open = [("PMIX_NAMESPACE", "prterun-node@1"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "4")];
        assert_eq!(job(&open), Some(("job-prterun-node_1".into(), Some(4))));
        let mpich = [("PMI_RANK", "1"), ("MPI_LOCALNRANKS", "2")];
        assert_eq!(job(&mpich), Some(("job-77".into(), Some(2))));
        let slurm = [
            ("SLURM_JOB_ID", "12"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_TASKS_PER_NODE", "8(x2)"),
        ];
        assert_eq!(job(&slurm), Some(("job-12-0".into(), Some(8))));
        let ranks = |list, node| {
            let uneven = [("SLURM_STEP_TASKS_PER_NODE", list), ("SLURM_NODEID", node)];
            job(&[&slurm[..2], &uneven].concat()).unwrap().1
        };
        let of_nodes = ["0", "1", "2"].map(|node| ranks("4(x2),3", node));
        assert_eq!(of_nodes, [Some(4), Some(4), Some(3)]);
        assert_eq!((ranks("5", "7"), ranks("4(y2)", "0")), (Some(5), None));
    }

    #[test]
    fn a_batch_script_is_no_rank() {
        assert_eq!(job(&[("SLURM_JOB_ID", "12")]), None);
        assert_eq!(job(&[("PMIX_NAMESPACE", "")]), None);
        assert_eq!(job(&[]), None);
    }
}
