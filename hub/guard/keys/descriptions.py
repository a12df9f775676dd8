"""What descriptions say: the phrases, and the kind that they tell where the name says another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from hub.guard.keys.vocabulary import Kind
from hub.values import JsonObject

Verdict: TypeAlias = "tuple[Kind, str]"
"""A kind, and the reason for it."""


def _says(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


SAYS_PATH = _says(
    r"\bpaths? (?:to|of|for|where|on disk)\b|\bunix (?:domain )?sockets?\b"
    r"|(?<!alternative to )(?<!instead of )(?<!instead of a )"
    r"\b(?:file|directory|folder|dir|file ?system|disk|local)[ -]?paths?\b"
    r"|\b(?:absolute|relative|full|complete|output|input)\b[\w ,/-]{0,30}\bpaths?\b"
    r"|\b(?:working|output|input|target|source|root|base) (?:directory|folder)\b"
    r"|^(?:the |a |an )?(?:directory|folder|file)"
    r"(?: (?:to|for|in|where|that|path|name|containing|of)\b|$)"
)
SAYS_FILE = _says(
    r"\b(?:file|directory|folder|disk|local)[ -]?(?:system )?paths?\b"
    r"|(?:^|\bpaths? (?:to|of|or) )(?:the |an? )?(?:\w+ )?(?:file|folder|directory)\b"
)
"""The path is a file path, even if `SAYS_OTHER` matches too."""
STARTS_AS_PATH = _says(
    r"\s*(?:\(?optional\)?[:,]?\s*)?(?:the |an? )?(?:absolute |relative |full |local |complete )*"
    r"(?:file(?:system)? |directory |folder )?paths? (?:to|of|for|where)\b"
    r"|\s*(?:\w+ ){0,2}?(?:(?:pfad|ruta|chemin|caminho|percorso|путь|имя файла)\b"
    r"|(?:nom|nombre|nome) \w+ (?:fichier|archivo|fichero|arquivo|file)\b)"
    r"|\s*(?:[^\W\d_a-z]{0,6}(?:路径|路徑|パス|文件名|ファイル名)"
    r"|파일 ?경로|파일명)(?=\s*(?:[^\w\s]|$))"
)
SAYS_NAMED_FILE = _says(
    r"\s*(?:\(?optional\)?[:,.]?\s*)?(?:name of )?"
    r"(?:(?!(?:of|to|in|into|for|from|with|on|at|by|is|and|or|new|each|per|about)\b)"
    r"(?:[\w'/+#()-]|\.(?=\w))+ ){0,4}?(?:(?:file ?|note )?paths?|file|folder|directory|filename"
    r"|location|destination|pdf|docx|pptx|xlsx)(?: ?name)?(?: ?\([^)]*\))?"
    r"(?=[.,;:]?\s*(?:\n|$)|[.,;:] "
    r"| (?:with|containing|including|holding|for|in|of|on|whose|that)\b"
    r"| to (?!create|write|save|store|put|add|append|insert|generate|find|match(?! against)"
    r"|(?:search|look) for))"
    r"|\s*(?:\w+ ){1,4}to (?:open|load)\b|\s*(?:e\.g\. )?[\w/-]+\.[a-z]{2,4}\s*(?:\n|$)"
    r"|\s*where (?:to (?:find|read|load|write|save|store)|the \w+ (?:lives|is (?:stored|kept)))\b"
    r"|\s*(?:datei|fichier|archivo|fichero|arquivo)\b(?!-)"
    r"|\s*[^\W\d_a-z]{0,9}(?:文件|ファイル|파일)(?=\s*(?:[^\w\s]|$))"
    r"|[^\n]{1,9}(?:または|或|또는)[^\n]{0,6}(?:文件|路径|ファイル|パス|파일|경로)"
    r"|[^.;\n]{0,60}\b(?:relative to (?:the |your )?(?:vault|workspace)|vault-relative)\b"
)
"""The argument is a file, though its name says a text: "SQL file to run", "name of the file"."""
_FILE = r"(?:(?:file ?)?paths?|file(?: ?names?)?)"
OR_PATH = _says(
    r"^(?!.{0,60}\b(?:look(?:ing)? for|search (?:query|terms?|strings?|text|patterns?|paths?"
    r"|for(?! an? | \w+s\b))|(?:find|filter|search|match(?:es)?) (?:(?:files? )?by|files)"
    r"|to (?:find|match)\b(?! against)))(?:.*?(?:\bor|,(?! [\w ]{0,20}s\b)) (?!and |in "
    r"|(?<=this or )path\b(?! \w))(?:(?:an?|the|local|absolute|relative|name of|[.-]?\w+) ){0,3}?"
    rf"(?:/path/to/)?{_FILE}\b(?!'| (?:contents?|urls?|to (?:create|write)))|\w+ ?[/|] ?"
    rf"(?:file ?)?path\b|(?:(?!(?:of|to|in|for|new)\b)[\w.:]+ ){{0,4}}?{_FILE}(?:,? or |, "
    r"| ?[/|] ?)|.*(?:\b(?:load|read)(?:ed)? (?:\w+ ){0,2}from (?:\w+ ){0,2}(?:file|disk)\b"
    r"|\((?:[^()]*\W)?(?:path|filename)\b|\bstarts? with @|\bon (?:the )?disk\b|\bfile://"
    r"|\b(?:(?:can|could|may|might) (?:also )?(?:be|name|point to)|(?:if|when) it (?:is|names)"
    r"|accepts) (?:(?:an?|the) )?(?:\w+ )?(?:file|path)\b|\b(?:file|exists) at this path\b"
    r"|(?<!\w)@(?:file|path| syntax| to (?:include|read|load|refer)|[\w/]+\.\w)))"
)
"""The argument is either a text itself, or the path of a file with the text."""
OF_FILE = (SAYS_NAMED_FILE, OR_PATH, STARTS_AS_PATH)
"""The argument may be a file that an expression is applied to, not the expression itself."""
SAYS_ID_OR_PATH = _says(
    r"(?:the |an? )?(?:[\w-]+ ){0,3}ids? or (?:(?!file|folder|local|absolute)[\w-]+ ){0,3}paths?\b"
    r"(?!.*\b(?:local|absolute|disk|machine|file ?system)\b)"
)
"""Of a thing that has an ID, and is so no file of this machine."""
SAYS_NAMED_BY_PATH = _says(
    r"\b(?:path|file ?name)s?(?: to | ?/ ?| ?[-=]> ?|: )(?:file )?contents?\b"
    r"|\b(?:map|mapping|dict|dictionary|record|object) (?:of|from|with) (?:[\w-]+ ){0,2}?"
    r"(?:path|file|filename|file ?name)s?\b|\bkeyed (?:by|on) (?:[\w-]+ ){0,2}?(?:path|file)"
)
"""The argument is an object whose members are named by paths."""
MENTIONS_PATH = _says(r"\bpaths?\b")
MENTIONS_FILES = _says(r"\b(?:files?|paths?|upload\w*|folder|director\w+|notebook(?! cell))\b")
SAYS_OTHER = _says(
    r"\b(?:cookies?|url|x|json|name|symbol|field|property|object|menu|css|api|http|request|graph"
    r"|health[ -]?check)(?:'s)?(?: name)?[ -]?path\b|\bpath of (?:the |a )?(?:cookie|url)"
    r"|\bcookies? by path|\bpath (?:that )?the cookies? (?:is|are) (?:visible|sent|valid)\b"
    r"|\b(?:api|http|request|url)(?:'s)?[ -](?:end-?point|route|path|pattern)s?\b"
    r"|\bjson pointer|\bcss selector|'[\w-]+' path segment\b|\blocator strateg"
    r"|\b(?:starting|scene|parent|target|child) node paths?\b|\bnode path and property\b"
    r"|/root/(?-i:Main|Level|Game)|\babsolute /root/\.\.\. paths?\b"
    r"|\bpaths? (?:to|of) (?:(?:the|an?) (?:\w+ ){0,2}|parent |child )node(?:[23]d)?"
    r"(?=[.,;]?\s*(?:\n|$)| ?\((?:e\.?g|required|for|default|root))"
    r"|(?:路由|触发|接口)路径|\buri path to redirect\b|\bpath \(without (?:the )?domain\)"
    r"|\bgame ?object(?: reference| identifier)?(?: by)? ?\(?(?:name|path)(?:[/,]| or )"
    r"|^(?:the |an? )?end-?point paths?\b(?![^\n]*sock)"
    r"|\bpaths? for (?:[\w-]+ ){0,2}health[ -]?checks?\b(?! \w)"
)
SAYS_ON_DISK = _says(
    r"local|host|disk|machine|absolute|\bv?fs\b|save|load|output|dest|cwd|(?<!web)sock|(?<!net)work"
    r"|clone|checkout|attach"
)
"""A path of this machine after all, by its name, its description or its tool's name."""
SAYS_HERE_TOO = _says(
    r"\A(?:the )?local\b|\bor (?:a |on the )?local\b|\b(?:on|to) disk\b"
    r"|\bthis (?:machine|computer)\b"
)
"""In the description of a path with such a name: one of this machine after all."""
SAYS_ELSEWHERE = _says(
    r"(?:the )?remote (?:\w+ )?path(?: \([\w/, ]*\))?\.?"
    r"|(?:\w+ )?file path \([\w ]*\bon (?:the )?remote (?:server|host)\)\.?"
    r"|(?:(?:the|name of|source|target|destination) )*(?:imap|e-?mail|mail|mailbox) folders?\b"
    r"(?!.*\b(?:local|machine|disk|system|files?|director\w+|save[sd]?|export\w*|eml|mbox"
    r"|maildir)).*"
    r"|(?!.*\b(?:host|local|machine|disk|or)\b)(?:\w+ ){0,3}(?:path|directory|folder)"
    r" (?:inside|in|within|on) (?:(?:the |a )?(?:\w+ )?(?:container|pod|bucket)|(?:your )?"
    r"(?:google drive|one ?drive|dropbox|sharepoint|nextcloud))"
    r"(?! (?:file|folder|directory|format|manifest)s?\b).*"
)
"""A whole description of what is none of this machine, unless the key says "local" or "host"."""
SAYS_IN_REPOSITORY = _says(
    r"\bdocumentation path\b|\bpath (?:with)?in the repository\b|\bsharepoint\b|(?<!\w)/sites/"
)
SAYS_GLOB = _says(r"\bglobs?\b|\bwildcards?\b|\bfile mask")
SAYS_REGEX = _says(
    r"\bregex(?:es|p|ps)?\b|\bregular expressions?\b|\bjmespath\b"
    r"|\b(?:lua|ast) patterns?\b(?! file)|^(?:number|date|time)[ -]format\b"
    r"|\bjq (?:filter|expression|program|query|syntax)\b|\btext pattern to (?:look|search) for\b"
)
SAYS_SHELL = _says(
    r"\s*(?:\(?optional\)?[:,.]?\s*)?(?:the |an? |list of |array of )*(?:(?:bash|zsh|sh|shell"
    r"|terminal|powershell) (?:script|code|command)s?(?: lines?)?(?=[.,;:\n]| (?:to|that|used|run"
    r"|exec))|(?:script|code|command)\b[^.;\n(]{0,30}\((?:bash|zsh|sh|shell)(?: script)?\)"
    r"|[^\n]{0,60}?\b(?:run|runs|executed) (?:with|by|in) (?:a )?(?:bash|zsh|sh|shell)(?![\w-]))"
)
SAYS_COMMAND = _says(
    r"\s*(?:\(?optional\)?[:,.]?\s*)?(?:the |an? |list of )*(?:(?:(?!sql|db|database|redis|bot)"
    r"\w+ )?commands?(?: lines?)? (?:to (?:be )?(?:run|execute)|used to|with arg)"
    r"|program to run with (?:its )?arg|(?:test|build|lint) command(?=[.,;:\n]))"
)
SAYS_RUN_ELSEWHERE = _says(
    r"(?!.*\b(?:local\w*|if|or|unless|this|(?<!remote )host)\b)(?:[^.;]*\b(?:run|execute)d? "
    r"(?:in|inside|within|on|via) (?:(?:the|a|an|each|running|target) ){0,2}(?:container|pod"
    r"|emulator|(?:connected|android|mobile) device|'?adb shell|remote (?:container|pod|device"
    r"|server|host|machine|system))\b|(?:the )?(?:container|adb shell) command\b)"
)
"""A command is run there, and nothing is said of this machine."""
SAYS_LOCAL = _says(r"\blocal|\bhost\b|\bthis (?:machine|computer)\b|\b(?:up|down)load")
"""Of a path that would be on another machine, by its tool: one of this machine after all."""
SAYS_THIS_MACHINE = _says(r"\blocalhost\b|\b127\.0\.|\blocally\b|\bthis (?:machine|computer)\b")
"""In what is said beside a command: a host may be this one."""
_LANGUAGE = (
    r"(?:vba|gdscript|javascript|typescript|python|sql|lua|ruby|groovy|julia|matlab|glsl|hlsl"
    r"|openscad|latex|c#|c\+\+)"
)
SAYS_CODE = _says(
    r"^(?:the )?(?:text |new )?(?:value|text|option)(?: or label)?(?: of the option)?"
    r" to (?:fill|type|enter|select|input)\b"
    r"(?!.*\b(?:files?|upload\w*|shell|terminal|process|console)\b)"
    r"|^(?:the |an? )?(?:(?!file|folder|dir|path)[\w#+./-]+ )?(?:source )?"
    r"(?:code|javascript (?:function|expression)) to (?:be )?(?:run|execute|evaluate|inject)"
    r"|^(?:with |sql )?(?:where|when|check|using|having|returning|sql|cron) (?:clause|expression)\b"
    r"|^(?:(?:(?:the )?(?:raw |http )?(?:request|response)(?:'s)? body|data to \w+ in the body)\b"
    r"|(?:the )?(?:\w+ )?(?:source code|\w+ syntax)(?=\s?[.,;:(\n]| (?:of|for|as)\b)"
    r"|(?:(?:the|a|full|complete|new|raw|module's) )*(?:(?:vba|gdscript|glsl|hlsl) source"
    rf"(?: to \w+)?|{_LANGUAGE} (?:statements?|snippet|code))(?=\s?[.,;:(\n]| (?:for|as)\b))"
    r"(?!.*(?:\b(?:file|path|director|folder)|(?<!\w)@))"
)
SAYS_LINES_OF_CODE = _says(
    r"^(?!.*(?:shell|(?:\b|[abkz])sh\b|terminal|command))"
    r".*\beach (?:line|string) (?:is|represents) a line of code\b"
)
"""Of a Postman script, which `exec` has line by line."""
SAYS_DATA = _says(
    r"\bdb\.collection\.|\baggregation stages?\b|\bupdate operator"
    r"|^(?:the )?(?:optional )?parameters (?:to pass )?(?:to|for|of) the (?:\w+ )?query\b"
)
"""An object or a list for a database, with whatever its documents have."""
SAYS_CONTENT = _says(
    r"^(?:the |full |raw |complete |entire |text |new )*contents? of\b|^base64(?![^\n]* or\b)"
)
_LOCAL = re.compile(
    r"\blocal\b|\bpaths? (?:to|of)\b|\b(?:file|directory|folder)[ -]?paths?\b", re.IGNORECASE
)
"""In the description of a repository's name: one on this machine."""
_READ_OF_A_DESCRIPTION = 240
READ_OF_ALL = 960
"""The most that is read of what several schemas say of one argument together."""
_A_PATH = re.compile(r"'(?:.* )?paths?'")


