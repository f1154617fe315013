"""A logger that keeps what it is told, for tests that look at the records themselves."""

import logging


class Voice(logging.Logger):
    """Keeps its records instead of having them written."""

    def __init__(self, name: str = "test", level: int = logging.INFO) -> None:
        super().__init__(name, level)
        self.records: list[logging.LogRecord] = []

    def handle(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.records.append(record)

    @property
    def said(self) -> list[str]:
        """All messages."""
        return [one.getMessage() for one in self.records]
