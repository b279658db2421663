"""Beam's transforms for Kafka, which run in Java, as `ReadKafka` and `WriteKafka` of this package."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
import yaml
from apache_beam import coders
from apache_beam.portability.api import external_transforms_pb2

from dataflow_model.beam.kafka_values import DESERIALIZERS, SERIALIZERS, Decoded, Encoded, with_headers
from dataflow_model.beam.native import Native
from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.io.topics.read import ReadKafka
from dataflow_model.io.topics.write import WriteKafka
from dataflow_model.plan.watermarks.estimators import ARRIVAL
from dataflow_model.time import EventTime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_READS: Final = {"ProcessingTime": ARRIVAL, "CreateTime": "timestamp", "LogAppendTime": "timestamp"}
"""The column of event times for each policy."""
_JAVA_ONLY: Final = frozenset({"default.api.timeout.ms", "max.poll.records", "request.timeout.ms"})
"""The options of Java's clients that only say how they wait."""
_MANAGED_TOPIC: Final = frozenset({"bootstrap_servers", "topic", "format"})


def read_from_kafka(transform: Any, label: str) -> beam.PTransform:
    """Return what runs in place of a `ReadFromKafka`.

    Raises:
        UnsupportedOnRunner: for an argument without equivalent, with its name.
    """
    given = _arguments(transform)
    for name in ("max_num_records", "max_read_time"):
        if given[name] is not None:
            raise _rejected(label, name, given[name], "leave it out; dm.beam.Read(dm.io.ReadKafka(…, end=…)) ends")
    for name in ("consumer_factory_fn_class", "consumer_factory_fn_params"):
        if given[name] is not None:
            raise _rejected(label, name, given[name], "leave it out: there is no Java")
    has_metadata = transform._urn == transform.URN_WITH_METADATA  # noqa: SLF001 - it is kept nowhere else
    decode: list[Callable[[bytes], Any]] = []
    for name in ("key_deserializer", "value_deserializer"):
        kind = given[name]
        if kind not in DESERIALIZERS:
            raise _rejected(
                label, name, given[name], f"use one of {', '.join(DESERIALIZERS)}, or decode bytes in a Map"
            )
        decode.append(DESERIALIZERS[kind])
    start = None if given["start_read_time"] is None else EventTime(given["start_read_time"] * 1_000)
    read = _reading(
        label,
        dict(given["consumer_config"]),
        given["topics"],
        event_time=_READS[given["timestamp_policy"]],
        start=start,
        commits=given["commit_offset_in_finalize"],
    )
    return _Reading(read, Decoded(decode[0], decode[1], has_metadata))


def write_to_kafka(transform: Any, label: str) -> beam.PTransform:
    """Return what runs in place of a `WriteToKafka`.

    Raises:
        UnsupportedOnRunner: for an argument without equivalent, with its name.
    """
    given = _arguments(transform)
    encode: list[Callable[[Any], bytes]] = []
    for name in ("key_serializer", "value_serializer"):
        kind = given[name]
        if kind not in SERIALIZERS:
            raise _rejected(label, name, kind, f"use one of {', '.join(SERIALIZERS)}, or encode bytes in a Map")
        encode.append(SERIALIZERS[kind])
    is_of_rows = transform._urn == transform.URN_WITH_HEADERS  # noqa: SLF001 - it is kept nowhere else
    message = with_headers if is_of_rows else Encoded(*encode)
    return _Writing(_writing(label, dict(given["producer_config"]), given["topic"]), message)


def managed_read(transform: Any, label: str) -> beam.PTransform | None:
    """Return what runs in place of a `managed.Read("kafka")`; `None` for one of something else.

    Raises:
        UnsupportedOnRunner: for an entry of the configuration without equivalent, with its name.
    """
    if transform._source.lower() != "kafka":  # noqa: SLF001 - it is kept nowhere else
        return None
    config = _managed(transform, label, {"auto_offset_reset_config", "consumer_config_updates"})
    options = {"auto.offset.reset": config.get("auto_offset_reset_config", "latest")}
    options |= {"bootstrap.servers": config["bootstrap_servers"]} | (config.get("consumer_config_updates") or {})
    read = _reading(label, options, [config["topic"]], event_time=ARRIVAL, start=None, commits=False)
    return _Reading(read, _payload_of)


def managed_write(transform: Any, label: str) -> beam.PTransform | None:
    """Return what runs in place of a `managed.Write("kafka")`; `None` for one of something else.

    Raises:
        UnsupportedOnRunner: for an entry of the configuration without equivalent, with its name.
    """
    if transform._sink.lower() != "kafka":  # noqa: SLF001 - it is kept nowhere else
        return None
    config = _managed(transform, label, {"producer_config_updates"})
    options = {"bootstrap.servers": config["bootstrap_servers"]} | (config.get("producer_config_updates") or {})
    return _Writing(_writing(label, options, config["topic"]), _only_field)


class _Reading(beam.PTransform):  # type: ignore[misc] # Beam ships no types that mypy takes
    def __init__(self, read: ReadKafka[Any], element: Callable[[Any], Any]) -> None:
        super().__init__()
        self.read, self._element = read, element

    def expand(self, input_or_inputs: Any) -> Any:
        return input_or_inputs | "read" >> Native(self.read) | "element" >> beam.Map(self._element)


class _Writing(beam.PTransform):  # type: ignore[misc]
    def __init__(self, write: WriteKafka, message: Callable[[Any], Any]) -> None:
        super().__init__()
        self._write, self._message = write, message

    def expand(self, input_or_inputs: Any) -> Any:
        return input_or_inputs | "message" >> beam.Map(self._message) | "write" >> Native(self._write)


