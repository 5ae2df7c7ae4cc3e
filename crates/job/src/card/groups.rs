//! The loads of NVRAM cards: groups of fio jobs, from the options of the command line or from job
//! files.

use super::CardJob;
use interleaf_card::{
    card::Card,
    fio::{
        self, FioOptions, Job, OptionError,
        file::JobError,
        load::{RAMP_NS, RUNTIME_NS, SEED},
        memory::MemoryOptions,
        value::{Depths, Size},
    },
    load::{Access, Load},
    memory_mode::Initiator,
};
use interleaf_console::Failure;

/// The defaults of `--curves`: the queue depths that are simulated if the user gives no depth, and
/// the patterns that are simulated if the user gives no pattern. With job files, these defaults do
/// not apply.
const CURVE_DEPTHS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const CURVE_PATTERNS: [Access; 3] = [Access::RandomRead, Access::RandomMixed, Access::RandomWrite];

/// Fio jobs that run at the same time and load one card together.
pub(super) struct Group {
    /// The 1-based number of the group in the document.
    pub(super) number: u32,
    pub(super) jobs: Vec<Job>,
}

/// Returns the groups of fio jobs of `job`, checked against each card. If `memory` is given, the
/// fio jobs do loads and stores to the BAR.
pub(super) fn groups(job: &CardJob, memory: Option<&MemoryOptions>) -> Result<Vec<Group>, Failure> {
    let (cards, files) = (&job.cards, &job.files);
    let bs = job.options.bs.or(memory.map(MemoryOptions::block_bytes));
    let options = FioOptions { bs, ..job.options.clone() };
    let is_curve = files.is_empty() && job.for_curves;
    let depths: Vec<Option<u32>> = match &job.depths {
        None if is_curve => CURVE_DEPTHS.map(Some).to_vec(),
        None => vec![None],
        Some(Depths(list)) => list.iter().copied().map(Some).collect(),
    };
    let patterns: Vec<Option<Access>> = match options.rw {
        None if is_curve => CURVE_PATTERNS.map(Some).to_vec(),
        rw => vec![rw],
    };
    let hint = "name a fio job file, or give a load such as --rw randread";
    let texts = files.iter().map(|file| interleaf_catalog::text(file, hint));
    let texts = texts.collect::<Result<Vec<String>, Failure>>()?;
    let check = |jobs: &[Job]| {
        cards.iter().try_for_each(|card| match memory {
            None => fio::load::load(jobs, card).map(|_| ()),
            Some(options) => {
                jobs.iter().try_for_each(|job| fio::memory::load(job, options, card).map(|_| ()))
            }
        })
    };
    let mut found: Vec<Vec<Job>> = vec![];
    for rw in &patterns {
        for depth in &depths {
            let options = FioOptions { rw: *rw, iodepth: *depth, ..options.clone() };
            if files.is_empty() {
                let jobs = vec![options.job("").map_err(of_option)?];
                match check(&jobs) {
                    Ok(()) => found.push(jobs),
                    // A default depth that a card does not allow is left out of the curves. A depth
                    // that the user gave and the card does not allow is an error.
                    Err(why) if !found.is_empty() && job.depths.is_none() && is_depth(&why) => {}
                    Err(why) => return Err(of_option(why)),
                }
            }
            for (file, text) in files.iter().zip(&texts) {
                let name = file.display().to_string();
                found.extend(fio::file::parse(&name, text, &options, &check).map_err(of_job)?);
            }
        }
    }
    let number = |(at, jobs): (usize, Vec<Job>)| Group { number: at as u32 + 1, jobs };
    Ok(found.into_iter().enumerate().map(number).collect())
}

