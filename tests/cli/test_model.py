"""`tierfetch model` on the example cluster: tables, documents, reports, and what is refused."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tierfetch
from tierfetch.cli.model import model
from tierfetch.cli.model.document import ModelDocument
from tierfetch.cli.model.failover import FailoverDocument
from tierfetch.cli.model.quantities import between, cost, count, duration, share
from tierfetch.model.inventory_parts import Policy
from tierfetch.tests.model.builders import EXAMPLE


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(model, [str(argument) for argument in arguments])


def model_on_example(command: str, *arguments: str | Path) -> Result:
    return run(command, "--cluster", EXAMPLE, *arguments)


def edited(tmp_path: Path, old: str, new: str) -> Path:
    text = EXAMPLE.read_text()
    assert old in text
    path = tmp_path / "cluster.yaml"
    path.write_text(text.replace(old, new))
    return path


def test_S1_replace_answers_first_and_then_tells_what_it_rests_on() -> None:
    result = model_on_example("replace", "--broker", "3")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "Broker 3 of 6 (15 replicas, 660 GiB on disk) dies and comes back empty"
    assert lines[1].startswith("All 15 replicas are in sync after ")
    for text in ("Fullest resources at their peak", "Last replicas to join the ISR", "customers-3", "Calibration: "):
        assert text in result.stdout


def test_S1_replace_as_json_is_one_document() -> None:
    result = model_on_example("replace", "--broker", "3", "--json", "--policy", "kafka", "--down", "60")
    document = ModelDocument.model_validate_json(result.stdout)
    (outcome,) = document.outcomes
    assert (outcome.policy, outcome.system, outcome.moves, outcome.never_join) == ("kafka", "kafka", 15, 0)
    assert outcome.duration_s == pytest.approx(document.moves[0].joined_s)
    assert sum(row.bulk_bytes for row in document.moves) == pytest.approx(outcome.bulk_bytes)
    assert all(row.from_broker == row.to_broker == 3 for row in document.moves)
    assert document.traffic.brokers[0].broker == 3
    assert outcome.progress.under_replicated[0] == 15
    assert outcome.progress.under_replicated[-1] == 0
    assert min(row.first_fetch_s or 0.0 for row in document.moves) > 60


def test_each_time_that_is_shown_has_its_interval(tmp_path: Path) -> None:
    """Of the whole, of shares of the replicas, of each replica, of what is below min ISR, and of warming up."""
    page = tmp_path / "r.html"
    shown = model_on_example("replace", "--broker", "3", "--html", page).stdout
    outcome = ModelDocument.model_validate_json(model_on_example("replace", "--broker", "3", "--json").stdout).outcomes[
        0
    ]
    for name in ("duration_s", "median_join_s", "p95_join_s", "warming_s"):
        found = outcome.ranges[name]
        assert between(found.low, found.high) in shown
    assert "if the background warmer is on: " in shown
    (line,) = [line for line in shown.splitlines() if "below min.insync.replicas" in line]
    assert ": " not in line, "nothing is below it here, so nothing is uncertain"
    assert "in 80 % of the cases" in shown.partition("Last replicas to join the ISR")[2]
    warming = outcome.ranges["warming_s"]
    assert f"({between(warming.low, warming.high)})" in page.read_text()


def test_S1_compare_has_a_row_for_each_policy() -> None:
    document = ModelDocument.model_validate_json(model_on_example("compare", "--broker", "3", "--json").stdout)
    assert {outcome.policy for outcome in document.outcomes} == {policy.value for policy in Policy}
    by_policy = {outcome.policy: outcome for outcome in document.outcomes}
    ends_s = [by_policy[name].duration_s or 0.0 for name in ("tier-first", "kafka-last-tiered", "kafka")]
    assert 0 < ends_s[0] < ends_s[1] < ends_s[2]
    assert by_policy["tier-first"].leader_bytes < 0.15 * by_policy["local-log-start"].leader_bytes
    shown = model_on_example("compare", "--broker", "3").stdout
    assert all(f"│ {policy.value} " in shown for policy in Policy)


@pytest.mark.parametrize(
    ("arguments", "scenario"),
    [
        (("--add", "2"), "2 brokers join 6: "),
        (("--remove", "2"), "Broker 2 of 6 gives away everything: 15 replicas move in "),
        (("--even",), "6 brokers are filled evenly: "),
    ],
)
def test_S2_rebalance_is_planned_and_simulated(arguments: tuple[str, ...], scenario: str) -> None:
    document = ModelDocument.model_validate_json(model_on_example("rebalance", *arguments, "--json").stdout)
    assert document.scenario.startswith(scenario)
    assert document.outcomes[0].never_join == 0
    assert document.outcomes[0].urp_minutes == 0
    if arguments[0] == "--add":
        assert {row.to_broker for row in document.moves} == {7, 8}
    if arguments[0] == "--remove":
        assert {row.from_broker for row in document.moves} == {2}


def test_S2_a_plan_of_kafkas_tool(tmp_path: Path) -> None:
    plan = {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 6], "log_dirs": ["any"] * 3}],
    }
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    document = ModelDocument.model_validate_json(model_on_example("rebalance", "--plan", path, "--json").stdout)
    assert [(row.name, row.from_broker, row.to_broker) for row in document.moves] == [("orders-0", 3, 6)]
    plan["partitions"][0]["replicas"] = [1, 2, 60]
    path.write_text(json.dumps(plan))
    refused = model_on_example("rebalance", "--plan", path)
    assert (refused.exit_code, refused.stderr) == (1, "Error: orders-0: there is no broker 60\n")


def test_S2_a_plan_of_ours_brings_its_waves_and_its_throttle(tmp_path: Path) -> None:
    rows = [{"topic": "orders", "partition": index, "replicas": [1, 2, 6]} for index in (0, 6)]
    details = {"waves": [[0], [1]], "throttle_bytes_per_s": 123_000_000}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": rows, "tierfetch": details}))
    document = ModelDocument.model_validate_json(model_on_example("rebalance", "--plan", path, "--json").stdout)
    assert {row.name: row.wave for row in document.moves} == {"orders-0": 0, "orders-6": 1}
    assert document.cluster.throttle_bytes_per_s == 123_000_000
    given = model_on_example("rebalance", "--plan", path, "--throttle", "50 MB/s", "--json").stdout
    assert ModelDocument.model_validate_json(given).cluster.throttle_bytes_per_s == 50_000_000


def test_failover() -> None:
    arguments = ("failover", "--broker", "3", "--broker", "1")
    document = FailoverDocument.model_validate_json(model_on_example(*arguments, "--json").stdout)
    assert (document.lost_leader, document.under_replicated, document.leaderless) == (10, 25, 0)
    assert document.below_min_isr == len(document.below_min_isr_partitions) == 5
    assert sum(row.leaders_after for row in document.brokers) == 30
    shown = model_on_example(*arguments).stdout
    assert "5 partitions fall below min.insync.replicas" in shown
    assert "10 partitions take nothing for " in shown


@pytest.mark.parametrize(
    ("options", "first", "seconds", "other"),
    [
        ((), "The host of broker 3 of 6 dies", "9.05 s", "If the process alone died, not the host, it would be 0.06 s"),
        (
            ("--death", "process"),
            "The process of broker 3 of 6 dies",
            "0.06 s",
            "not the process alone, it would be 9.05 s",
        ),
        (("--kafka",), "The host of broker 3 of 6 dies", "9.50 s", "not the host, it would be the same"),
        (("--kafka", "--death", "process"), "The process of broker 3 of 6 dies", "9.50 s", "it would be the same"),
    ],
)
def test_failover_says_which_death_is_meant(
    tmp_path: Path, options: tuple[str, ...], first: str, seconds: str, other: str
) -> None:
    """The README measures kill -9; a host that is gone refuses nothing."""
    page = tmp_path / "failover.html"
    shown = model_on_example("failover", "--broker", "3", "--html", page, *options).stdout
    document = FailoverDocument.model_validate_json(
        model_on_example("failover", "--broker", "3", "--json", *options).stdout
    )
    assert document.death.value == ("process" if "process" in options else "host")
    assert document.unavailable_s == document.unavailable_s_by_death[document.death]
    assert f"{document.unavailable_s:.2f} s" == seconds
    assert 0 < (document.unavailable_range.low or 0) < document.unavailable_s <= (document.unavailable_range.high or 0)
    assert document.system == ("kafka" if "--kafka" in options else "tierfetch")
    for text in (shown, page.read_text()):
        assert first in text
        assert f"5 partitions take nothing for {seconds} (in 80 % of the cases " in text
        assert other in text
    assert f"death of the {document.death.value}" in page.read_text()


def test_failover_the_readme_and_its_page_say_the_same() -> None:
    """The README measures kill -9, as `--death process` means it; the page names what the command prints."""

    def predicted(*options: str) -> FailoverDocument:
        shown = model_on_example("failover", "--broker", "3", "--json", *options).stdout
        return FailoverDocument.model_validate_json(shown)

    root = Path(tierfetch.__file__).parent
    row = re.search(
        r"^\| kill -9 of a leader's process .*?\| ([\d.]+) \| ([\d.]+) \|", (root / "README.md").read_text(), re.M
    )
    assert row is not None
    page = (root / "docs" / "model.md").read_text().replace("\n", " ")
    ours, kafkas = predicted("--death", "process"), predicted("--death", "process", "--kafka")
    for measured, document in zip(map(float, row.groups()), (ours, kafkas), strict=True):
        within = document.unavailable_range
        assert (within.low or 0) - 0.005 <= measured <= (within.high or 0) + 0.005
    silent = predicted().unavailable_s
    assert "until the broker's session ends after 9 s" in page
    assert 9.0 <= silent < 9.5
    assert f"({ours.unavailable_s:.2f} s until another replica leads, as in the README)" in page
    assert f"do not ({kafkas.unavailable_s:.1f} s, with `--kafka`)" in page


@pytest.mark.parametrize(
    ("arguments", "headings"),
    [
        (("replace", "--broker", "3"), ("What the bootstrap policy changes", "What gets full", "Words")),
        (("compare", "--broker", "3"), ("How it goes", "Network traffic of the moves")),
        (("rebalance", "--add", "1"), ("How it goes", "Last replicas to join")),
        (("failover", "--broker", "3"), ("Who carries the load", "Words")),
    ],
)
def test_a_report_is_one_file_that_explains_itself(tmp_path: Path, arguments, headings) -> None:
    cluster = edited(tmp_path, "name: shop", "name: <b>shop</b> & co")
    page = tmp_path / "report.html"
    result = run(arguments[0], "--cluster", cluster, *arguments[1:], "--html", page)
    assert result.exit_code == 0, result.output
    assert f"Report: {page}" in result.stdout
    text = page.read_text()
    assert all(f"<h2>{heading}</h2>" in text for heading in headings)
    assert "&lt;b&gt;shop&lt;/b&gt; &amp; co" in text
    assert "<b>shop</b>" not in text
    assert "<script" not in text
    assert not re.search(r'(src|href)="(?!#)', text)
    assert len(text.encode()) < 300_000


HOSTILE = """version: 1
name: "[/red] <script>alert(1)</script>"
broker_defaults: {nic_in_bytes_per_s: 1 GB/s, nic_out_bytes_per_s: 1 GB/s, disk_read_bytes_per_s: 1 GB/s,
                  disk_write_bytes_per_s: 1 GB/s, cores: 4, disk_bytes: 1 TB}
