//! Compares throughput and latency with figures that are derived without the engine.

use super::*;

/// Returns the I/Os of 4 KiB per second that fill the link in the direction of the data, computed
/// from the PCI Express Base Specification and NVMe 1.1 without code of the engine.
fn link_limit(generation: u32, lanes: u32, payload: u32, write: bool) -> f64 {
    let lane_bytes = match generation {
        3 => 8e9 / 8.0 * 128.0 / 130.0 * (370.0 / 371.0),
        _ => 5e9 / 8.0 * 0.8 * (1180.0 / 1184.0),
    };
    let packets = f64::from(4096 / payload);
    // Each packet has 8 bytes of framing, sequence number and LCRC, and a header of 3 or 4 double
    // words (12 or 16 bytes).
    let (completion, write_header, read) = (8.0 + 12.0, 8.0 + 16.0, 8.0 + 16.0);
    let doorbell = write_header + 4.0;
    // A direction of the link also sends the answers to packets of the opposite direction: 8 bytes
    // of ACK and 8 bytes of UpdateFC for every two packets. On average this is 8 bytes per packet.
    let answers = |packets: f64| packets * 8.0;
    let bytes = if write {
        // The link to the card carries the data, the command, and a doorbell for each submission.
        // The command counts with a header of its own, although commands that are fetched together
        // share a header. The doorbells of completions, less than one for each I/O, are left out.
        // The link also carries the answers to 11 packets from the card: 8 reads of data, the read
        // of the command, the completion entry, an interrupt.
        4096.0 + packets * completion + 64.0 + completion + doorbell + answers(11.0)
    } else {
        // To the host go the data, the read of the command, the completion entry (16 bytes) and an
        // interrupt (a header of 12 bytes, because the address has 32 bits, and 4 bytes of data),
        // and the answers to 3 packets: the command and two doorbells.
        let entry = write_header + 16.0;
        let interrupt = 8.0 + 12.0 + 4.0;
        4096.0 + packets * write_header + read + entry + interrupt + answers(3.0)
    };
    lane_bytes * f64::from(lanes) / bytes
}

#[test]
fn the_link_limits_4_kib_where_the_arithmetic_says() {
    for (generation, lanes, payload) in [(3, 8, 256), (3, 8, 128), (3, 4, 256), (2, 8, 512)] {
        for (access, write) in [(Access::RandomWrite, true), (Access::RandomRead, false)] {
            let mut card = card("flashtec-dram");
            card.link.generation = generation;
            card.link.lanes = lanes;
            card.link.max_payload = payload;
            let settings = ideal(&[Component::Host]);
            let found = run(&card, &settings, group(access, 256), 20_000);
            let expected = link_limit(generation, lanes, payload, write);
            let error = found.iops() / expected - 1.0;
            let what = format!("{generation} x{lanes} {payload} {}", access.name());
            assert!(error.abs() < 0.02, "{what}: {} of {expected}", found.iops());
            let link = if write { "link down" } else { "link up" };
            assert_eq!(found.bound_by.name(), link, "{what}");
        }
    }
}

#[test]
fn flashtec_does_a_million_and_more_at_depth_256() {
    for access in [Access::RandomWrite, Access::RandomRead] {
        let found = run(&card("flashtec-dram"), &Settings::default(), group(access, 256), 20_000);
        assert!((1.0e6..1.8e6).contains(&found.iops()), "{} IOPS", found.iops());
        assert!(found.bound_by.name().starts_with("link"));
    }
}

#[test]
fn the_latency_of_one_read_is_the_sum_of_its_parts() {
    let card = card("all-mram");
    let found = run(&card, &Settings::default(), group(Access::RandomRead, 1), 2000);
    let t = card.memory.device.timing;
    let clock = 1.5;
    let byte = 1.0 / 7.8557;
    let (way, memory) = (125.0, 297.0);
    // The first terms of the expected latency: the submission (250 ns); the doorbell; the read of
    // the command. The 600 ns for decoding the command on a core are added in `expected`.
    let fetch = 250.0 + (28.0 * byte + way) + (24.0 * byte + way + memory + 84.0 * byte + way);
    // The terms of the memory: the first row and its ECC (20 ns). The further rows add no time,
    // because they are faster than the link.
    let rows = f64::from(t.t_rcd + 7 * t.t_ccd_s + t.cl + t.burst) * clock + 20.0;
    // The last terms of the expected latency: sixteen packets of data; the completion on a core
    // (300 ns); the completion queue entry and the interrupt on the link; the interrupt (1000 ns)
    // and the completion (200 ns) in the host.
    let data = 16.0 * 280.0 * byte;
    let finish = 300.0 + (40.0 + 24.0) * byte + way + 1000.0 + 200.0;
    let expected = fetch + 600.0 + rows + data + finish;
    let mean = found.read.lat.mean_ns();
    assert!((mean / expected - 1.0).abs() < 0.02, "{mean} ns of {expected}");
    assert_eq!(found.read.slat.max_ns(), 250);
}

