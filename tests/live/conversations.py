"""What a client and a server say to each other in a pair of transcripts: all that the protocol has.

Each text is written by hand, with what programs that rebuild messages lose: numbers in a spelling
of their own, characters beyond the first plane, unknown fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

ODD = (
    '{"int":123456789012345678901234567890,"below":-9223372036854775809,"one":1.0,"tiny":1e-400,'
    '"huge":1e400,"zero":-0.0,"spelled":1.10,"exponent":1E5,"signed":2.5e+3,"null":null,'
    '"empty":[],"nothing":{},"true":true,"nested":[[{"a":[1.0,{}]}]],"astral":"\U0001f600",'
    '"pair":"\\ud83d\\ude00","lines":"\u2028\u2029","escaped":"\\u2028","slash":"a\\/b",'
    '"control":"\\u0000\\u001f","nfd":"e\u0301","bidi":"\u202e","mark":"\ufeff",'
    '"private":"\ue000","quote":"\\"\\\\","":"no name","\u00e9 \U0001f600":1}'
)
LONE = '{"high":"\\ud83d","low":"\\ude00 x","\\udfff":1}'
"""Halves of a character, as JavaScript writes them for a text that was cut in the middle of one."""
MANY = "{" + ",".join(f'"key {n}":{n}.50' for n in range(5000)) + "}"
ICONS = '"icons":[{"src":"data:image/png;base64,AAAA","mimeType":"image/png","sizes":["48x48"]}]'
CONTENT = (
    '{"type":"text","text":"\U0001f600 \\ud83d\\ude00 \u2028","annotations":{"audience":["user"],'
    f'"priority":0.50,"lastModified":"2026-01-01T00:00:00Z","x":{ODD}}},"_meta":{ODD}}},'
    '{"type":"image","data":"AAAA","mimeType":"image/png","x.example/more":[]},'
    '{"type":"audio","data":"AAAA","mimeType":"audio/wav"},'
    f'{{"type":"resource_link","uri":"odd://linked","name":"linked","title":"L","size":1.0,{ICONS}}},'
    '{"type":"resource","resource":{"uri":"odd://text","text":"embedded","mimeType":"text/plain",'
    f'"_meta":{ODD}}}}},'
    '{"type":"resource","resource":{"uri":"odd://blob","blob":"AAAA"}},'
    f'{{"type":"x.example/unknown","value":{ODD}}}'
)
SCHEMA = (
    '{"type":"object","properties":{"content":{"type":"object"},"n":{"type":"number",'
    '"minimum":1.10,"maximum":1e400,"default":1.0}},"x-unknown":' + ODD + "}"
)


@dataclass(frozen=True)
class Turn:
    """A request of the client's, and what comes of it; all texts are JSON as it is written.

    `says`: what the server says before its answer. `tells`: what it says after that, to whom it
    may concern. `replies`: what the client answers to a question, by its method. `retried`: the
    answer once the client has brought what the first one asked for. `waits`: there is no answer,
    the client cancels. `after_cancel`: the answer comes once that is known.
    """

    key: str
    params: str = "{}"
    answer: str = '"result":{}'
    says: Sequence[str] = ()
    tells: Sequence[str] = ()
    replies: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    retried: str | None = None
    waits: bool = False
    after_cancel: bool = False
    listens: bool = False

    @property
    def method(self) -> str:
        return self.key.split()[0]

    def script(self) -> dict[str, Any]:
        """Return the server's part."""
        return {
            "answer": self.answer,
            "says": self.says,
            "tells": self.tells,
            "retried": self.retried,
            "waits": self.waits,
            "after_cancel": self.after_cancel,
            "listens": self.listens,
        }


def notification(method: str, params: str) -> str:
    return f'{{"jsonrpc":"2.0","method":"{method}","params":{params}}}'


def question(id_: str, method: str, params: str) -> str:
    return f'{{"jsonrpc":"2.0","id":{id_},"method":"{method}","params":{params}}}'


def reply(answer: str) -> str:
    return f'{{"jsonrpc":"2.0","id":@ID@,{answer}}}'


