//! In one boot, uses the card in all ways: probe, identify, transfers, queue depths, queues,
//! discard, file systems, resets.

use interleaf_card::card;

use super::*;

/// The events of a connection without faults.
const USUAL: [Event; 2] = [Event::Connected, Event::Disconnected(None)];

/// Steps that wait for the drive, because the driver probes it in the background.
const PROBED: &str = "until /sys/class/nvme/nvme0/state live\nuntil /proc/partitions nvme0n1\n";

const PCI: &str = "/sys/bus/pci/devices/0000:00:01.0";

/// Linux 6.12 uses a card with a latency, so the completions come from another thread of the
/// server.
#[test]
fn on_6_12() {
    let card = Box::new(card::by_name("flashtec-dram").unwrap());
    use_of_drive(
        LINUX_6_12,
        NvmeVersion::V1_1,
        Latency::Card { card, slow_down: 1, clock: Clock::Host },
    );
}

#[test]
fn on_newest() {
    use_of_drive(Series::Newest, NvmeVersion::V1_4, Latency::None);
}

fn use_of_drive(series: Series, version: NvmeVersion, latency: Latency) {
    let Some(bench) = Bench::new(series, settings(version, true), latency) else { return };
    let steps = [PROBED, PROPERTIES, TRANSFERS, RESETS].concat()
        + &[1, 2, 4, 8, 16, 32, 64, 128]
            .map(|depth| fio(&format!("--bs=4k --iodepth={depth} --size=1m")))
            .concat()
        + &fio("--bs=128k --iodepth=32 --size=8m --ioengine=io_uring")
        + &fio(TWO_QUEUES)
        + "read /proc/interrupts\n"
        + &file_system("ext4", "mke2fs -q -F -t ext4", "e2fsck -f -n", "")
        + &file_system("xfs", "mkfs.xfs -q -f", "xfs_repair -n", &bench.load_xfs());
    let record = bench.guest_record(&steps);
    all_succeeded(&record);
    properties(&record, version);
    refusals(&record);
    interrupts(&record);
    let events = bench.events.lock().unwrap();
    // The server may not have reported the end of the connection yet, so the check appends this
    // event.
    assert!([&events[..], &[Event::Disconnected(None)]].concat().starts_with(&USUAL), "{events:?}");
}

const PROPERTIES: &str = "\
    read /sys/class/nvme/nvme0/model\n\
    read /sys/class/nvme/nvme0/serial\n\
    read /sys/class/nvme/nvme0/firmware_rev\n\
    read /sys/class/nvme/nvme0/queue_count\n\
    read /sys/block/nvme0n1/size\n\
    read /sys/block/nvme0n1/queue/max_hw_sectors_kb\n\
    read /sys/block/nvme0n1/queue/write_cache\n\
    list /sys/block/nvme0n1/mq\n\
    list /sys/bus/pci/devices/0000:00:01.0/msi_irqs\n\
    read /sys/bus/pci/devices/0000:00:01.0/reset_method\n\
    run drive identify /dev/nvme0\n\
    run drive refuse /dev/nvme0\n";

/// Steps that write, discard and check ranges of the drive. The fills have different seeds, so that
/// a check detects stale data.
const TRANSFERS: &str = "\
    run drive fill /dev/nvme0n1 0 2MiB 7\n\
    run drive check /dev/nvme0n1 0 2MiB 7\n\
    run drive discard /dev/nvme0n1 256KiB 256KiB\n\
    run drive blank /dev/nvme0n1 256KiB 256KiB\n\
    run drive zero /dev/nvme0n1 1MiB 64KiB\n\
    run drive blank /dev/nvme0n1 1MiB 64KiB\n\
    run drive check /dev/nvme0n1 0 256KiB 7\n\
    run drive check /dev/nvme0n1 512KiB 512KiB 7\n\
    run drive fill /dev/nvme0n1 511MiB 1MiB 8\n";