#[test]
fn the_card_of_mram_is_as_fast_as_that_of_dram() {
    let settings = Settings::default();
    for access in [Access::RandomWrite, Access::RandomRead] {
        for depth in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
            let [dram, mram] = ["flashtec-dram", "all-mram"]
                .map(|name| run(&card(name), &settings, group(access, depth), 8000));
            let iops = mram.iops() / dram.iops() - 1.0;
            let latency = mram.mean_ns() / dram.mean_ns() - 1.0;
            let what = format!("{} at {depth}: {iops:.3} {latency:.3}", access.name());
            assert!(latency.abs() < 0.10, "{what}");
            // The tolerance is wider at low depths. At a low depth the latency sets the throughput,
            // and the latency of a write includes all rows of its atomic unit, which take longer in
            // STT-MRAM.
            assert!(iops.abs() < if depth < 32 { 0.07 } else { 0.03 }, "{what}");
        }
    }
}

#[test]
fn parts_of_1_gb_are_bound_by_their_bank_groups_in_a_mix() {
    // tCCD_L limits a bank group to 64 bytes in 5 clocks of 1.5 ns: 8.5 GB/s for both directions
    // together, less bank conflicts and turnarounds. For reads alone or writes alone, the link is
    // slower than the bank groups, so only a mix is bound by the memory.
    let of =
        |name, settings: &Settings, access| run(&card(name), settings, group(access, 256), 8000);
    let host = ideal(&[Component::Host]);
    for access in [Access::RandomWrite, Access::RandomRead] {
        let [dram, mram] = ["flashtec-dram", "all-mram-1gb"].map(|name| of(name, &host, access));
        assert!(mram.iops() > 0.97 * dram.iops(), "{} {}", access.name(), mram.iops());
    }
    let mixed = of("all-mram-1gb", &host, Access::RandomMixed);
    assert_eq!(mixed.bound_by.name(), "memory");
    let without = ideal(&[Component::Host, Component::Memory]);
    let without = of("all-mram-1gb", &without, Access::RandomMixed);
    assert!(without.iops() > 1.2 * mixed.iops(), "{} {}", without.iops(), mixed.iops());
}

#[test]
fn an_io_costs_few_events() {
    // The computing time of a simulation is proportional to its number of events. A write of 4 KiB
    // at low depth has 17 events; the limit of 18 leaves room for one more.
    for (access, most) in [(Access::RandomWrite, 18), (Access::RandomRead, 18)] {
        for depth in [1, 256] {
            let found = run(&card("all-mram"), &Settings::default(), group(access, depth), 8000);
            let events = found.events as f64 / found.completed as f64;
            assert!(events <= f64::from(most) + 0.5, "{} at {depth}: {events}", access.name());
        }
    }
}

/// A card needs a credit for each read request, and has the credit again after the round trip of
/// the request (2 x 125 ns on the link, 297 ns in host memory), so few credits bound the rate.
#[test]
fn few_credits_bound_the_rate_of_read_requests() {
    let mut card = card("flashtec-dram");
    // A write of 4 KiB has 8 requests of 512 bytes. The submission queue entries of all commands
    // that the controller fetches at once are one further request.
    let at = |credits: u32, card: &mut Card| {
        card.link.non_posted_headers = credits;
        run(card, &Settings::default(), group(Access::RandomWrite, 32), 4000)
    };
    let most = |credits: u32| f64::from(credits) / 547e-9 / 8.0;
    for credits in [1, 2, 4] {
        let found = at(credits, &mut card).iops() / most(credits);
        assert!((0.75..1.0).contains(&found), "{credits} credits: {found} of the most");
    }
    let all = at(64, &mut card).iops();
    assert!(at(8, &mut card).iops() <= all, "more I/Os with fewer credits");
    // The PRP list of a read of 1 MiB has 2040 bytes, so the card reads the list with 4 requests.
    // With one credit, three of them wait for a round trip of 547 ns each.
    let reads = Group { block_bytes: 1 << 20, ..group(Access::Read, 1) };
    let mut alone = |credits| {
        card.link.non_posted_headers = credits;
        run(&card, &Settings::default(), reads.clone(), 10).mean_ns()
    };
    let added = alone(1) - alone(4);
    assert!((3.0 * 547.0 - 20.0..3.0 * 547.0 + 20.0).contains(&added), "{added} ns");
}
