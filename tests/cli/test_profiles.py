"""Which cluster a command means: the options, the environment, profiles, and a local cluster that runs."""

from __future__ import annotations

import fcntl
import json
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tierfetch.cli.main import cli
from tierfetch.cli.profiles import (
    Given,
    LocalClusterNote,
    NoClusterError,
    Profile,
    Profiles,
    announced,
    choose_cluster,
    explicit_cluster,
    named_cluster,
    running_clusters,
)
from tierfetch.testing.cluster.local_cluster import InProcessCluster

PROD = Profile(bootstrap=("prod:9092",), command_config=Path("/etc/prod.properties"))
TEST = Profile(bootstrap=("test:9092",))
KNOWN = {"prod": PROD, "test": TEST}
LOCAL = LocalClusterNote(bootstrap=("127.0.0.1:19092",))
NOBODY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the configuration folder of a new user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "tierfetch"


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, words)
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result.exit_code, result.output


def chosen(given: Given, in_use: str | None = None, running: Sequence[LocalClusterNote] = ()):
    found = choose_cluster(given, lambda: Profiles(in_use=in_use, profiles=KNOWN), lambda: running)
    return found.servers, found.command_config


def test_each_source_comes_before_the_next() -> None:
    with_all = {
        "bootstrap": ("a:1",),
        "profile": None,
        "environment_bootstrap": "b:1,c:1",
        "environment_profile": "prod",
    }
    assert chosen(Given(**with_all), "test", [LOCAL]) == (("a:1",), None)
    assert chosen(Given(**{**with_all, "profile": "test", "bootstrap": ()})) == (("test:9092",), None)
    assert chosen(Given(**{**with_all, "bootstrap": ()}), "test", [LOCAL]) == (("b:1,c:1",), None)
    assert chosen(Given(environment_profile="prod"), "test", [LOCAL]) == (("prod:9092",), PROD.command_config)
    assert chosen(Given(), "test", [LOCAL]) == (("test:9092",), None)
    assert chosen(Given(), None, [LOCAL]) == (("127.0.0.1:19092",), None)
    assert chosen(Given()) == (("127.0.0.1:9092",), None)


@pytest.mark.parametrize(
    ("given", "in_use", "explicit", "named"),
    [
        (Given(), None, None, None),
        (Given(), "test", None, ("test:9092",)),
        (Given(bootstrap=("a:1",)), "test", ("a:1",), ("a:1",)),
        (Given(profile="prod"), "test", ("prod:9092",), ("prod:9092",)),
        (Given(environment_bootstrap="b:1"), "test", ("b:1",), ("b:1",)),
        (Given(environment_profile="prod"), "test", ("prod:9092",), ("prod:9092",)),
    ],
)
def test_what_counts_as_a_cluster_that_was_named(
    given: Given, in_use: str | None, explicit: tuple[str, ...] | None, named: tuple[str, ...] | None
) -> None:
    known = Profiles(in_use=in_use, profiles=KNOWN)
    found = [explicit_cluster(given, lambda: known), named_cluster(given, lambda: known)]
    assert [each and each.servers for each in found] == [explicit, named]


def test_the_credentials_of_a_profile_go_to_its_servers_alone() -> None:
    assert chosen(Given(bootstrap=("elsewhere:1",)), "prod") == (("elsewhere:1",), None)
    assert chosen(Given(environment_bootstrap="elsewhere:1"), "prod") == (("elsewhere:1",), None)
    named = Given(bootstrap=("kafka-7:1",), profile="prod")
    assert chosen(named) == (("kafka-7:1",), PROD.command_config), "both were given"


def test_of_several_local_clusters_none_is_guessed() -> None:
    other = LocalClusterNote(bootstrap=("127.0.0.1:29092",))
    with pytest.raises(NoClusterError, match=r"2 local clusters run, at 127\.0\.0\.1:19092 and 127\.0\.0\.1:29092"):
        chosen(Given(), None, [LOCAL, other])
    assert chosen(Given(bootstrap=("a:1",)), None, [LOCAL, other]) == (("a:1",), None)


@pytest.mark.parametrize("given", [Given(profile="prd"), Given(environment_profile="prd")])
def test_an_unknown_profile_names_those_that_exist(given: Given) -> None:
    with pytest.raises(NoClusterError, match="there is no profile 'prd'; there are: prod, test"):
        chosen(given)