def kind_by_description(named: Verdict, text: str) -> Verdict:
    """Return the kind by the description `text`, where the key's name says `named`.

    The last line of `text` is the title: many schemas have the key itself there.
    """
    kind = named[0]
    if other := None if SAYS_FILE.search(text) else _other(kind, named[1], text):
        return named if kind in _TEXTS else (Kind.PAYLOAD, f"described as '{other[0]}'")
    for kinds, find, pattern, told in _RULES:
        if kind in kinds and (says := find(pattern, text)):
            if pattern in _OF_TEXTS and any(_starts(one, text) for one in OF_FILE):
                return Kind.WEAK, f"described as '{says[0]}'"
            said = "its description mentions" if pattern is MENTIONS_PATH else "described as"
            return (told, f"{said} '{says[0].strip()}'") if told else named
    return named


def _other(kind: Kind, why: str, text: str) -> re.Match[str] | None:
    """Return the words of a description that say that a path is no file path (a URL's, an XPath).

    None if the key's name says "file", whatever is looked for in the file; or if the description
    first says that it is a path: "path of the file that the XPath runs on".
    """
    says = SAYS_OTHER.search(text)
    if says is None or kind not in {Kind.PATH, Kind.WEAK}:
        return says
    if kind is Kind.PATH and not _A_PATH.match(why):
        return None
    first = _starts(STARTS_AS_PATH, text)
    return None if first is not None and first.end() <= says.start() else says


