"""The words that tell which arguments are paths: data, no logic.

A key is split into words, each without its plural; `naming.py` finds the word that matters. To
teach the guard a word, add it here and a row to `tests/guard/data/catalogue.jsonl`.
"""

from __future__ import annotations

import re
from enum import Enum


class Kind(Enum):
    """How the values of an argument are judged."""

    PATH = "path"
    """Every value, whatever its shape."""
    GLOB = "glob"
    """The part before the first wildcard; no `..` after it."""
    WEAK = "weak"
    """Values shaped like a path or a file URI."""
    NEUTRAL = "neutral"
    """Values shaped like a path, an absolute one only if its first component exists here."""
    PAYLOAD = "payload"
    """Nothing but a value that is as a whole a file URI."""
    COMMAND = "command"
    """Its shell tokens."""
    VIRTUAL = "virtual"
    """A path of something else: only what climbs out with `..`, and local URIs."""
    IGNORE = "ignore"
    """Nothing: by the operator's word only."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PATH_WORDS = _words(
    "path file filepath filename fullpath fullname directory dir dirname dirpath folder"
    " foldername subdir subdirectory subfolder subpath cwd pwd workdir workingdir basedir"
    " rootdir homedir outdir outfile infile logfile tmpdir tempdir logdir datadir worktree"
    " pathspec ruta archivo fichero carpeta directorio chemin fichier dossier répertoire"
    " repertoire pfad datei dateiname verzeichnis ordner caminho arquivo pasta diretório"
    " diretorio percorso cartella bestand bestandsnaam plik ścieżka sciezka katalog dosya klasör"
    " klasor tiedosto hakemisto sökväg mapp filsti soubor cesta složka"
)
PATH_SCRIPTS = _words(
    "файл путь папка каталог директор шлях тека 路径 路徑 文件 文档"
    " 檔案 目录 目錄 資料夾 パス ファイル フォルダ ディレクトリ 파일 경로 폴더 디렉 ملف مسار"
    " مجلد קובץ נתיב תיקי फ़ाइल पथ ไฟล์ เส้นทาง αρχείο"
    " διαδρομή φάκελος"
)
"""Words of scripts and languages that join them without a mark: found anywhere in a key."""
PATH_ENDINGS = ("path", "paths", "file", "files", "filename", "dir", "dirs", "folder", "directory")
"""`imagepath`, `outputdir`: a word that ends so is a path unless it is in NOT_PATHS."""
NOT_PATHS = _words(
    "profile profiles telepath psychopath sociopath osteopath homeopath naturopath empath"
    " footpath warpath towpath multipath multipaths nadir defile subprofile userprofile"
)

WEAK_WORDS = _words(
    "src dst source destination dest target output out root base workspace vault db database"
    " config configuration conf template log doc document image img picture photo screenshot"
    " video audio recording media attachment artifact asset archive backup dump binary"
    " executable bundle plugin dataset notebook repo repository project mount volume certificate"
    " cert keystore keyfile credentials ini dotenv playlist font subtitle home"
)
GLOB_WORDS = _words(
    "glob pattern mask wildcard include exclude ignore fileset includes excludes ignored"
    " blob_pattern"
)
SELECTING_WORDS = _words(
    "include exclude ignore select filter allow deny allowed denied skip only match matching"
    " included excluded ignored blocked"
)
"""Before a path word they make it a list of patterns: `excludePaths`, `include_files`."""
PAYLOAD_WORDS = _words(
    "content text body message msg sql code query q search prompt description desc comment note"
    " title summary regex regexp expression expr formula selector locator xpath jsonpath"
    " jmespath csspath urlpath css html markdown md xml javascript js typescript function"
    " snippet statement string str base64 b64 payload instruction question answer thought"
    " rationale reason caption heading header footer footnote keyword needle repl replacement"
    " replace paragraph markup goal intent subject endpoint route jq jql cql graphql"
    " gql mutation find line tooltip chat reply abstract excerpt quote observation objective"
    " feedback fact hypothesis conclusion finding matcher cypher sparql promql logql soql wiql kql"
)
COMMAND_WORDS = _words(
    "command cmd commandline cmdline shell arg argv argument flag exec invocation cli"
)
FILLERS = _words(
    "list array set value val str string arg argument param parameter item entry collection input"
)
"""After the word that matters they say nothing: `file_list`, `path_arg`."""
CONTENT_WORDS = _words(
    "content text body code html css markdown md xml base64 b64 payload description desc comment"
    " note title summary message msg caption"
)
"""In an object under a path's name they say what is in the file, or of it; never where it is."""
DATA_WORDS = _words("data blob line raw input source script patch diff new old v")
"""In an object of files they may take what is in one: several lines there are no path."""
LABEL_WORDS = _words(
    "kind type status state label branch tag mode id uuid ref revision version level priority"
    " severity category role action operation op operator method event format encoding language"
    " lang locale unit color colour scope visibility sort order direction separator sep delimiter"
    " delim key char character symbol"
)
"""What their values name is no file: a bare word there passes, whatever links there are."""
COUNTING_WORDS = _words("max min num number count total limit maximum minimum")
"""With one of them a word for a path is a number of them: `max_files`."""
MEASURES = COUNTING_WORDS | _words(
    "size length line column col row offset index position start end depth level mode time date"
    " timestamp mtime ctime atime version revision width height priority score rank order page"
)
"""What a number in an object under a path's name may be, of which no schema tells."""
PREPOSITIONS = _words("in to of for from on at with by under inside within into onto relative as")
WRITING_VERBS = _words(
    "save write extract copy move export download output dump unzip unpack install store render"
    " put place convert log record link mount clone checkout print upload import load read"
    " restore"
)
"""`saveTo`, `write_to`, `saveAs`, `loadFrom` are paths."""
NAMED = _words("file folder dir directory path")
"""`file_name` is a path; `sheet_name` is not."""
PLACES = _words(
    "project workspace repo repository source src git vault root build install base code"
)
"""`projectRoot` is a path; `xml_root` need not be."""
OTHER_PATHS = _words(
    "url uri dom cookie name symbol api http https route field property career learning menu"
    " breadcrumb callback webhook healthcheck object bus dbus"
) | {"health check"}
"""Before `path` they say that it is one of something else: `url_path`, `name_path`."""
QUERY_PATHS = _words("jq x")
"""Before `path` they say that it selects in a document, where `..` is nothing special."""
PERHAPS_PATHS = _words("css json xml html svg clip query class ui")
"""Before `path` they say that it is one of something else, or what is in the file: `svg_path`."""
MOUNT_WORDS = _words("volume mount")
"""What lies behind a colon there is a path in a container: `data:/var/lib/x`."""
REVISION_WORDS = _words(
    "branch ref revision rev commit commitish tag refspec remote sha head base target upstream onto"
)
"""What goes to a version control tool as a revision, where a leading `-` would be an option."""

