import hashlib
import json

import pytest

from hub.catalog.merge import KnownCatalog, Listing
from hub.children.known.cache import decoded_entry, encoded_entry
from hub.jsonrpc.exact_json import decode_strict, encode
from hub.system.private_file import UnfitEntryError
from hub.values import JsonObject, object_or_empty
from tests.kit.fakes import ECHO, READ

KNOWN = KnownCatalog(
    Listing((ECHO, READ), ({"uri": "x:1"},), ({"uriTemplate": "x:{y}"},), ({"name": "ask"},)),
    era="legacy",
    version="2025-11-25",
    info={"name": "fake", "version": "1"},
    capabilities={"tools": {"listChanged": True}},
    instructions="Use me.",
)


def content(known: KnownCatalog = KNOWN) -> bytes:
    made = encoded_entry("n", known)
    assert made is not None
    return made


def signed(body: bytes, head: bytes = b"roots-hub catalog 1") -> bytes:
    return b"%b %b\n%b" % (head, hashlib.sha256(body).hexdigest().encode(), body)


def changed(**fields: object) -> bytes:
    body = json.loads(content().partition(b"\n")[2])
    return signed(json.dumps({**body, **fields}).encode())


def test_a_catalog_comes_out_as_it_went_in() -> None:
    assert decoded_entry("n", content()) == KNOWN
    late = KnownCatalog(None)
    assert decoded_entry("n", content(late)) == late


def test_numbers_keep_their_spelling() -> None:
    tool: JsonObject = object_or_empty(decode_strict(b'{"name":"t","maximum":1.10,"big":1E400}'))
    read = decoded_entry("n", content(KnownCatalog(Listing((tool,))))).listing
    assert read is not None
    assert encode(read.tools[0]) == b'{"name":"t","maximum":1.10,"big":1E400}'


BROKEN = {
    "empty": b"",
    "no checksum": content().partition(b"\n")[2],
    "another format": signed(b"{}", b"roots-hub catalog 2"),
    "cut off": content()[:-10],
    "one letter changed": content().replace(b"echo", b"ecko", 1),
    "no JSON": signed(b"{"),
    "not UTF-8": signed(b'"\xff"'),
    "nested too deep": signed(b"[" * 10_000 + b"]" * 10_000),
    "a repeated key": signed(b'{"name":"n","name":"n"}'),
    "no object": signed(b"[]"),
    "of another name": changed(name="m"),
    "no lists": changed(listing=1),
    "a list missing": changed(listing={"tools": []}),
    "an entry that is no object": changed(
        listing={"tools": [1], "resources": [], "templates": [], "prompts": []}
    ),
    "a list that is none": changed(
        listing={"tools": {}, "resources": [], "templates": [], "prompts": []}
    ),
    "instructions that are no text": changed(instructions=1),
    "info that is no object": changed(info="x"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_whatever_else_is_in_a_file_is_refused(case: str) -> None:
    with pytest.raises(UnfitEntryError):
        decoded_entry("n", BROKEN[case])
