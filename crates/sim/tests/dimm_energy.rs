//! Compares the power of modules under load with published figures.

use interleaf_sim::dimm::{
    closed_loop::Pattern,
    device::{Device, Options},
    energy::{CommandCounts, Energy},
    run::Setup,
};

/// Returns the energy of a run on a module with 16 Gb devices at the total bandwidth `gbps`, or at
/// the maximum bandwidth if `gbps` is `None`. Only one of the two sub-channels of the module is
/// simulated, and its energy is doubled.
fn power(name: &str, width: &str, gbps: Option<f64>, mix: &str) -> Energy {
    let options = Options { width: Some(width.into()), ..Options::default() };
    let device = Device::by_name(name, &options).expect("it comes with the tool");
    let mix = mix.parse().expect("it is a mix");
    let setup = Setup { pattern: Pattern::Stream, mix, ..Setup::new(device, 1) };
    let mut counts = CommandCounts::new(&setup.device);
    let part = setup.part(0, gbps, 20_000, &mut counts, &|_| ());
    let end = part.end_clock * setup.device.host_clocks;
    let energy = counts.energy(end).expect("its currents are known");
    energy.and(&energy)
}

/// Micron's report: "an average 64 GB 4Rx8 MRDIMM delivers up to 10 % lower DRAM power than a 64 GB
/// 2Rx4". Both have 40 devices; an access uses five devices of the 4Rx8 module, and ten of the
/// 2Rx4. By data sheets the difference is a tenth at the average load of programs, and larger at
/// higher load.
#[test]
fn fewer_wider_devices_draw_less() {
    for mix in ["R", "W3", "W5"] {
        let less = |gbps: Option<f64>| {
            let narrow = power("mrdimm-8800-2r", "x4", gbps, mix).power_w();
            let wide = power("mrdimm-8800-4r", "x8", gbps, mix).power_w();
            1.0 - wide / narrow
        };
        let (idle, average, full) = (less(Some(0.1)), less(Some(10.0)), less(Some(40.0)));
        assert!((0.0..0.01).contains(&idle), "{mix}: {idle}");
        assert!((0.06..0.12).contains(&average), "{mix}: {average}");
        assert!((average..0.27).contains(&full), "{mix}: {full}");
    }
}

/// Modules of 64 GB draw 5 to 8 W idle, and about 20 W at most (as Micron showed for an MCR DIMM).
/// At the same bandwidth, an MRDIMM draws up to 15 % more power than an RDIMM.
#[test]
fn module_power_is_in_the_published_range() {
    for mix in ["R", "W5"] {
        let mrdimm = power("mrdimm-8800-2r", "x4", None, mix);
        assert!((15.0..24.0).contains(&mrdimm.power_w()), "{mix}: {}", mrdimm.power_w());
        assert!((35.0..60.0).contains(&mrdimm.pj_per_bit()), "{mix}: {}", mrdimm.pj_per_bit());
        for gbps in [1.0, 10.0, 30.0] {
            let other = power("rdimm-6400-2r", "x4", Some(gbps), mix).power_w();
            let mrdimm = power("mrdimm-8800-2r", "x4", Some(gbps), mix).power_w();
            assert!((1.0..1.15).contains(&(mrdimm / other)), "{mix} {gbps}: {mrdimm} {other}");
        }
        let idle = power("rdimm-6400-2r", "x4", Some(0.1), mix).power_w();
        assert!((5.0..8.0).contains(&idle), "{idle}");
    }
}