def _arguments(transform: Any) -> dict[str, Any]:
    """Return the arguments of a transform that runs in Java, which keeps only their encoding."""
    payload = external_transforms_pb2.ExternalConfigurationPayload.FromString(transform._payload)  # noqa: SLF001
    arguments: dict[str, Any] = coders.RowCoder(payload.schema).decode(payload.payload)._asdict()
    return arguments


def _managed(transform: Any, label: str, further: set[str]) -> dict[str, Any]:
    """Return the configuration of a managed transform."""
    if transform._config_url is not None:  # noqa: SLF001
        raise _rejected(label, "config_url", transform._config_url, "pass config={…}")  # noqa: SLF001
    config: dict[str, Any] = yaml.safe_load(transform._yaml_config) or {}  # noqa: SLF001
    for name, value in config.items():
        if name not in _MANAGED_TOPIC | further:
            raise _rejected(label, name, value, "use format 'RAW', and decode or encode bytes in a Map")
    for name in ("bootstrap_servers", "topic"):
        if name not in config:
            raise _rejected(label, name, None, f"add it to the configuration of {label!r}")
    if config.get("format", "RAW") != "RAW":
        raise _rejected(label, "format", config["format"], "use 'RAW', and decode or encode bytes in a Map")
    return config


def _reading(
    label: str, config: dict[str, Any], topics: list[str], *, event_time: Any, start: EventTime | None, commits: bool
) -> ReadKafka[Any]:
    servers = _servers(label, config)
    begins = start is not None or "auto.offset.reset" in config
    reset = config.pop("auto.offset.reset", "latest")  # Java's default
    if reset not in {"earliest", "latest"}:
        raise _rejected(label, "auto.offset.reset", reset, "use 'earliest' or 'latest'")
    if _said(config.pop("enable.auto.commit", False)):
        raise _rejected(label, "enable.auto.commit", True, "use commit_offset_in_finalize=True")
    isolation = config.pop("isolation.level", "read_committed")
    if isolation != "read_committed":
        raise _rejected(label, "isolation.level", isolation, "leave it out: only committed messages are read")
    group = config.pop("group.id", None)
    if commits and group is None:
        raise _rejected(label, "commit_offset_in_finalize", True, "name the group in consumer_config, 'group.id'")
    if group is not None and not commits:
        raise _rejected(
            label,
            "group.id",
            group,
            "leave it out: a run begins at 'auto.offset.reset' or start_read_time, and goes on from its checkpoint; "
            "with commit_offset_in_finalize=True, it notes in the group how far it has read",
        )
    if group is not None and not begins:
        raise _rejected(
            label,
            "group.id",
            group,
            "say with 'auto.offset.reset' or start_read_time where the first run begins: not at the group's offsets",
        )
    return ReadKafka(
        topics,
        bootstrap_servers=servers,
        start=reset if start is None else start,
        group=group,
        event_time=event_time,
        options=_client_options(label, config),
    )


def _writing(label: str, config: dict[str, Any], topic: str) -> WriteKafka:
    servers = _servers(label, config)
    for name in ("transactional.id", "enable.idempotence"):
        if name in config:
            raise _rejected(label, name, config[name], "leave it out: messages are written in transactions of its own")
    return WriteKafka(topic, bootstrap_servers=servers, value="bytes", options=_client_options(label, config))


def _servers(label: str, config: dict[str, Any]) -> str:
    servers = config.pop("bootstrap.servers", None)
    if not servers:
        raise _rejected(label, "bootstrap.servers", servers, "name the brokers, such as 'localhost:9092'")
    return str(servers)


def _said(flag: Any) -> bool:
    return str(flag).lower() == "true"


def _client_options(label: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of Java's clients as those of librdkafka; `run()` rejects those that it does not know."""
    options = {name: value for name, value in config.items() if name not in _JAVA_ONLY}
    for name, value in options.items():
        if name.endswith((".deserializer", ".serializer")):
            raise _rejected(label, name, value, "use the arguments key_… and value_… of the transform")
        if name.startswith(("ssl.truststore.", "ssl.keystore.type", "sasl.client.callback", "sasl.login.")):
            raise _rejected(label, name, value, "use librdkafka's options, such as 'ssl.ca.location'")
    jaas = options.pop("sasl.jaas.config", None)
    return options if jaas is None else options | _login(label, jaas)


def _login(label: str, jaas: str) -> dict[str, str]:
    """Return the user and the password of Java's configuration of a login."""
    kind = re.match(r"\s*[\w.]*\.(?:Plain|Scram)LoginModule\s", jaas)
    found = dict(re.findall(r"(username|password)\s*=\s*\"((?:[^\"\\]|\\.)*)\"", jaas))
    if kind is None or found.keys() != {"username", "password"}:
        raise UnsupportedOnRunner(
            f"{label!r} has a 'sasl.jaas.config' that is no PlainLoginModule or ScramLoginModule with a username and a "
            "password in double quotes",
            hint="use librdkafka's options, such as 'sasl.username' and 'sasl.password'",
        )
    return {f"sasl.{name}": re.sub(r"\\(.)", r"\1", value) for name, value in found.items()}


def _payload_of(row: Any) -> Any:
    return beam.Row(payload=row.value)


def _only_field(row: Any) -> tuple[None, bytes]:
    """Return the message of a row with one field, the bytes of a value."""
    [value] = row.as_dict().values() if isinstance(row, beam.Row) else tuple(row)
    return None, value


def _rejected(label: str, name: str, value: Any, hint: str) -> UnsupportedOnRunner:
    return UnsupportedOnRunner(
        f"{label!r} has {name}={value!r}, for which ReadKafka and WriteKafka, which run in its place, have nothing",
        hint=hint,
    )
