import pytest

from hub.attach.frames import (
    END,
    LOG,
    MAX_HELLO,
    FrameError,
    FrameReader,
    frame,
    hello,
    hello_length,
    parsed,
    parsed_hello,
)


def test_a_hello_says_what_was_put_into_it_whatever_bytes_a_variable_has() -> None:
    odd = b"\xff".decode("utf-8", "surrogateescape")
    text = hello("attach", "secret", "1.0", environment={"A": odd}, roots=["é"])
    assert hello_length(text[:3]) is None
    assert hello_length(text) == len(text)
    said = parsed_hello(text)
    assert said["environment"] == {"A": odd}
    assert (said["kind"], said["secret"], said["roots"]) == ("attach", "secret", ["é"])


@pytest.mark.parametrize("wrong", [b"[]", b"{", b"\xff", b'"x"', b"1"])
def test_what_is_no_object_is_no_hello(wrong: bytes) -> None:
    with pytest.raises(FrameError):
        parsed(wrong)


def test_a_hello_that_is_too_long_is_refused_before_it_has_come() -> None:
    with pytest.raises(FrameError):
        hello_length((MAX_HELLO + 1).to_bytes(4, "big"))


def test_frames_are_cut_wherever_they_were_split() -> None:
    whole = frame(LOG, b"one\n") + frame(END, b"\x00") + frame(LOG)
    for size in range(1, len(whole)):
        reader = FrameReader()
        found = [
            one for at in range(0, len(whole), size) for one in reader.feed(whole[at : at + size])
        ]
        assert found == [(LOG, b"one\n"), (END, b"\x00"), (LOG, b"")]
    with pytest.raises(FrameError):
        FrameReader().feed(b"l\xff\xff\xff\xff")
