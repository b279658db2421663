"""Fetch a server that tests run, as jars from Maven Central, once: their versions and checksums are in servers.toml.

    python -m scripts.servers get hadoop

The jars are kept in build/servers. The last line that is printed is the folder of the server.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["SERVERS", "ServerMissing", "command", "fetched", "get", "project"]

_ROOT: Final = Path(__file__).resolve().parents[1]
_FOLDER: Final = _ROOT / "build" / "servers"
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_PLUGIN_OF_ARCHIVES: Final = "org.apache.maven.plugins:maven-dependency-plugin:2.8"
"""Newer versions also need the project that an archive was built from, which mirrors may not have."""
_PATIENCE: Final = 900
"""Seconds that Maven may take."""
SERVERS: Final[Mapping[str, Mapping[str, str]]] = tomllib.loads(
    Path(__file__).with_name("servers.toml").read_text(encoding="utf-8")
)
"""The servers: each artifact, `group:artifact:version` and perhaps `:type:classifier`, with the SHA-256 of its file."""


class ServerMissing(Exception):
    """A server cannot be fetched, or what was fetched is not what it should be."""


def command(name: str) -> str:
    """Return the command that fetches a server.

    Example:
        >>> command("hadoop")
        'python -m scripts.servers get hadoop'
    """
    return f"python -m scripts.servers get {name}"


def fetched(name: str, folder_of_all: Path = _FOLDER) -> Path | None:
    """Return the folder with the jars of a server, or `None` if they have not all been fetched.

    Args:
        name: the name of the server in servers.toml.
        folder_of_all: the folder of all servers.

    Raises:
        ServerMissing: if there is no server of that name.
    """
    folder = folder_of_all / name
    return folder if all((folder / _file(artifact)).is_file() for artifact in _artifacts(name)) else None


def get(name: str, folder_of_all: Path = _FOLDER) -> Path:
    """Fetch the jars of a server unless they are there; return their folder.

    Maven (`mvn`) downloads them as its settings say, mirrors included. Jars appear in the folder only if all have
    the right checksums.

    Args:
        name: the name of the server in servers.toml.
        folder_of_all: the folder of all servers.

    Raises:
        ServerMissing: if there is no server of that name, if Maven is not installed or cannot download the jars, or
            if a jar has another checksum.
    """
    folder = fetched(name, folder_of_all)
    if folder is not None:
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise ServerMissing(
            f"fetching {name} needs Maven, and there is no mvn on the PATH\n"
            f"Hint: install it (Debian/Ubuntu: apt-get install maven; macOS: brew install maven), then: {command(name)}"
        )
    folder_of_all.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder_of_all) as made:
        fresh = Path(made)
        (fresh / "pom.xml").write_text(project(filter(_is_jar, _artifacts(name))), encoding="utf-8")
        _download(name, maven, fresh)
        _check(name, fresh / "jars")
        shutil.rmtree(folder_of_all / name, ignore_errors=True)  # of an earlier table
        (fresh / "jars").rename(folder_of_all / name)
    return folder_of_all / name


def project(artifacts: Iterable[str]) -> str:
    """Return a project of Maven's that depends on artifacts, and on nothing that these depend on.

    Example:
        >>> print(project(["org.example:server:1.0"]).splitlines()[2])
        <dependency><groupId>org.example</groupId><artifactId>server</artifactId><version>1.0</version>
    """
    lines = ["<project><modelVersion>4.0.0</modelVersion><groupId>servers</groupId><artifactId>server</artifactId>"]
    lines.append("<version>1</version><dependencies>")
    for artifact in artifacts:
        group, name, version = map(escape, artifact.split(":"))
        lines += [
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>",
            "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>",
        ]
    return "\n".join([*lines, "</dependencies></project>", ""])


def _artifacts(name: str) -> Mapping[str, str]:
    try:
        return SERVERS[name]
    except KeyError:
        raise ServerMissing(f"there is no server {name!r}\nHint: use one of {', '.join(SERVERS)}") from None


def _file(artifact: str) -> str:
    """Return the name of the file of an artifact.

    Example:
        >>> _file("org.example:server:1.0"), _file("org.example:server:1.0:tar.gz:all")
        ('server-1.0.jar', 'server-1.0-all.tar.gz')
    """
    _, name, version, *form = artifact.split(":")
    return f"{name}-{version}-{form[1]}.{form[0]}" if form else f"{name}-{version}.jar"


def _is_jar(artifact: str) -> bool:
    return artifact.count(":") == 2  # noqa: PLR2004 - its coordinates end with the version


def _download(name: str, maven: str, folder: Path) -> None:
    """Let Maven copy the jars on which the project in a folder depends into its folder `jars`, and archives."""
    into = f"-DoutputDirectory={folder / 'jars'}"
    artifacts = _artifacts(name)
    problem = ""
    if any(map(_is_jar, artifacts)):
        problem = _failure_of(maven, "--file", str(folder / "pom.xml"), f"{_PLUGIN}:copy-dependencies", into)
    for artifact in artifacts:
        if not (problem or _is_jar(artifact)):
            problem = _failure_of(maven, f"{_PLUGIN_OF_ARCHIVES}:copy", f"-Dartifact={artifact}", into)
    if problem:
        raise ServerMissing(
            f"Maven cannot download {name}: {problem}\n"
            f"Hint: where Maven Central, or a mirror in Maven's settings, can be reached, run {command(name)}"
        )


def _failure_of(maven: str, *arguments: str) -> str:
    """Run Maven; return what it says if it fails."""
    command_line = [maven, "--batch-mode", "--quiet", *arguments]
    try:
        done = subprocess.run(command_line, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {_PATIENCE} s"
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-2000:].strip() or "it says nothing"


def _check(name: str, folder: Path) -> None:
    """Compare the checksums of the jars in a folder with the table."""
    for artifact, expected in _artifacts(name).items():
        with (folder / _file(artifact)).open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
        if actual != expected:
            raise ServerMissing(
                f"{artifact} must have the SHA-256 {expected}, got {actual}\n"
                "Hint: delete it from Maven's folder (~/.m2/repository) and try again; if the version was changed on "
                "purpose, write the new checksum into scripts/servers.toml"
            )


def _main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "get":  # noqa: PLR2004 - a verb and a name
        print(f"Usage: {command('NAME')}, with the NAME of a server: {', '.join(SERVERS)}", file=sys.stderr)
        return 2
    try:
        print(os.path.relpath(get(arguments[1])))
    except ServerMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
