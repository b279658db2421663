"""Databases for tests: a file of SQLite's, and a PostgreSQL server that lives as long as the test."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Iterator


def rows(url: str, table: str) -> list[dict[str, Any]]:
    """Return a table's rows in an order that compares."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        records = [dict(row._mapping) for row in connection.execute(sa.text(f"SELECT * FROM {table}"))]  # noqa: S608
    return sorted(records, key=repr)


def execute_count(url: str, query: str) -> int:
    """Return the number that a query gives."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return int(connection.execute(sa.text(query)).scalar_one())


def execute(url: str, *statements: str) -> None:
    """Run statements in one transaction."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def tables(url: str) -> set[str]:
    """Return the names of all tables."""
    return set(sa.inspect(sa.create_engine(url, poolclass=sa.NullPool)).get_table_names())


def postgres_programs() -> Path | None:
    """Return where PostgreSQL's server programs are, or `None`."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))  # where Debian has them
    on_path = shutil.which("initdb")
    return programs[-1].parent if programs else Path(on_path).resolve().parent if on_path else None


@contextmanager
def postgres_server(programs: Path) -> Iterator[str]:
    """Yield the URL of a fresh server that listens on a socket of its own; it refuses to run as root."""
    folder = Path(tempfile.mkdtemp(prefix="dataflow_model-postgres-"))  # short: a socket's path has 107 characters
    user, as_user = pwd.getpwuid(os.getuid()).pw_name, list[str]()
    if os.getuid() == 0:
        user, as_user = "postgres", ["runuser", "-u", "postgres", "--"]
        shutil.chown(folder, user)
    data = folder / "data"

    def call(program: str, *arguments: str) -> None:
        command = [*as_user, str(programs / program), "-D", str(data), *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{program}: {done.stdout}\n{done.stderr}"

    try:
        call("initdb", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        # Its output goes to a file: a pipe would stay open for as long as the server lives.
        call("pg_ctl", "start", "--wait", "--log", str(folder / "log"), "--options", options)
        try:
            yield f"postgresql+psycopg://{user}@/postgres?host={folder}"
        finally:
            call("pg_ctl", "stop", "--mode=immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