/// Steps that reset the controller, reset the PCI function, and remove the device and let the
/// kernel find the device again. The contents of the drive survive each of these steps.
const RESETS: &str = "\
    write /sys/class/nvme/nvme0/reset_controller 1\n\
    until /sys/class/nvme/nvme0/state live\n\
    run drive check /dev/nvme0n1 511MiB 1MiB 8\n\
    write /sys/bus/pci/devices/0000:00:01.0/reset 1\n\
    until /sys/class/nvme/nvme0/state live\n\
    run drive check /dev/nvme0n1 511MiB 1MiB 8\n\
    write /sys/bus/pci/devices/0000:00:01.0/remove 1\n\
    write /sys/bus/pci/rescan 1\n\
    until /sys/class/nvme/nvme0/state live\n\
    until /proc/partitions nvme0n1\n\
    run drive check /dev/nvme0n1 511MiB 1MiB 8\n";

const TWO_QUEUES: &str = "\
    --bs=4k --iodepth=16 --size=512k --numjobs=2 --cpus_allowed=0-1 --cpus_allowed_policy=split \
    --offset_increment=16m";

/// Returns a step in which fio writes at random offsets and verifies the data.
fn fio(options: &str) -> String {
    let engine = if options.contains("ioengine") { "" } else { "--ioengine=libaio" };
    format!(
        "run fio --name=v --filename=/dev/nvme0n1 --thread --direct=1 --rw=randwrite \
         --verify=crc32c --minimal {engine} {options}\n"
    )
}

/// Returns steps that make a file system, use it and check it.
fn file_system(kind: &str, make: &str, check: &str, before: &str) -> String {
    format!(
        "{before}run {make} /dev/nvme0n1\n\
         run drive mount {kind} /dev/nvme0n1 /mnt\n\
         run fio --name=v --filename=/mnt/{kind} --thread --rw=randwrite --bs=4k --size=512k \
         --fsync=8 --verify=crc32c --minimal\n\
         run drive unmount /mnt\n\
         run {check} /dev/nvme0n1\n"
    )
}

fn properties(record: &Record, version: NvmeVersion) {
    let one = |path: &str| shown(record, &format!("read {path}"))[0].trim_end().to_string();
    assert_eq!(one("/sys/class/nvme/nvme0/model"), "Interleaf NVRAM card");
    assert_eq!(one("/sys/class/nvme/nvme0/serial"), "INTERLEAF-1");
    assert_eq!(one("/sys/class/nvme/nvme0/firmware_rev"), "1.0");
    // The driver creates an I/O queue for each of two processors, and the admin queue. Each queue
    // has an interrupt vector.
    assert_eq!(one("/sys/class/nvme/nvme0/queue_count"), "3");
    assert_eq!(shown(record, "list /sys/block/nvme0n1/mq"), ["0", "1"]);
    assert_eq!(shown(record, &format!("list {PCI}/msi_irqs")).len(), 3);
    assert_eq!(one("/sys/block/nvme0n1/size"), (512 * 2048).to_string());
    assert_eq!(one("/sys/block/nvme0n1/queue/max_hw_sectors_kb"), "128");
    assert_eq!(one("/sys/block/nvme0n1/queue/write_cache"), "write back");
    assert!(one(&format!("{PCI}/reset_method")).contains("flr"), "{record}");
    let expected = [
        "serial INTERLEAF-1",
        "model Interleaf NVRAM card",
        "firmware 1.0",
        match version {
            NvmeVersion::V1_1 => "version 0x0",
            NvmeVersion::V1_4 => "version 0x10400",
        },
        "transfer pages 32",
        "write cache 1",
        "blocks 1048576",
        "block bytes 512",
    ];
    assert_eq!(shown(record, "run drive identify /dev/nvme0"), expected);
}

/// Checks the status code type and the status code of each rejected command.
fn refusals(record: &Record) {
    let expected = [
        "admin opcode: 0x001",
        "identify structure: 0x002",
        "identify namespace: 0x00b",
        "log page: 0x109",
        "feature: 0x002",
        "delete of no queue: 0x101",
        "io opcode: 0x001",
        "last block: 0x080",
    ];
    assert_eq!(shown(record, "run drive refuse /dev/nvme0"), expected);
}

/// Checks that both I/O queues signalled their interrupt vectors.
fn interrupts(record: &Record) {
    for queue in ["nvme0q1", "nvme0q2"] {
        let mut lines = shown(record, "read /proc/interrupts").iter();
        let line = lines.find(|line| line.ends_with(queue)).unwrap();
        let counts = line.split_whitespace().skip(1).take(2);
        let total: u64 = counts.map(|count| count.parse::<u64>().unwrap()).sum();
        assert!(total > 0, "{line}");
    }
}
