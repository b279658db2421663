"""What ``scripts/java.sh`` does where there is a Java, an old one, or none."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

FAKE_JAVA = """#!/bin/sh
echo '    java.home = {home}' >&2
echo '    java.specification.version = {version}' >&2
"""
FAKE_APT = """#!/bin/sh
echo "apt-get $*" >&2
case "$*" in
*openjdk-21*) exit 100 ;;  # as on a release that does not have it
*openjdk-17*) mv {spare} {home} ;;
esac
"""
# What the script itself needs from the PATH.
TOOLS = ("bash", "sed", "cat", "env", "sh", "mv")


def make_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(FAKE_JAVA.format(home=home, version=version), encoding="utf-8")
    java.chmod(0o755)
    return home


def run_java_script(repository: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "DATAFLOW_MODEL_INSTALL_JAVA": "no"}
    script = repository / "scripts" / "java.sh"
    return subprocess.run(
        [script, *arguments],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which there is no Java, wherever this machine may have one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        program = shutil.which(name)
        assert program is not None
        (folder / name).symlink_to(program)
    return {"PATH": str(folder), "DATAFLOW_MODEL_JAVA_PLACES": str(tmp_path / "jvm" / "*")}


@pytest.mark.parametrize("version", ["17", "21", "25"])
def test_java_home_is_taken_if_it_is_new_enough(repository: Path, tmp_path: Path, version: str) -> None:
    home = make_java(tmp_path / "jdk", version)
    assert run_java_script(repository, "find", JAVA_HOME=str(home)).stdout.strip() == str(home)


@pytest.mark.parametrize("version", ["1.8", "11"])
def test_an_old_java_home_gives_way_to_a_newer_one_on_the_path(repository: Path, tmp_path: Path, version: str) -> None:
    old = make_java(tmp_path / "old", version)
    new = make_java(tmp_path / "new", "21")
    done = run_java_script(repository, "find", JAVA_HOME=str(old), PATH=f"{new}/bin:/usr/bin:/bin")
    assert done.stdout.strip() == str(new)


def test_the_java_script_passes_java_home_to_the_command_that_it_runs(repository: Path, tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", "17")
    done = run_java_script(repository, "run", "sh", "-c", 'echo "$JAVA_HOME"; exit 3', JAVA_HOME=str(home))
    assert done.stdout.strip() == str(home)
    assert done.returncode == 3


def test_the_demo_runs_in_full_if_java_is_found(repository: Path, tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", "17")
    assert run_java_script(repository, "demo", "echo", "demo", JAVA_HOME=str(home)).stdout.strip() == "demo"


def test_without_java_the_demo_runs_locally_and_ends_with_how_to_get_java(
    repository: Path,
    without_java: dict[str, str],
) -> None:
    done = run_java_script(repository, "demo", "sh", "-c", 'echo "demo $*"; exit 3', "sh", **without_java)
    assert done.stdout.startswith("demo --runner local\n")
    assert "brew install openjdk@17" in done.stdout
    assert done.returncode == 3


def test_without_java_other_commands_run_and_their_output_stays_last(
    repository: Path,
    without_java: dict[str, str],
) -> None:
    done = run_java_script(repository, "run", "sh", "-c", "echo tests", **without_java)
    assert done.stdout == "tests\n"
    assert "brew install openjdk@17" in done.stderr


def test_java_is_found_in_the_usual_directories(
    repository: Path,
    without_java: dict[str, str],
    tmp_path: Path,
) -> None:
    make_java(tmp_path / "jvm" / "old", "11")
    home = make_java(tmp_path / "jvm" / "young", "21")
    assert run_java_script(repository, "find", **without_java).stdout.strip() == str(home)


@pytest.mark.parametrize("allowed", [True, False])
def test_root_installs_java_with_apt_unless_that_is_disabled(
    repository: Path,
    without_java: dict[str, str],
    tmp_path: Path,
    *,
    allowed: bool,
) -> None:
    home = tmp_path / "jvm" / "openjdk"
    home.parent.mkdir()
    spare = make_java(tmp_path / "spare", "17")
    for name, text in {"apt-get": FAKE_APT.format(spare=spare, home=home), "id": "#!/bin/sh\necho 0\n"}.items():
        command = tmp_path / "bin" / name
        command.write_text(text, encoding="utf-8")
        command.chmod(0o755)
    choice = {"DATAFLOW_MODEL_INSTALL_JAVA": "yes" if allowed else "no"}
    done = run_java_script(repository, "run", "sh", "-c", 'echo "home ${JAVA_HOME-none}"', **without_java, **choice)
    # The fake says what it was told to be, wherever it lies.
    assert done.stdout == (f"home {spare}\n" if allowed else "home none\n")
    assert ("apt-get update -qq" in done.stderr) == allowed


def test_the_advice_has_a_command_for_each_common_system(repository: Path) -> None:
    advice = run_java_script(repository, "advice").stdout
    for command in ("apt-get install", "dnf install", "pacman -S", "brew install", "conda install", "wsl --install"):
        assert command in advice
