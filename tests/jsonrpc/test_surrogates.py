import json

import msgspec

from hub.jsonrpc.exact_json import has_surrogates, masked, mended

CUT = rb'{"a":"\ud83d","b":1}'


def test_a_half_character_is_noticed_in_json_text() -> None:
    assert has_surrogates(CUT)
    assert has_surrogates(rb'"\uDE00"')
    assert not has_surrogates(rb'{"a":"\u00e9","d800":1}')


def test_masked_text_can_be_decoded_and_has_everything_in_its_place() -> None:
    assert len(masked(CUT)) == len(CUT)
    assert msgspec.json.decode(masked(CUT)) == {"a": "\ue83d", "b": 1}
    assert msgspec.json.decode(masked(CUT, "f")) == {"a": "\uf83d", "b": 1}
    assert msgspec.json.decode(masked(rb'["\uD800","\udFFF"]')) == ["\ue800", "\uefff"]


def test_text_without_half_characters_stays_as_it_is_when_masked() -> None:
    text = '{"a":"\u00e9\\u0041"}'.encode()
    assert masked(text) == text


def test_a_lone_half_is_replaced_and_a_pair_is_put_together_at_any_depth() -> None:
    value = json.loads(r'{"\ud83d":["x\ude00",{"k":"\ud83d\ude00"},1]}')
    assert mended(value) == {"\ufffd": ["x\ufffd", {"k": "\U0001f600"}, 1]}
