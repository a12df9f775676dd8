"""Word lists that tell which arguments are paths: data, no logic.

`key_words.py` splits a key into words in the singular and finds the word that matters. To teach the
guard a word, add it here, and add a row to `tests/guard/data/catalogue.jsonl`.
"""

from __future__ import annotations

import re
from enum import Enum


class Kind(Enum):
    """How the values of an argument are judged: which of them count as paths."""

    PATH = "path"
    """Every value, whatever it looks like."""
    GLOB = "glob"
    """The part before the first wildcard; `..` after that is refused."""
    WEAK = "weak"
    """Values that look like a path or a `file:` URI."""
    NEUTRAL = "neutral"
    """Values that look like a path; an absolute one only if its first component exists here."""
    PAYLOAD = "payload"
    """Only a value that is a `file:` URI as a whole."""
    COMMAND = "command"
    """The shell tokens of the value."""
    VIRTUAL = "virtual"
    """No file path, such as a URL's path: only values that go out with `..`, and local URIs."""
    IGNORE = "ignore"
    """No value; only the operator can set this."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _says(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def _table(*rows: str) -> list[list[frozenset[str]]]:
    return [[_words(cell) for cell in row.split("|")] for row in rows]


FIRST_PATH_WORDS = _words(
    "ruta archivo fichero carpeta directorio chemin fichier dossier repertoire caminho arquivo"
    " pasta diretorio percorso cartella fisier berkas"
)
"""Of languages in which such a word goes first: `archivo_salida`, `fichier_sortie`."""
PATH_WORDS = FIRST_PATH_WORDS | _words(
    "path file filename fullname directory dirname folder foldername subdirectory subfolder cwd pwd"
    " worktree pathspec fname dateiname speicherort bestand bestandsnaam bestandspad plik sciezka"
    " katalog dosya klasor yol yolu dosyayolu tiedosto hakemisto polku kansio sokvag mapp mappe"
    " mappa fil filnamn filnavn filsti soubor cesta slozka adresar subor priecinok datoteka putanja"
    " fajl utvonal konyvtar cale dosar tep"
)
"""Without the marks of letters, which keys lose: `répertoire`, `ścieżka`."""
PATH_SCRIPTS = _words(
    "файл путь папка каталог директор шлях тека фајл путања датотека 路径 路徑 文件 文档"
    " 檔案 目录 目錄 資料夾 パス ファイル フォルダ ディレクトリ 파일 경로 폴더 디렉 ملف مسار"
    " مجلد קובץ נתיב תיקי फ़ाइल फाइल पथ ফাইল فایل مسیر پوشه ไฟล์ เส้นทาง αρχείο"
    " διαδρομή φάκελος"
)
"""Words of scripts and languages that join words without a mark: found anywhere in a key."""
PATH_ENDINGS = tuple(
    _words("path paths file files filename dir dirs folder directory pfad datei ordner verzeichnis")
)
"""A word that ends like this is a path, unless it is in NOT_PATHS: `imagepath`, `outputdir`."""
NOT_PATHS = _words("telepath psychopath empath footpath warpath multipath multipaths nadir defile")

WEAK_WORDS = _words(
    "src dst source destination dest target output out root base workspace vault db database"
    " config configuration conf template log doc document image img picture photo screenshot"
    " video audio recording media attachment artifact asset archive backup dump binary"
    " executable bundle plugin dataset notebook repo repository project mount volume binds"
    " certificate cert keystore keyfile credentials ini dotenv playlist font subtitle home"
)
GLOB_WORDS = _words("glob pattern mask wildcard include exclude ignore fileset ignored")
SELECTING_WORDS = _words(
    "include exclude ignore select filter allow deny allowed denied skip only match matching"
    " included excluded ignored blocked"
)
"""Before a path word: the argument is a list of patterns, as in `excludePaths`, `include_files`."""
PAYLOAD_WORDS = _words(
    "content text body message msg sql code query q search prompt description desc comment note"
    " title summary regex regexp expression expr formula selector locator xpath jsonpath jmespath"
    " csspath urlpath css html markdown md xml javascript js typescript function snippet statement"
    " string str base64 b64 payload instruction question answer thought rationale reason caption"
    " heading header footer footnote keyword needle repl replacement replace paragraph markup goal"
    " intent subject pointer jq jql cql graphql gql mutation find line tooltip chat reply abstract"
    " excerpt quote observation objective feedback fact hypothesis conclusion finding matcher"
    " cypher sparql promql logql soql wiql kql term row cell explanation detail reasoning remark"
    " password passphrase element"
)
VIRTUAL_WORDS = _words("endpoint route")
OUTPUT_WORDS = _words("output out dest destination save export")
FORMATS = _words("html css md markdown xml js javascript ts typescript sql")
"""After one of these words a file that is written, as in `output_md`; else its text."""
SHELL_WORDS = _words("command cmd shell bash sh zsh powershell pwsh cli")
COMMAND_WORDS = SHELL_WORDS | _words("commandline cmdline arg argv argument flag exec invocation")
ARGUMENT_WORDS = _words("arg argv argument flag param parameter option")
SCRIPT_WORDS = _words("line text script code")
"""After one of `SHELL_WORDS`: a command, as in `command_line`, `shell_script`."""
TYPED_WORDS = _words("input stdin keys keystroke keystrokes chars send run")
"""Perhaps what is typed into a running program, such as a shell: a line of words."""
TYPING_WORDS = _words("send type write feed pass paste input interact key keys")
TERMINAL_WORDS = _words("tmux terminal pty iterm pane console repl process stdin shell")
"""Both in a tool's name or a text's description: what is typed into a program is that text."""
GOES_ELSEWHERE = _table(
    "| helm | values set set_string setString set_literal setLiteral",
    "| kubectl kubernetes | patch patchData manifest manifests spec body fromLiteral",
    "| container pod | exec execute run create recreate start launch deploy"
    " | command cmd entrypoint env environment envVars env_vars",
    "container container_id containerId container_name pod pod_name podName"
    " | exec execute run | command cmd",
    "service service_name serviceName | compose | exec run | command cmd",
    "| playbook ansible | extra_vars extraVars",
    "url uri endpoint | body headers",
    "url uri | http https request fetch rest webhook post put patch api"
    " | json data payload params query",
    "sql statement cypher | params parameters bindings binds values args",
    "query | sql query db database cypher neo postgres pg mysql sqlite duckdb"
    " | params parameters bindings",
    "query | variables",
    "table table_name tableName table_id tableId | row rows record records data values where",
    "collection collectionName | filter pipeline update projection sort definition query",
    "collection collectionName | insert update replace upsert mongo db | document documents",
    "sheet sheetName sheet_name spreadsheetId spreadsheet_id"
    " | values data rows cells table_data tableData",
    "name title | sheet spreadsheet | values data rows",
    "rows cols table_data tableData | table | values data rows cells table_data tableData",
    "index | search query elasticsearch opensearch es | body query_body queryBody",
    "function_name functionName FunctionName resource_name | lambda serverless aws sam"
    " | payload Payload event event_data eventData",
)
"""Arguments (none: any), words that a tool's name has one of each of, and what goes elsewhere.

