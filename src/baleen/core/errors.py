"""Errors that Baleen raises for bad input, each with an exit code and an HTTP status.

    BaleenError                 1   500
    ├── ConfigError             3   400   an unknown setting, or a bad value
    ├── CorpusError             4   400   a collection file that cannot be read as passages
    ├── CheckpointError         5   400   a model folder that is missing, broken or of a newer format
    ├── QueryError              6   400   an invalid search (an empty query, k below 1)
    ├── MissingExtraError       7   501   an optional dependency that is not installed
    ├── DatasetError            8   400   a file of claims that cannot be read, or does not fit the corpus
    ├── TrainingError           9   500   a training run that cannot go on or be resumed
    └── StoredIndexError       10   500   anything wrong with an index on disk
        ├── IndexNotFoundError 11   404   no index in this folder
        ├── IndexExistsError   12   409   an index is there already
        ├── IndexFormatError   13   500   not the manifest of an index
        │   └── IndexVersionError 17 500  another version of the index format
        ├── IndexCorruptError  14   500   a file is missing, truncated or altered
        ├── IndexLockedError   15   409   another process is writing to it
        └── EncoderMismatchError 16 409   the index was built with another encoder

Usage errors of the command line exit with 2.  A message says what was found, what was expected and what to do.
"""

from __future__ import annotations

from typing import ClassVar


class BaleenError(Exception):
    """An error in the user's input: `exit_code` ends the command line, `http_status` a request."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500


class ConfigError(BaleenError):
    exit_code = 3
    http_status = 400


class CorpusError(BaleenError):
    exit_code = 4
    http_status = 400


class CheckpointError(BaleenError):
    exit_code = 5
    http_status = 400


class QueryError(BaleenError):
    exit_code = 6
    http_status = 400


class MissingExtraError(BaleenError):
    exit_code = 7
    http_status = 501

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> MissingExtraError:
        return cls(f"{purpose} needs the package '{package}', which is not installed: pip install 'baleen[{extra}]'")


class DatasetError(BaleenError):
    exit_code = 8
    http_status = 400


class TrainingError(BaleenError):
    exit_code = 9


class StoredIndexError(BaleenError):
    exit_code = 10


class IndexNotFoundError(StoredIndexError):
    exit_code = 11
    http_status = 404


class IndexExistsError(StoredIndexError):
    exit_code = 12
    http_status = 409


class IndexFormatError(StoredIndexError):
    exit_code = 13


class IndexVersionError(IndexFormatError):
    exit_code = 17


class IndexCorruptError(StoredIndexError):
    exit_code = 14


class IndexLockedError(StoredIndexError):
    exit_code = 15
    http_status = 409


class EncoderMismatchError(StoredIndexError):
    exit_code = 16
    http_status = 409