def called(name: str, answer: str = '"result":{"content":[]}', **more: Any) -> Turn:
    """Return a call of a tool, with odd arguments."""
    params = f'{{"name":"{name}","arguments":{{"content":{ODD},"n":1.10}},"x.example/top":{ODD}}}'
    return Turn(f"tools/call {name}", params, answer, **more)


PROGRESS = (
    f'{{"progressToken":@TOKEN@,"progress":1.0,"total":1e400,"message":"\U0001f600","x":{ODD}}}',
    '{"progressToken":@TOKEN@,"progress":1.10}',
)
LOGGED = f'{{"level":"error","logger":"odd","data":{ODD},"_meta":{ODD}}}'
SAMPLING = (
    '{"messages":[{"role":"user","content":{"type":"text","text":"\U0001f600"}}],"maxTokens":100,'
    f'"temperature":0.70,"metadata":{ODD},"x.example/more":{ODD}}}'
)
SAMPLED = (
    '{"role":"assistant","content":{"type":"text","text":"\U0001f600 \u2028"},"model":"m",'
    f'"stopReason":"endTurn","_meta":{ODD},"x.example/more":{ODD}}}'
)
FORM = (
    '{"mode":"form","message":"\U0001f600?","requestedSchema":{"type":"object","properties":'
    '{"n":{"type":"number","minimum":1.10,"title":"N"}},"required":["n"]},"x":' + ODD + "}"
)
FILLED = f'{{"action":"accept","content":{{"n":1.10,"s":"\U0001f600"}},"_meta":{ODD}}}'
URL = (
    '{"mode":"url","message":"look","url":"https://example.com/?a=%20","elicitationId":"e 1",'
    f'"x":{ODD}}}'
)
ERROR = f'"error":{{"code":-31099,"message":"\U0001f600 \\u2028","data":{ODD}}}'

TOOLS = [
    "odd", "fails", "errs", "bare_error", "empty", "unstructured", "cut", "many", "reports",
    "logs", "asks_model", "asks_form", "asks_url", "is_refused", "withdraws",
    "hears_progress", "sleeps", "slept", "changes",
]  # fmt: skip

CALLS = [
    called(
        "odd",
        f'"result":{{"content":[{CONTENT}],"structuredContent":{ODD},"isError":false,'
        f'"_meta":{ODD},"x.example/top":{ODD}}}',
    ),
    called("fails", f'"result":{{"content":[{CONTENT}],"isError":true}}'),
    called("errs", ERROR),
    called("bare_error", '"error":{"code":1,"message":"","data":null,"x":1.0}'),
    called("empty", '"result":{"content":[]}'),
    called("unstructured", '"result":{"structuredContent":null,"content":[],"isError":null}'),
    called("cut", f'"result":{{"content":[],"_meta":{LONE},"structuredContent":{LONE}}}'),
    called("many", f'"result":{{"content":[],"structuredContent":{MANY}}}'),
    called("reports", says=[notification("notifications/progress", text) for text in PROGRESS]),
]

COMPLETED = (
    f'"result":{{"completion":{{"values":["\U0001f600"],"total":1.0,"hasMore":false,"x":{ODD}}},'
    f'"_meta":{ODD}}}'
)
READ = (
    '"result":{"contents":[{"uri":"odd://one","text":"\U0001f600 \\ud83d","mimeType":"text/plain",'
    f'"_meta":{ODD}}},{{"uri":"odd://one","blob":"AAAA","x":1.10}}],"x.example/top":{ODD}}}'
)
PROMPT = (
    f'"result":{{"description":"\U0001f600","messages":[{{"role":"user","content":'
    f'{{"type":"text","text":"\u2028","_meta":{ODD}}},"x":1.10}}],"_meta":{ODD}}}'
)
OTHERS = [
    Turn("resources/read odd://one", f'{{"uri":"odd://one","x.example/top":{ODD}}}', READ),
    Turn("resources/read odd://errs", '{"uri":"odd://errs"}', ERROR),
    Turn(
        "prompts/get odd",
        f'{{"name":"odd","arguments":{{"content":"\U0001f600 \u2028"}},"x":{ODD}}}',
        PROMPT,
    ),
    Turn("prompts/get errs", '{"name":"errs"}', ERROR),
    Turn(
        "completion/complete odd",
        '{"ref":{"type":"ref/prompt","name":"odd","title":"\U0001f600"},"argument":{"name":"content",'
        '"value":"\U0001f600"},"context":{"arguments":{"other":"1.10"}},"x":1.10}',
        COMPLETED,
    ),
    Turn(
        "completion/complete odd://{content}",
        '{"ref":{"type":"ref/resource","uri":"odd://{content}"},"argument":{"name":"content",'
        '"value":""}}',
        COMPLETED,
    ),
    Turn(
        "completion/complete errs",
        '{"ref":{"type":"ref/prompt","name":"errs"},"argument":{"name":"content","value":""}}',
        ERROR,
    ),
]  # fmt: skip


