"""Schemas from a registry, by the HTTP interface of Confluent's, which others have too; each is asked for once."""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType, SourceError

_SECONDS: Final = 10.0
"""How long one request may take."""
_MISS_SECONDS: Final = 60.0
"""How long it is believed that a registry does not have a schema."""
_URL: Final = "url"
_LOGIN: Final = "basic.auth.user.info"
_OPTIONS: Final = frozenset({_URL, _LOGIN})
_REFUSED: Final = frozenset({401, 403})
_BROKEN: Final = 500
_MANY: Final = 429
_TEMPORARY: Final = "make sure that the registry runs and can be reached, and start the run again"
_EXAMPLE: Final = "pass schema_registry='http://localhost:8081', for example"


@attrs.frozen
class Schema:
    """A schema as a registry has it.

    Attributes:
        text: the schema, in JSON for Avro.
        kind: `"AVRO"`, `"JSON"` or `"PROTOBUF"`.
        others: the schemas to whose names it refers, each after those that it needs itself.
    """

    text: str
    kind: str = "AVRO"
    others: tuple[Schema, ...] = ()


@attrs.frozen
class Registry:
    """A schema registry; two that are equal share what they have fetched in this process.

    Attributes:
        url: its address.
        login: the name and the password of the user, with a colon between; `None` for none.
    """

    url: str
    login: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, value: Any) -> Registry:
        """Return the registry for the argument `schema_registry`.

        Raises:
            InvalidType: for something else than an address or a dict.
            InvalidArgument: for a dict with other options, and for something that is no address.

        Example:
            >>> Registry.of({"url": "http://localhost:8081/", "basic.auth.user.info": "ann:s3cret"})
            Registry(url='http://localhost:8081')
        """
        options = {_URL: value} if isinstance(value, str) else value
        if not isinstance(options, Mapping):
            raise InvalidType(f"`schema_registry` must be an address or a dict, got {value!r}", hint=_EXAMPLE)
        for name in options:
            if name not in _OPTIONS:
                raise InvalidArgument(
                    f"`schema_registry` has no option {name!r}", hint=f"use {' and '.join(map(repr, sorted(_OPTIONS)))}"
                )
        url = options.get(_URL)
        parts = urllib.parse.urlsplit(url if isinstance(url, str) else "")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidArgument(f"`schema_registry` must be an address of HTTP, got {parts.scheme!r}", hint=_EXAMPLE)
        if "@" in parts.netloc:
            raise InvalidArgument(
                f"`schema_registry` must not have a password in its address, where messages would show it, got one for "
                f"{parts.hostname}",
                hint=f"pass schema_registry={{'url': …, {_LOGIN!r}: 'name:password'}}",
            )
        login = options.get(_LOGIN)
        if not (login is None or (isinstance(login, str) and ":" in login)):
            raise InvalidArgument(
                f"{_LOGIN!r} of `schema_registry` must be a name and a password with a colon between",
                hint="pass 'name:password'",
            )
        return cls(str(url).rstrip("/"), login)

    def check(self) -> None:
        """Check that the registry answers, and lets the user in.

        Raises:
            SourceError: otherwise.
        """
        try:
            self._get("/schemas/types")
        except ConnectionError as error:
            raise SourceError(str(error), hint=_TEMPORARY) from error

    def schema(self, number: int) -> Schema | None:
        """Return the schema with an id; `None` if the registry has none, which is believed for a minute.

        Raises:
            ConnectionError: if the registry does not answer; it may do so a little later.
            SourceError: if it does not let the user in.
        """
        key = self, number
        if key in _schemas:
            return _schemas[key]
        if time.monotonic() - _misses.get(key, -_MISS_SECONDS) < _MISS_SECONDS:
            return None
        answer = self._get(f"/schemas/ids/{number}")
        if answer is None:
            _misses[key] = time.monotonic()
            return None
        schema = _schemas[key] = self._schema(answer)
        return schema

    def _schema(self, answer: Mapping[str, Any]) -> Schema:
        return Schema(answer["schema"], answer.get("schemaType") or "AVRO", tuple(self._referred(answer)))

    def _referred(self, answer: Mapping[str, Any]) -> list[Schema]:
        schemas = []
        for reference in answer.get("references") or ():
            subject = urllib.parse.quote(reference["subject"], safe="")
            found = self._get(f"/subjects/{subject}/versions/{reference['version']}")
            if found is None:
                raise SourceError(
                    f"the schema registry {self.url} has no version {reference['version']} of the subject "
                    f"{reference['subject']!r}, to which a schema refers",
                    hint="register it again",
                )
            schemas.append(self._schema(found))
        return schemas

    def _get(self, path: str) -> Any:
        """Return an answer; `None` if there is nothing at that path."""
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self.login is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(self.login.encode()).decode()}"
        request = urllib.request.Request(self.url + path, headers=headers)  # noqa: S310 - HTTP, as was checked
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in _REFUSED:
                    raise SourceError(
                        f"the schema registry {self.url} does not let the user in: {error.code} {error.reason}",
                        hint=f"check {_LOGIN!r} of schema_registry=, and the rights of the user",
                    ) from error
                if error.code >= _BROKEN or error.code == _MANY:
                    raise ConnectionError(f"the schema registry {self.url} answers {error.code} to {path}") from error
                return None
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ConnectionError(f"the schema registry {self.url} does not answer {path}: {reason}") from error


_schemas: dict[tuple[Registry, int], Schema] = {}
_misses: dict[tuple[Registry, int], float] = {}