def test_profiles_are_added_listed_used_and_removed(home: Path) -> None:
    assert run("profile", "list")[1].startswith("There is no profile yet")
    assert run("profile", "add", "a", "--bootstrap", "h:1,i:2") == (
        0,
        "added profile a; use it with --profile a, or always: tierfetch profile use a\n",
    )
    assert run("profile", "add", "b", "--bootstrap", "j:3", "--use") == (0, "added profile b\n")
    rows = json.loads(run("profile", "list", "--json")[1])
    assert [(row["profile"], row["in_use"], row["bootstrap"]) for row in rows] == [
        ("a", False, ["h:1", "i:2"]),
        ("b", True, ["j:3"]),
    ]
    assert run("profile", "use", "a") == (0, "profile a is in use\n")
    assert run("profile", "use", "--none") == (0, "no profile is in use\n")
    assert json.loads(run("profile", "remove", "a", "--json")[1]) == {"removed": "a"}
    assert [row["profile"] for row in json.loads(run("profile", "list", "--json")[1])] == ["b"]
    file = home / "profiles.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == ["profiles.json"], "nothing half-written stays"


def test_the_profile_in_use_that_is_removed_is_used_no_longer() -> None:
    run("profile", "add", "a", "--bootstrap", "h:1", "--use")
    run("profile", "remove", "a")
    assert json.loads(run("profile", "use", "--none", "--json")[1]) == {"in_use": None}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "a", "--bootstrap", "nowhere"), "--bootstrap 'nowhere': expected HOST:PORT"),
        (("add", "a b", "--bootstrap", "h:1"), "a profile's name has letters, digits"),
        (("add", "", "--bootstrap", "h:1"), "a profile's name has letters, digits"),
        (("add", "a"), "Missing option '--bootstrap'"),
        (("add", "a", "--bootstrap", "h:1", "--command-config", "absent"), "'absent' does not exist"),
        (("use", "a"), "there is no profile 'a'; there are: none"),
        (("use",), "name a profile, or give --none"),
        (("remove", "a"), "there is no profile 'a'; there are: none"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: Sequence[str], said: str) -> None:
    code, output = run("profile", *words)
    assert code in (1, 2)
    assert said in output.splitlines()[-1]


def test_a_second_profile_of_a_name_needs_replace() -> None:
    run("profile", "add", "a", "--bootstrap", "h:1")
    assert run("profile", "add", "a", "--bootstrap", "i:1") == (
        1,
        "Error: there is a profile 'a' already: give --replace, or another name\n",
    )
    assert run("profile", "add", "a", "--bootstrap", "i:1", "--replace")[0] == 0


def test_a_command_config_that_is_wrong_is_refused_when_it_is_added(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=TELEPATHY\n")
    code, output = run("profile", "add", "a", "--bootstrap", "h:1", "--command-config", str(file))
    assert code == 1
    assert str(file) in output
    assert "TELEPATHY" in output


@pytest.mark.parametrize("content", ["{", "[]", '{"profiles": {"a": {"bootstrap": []}}}', '{"profile": 1}', "\xff"])
def test_a_damaged_file_is_one_line_that_names_it_and_only_where_it_is_needed(home: Path, content: str) -> None:
    home.mkdir(parents=True)
    file = home / "profiles.json"
    file.write_bytes(content.encode("latin-1"))
    for words in (("topics", "list"), ("profile", "list"), ("profile", "add", "a", "--bootstrap", "h:1")):
        code, output = run(*words)
        assert code == 1
        (line,) = output.splitlines()
        assert line.startswith(f"Error: {file} is damaged: ")
    assert f"{NOBODY} cannot be reached" in run("topics", "list", "--bootstrap", NOBODY)[1]
    assert file.read_bytes() == content.encode("latin-1")


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    code, output = run("profile", "add", "a", "--bootstrap", "h:1")
    assert code == 1
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    ("variables", "words", "said"),
    [
        ({"TIERFETCH_BOOTSTRAP": NOBODY}, (), f"Error: {NOBODY} cannot be reached: it refuses connections (TIERFETCH_"),
        ({"TIERFETCH_PROFILE": "n"}, (), "cannot be reached: it refuses connections (profile n)"),
        ({}, ("--profile", "n"), "cannot be reached: it refuses connections (profile n)"),
        ({}, ("--bootstrap", NOBODY), f"{NOBODY} cannot be reached: it refuses connections\n"),
        ({"TIERFETCH_BOOTSTRAP": "nowhere"}, (), "TIERFETCH_BOOTSTRAP 'nowhere': expected HOST:PORT"),
        ({"TIERFETCH_PROFILE": "absent"}, (), "TIERFETCH_PROFILE: there is no profile 'absent'; there are: n"),
    ],
)
def test_commands_take_the_cluster_from_the_environment_and_profiles(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: Sequence[str], said: str
) -> None:
    run("profile", "add", "n", "--bootstrap", NOBODY)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, output = run("topics", "list", *words)
    assert code in (1, 2)
    assert said in output


