//! Each rule is tested alone: the earliest allowed clock passes, one clock earlier is a violation.
//! The expected distances are literals and not read from the tables, so that an error in the tables
//! fails a test.

use super::*;
use Kind::{
    Activate as Act, Precharge as Pre, PrechargeAll as PreAll, Read, ReadAuto, RefreshAll,
    RefreshSame, Write, WriteAuto,
};

/// A rule, earlier commands, a later command, and the minimum number of clocks from the last of the
/// earlier commands to the later command.
type Case = (&'static str, Vec<Command>, Command, u64);

fn in_rank(rank: u8, command: Command) -> Command {
    Command { rank, ..command }
}

fn in_pseudo(pseudo: u8, command: Command) -> Command {
    Command { pseudo, ..command }
}

fn hold(name: &str, cases: Vec<Case>) {
    let device = device(name);
    for (rule, before, later, limit) in cases {
        let mut checker = Checker::new(&device);
        for command in &before {
            assert_eq!(checker.check(command), Ok(()), "{rule} of {name}");
        }
        let earlier = before.last().expect("something comes before").at;
        let legal = Command { at: earlier + limit, ..later };
        assert_eq!(checker.clone().check(&legal), Ok(()), "{rule} of {name}");
        let early = Command { at: earlier + limit - device.host_clocks, ..later };
        let why = checker.check(&early).expect_err(rule);
        assert_eq!(why.rule, rule, "{why}");
        assert_eq!(why.later, early);
        assert!(why.limit > why.cycles, "{why}");
    }
}

#[test]
fn activations_are_apart() {
    let act = |at, group, bank| command(Act, at, group, bank);
    hold(
        "rdimm-6400-2r",
        vec![
            ("tRRD_S", vec![act(0, 0, 0)], act(0, 1, 0), 8),
            ("tRRD_L", vec![act(0, 0, 0)], act(0, 0, 1), 16),
            ("command bus", vec![act(0, 0, 0)], in_rank(1, act(0, 0, 0)), 2),
            ("tRCD", vec![act(0, 0, 0)], command(Read, 0, 0, 0), 52),
            ("tRCD", vec![act(0, 0, 0)], command(Write, 0, 0, 0), 52),
            ("tRAS", vec![act(0, 0, 0)], command(Pre, 0, 0, 0), 103),
            ("tRAS", vec![act(0, 0, 0)], command(PreAll, 0, 0, 0), 103),
            ("tRC", vec![act(0, 0, 0), command(Pre, 103, 0, 0)], act(0, 0, 0), 52),
            ("tRP", vec![act(0, 0, 0), command(Pre, 104, 0, 0)], act(0, 0, 0), 52),
            ("tRP", vec![act(0, 0, 0), command(PreAll, 104, 0, 0)], act(0, 0, 0), 52),
            (
                "tPPD",
                vec![act(0, 0, 0), act(8, 1, 0), command(Pre, 200, 0, 0)],
                command(Pre, 0, 1, 0),
                2,
            ),
        ],
    );
    // On this module tRRD and tFAW can be violated alone: an activation occupies one slot of the
    // command bus, and tFAW is longer than four tRRD_S.
    hold(
        "ddr4-3200-2r",
        vec![
            ("tRRD_S", vec![act(0, 0, 0)], act(0, 1, 0), 4),
            ("tRRD_L", vec![act(0, 0, 0)], act(0, 0, 1), 8),
            ("tFAW", [0, 1, 2, 3].map(|g| act(4 * u64::from(g), g, 0)).to_vec(), act(0, 0, 1), 22),
            ("command bus", vec![act(0, 0, 0)], in_rank(1, act(0, 0, 0)), 1),
        ],
    );
}

/// Returns commands that open two banks in each of two groups, in both ranks, and then the command
/// `last` at clock 1000.
fn opened(last: Command) -> Vec<Command> {
    let mut before = vec![];
    for rank in [0, 1] {
        for (at, place) in [(0, (0, 0)), (32, (0, 1)), (64, (1, 0)), (96, (1, 1))] {
            let at = at + 16 * u64::from(rank);
            before.push(in_rank(rank, command(Act, at, place.0, place.1)));
        }
    }
    before.sort_by_key(|command| command.at);
    before.push(Command { at: 1000, ..last });
    before
}

#[test]
fn reads_and_writes_are_apart() {
    let read = |group, bank| command(Read, 0, group, bank);
    let write = |group, bank| command(Write, 0, group, bank);
    let far = |command| in_rank(1, command);
    // t_rank, the gap between the data of two ranks, is the only number here that no standard
    // gives, so it is read from the tables.
    let rank = u64::from(device("rdimm-6400-2r").timing.t_rank);
    hold(
        "rdimm-6400-2r",
        vec![
            ("tCCD_S", opened(read(0, 0)), read(1, 0), 8),
            ("tCCD_L", opened(read(0, 0)), read(0, 1), 16),
            ("tCCD_L", opened(read(0, 0)), read(0, 0), 16),
            ("tCCD_S", opened(write(0, 0)), write(1, 0), 8),
            ("tCCD_L_WR", opened(write(0, 0)), write(0, 1), 64),
            ("tWTR_S", opened(write(0, 0)), read(1, 0), 50 + 8 + 8),
            ("tWTR_L", opened(write(0, 0)), read(0, 1), 50 + 8 + 32),
            ("read to write", opened(read(0, 0)), write(1, 0), 14),
            ("other rank", opened(read(0, 0)), far(read(0, 0)), 8 + rank),
            ("other rank", opened(write(0, 0)), far(write(0, 0)), 8 + rank),
            ("read to write, other rank", opened(read(0, 0)), far(write(0, 0)), 14),
            ("write to read, other rank", opened(write(0, 0)), far(read(0, 0)), 6 + rank),
            ("tRTP", opened(read(0, 0)), command(Pre, 0, 0, 0), 24),
            ("tRTP", opened(read(0, 0)), command(PreAll, 0, 0, 0), 24),
            ("tWR", opened(write(0, 0)), command(Pre, 0, 0, 0), 50 + 8 + 96),
            ("command bus", opened(read(0, 0)), command(Pre, 0, 1, 0), 2),
        ],
    );
    // A burst of a x8 device writes a whole word of its on-die error correction. A write need not
    // read the word first, so the shorter tCCD_L_WR2 applies.
    let options = Options { width: Some("x8".into()), ..Options::default() };
    let x8 = Device::by_name("rdimm-6400-2r", &options).expect("it comes with the tool");
    let mut checker = Checker::new(&x8);
    opened(write(0, 0)).iter().for_each(|command| assert_eq!(checker.check(command), Ok(())));
    let early = Command { at: 1031, ..write(0, 1) };
    assert_eq!(checker.clone().check(&early).expect_err("too early").rule, "tCCD_L_WR");
    assert_eq!(checker.check(&Command { at: 1032, ..write(0, 1) }), Ok(()));
}

#[test]
fn a_bank_that_closes_by_itself_is_closed_in_time() {
    let act = command(Act, 0, 0, 0);
    hold(
        "rdimm-6400-2r",
        vec![
            // The auto-precharge waits not only for tRTP (24) after the read at clock 52, but also
            // for tRAS (103) after the activation at clock 0. The next activation waits for tRP
            // (52) more. The limit counts from the read.
            ("tRP", vec![act, command(ReadAuto, 52, 0, 0)], act, 103 + 52 - 52),
            ("tRP", vec![act, command(ReadAuto, 200, 0, 0)], act, 24 + 52),
            ("tRP", vec![act, command(WriteAuto, 52, 0, 0)], act, 50 + 8 + 96 + 52),
            ("tRP", vec![act, command(ReadAuto, 200, 0, 0)], command(RefreshAll, 0, 0, 0), 76),
            ("tRP", vec![act, command(ReadAuto, 200, 0, 0)], command(RefreshSame, 0, 0, 0), 76),
        ],
    );
}

#[test]
fn refreshes_are_apart() {
    let all = command(RefreshAll, 0, 0, 0);
    let same = command(RefreshSame, 0, 0, 1);
    let act = command(Act, 0, 0, 1);
    let closing = |at| vec![command(Act, 0, 0, 1), command(Pre, at, 0, 1)];
    hold(
        "rdimm-6400-2r",
        vec![
            ("tRFC", vec![all], act, 944),
            ("tRFC", vec![all], all, 944),
            ("tRFC", vec![all], same, 944),
            ("tRFC", vec![all], command(Pre, 0, 0, 0), 944),
            ("tRFCsb", vec![same], act, 416),
            ("tRFCsb", vec![same], all, 416),
            ("tRFCsb", vec![same], command(RefreshSame, 0, 0, 2), 416),
            ("tREFSBRD", vec![same], command(Act, 0, 0, 0), 96),
            ("tRRD_L", vec![command(Act, 0, 0, 0)], same, 16),
            ("tRP", closing(200), all, 52),
            ("tRP", closing(200), same, 52),
        ],
    );
    let dense = Options { density: Some("32Gb".into()), ..Options::default() };
    let dense = Device::by_name("rdimm-6400-2r", &dense).expect("it comes with the tool");
    let mut checker = Checker::new(&dense);
    assert_eq!(checker.check(&all), Ok(()));
    let early = Command { at: 1311, ..act };
    assert_eq!(checker.clone().check(&early).expect_err("too early").limit, 1312);
    assert_eq!(checker.check(&Command { at: 1312, ..act }), Ok(()));
}

#[test]
fn pseudo_channels_share_the_direction_of_the_bus() {
    let pseudo = |at: u64, command: Command| Command { at, ..in_pseudo(1, command) };
    let acts = |kind| {
        vec![command(Act, 0, 0, 0), pseudo(1, command(Act, 0, 0, 0)), command(kind, 200, 0, 0)]
    };
    let (read, write) = (command(Read, 0, 0, 0), command(Write, 0, 0, 0));
    let rank = u64::from(device("mrdimm-8800-2r").timing.t_rank);
    // Two clocks of the host are one clock of the DRAM; the second pseudo-channel has the odd
    // clocks of the host. The bus turnaround puts a write command at least tCL + burst + t_turn -
    // tCWL = 36 + 8 + 4 - 34 = 14 clocks of the DRAM after a read command.
    hold(
        "mrdimm-8800-2r",
        vec![
            ("read to write, other rank", acts(Read), in_pseudo(1, write), 29),
            ("write to read, other rank", acts(Write), in_pseudo(1, read), 13 + 2 * rank),
            ("tRCD", vec![command(Act, 0, 0, 0)], read, 72),
            ("tRCD", vec![command(Act, 0, 0, 0)], write, 72),
        ],
    );
    let device = device("mrdimm-8800-2r");
    let mut checker = Checker::new(&device);
    acts(Read).iter().for_each(|command| assert_eq!(checker.check(command), Ok(())));
    // Reads of both pseudo-channels may overlap, because the transfers of one direction interleave.
    // The second pseudo-channel must issue its read at an odd clock of the host.
    assert_eq!(checker.clone().check(&pseudo(201, read)), Ok(()));
    let wrong = checker.check(&pseudo(202, read)).expect_err("that clock is the other's");
    assert_eq!(wrong.rule, "clock of another pseudo-channel");
}

#[test]
fn banks_must_be_open_or_closed_as_a_command_requires() {
    let device = device("rdimm-6400-2r");
    let open = vec![command(Act, 0, 0, 0)];
    let closed = vec![command(Act, 0, 0, 0), command(Pre, 500, 0, 0)];
    let cases = [
        ("bank is open", &open, command(Act, 900, 0, 0)),
        ("bank is open", &open, command(RefreshAll, 900, 0, 0)),
        ("bank is open", &open, command(RefreshSame, 900, 0, 0)),
        ("bank is closed", &closed, command(Read, 900, 0, 0)),
        ("bank is closed", &closed, command(Write, 900, 0, 0)),
        ("bank is closed", &open, command(Read, 900, 0, 1)),
        ("another row is open", &open, Command { row: 8, ..command(Read, 900, 0, 0) }),
        ("order of time", &closed, command(Act, 499, 1, 0)),
        ("no such place", &open, command(Act, 900, 8, 0)),
        ("no such place", &open, command(Act, 900, 0, 4)),
        ("no such place", &open, in_rank(2, command(Act, 900, 1, 0))),
        ("no such place", &open, in_pseudo(1, command(Act, 900, 1, 0))),
        ("no such place", &open, Command { row: 65536, ..command(Act, 900, 1, 0) }),
        ("no such place", &open, Command { column: 128, ..command(Read, 900, 0, 0) }),
    ];
    for (rule, before, later) in cases {
        let mut checker = Checker::new(&device);
        before.iter().for_each(|command| assert_eq!(checker.check(command), Ok(())));
        assert_eq!(checker.check(&later).expect_err(rule).rule, rule);
    }
    // While bank 0 of group 0 of rank 0 is open, a refresh of other banks of this rank is allowed,
    // and so is a refresh of rank 1.
    let mut checker = Checker::new(&device);
    open.iter().for_each(|command| assert_eq!(checker.check(command), Ok(())));
    assert_eq!(checker.check(&command(RefreshSame, 900, 0, 1)), Ok(()));
    assert_eq!(checker.check(&in_rank(1, command(RefreshAll, 901, 0, 0))), Ok(()));
}

#[test]
fn a_refresh_is_not_late() {
    let device = device("rdimm-6400-2r");
    // tREFI is 12480 clocks, and four refreshes may be postponed.
    let both = |checker: &mut Checker, at| {
        for rank in [0, 1] {
            let refresh = in_rank(rank, command(RefreshAll, at + u64::from(rank), 0, 0));
            assert_eq!(checker.check(&refresh), Ok(()));
        }
    };
    let mut never = Checker::new(&device);
    assert_eq!(never.finish(5 * 12480), Ok(()));
    assert_eq!(never.finish(5 * 12480 + 1).expect_err("late").rule, "tREFI, apart");
    let late = command(RefreshAll, 5 * 12480 + 1, 0, 0);
    assert_eq!(never.check(&late).expect_err("late").rule, "tREFI, apart");
    // The two refreshes are three tREFI apart, which is allowed. But just after seven tREFI, seven
    // refreshes are due and two were issued: five are postponed, and only four may be.
    let mut slow = Checker::new(&device);
    for turn in 1..=2 {
        both(&mut slow, turn * 3 * 12480 - 1);
    }
    assert_eq!(slow.finish(7 * 12480), Ok(()));
    let why = slow.check(&command(RefreshAll, 7 * 12480 + 1, 0, 0)).expect_err("late");
    assert_eq!((why.rule, why.cycles, why.limit), ("tREFI, owed", 5 * 12480 + 1, 5 * 12480));
    // Each refresh is issued when it becomes due, so no refresh is late until five intervals after
    // the last refresh.
    let mut good = Checker::new(&device);
    for turn in 1..100 {
        both(&mut good, turn * 12480);
    }
    assert_eq!(good.finish(104 * 12480), Ok(()));
    assert!(good.finish(104 * 12480 + 2).is_err());
    // Four same-bank refreshes refresh all banks, so each bank is refreshed every 6240 clocks, and
    // may be late by four such intervals.
    let mut banks = Checker::new(&device);
    for turn in 1..400_u64 {
        let bank = (turn % 4) as u8;
        for rank in [0, 1] {
            let at = turn * 1560 + u64::from(rank);
            assert_eq!(banks.check(&in_rank(rank, command(RefreshSame, at, 0, bank))), Ok(()));
        }
    }
    assert_eq!(banks.finish(400 * 1560), Ok(()));
    let late = banks.finish(400 * 1560 + 6 * 6240).expect_err("late");
    assert_eq!(late.limit, 5 * 6240);
    // A device without refresh is never late.
    let mut mram = Checker::new(&super::device("stt-mram-ddr3"));
    assert_eq!(mram.finish(u64::MAX), Ok(()));
}

#[test]
fn a_violation_names_rule_and_commands() {
    let mut checker = Checker::new(&device("rdimm-6400-2r"));
    let observed: &mut dyn Observer = &mut checker;
    observed.command(&command(Act, 10, 0, 1));
    observed.command(&command(Read, 61, 0, 1));
    observed.command(&command(Write, 300, 3, 1));
    let (count, kept) = checker.violations();
    assert_eq!((count, checker.commands()), (2, 3));
    assert_eq!(
        kept[0].to_string(),
        "tRCD: RD at 61 (pseudo-channel 0, rank 0, bank 0.1, row 7, column 0) after ACT at 10 \
         (pseudo-channel 0, rank 0, bank 0.1, row 7, column 0): 51 cycles, the limit is 52"
    );
    assert!(kept[1].to_string().starts_with("bank is closed: WR at 300"));
}