def _starts(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the match at the start of the description, or of the title below it."""
    return pattern.match(text) or pattern.match(text, text.rfind("\n") + 1)


_TEXTS = {Kind.PAYLOAD, Kind.COMMAND}
_OPEN = {Kind.NEUTRAL, Kind.WEAK, Kind.VIRTUAL}
"""The kinds of which a description may tell anything else."""
_OF_TEXTS = (SAYS_REGEX, SAYS_CODE)
"""What these say may also be in a file, whose name is then given."""
_ANYWHERE = re.Pattern[str].search
_RULES = (
    (_TEXTS, _starts, STARTS_AS_PATH, Kind.PATH),
    ({Kind.COMMAND}, _ANYWHERE, SAYS_LINES_OF_CODE, Kind.PAYLOAD),
    ({Kind.PAYLOAD}, _starts, SAYS_SHELL, Kind.COMMAND),
    ({Kind.PAYLOAD}, _ANYWHERE, OR_PATH, Kind.WEAK),
    ({Kind.PAYLOAD}, _starts, SAYS_NAMED_FILE, Kind.WEAK),
    ({*_OPEN, Kind.PATH, Kind.GLOB}, _ANYWHERE, SAYS_GLOB, Kind.GLOB),
    ({Kind.PATH}, _starts, SAYS_CONTENT, Kind.WEAK),
    ({*_OPEN, Kind.GLOB}, _ANYWHERE, SAYS_REGEX, Kind.PAYLOAD),
    (_OPEN, _starts, SAYS_SHELL, Kind.COMMAND),
    (_OPEN, _starts, SAYS_COMMAND, Kind.COMMAND),
    ({Kind.NEUTRAL}, re.Pattern[str].match, SAYS_ID_OR_PATH, None),
    (_OPEN, _ANYWHERE, SAYS_PATH, Kind.PATH),
    ({Kind.NEUTRAL}, _ANYWHERE, MENTIONS_PATH, Kind.WEAK),
    (_OPEN, _starts, SAYS_CODE, Kind.PAYLOAD),
)
"""What words tell, where, of which kinds: the first counts. Of what has an ID its name tells."""


def is_here(variants: list[JsonObject]) -> bool:
    """Return whether an argument names no place elsewhere: it is a switch, or a path here."""
    says = any(map(_LOCAL.search, texts(variants, "description")))
    return says or types_of(variants) == {"boolean"}


def texts(
    variants: list[JsonObject], *words: str, most: int = _READ_OF_A_DESCRIPTION
) -> Iterator[str]:
    """Yield the texts that the schemas have under the `words`, each up to a length."""
    for schema in variants:
        for word in words:
            text = schema.get(word)
            if isinstance(text, str):
                yield text[:most]


def listed(schema: JsonObject, word: str) -> Iterator[str]:
    """Yield the texts in a list of the schema, such as its choices."""
    given = schema.get(word)
    yield from (one for one in (given if isinstance(given, list) else ()) if isinstance(one, str))


def said_of(variants: Iterable[JsonObject]) -> str:
    """Return the texts in the schemas of one argument, and in their lists, such as its choices."""
    values = (one for schema in variants for one in schema.values())
    each = (text for one in values for text in (one if isinstance(one, list) else (one,)))
    return " ".join(text[:_READ_OF_A_DESCRIPTION] for text in each if isinstance(text, str))


def types_of(variants: list[JsonObject]) -> set[str]:
    """Return the types that the schemas declare, but for `null`."""
    declared = (schema.get("type") for schema in variants)
    names = (name for one in declared for name in (one if isinstance(one, list) else [one]))
    return {name for name in names if isinstance(name, str) and name != "null"}
