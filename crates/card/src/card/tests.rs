use super::*;

fn flashtec() -> &'static str {
    text_of("flashtec-dram").unwrap().1
}

#[test]
fn the_built_in_cards_are_those_of_the_slides() {
    for name in names() {
        let card = Card::by_name(name).unwrap();
        assert_eq!(card.name, name);
        assert_eq!((card.link.generation, card.link.lanes), (3, 8), "{name}");
        assert_eq!((card.nvme.version, card.memory.channels), ((1, 1), 1), "{name}");
        assert_eq!(card.memory.capacity, 1 << 30, "{name}");
        let device = &card.memory.device;
        assert_eq!(device.bursts() * u64::from(device.burst_bytes()), 1 << 30, "{name}");
        let refresh = device.timing.t_refi > 0;
        assert_eq!(card.memory.durable == Durable::Save, refresh, "{name}");
    }
}

#[test]
fn a_card_that_cannot_work_is_refused_with_line_and_field() {
    let table = [
        ("lanes = [\"8\"", "lanes = [\"3\"", "link.lanes: there are no links of 3 lanes"),
        ("generation = [\"3\"", "generation = [\"6\"", "link.generation: 6 is not between 1 and 5"),
        ("max_payload = [\"256 B\"", "max_payload = [\"300 B\"", "300 is not a power of two"),
        ("[\"64 B\", \"pcie\"]", "[\"32 B\", \"pcie\"]", "link.read_completion_boundary: 32 B"),
        ("\"1024 credits\"", "\"8 credits\"", "8 credits are fewer than a transfer needs, 32"),
        ("\"17 vectors\"", "\"16 vectors\"", "nvme.vectors: 16 I/O queues and the admin queue"),
        ("version = [\"1.1\"", "version = [\"1.15\"", "nvme.version: there is no NVMe 1.15"),
        ("atomic_write = [\"4096 B\"", "atomic_write = [\"4000 B\"", "no whole number of blocks"),
        ("atomic_write = [\"4096 B\"", "atomic_write = [\"1536 B\"", "1536 is not a power of two"),
        ("\"131072 B\"", "\"65536 B\"", "do not hold an atomic write of each DMA engine, 131072"),
        ("cores = [\"4 cores\"", "cores = [\"1.5 cores\"", "controller.cores: \"1.5 cores\" is no"),
        ("\"131072 B\"", "\"100 B\"", "controller.buffers: 100 bytes hold no transfer of 512"),
        ("\"ddr3-1600\"", "\"ddr3-1601\"", "memory.module: there is no device \"ddr3-1601\""),
        ("\"ddr3-1600\"", "\"mrdimm-8800-2r\"", "memory.density: there is no ddr5 with a density"),
        ("\"1Gb\"", "\"3Gb\"", "memory.density: there is no ddr3 with a density of \"3Gb\""),
        ("\"x8\"", "\"x5\"", "memory.width: there is no ddr3 with a width of \"x5\""),
        ("ranks = [\"1 ranks\"", "ranks = [\"3 ranks\"", "memory.ranks: 3 ranks cannot be"),
        ("\"1024 MiB\"", "\"1025 MiB\"", "memory.capacity: 1025 MiB are more than the memory has"),
        ("durable = \"save\"", "durable = \"precharge\"", "needs refresh and loses its data"),
        ("durable = \"save\"", "durable = \"yes\"", "memory.durable: \"yes\" is not a way"),
        ("size = [\"1024 MiB\"", "size = [\"2048 MiB\"", "bar.size: no BAR of 2048 MiB maps"),
        ("page = [\"4096 B\"", "page = [\"5000 B\"", "bar.page: a page of 5000 bytes"),
        ("\"512 credits\"", "\"16 credits\"", "bar.posted_data: 16 credits hold no write"),
        ("submit = [\"250 ns\"", "submit = [\"250 us\"", "host.submit: \"250 us\" is not a number"),
        ("ecc = [", "eec = [", "unknown field `eec`"),
        ("interleaf.card/1", "interleaf.card/2", "schema: \"interleaf.card/2\" is not"),
        ("[\"8\", \"slides\"]", "[\"8\", \"me\"]", "\"me\" is not a source of this file"),
    ];
    for (from, to, expected) in table {
        assert!(flashtec().contains(from), "{from}");
        let why = in_file("my.toml", &flashtec().replacen(from, to, 1)).unwrap_err().to_string();
        assert!(why.starts_with("my.toml:"), "{why}");
        assert!(why.contains(expected), "{why}");
    }
    let why = Card::by_name("flashtec").unwrap_err();
    assert!(why.hint().contains("flashtec-dram, all-mram, all-mram-1gb"), "{}", why.hint());
}

#[test]
fn a_page_above_the_bar_is_refused() {
    let text = flashtec().replace("size = [\"1024 MiB\"", "size = [\"1 MiB\"");
    let text = text.replace("page = [\"4096 B\"", "page = [\"2097152 B\"");
    let why = in_file("my.toml", &text).unwrap_err().to_string();
    assert!(why.contains("bar.page: a page of 2097152 bytes does not fit a BAR of 1 MiB"), "{why}");
}
