//! Renders a document of any schema as Markdown and CSV. Most documents have a
//! [`Page`](crate::page::Page), from which both Markdown and HTML are made; the modules of the
//! other documents make Markdown and HTML themselves.

use super::{
    balance, bench, bench_compare, card, card_cost, card_test, compare_records, compare_runs, dimm,
    extend, measure, measure_app, plan, predict, reproduce, run, show, show_machine,
    simulate_machine, sweep, tune,
};
use interleaf_record::Document;

/// Renders the document as Markdown.
pub fn markdown(document: &Document) -> String {
    match document {
        Document::Predict(document) => predict::markdown(document),
        Document::Plan(document) => plan::markdown(document),
        Document::Reproduce(document) => reproduce::markdown(document),
        Document::Machine(document) => simulate_machine::markdown(document),
        Document::Dimm(document) => dimm::markdown(document),
        Document::Card(document) => card::markdown(document),
        Document::Measure(document) => measure::markdown(document),
        Document::Compare(document) => compare_records::markdown(document),
        Document::CompareRuns(document) => compare_runs::markdown(document),
        Document::Profile(document) => measure_app::markdown(document),
        Document::Bench(document) => bench_compare::markdown(document),
        Document::BenchRun(document) => bench::page(document).markdown(),
        Document::Extend(document) => extend::page(document).markdown(),
        Document::ExtendForecast(document) => extend::forecast_page(document).markdown(),
        Document::ExtendPlan(document) => extend::plan_page(document).markdown(),
        Document::Tune(document) => tune::page(document).markdown(),
        Document::Run(document) => run::page(document).markdown(),
        Document::Balance(document) => balance::page(document).markdown(),
        Document::BalancePlan(document) => balance::plan_page(document).markdown(),
        Document::Advice(document) => balance::advice_page(document).markdown(),
        Document::CardTest(document) => card_test::page(document).markdown(),
        Document::CardCost(document) => card_cost::page(document).markdown(),
        Document::Doctor(document) => show_machine::doctor_page(document).markdown(),
        Document::ShowMachine(document) => show_machine::page(document).markdown(),
        Document::ShowPlatform(document) => show::page(document).markdown(),
        Document::Sweep(document) => sweep::page(document).markdown(),
        Document::DimmSweep(document) => sweep::dimm::page(document).markdown(),
    }
}

/// Renders the main table of the document as CSV.
pub fn csv(document: &Document) -> String {
    match document {
        Document::Predict(document) => predict::csv(document),
        Document::Plan(document) => plan::csv(document),
        Document::Reproduce(document) => reproduce::csv(document),
        Document::Machine(document) => simulate_machine::csv(document),
        Document::Dimm(document) => dimm::csv(document),
        Document::Card(document) => card::csv(document),
        Document::Measure(document) => measure::csv(document),
        Document::Compare(document) => compare_records::csv(document),
        Document::CompareRuns(document) => compare_runs::csv(document),
        Document::Profile(document) => measure_app::csv(document),
        Document::Bench(document) => bench_compare::csv(document),
        Document::BenchRun(document) => bench::csv(document),
        Document::Extend(document) => extend::csv(document),
        Document::ExtendForecast(document) => extend::forecast_csv(document),
        Document::ExtendPlan(document) => extend::plan_csv(document),
        Document::Tune(document) => tune::csv(document),
        Document::Run(document) => run::csv(document),
        Document::Balance(document) => balance::csv(document.last_periods()),
        Document::BalancePlan(document) => balance::plan_csv(document),
        Document::Advice(document) => balance::advice_csv(std::slice::from_ref(document)),
        Document::CardTest(document) => card_test::csv(document),
        Document::CardCost(document) => card_cost::csv(document),
        Document::Doctor(document) => show_machine::doctor_csv(document),
        Document::ShowMachine(document) => show_machine::csv(document),
        Document::ShowPlatform(document) => show::csv(document),
        Document::Sweep(document) => sweep::csv(document),
        Document::DimmSweep(document) => sweep::dimm::csv(document),
    }
}