/// Checks that each fio job of the groups can be a point of a curve. A fio job that runs together
/// with another is an error, because it shares the bandwidth of the card. A fio job with a rate is
/// an error, because it does not reach the bandwidth of its queue depth.
pub(super) fn check_curves(groups: &[Group]) -> Result<(), Failure> {
    for Group { jobs, .. } in groups {
        if let [first, second, ..] = &jobs[..] {
            let (first, second) = (&first.name, &second.name);
            return Err(Failure::new(
                format!(
                    "--curves: {first} and {second} run together: neither is a point of a curve"
                ),
                "begin the second job with stonewall, or leave --curves out",
            ));
        }
        if jobs.iter().any(|job| job.rate_iops.is_some()) {
            return Err(Failure::new(
                "--curves: a load with a rate (--rate-iops, rate_iops) is no point of a curve",
                "leave the rate out: the depths give the points",
            ));
        }
    }
    let sizes = groups.iter().flat_map(|group| &group.jobs).map(|job| job.bs);
    let (least, most) = (sizes.clone().min(), sizes.max());
    match (least, most) {
        (Some(least), Some(most)) if least != most => Err(Failure::new(
            format!("--curves: the points of a curve have one block size, not {least} and {most}"),
            "give --bs, and another file for another size",
        )),
        _ => Ok(()),
    }
}

/// Returns the seed of all groups. Fails if two groups have different seeds.
pub(super) fn seed(groups: &[Group]) -> Result<u64, Failure> {
    let of = |group: &Group| group.jobs.iter().find_map(|job| job.seed).unwrap_or(SEED);
    let differs = groups.windows(2).find(|pair| of(&pair[0]) != of(&pair[1]));
    let Some([first, second]) = differs else {
        return Ok(groups.first().map_or(SEED, of));
    };
    let name = |group: &Group| group.jobs.first().map_or("", |job| job.name.as_str()).to_string();
    Err(Failure::new(
        format!(
            "randseed: {} and {} differ in it, and a record has one",
            name(first),
            name(second)
        ),
        "set it in [global] of each job file, or give --seed",
    ))
}

/// Formats the options of `interleaf simulate card` that simulate only `job`, without the option
/// `--card`.
pub(super) fn options(job: &Job, initiator: Option<Initiator>) -> String {
    let mut text = initiator.map_or(String::new(), |it| format!("--access {} ", it.name()));
    text += &format!("--rw {} --bs {} --iodepth {}", job.rw.name(), job.bs, job.iodepth);
    let optional = [
        (job.numjobs != 1).then(|| format!(" --numjobs {}", job.numjobs)),
        (job.rw.is_mixed() && job.rwmixread != 50)
            .then(|| format!(" --rwmixread {}", job.rwmixread)),
        job.ramp_ns.filter(|ns| *ns != RAMP_NS).map(|ns| format!(" --ramp-time {}", time(ns))),
        job.runtime_ns.filter(|ns| *ns != RUNTIME_NS).map(|ns| format!(" --runtime {}", time(ns))),
        match job.size {
            Size::WHOLE => None,
            Size::Percent(percent) => Some(format!(" --size {percent}%")),
            Size::Bytes(bytes) => Some(format!(" --size {bytes}")),
        },
        job.norandommap.then(|| " --norandommap".into()),
        job.seed.filter(|seed| *seed != SEED).map(|seed| format!(" --seed {seed}")),
    ];
    optional.into_iter().flatten().for_each(|option| text += &option);
    text
}

/// Formats a time with the largest unit of fio in which it is a whole number. `ns` is a whole
/// number of microseconds.
fn time(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    let (unit, name) =
        units.into_iter().find(|(unit, _)| ns.is_multiple_of(*unit)).unwrap_or(units[2]);
    format!("{}{name}", ns / unit)
}

fn is_depth(why: &OptionError) -> bool {
    why.option == "iodepth"
}

/// Converts the checked fio jobs `jobs` to the load that is simulated on `card`.
pub(super) fn load(jobs: &[Job], card: &Card) -> Result<Load, Failure> {
    fio::load::load(jobs, card).map_err(of_option)
}

/// Converts the error of a job file to a failure. The cause may also be an option of the command
/// line that replaced an option of the file.
fn of_job(why: JobError) -> Failure {
    match why {
        JobError::File(why) => why.into(),
        JobError::CommandLine(why) => of_option(why),
    }
}

