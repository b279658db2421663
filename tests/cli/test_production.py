"""The recipes of the page on production: what they run stops, resumes and answers as the page says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow.parquet as pq
import pytest

from dataflow_model.cli import main
from tests.support.cli.commands import started, until_said
from tests.support.settings import REPOSITORY
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCTION = (REPOSITORY / "docs" / "production.md").read_text(encoding="utf-8")
COMMANDS = (REPOSITORY / "docs" / "command-line.md").read_text(encoding="utf-8")


def block(page: str, language: str) -> str:
    """Return the first block of a page in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def unit() -> dict[str, str]:
    """Return the settings of the unit."""
    lines = [line for line in block(PRODUCTION, "ini").splitlines() if "=" in line]
    return dict(line.split("=", 1) for line in lines)


def image() -> dict[str, str]:
    """Return the last instruction of each kind of the Dockerfile."""
    text = block(PRODUCTION, "dockerfile").replace("\\\n", " ")
    return dict(line.split(" ", 1) for line in text.splitlines())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the pipeline of the page on the command line, and a file of rows."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "flights.py").write_text(block(COMMANDS, "python"))
    (tmp_path / "flights").mkdir()
    rows = ["2013-03-08T10:00Z,UA,4", "2013-03-08T10:30Z,UA,6", "2013-03-08T12:00Z,AA,1"]
    (tmp_path / "flights" / "1.csv").write_text("at,carrier,delay\n" + "".join(f"{row}\n" for row in rows))
    yield tmp_path
    sys.modules.pop("flights", None)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
    return port


def here(arguments: list[str], folder: Path, port: int) -> list[str]:
    """Return the arguments of a recipe with the folders of a test."""
    program, *rest = arguments
    assert Path(program).name == "dataflow-model"
    folders = {"/data": str(folder), "/var/lib": str(folder / "state"), "/checkpoints": str(folder / "checkpoints")}
    text = "\0".join(rest).replace("9464", str(port)).replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - it is replaced
    for key, own in folders.items():
        text = re.sub(rf"(?<=\0){key}(?=/)", own, text)
    return text.split("\0")


def files_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows that were written, without the folders of unpublished ones."""
    rows: list[dict[str, Any]] = pq.read_table(folder / "delays").to_pylist() if (folder / "delays").exists() else []
    return rows


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    program = Path(sys.executable).with_name("dataflow-model")
    text = block(PRODUCTION, "ini").replace("/opt/pipelines/.venv/bin/dataflow-model", str(program))
    path = tmp_path / "delays.service"
    path.write_text(text.replace("/opt/pipelines", str(tmp_path)))
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert path.name not in done.stderr  # which names each line that is ignored


def test_the_service_stops_as_its_unit_expects_and_resumes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = here(shlex.split(unit()["ExecStart"]), folder, free_port())
    with started(folder, *arguments) as process:
        until_said(process, "/metrics and /health")
        while not files_of(folder):  # until the first windows are published
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert str(process.returncode) in unit()["SuccessExitStatus"].split()
    assert (unit()["KillMode"], unit()["Restart"]) == ("mixed", "on-failure")
    assert [row["value"] for row in files_of(folder)] == [5.0]
    monkeypatch.chdir(folder)
    index = arguments.index("--")
    assert main([*arguments[:index], "--until", "drained", *arguments[index:]]) == 0
    assert capsys.readouterr().out.startswith("drained")
    assert sorted(row["value"] for row in files_of(folder)) == [1.0, 5.0]


def test_a_mistake_in_the_unit_is_not_restarted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as stopped:
        main([*here(shlex.split(unit()["ExecStart"]), folder, free_port())[:1], "flight:delays"])
    assert str(stopped.value.code) in unit()["RestartPreventExitStatus"].split()


def test_the_steps_of_the_image_fit_the_repository() -> None:
    text = block(PRODUCTION, "dockerfile")
    for step in re.findall(r"^RUN (.*)$", text, re.MULTILINE):
        subprocess.run(["sh", "-n", "-c", step], check=True)
    assert "dist/" in (REPOSITORY / "scripts" / "wheels.sh").read_text(encoding="utf-8")
    assert image()["STOPSIGNAL"] == "SIGTERM"
    assert image()["EXPOSE"] in json.loads(image()["ENTRYPOINT"])


@pytest.mark.slow
@pytest.mark.parametrize("as_first_process", [False, True])
def test_the_container_is_healthy_while_it_runs_and_stops_with_its_signal(as_first_process: bool, folder: Path) -> None:
    port = free_port()
    arguments = here([*json.loads(image()["ENTRYPOINT"]), *json.loads(image()["CMD"])], folder, port)
    python, *probe = json.loads(image()["HEALTHCHECK"].partition("CMD ")[2])
    assert python == "python"
    check = [sys.executable, *(part.replace("9464", str(port)) for part in probe)]
    prefix: tuple[str, ...] = ()
    if as_first_process:  # as in a container, where signals have no default actions
        prefix = ("unshare", "--pid", "--fork", "--kill-child")
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
            pytest.skip("this user may not create a namespace of processes")
    with started(folder, *arguments, prefix=prefix) as process:
        until_said(process, "/metrics and /health")
        subprocess.run(check, check=True, timeout=PATIENCE)
        main_process = psutil.Process(process.pid).children()[0] if prefix else process
        main_process.send_signal(getattr(signal, image()["STOPSIGNAL"]))
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert subprocess.run(check, capture_output=True, check=False, timeout=PATIENCE).returncode != 0