def listing(method: str, field_: str, entries: Sequence[str], more: str = "") -> list[Turn]:
    """Return a list in two pages; `more` are fields of each."""
    half = len(entries) // 2
    first, second = ",".join(entries[:half]), ",".join(entries[half:])
    return [
        Turn(method, answer=f'"result":{{"{field_}":[{first}],"nextCursor":"second"{more}}}'),
        Turn(
            f"{method} second",
            '{"cursor":"second"}',
            f'"result":{{"{field_}":[{second}]{more}}}',
        ),
    ]


def entry(name: str, more: str = "") -> str:
    texts = '"title":"\U0001f600","description":"\u2028 \\/"'
    return f'{{"name":"{name}",{texts},{ICONS},"_meta":{ODD},"x":{ODD}{more}}}'


ANNOTATED = '"annotations":{"title":"\U0001f600","readOnlyHint":true,"x":1.10}'


def listings(more: str = "") -> list[Turn]:
    """Return all lists."""
    tools = [
        entry(name, f',"inputSchema":{SCHEMA},"outputSchema":{SCHEMA},{ANNOTATED}')
        for name in TOOLS
    ]
    resources = [
        entry(uri, f',"uri":"{uri}","mimeType":"text/plain","size":1.0')
        for uri in ("odd://one", "odd://errs", "odd://two")
    ]
    templates = [
        entry(uri, f',"uriTemplate":"{uri}"') for uri in ("odd://{content}", "odd://x/{y}")
    ]
    prompts = [
        entry(name, ',"arguments":[{"name":"content","required":false,"x":1.10}]')
        for name in ("odd", "errs")
    ]
    return [
        *listing("tools/list", "tools", tools, more),
        *listing("resources/list", "resources", resources, more),
        *listing("resources/templates/list", "resourceTemplates", templates, more),
        *listing("prompts/list", "prompts", prompts, more),
    ]


SERVER = f'"serverInfo":{{"name":"odd","version":"1","title":"\U0001f600",{ICONS}}}'
OFFERS = (
    '"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},'
    '"prompts":{"listChanged":true},"completions":{},"logging":{}'
)
INITIALIZED = (
    f'"result":{{"protocolVersion":"2025-11-25","capabilities":{{{OFFERS}}},{SERVER},'
    '"instructions":"Use with care.\\n\\n# \U0001f600\\n"}'
)
CHANGES = [
    f'{{"jsonrpc":"2.0","method":"notifications/{kind}/list_changed"}}'
    for kind in ("tools", "resources", "prompts")
]
UPDATED = f'{{"uri":"odd://one","title":"\U0001f600","x":{ODD},"_meta":{ODD}}}'

