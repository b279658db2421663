"""A program of Beam's whose classes, coders and schemas are all in `__main__`, as those of a script are.

python main_program.py OUTPUT [OPTION …]
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false
# mypy: disable-error-code="misc"

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import BagStateSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EXPECTED = ["airport LHR 2", "airport SFO 5", "carrier DL 4", "carrier UA 3", "state SFO [1, 4]"]


class Carrier:
    """A key whose registered coder ignores case."""

    def __init__(self, code: str) -> None:
        self.code = code


class CarrierCoder(beam.coders.Coder):
    """Encodes a carrier by its code in capitals."""

    def encode(self, value: Carrier) -> bytes:
        return value.code.upper().encode()

    def decode(self, encoded: bytes) -> Carrier:
        return Carrier(encoded.decode())

    def is_deterministic(self) -> bool:
        return True


class Airport(NamedTuple):
    """A key with a schema."""

    code: str
    country: str


@dataclasses.dataclass
class Flight:
    """An element of a class of the program's."""

    carrier: Carrier
    airport: Airport
    delay: int


class Keeping(beam.DoFn):
    """Emits the delays of the first two flights of an airport."""

    FLIGHTS = BagStateSpec("flights", beam.coders.PickleCoder())

    def process(self, pair: Any, flights: Any = beam.DoFn.StateParam(FLIGHTS)) -> Iterator[str]:
        airport, flight = _checked(pair[0], Airport), _checked(pair[1], Flight)
        flights.add(flight)
        delays = sorted(_checked(each, Flight).delay for each in flights.read())
        if len(delays) == 2:
            yield f"state {airport.code} {delays}"


def _checked(value: Any, kind: type) -> Any:
    """Return a value of a class of this program, which is the same class in every process."""
    assert isinstance(value, kind), (type(value), kind)
    return value


def by_airport(flight: Flight) -> tuple[Airport, Flight]:
    return _checked(_checked(flight, Flight).airport, Airport), flight


def by_carrier(flight: Flight) -> tuple[Carrier, int]:
    return _checked(flight.carrier, Carrier), flight.delay


def of_carrier(pair: tuple[Carrier, int]) -> str:
    _checked(beam.coders.registry.get_coder(Carrier), CarrierCoder)
    return f"carrier {_checked(pair[0], Carrier).code} {pair[1]}"


def of_airport(pair: tuple[Airport, Iterable[Flight]]) -> str:
    return f"airport {_checked(pair[0], Airport).code} {sum(_checked(each, Flight).delay for each in pair[1])}"


def main() -> None:
    """Run the program."""
    beam.coders.registry.register_coder(Carrier, CarrierCoder)
    beam.coders.registry.register_coder(Airport, beam.coders.RowCoder)
    sfo, lhr = Airport("SFO", "US"), Airport("LHR", "GB")
    flights = [Flight(Carrier("ua"), sfo, 1), Flight(Carrier("UA"), lhr, 2), Flight(Carrier("dl"), sfo, 4)]
    with beam.Pipeline(options=PipelineOptions(sys.argv[2:])) as pipeline:
        created = pipeline | beam.Create(flights)
        by_code = created | beam.Map(by_carrier).with_output_types(tuple[Carrier, int]) | beam.CombinePerKey(sum)
        pairs = created | beam.Map(by_airport).with_output_types(tuple[Airport, Flight])
        lines = (
            by_code | beam.Map(of_carrier),
            pairs | beam.GroupByKey() | beam.Map(of_airport),
            pairs | beam.ParDo(Keeping()),
        )
        _ = lines | beam.Flatten() | beam.io.WriteToText(sys.argv[1])


if __name__ == "__main__":
    main()