PATH_FORMATS = _words(
    "path file-path filepath file_path filename file-name directory-path dir-path file directory"
)
PAYLOAD_FORMATS = _words("regex binary byte base64 html markdown textarea code")

SAYS_PATH = re.compile(
    r"\bpaths? (?:to|of|for|where|on disk)\b"
    r"|\b(?:file|directory|folder|dir|file ?system|disk|local)[ -]?paths?\b"
    r"|\b(?:absolute|relative|full|complete|output|input)\b[\w ,/-]{0,30}\bpaths?\b"
    r"|\b(?:working|output|input|target|source|root|base) (?:directory|folder)\b"
    r"|^(?:the |a |an )?(?:directory|folder|file)"
    r"(?: (?:to|for|in|where|that|path|name|containing|of)\b|$)",
    re.IGNORECASE,
)
MENTIONS_PATH = re.compile(r"\bpaths?\b", re.IGNORECASE)
STARTS_AS_PATH = re.compile(
    r"\s*(?:\(?optional\)?[:,]?\s*)?(?:the |a |an )?"
    r"(?:absolute |relative |full |local |complete )*"
    r"(?:file(?:system)? |directory |folder )?paths? (?:to|of|for|where)\b",
    re.IGNORECASE,
)
SAYS_GLOB = re.compile(r"\bglobs?\b|\bwildcards?\b|\bfile mask", re.IGNORECASE)
SAYS_OTHER = re.compile(
    r"\bcookies?(?:'s)? path|\bpath of (?:the |a )?(?:cookie|url)|\bcookies? by path"
    r"|\burl[ -](?:path|pattern)s?\b|\bx-?path\b|\bjson-?path\b|\bjson pointer"
    r"|\bcss (?:path|selector)"
    r"|\b(?:name|symbol|field|property|object|menu)(?:'s)?(?: name)? path\b"
    r"|\b(?:api|http|request|url) (?:end-?point|route|path)s?\b|\bd-?bus (?:object )?paths?\b"
    r"|\bhealth[ -]?check paths?\b|\bpaths? for (?:[\w-]+ ){0,2}health[ -]?checks?\b(?! \w)",
    re.IGNORECASE,
)
SAYS_FILE = re.compile(
    r"\b(?:file|directory|folder|disk|local)[ -]?(?:system )?paths?\b"
    r"|\bpaths? (?:to|of) (?:the |an? )?(?:\w+ )?(?:file|folder|directory)\b",
    re.IGNORECASE,
)
"""A path of something else may also be one of a file."""
SAYS_INPUT_FILE = re.compile(
    r"^(?:the |an? )?(?:\w+ )?(?:files?|director(?:y|ies)|folders?)\b"
    r"|^(?:the |an? )?\w+ or (?:an? |the )?files?\b",
    re.IGNORECASE,
)
"""A file that an expression is applied to, and no expression."""
SAYS_CODE = re.compile(
    r"^(?:the |an? )?(?:(?!file|folder|dir|path)[\w#+./-]+ )?(?:source )?"
    r"(?:code|javascript (?:function|expression)) to (?:be )?(?:run|execute|evaluate|inject)",
    re.IGNORECASE,
)
SAYS_CONTENT = re.compile(
    r"^(?:the |full |raw |complete |entire |text |new )*contents? of\b", re.IGNORECASE
)
OR_PATH = re.compile(
    r"\b(?:content|inline|text|markdown|html|base64|code|string|json|yaml|xml|sql|raw|source|data)s?"
    r"\b[^.;]{0,40}(?:\bor\b|,) *(?:an? |the |local |absolute |relative |full |\.\w+ )*"
    r"(?:file ?paths?\b|paths? to\b|file ?names?\b)"
    r"|\bfile ?paths? or (?:the |an? |inline |raw )*"
    r"(?:content|text|base64|string|data|markdown|json|yaml|code)s?\b",
    re.IGNORECASE,
)
"""A text may be given itself, or the path to it."""
SAYS_REGEX = re.compile(
    r"\bregex(?:es|p|ps)?\b|\bregular expressions?\b|\bjmespath\b"
    r"|\bjq (?:filter|expression|program|query|syntax)\b",
    re.IGNORECASE,
)
