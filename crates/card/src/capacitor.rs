//! The super-capacitor that powers a save.
//!
//! # Energy
//!
//! A capacitor of C farads between the voltages V1 and V2 delivers
//!
//! ```text
//! E = 1/2 C (V1^2 - V2^2)
//! ```
//!
//! less the energy that its series resistance (ESR) and the converter dissipate. Let V be the inner
//! voltage (before the ESR), R the ESR and Vt the voltage at the terminals. A load of constant
//! power P draws the current I = P / Vt, and Vt = V - I R, hence Vt = (V + sqrt(V^2 - 4 P R)) / 2.
//! Of the energy that leaves the capacitor at V, the fraction Vt / V reaches the terminals. The
//! converter stops when the terminals are at V2.
//!
//! Example without ESR: 12.5 F from 5.0 V to 2.5 V deliver 117 J. A load behind a converter with an
//! efficiency of 85 % gets 100 J.
//!
//! # Ageing
//!
//! At the end of its life a super-capacitor has lost 30 % of its capacitance, and its ESR has
//! doubled. Data sheets give the life at one temperature, and as a rule of thumb (Arrhenius) the
//! life doubles for each 10 degrees below this temperature. In the model, capacitance and ESR
//! change linearly with the time in use. In makers' tests the capacitance falls faster at first, so
//! the model overestimates the capacitance in the middle of the life and is exact at its end.

/// A super-capacitor with its converter: the fields of section `[capacitor]` of a card's file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacitorSpec {
    /// Capacitance when new, F.
    pub farads: f64,
    /// Equivalent series resistance when new, ohm.
    pub esr_ohms: f64,
    /// Voltage when charged, V.
    pub charged_v: f64,
    /// Voltage at the terminals at which the converter stops, V.
    pub cut_off_v: f64,
    /// Efficiency of the converter: its output power divided by its input power, 0 to 1.
    pub efficiency: f64,
    /// Life of the capacitor at the temperature `life_celsius`, years.
    pub life_years: f64,
    /// Temperature for which the life is given, degrees Celsius.
    pub life_celsius: f64,
    /// Temperature of the capacitor in use, degrees Celsius.
    pub celsius: f64,
    /// Age at which the capacitor must still deliver the energy of a save, years.
    pub years: f64,
    /// Leakage current of the charged capacitor, A.
    pub leakage_a: f64,
}

/// Fraction of the capacitance that is lost at the end of the life (see "Ageing" in the module).
const CAPACITANCE_LOSS: f64 = 0.3;

/// Growth of the ESR up to the end of the life, as a fraction of the ESR when new (see "Ageing").
const ESR_GROWTH: f64 = 1.0;

/// Number of voltage steps in which [`CapacitorSpec::usable_j`] integrates the delivered energy.
/// With 256 steps the error is below 0.1 % (test `resistance_costs_energy_with_power`).
const STEPS: u32 = 256;

impl CapacitorSpec {
    /// Returns the life at the temperature in use (`celsius`), years.
    pub fn life_in_use(&self) -> f64 {
        self.life_years * libm::exp2((self.life_celsius - self.celsius) / 10.0)
    }

    /// Returns the capacitor at the age `years`: with less capacitance and more ESR than when new.
    pub fn aged(&self, years: f64) -> Self {
        let part = years / self.life_in_use();
        Self {
            farads: self.farads * (1.0 - CAPACITANCE_LOSS * part).max(0.0),
            esr_ohms: self.esr_ohms * (1.0 + ESR_GROWTH * part),
            ..*self
        }
    }

    /// Returns a capacitor with the fraction `part` of the capacitance and with the same ESR.
    pub fn scaled(&self, part: f64) -> Self {
        Self { farads: self.farads * part, ..*self }
    }

    /// Returns the energy that the capacitor stores between its charged and its cut-off voltage, J.
    pub fn stored_j(&self) -> f64 {
        0.5 * self.farads * (self.charged_v * self.charged_v - self.cut_off_v * self.cut_off_v)
    }

    /// Returns the energy that a load of `watts` behind the converter gets, J; 0 if the voltage at
    /// the terminals drops below the cut-off at once.
    pub fn usable_j(&self, watts: f64) -> f64 {
        let drawn = watts / self.efficiency;
        // The inner voltage (before the ESR) when the terminals are at the cut-off voltage, V.
        let stop = self.cut_off_v + drawn / self.cut_off_v * self.esr_ohms;
        if stop >= self.charged_v {
            return 0.0;
        }
        let step = (self.charged_v - stop) / f64::from(STEPS);
        let mut joules = 0.0;
        for index in 0..STEPS {
            let volts = stop + (f64::from(index) + 0.5) * step;
            let terminal = (volts + (volts * volts - 4.0 * drawn * self.esr_ohms).sqrt()) / 2.0;
            joules += self.farads * step * terminal;
        }
        joules * self.efficiency
    }

    /// Returns the time for which the capacitor powers a load of `watts` behind the converter, s;
    /// infinite for a load of 0.
    pub fn seconds(&self, watts: f64) -> f64 {
        if watts > 0.0 { self.usable_j(watts) / watts } else { f64::INFINITY }
    }

    /// Returns the power that the converter draws to replace the leakage of the capacitor, W.
    pub fn leakage_w(&self) -> f64 {
        self.leakage_a * self.charged_v / self.efficiency
    }
}
