"""The URLs of databases: checked when a sink is made, and shown without what must stay secret."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import InvalidArgument, InvalidType, explain
from dataflow_model.io.listing.paths import absolute_path

if TYPE_CHECKING:
    import sqlalchemy as sa

_DATABASES: Final = ("sqlite", "postgresql")
_EXAMPLE: Final = "'sqlite:///delays.db' or 'postgresql://user:password@host/database'"
_HIDDEN: Final = "***"


def checked_url(value: Any) -> str:
    """Return a URL that means the same in every process, with the driver that is tested.

    Raises:
        InvalidType: for something that is not a URL.
        InvalidArgument: for a malformed URL, or a database that is not supported.
        ModuleNotFoundError: without SQLAlchemy.
    """
    if importlib.util.find_spec("sqlalchemy") is None:
        raise ModuleNotFoundError(
            explain(
                "WriteTable needs SQLAlchemy, which is not installed", hint="run pip install 'dataflow-model[sql]'"
            ),
            name="sqlalchemy",
        )
    import sqlalchemy as sa
    from sqlalchemy.exc import ArgumentError

    if not isinstance(value, str | sa.URL):
        raise InvalidType(f"`url` must be text, got {type(value).__name__}", hint=f"use {_EXAMPLE}")
    try:
        url = sa.make_url(value)
    except (ArgumentError, ValueError):  # whose text may contain a part of the password
        raise InvalidArgument("the `url` of WriteTable is not the URL of a database", hint=f"use {_EXAMPLE}") from None
    if "@" in (url.host or ""):
        raise InvalidArgument(
            "the `url` of WriteTable has more than one '@' before its database, so the end of the password would "
            "be read as the host",
            hint="encode the password: urllib.parse.quote_plus(password), or sqlalchemy.URL.create(…)",
        )
    database = url.get_backend_name()
    if database not in _DATABASES:
        raise InvalidArgument(
            f"the `url` of WriteTable must be of {' or '.join(_DATABASES)}, whose upserts are supported, got "
            f"{shown_url(url)}",
            hint="use dm.io.ForeachBundle(fn) to write to another database",
        )
    if database == "sqlite":
        if url.database in {None, "", ":memory:"} or str(url.database).startswith("file:"):
            raise InvalidArgument(
                "the `url` of WriteTable must name a file, since a database in memory belongs to one process, got "
                f"{shown_url(url)}",
                hint="use 'sqlite:///delays.db'",
            )
        url = url.set(database=absolute_path(str(url.database)))
    elif url.drivername == database:
        url = url.set(drivername="postgresql+psycopg")
    return url.render_as_string(hide_password=False)


def shown_url(url: sa.URL) -> str:
    """Return a URL as messages may show it: without its password, and without the values of its query.

    Drivers accept user, password and key files in the query too.

    Example:
        >>> import sqlalchemy as sa
        >>> shown_url(sa.make_url("postgresql://ann:secret@host/db?password=secret&sslmode=require"))
        'postgresql://ann:***@host/db?password=***&sslmode=***'
    """
    text = url.set(query={}).render_as_string(hide_password=True)
    return text + "".join(f"{'&' if index else '?'}{name}={_HIDDEN}" for index, name in enumerate(url.query))


def location_of(text: str) -> str:
    """Return the part of a URL that says which database it is: neither the user nor options of the driver.

    Example:
        >>> location_of("postgresql+psycopg://ann:secret@host:5432/db?sslmode=require")
        'postgresql://host:5432/db'
    """
    import sqlalchemy as sa

    url = sa.make_url(text)
    location = sa.URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database)
    return location.render_as_string()


def without_secrets(text: str, url: sa.URL) -> str:
    """Return a driver's message without the passwords of a URL.

    Example:
        >>> import sqlalchemy as sa
        >>> without_secrets('no password "secret" for ann', sa.make_url("postgresql://host/db?password=secret"))
        'no password "***" for ann'
    """
    values = [url.password, *(value for name, value in url.normalized_query.items() if "pass" in name.lower())]
    secrets = {str(part) for value in values if value for part in (value if isinstance(value, tuple) else (value,))}
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", _HIDDEN, text)
    return text