/// Converts the error of an option of fio to a failure that names the corresponding option of the
/// command line: `rate_iops` becomes `--rate-iops`.
pub(super) fn of_option(why: OptionError) -> Failure {
    let option = match why.option {
        "randseed" => "seed".into(),
        option => option.replace('_', "-"),
    };
    Failure::new(format!("--{option}: {}", why.problem), why.hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_depths_are_those_that_fit_the_queues() {
        let mut card = interleaf_card::card::by_name("all-mram").expect("it is built in");
        card.nvme.entries = 128;
        let job = CardJob {
            cards: vec![card],
            files: vec![],
            options: FioOptions::default(),
            depths: None,
            initiator: None,
            fsync: None,
            power_failures: None,
            for_curves: true,
            is_direct: false,
        };
        let found = groups(&job, None).expect("depth 1 fits");
        let depths: Vec<u32> = found.iter().map(|group| group.jobs[0].iodepth).collect();
        assert_eq!(depths, [1, 2, 4, 8, 16, 32, 64].repeat(3));
        let given = CardJob { depths: Some(Depths(vec![1, 128])), ..job };
        let why = groups(&given, None).err().expect("128 do not fit").to_string();
        assert!(why.starts_with("--iodepth: all-mram: 128 I/Os do not fit"), "{why}");
    }

    fn jobs(text: &str) -> Vec<Group> {
        let check = |_: &[Job]| Ok(());
        let found = fio::file::parse("jobs.fio", text, &FioOptions::default(), &check);
        let found = found.expect("the jobs are valid").into_iter();
        found.map(|jobs| Group { number: 1, jobs }).collect()
    }

    #[test]
    fn points_of_curves_are_of_one_job_without_a_rate() {
        let said = |text: &str| check_curves(&jobs(text)).err().map(|why| why.to_string());
        let pair = |options: &str| format!("[a]\nrw=read\n[b]\nrw=randread\n{options}");
        assert_eq!(said(&pair("stonewall\n")), None);
        assert!(said(&pair("")).is_some_and(|why| why.contains("a and b run together")));
        let two = pair("stonewall\nbs=8k\n");
        assert!(said(&two).is_some_and(|why| why.contains("one block size, not 4096 and 8192")));
        let limited = said("[a]\nrw=read\nrate_iops=1000\n");
        assert!(limited.is_some_and(|why| why.contains("rate_iops")));
    }

    #[test]
    fn groups_have_one_seed() {
        let pair = |first: &str, second: &str| {
            seed(&jobs(&format!("[a]\nrw=read\n{first}[b]\nrw=read\nstonewall\n{second}")))
        };
        assert_eq!(pair("", "").ok(), Some(SEED));
        assert_eq!(pair("randseed=7\n", "randseed=7\n").ok(), Some(7));
        for (first, second) in [("", "randseed=7\n"), ("randseed=7\n", "randseed=8\n")] {
            let why = pair(first, second).expect_err("the seeds differ").to_string();
            assert!(why.starts_with("randseed: a and b differ in it"), "{why}");
        }
    }

    #[test]
    fn the_options_of_a_point_have_all_that_is_not_default() {
        let of = |text: &str| options(&jobs(&format!("[a]\n{text}"))[0].jobs[0], None);
        assert_eq!(of("rw=read\n"), "--rw read --bs 4096 --iodepth 1");
        let all = "rw=randrw\nbs=8k\niodepth=4\nnumjobs=2\nrwmixread=70\nramp_time=100us\n\
                   runtime=2ms\nsize=50%\nnorandommap\nrandseed=3\n";
        assert_eq!(
            of(all),
            "--rw randrw --bs 8192 --iodepth 4 --numjobs 2 --rwmixread 70 --ramp-time 100us \
             --runtime 2ms --size 50% --norandommap --seed 3"
        );
    }
}
