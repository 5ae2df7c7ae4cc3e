//! Tests of the files in `packaging/`. The systemd unit has the settings that the daemon needs, and
//! systemd, if it is installed, accepts the unit. The manifest for Kubernetes has a configuration
//! that the daemon accepts, and the same rights as the unit.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod promtool;

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    process::Command,
};

/// Maximum exposure of the unit, as `systemd-analyze security` computes it, in tenths: 0 is a
/// hardened unit, and 100 an exposed one.
const EXPOSURE_MAX: &str = "30";

fn in_tree(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(path).canonicalize().unwrap().display().to_string()
}

fn unit() -> String {
    fs::read_to_string(in_tree("packaging/interleaf-balance.service")).unwrap()
}

/// The unit names pages as its documentation. For each of them, `docs/operate.md` must have a
/// command that installs the page.
#[test]
fn the_documentation_that_the_unit_names_is_installed() {
    let operate = fs::read_to_string(in_tree("docs/operate.md")).unwrap();
    let unit = unit();
    let named = unit.lines().find_map(|line| line.strip_prefix("Documentation=")).unwrap();
    for uri in named.split_whitespace() {
        let path = uri.strip_prefix("file://").unwrap();
        let name = path.rsplit_once('/').unwrap().1;
        let command = format!("install -D -m 644 docs/{name} {path}");
        assert!(operate.contains(&command), "no `{command}` in docs/operate.md");
        assert!(Path::new(&in_tree(&format!("docs/{name}"))).is_file());
    }
}

#[test]
fn the_alerts_fire_when_they_should() {
    promtool::finds_nothing_wrong(
        &["check", "rules", &in_tree("packaging/interleaf-alerts.yml")],
        "",
    );
    let tests = in_tree("packaging/interleaf-alerts-test.yml");
    promtool::finds_nothing_wrong(&["test", "rules", &tests], "");
    // Each alert has a severity, and the documentation describes each alert.
    let alerts = fs::read_to_string(in_tree("packaging/interleaf-alerts.yml")).unwrap();
    let operate = fs::read_to_string(in_tree("docs/operate.md")).unwrap();
    let names: Vec<&str> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert_eq!(alerts.matches("severity: ").count(), names.len());
    for name in names {
        assert!(operate.contains(&format!("`{name}`")), "{name} is not in docs/operate.md");
    }
}

#[test]
fn the_unit_has_the_settings_that_the_daemon_needs() {
    let unit = unit();
    let lines = [
        "Type=notify",
        "ExecStart=/usr/local/bin/interleaf balance --config /etc/interleaf/balance.toml",
        "ExecStopPost=/usr/local/bin/interleaf balance --restore",
        "RuntimeDirectory=interleaf",
        "RuntimeDirectoryMode=0755",
        "RuntimeDirectoryPreserve=yes",
        "Restart=on-failure",
    ];
    for line in lines {
        assert!(unit.lines().any(|it| it == line), "{line} is not in\n{unit}");
    }
    // The daemon must send a keep-alive message within the time `WatchdogSec`. It sends one at each
    // sample, at least every 60 s. `WatchdogSec` must be longer than two such intervals.
    let watchdog = unit.lines().find_map(|line| line.strip_prefix("WatchdogSec="));
    assert!(watchdog.unwrap().parse::<u32>().unwrap() >= 150);
    // Each of these settings would prevent the daemon from writing kernel settings.
    for line in ["ProtectKernelTunables=yes", "PrivateUsers=yes", "ProtectProc=invisible"] {
        assert!(!unit.lines().any(|it| it == line), "{line}");
    }
}

/// `systemd-analyze` must accept the unit. The checked copy starts the program of this build.
#[test]
fn systemd_understands_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("interleaf-balance.service");
    let program = env!("CARGO_BIN_EXE_interleaf");
    fs::write(&path, unit().replace("/usr/local/bin/interleaf", program)).unwrap();
    let analyze = |args: &[&str]| Command::new("systemd-analyze").args(args).arg(&path).output();
    let verified = match analyze(&["--man=no", "verify"]) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            writeln!(io::stderr(), "NOT TESTED: there is no systemd-analyze").unwrap();
            return;
        }
        verified => verified.unwrap(),
    };
    let message = String::from_utf8_lossy(&verified.stderr);
    let ours: Vec<&str> = message.lines().filter(|line| line.contains("interleaf")).collect();
    assert!(verified.status.success() && ours.is_empty(), "{message}");
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let rated = analyze(&["security", "--offline=true", &threshold]).unwrap();
    assert!(rated.status.success(), "{}", String::from_utf8_lossy(&rated.stdout));
}

/// The Kubernetes manifest must have a configuration that the daemon accepts, and the same rights
/// as the unit. The checks by `kubernetes-validate --strict` and `hadolint` are manual
/// (docs/install.md).
#[test]
fn the_manifest_for_kubernetes_is_like_the_unit() {
    let manifest = fs::read_to_string(in_tree("packaging/kubernetes.yaml")).unwrap();
    let (_, config) = manifest.split_once("  balance.toml: |\n").unwrap();
    let config = config.split("\n---").next().unwrap();
    let config: Vec<&str> = config.lines().map(|line| line.trim_start_matches("    ")).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("balance.toml");
    fs::write(&path, config.join("\n")).unwrap();
    let planned = Command::new(env!("CARGO_BIN_EXE_interleaf"))
        .args(["balance", "--dry-run", "--stop-rivals", "--config"])
        .arg(&path)
        .arg("--root")
        .arg(in_tree("tests/machines/linux-newest-two-nodes-hmat"))
        .output()
        .unwrap();
    assert!(planned.status.success(), "{}", String::from_utf8_lossy(&planned.stderr));
    let unit = unit();
    let rights = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let rights: Vec<String> =
        rights.unwrap().split(' ').map(|it| format!("\"{}\"", it.replace("CAP_", ""))).collect();
    assert!(manifest.contains(&format!("add: [{}]", rights.join(", "))), "{rights:?}");
}