brokers: [{id: 1, rack: "[/b]"}, {id: 2, rack: "</script><img src=x>"}, {id: 3, rack: "[/b]"}]
links: [{from_rack: "</script><img src=x>", to_rack: "[/b]", bandwidth_bytes_per_s: 1 Gbit/s}]
topics: [{name: t, partitions: [{index: 0, replicas: [2, 1], size_bytes: 10 GB}]}]
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("replace", "--broker", "1"),
        ("compare", "--broker", "1"),
        ("failover", "--broker", "1"),
        ("rebalance", "--remove", "1"),
    ],
)
def test_names_are_neither_markup_nor_html(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    cluster, page = tmp_path / "cluster.yaml", tmp_path / "r.html"
    cluster.write_text(HOSTILE)
    result = run(arguments[0], "--cluster", cluster, *arguments[1:], "--html", page)
    assert result.exit_code == 0, result.output
    assert "<script>alert" not in page.read_text()
    assert "<img src=x>" not in page.read_text()
    if arguments[0] == "replace":
        assert "link </script><img src=x> -> [/b]" in result.stdout


def test_the_name_of_a_plan_is_shown_as_it_is(tmp_path: Path) -> None:
    plan = tmp_path / "[red]plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 6]}]}')
    shown = model_on_example("rebalance", "--plan", plan).stdout.splitlines()
    assert shown[0].startswith("Plan [red]plan.json: 1 replica moves in 1 wave")
    assert shown[1].startswith("1 replica is in sync after ")


def test_a_single_replica_without_a_leader(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(HOSTILE.replace("replicas: [2, 1]", "replicas: [1]"))
    result = run("replace", "--cluster", cluster, "--broker", "1", "--html", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    assert "1 of 1 replica never joins the ISR (1: the partition has no leader" in result.stdout
    assert "<p>1 of 1 replica never joins.</p>" in (tmp_path / "r.html").read_text()
    failed = run("failover", "--cluster", cluster, "--broker", "1").stdout
    assert "1 partition has no replica in sync left, and no leader until one comes back: t-0." in failed


@pytest.mark.parametrize("command", [("replace", "--broker=1"), ("rebalance", "--add=1"), ("failover", "--broker=1")])
def test_a_cluster_without_topics(tmp_path: Path, command: tuple[str, str]) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(HOSTILE.split("topics:")[0])
    result = run(command[0], "--cluster", cluster, command[1], "--html", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (2e-6, "0.0000020"), (0.35, "0.35"), (7, "7.0"), (1234.4, "1,234"), (1e-12, "below 0.000000001")],
)
def test_a_cost_keeps_the_digits_that_count(value: float, text: str) -> None:
    assert cost(value) == text


def test_a_cost_without_a_price_is_not_shown_as_nothing(tmp_path: Path) -> None:
    cluster, page = edited(tmp_path, "price_per_get: 0.0000004", "price_per_get: 0"), tmp_path / "r.html"
    shown = run("replace", "--cluster", cluster, "--broker", "3", "--html", page).stdout
    assert re.search(r"cost of requests and egress +no price given", shown)
    assert "cost of requests" not in page.read_text()
    priced = model_on_example("replace", "--broker", "3", "--html", page).stdout
    (value,) = re.findall(r"cost of requests and egress +(0\.0*[1-9]\d?) ", priced)
    assert f">{value}<" in page.read_text()


def test_all_replicas_are_on_the_page_and_the_cost_is_told(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    model_on_example("rebalance", "--add", "2", "--html", page)
    document = ModelDocument.model_validate_json(model_on_example("rebalance", "--add", "2", "--json").stdout)
    text = page.read_text()
    assert len(document.moves) > 15
    assert all(f">{row.name}</td>" in text for row in document.moves)
    assert f"<summary>{len(document.moves) - 15} more</summary>" in text
    assert "cost of requests and egress" in text


def commands_of_the_documentation() -> list[str]:
    text = (EXAMPLE.parents[1] / "model.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("line", commands_of_the_documentation())
def test_the_walk_of_the_documentation(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [str(EXAMPLE) if word.endswith("/cluster.yaml") else word for word in shlex.split(line)]
    assert words[:2] == ["tierfetch", "model"]
    monkeypatch.chdir(tmp_path)
    result = run(*words[2:])
    assert result.exit_code == 0, result.output
    never = "20 MB/s" in line
    assert ("never join the ISR" in result.stdout) == never


def test_the_python_of_the_documentation(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (EXAMPLE.parents[1] / "model.md").read_text(), re.DOTALL)
    monkeypatch.chdir(EXAMPLE.parents[2])
    exec(compile(code, "model.md", "exec"), {})
    assert float(capsys.readouterr().out.split()[0]) > 0


def test_what_is_unwise_is_said_beside_the_document(tmp_path: Path) -> None:
    cluster = edited(tmp_path, "min_insync_replicas: 2", "min_insync_replicas: 4")
    result = run("replace", "--cluster", cluster, "--broker", "3")
    assert result.exit_code == 0
    assert "3 in sync, min_insync_replicas is 4" in result.stderr
    assert "more like these" in result.stderr
    as_json = run("replace", "--cluster", cluster, "--broker", "3", "--json")
    assert len(ModelDocument.model_validate_json(as_json.stdout).warnings) > 5


def test_replicas_that_never_join_are_the_answer(tmp_path: Path) -> None:
    cluster = edited(tmp_path, "throttle_bytes_per_s: 400 MB/s", "throttle_bytes_per_s: 1 MB/s")
    result = run("replace", "--cluster", cluster, "--broker", "3", "--html", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    assert "of 15 replicas never join the ISR" in result.stdout
    assert "producers write faster than the replica can copy" in (tmp_path / "r.html").read_text()
    document = run("compare", "--cluster", cluster, "--broker", "3", "--json").stdout
    assert ModelDocument.model_validate_json(document).outcomes[0].duration_s is None


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("replace",), 2, "Missing option '--broker'"),
        (("replace", "--broker", "30"), 2, "no broker 30 in shop: it has 6, among them [1, 2, 3, 4, 5, 6]"),
        (("replace", *(f"--broker={each}" for each in range(1, 7))), 2, "nothing is left to copy from"),
        (("replace", "--broker", "3", "--throttle", "quick"), 2, "'quick' is not a quantity"),
        (("replace", "--broker", "3", "--calibration", "absent.json"), 1, "absent.json: cannot be read: No such file"),
        (("replace", "--broker", "3", "--calibration", EXAMPLE), 1, "is not JSON"),
        (("rebalance",), 2, "give exactly one of --add, --remove, --even and --plan"),
        (("rebalance", "--add", "1", "--even"), 2, "give exactly one of"),
        (("rebalance", "--add", "100000000"), 2, "is not in the range"),
        (("rebalance", "--plan", "absent.json"), 1, "absent.json: No such file"),
        (("rebalance", "--remove", "99"), 2, "no broker 99 in shop"),
        (("failover", "--broker", "99"), 2, "no broker 99 in shop"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments, exit_code: int, message: str) -> None:
    result = model_on_example(*arguments)
    assert result.exit_code == exit_code, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_every_problem_of_an_inventory_is_said_at_once(tmp_path: Path) -> None:
    cluster = edited(tmp_path, "  cores: 16\n", "")
    result = run("replace", "--cluster", cluster, "--broker", "3")
    assert result.exit_code == 1
    assert len([line for line in result.stderr.splitlines() if "cores is missing" in line]) == 6
    absent = run("replace", "--cluster", tmp_path / "no.yaml", "--broker", "3")
    assert (absent.exit_code, "no.yaml: cannot be read" in absent.stderr) == (1, True)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "none"),
        (0.4, "0.40 s"),
        (12.34, "12.3 s"),
        (247, "4 min 07 s"),
        (3599.6, "1 h 00 min"),
        (7260, "2 h 01 min"),
        (183_600, "2 d 3 h"),
        (None, "never"),
        (float("inf"), "never"),
    ],
)
def test_durations(seconds, text: str) -> None:
    assert duration(seconds) == text


def test_where_nothing_moves_nothing_else_is_said() -> None:
    result = model_on_example("rebalance", "--even")
    assert result.stdout.splitlines()[1:] == ["Nothing moves."]


def test_other_quantities() -> None:
    assert (share(0.256), share(None)) == ("26 %", "any")
    assert (count(1, "partition"), count(2000, "partition")) == ("1 partition", "2,000 partitions")
