use super::*;

fn card() -> Card {
    Card::by_name("flashtec-dram").unwrap()
}

fn group(access: Access, depth: u32) -> Group {
    Group { access, depth, ..Group::default() }
}

fn run(load: &Load) -> Outcome {
    load.run(&card(), &Settings::default(), &mut ()).unwrap()
}

const MS: u64 = 1_000_000_000_000;

#[test]
fn a_rate_is_kept_when_the_card_can() {
    let paced = Group { rate_iops: Some(50_000.0), jobs: 2, ..group(Access::RandomWrite, 8) };
    let mut load = Load { groups: vec![paced], ramp_fs: MS, stop: Stop::Time(20 * MS), seed: 3 };
    let found = run(&load);
    assert!((found.iops() / 100_000.0 - 1.0).abs() < 0.002, "{}", found.iops());
    assert_eq!((found.bound_by, found.span_fs), (Bound::Rate, 20 * MS));
    assert!(found.write.lat.mean_ns() < 5500.0);
    // A thread with one outstanding I/O, which takes about 4 us, reaches about 250,000 I/Os per
    // second. Therefore its depth is the bound, not its rate of 500,000.
    load.groups[0] = Group { rate_iops: Some(500_000.0), ..group(Access::RandomWrite, 1) };
    let found = run(&load);
    assert!(found.iops() < 300_000.0);
    assert_eq!(found.bound_by, Bound::Depth);
}

#[test]
fn a_mix_has_its_part_of_reads() {
    for (percent, read) in [(0, 0.0), (70, 0.7), (100, 1.0)] {
        let group = Group { read_percent: percent, ..group(Access::Mixed, 16) };
        let found = run(&Load::single(group, 20_000));
        assert!((found.read.ios as f64 / 20_000.0 - read).abs() < 0.01);
        assert_eq!(found.read.ios + found.write.ios, 20_000);
        let seconds = found.span_fs as f64 / 1e15;
        let bytes = (found.read.bytes_per_s + found.write.bytes_per_s) * seconds;
        assert!((bytes - 20_000.0 * 4096.0).abs() < 1.0);
    }
}

#[test]
fn groups_run_at_once() {
    let small = Group { name: "log".into(), ..group(Access::Write, 1) };
    let large = Group { block_bytes: 131_072, jobs: 2, ..group(Access::RandomRead, 8) };
    let load = |groups| Load { groups, ramp_fs: MS, stop: Stop::Time(10 * MS), seed: 1 };
    let alone = run(&load(vec![small.clone()]));
    let both = run(&load(vec![small, large]));
    assert_eq!((alone.read.ios, both.write.ios > 0), (0, true));
    assert!(both.write.lat.mean_ns() > alone.write.lat.mean_ns());
    assert!(both.read.bytes_per_s > 6e9, "{}", both.read.bytes_per_s);
    assert_eq!(both.bound_by.name(), "link up");
}

#[test]
fn latencies_are_those_of_fio() {
    let found = run(&Load::single(group(Access::RandomRead, 64), 20_000)).read;
    let [slat, clat, lat] = [&found.slat, &found.clat, &found.lat];
    assert!((slat.mean_ns() + clat.mean_ns() - lat.mean_ns()).abs() < 2.0);
    assert_eq!(lat.count(), found.ios);
    let percentiles = [0.0, 50.0, 99.0, 99.99, 99.9999, 100.0].map(|p| lat.percentile_ns(p));
    assert!(percentiles.is_sorted() && percentiles[5] == lat.max_ns());
    assert!(lat.min_ns() <= percentiles[0] && lat.deviation_ns() > 0.0);
    let bins = lat.bins(1000, 1.25);
    assert_eq!(bins.iter().map(|(_, count)| count).sum::<u64>(), found.ios);
    assert!(bins.is_sorted_by_key(|(end, _)| *end));
}

#[test]
fn a_load_that_the_card_cannot_run_names_its_option() {
    let group = group(Access::RandomRead, 1);
    let table = [
        (Group { block_bytes: 1000, ..group.clone() }, "bs: 1000 bytes are no whole number"),
        (Group { block_bytes: 2 << 20, ..group.clone() }, "bs: 2097152 bytes are more than"),
        (Group { depth: 0, ..group.clone() }, "iodepth: 0 I/Os do not fit"),
        (Group { depth: 1024, ..group.clone() }, "iodepth: 1024 I/Os do not fit"),
        (Group { depth: 600, jobs: 17, ..group.clone() }, "iodepth: 1200 outstanding I/Os"),
        (Group { jobs: 0, ..group.clone() }, "numjobs: there are 0 threads"),
        (Group { read_percent: 101, ..group.clone() }, "rwmixread: 101 %"),
        (Group { rate_iops: Some(0.0), ..group.clone() }, "rate_iops: 0 I/Os per second"),
        (Group { rate_iops: Some(f64::NAN), ..group.clone() }, "rate_iops: NaN"),
        (Group { offset: 100, ..group.clone() }, "offset: no block of the card is at 100"),
        (Group { offset: 1 << 30, ..group.clone() }, "offset: no block of the card"),
        (Group { size: Some(2 << 30), ..group.clone() }, "size: 2147483648 bytes from 0 exceed"),
        (Group { size: Some(512), ..group.clone() }, "size: 512 bytes are less than a block"),
    ];
    for (group, expected) in table {
        let why = Load::single(group, 10).check(&card()).unwrap_err().to_string();
        assert!(why.starts_with(&format!("job: {expected}")), "{why}");
    }
    let load = Load::single(group, 10);
    let table = [
        (Load { groups: vec![], ..load.clone() }, "load: numjobs: there are 0 threads"),
        (Load { stop: Stop::Ios(0), ..load.clone() }, "job: number_ios: it is 0"),
        (Load { stop: Stop::Time(0), ..load.clone() }, "job: runtime: it is 0"),
        (Load { ramp_fs: u64::MAX, ..load.clone() }, "job: ramp_time: it is above an hour"),
    ];
    for (load, expected) in table {
        assert_eq!(load.check(&card()).unwrap_err().to_string(), expected);
    }
}