It goes to a cluster, a container, or the place that such an argument names: as an object, a list,
or a text that is a payload. Other texts may be commands for a shell of this machine.
"""
KEPT_ELSEWHERE = _table(
    "redis hset hget hgetall lpush rpush sadd zadd xadd | key name field value member channel",
    "mqtt ros kafka | topic topics topic_name topicName payload",
)
"""In a tool's name or a text's description, and what then names nothing on this machine."""
SHELLS = _words("bash zsh")
"""In a command's description or in the name of it or its tool: such a shell reads the command."""
FILE_PATTERNS = _words(
    "glob file_glob fileGlob file_pattern filePattern include_pattern includePattern file_mask"
)
"""Beside one of these a `pattern` is a text, and no glob."""
HOSTING_WORDS = _words("compose host build")
"""With these words in its name, a tool may use those on this machine."""
GREPPING_WORDS = _words("grep ripgrep rg")
"""In a tool's name: its `pattern` is a text, and no glob."""
SOUGHT = _words("pattern regex query")
"""Arguments of such a tool that hold what it looks for."""
FINDING_WORDS = _words("search find")
"""The same before the last word `text`, `code` or `content`, as in `search_file_content`."""
FILLERS = _words("list array set value val str string param parameter item entry collection input")
"""After the word that matters these say nothing, as in `file_list`, `path_param`."""
LOCATOR_WORDS = _words("url uri link connection conn dsn address")
"""Before a filler: the name of a place, not a text, as in `connection_string`, `url_string`."""
NO_LABELS = {"key": _words("private public ssh signing deploy host pem"), "state": {"storage"}}
"""Behind these words perhaps a file, as in `private_key`, and so no label."""
CONTENT_WORDS = _words(
    "content text body code html css markdown md xml base64 b64 payload description desc comment"
    " note title summary message msg caption"
)
"""In an object under a path's name: the file's content or a text about the file, never a path."""
DATA_WORDS = _words("data blob line raw input source script patch diff new old v")
"""In an object of files: perhaps the file's content; a value with several lines is no path."""
TREE_WORDS = _words("tree structure hierarchy scaffold skeleton")
"""An object there may be a tree of folders: `{"file_tree": {"src": {"a.py": "..."}}}`."""
PATCH_WORDS = _words("patch diff")
"""In any text's name: the paths in the patch are judged, as in `patch_text`, `diffContent`."""
LABEL_WORDS = _words(
    "kind type status state label branch tag mode id uuid ref revision version level priority"
    " severity category role action operation op operator method event format encoding language"
    " lang locale unit color colour scope visibility sort order direction separator sep delimiter"
    " delim key keystroke shortcut hotkey char character symbol port"
)
"""Their values are no file names: a bare word passes, even if a link of that name exists."""
COUNTING_WORDS = _words("max min num number count total limit maximum minimum")
"""With a path word: a number of files, as in `max_files`."""
MEASURES = COUNTING_WORDS | _words(
    "size length line column col row offset index position start end depth level mode time date"
    " timestamp mtime ctime atime version revision width height priority score rank order page"
)
"""In an object under a path's name: a number that no schema declares, and that is no file."""
PREPOSITIONS = _words(
    "in to of for from on at with by under inside within into onto relative as before after"
)
FILE_PREPOSITIONS = _words("from to at into")
"""Between a text and a path: a file with the text, as in `content_from_file`."""
WRITING_VERBS = _words(
    "save write extract copy move export download output dump unzip unpack install store render"
    " put place convert log record link mount clone checkout print upload import load read restore"
)
"""Before a final preposition: a path, as in `saveTo`, `write_to`, `saveAs`, `loadFrom`."""
PLACES = _words(
    "project workspace repo repository source src git vault root build install base code"
)
"""Before `root`: a path, as in `projectRoot`; `xml_root` need not be a path."""
REPOSITORY = {"repository id", "repo id", "wiki id", "wiki identifier", "drive id"} | {
    "git repository"
}
"""Beside one of these a path may be one in a repository of another machine."""
SAYS_IN_REPOSITORY = _says(
    r"\bdocumentation path\b|\bpath (?:with)?in the repository\b|\bsharepoint\b|(?<!\w)/sites/"
)
BESIDE_A_PLACE = (
    (_words("bucket container") | {"bucket name", "container name"}, _words("prefix prefixes")),
    (_words("github gitlab bitbucket"), {"source dir"}),
)
"""Beside one of the first the second may be elsewhere: a prefix in a bucket, such as `/`."""
DRIVES = _words("drive onedrive dropbox sharepoint")
"""In a tool's name: the same."""
SAYS_ON_DISK = _says(
    r"local|host|disk|machine|absolute|\bv?fs\b|save|load|output|dest|cwd|(?<!web)sock|(?<!net)work"
    r"|clone|checkout"
)
"""A path of this machine after all, by its name, its description or its tool's name."""
ELSEWHERE = _words("remote sftp ftp cloud bucket hdfs")
"""Before `path`: a path of another machine, if the description says so, too, or there is none."""
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
HAVE_PATHS = _words("cookie route endpoint webhook healthcheck") | {"health check"}
"""Their `path` is no file path: `{"cookies": [{"path": "/"}]}`."""
SAYS_HERE_TOO = _says(
    r"\A(?:the )?local\b|\bor (?:a |on the )?local\b|\b(?:on|to) disk\b"
    r"|\bthis (?:machine|computer)\b"
)
"""In the description of a path with such a name: one of this machine after all."""
OTHER_PATHS = _words(
    "url uri dom name symbol api http https field property career learning menu breadcrumb callback"
    " object bus dbus area iteration navigation"
) | {*HAVE_PATHS, *ELSEWHERE}
"""Before `path`: no file path, as in `url_path`, `name_path`."""
OF_FILES = _words("file folder local host point word")
"""Before one of these words a file path after all: `point_cloud_path`, `local_cloud_path`."""
QUERY_PATHS = _words("jq x")
"""Before `path`: a query into a document, where `..` is nothing special, as in `jq_path`."""
PERHAPS_PATHS = _words("css json xml html svg clip query class ui")
"""Before `path`: no file path, or the path of a file of that type, as in `svg_path`."""
MOUNT_WORDS = _words("volume mount binds")
"""The part of the value after a colon is a path in a container, as in `data:/var/lib/x`."""
CONTAINER_PATHS = _words("containerPath container_path ContainerPath")
OF_CONTAINER = _words(
    "container containerId container_id containerName container_name hostPath host_path"
)
"""Beside one of these, one of those is the absolute path in the container."""
PLACES_IN_CONTAINER = CONTAINER_PATHS | _words("bind mountPath mount_path")
"""In a mount's object: the absolute path in the container."""
TARGETS_IN_CONTAINER = _words("target Target dst Dst destination Destination")
"""The same, if the object says which `type` of mount it is."""
_SETS = {"op", "path", "value"}
PATCHES = {"add": _SETS, "replace": _SETS, "test": _SETS, "remove": {"op", "path"}}
"""The members of operations that change a document, or look into it."""
IN_CONTAINER = PLACES_IN_CONTAINER | TARGETS_IN_CONTAINER
MOUNT_TYPES = _words("bind volume tmpfs npipe cluster image")
REVISION_WORDS = _words(
    "branch ref revision rev commit commitish tag refspec remote sha head base target upstream onto"
)
"""Their values go to a version control tool as a revision: a leading `-` would be an option."""

