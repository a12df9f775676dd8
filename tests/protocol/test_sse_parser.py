"""The event stream format: the examples of the HTML standard, and what it leaves to bounds."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.protocol.sse_parser import ENDS, EventParser, ServerSentEvent

LIMIT = 4096


def parsed(*chunks: bytes, limit: int = LIMIT) -> list[ServerSentEvent]:
    parser = EventParser(limit)
    return [event for chunk in chunks for event in parser.feed(chunk)]


def said(*texts: bytes) -> list[ServerSentEvent]:
    return [ServerSentEvent("message", text) for text in texts]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", said(b"YHOO\n+2\n10")),
        (b": test stream\n\ndata: first\nid: 1\n\ndata:second\nid\n\ndata:  third\n\n", None),
        (b"data:test\n\ndata: test\n\n", said(b"test", b"test")),
        (b"event: endpoint\ndata: /x?a=b:c\n\n", [ServerSentEvent("endpoint", b"/x?a=b:c")]),
        (b"event: endpoint\n\ndata: next\n\n", said(b"next")),
        (b"\xef\xbb\xbfdata: marked\n\n", said(b"marked")),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", said(b"a", b"b", b"c")),
        (b"data\n\ndata:\n\n", []),
        (b"data: a\ndata\n\n", said(b"a\n")),
        (b"unknown: x\nno colon\ndata: a\n\n", said(b"a")),
        (b"data: never ended", []),
        (b"data: no blank line\n", []),
        (b"data: \xff\n\n", said(b"\xff")),
        (b"", []),
    ],
)
def test_a_stream_is_cut_into_its_events(
    stream: bytes, events: list[ServerSentEvent] | None
) -> None:
    expected = said(b"first", b"second", b" third") if events is None else events
    assert parsed(stream) == expected


@given(st.lists(st.integers(0, 120)), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_pieces_make_no_difference(cuts: list[int], end: bytes) -> None:
    lines = (b"data: a", b"data: b", b"", b"event: x", b"id: 7", b"data: c", b"", b"data: d", b"")
    stream = b"\xef\xbb\xbf" * (end == b"\n") + end.join(lines) + end
    places = sorted({0, 3, len(stream), *(cut for cut in cuts if 3 <= cut <= len(stream))})
    pieces = [stream[a:b] for a, b in pairwise(places)]
    assert parsed(*pieces) == [
        ServerSentEvent("message", b"a\nb"),
        ServerSentEvent("x", b"c"),
        ServerSentEvent("message", b"d"),
    ]


def test_the_last_id_and_the_waiting_time_are_known_once_their_event_is_complete() -> None:
    parser = EventParser(LIMIT)
    assert (parser.last_id, parser.retry) == (b"", None)
    parser.feed(b"id: 1\nretry: 2500\n")
    assert parser.last_id == b""
    assert parser.feed(b"data\n\n") == []
    assert (parser.last_id, parser.retry) == (b"1", 2500)
    parser.feed(b"id: a\0b\nretry: soon\n\nretry: -1\n\n")
    assert (parser.last_id, parser.retry) == (b"1", 2500)
    parser.feed(b"id\ndata: x\n\n")
    assert parser.last_id == b""


@pytest.mark.parametrize(
    ("line", "last", "limit"),
    [
        (b"id:  2 \t", b"2", 100),
        (b"id", b"", 100),
        (b"id: " + b"2" * 9000, b"1", 10_000),
        (b"id: " + b"2" * 9000, b"1", 100),
    ],
    ids=["with blanks", "none", "too long", "longer than events may be"],
)
def test_the_last_id_fits_into_a_header(line: bytes, last: bytes, limit: int) -> None:
    parser = EventParser(limit)
    parser.feed(b"id: 1\n\n")
    parser.feed(line + b"\n\n")
    assert parser.last_id == last


def test_a_restarted_parser_keeps_only_the_last_event_id() -> None:
    parser = EventParser(LIMIT)
    parser.feed(b"id: 1\ndata: a\n\nid: 2\nevent: x\ndata: cut o")
    parser.restart()
    assert parser.last_id == b"1"
    assert parser.feed(b"\xef\xbb\xbfdata: b\n\n") == said(b"b")


def test_a_text_of_just_the_limit_is_whole() -> None:
    assert parsed(b"data: " + b"x" * LIMIT + b"\n\n") == said(b"x" * LIMIT)
    assert parsed(b"data: a\ndata: " + b"x" * (LIMIT - 2) + b"\n\n") == said(
        b"a\n" + b"x" * (LIMIT - 2)
    )


@pytest.mark.parametrize("step", [1, 100, 10**6])
@pytest.mark.parametrize("shape", ["one line", "many lines"])
def test_of_a_text_that_is_too_long_the_ends_are_kept(shape: str, step: int) -> None:
    begins, ends = b'{"id":1,"result":"', b'"}'
    line = b"x" * 100 + (b"\ndata: " if shape == "many lines" else b"")
    text = begins + line * (LIMIT // 50) + ends
    stream = b"id: 9\ndata: " + text + b"\nevent: e\n\ndata: next\n\n"
    parser = EventParser(LIMIT)
    found: list[ServerSentEvent] = []
    for start in range(0, len(stream), step):
        found += parser.feed(stream[start : start + step])
    cut, following = found
    assert (cut.name, cut.is_cut, parser.last_id) == ("e", True, b"9")
    assert cut.text.startswith(begins)
    assert cut.text.endswith(ends)
    assert len(cut.text) <= 2 * ENDS
    assert following == ServerSentEvent("message", b"next")


def test_a_comment_that_is_too_long_cuts_no_event() -> None:
    chunks = [b":"] + [b"x" * 1000] * 20 + [b"\ndata: a\n\n"]
    assert parsed(*chunks) == said(b"a")


def test_an_empty_chunk_between_return_and_newline_ends_no_event() -> None:
    parser = EventParser(1000)
    found = [*parser.feed(b"data: a\r"), *parser.feed(b""), *parser.feed(b"\ndata: b\r\n\r\n")]
    assert [event.text for event in found] == [b"a\nb"]


@pytest.mark.parametrize("chunk", [b"data: x\n", b"data:\n", b"data: xy\ndata: yz\n", b"x"])
def test_an_unfinished_event_takes_no_more_memory_than_its_bytes(chunk: bytes) -> None:
    parser, times = EventParser(8 * 1024 * 1024), 20_000
    tracemalloc.start()
    try:
        for _ in range(times):
            parser.feed(chunk)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 2 * times * len(chunk)
