"""The package and the command give the same bytes."""

import random

import interleaf
import pytest

PREDICTIONS = [
    {"mix": "R"},
    {"mix": "W2", "weights": "3:1,2:1,1:0", "threads": 64},
    {"mix": "W5", "load": "150GB/s", "weights": "all"},
    {"mix": "0.62nt", "load": "sweep", "weights": "3:1,1:1"},
    {"workload": "hpcg"},
    {"workload": "stream", "threads": 32, "weights": "4:1"},
]


def arguments(options):
    return [part for name, value in options.items() for part in (option(name), str(value))]


def option(name):
    return "--" + name.replace("_", "-")


@pytest.mark.parametrize("options", PREDICTIONS, ids=str)
def test_predictions(command, options):
    said = command("predict", "--platform", "xeon6-cz122", "--json", *arguments(options))
    assert interleaf.predict("xeon6-cz122", **options).to_json() == said


def test_predictions_of_random_inputs(command):
    generator = random.Random(22)
    for _ in range(12):
        weights = f"{generator.randint(1, 255)}:{generator.randint(0, 255)}"
        options = {
            "mix": f"{generator.randint(0, 100) / 100}{generator.choice(['', 'nt'])}",
            "threads": generator.randint(1, 400),
            "weights": weights,
        }
        platform = generator.choice(["xeon6-cz122", "gnr120-cz122"])
        said = command("predict", "--platform", platform, "--json", *arguments(options))
        assert interleaf.predict(platform, **options).to_json() == said, options


MACHINES = [
    {
        "scenario": "shifting-demand",
        "policy": "guided",
        "duration": "20s",
        "curve_error": "-20%",
        "seed": 7,
    },
    {
        "platform": "gnr120-cz122",
        "workload": "cloverleaf",
        "threads": 119,
        "policy": "static",
        "weights": "65:35",
        "duration": "20s",
        "footprint": "16GiB",
        "counter_noise": "5%",
        "migration_rate": "2GB/s",
    },
]


@pytest.mark.parametrize("options", MACHINES, ids=lambda it: it["policy"])
def test_machines(command, options):
    texts = [f"{option(name)}={value}" for name, value in options.items()]
    said = command("simulate", "machine", "--json", *texts)
    assert interleaf.simulate.machine(**options).to_json() == said


def test_machines_of_random_inputs(command):
    generator = random.Random(23)
    for _ in range(4):
        options = {
            "platform": "gnr120-cz122",
            "workload": generator.choice(interleaf.names("workloads")),
            "policy": generator.choice(["dmi", "colloid", "guided", "hotcold"]),
            "duration": f"{generator.randint(1, 5)}s",
            "seed": generator.randint(0, 2**64 - 1),
        }
        said = command("simulate", "machine", "--json", *arguments(options))
        assert interleaf.simulate.machine(**options).to_json() == said, options


def test_dimms(command):
    options = {"device": "rdimm-6400-2r", "channels": 2, "requests": 20000, "pattern": "random"}
    options |= {"row_policy": "open", "refresh": "same-bank"}
    said = command("simulate", "dimm", "--mix", "R,W2", "--json", *arguments(options))
    assert interleaf.simulate.dimm(mix=["R", "W2"], **options).to_json() == said


def test_plans(command):
    said = command("plan", "--demand", "hpcg=60%,cloverleaf=40%", "--goal", "energy", "--json")
    plan = interleaf.plan({"hpcg": 0.6, "cloverleaf": "40%"}, goal="energy")
    assert plan.to_json() == said
    assert plan.recommended in plan.rows
    assert plan.baseline in [row.configuration for row in plan.rows]
    options = {"mix": "W2", "configuration": "rdimm-6400,mrdimm-8800", "vary": "10%"}
    said = command("plan", "--json", *arguments(options))
    options["configuration"] = options["configuration"].split(",")
    assert interleaf.plan(**options).to_json() == said


def test_servers(command):
    options = {"server": "sapphire-rapids-2r", "requests": 20000}
    said = command("simulate", "dimm", "--json", *arguments(options))
    assert interleaf.simulate.dimm(**options).to_json() == said


def test_cards(command):
    options = {"rw": "randrw", "rwmixread": 70, "iodepth": "1..4", "runtime": "1ms", "bs": "8k"}
    said = command("simulate", "card", "--card", "all-mram,flashtec-dram", "--json",
                   *arguments(options))  # fmt: skip
    assert interleaf.simulate.card(["all-mram", "flashtec-dram"], **options).to_json() == said


def test_stores_to_the_card(command):
    options = {"access": "memory", "rw": "randwrite", "fsync": 1, "runtime": "1ms"}
    said = command("simulate", "card", "--card", "all-mram", "--json", *arguments(options))
    assert interleaf.simulate.card("all-mram", **options).to_json() == said


def test_studies(command):
    said = command("reproduce", "gnr120-interleaving", "--json")
    assert interleaf.reproduce("gnr120-interleaving").to_json() == said


def test_records_are_read_back(command, tmp_path):
    path = tmp_path / "record.json"
    command("predict", "--platform", "xeon6-cz122", "--mix", "R", "-o", str(path))
    record = interleaf.read(path)
    assert isinstance(record, interleaf.Prediction)
    assert record.to_json() == path.read_text()
    assert record == interleaf.predict("xeon6-cz122", mix="R")
