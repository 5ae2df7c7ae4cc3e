//! Tests the scheduler of the DIMM simulation: the independent checker checks its commands.
//!
//! Every module is run with densities, widths, mixes, patterns, layouts, policies and queues drawn
//! at random: no command violates a rule. Then tables are changed one field at a time: the
//! scheduler uses the changed table, and the checker, which has the correct table, reports a
//! violation.
//!
//! The number of commands is bounded, so these are ordinary tests. The bench `dimm_check` does the
//! same with 10^8 commands.

#[path = "common/checked.rs"]
mod checked;

use checked::{Setup, run};
use interleaf_sim::dimm::device::{Device, Options, names};

#[test]
fn no_command_breaks_a_rule() {
    let mut commands = 0;
    for (number, name) in names().iter().enumerate() {
        for seed in 0..3 {
            let setup = Setup::random(name, 100 * number as u64 + seed);
            let (checked, violations) = run(&setup.device, &setup, 12_000);
            assert!(violations.is_empty(), "{setup:?}\n{}", violations[0]);
            commands += checked;
        }
    }
    assert!(commands > 1_000_000, "{commands}");
}

/// A change of a device's tables: the name of the change, and the function that makes the change.
type Break = (&'static str, fn(&mut Device));

macro_rules! shorter {
    ($($field:ident)*) => {
        [$((stringify!($field), |device: &mut Device| shorten(&mut device.timing.$field))),*]
    };
}

fn shorten(clocks: &mut u32) {
    *clocks = clocks.saturating_sub(1);
}

/// Every timing parameter except the refresh intervals, which are in [`OTHER`], one clock shorter.
const SHORTER: [Break; 24] = shorter!(
    cl cwl burst t_rcd t_rp t_ras t_rc t_ccd_s t_ccd_l t_ccd_l_wr t_ccd_l_wr2 t_rrd_s t_rrd_l t_faw
    t_wtr_s t_wtr_l t_rtp t_wr t_ppd t_turn t_rank t_rfc t_rfc_sb t_refsbrd
);

/// Changes of the tables beyond [`SHORTER`], each of which makes the scheduler violate a rule of
/// the unchanged tables.
const OTHER: [Break; 7] = [
    ("t_refi", |device| device.timing.t_refi *= 7),
    ("t_refi_sb", |device| device.timing.t_refi_sb *= 7),
    ("activate_slots", |device| device.activate_slots = 1),
    ("access_slots", |device| device.access_slots = 1),
    ("rows", |device| device.rows *= 2),
    ("ranks", |device| device.ranks *= 2),
    ("width", |device| device.width = 12 - device.width),
];

/// Modules of every kind: with and without bank groups, with one and two pseudo-channels, with
/// devices of both widths (x4, x8).
const MODULES: [(&str, Option<&str>); 5] = [
    ("rdimm-6400-2r", Some("x4")),
    ("mrdimm-8800-4r", Some("x8")),
    ("mrdimm-12800-2r", Some("x4")),
    ("ddr4-3200-2r", None),
    ("ddr3-1600", None),
];

/// Returns a module with some longer timings, so that each rule can be violated alone. In the
/// unchanged tables, tRC equals tRAS plus tRP, tCCD_S equals the length of a burst, and tFAW of
/// DDR5 is four tRRD_S.
fn with_room(name: &str, width: Option<&str>) -> Device {
    let options = Options { width: width.map(Into::into), ..Options::default() };
    let mut device = Device::by_name(name, &options).expect("it comes with the tool");
    let timing = &mut device.timing;
    timing.t_rc += 5;
    timing.t_ccd_s += 1;
    timing.t_faw = timing.t_faw.max(4 * timing.t_rrd_s) + 6;
    device
}

/// Returns true if commands scheduled by the changed tables violate the correct tables in some run.
fn is_caught(good: &Device, broken: &Device) -> bool {
    (0..24).any(|seed| {
        let mut setup = Setup::random("rdimm-6400-2r", seed);
        setup.device = broken.clone();
        // A run of 6000 accesses is long enough for a refresh to be late, if the changed tables
        // allow a late refresh.
        !run(good, &setup, 6_000).1.is_empty()
    })
}

#[test]
fn broken_tables_are_caught() {
    let mut hidden: Vec<&str> = vec![];
    for (what, breaks) in SHORTER.into_iter().chain(OTHER) {
        let caught = MODULES.iter().any(|(name, width)| {
            let good = with_room(name, *width);
            let mut broken = good.clone();
            breaks(&mut broken);
            broken != good && is_caught(&good, &broken)
        });
        if !caught {
            hidden.push(what);
        }
    }
    assert!(hidden.is_empty(), "not caught: {hidden:?}");
}

#[test]
fn good_tables_with_room_are_not() {
    for (name, width) in MODULES {
        let good = with_room(name, width);
        assert!(!is_caught(&good, &good), "{name}");
    }
}

#[test]
fn a_field_is_caught_on_each_module_that_needs_it() {
    let needless = |device: &Device, what: &str| match what {
        "t_ccd_l_wr" => device.width != 4,
        "t_ccd_l_wr2" => device.width == 4,
        // A shorter t_ppd is not tested on each module: two precharges so close to each other are
        // too rare for these short runs.
        "t_ppd" => true,
        "t_refsbrd" | "t_rfc_sb" => device.timing.t_refi_sb == 0,
        _ => false,
    };
    for (name, width) in [MODULES[0], MODULES[1], MODULES[3]] {
        let good = with_room(name, width);
        for (what, breaks) in SHORTER {
            let mut broken = good.clone();
            breaks(&mut broken);
            if broken != good && !needless(&good, what) {
                assert!(is_caught(&good, &broken), "{what} of {name}");
            }
        }
    }
}
