//! Tests the sections about power in a card's file.

use crate::{
    card::{in_file, text_of},
    power::{PowerSpec, SaveSimulator},
};

fn text(name: &str) -> &'static str {
    text_of(name).expect("a card").1
}

/// Returns the error for the file of the card `name` in which the text `from` is replaced by `to`.
fn refused(name: &str, from: &str, to: &str) -> String {
    assert!(text(name).contains(from), "{from}");
    let changed = text(name).replacen(from, to, 1);
    in_file("my.toml", &changed).expect_err(to).to_string()
}

#[test]
fn wrong_sections_name_line_and_field() {
    let dram = [
        ("[\"12.5 F\"", "[\"0.001 F\"", "capacitor.capacitance: the capacitor is below any flush"),
        ("[\"35 C\"", "[\"75 C\"", "capacitor.age: the capacitor has no capacitance left after 5"),
        ("[\"2048 blocks\"", "[\"20 blocks\"", "save.blocks: the NAND has"),
        ("[\"2.5 V\"", "[\"5 V\"", "capacitor.cut_off: 5 V are not below the 5 V"),
        ("[\"85 %\"", "[\"120 %\"", "capacitor.efficiency: 120 % is not between 1 and 100"),
        ("[\"12.5 F\"", "[\"12.5\"", "capacitor.capacitance: \"12.5\" is not a number of F"),
        ("[\"8192 B\"", "[\"8000 B\"", "save.page: there are no pages of 8000 bytes"),
        ("[\"1300 us\"", "[\"1.3 ms\"", "save.program: \"1.3 ms\" is not a number of us"),
        ("[\"0.0244\"", "[\"1.5\"", "save.errors.factory_bad: 1.5 is not between 0 and 1"),
        ("[\"3 W\"", "[\"-3 W\"", "save.power.controller: -3 W is not between 0 and 1000"),
        ("order = \"address\"", "order = \"random\"", "save.order: \"random\" is not an order"),
        ("die_idle = ", "die_sleep = ", "unknown field `die_sleep`"),
        ("[\"1 pJ\", \"assumed: ", "[\"1 pJ\", \"", "is not a source of this file"),
        ("[save]\n", "[safe]\n", "unknown field `safe`"),
        ("data_bit = ", "hold_up = [\"1 ns\", \"pcie\"]\ndata_bit = ", "has its energy from"),
    ];
    let mram = [
        ("[\"20000 ns\"", "[\"20 ns\"", "power.hold_up: a hold-up of 20 ns is shorter than the"),
        ("hold_up = ", "# ", "power: a card with memory.durable = \"precharge\" needs power.hold"),
    ];
    let cases = dram.iter().map(|case| ("flashtec-dram", case));
    for (name, (from, to, part)) in cases.chain(mram.iter().map(|case| ("all-mram", case))) {
        let why = refused(name, from, to);
        assert!(why.starts_with("my.toml:") && why.contains(part), "{why}");
    }
}

#[test]
fn a_card_has_the_sections_of_its_medium_only() {
    let dram = text("flashtec-dram");
    let (start, end) = (dram.find("[capacitor]"), dram.len());
    let without = dram.replace(&dram[start.expect("a section")..end], "");
    let why = in_file("my.toml", &without).expect_err("no capacitor").to_string();
    assert!(why.contains("needs [capacitor]"), "{why}");
    let section = &dram[start.expect("a section")..];
    let sources = "[sources]\nmaxwell = \"a data sheet\"\n";
    let both = text("all-mram").replacen("[sources]\n", sources, 1) + section;
    let why = in_file("my.toml", &both).expect_err("a capacitor").to_string();
    assert!(why.contains("capacitor: a card with memory.durable = \"precharge\" saves"), "{why}");
}

#[test]
fn the_hold_up_of_built_in_cards_covers_many_rows() {
    for name in ["all-mram", "all-mram-1gb"] {
        match in_file("my.toml", text(name)).expect("valid").power {
            PowerSpec::Precharge { hold_up, row_fs } => {
                // A row of 512 bytes takes 8 bursts, tWR and tRP.
                assert!((100_000_000..200_000_000).contains(&row_fs), "{name}: {row_fs}");
                assert!(hold_up > 100 * row_fs, "{name}");
            }
            PowerSpec::Save(_) => panic!("{name} saves nothing"),
        }
    }
}

#[test]
fn extreme_values_are_refused_or_evaluated() {
    let replace = |pairs: &[(&str, &str)]| {
        pairs.iter().fold(text("flashtec-dram").to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        })
    };
    let refused = [
        (replace(&[("[\"2048 blocks\"", "[\"1048576 blocks\"")]), "blocks, at most 1048576"),
        (replace(&[("[\"1024 MiB\"", "[\"16384 MiB\"")]), "memory.capacity"),
    ];
    for (text, part) in &refused {
        let why = in_file("my.toml", text).expect_err(part).to_string();
        assert!(why.contains(part), "{why}");
    }
    let evaluated = [
        replace(&[("[\"4 channels\"", "[\"64 channels\"")]),
        replace(&[("[\"2 dies\"", "[\"32 dies\""), ("[\"200 MB/s\"", "[\"1 MB/s\"")]),
        replace(&[("[\"1300 us\"", "[\"1000000 us\"")]),
        replace(&[("[\"1e-4\"", "[\"1\"")]),
        replace(&[("[\"1e-6\"", "[\"1\"")]),
        replace(&[("[\"1e-6\"", "[\"1e-300\""), ("[\"1e-4\"", "[\"1e-300\"")]),
        replace(&[("[\"12.5 F\"", "[\"100000 F\"")]),
        replace(&[("[\"84 mOhm\"", "[\"500 mOhm\"")]),
    ];
    for text in evaluated {
        let card = in_file("my.toml", &text).expect("valid");
        let PowerSpec::Save(spec) = &card.power else { panic!("the card saves") };
        let mut save = SaveSimulator::new(spec, card.memory.capacity, 1);
        let (image, saved) = save.save(1);
        let (absent, restored) = save.restore(&image, 1);
        assert_eq!(restored.restored + absent.len() as u64, saved.pages);
        assert!(saved.energy_j <= save.usable_j() + 1e-6 && saved.seconds <= saved.needed_seconds);
        save.prepare(Some(&image), 1);
    }
}