NEEDS_NO_CLUSTER = [("model", "calibrate", "--out", "c.json", "--size-mb", "1"), ("spark", "audit", "no-such-tier")]


@pytest.mark.parametrize("command", NEEDS_NO_CLUSTER, ids=" ".join)
@pytest.mark.parametrize(
    ("variables", "words", "said"),
    [
        ({"TIERFETCH_BOOTSTRAP": "nowhere"}, (), "TIERFETCH_BOOTSTRAP 'nowhere': expected HOST:PORT"),
        ({"TIERFETCH_PROFILE": "absent"}, (), "TIERFETCH_PROFILE: there is no profile 'absent'; there are: n"),
        ({}, ("--profile", "absent"), "--profile: there is no profile 'absent'; there are: n"),
    ],
)
def test_a_command_that_needs_no_cluster_takes_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
    command: Sequence[str],
    variables: dict[str, str],
    words: Sequence[str],
    said: str,
) -> None:
    run("profile", "add", "n", "--bootstrap", NOBODY)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, output = run(*command, *words)
    assert code in (1, 2)
    assert said in output


def test_calibrate_probes_the_cluster_of_a_profile_only_if_it_is_named(tmp_path: Path) -> None:
    run("profile", "add", "n", "--bootstrap", NOBODY, "--use")
    command = ("model", "calibrate", "--out", str(tmp_path / "c.json"), "--dir", str(tmp_path), "--size-mb", "1")
    assert run(*command)[0] == 0, "a profile in use is for commands that need a cluster"
    assert f"{NOBODY} cannot be reached: it refuses connections (profile n)" in run(*command, "--profile", "n")[1]


def test_quorum_asks_the_brokers_of_a_profile(tierfetch_cluster: InProcessCluster) -> None:
    def status_of(*words: str) -> object:
        """Without what moves on its own."""
        code, output = run("quorum", "describe", "--status", "--json", *words)
        assert code == 0, output
        status = json.loads(output)
        return {key: value for key, value in status.items() if key not in ("HighWatermark", "MaxFollowerLag")}

    run("profile", "add", "n", "--bootstrap", tierfetch_cluster.bootstrap)
    found = status_of("--profile", "n")
    assert isinstance(found, dict)
    assert len(found["CurrentVoters"]) == 1
    assert status_of("--bootstrap", tierfetch_cluster.bootstrap) == found
    run("profile", "use", "n")
    assert status_of() == found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--profile", "absent"), "there is no profile 'absent'; there are: n"),
        (("--profile", "absent", "--bootstrap-controller", NOBODY), "there is no profile 'absent'; there are: n"),
        (("--bootstrap", NOBODY, "--bootstrap-controller", NOBODY), "give one of them"),
    ],
)
def test_what_names_no_quorum_is_one_line(words: Sequence[str], said: str) -> None:
    run("profile", "add", "n", "--bootstrap", NOBODY)
    code, output = run("quorum", "describe", "--status", *words)
    assert code in (1, 2)
    assert said in output.splitlines()[-1]


def test_a_profiles_command_config_is_how_a_command_connects(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=x\n")
    run("profile", "add", "n", "--bootstrap", NOBODY, "--command-config", str(file))
    file.write_text("security.protocol=TELEPATHY\n")
    assert "TELEPATHY" in run("topics", "list", "--profile", "n")[1]
    assert "refuses connections" in run("topics", "list", "--bootstrap", NOBODY)[1], "not shown to another cluster"


HOLD = """
import sys
from tierfetch.cli.profiles import LocalClusterNote, announced
with announced(LocalClusterNote(bootstrap=("127.0.0.1:1",), controllers=("127.0.0.1:2",))):
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_local_cluster_is_found_while_its_process_runs_and_not_after_a_kill(home: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    (note,) = running_clusters()
    assert note.bootstrap == ("127.0.0.1:1",)
    assert "127.0.0.1:1 cannot be reached: it refuses connections (the local cluster)" in run("topics", "list")[1]
    assert "127.0.0.1:2" in run("quorum", "describe", "--status")[1]
    process.kill()
    process.communicate()
    assert len(list((home / "clusters").iterdir())) == 1
    assert running_clusters() == []
    assert list((home / "clusters").iterdir()) == [], "the note that a killed cluster left"


def test_a_note_that_ends_is_removed(home: Path) -> None:
    with announced(LOCAL):
        assert len(list((home / "clusters").iterdir())) == 1
    assert list((home / "clusters").iterdir()) == []


def test_a_damaged_note_is_no_cluster(home: Path) -> None:
    (home / "clusters").mkdir(parents=True)
    with (home / "clusters" / "1.json").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert running_clusters() == []


def test_where_no_note_can_be_written_the_cluster_runs_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with announced(LOCAL):
        assert running_clusters() == []
