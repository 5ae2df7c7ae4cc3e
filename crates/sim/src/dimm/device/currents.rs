//! Reads the supply currents of devices and modules from device files.

use super::{
    build::{Tables, one_of},
    file::{CurrentsOfWidth, Density},
    rule::quantity,
};
use crate::figures::Sourced;
use interleaf_model::format::FileError;

/// The currents of one device in microamperes, their measurement conditions, and figures of the
/// pins, the register and the data buffers of a module. Most fields are rows of data sheets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Currents {
    /// Supply voltage of the devices (VDD), mV.
    pub vdd_mv: u32,
    /// Supply voltage of the word lines (VPP), mV; 0 if they have no supply of their own.
    pub vpp_mv: u32,
    /// Current while one bank repeats activation and precharge (IDD0).
    pub idd0_ua: u32,
    /// Current in standby, all banks closed (IDD2N).
    pub idd2n_ua: u32,
    /// Current in power-down, all banks closed (IDD2P).
    pub idd2p_ua: u32,
    /// Current in standby, all banks open (IDD3N).
    pub idd3n_ua: u32,
    /// Current of continuous reads, all banks open (IDD4R).
    pub idd4r_ua: u32,
    /// Current of continuous writes, all banks open (IDD4W).
    pub idd4w_ua: u32,
    /// Current of repeated refreshes of all banks (IDD5B).
    pub idd5b_ua: u32,
    /// Current from VPP in the measurement of `idd0` (IPP0).
    pub ipp0_ua: u32,
    /// Current from VPP in the measurement of `idd2n` (IPP2N).
    pub ipp2n_ua: u32,
    /// Current from VPP in the measurement of `idd3n` (IPP3N).
    pub ipp3n_ua: u32,
    /// Current from VPP in the measurement of `idd4r` (IPP4R).
    pub ipp4r_ua: u32,
    /// Current from VPP in the measurement of `idd4w` (IPP4W).
    pub ipp4w_ua: u32,
    /// Current from VPP in the measurement of `idd5b` (IPP5B).
    pub ipp5b_ua: u32,
    /// tRAS in the measurement of `idd0`, ps.
    pub t_ras_ps: u64,
    /// tRC in the measurement of `idd0`, ps.
    pub t_rc_ps: u64,
    /// Duration of a burst in the measurement of `idd4r` and `idd4w`, ps.
    pub burst_ps: u64,
    /// Output resistance of a pin's driver, milliohm; 0 if the pins are not modelled.
    pub driver_mohm: u32,
    /// Termination resistance of the addressed rank, milliohm.
    pub termination_mohm: u32,
    /// Termination resistance of each other rank on the same pins, milliohm; 0 for none.
    pub termination_other_mohm: u32,
    /// Power of the register (RCD) of a module that is not multiplexed (RDIMM), mW; 0 for a module
    /// without a register.
    pub register_mw: u32,
    /// Constant power of the register and the data buffers of a multiplexed module, mW.
    pub multiplexer_mw: u32,
    /// Energy of the data buffers per bit, fJ.
    pub multiplexer_bit_fj: u32,
}

impl Tables<'_> {
    /// Returns the currents of devices of the width `width`; `None` if the file has none for this
    /// width.
    pub(super) fn currents(
        &self,
        width: &str,
        density: &Density,
    ) -> Result<Option<Currents>, FileError> {
        let Some(own) = &self.file.currents else { return Ok(None) };
        let Some(of) = own.width.iter().find(|of| of.name.get_ref() == width) else {
            return Ok(None);
        };
        let speeds = &self.file.speed;
        let names = || speeds.iter().map(|speed| speed.rate.get_ref().as_str()).collect::<Vec<_>>();
        let speed = speeds.iter().find(|speed| speed.rate.get_ref() == own.rate.get_ref());
        let speed = speed.ok_or_else(|| {
            let problem = format!("there is no speed \"{}\" in this file", own.rate.get_ref());
            self.text.error("currents.rate", &own.rate, problem, one_of(&names()))
        })?;
        let rate = self.rate("currents.rate", &own.rate)?;
        let timing = self.timing(speed, density, rate)?;
        let ps = |clocks: u32| u64::from(clocks) * 2_000_000_000 / rate;
        let of_module = |name: &str, pair: &Option<Sourced>, unit: &str| {
            let field = format!("currents.{name}");
            pair.as_ref().map_or(Ok(0), |pair| self.thousandths(&field, pair, unit))
        };
        Ok(Some(Currents {
            vdd_mv: self.thousandths("currents.vdd", &own.vdd, "V")?,
            vpp_mv: of_module("vpp", &own.vpp, "V")?,
            t_ras_ps: ps(timing.t_ras),
            t_rc_ps: ps(timing.t_rc),
            burst_ps: ps(timing.burst),
            driver_mohm: of_module("driver", &own.driver, "ohm")?,
            termination_mohm: of_module("termination", &own.termination, "ohm")?,
            termination_other_mohm: of_module("termination_other", &own.termination_other, "ohm")?,
            register_mw: of_module("register", &own.register, "W")?,
            multiplexer_mw: of_module("multiplexer", &own.multiplexer, "W")?,
            multiplexer_bit_fj: of_module("multiplexer_bit", &own.multiplexer_bit, "pJ")?,
            ..self.of_device(of)?
        }))
    }

    fn of_device(&self, of: &CurrentsOfWidth) -> Result<Currents, FileError> {
        let amperes = |name: &str, pair: &Sourced| {
            self.thousandths(&format!("currents.width.{name}"), pair, "mA")
        };
        let some = |name: &str, pair: &Option<Sourced>| {
            pair.as_ref().map_or(Ok(0), |pair| amperes(name, pair))
        };
        Ok(Currents {
            idd0_ua: amperes("idd0", &of.idd0)?,
            idd2n_ua: amperes("idd2n", &of.idd2n)?,
            idd2p_ua: amperes("idd2p", &of.idd2p)?,
            idd3n_ua: amperes("idd3n", &of.idd3n)?,
            idd4r_ua: amperes("idd4r", &of.idd4r)?,
            idd4w_ua: amperes("idd4w", &of.idd4w)?,
            idd5b_ua: amperes("idd5b", &of.idd5b)?,
            ipp0_ua: some("ipp0", &of.ipp0)?,
            ipp2n_ua: some("ipp2n", &of.ipp2n)?,
            ipp3n_ua: some("ipp3n", &of.ipp3n)?,
            ipp4r_ua: some("ipp4r", &of.ipp4r)?,
            ipp4w_ua: some("ipp4w", &of.ipp4w)?,
            ipp5b_ua: some("ipp5b", &of.ipp5b)?,
            ..Currents::default()
        })
    }

    /// Reads the value of a pair `[value, source]`, in thousandths of `unit`.
    fn thousandths(&self, field: &str, pair: &Sourced, unit: &str) -> Result<u32, FileError> {
        let value = self.value(field, pair)?;
        let found = quantity(value, unit)
            .and_then(|number| u32::try_from(number).map_err(|_| format!("{value} is too much")));
        let hint = format!("write a quantity such as 1.1 {unit}");
        found.map_err(|why| self.text.error(field, pair, why, hint))
    }
}
