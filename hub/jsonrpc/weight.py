"""How much memory what is to be sent takes, about: it is not put into bytes to find out."""

from __future__ import annotations

from msgspec import Raw

from hub.jsonrpc.messages import Failure, Payload, Response
from hub.values import Json


def weight_of_answer(answer: Response | Failure) -> int:
    """Return about how many bytes an answer has."""
    return weight_of(answer.result if isinstance(answer, Response) else answer.error)


def weight_of(payload: Payload | Json) -> int:
    """Return about how many bytes a payload has."""
    match payload:
        case Raw():
            return memoryview(payload).nbytes
        case str():
            return len(payload)
        case dict():
            return sum(len(key) + weight_of(value) for key, value in payload.items())
        case list():
            return sum(map(weight_of, payload), len(payload))
        case int():
            return 1 + payload.bit_length() // 3
        case _:
            return 8