LEGACY = [
    *CALLS,
    *OTHERS,
    called("logs", says=[notification("notifications/message", LOGGED)]),
    called(
        "asks_model",
        says=[question('"one"', "sampling/createMessage", SAMPLING)],
        replies={"sampling/createMessage": [reply(f'"result":{SAMPLED}')]},
    ),
    called(
        "asks_form",
        says=[question("2", "elicitation/create", FORM)],
        replies={"elicitation/create": [reply(f'"result":{FILLED}')]},
    ),
    called(
        "asks_url",
        says=[
            question("3", "elicitation/create", URL),
            notification(
                "notifications/elicitation/complete", f'{{"elicitationId":"e 1","x":{ODD}}}'
            ),
        ],
        replies={"elicitation/create": [reply('"result":{"action":"accept"}')]},
    ),
    called(
        "is_refused",
        says=[question("4", "sampling/createMessage", SAMPLING)],
        replies={"sampling/createMessage": [reply(ERROR)]},
    ),
    called(
        "withdraws",
        says=[
            question("5", "sampling/createMessage", SAMPLING[:-1] + ',"example.com/withdrawn":1}'),
            question("7", "elicitation/create", FORM),
            notification("notifications/cancelled", '{"requestId":5,"reason":"too late"}'),
        ],
        replies={"elicitation/create": [reply(f'"result":{FILLED}')]},
    ),
    called(
        "hears_progress",
        says=[
            question(
                "6", "sampling/createMessage", SAMPLING[:-1] + ',"_meta":{"progressToken":"of 6"}}'
            )
        ],
        replies={
            "sampling/createMessage": [
                notification(
                    "notifications/progress",
                    f'{{"progressToken":@TOKEN@,"progress":1.10,"message":"\U0001f600","x":{ODD}}}',
                ),
                reply(f'"result":{SAMPLED}'),
            ]
        },
    ),
    called("sleeps", says=[notification("notifications/progress", PROGRESS[1])], waits=True),
    called("slept", after_cancel=True),
    Turn("resources/subscribe odd://one", '{"uri":"odd://one"}'),
    called(
        "changes", tells=[*CHANGES, notification("notifications/resources/updated", UPDATED)]
    ),
    Turn("resources/unsubscribe odd://one", '{"uri":"odd://one"}'),
    Turn("logging/setLevel", '{"level":"debug"}'),
    Turn("ping"),
]  # fmt: skip

# The modern era: no handshake, an envelope with each request, questions by an answer of their own.

OWN_META = (
    f'"_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"odd","version":"1"}},"x":{ODD}}}'
)
COMPLETE = '"resultType":"complete"'
CACHEABLE = '"ttlMs":1000,"cacheScope":"private"'
CACHED = frozenset(
    {"resources/read", "tools/list", "resources/list", "resources/templates/list", "prompts/list"}
)


def modern(turn: Turn) -> Turn:
    """Return a turn with the modern era's fields in its result."""
    read: dict[str, Any] = json.loads(f"{{{turn.answer}}}").get("result", {})
    fields = [COMPLETE, *([] if "_meta" in read else [OWN_META])]
    fields += [CACHEABLE] if turn.method in CACHED else []
    more = ",".join(fields) + ("," if read else "")
    return replace(turn, answer=turn.answer.replace('"result":{', f'"result":{{{more}', 1))


def asking(*questions: str) -> str:
    """Return a result that asks before it answers."""
    keyed = ",".join(f'"q {n} \U0001f600":{it}' for n, it in enumerate(questions))
    return (
        f'"result":{{"resultType":"input_required","inputRequests":{{{keyed}}},'
        f'"requestState":"\U0001f600 \\u2028 state",{OWN_META},"x":{ODD}}}'
    )


def wanted(method: str, params: str) -> str:
    return f'{{"method":"{method}","params":{params}}}'


LAST = f'"result":{{{COMPLETE},{OWN_META},"content":[{CONTENT}],"structuredContent":{ODD}}}'
MODERN = [
    *(modern(turn) for turn in (*CALLS, *OTHERS)),
    modern(called("logs", says=[notification("notifications/message", LOGGED)])),
    called("asks_model", asking(wanted("sampling/createMessage", SAMPLING)), retried=LAST),
    called(
        "asks_form",
        asking(wanted("elicitation/create", FORM), wanted("elicitation/create", URL)),
        retried=LAST,
    ),
    called("sleeps", says=[notification("notifications/progress", PROGRESS[1])], waits=True),
    modern(called("slept", after_cancel=True)),
]  # fmt: skip
DISCOVERED = (
    f'"result":{{{COMPLETE},{OWN_META},{CACHEABLE},"supportedVersions":["2026-07-28"],'
    f'"capabilities":{{{OFFERS}}},"instructions":"Use with care.\\n\\n# \U0001f600\\n"}}'
)
ANSWERS = {
    "sampling/createMessage": SAMPLED,
    "elicitation/create form": FILLED,
    "elicitation/create url": '{"action":"accept","x":1.10}',
}
"""What a modern client brings with its retry, by what it was asked."""
