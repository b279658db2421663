"""How ``scripts/servers.py`` fetches servers, with a program in Maven's place."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING

import pytest

from scripts import servers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHA = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("one-1.0.jar", "two-2.0.jar")}
FAILING = f"""#!{sys.executable}
import sys
sys.exit("offline")
"""
COPYING = f"""#!{sys.executable}
import pathlib, sys
project = pathlib.Path(sys.argv[sys.argv.index("--file") + 1]).read_text()
(folder,) = (part.partition("=")[2] for part in sys.argv if part.startswith("-DoutputDirectory="))
pathlib.Path(folder).mkdir()
for name in {list(SHA)}:
    if "<artifactId>" + name.partition("-")[0] in project:
        pathlib.Path(folder, name).write_text(name)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes a program the only one on the PATH, as ``mvn``."""
    table = {"org.example:one:1.0": SHA["one-1.0.jar"], "org.example:two:2.0": SHA["two-2.0.jar"]}
    monkeypatch.setattr(servers, "SERVERS", {"example": table})
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))

    def write(program: str) -> None:
        (programs / "mvn").write_text(program)
        (programs / "mvn").chmod(0o700)

    return write


def test_the_jars_of_a_server_are_fetched_once(install: Callable[[str], None], tmp_path: Path) -> None:
    install(COPYING)
    folder = servers.get("example", tmp_path / "servers")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {name: name for name in SHA}
    install(FAILING)
    assert servers.get("example", tmp_path / "servers") == folder
    assert [path.name for path in (tmp_path / "servers").iterdir()] == ["example"]


def test_jars_are_fetched_again_if_the_table_of_the_server_has_changed(
    install: Callable[[str], None], tmp_path: Path
) -> None:
    install(COPYING)
    older = tmp_path / "servers/example"
    older.mkdir(parents=True)
    (older / "one-0.9.jar").write_text("")
    folder = servers.get("example", tmp_path / "servers")
    assert sorted(path.name for path in folder.iterdir()) == sorted(SHA)


def test_a_jar_with_another_checksum_is_rejected(
    install: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(COPYING)
    monkeypatch.setattr(servers, "SERVERS", {"example": {"org.example:one:1.0": "0" * 64}})
    with pytest.raises(servers.ServerMissing, match=f"one:1.0 must have the SHA-256 0+, got {SHA['one-1.0.jar']}"):
        servers.get("example", tmp_path / "servers")
    assert list((tmp_path / "servers").iterdir()) == []


def test_a_failure_of_maven_is_reported_with_its_output_and_the_command(
    install: Callable[[str], None], tmp_path: Path
) -> None:
    install(FAILING)
    with pytest.raises(servers.ServerMissing, match="offline") as raised:
        servers.get("example", tmp_path / "servers")
    assert str(raised.value).endswith("run python -m scripts.servers get example")


@pytest.mark.usefixtures("install")
def test_a_missing_maven_is_reported_with_the_way_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(servers.ServerMissing, match="no mvn on the PATH") as raised:
        servers.get("example", tmp_path / "servers")
    assert str(raised.value).endswith("then: python -m scripts.servers get example")


def test_an_unknown_server_is_rejected_with_the_names_of_the_others() -> None:
    with pytest.raises(
        servers.ServerMissing, match="there is no server 'zookeeper'\nHint: use one of apicurio, hadoop"
    ):
        servers.fetched("zookeeper")


def test_every_artifact_has_coordinates_and_a_checksum() -> None:
    for table in servers.SERVERS.values():
        for artifact, checksum in table.items():
            assert artifact.count(":") in {2, 4}
            assert len(bytes.fromhex(checksum)) == 32


def test_archives_are_fetched_beside_jars_each_by_itself(
    install: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = "three-1.0-all.tar.gz"
    table = {**servers.SERVERS["example"], "org.example:three:1.0:tar.gz:all": hashlib.sha256(b"").hexdigest()}
    monkeypatch.setattr(servers, "SERVERS", {"example": table})
    install(
        COPYING.replace(
            "\nproject = ",
            f"""
artifacts = [part.partition("=")[2] for part in sys.argv if part.startswith("-Dartifact=")]
if artifacts == ["org.example:three:1.0:tar.gz:all"]:
    [folder] = [part.partition("=")[2] for part in sys.argv if part.startswith("-DoutputDirectory=")]
    pathlib.Path(folder, {archive!r}).touch()
    sys.exit()
project = """,
        )
    )
    folder = servers.get("example", tmp_path / "servers")
    assert sorted(path.name for path in folder.iterdir()) == sorted([*SHA, archive])
