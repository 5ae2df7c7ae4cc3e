use super::*;
use crate::dimm::device::Options;

fn drawing(name: &str, limit: u64) -> Drawing {
    let device = Device::by_name(name, &Options::default()).expect("it comes with the tool");
    Drawing::new(&device, 0, limit)
}

fn command(kind: Kind, at: u64, bank: u8) -> Command {
    Command { at, kind, pseudo: 0, rank: 0, bank_group: 1, bank, row: 9, column: 2 }
}

#[test]
fn rows_data_and_refreshes_are_bars() {
    let mut drawing = drawing("rdimm-6400-2r", COMMANDS_MAX);
    drawing.command(&command(Kind::Activate, 16, 0));
    drawing.command(&command(Kind::Read, 68, 0));
    drawing.command(&command(Kind::Precharge, 144, 0));
    drawing.command(&command(Kind::RefreshAll, 320, 0));
    drawing.command(&command(Kind::Activate, 1600, 3));
    assert_eq!(drawing.commands(), (5, 0));
    let text = json([drawing]);
    // A clock is 312.5 ps. The row is open for 128 clocks from clock 16. The data begin 52 clocks
    // after the read and take 8 clocks. The refresh takes 944 clocks. The last row stays open, so
    // its bar ends with the picture, after the two command slots of its activation.
    for bar in [
        "\"name\":\"row 9\",\"pid\":0,\"tid\":65552,\"ts\":0.005000,\"dur\":0.040000",
        "\"name\":\"read\",\"pid\":0,\"tid\":2,\"ts\":0.037500,\"dur\":0.002500",
        "\"name\":\"REFab\",\"pid\":0,\"tid\":16,\"ts\":0.100000,\"dur\":0.295000",
        "\"name\":\"row 9\",\"pid\":0,\"tid\":65555,\"ts\":0.500000,\"dur\":0.000625",
        "\"name\":\"ACT\",\"pid\":0,\"tid\":1,\"ts\":0.005000,\"dur\":0.000625",
        "\"args\":{\"name\":\"pseudo-channel 0, rank 0, bank 1.3\"}",
        "\"args\":{\"clock\":68,\"pseudo\":0,\"rank\":0,\"group\":1,\"bank\":0,\"row\":9,\
         \"column\":2}",
    ] {
        assert!(text.contains(bar), "{bar} is not in\n{text}");
    }
    assert!(text.starts_with("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{"));
    assert!(text.ends_with("}}\n]}\n"), "{text}");
    assert_eq!(text.matches("\"ph\":\"X\"").count(), 9);
}

#[test]
fn a_bank_that_closes_by_itself_does_so_in_the_picture() {
    let mut drawing = drawing("mrdimm-8800-2r", COMMANDS_MAX);
    drawing.command(&command(Kind::Activate, 0, 0));
    drawing.command(&command(Kind::WriteAuto, 144, 0));
    drawing.command(&command(Kind::PrechargeAll, 900, 0));
    let text = json([drawing]);
    // The row closes CWL (34), a burst (8) and tWR (66) after the write at 144. These are clocks of
    // the DRAM, each of two clocks of the host.
    let open = (144 + 2 * (34 + 8 + 66)) as f64 / 4400.0;
    assert!(text.contains(&format!("\"ts\":0.000000,\"dur\":{open:.6}")), "{text}");
    assert_eq!(text.matches("\"name\":\"row 9\"").count(), 1);
}

#[test]
fn a_drawing_stops_at_its_limit() {
    let mut drawing = drawing("ddr4-3200-2r", 3);
    (0..10).for_each(|at| drawing.command(&command(Kind::Precharge, at, 0)));
    assert_eq!(drawing.commands(), (10, 7));
    let text = json([drawing.clone(), Drawing { process: 1, ..drawing }]);
    assert_eq!(text.matches("\"name\":\"PRE\"").count(), 6);
    assert!(text.contains("\"name\":\"sub-channel 1\""));
}
