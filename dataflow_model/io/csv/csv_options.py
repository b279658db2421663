"""The format of a CSV file: the options of `ReadCsv`, checked and translated for Arrow."""

from __future__ import annotations

import codecs
import zoneinfo
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.io.text.row_texts import TextFormat, rows_in
from dataflow_model.io.text.time_formats import TimeFormat
from dataflow_model.io.text.unpacking import checked_encoding
from dataflow_model.zones import LocalTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BREAKS: Final = "\r\n"
_LAST_ASCII: Final = 127


def _texts(texts: Any) -> tuple[str, ...] | None:
    if texts is None:
        return None
    if isinstance(texts, str) or not isinstance(texts, Iterable) or not all(isinstance(text, str) for text in texts):
        raise InvalidType(
            f"`columns`, `null_values` and `timestamp_formats` take lists of texts, got {texts!r}",
            hint=f"write [{texts!r}]" if isinstance(texts, str) else "write ['NA', 'none'], for example",
        )
    return tuple(texts)


def _pairs(mapping: Any) -> tuple[tuple[str, str], ...]:
    try:
        pairs = tuple(dict(() if mapping is None else mapping).items())
    except (TypeError, ValueError):
        pairs = ((mapping, None),)
    if not all(isinstance(text, str) for pair in pairs for text in pair):
        raise InvalidType(
            f"`rename` must have texts for keys and values, got {mapping!r}",
            hint="use rename={'user-id': 'user'}, for example",
        )
    return pairs


