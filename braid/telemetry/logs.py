"""Logs of a process as OpenTelemetry's log records: of Python's `logging`, with the trace in which each was written."""

import logging
import traceback
from collections.abc import Mapping
from typing import Final

from opentelemetry._logs import LoggerProvider, SeverityNumber
from opentelemetry.context import Context

from braid.kernel.limits.telemetry import LOG_ATTRIBUTES_MAX, LOG_TEXT_CHARS_MAX
from braid.telemetry.tracing import NAME, SCHEMA_URL, log_context

_SEVERITIES: Final = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
)
_EXPORTERS: Final = "opentelemetry"  # what an exporter says of its own trouble must not be exported again


class LogsHandler(logging.Handler):
    """Hands each log of this process to OpenTelemetry's SDK, which queues it within a bound."""

    def __init__(self, provider: LoggerProvider) -> None:
        super().__init__()
        self._logger = provider.get_logger(NAME, schema_url=SCHEMA_URL)

    def emit(self, record: logging.LogRecord) -> None:
        """Hands over one log. `event` is its text, the other values are attributes."""
        if record.name.partition(".")[0] == _EXPORTERS:
            return
        values: Mapping[str, object] = record.msg if isinstance(record.msg, dict) else {}
        text = str(values.get("event", "")) if values else record.getMessage()
        attributes = {
            str(key): _plain(value) for key, value in [*values.items()][:LOG_ATTRIBUTES_MAX] if key != "event"
        }
        self._logger.emit(
            timestamp=int(record.created * 1e9),
            context=log_context() or Context(),
            severity_number=severity_of(record.levelno),
            severity_text=record.levelname,
            body=text[:LOG_TEXT_CHARS_MAX],
            attributes={**attributes, "braid.logger": record.name, **_exception_of(record)},
        )


def severity_of(level: int) -> SeverityNumber:
    """Returns OpenTelemetry's severity of a level of `logging`."""
    return next((found for least, found in _SEVERITIES if level >= least), SeverityNumber.DEBUG)


def _plain(value: object) -> str | int | float | bool:
    return value if isinstance(value, str | int | float | bool) else str(value)[:LOG_TEXT_CHARS_MAX]


def _exception_of(record: logging.LogRecord) -> dict[str, str]:
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return {}
    return {
        "exception.type": type(error).__name__,
        "exception.message": str(error)[:LOG_TEXT_CHARS_MAX],
        "exception.stacktrace": "".join(traceback.format_exception(error))[-LOG_TEXT_CHARS_MAX:],
    }
