//! Tests of the checker by mutation: commands that are timed by a table with one wrong value
//! violate the rules of the correct table.

use super::{walk::Walk, *};
use crate::dimm::device::Timing;

/// The name of a timing parameter, and a function that returns its field.
type Field = (&'static str, fn(&mut Timing) -> &mut u32);

/// The timing fields that are tested: with a smaller value of any of these fields, some command
/// comes too early.
pub(super) const FIELDS: [Field; 22] = [
    ("t_rcd", |t| &mut t.t_rcd),
    ("t_rp", |t| &mut t.t_rp),
    ("t_ras", |t| &mut t.t_ras),
    ("t_rc", |t| &mut t.t_rc),
    ("t_ccd_s", |t| &mut t.t_ccd_s),
    ("t_ccd_l", |t| &mut t.t_ccd_l),
    ("t_ccd_l_wr", |t| &mut t.t_ccd_l_wr),
    ("t_ccd_l_wr2", |t| &mut t.t_ccd_l_wr2),
    ("t_rrd_s", |t| &mut t.t_rrd_s),
    ("t_rrd_l", |t| &mut t.t_rrd_l),
    ("t_faw", |t| &mut t.t_faw),
    ("t_wtr_s", |t| &mut t.t_wtr_s),
    ("t_wtr_l", |t| &mut t.t_wtr_l),
    ("t_rtp", |t| &mut t.t_rtp),
    ("t_wr", |t| &mut t.t_wr),
    ("t_ppd", |t| &mut t.t_ppd),
    ("t_turn", |t| &mut t.t_turn),
    ("t_rank", |t| &mut t.t_rank),
    ("t_rfc", |t| &mut t.t_rfc),
    ("t_rfc_sb", |t| &mut t.t_rfc_sb),
    ("t_refsbrd", |t| &mut t.t_refsbrd),
    ("burst", |t| &mut t.burst),
];

/// Issues random commands as early as the tables of `broken` allow. Returns the first violation of
/// the rules of `good`; `None` without a violation.
fn is_caught(good: &Device, broken: &Device) -> Option<Violation> {
    (1..=4).find_map(|seed| {
        let mut walk = Walk::new(broken, seed);
        let mut checker = Checker::new(good);
        let mut found = None;
        for _ in 0..20_000 {
            walk.step(&mut |command| {
                found = found.or(checker.check(command).err());
            });
            if found.is_some() {
                break;
            }
        }
        found
    })
}

/// Returns a device with some longer timings, so that no rule implies another rule and each rule
/// can be violated alone. In the unchanged tables, tRC equals tRAS plus tRP, tCCD_S equals the
/// length of a burst, and tFAW of DDR5 is four tRRD_S.
fn with_room(name: &str, width: &str) -> Device {
    let options = Options { width: Some(width.into()), ..Options::default() };
    let mut device = Device::by_name(name, &options).expect("it comes with the tool");
    let timing = &mut device.timing;
    timing.t_rc += 5;
    timing.t_ccd_s += 1;
    timing.t_faw = timing.t_faw.max(4 * timing.t_rrd_s) + 6;
    device
}

#[test]
fn a_field_that_is_too_small_is_caught() {
    let devices = [("rdimm-6400-2r", "x4"), ("mrdimm-8800-4r", "x8"), ("ddr4-3200-2r", "x8")];
    let mut caught: Vec<&str> = vec![];
    for (name, width) in devices {
        let good = with_room(name, width);
        assert_eq!(is_caught(&good, &good), None);
        for (field, of) in FIELDS {
            let other_width = if width == "x4" { "t_ccd_l_wr2" } else { "t_ccd_l_wr" };
            let mut broken = good.clone();
            let value = of(&mut broken.timing);
            if *value == 0 || field == other_width {
                continue;
            }
            *value -= 1;
            let violation = is_caught(&good, &broken);
            assert!(violation.is_some(), "{field} of {name} {width} is not caught");
            caught.push(field);
        }
    }
    assert!(FIELDS.iter().all(|(field, _)| caught.contains(field)), "{caught:?}");
}

#[test]
fn missing_refreshes_are_caught() {
    let good = device("rdimm-6400-2r");
    let fields: [Field; 2] = [("all", |t| &mut t.t_refi), ("same", |t| &mut t.t_refi_sb)];
    for (_, of) in fields {
        let mut broken = good.clone();
        *of(&mut broken.timing) *= 7;
        let rule = is_caught(&good, &broken).expect("it is caught").rule;
        assert!(rule.starts_with("tREFI"), "{rule}");
    }
}