@attrs.frozen(kw_only=True)
class CsvOptions:
    """How a CSV file is written; the attributes are the arguments of `ReadCsv`, `columns` as `names`."""

    delimiter: str = ","
    quote: str | None = '"'
    names: tuple[str, ...] | None = attrs.field(default=None, converter=_texts)
    rename: tuple[tuple[str, str], ...] = attrs.field(default=(), converter=_pairs)
    null_values: tuple[str, ...] | None = attrs.field(default=None, converter=_texts)
    timestamp_formats: tuple[str, ...] | None = attrs.field(default=None, converter=_texts)
    zone: str | None = None
    ambiguous: str = "bad row"
    nonexistent: str = "bad row"
    decimal_point: str = "."
    thousands: str | None = None
    comment: str | None = None
    skip_rows: int = 0
    header: bool | None = None
    ragged: str = "bad row"
    encoding: str = attrs.field(default="utf-8", converter=checked_encoding)

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        check_character("delimiter", self.delimiter)
        check_character("decimal_point", self.decimal_point)
        if self.quote is not None:
            check_character("quote", self.quote)
        if self.thousands is not None:
            check_character("thousands", self.thousands)
        if self.comment is not None:
            check_character("comment", self.comment)
        skip_rows: Any = self.skip_rows
        if type(skip_rows) is not int or skip_rows < 0:
            raise InvalidArgument(
                f"`skip_rows` must be a whole number of lines, got {skip_rows!r}",
                hint="pass the number of lines above the header, such as skip_rows=2",
            )
        header: Any = self.header
        if header is not None and not isinstance(header, bool):
            raise InvalidType(
                f"`header` must be true or false, got {header!r}",
                hint="use header=False if the first line is a row, and skip_rows=1 if a line is above the header",
            )
        if self.ragged not in {"bad row", "pad"}:
            raise InvalidArgument(
                f"`ragged` must be 'bad row' or 'pad', got {self.ragged!r}",
                hint="pass ragged='pad' if a row with too few values has null in the columns that it lacks",
            )
        characters = [self.delimiter, self.decimal_point, *([] if self.quote is None else [self.quote])]
        if len(set(characters)) < len(characters):
            raise InvalidArgument(
                f"`delimiter`, `decimal_point` and `quote` must differ, got {', '.join(map(repr, characters))}",
                hint="files with decimal commas usually have delimiter=';'",
            )
        if self.thousands is not None and (
            self.thousands.isalnum() or self.thousands in {self.decimal_point, self.quote}
        ):
            raise InvalidArgument(
                "`thousands` must differ from `decimal_point` and `quote`, and be no letter or digit, got "
                f"{self.thousands!r}",
                hint="use thousands='.' with decimal_point=',', for example",
            )
        if self.comment is not None and self.comment in {self.delimiter, self.quote}:
            raise InvalidArgument(
                f"`comment` must differ from `delimiter` and `quote`, got {self.comment!r}", hint="use comment='#'"
            )
        if self.names is not None and self.rename:
            raise InvalidArgument(
                f"`columns` names the columns, so `rename` has nothing to rename, got {dict(self.rename)!r}",
                hint="leave one of them out",
            )
        if self.names is not None and not self.names:
            raise InvalidArgument(
                "`columns` must name at least one column, got []",
                hint="leave it out if the file has a header, or use columns=['key', 'value']",
            )
        if self.header is False and self.names is None:
            raise InvalidArgument(
                "files without a header need names for their columns, got header=False", hint="pass columns=[…]"
            )
        _ = self.time_formats
        self._check_zone()

    def _check_zone(self) -> None:
        if self.zone is not None:
            try:
                zoneinfo.ZoneInfo(self.zone)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
                raise InvalidArgument(
                    f"`zone` must be the name of a time zone, got {self.zone!r}",
                    hint="write 'Europe/Berlin', for example",
                ) from error
        elif (self.ambiguous, self.nonexistent) != ("bad row", "bad row"):
            option, value = ("ambiguous", self.ambiguous)
            if self.ambiguous == "bad row":
                option, value = ("nonexistent", self.nonexistent)
            raise InvalidArgument(
                f"`{option}` says what some local times of a zone mean, got {option}={value!r} and no zone",
                hint="pass zone='Europe/Berlin', for example",
            )
        _ = self.local_times

    @property
    def headers(self) -> int:
        """The number of header rows."""
        return int(self.names is None if self.header is None else self.header)

    @property
    def time_formats(self) -> tuple[TimeFormat, ...]:
        """How times are written, apart from ISO 8601.

        Raises:
            InvalidArgument: for a format that cannot be read.
        """
        return tuple(map(TimeFormat, self.timestamp_formats or ()))

    @property
    def local_times(self) -> LocalTimes | None:
        """Which instants the times without an offset are; `None` without a zone.

        Raises:
            InvalidArgument: for options that do not exist.
        """
        return None if self.zone is None else LocalTimes(self.zone, self.ambiguous, self.nonexistent)

    @property
    def describes_times(self) -> bool:
        """Whether the options say how times are written."""
        return self.zone is not None or bool(self.timestamp_formats)

    def text_format(self) -> TextFormat:
        """Return how rows are separated."""
        return TextFormat(
            self.encoding,
            self.delimiter,
            self.quote or "",
            ends_at_cr=True,
            comment=self.comment or "",
            skipped=self.skip_rows,
        )

    def read(
        self, data: bytes, names: list[str], conversion: pa_csv.ConvertOptions, *, invalid_row_handler: Any = None
    ) -> pa.Table:
        r"""Parse rows without a header, all at once.

        Arrow skips a byte order mark at the beginning. The one of the file is not part of `data`, so this one belongs
        to the first row, as it would to any other.

        Example:
            >>> options = CsvOptions()
            >>> options.read("\ufeffUA\n".encode(), ["carrier"], options.conversion())["carrier"].to_pylist()
            ['\ufeffUA']
            >>> options = CsvOptions(ragged="pad")
            >>> options.read(b"UA\nAA,5\n", ["carrier", "gate"], options.conversion()).to_pylist()
            [{'carrier': 'UA', 'gate': None}, {'carrier': 'AA', 'gate': 5}]
        """
        if self.ragged == "pad":
            return self._read_padded(data, names, conversion, invalid_row_handler or (lambda _: "error"))
        return self._read(data, names, conversion, invalid_row_handler)

    def _read_padded(
        self,
        data: bytes,
        names: list[str],
        conversion: pa_csv.ConvertOptions,
        handler: Callable[[pa_csv.InvalidRow], str],
    ) -> pa.Table:
        """Parse rows, with null in the columns for which a row has no value."""
        short: dict[int, int] = {}
        long: set[int] = set()

        def note(row: pa_csv.InvalidRow) -> str:
            if row.actual_columns > row.expected_columns:
                long.add(row.number - 1)
                return handler(row)
            short[row.number - 1] = row.actual_columns
            return "skip"

        table = self._read(data, names, conversion, note)
        if not short:
            return table
        widths = np.full(table.num_rows + len(short) + len(long), len(names))
        widths[list(short)] = list(short.values())
        texts = rows_in(data, self.text_format())
        if len(texts) != len(widths):
            raise ValueError("the rows are not those of the file")
        missing = {index: len(names) - count for index, count in short.items()}
        padded = self._read(texts.extended(missing, self.delimiter), names, conversion, note)
        widths = np.delete(widths, list(long))
        rows = np.arange(len(widths))
        columns = [
            column.take(pa.array(rows, mask=widths <= names.index(name)))
            for name, column in zip(padded.column_names, padded.columns, strict=True)
        ]
        return pa.table(columns, schema=padded.schema)

    def _read(self, data: bytes, names: list[str], conversion: pa_csv.ConvertOptions, handler: Any) -> pa.Table:
        data = codecs.BOM_UTF8 + data if data.startswith(codecs.BOM_UTF8) else data
        parsing = pa_csv.ParseOptions(
            delimiter=self.delimiter,
            quote_char=False if self.quote is None else self.quote,
            double_quote=self.quote is not None,
            newlines_in_values=self.quote is not None,
            invalid_row_handler=handler,
        )
        reading = pa_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names)
        return pa_csv.read_csv(
            pa.BufferReader(data), read_options=reading, parse_options=parsing, convert_options=conversion
        )

    def conversion(self, **options: Any) -> pa_csv.ConvertOptions:
        """Return the options with which Arrow converts values."""
        if self.null_values is not None:
            options.update(
                null_values=[*self.null_values, ""], strings_can_be_null=True, quoted_strings_can_be_null=False
            )
        return pa_csv.ConvertOptions(decimal_point=self.decimal_point, **options)

    def renamed(self, header: Sequence[str]) -> list[str]:
        """Return the names of the columns under a header.

        Raises:
            InvalidArgument: for a name in `rename` that the header does not have.
        """
        renames = dict(self.rename)
        unknown = [name for name in renames if name not in header]
        if unknown:
            raise InvalidArgument(
                f"`rename` names the column {unknown[0]!r}, which does not exist",
                hint=f"the columns are {', '.join(header)}",
            )
        return [renames.get(name, name) for name in header]

    def with_zone(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema in which times are instants in UTC if the zone of those without an offset is known."""
        if self.zone is None:
            return schema
        return pa.schema(
            [
                field.with_type(pa.timestamp(field.type.unit, "UTC"))
                if pa.types.is_timestamp(field.type) and field.type.tz is None
                else field
                for field in schema
            ]
        )


def check_character(option: str, character: Any) -> None:
    """Raise `InvalidArgument` for a character that cannot separate or surround values."""
    if not isinstance(character, str) or len(character) != 1 or character in _BREAKS or ord(character) > _LAST_ASCII:
        raise InvalidArgument(
            f"`{option}` must be one ASCII character and no line break, got {character!r}",
            hint="write '\\t' for a tab" if option == "delimiter" else None,
        )