PATH_FORMATS = _words(
    "path file-path filepath file_path filename file-name directory-path dir-path file directory"
)
PAYLOAD_FORMATS = _words("regex binary byte base64 html markdown textarea code")

SAYS_PATH = _says(
    r"\bpaths? (?:to|of|for|where|on disk)\b|\bunix (?:domain )?sockets?\b"
    r"|(?<!alternative to )(?<!instead of )(?<!instead of a )"
    r"\b(?:file|directory|folder|dir|file ?system|disk|local)[ -]?paths?\b"
    r"|\b(?:absolute|relative|full|complete|output|input)\b[\w ,/-]{0,30}\bpaths?\b"
    r"|\b(?:working|output|input|target|source|root|base) (?:directory|folder)\b"
    r"|^(?:the |a |an )?(?:directory|folder|file)"
    r"(?: (?:to|for|in|where|that|path|name|containing|of)\b|$)"
)
SAYS_ID_OR_PATH = _says(
    r"(?:the |an? )?(?:[\w-]+ ){0,3}ids? or (?:(?!file|folder|local|absolute)[\w-]+ ){0,3}paths?\b"
    r"(?!.*\b(?:local|absolute|disk|machine|file ?system)\b)"
)
"""Of a thing that has an ID, and is so no file of this machine."""
MENTIONS_PATH = _says(r"\bpaths?\b")
MENTIONS_FILES = _says(r"\b(?:files?|paths?|upload\w*|folder|director\w+|notebook(?! cell))\b")
STARTS_AS_PATH = _says(
    r"\s*(?:\(?optional\)?[:,]?\s*)?(?:the |an? )?(?:absolute |relative |full |local |complete )*"
    r"(?:file(?:system)? |directory |folder )?paths? (?:to|of|for|where)\b"
    r"|\s*(?:\w+ ){0,2}?(?:(?:pfad|ruta|chemin|caminho|percorso|путь|имя файла)\b"
    r"|(?:nom|nombre|nome) \w+ (?:fichier|archivo|fichero|arquivo|file)\b)"
    r"|\s*(?:[^\W\d_a-z]{0,6}(?:路径|路徑|パス|文件名|ファイル名)"
    r"|파일 ?경로|파일명)(?=\s*(?:[^\w\s]|$))"
)
SAYS_GLOB = _says(r"\bglobs?\b|\bwildcards?\b|\bfile mask")
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
SAYS_FILE = _says(
    r"\b(?:file|directory|folder|disk|local)[ -]?(?:system )?paths?\b"
    r"|(?:^|\bpaths? (?:to|of|or) )(?:the |an? )?(?:\w+ )?(?:file|folder|directory)\b"
)
"""The path is a file path, even if `SAYS_OTHER` matches too."""
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
SAYS_NAMED_BY_PATH = _says(
    r"\b(?:path|file ?name)s?(?: to | ?/ ?| ?[-=]> ?|: )(?:file )?contents?\b"
    r"|\b(?:map|mapping|dict|dictionary|record|object) (?:of|from|with) (?:[\w-]+ ){0,2}?"
    r"(?:path|file|filename|file ?name)s?\b|\bkeyed (?:by|on) (?:[\w-]+ ){0,2}?(?:path|file)"
)
"""The argument is an object whose members are named by paths."""
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
SAYS_CODE = _says(
    r"^(?:the )?(?:value|text|option) to (?:fill|type|enter|select)\b"
    r"|^(?:the |an? )?(?:(?!file|folder|dir|path)[\w#+./-]+ )?(?:source )?"
    r"(?:code|javascript (?:function|expression)) to (?:be )?(?:run|execute|evaluate|inject)"
    r"|^(?:with |sql )?(?:where|when|check|using|having|returning|sql|cron) (?:clause|expression)\b"
    r"|^(?:(?:(?:the )?(?:raw |http )?(?:request|response)(?:'s)? body|data to \w+ in the body)\b"
    r"|(?:the )?(?:\w+ )?(?:source code|\w+ syntax)(?=\s?[.,;:(\n]| (?:of|for|as)\b))"
    r"(?!.*(?:\b(?:file|path|director|folder)|(?<!\w)@))"
)
SAYS_DATA = _says(
    r"\bdb\.collection\.|\baggregation stages?\b|\bupdate operator"
    r"|^(?:the )?(?:optional )?parameters (?:to pass )?(?:to|for|of) the (?:\w+ )?query\b"
)
"""An object or a list for a database, with whatever its documents have."""
SAYS_CONTENT = _says(
    r"^(?:the |full |raw |complete |entire |text |new )*contents? of\b|^base64(?![^\n]* or\b)"
)
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
SAYS_REGEX = _says(
    r"\bregex(?:es|p|ps)?\b|\bregular expressions?\b|\bjmespath\b"
    r"|\b(?:lua|ast) patterns?\b(?! file)|^(?:number|date|time)[ -]format\b"
    r"|\bjq (?:filter|expression|program|query|syntax)\b|\btext pattern to (?:look|search) for\b"
)
