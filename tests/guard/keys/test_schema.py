import pytest

from hub.guard.keys import schema as schema_module
from hub.guard.keys.key_words import TYPED
from hub.guard.keys.nodes import IN_CONTAINER, ArgumentNode, nodes_of
from hub.guard.keys.schema import compile_schema
from hub.guard.keys.vocabulary import Kind
from hub.values import Json, JsonObject


def shape(schema: Json, **overrides: Kind) -> ArgumentNode:
    return compile_schema(schema, overrides)


def of(key: str, schema: JsonObject) -> ArgumentNode:
    return shape({"properties": {key: schema}}).member(key)


@pytest.mark.parametrize(
    ("key", "schema", "kind"),
    [
        ("path", {"type": "string"}, Kind.PATH),
        ("thing", {"type": "string"}, Kind.NEUTRAL),
        ("thing", {"type": "string", "description": "Path to the file to read"}, Kind.PATH),
        ("thing", {"type": "string", "title": "File path"}, Kind.PATH),
        ("data", {"description": "JSON (alternative to filePath)"}, Kind.NEUTRAL),
        ("data", {"description": "JSON list, instead of a file path"}, Kind.WEAK),
        ("data", {"description": "File path, alternative to text"}, Kind.PATH),
        ("thing", {"type": "string", "description": "Some filter paths"}, Kind.WEAK),
        ("thing", {"type": "string", "description": "Something else"}, Kind.NEUTRAL),
        ("value", {"type": "string", "description": "Value to fill"}, Kind.PAYLOAD),
        ("value", {"description": "Text value to fill in"}, Kind.PAYLOAD),
        ("value", {"description": "Value or label of the option to select"}, Kind.PAYLOAD),
        ("value", {"description": "Value to input into form fields"}, Kind.PAYLOAD),
        ("value", {"description": "Value to load the options from"}, Kind.NEUTRAL),
        ("source", {"description": "GDScript statements, compiled as a body"}, Kind.PAYLOAD),
        ("source", {"description": "The module's complete VBA source."}, Kind.PAYLOAD),
        ("source", {"description": "Python code to run, or a file"}, Kind.WEAK),
        ("source", {"description": "Folder with Python code to check"}, Kind.WEAK),
        ("source", {"description": "Python source file"}, Kind.WEAK),
        ("value", {"description": "Value to fill; give files as a name"}, Kind.NEUTRAL),
        ("value", {"description": "Text to input into the shell"}, Kind.NEUTRAL),
        ("source", {"description": "LaTeX source to compile"}, Kind.WEAK),
        ("source", {"description": "The VBA source to check."}, Kind.PAYLOAD),
        ("source", {"description": "SQL source to read from"}, Kind.WEAK),
        ("project", {"description": "Python code of the project to check"}, Kind.WEAK),
        ("condition", {}, Kind.NEUTRAL),
        ("condition", {"description": "Command to run until it succeeds"}, Kind.COMMAND),
        ("condition", {"description": "Path to the file with the condition"}, Kind.PATH),
        ("text", {"description": "Text to send to the running process"}, Kind.NEUTRAL),
        ("text", {"description": "Text to send to the user"}, Kind.PAYLOAD),
        ("value", {"type": "string", "description": "Value to fill in, or a path"}, Kind.WEAK),
        ("path", {"description": "The documentation path (e.g. '/guides/x.md')"}, Kind.NEUTRAL),
        ("path", {"description": "Path within the repository"}, Kind.NEUTRAL),
        ("path", {"description": "Local path within the repository"}, Kind.PATH),
        ("site_path", {"description": "Path, e.g. /sites/home"}, Kind.NEUTRAL),
        ("site_path", {"description": "Path of the SharePoint site"}, Kind.NEUTRAL),
        ("site_path", {"description": "Path to save the SharePoint site to"}, Kind.PATH),
        ("path", {"description": "Path to save the documentation to"}, Kind.PATH),
        ("project_id", {"description": "Project ID or URL-encoded path"}, Kind.NEUTRAL),
        ("project_id", {"description": "ID or complete path to the project"}, Kind.NEUTRAL),
        ("namespaceId", {"description": "Namespace ID or full path"}, Kind.NEUTRAL),
        ("parent", {"description": "Parent folder ID or path (e.g. '/Work')"}, Kind.NEUTRAL),
        ("folder", {"description": "Folder ID or path"}, Kind.PATH),
        ("id", {"description": "ID or local path of the file"}, Kind.PATH),
        ("id", {"description": "ID or path of a file on disk"}, Kind.PATH),
        ("item", {"description": "Item ID or absolute path"}, Kind.PATH),
        ("item", {"description": "Item ID or file path"}, Kind.PATH),
        ("thing", {"type": "string", "format": "file-path"}, Kind.PATH),
        ("path", {"type": "string", "format": "regex"}, Kind.PAYLOAD),
        ("path", {"type": "string", "contentEncoding": "base64"}, Kind.PAYLOAD),
        ("path", {"type": "string", "description": "Cookie path"}, Kind.PAYLOAD),
        ("paths", {"type": "array", "description": "Globs to search"}, Kind.GLOB),
        ("filter_paths", {"description": "Regex patterns for URLs"}, Kind.PAYLOAD),
        ("file_pattern", {"description": "Which file paths to search"}, Kind.GLOB),
        ("content", {"description": "What to write to the path of the file"}, Kind.PAYLOAD),
        ("content", {"description": "Path to a file with the content"}, Kind.PATH),
        ("command", {"description": "Command to run in a file path"}, Kind.COMMAND),
        ("command", {"description": "Path to the program to run"}, Kind.PATH),
        ("command", {"description": "Code, or a path to it"}, Kind.COMMAND),
        (
            "exec",
            {"description": "Strings, where each line represents a line of code"},
            Kind.PAYLOAD,
        ),
        ("exec", {"description": "What is run"}, Kind.COMMAND),
        ("exec", {"description": "For bash: each line is a line of code"}, Kind.COMMAND),
        ("_raw_params", {}, Kind.COMMAND),
        ("raw_value", {}, Kind.NEUTRAL),
        ("payload", {"oneOf": [{"type": "string"}, {"type": "object"}]}, Kind.NEUTRAL),
        ("payload", {"type": ["string", "object"], "description": "What is sent"}, Kind.PAYLOAD),
        ("payload", {"type": "string"}, Kind.PAYLOAD),
        ("content", {"description": "Inline content, a local file path, or a URL"}, Kind.WEAK),
        ("content", {"description": "Raw text. Give this OR path, not both"}, Kind.PAYLOAD),
        ("content", {"description": "Text like this or a path to a file"}, Kind.WEAK),
        ("content", {"description": "Given like this or path of a file"}, Kind.WEAK),
        ("query", {"description": "A name or file path to look for"}, Kind.PAYLOAD),
        ("route", {"description": "Path of the API endpoint"}, Kind.PAYLOAD),
        ("path", {"description": "Path for health checks"}, Kind.PAYLOAD),
        ("endpoint", {"description": "Endpoint path, no full URL, only the path"}, Kind.PAYLOAD),
        ("endpoint", {"description": "Path of the endpoint's socket"}, Kind.PATH),
        ("endpoint", {}, Kind.VIRTUAL),
        ("endpoint", {"description": "Where the service is"}, Kind.VIRTUAL),
        ("remotePath", {"description": "Path to the file on the remote host"}, Kind.VIRTUAL),
        ("remotePath", {"description": "Path to the file"}, Kind.PATH),
        ("remotePath", {"description": "Path to the file", "title": "Remote Path"}, Kind.PATH),
        ("remotePath", {"title": "Remote Path"}, Kind.VIRTUAL),
        ("cloudPath", {}, Kind.VIRTUAL),
        ("cloudPath", {"description": "Path to the file"}, Kind.PATH),
        ("cloudPath", {"description": "Cloud path, or a local file"}, Kind.PATH),
        ("cloudPath", {"description": "Where the cloud's files are on disk"}, Kind.PATH),
        ("point_cloud_path", {}, Kind.PATH),
        ("pointCloudPath", {"description": "Point cloud to load"}, Kind.PATH),
        ("word_cloud_path", {"description": "Word cloud image to write"}, Kind.PATH),
        ("local_cloud_path", {}, Kind.PATH),
        ("blob_path", {"description": "Compiled blob"}, Kind.PATH),
        ("path", {"description": "Path in the bucket"}, Kind.VIRTUAL),
        ("path", {"description": "Path in the bucket, and on disk"}, Kind.PATH),
        ("path", {"description": "Path within the pod manifest"}, Kind.PATH),
        ("file", {"description": "Remote file path"}, Kind.VIRTUAL),
        ("remote", {"description": "Remote destination path"}, Kind.VIRTUAL),
        ("outputFile", {"description": "Output file path (on remote server)"}, Kind.VIRTUAL),
        ("file", {"description": "Local file path, or remote path"}, Kind.PATH),
        ("local_path", {"description": "Remote file path"}, Kind.PATH),
        ("file", {"description": "File to upload on remote server"}, Kind.PATH),
        ("path", {"description": "Remote or local file path"}, Kind.PATH),
        ("path", {"description": "Remote path, or a path on this machine"}, Kind.PATH),
        ("path", {"title": "Remote File Path"}, Kind.PATH),
        ("container_path", {"description": "Path inside the container"}, Kind.VIRTUAL),
        ("destination", {"description": "Path inside container (e.g. /app)"}, Kind.VIRTUAL),
        ("workdir", {"description": "The working directory in the container."}, Kind.VIRTUAL),
        ("mountPath", {"description": "Path within the pod, e.g. /data"}, Kind.VIRTUAL),
        ("container_path", {"description": "Path of the container file"}, Kind.PATH),
        ("container_path", {}, Kind.PATH),
        ("path", {"description": "Path inside the container or on the host"}, Kind.PATH),
        ("path", {"description": "Path in the container to copy to your machine"}, Kind.PATH),
        ("hostPath", {"description": "Path inside the container"}, Kind.PATH),
        ("path", {"description": "Path inside the container folder"}, Kind.PATH),
        ("path", {"description": "Path to mount inside the container"}, Kind.PATH),
        ("folder", {"description": "Mail folder with .eml files"}, Kind.PATH),
        ("folder", {"description": "Email folder on disk"}, Kind.PATH),
        ("folder", {"description": "Folder to save the emails to"}, Kind.PATH),
        ("folder", {"description": "Mail folder, to which attachments are saved"}, Kind.PATH),
        ("topic", {"description": "Topic to explain"}, Kind.NEUTRAL),
        ("topic", {"description": "Note path, title or alias"}, Kind.WEAK),
        ("topic", {"description": "MQTT topic, or a file with topics"}, Kind.NEUTRAL),
        ("path", {"description": "Wiki page path (e.g. /MyPage)"}, Kind.PATH),
        ("json_pointer", {}, Kind.PAYLOAD),
        ("path", {"description": "Local file path or URL path of the image"}, Kind.PATH),
        ("image", {"description": "Path of the image file, or a URL path"}, Kind.PATH),
        ("route", {"description": "Path to a file of API routes"}, Kind.PATH),
        ("xml_file", {"description": "XML file the XPath is evaluated on"}, Kind.PATH),
        ("file", {"description": "HTML file; the css selector applies to it"}, Kind.PATH),
        ("directory", {"description": "Directory of the API endpoint paths"}, Kind.PATH),
        ("path", {"description": "Path of the document that the XPath runs on"}, Kind.PATH),
        ("path", {"description": "JSONPath of what is wanted"}, Kind.PAYLOAD),
        ("nodePath", {"description": "Path to the parent node (root/Player)"}, Kind.PAYLOAD),
        ("root_path", {"description": "Starting node path"}, Kind.PAYLOAD),
        ("track_path", {"description": "Node path and property"}, Kind.PAYLOAD),
        ("node_path", {"description": "Absolute node path, such as /usr/bin/node"}, Kind.PATH),
        ("path", {"description": "Where it is (e.g. /root/main.py)"}, Kind.PATH),
        ("path", {"description": "Where it is (e.g. /root/Main/Player)"}, Kind.PAYLOAD),
        ("path", {"description": "Path of the scene file; see /root/Main"}, Kind.PATH),
        ("node_path", {"description": "Path to the Node.js program"}, Kind.PATH),
        ("node_path", {"description": "Path to the node executable"}, Kind.PATH),
        ("node_path", {"description": "Path to the node binary to run"}, Kind.PATH),
        ("node_path", {"title": "Node Path"}, Kind.NEUTRAL),
        ("node_path", {"description": "Path to node"}, Kind.PATH),
        ("path", {"description": "Path to the node project"}, Kind.PATH),
        ("path", {"description": "Path to your node app (e.g. ./app)"}, Kind.PATH),
        ("path", {"description": "Path to install node"}, Kind.PATH),
        ("paths", {"description": "Object paths to link"}, Kind.PATH),
        ("path", {"description": "Path to node_modules"}, Kind.PATH),
        ("path", {"description": "File path of the node"}, Kind.PATH),
        ("path", {"description": "Path the cookie is visible to"}, Kind.PAYLOAD),
        ("path", {"description": "Path to save the cookies to"}, Kind.PATH),
        ("path", {"description": "Path the cookies are saved to"}, Kind.PATH),
        ("value", {"description": "Value for the locator strategy"}, Kind.PAYLOAD),
        ("target", {"description": "Target GameObject (name/path/id)"}, Kind.PAYLOAD),
        ("parent", {"description": "GameObject by name, path, or id"}, Kind.PAYLOAD),
        ("target", {"description": "Path to save the GameObject to"}, Kind.PATH),
        ("path", {"description": "路由路径"}, Kind.PAYLOAD),
        ("path", {"description": "文件路径"}, Kind.PATH),
        ("input", {"description": "JSON file for the jq filter"}, Kind.WEAK),
        ("source", {"description": "XML or file to apply the regex to"}, Kind.WEAK),
        ("thing", {"format": "filename"}, Kind.PATH),
        ("configFile", {"description": "The contents of the file, not its name"}, Kind.WEAK),
        ("script", {"description": "JavaScript code to execute"}, Kind.PAYLOAD),
        ("script", {"description": "Code to run, or a path"}, Kind.WEAK),
        ("where", {"description": "WHERE clause for a partial index"}, Kind.PAYLOAD),
        ("check", {"description": "WITH CHECK expression of the policy"}, Kind.PAYLOAD),
        ("rawData", {"description": "The request body's raw data."}, Kind.PAYLOAD),
        ("value", {"description": "Data to POST in the body"}, Kind.PAYLOAD),
        ("data", {"description": "Request body, or a path"}, Kind.WEAK),
        ("data", {"description": "Request body file"}, Kind.NEUTRAL),
        ("data", {"description": "Request body, or @ and a name to load it"}, Kind.NEUTRAL),
        ("data", {"description": "Request body, e.g. mail=a@b.org"}, Kind.PAYLOAD),
        ("source", {"description": "New source code"}, Kind.PAYLOAD),
        ("mermaid_source", {"description": "Raw Mermaid syntax, e.g. 'A-->B'"}, Kind.PAYLOAD),
        ("source", {"description": "Source code, or a path"}, Kind.WEAK),
        ("source", {"description": "Source code or file to read"}, Kind.WEAK),
        ("source", {"description": "Source code repository"}, Kind.WEAK),
        ("pattern", {"description": "Text or Lua pattern to find"}, Kind.PAYLOAD),
        ("pattern", {"description": "Number format pattern, e.g. '# ?/?'"}, Kind.PAYLOAD),
        ("pattern", {"description": "Pattern of files to find"}, Kind.GLOB),
        ("path", {"description": "A list of the URL's path components"}, Kind.PAYLOAD),
        ("script", {"description": "Script to run"}, Kind.NEUTRAL),
        ("script", {"description": "Bash script to execute"}, Kind.COMMAND),
        ("code", {"description": "The shell code to run"}, Kind.COMMAND),
        ("script", {"description": "Script to run (bash)"}, Kind.COMMAND),
        ("script", {"description": "The script content (shell script)"}, Kind.COMMAND),
        ("script", {"description": "Script to run (bash, python or node)"}, Kind.NEUTRAL),
        ("program", {"description": "Program to run with its arguments"}, Kind.COMMAND),
        ("program", {"description": "Program to run"}, Kind.NEUTRAL),
        ("runner", {"description": "Test command, e.g. npm test"}, Kind.COMMAND),
        ("alias", {"description": "Slash command, e.g. /help"}, Kind.NEUTRAL),
        ("task", {"description": "Command to run in the working directory"}, Kind.COMMAND),
        ("interpreter", {"description": "Command with arguments, for stdin"}, Kind.COMMAND),
        ("steps", {"description": "List of shell commands to execute in order"}, Kind.COMMAND),
        ("start", {"description": "(Optional) The shell command to run first"}, Kind.COMMAND),
        ("hook", {"description": "Shell command executed before the build"}, Kind.COMMAND),
        ("build", {"description": "Build command to run"}, Kind.COMMAND),
        ("name", {"description": "Command name"}, Kind.NEUTRAL),
        ("history", {"description": "Shell command history"}, Kind.NEUTRAL),
        ("query", {"description": "Command to execute on the database"}, Kind.PAYLOAD),
        ("query", {"description": "SQL command to run"}, Kind.PAYLOAD),
        ("sql", {"description": "SQL file to run"}, Kind.WEAK),
        ("statement", {"description": "Statement PDF"}, Kind.WEAK),
        ("title", {"description": "PDF title"}, Kind.PAYLOAD),
        ("message", {"description": "Commit message or -F file"}, Kind.WEAK),
        ("query", {"description": "File containing the query"}, Kind.WEAK),
        ("text", {"description": "Name of the text file."}, Kind.WEAK),
        ("search", {"description": "Directory to search in"}, Kind.WEAK),
        ("caption", {"description": "Caption file (.srt)"}, Kind.WEAK),
        ("snippet", {"description": "Optional. The snippet's filename"}, Kind.WEAK),
        ("code", {"description": "Code, or the name of a file with it"}, Kind.WEAK),
        ("body", {"description": "A text, or @file to read it from a file"}, Kind.WEAK),
        ("note", {"description": "Note to open (relative path in the vault)"}, Kind.WEAK),
        ("note", {"description": "Note path or title"}, Kind.WEAK),
        ("note", {"description": "Note path"}, Kind.WEAK),
        ("note", {"description": "The note, relative to the vault root"}, Kind.WEAK),
        ("content", {"description": "Local file location"}, Kind.WEAK),
        ("content", {"description": "The location on disk"}, Kind.WEAK),
        ("content", {"description": "Location-based text"}, Kind.PAYLOAD),
        ("path", {"description": "The file whose XPath is evaluated"}, Kind.PATH),
        ("path", {"description": "API path or local file"}, Kind.PATH),
        ("source", {"description": "Path of the XML that the XPath runs on"}, Kind.PATH),
        ("source", {"description": "Path to the file or regex"}, Kind.WEAK),
        ("text", {"description": "Inline text or path"}, Kind.WEAK),
        ("text", {"description": "Either a text, or a path"}, Kind.WEAK),
        ("html", {"description": "HTML string, URL or local file"}, Kind.WEAK),
        ("content", {"description": "Text, URL, or file"}, Kind.WEAK),
        ("content", {"description": "JSON, or a file with it"}, Kind.WEAK),
        ("content", {"description": "URL or file to load"}, Kind.WEAK),
        ("content", {"description": "file or text"}, Kind.WEAK),
        ("content", {"description": "An image file or base64"}, Kind.WEAK),
        ("content", {"description": "Image (path, URL or base64)"}, Kind.WEAK),
        ("text", {"description": "Text, @filename, or - for stdin"}, Kind.WEAK),
        ("query", {"description": "SQL or a .sql file"}, Kind.WEAK),
        ("body", {"description": "Text. If it starts with @ it is read from a file"}, Kind.WEAK),
        ("body", {"description": "Text with @mentions in a file"}, Kind.PAYLOAD),
        ("content", {"description": "Content to search through, or a path to a file"}, Kind.WEAK),
        ("text", {"description": "Text or file path to search for a pattern"}, Kind.WEAK),
        ("text", {"description": "Search in this text or file"}, Kind.WEAK),
        ("content", {"description": "Plain text, or path to .md"}, Kind.WEAK),
        ("code", {"description": "Code or file to explain"}, Kind.WEAK),
        ("text", {"description": "Text/path"}, Kind.WEAK),
        ("text", {"description": "Text or /path/to/file"}, Kind.WEAK),
        ("text", {"description": "Markdown (.md) file to render"}, Kind.WEAK),
        ("css", {"description": "CSS file(s)"}, Kind.WEAK),
        ("query", {"description": "Filter expression or path to a filter file"}, Kind.WEAK),
        ("code", {"description": "Load the code from this file"}, Kind.WEAK),
        ("text", {"description": "Text to remove from the file"}, Kind.PAYLOAD),
        ("text", {"description": "The Markdown file to convert"}, Kind.WEAK),
        ("text", {"title": "Input path"}, Kind.WEAK),
        ("query", {"description": "Search text or file path to look for"}, Kind.PAYLOAD),
        ("query", {"description": "Query: keywords, function names, file paths"}, Kind.PAYLOAD),
        ("query", {"description": "The search string. Matches file paths"}, Kind.PAYLOAD),
        ("prompt", {"description": "Use @ syntax to include files"}, Kind.WEAK),
        ("prompt", {"description": "What to do (@src/a.ts adds a file)"}, Kind.WEAK),
        ("body", {"description": "Do not use @ to mention users; a@b.c is fine"}, Kind.PAYLOAD),
        ("folder", {"description": "IMAP folder"}, Kind.VIRTUAL),
        ("folder", {"description": "Target mail folder (e.g. INBOX)"}, Kind.VIRTUAL),
        ("folder", {"description": "Mail folder to save as .eml files"}, Kind.PATH),
        ("path", {"description": "Destination folder path in Google Drive"}, Kind.VIRTUAL),
        ("path", {"description": "Local path or path in Google Drive"}, Kind.PATH),
        ("path", {"description": "Host folder path inside the container"}, Kind.PATH),
        ("script", {"description": "Script content. Runs with bash."}, Kind.COMMAND),
        ("code", {"description": "Code that is executed in a shell"}, Kind.COMMAND),
        ("code", {"description": "Code that runs with bash-like speed"}, Kind.PAYLOAD),
        ("endpoint", {"description": "Unix socket of the daemon"}, Kind.PATH),
        ("host", {"description": "Host, or a unix domain socket"}, Kind.PATH),
        ("file", {"description": "Base64-encoded file content"}, Kind.WEAK),
        ("pattern", {"description": "AST pattern to find"}, Kind.PAYLOAD),
        ("pattern", {"description": "AST pattern files"}, Kind.GLOB),
        ("text", {"description": "Text to paste into the tmux pane"}, Kind.NEUTRAL),
        ("element", {"description": "Human-readable element description"}, Kind.PAYLOAD),
        ("pattern", {"description": "Text pattern to search for in files"}, Kind.PAYLOAD),
        ("pathname", {"description": "Webpage path (without domain)"}, Kind.PAYLOAD),
        ("uri", {"description": "A URI path to redirect to"}, Kind.PAYLOAD),
        ("path", {"description": "URI path of the document to open"}, Kind.PATH),
        ("path", {"description": "The HTML web page path to render"}, Kind.PATH),
        ("file_pattern", {"description": "Text pattern to match file names"}, Kind.GLOB),
        ("query", {"description": "Text or file to look for"}, Kind.PAYLOAD),
        ("query", {"description": "Text to find in a path or file"}, Kind.PAYLOAD),
        ("text", {"description": "Text or file contents to write"}, Kind.PAYLOAD),
        ("html", {"description": "HTML (no paths or URLs)"}, Kind.PAYLOAD),
        ("code", {"description": "Code, in one file"}, Kind.PAYLOAD),
        ("content", {"description": "Content of the file"}, Kind.PAYLOAD),
        ("content", {"description": "The file to write"}, Kind.PAYLOAD),
        ("content", {"description": "File content"}, Kind.PAYLOAD),
        ("text", {"description": "Text to add to the file."}, Kind.PAYLOAD),
        ("query", {"description": "File to look for"}, Kind.PAYLOAD),
        ("query", {"description": "File to match"}, Kind.PAYLOAD),
        ("query", {"description": "Search by name or path"}, Kind.PAYLOAD),
        ("query", {"description": "File to match against"}, Kind.WEAK),
        ("message", {"description": "Message about the file"}, Kind.PAYLOAD),
        ("content", {"description": "Replaces the content even if the file exists"}, Kind.PAYLOAD),
        ("text", {"description": "Where to insert the text"}, Kind.PAYLOAD),
        ("text", {"description": "Where the text lives on disk"}, Kind.WEAK),
        ("sql", {"description": "Where to find the SQL"}, Kind.WEAK),
        ("code", {"description": "Source code; may point to a file"}, Kind.WEAK),
        ("html", {"description": "HTML string. Also accepts a file path."}, Kind.WEAK),
        ("text", {"description": "Text; if a file exists at this path, that is read"}, Kind.WEAK),
        ("text", {"description": "Text; when it names a file, that is read"}, Kind.WEAK),
        ("content", {"description": "Start with file:// to read it from there"}, Kind.WEAK),
        ("xml", {"description": "XML (filename)"}, Kind.WEAK),
        ("markdown", {"description": "notes/filename.md"}, Kind.WEAK),
        ("note", {"description": "Vault-relative note"}, Kind.WEAK),
        ("markdown", {"description": "Markdown document to open"}, Kind.WEAK),
        ("summary", {"description": "Summary destination"}, Kind.WEAK),
        ("message", {"description": "File holding the message"}, Kind.WEAK),
        ("text", {"description": "Datei mit dem Text"}, Kind.WEAK),
        ("content", {"description": "Datei-Inhalt"}, Kind.PAYLOAD),
        ("text", {"description": "文本文件"}, Kind.WEAK),
        ("content", {"description": "内容或者文件的路径"}, Kind.WEAK),
        ("code", {"description": "コード、またはファイルパス"}, Kind.WEAK),
        ("code", {"description": "Code (use absolute paths)"}, Kind.PAYLOAD),
        ("sql", {"title": "Sql", "description": "Path to the SQL file"}, Kind.PATH),
        ("sql", {"title": "Path to the SQL file", "description": "Is run"}, Kind.PATH),
        ("text", {"title": "File path"}, Kind.WEAK),
        ("note", {"title": "Note file", "description": "Where it goes"}, Kind.WEAK),
        ("text", {"title": "Text"}, Kind.PAYLOAD),
        ("content", {"title": "File Content"}, Kind.PAYLOAD),
        ("content", {"title": "Profile"}, Kind.PAYLOAD),
        ("query", {"title": "URL path"}, Kind.PAYLOAD),
        ("text", {"description": "Pfad zur Datei"}, Kind.PATH),
        ("text", {"description": "Ruta absoluta del archivo"}, Kind.PATH),
        ("text", {"description": "Путь к файлу"}, Kind.PATH),
        ("text", {"description": "文件路径"}, Kind.PATH),
        ("content", {"description": "ファイルパス (任意)"}, Kind.PATH),
        ("text", {"description": "Nombre del archivo"}, Kind.PATH),
        ("text", {"description": "文件名"}, Kind.PATH),
        ("text", {"description": "Nombre del usuario"}, Kind.PAYLOAD),
        ("content", {"description": "要写入文件的内容"}, Kind.PAYLOAD),
        ("content", {"description": "写入该路径的文本"}, Kind.PAYLOAD),
        ("content", {"description": "Inhalt der Datei"}, Kind.PAYLOAD),
        ("query", {"description": "接口路径"}, Kind.PAYLOAD),
        ("sql", {"description": "What to run.\nPath to x is not read"}, Kind.PAYLOAD),
        ("file", {"title": "File", "description": "Contents of the file"}, Kind.WEAK),
        ("input", {"title": "In", "description": "JSON file for the jq filter"}, Kind.WEAK),
        ("script", {"title": "Script", "description": "JavaScript code to run"}, Kind.PAYLOAD),
        ("path", {"type": "integer", "description": "Path to a number"}, Kind.NEUTRAL),
        ("path", {"type": ["string", "null"]}, Kind.PATH),
        ("path", {"type": ["boolean", "null"]}, Kind.NEUTRAL),
        ("path", {"type": 7, "format": 7, "description": 7, "enum": 7}, Kind.PATH),
    ],
)
def test_a_schema_says_how_values_are_judged(key: str, schema: JsonObject, kind: Kind) -> None:
    assert of(key, schema).kind is kind


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"properties": {"path": {"type": "string"}}}, Kind.VIRTUAL),
        ({"properties": {"path": {"description": "Path to a file"}}}, Kind.PATH),
        ({"properties": {"path": {"description": "Where it is on disk"}}}, Kind.PATH),
        ({"properties": {"path": {"description": "Socket to listen on"}}}, Kind.PATH),
    ],
)
@pytest.mark.parametrize("owner", ["cookie", "sessionCookies", "routes", "health_check"])
def test_what_has_a_path_tells_which_it_is(owner: str, schema: JsonObject, kind: Kind) -> None:
    assert of(owner, schema).member("path").kind is kind
    assert of(owner, {"items": schema}).element().member("path").kind is kind
    assert of("cookie_files", schema).member("path").kind is Kind.PATH


@pytest.mark.parametrize(
    ("tool", "others", "described", "kind"),
    [
        ("set", ["name", "value", "domain"], "", Kind.VIRTUAL),
        ("set", ["name", "domain"], "", Kind.PATH),
        ("set", ["key", "value", "domain"], "", Kind.PATH),
        ("network_request", ["method"], "Path", Kind.VIRTUAL),
        ("request", ["method"], "Path to save the response to", Kind.PATH),
        ("request", ["method", "url"], "Path", Kind.PATH),
        ("request", ["method", "endpoint"], "Path", Kind.PATH),
        ("http_upload", ["method"], "Path", Kind.PATH),
        ("file_request", ["method"], "Path", Kind.PATH),
        ("vfs", ["method"], "Path", Kind.PATH),
    ],
)
def test_a_path_may_be_a_cookie_s_or_a_request_s(
    tool: str, others: list[str], described: str, kind: Kind
) -> None:
    schema: JsonObject = {name: {"description": "HTTP method or the like"} for name in others}
    schema["path"] = {"type": "string", "description": described}
    assert compile_schema({"properties": schema}, {}, tool=tool).member("path").kind is kind


@pytest.mark.parametrize(
    ("tool", "key", "beside", "kind"),
    [
        ("read_note", "note", "format", Kind.NEUTRAL),
        ("delete-note", "note", "format", Kind.NEUTRAL),
        ("add_note", "note", "format", Kind.PAYLOAD),
        ("edit_note", "note", "content", Kind.NEUTRAL),
        ("read_note", "title", "format", Kind.NEUTRAL),
        ("save_note", "subject", "content", Kind.NEUTRAL),
        ("update_note", "title", "note_id", Kind.PAYLOAD),
        ("note_read", "note", "format", Kind.NEUTRAL),
        ("append_to_note", "title", "content", Kind.NEUTRAL),
        ("read_page", "note", "format", Kind.PAYLOAD),
        ("interact_with_process", "message", "pid", Kind.NEUTRAL),
        ("send_message", "message", "pid", Kind.PAYLOAD),
        ("send_input", "input_text", "command_id", Kind.NEUTRAL),
        ("get_input", "input_text", "command_id", Kind.PAYLOAD),
        ("get_message", "message", "format", Kind.PAYLOAD),
        ("write_note", "title", "folder", Kind.NEUTRAL),
        ("create_note", "title", "parentDirectory", Kind.NEUTRAL),
        ("save_note", "heading", "folder", Kind.NEUTRAL),
        ("create_issue", "title", "path", Kind.PAYLOAD),
    ],
)
def test_a_text_may_be_known_by_a_files_name(tool: str, key: str, beside: str, kind: Kind) -> None:
    schema: Json = {"properties": {key: {"type": "string"}, beside: {"type": "string"}}}
    assert compile_schema(schema, {}, tool=tool).member(key).kind is kind


@pytest.mark.parametrize(
    ("tool", "key", "beside", "kind"),
    [
        ("list_folder", "folderPath", "folderId", Kind.NEUTRAL),
        ("create_doc", "parent_path", "parentFolderId", Kind.NEUTRAL),
        ("batch_move", "filePaths", "fileIds", Kind.NEUTRAL),
        ("upload", "filePath", "fileId", Kind.PATH),
        ("read", "file_path", "folder_id", Kind.PATH),
        ("read", "path", "id", Kind.PATH),
        ("create_application", "base_directory", "git_repository", Kind.NEUTRAL),
        ("create_app", "source_dir", "github", Kind.NEUTRAL),
        ("create_app", "source_dir", "git", Kind.PATH),
        ("create_storage", "mount_path", "name", Kind.NEUTRAL),
        ("mount_disk", "mount_path", "name", Kind.PATH),
    ],
)
def test_a_path_beside_an_id_may_be_elsewhere(tool: str, key: str, beside: str, kind: Kind) -> None:
    schema: Json = {"properties": {key: {"type": "string"}, beside: {"type": "string"}}}
    assert compile_schema(schema, {}, tool=tool).member(key).kind is kind


@pytest.mark.parametrize(
    ("tool", "key", "beside", "is_offered"),
    [
        ("get_tree", "path", "repositoryId", True),
        ("create_wiki", "mappedPath", "repositoryId", True),
        ("list_objects", "prefix", "bucket", True),
        ("s3_ls", "prefix", "bucket", True),
        ("list_objects", "prefixes", "containerName", True),
        ("list_objects", "prefix", "name", False),
        ("get_item", "item", "repositoryId", False),
        ("read", "path", "id", False),
        ("create_app", "source_dir", "github", True),
        ("onedrive_list", "path", "name", True),
        ("drive_list", "path", "name", False),
        ("get_files", "mount_path", "name", False),
        ("push_model", "folder_path", "repoId", False),
        ("git_list_files", "path", "git_repository", False),
        ("sharepoint_sync", "folder_path", "name", False),
        ("install", "prefix", "container", False),
    ],
)
def test_what_may_be_elsewhere_may_be_the_top(
    tool: str, key: str, beside: str, *, is_offered: bool
) -> None:
    schema: Json = {"properties": {key: {"type": "string"}, beside: {"type": "string"}}}
    node = compile_schema(schema, {}, tool=tool).member(key)
    assert node.kind in {Kind.NEUTRAL, Kind.PATH}
    assert ("/" in node.values) is is_offered


@pytest.mark.parametrize(
    ("key", "described", "is_offered"),
    [
        ("path", "Path of the SharePoint site", True),
        ("path", "Path such as /sites/default", False),
        ("path", "The documentation path", False),
        ("path", "Path in the repository", False),
    ],
)
def test_what_is_described_as_elsewhere_is_the_top_of_a_drive_at_most(
    key: str, described: str, *, is_offered: bool
) -> None:
    schema: Json = {"properties": {key: {"type": "string", "description": described}}}
    node = compile_schema(schema, {}, tool="list_pages").member(key)
    assert node.kind is Kind.NEUTRAL
    assert ("/" in node.values) is is_offered


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("git_repository", {"description": "Path to the repository"}),
        ("repo_id", {"description": "ID or local folder"}),
        ("github", {"type": "boolean"}),
    ],
)
def test_a_repository_may_be_here(beside: str, said: JsonObject) -> None:
    schema: Json = {"properties": {"source_dir": {"type": "string"}, beside: said}}
    assert compile_schema(schema, {}, tool="list_files").member("source_dir").kind is Kind.PATH


@pytest.mark.parametrize(
    ("owner", "kind"),
    [("request", Kind.PAYLOAD), ("multipart", Kind.PATH), ("sources", Kind.PATH)],
)
def test_what_the_tool_names_is_not_for_all_objects_inside(owner: str, kind: Kind) -> None:
    inner: JsonObject = {"properties": {"data": {"type": "object"}}}
    schema: Json = {"properties": {"url": {"type": "string"}, owner: {"items": inner}}}
    element = compile_schema(schema, {}, tool="http_request").member(owner).element()
    assert element.member("data").member("path").kind is kind


def test_each_of_a_shell_s_scripts_is_a_command() -> None:
    texts: JsonObject = {"type": "array", "items": {"type": "string"}}
    for tool, kind in (("run_shell", Kind.COMMAND), ("list", Kind.NEUTRAL)):
        compiled = compile_schema({"properties": {"scripts": texts}}, {}, tool=tool)
        assert compiled.member("scripts").element().kind is kind


def test_nothing_is_elsewhere_in_an_object_that_is_named_as_here() -> None:
    path: JsonObject = {"properties": {"path": {"type": "string"}}}
    listed: JsonObject = {"properties": {"files": {"items": path}}}
    names: JsonObject = {"owner": {}, "repo": {}, "local": listed, "remote": listed}
    compiled = compile_schema({"properties": names}, {}, tool="compare_files")
    for name, kind in (("local", Kind.PATH), ("remote", Kind.NEUTRAL)):
        element = compiled.member(name).member("files").element()
        assert element.member("path").kind is kind


def test_a_prefix_that_is_a_command_stays_one() -> None:
    for key in ("prefix_command", "prefix"):
        said: JsonObject = {"type": "string", "description": "Command to run before"}
        schema: Json = {"properties": {"owner": {}, "repo": {}, "bucket": {}, key: said}}
        assert compile_schema(schema, {}, tool="list").member(key).kind is Kind.COMMAND


def test_arguments_of_a_program_are_none_of_a_statement() -> None:
    texts: JsonObject = {"type": "array", "items": {"type": "string"}}
    hook: Json = {"properties": {"command": {"type": "string"}, "args": texts}}
    schema: Json = {"properties": {"sql": {}, "args": texts, "hooks": {"items": hook}}}
    compiled = compile_schema(schema, {}, tool="export_query")
    assert compiled.member("args").element().kind is Kind.PAYLOAD
    inner = compiled.member("hooks").element()
    assert inner.member("args").element().kind is Kind.COMMAND


def test_what_a_service_of_compose_runs_is_in_its_container() -> None:
    schema: Json = {"properties": {"services": {"type": "object"}}}
    service = compile_schema(schema, {}, tool="compose_up").member("services").member("web")
    assert service.member("command").why == service.member("entrypoint").why == IN_CONTAINER
    assert service.member("env_file").kind is Kind.PATH
    for tool in ("run_all", "process_compose_up"):
        other = compile_schema(schema, {}, tool=tool).member("services").member("web")
        assert other.member("command").why != IN_CONTAINER


@pytest.mark.parametrize(
    ("tool", "key", "beside", "kind"),
    [
        ("find", "query", "collectionName", Kind.PAYLOAD),
        ("insert_one", "document", "collection", Kind.PAYLOAD),
        ("insertMany", "documents", "collection", Kind.PAYLOAD),
        ("add", "document", "collection", Kind.PATH),
        ("lambda_invoke", "payload", "function_name", Kind.PAYLOAD),
        ("sam_local_invoke", "event_data", "resource_name", Kind.PAYLOAD),
        ("record", "event_data", "resource_name", Kind.PATH),
        ("aws_upload", "event", "resource_name", Kind.PATH),
        ("call", "payload", "function_name", Kind.PATH),
        ("invoke_function", "payload", "function_name", Kind.PATH),
        ("manage_k8s_resource", "body", "kind", Kind.PAYLOAD),
        ("k8s_apply", "manifests", "kind", Kind.PAYLOAD),
        ("manage_resource", "body", "kind", Kind.PATH),
    ],
)
def test_an_object_may_be_data_for_another_place(
    tool: str, key: str, beside: str, kind: Kind
) -> None:
    schema: Json = {"properties": {key: {"type": "object"}, beside: {"type": "string"}}}
    assert compile_schema(schema, {}, tool=tool).member(key).member("path").kind is kind


@pytest.mark.parametrize(
    ("tool", "key", "described", "kind"),
    [
        ("redis_set", "key", "", Kind.PAYLOAD),
        ("hset", "value", "", Kind.PAYLOAD),
        ("set", "key", "", Kind.NEUTRAL),
        ("redis_restore", "name", "Name of the file", Kind.NEUTRAL),
        ("mqtt_publish", "topic", "", Kind.PAYLOAD),
        ("echo", "topic", "ROS2 topic", Kind.PAYLOAD),
        ("read", "topic", "Topic of the note", Kind.NEUTRAL),
    ],
)
def test_names_of_what_a_server_keeps_are_no_files(
    tool: str, key: str, described: str, kind: Kind
) -> None:
    schema: Json = {"properties": {key: {"type": "string", "description": described}}}
    assert compile_schema(schema, {}, tool=tool).member(key).kind is kind


def test_a_session_may_tell_of_a_terminal() -> None:
    for described, kind in (("The tmux session", Kind.NEUTRAL), ("Session", Kind.PAYLOAD)):
        session: JsonObject = {"type": "string", "description": described}
        schema: Json = {"properties": {"session_id": session, "text": {"type": "string"}}}
        assert compile_schema(schema, {}, tool="paste").member("text").kind is kind


@pytest.mark.parametrize(
    ("tool", "key", "kind"),
    [
        ("k8s_apply", "manifests", Kind.NEUTRAL),
        ("kubectl_run", "spec", Kind.NEUTRAL),
        ("upsert_documents", "documents", Kind.WEAK),
    ],
)
def test_a_text_in_a_list_for_another_place_may_be_a_file(tool: str, key: str, kind: Kind) -> None:
    texts: JsonObject = {"type": "array", "items": {"type": "string"}}
    schema: Json = {"properties": {"collection": {"type": "string"}, key: texts}}
    element = compile_schema(schema, {}, tool=tool).member(key).element()
    assert element.kind is kind
    assert element.member("path").kind is Kind.PAYLOAD


def test_values_for_a_cluster_may_be_files() -> None:
    texts: JsonObject = {"type": "array", "items": {"type": "string"}}
    for key, kind in (("values", Kind.NEUTRAL), ("set", Kind.PAYLOAD)):
        node = compile_schema({"properties": {key: texts}}, {}, tool="helm_install").member(key)
        assert (node.element().kind, node.member("path").kind) == (kind, Kind.PAYLOAD)
    files: JsonObject = {**texts, "description": "Values files"}
    node = compile_schema({"properties": {"values": files}}, {}, tool="helm_install")
    assert node.member("values").element().kind is Kind.NEUTRAL


def test_a_schema_offers_values() -> None:
    node = of("path", {"anyOf": [{"enum": ["/a", 1]}, {"const": "/b"}, {"enum": ["/c"]}]})
    assert node.values == {"/a", "/b", "/c"}


def test_a_key_counts_by_its_end() -> None:
    assert shape(None).member("y_" * 5000 + "path").kind is Kind.PATH
    assert of("y_" * 5000 + "path", {}).kind is Kind.PATH


def test_references_and_branches_are_followed() -> None:
    schema: Json = {
        "$defs": {"a/b": {"properties": {"thing": {"description": "file path"}}}},
        "allOf": [
            {"properties": {"one": {"$ref": "#/$defs/a~1b"}}},
            {"if": {}, "then": {"properties": {"two": {"$ref": "#/$defs/none"}}}, "else": 7},
            "nonsense",
            {"properties": {"one": {"description": "the other half"}}},
        ],
    }
    compiled = shape(schema)
    assert compiled.member("one").member("thing").kind is Kind.PATH
    assert compiled.member("two").kind is Kind.NEUTRAL
    assert of("x", {"$ref": "https://elsewhere/#/a"}).kind is Kind.NEUTRAL


def test_no_schema_makes_the_compiler_run_away() -> None:
    wide: Json = {
        "$ref": "#",
        "properties": {name: {"$ref": "#"} for name in "abcdefgh"},
        "items": {"$ref": "#"},
    }
    node = shape(wide)
    for _ in range(40):
        node = node.member("a").element()
    assert node.member("path").kind is Kind.PATH
    many: Json = {"anyOf": [{"properties": {f"p{n}": {"description": "x"}}} for n in range(999)]}
    assert shape(many).member("p998").declared is False


def test_a_recursive_schema_is_known_at_any_depth() -> None:
    schema: Json = {
        "properties": {
            **{name: {"$ref": "#"} for name in ("and", "or", "not")},
            "items": {"items": {"$ref": "#"}},
            "thing": {"description": "file path"},
        }
    }
    node = shape(schema)
    for name in ("and", "not", "or", "items") * 10:
        node = node.member(name).element()
    assert node.member("thing").kind is Kind.PATH
    assert len(list(nodes_of(shape(schema)))) < 10


def test_a_schema_is_read_as_far_as_its_size_justifies(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def described(named: tuple[Kind, str], text: str) -> tuple[Kind, str]:
        read.append(len(text))
        return named

    monkeypatch.setattr(schema_module, "kind_by_description", described)
    shared: list[Json] = [{"description": "input " * 40} for _ in range(60)]
    again: Json = {"allOf": shared, "properties": {f"p{n}": {"$ref": "#"} for n in range(9)}}
    own: Json = {"properties": {f"p{n}": {"allOf": shared, "title": str(n)} for n in range(9)}}
    for schema in (again, own):
        read.clear()
        shape(schema)
        assert sum(read) < 10_000


SHARED: list[JsonObject] = [
    {"enum": [str(n) for n in range(2000)]},
    {"type": ["string" for _ in range(2000)]},
    {"patternProperties": {str(n): {} for n in range(2000)}},
    {"properties": {str(n): {} for n in range(2000)}},
    {"$ref": "#" + "/a" * 10_000},
]


@pytest.mark.parametrize("shared", SHARED)
def test_many_references_to_a_definition_stay_small(shared: JsonObject) -> None:
    members: JsonObject = {f"p{n}": {"$ref": "#/$defs/x", "default": n} for n in range(1000)}
    compiled = shape({"properties": {**members, "path": {}}, "$defs": {"x": shared}})
    assert compiled.member("path").kind is Kind.PATH
    nodes = list(nodes_of(compiled))
    assert sum(len(node.values) + len(node.properties) for node in nodes) < 500_000


def test_a_large_schema_is_read_to_its_end() -> None:
    many: Json = {"properties": {f"p{n}": {"description": "file path"} for n in range(5000)}}
    assert {node.kind for node in shape(many).properties.values()} == {Kind.PATH}


def test_elements_and_undeclared_members_are_known_too() -> None:
    node = of(
        "things",
        {
            "items": {"description": "file path"},
            "additionalProperties": {"description": "file path"},
            "patternProperties": {"^x": {"type": "string"}, "^y": True},
        },
    )
    assert node.element().kind is Kind.PATH
    assert node.member("anything").kind is Kind.PATH
    assert of("things", {"prefixItems": [{"format": "path"}, 7]}).element().kind is Kind.PATH
    assert of("paths", {}).element().kind is Kind.PATH
    plain = of("things", {"additionalProperties": {"type": "string"}})
    assert plain.member("path").kind is Kind.PATH
    assert plain.member("other").kind is Kind.NEUTRAL


def test_the_operator_decides_by_pointer() -> None:
    schema: Json = {"properties": {"path": {"enum": ["/a"]}, "files": {"properties": {"k": {}}}}}
    overrides = {
        "/path": Kind.IGNORE,
        "/files/*/x~1y": Kind.PATH,
        "/list/0": Kind.GLOB,
        "/list/*": Kind.WEAK,
    }
    compiled = compile_schema(schema, overrides)
    path = compiled.member("path")
    assert (path.kind, path.why, path.values) == (
        *(Kind.IGNORE, "set by the operator"),
        frozenset(),
    )
    files = compiled.member("files")
    for inner in (files.element(), files.member("k"), files.member("any")):
        assert inner.member("x/y").kind is Kind.PATH
    assert compiled.member("list").element().kind is Kind.WEAK


def test_a_partly_read_schema_is_judged_by_names() -> None:
    schema: Json = {"properties": {"path": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}}
    for most in range(2, 8):
        assert compile_schema(schema, {}, most).member("path").kind is Kind.PATH, most


FILE: JsonObject = {"type": "string", "description": "Absolute path to the file to read"}


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"F x": FILE}, "properties": {"q": {"$ref": "#/$defs/F%20x"}}},
        {"$defs": {"F": {"$anchor": "f", **FILE}}, "properties": {"q": {"$ref": "#f"}}},
        {
            "$defs": {"F": {"$dynamicAnchor": "f", **FILE}},
            "properties": {"q": {"$dynamicRef": "#f"}},
        },
        {"$defs": {"F": {"$id": "f", **FILE}}, "properties": {"q": {"$ref": "f"}}},
        {"definitions": {"F": {"id": "#f", **FILE}}, "properties": {"q": {"$ref": "#f"}}},
        {
            "$id": "https://a.example/s.json#",
            "$defs": {"F": FILE},
            "properties": {"q": {"$ref": "https://a.example/s.json#/$defs/F"}},
        },
        {"allOf": [{"properties": {"x": {"$anchor": "f", **FILE}, "q": {"$ref": "#f"}}}]},
        # A thing of the same name that is no schema, or another schema, hides none.
        {
            "default": {"id": "f"},
            "$defs": {"F": {"$id": "f", **FILE}},
            "properties": {"q": {"$ref": "f"}},
        },
        {
            "$defs": {"E": {"$id": "a/f"}, "F": {"$id": "b/f", **FILE}},
            "properties": {"q": {"$ref": "b/f"}},
        },
        {
            "properties": {
                "x": {"anyOf": [{"type": "null"}, FILE]},
                "q": {"$ref": "#/properties/x/anyOf/1"},
            }
        },
        {"unevaluatedProperties": FILE},
        {"dependentSchemas": {"mode": {"properties": {"q": FILE}}}},
        {"dependencies": {"mode": {"properties": {"q": FILE}}}},
        {"if": {"properties": {"q": FILE}}},
        {"else": {"properties": {"q": FILE}}},
    ],
)
def test_a_place_is_described_in_any_part_of_a_schema(schema: JsonObject) -> None:
    assert shape(schema).member("q").kind is Kind.PATH


@pytest.mark.parametrize("schema", [{"$ref": "N"}, {"$ref": "#"}, {"$recursiveRef": "#"}])
def test_a_schema_may_refer_to_itself(schema: JsonObject) -> None:
    top: JsonObject = {"$id": "N", "properties": {"q": FILE, "child": schema}}
    assert shape(top).member("child").member("child").member("q").kind is Kind.PATH


@pytest.mark.parametrize("word", ["additionalItems", "unevaluatedItems", "contains"])
def test_elements_are_described_in_any_part_of_a_schema(word: str) -> None:
    assert of("q", {"type": "array", word: FILE}).element().kind is Kind.PATH


@pytest.mark.parametrize(
    ("key", "items", "kind"),
    [
        ("excluded_file_patterns", {"type": "string"}, Kind.PAYLOAD),
        ("excluded_file_patterns", {"description": "A glob"}, Kind.GLOB),
        ("things", {"description": "One of them"}, Kind.NEUTRAL),
    ],
)
def test_elements_without_a_description_have_that_of_their_list(
    key: str, items: Json, kind: Kind
) -> None:
    schema: JsonObject = {"type": "array", "items": items, "description": "Regex patterns"}
    assert of(key, schema).element().kind is kind


def test_elements_without_a_title_have_that_of_their_list() -> None:
    schema: JsonObject = {"type": "array", "items": {"type": "string"}, "title": "File paths"}
    assert of("texts", schema).element().kind is Kind.WEAK


def test_json_in_a_text_is_described_by_the_schema_of_its_content() -> None:
    inner: JsonObject = {"properties": {"thing": FILE}}
    node = of("content", {"type": "string", "contentSchema": inner})
    assert node.structured
    assert node.member("thing").kind is Kind.PATH


_TEXT: JsonObject = {"type": "string"}
_FLAG: JsonObject = {"type": "boolean"}


@pytest.mark.parametrize(
    ("tool", "pattern", "others", "kind"),
    [
        ("grep", _TEXT, {"include": _TEXT, "context_lines": {"type": "integer"}}, Kind.PAYLOAD),
        ("git-grep", {"description": "What to look for"}, {"content": _FLAG}, Kind.PAYLOAD),
        ("search_file_contents", _TEXT, {}, Kind.PAYLOAD),
        ("findText", _TEXT, {}, Kind.PAYLOAD),
        ("grep", {"description": "Glob of files"}, {}, Kind.GLOB),
        ("grep", _TEXT, {"query": _TEXT}, Kind.GLOB),
        ("extract_lines", _TEXT, {}, Kind.PAYLOAD),
        ("extract_files", _TEXT, {}, Kind.GLOB),
        ("extract_text", _TEXT, {}, Kind.GLOB),
        ("find_lines", _TEXT, {}, Kind.GLOB),
        ("search_files", _TEXT, {}, Kind.GLOB),
        ("find_code_files", _TEXT, {}, Kind.GLOB),
        ("text", _TEXT, {}, Kind.GLOB),
        ("", _TEXT, {}, Kind.GLOB),
    ],
)
def test_a_tool_that_looks_for_a_text_has_it_in_its_pattern(
    tool: str, pattern: JsonObject, others: JsonObject, kind: Kind
) -> None:
    schema: Json = {"properties": {"pattern": pattern, "path": _TEXT, **others}}
    compiled = compile_schema(schema, {}, tool=tool)
    assert compiled.member("pattern").kind is kind
    assert compiled.member("path").kind is Kind.PATH
    chosen = compile_schema(schema, {"/pattern": Kind.PATH}, tool=tool)
    assert chosen.member("pattern").kind is Kind.PATH


_TEXTS: JsonObject = {"type": "array", "items": _TEXT}
_METHOD: JsonObject = {"type": "string", "description": "HTTP method"}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run_shell", {"script": _TEXT}),
        ("execute", {"script": _TEXT, "interpreter": _TEXT}),
        ("run_code", {"code": _TEXT, "language": _TEXT}),
        ("tmux_send_keys", {"text": _TEXT, "target_pane": _TEXT}),
        ("read_note", {"title": _TEXT}),
        ("grep", {"pattern": _TEXT, "path": _TEXT}),
        ("redis_set", {"key": _TEXT, "value": _TEXT}),
        ("docker_exec", {"container_id": _TEXT, "command": _TEXT}),
        ("request", {"method": _METHOD, "path": _TEXT}),
        ("get_contents", {"owner": _TEXT, "repo": _TEXT, "path": _TEXT}),
        ("db_query", {"sql": _TEXT, "params": {"type": "array", "items": _TEXT}}),
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        {"$ref": "#/$defs/Inner"},
        {"allOf": [{"$ref": "#/$defs/Inner"}]},
        {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Inner"}]},
    ],
)
def test_all_arguments_may_be_in_one_object(
    tool: str, arguments: JsonObject, around: JsonObject
) -> None:
    flat: JsonObject = {"type": "object", "properties": arguments, "required": ["container_id"]}
    nested: Json = {"properties": {"params": around}, "$defs": {"Inner": flat}}
    told = compile_schema(nested, {}, tool=tool).member("params").properties
    assert told == compile_schema(flat, {}, tool=tool).properties
    calls: Json = {"type": "array", "items": around}
    beside: Json = {"properties": {"calls": calls, "n": {}}, "$defs": {"Inner": flat}}
    told = compile_schema(beside, {}, tool=tool).member("calls").element().properties
    assert told == compile_schema(flat, {}, tool=tool).properties


def test_what_is_beside_the_objects_of_a_list_counts_for_them() -> None:
    def told(tool: str, *names: str, inner: str) -> ArgumentNode:
        steps: Json = {"items": {"properties": {inner: _TEXT}}}
        around: JsonObject = dict.fromkeys(names, _TEXT)
        schema: Json = {"properties": {**around, "steps": steps}, "required": [*names]}
        return compile_schema(schema, {}, tool=tool).member("steps").element().member(inner)

    assert told("push_files", "owner", "repo", inner="path").kind is Kind.NEUTRAL
    assert told("docker_exec", "container", inner="cmd").why == IN_CONTAINER
    assert told("docker_exec", "host", inner="cmd").why != IN_CONTAINER


def test_an_object_that_is_named_like_a_command_is_no_command_itself() -> None:
    inner: JsonObject = {"type": "object", "properties": {"cmd": _TEXT}}
    compiled = compile_schema({"properties": {"cmd": inner}}, {}, tool="exec_in_pod")
    assert compiled.member("cmd").why != IN_CONTAINER
    assert compiled.member("cmd").member("cmd").why == IN_CONTAINER


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"script": {"type": ["string", "object"], "properties": {"text": _TEXT}}}},
        {"properties": {"script": {"type": "object", "properties": {"text": _TEXT}}}},
        {
            "properties": {"params": {"type": "object", "properties": {"text": _TEXT}}},
            "allOf": [{"properties": {"script": _TEXT}}],
        },
    ],
)
def test_a_script_may_be_an_object_or_stand_beside_one(schema: JsonObject) -> None:
    compiled = compile_schema(schema, {}, tool="run_shell")
    assert compiled.member("script").kind is Kind.COMMAND


def test_an_object_beside_other_arguments_is_not_around_all_of_them() -> None:
    inner: JsonObject = {"type": "object", "properties": {"owner": _TEXT, "repo": _TEXT}}
    beside: Json = {"properties": {"params": inner}, "allOf": [{"properties": {"path": _TEXT}}]}
    assert compile_schema(beside, {}, tool="get_contents").member("path").kind is Kind.PATH


@pytest.mark.parametrize("name", ["shell", "session_id", "method", "path"])
def test_a_schema_may_be_deep(name: str) -> None:
    deep: JsonObject = {"type": "string"}
    for _ in range(900):
        deep = {"type": "object", "properties": {name: deep}}
    members: JsonObject = {name: deep, "rows": {"description": deep}, "file": _TEXT, "table": _TEXT}
    compiled = compile_schema({"properties": members}, {}, tool="table_of_files")
    assert compiled.member("file").kind is Kind.PATH


@pytest.mark.long
@pytest.mark.usefixtures("half_a_minute")  # growing with the square, it would take minutes
def test_the_time_grows_no_faster_than_the_number_of_arguments() -> None:
    told_by_others = ("title", "text", "path")
    names = [f"a{n}_{last}" for n in range(3000) for last in told_by_others]
    schema: Json = {"properties": {name: {"type": "string"} for name in names}}
    assert len(compile_schema(schema, {}, tool="send_keys").properties) == len(names)


@pytest.mark.parametrize(
    ("tool", "arguments", "key", "kind"),
    [
        ("run_shell", {"lines": _TEXTS}, "lines", Kind.COMMAND),
        ("execute_command", {"sequence": _TEXTS, "cwd": _TEXT}, "sequence", Kind.COMMAND),
        ("bash", {"todo": _TEXT, "shell": _TEXT}, "todo", Kind.COMMAND),
        ("execute_command", {"sequence": _TEXTS, "cwd": _TEXT}, "cwd", Kind.PATH),
        ("run_command", {"command": _TEXT, "name": _TEXT}, "name", Kind.NEUTRAL),
        ("run_command", {"todo": _TEXT, "id": _TEXT}, "id", Kind.NEUTRAL),
        ("run_sql_command", {"sql": _TEXT}, "sql", Kind.PAYLOAD),
        ("run_code_command", {"code": _TEXT, "language": _TEXT}, "code", Kind.PAYLOAD),
        ("list_commands", {"todo": _TEXT}, "todo", Kind.NEUTRAL),
        ("run_all", {"lines": _TEXTS}, "lines", Kind.PAYLOAD),
    ],
)
def test_a_tool_that_runs_commands_has_some_argument_for_them(
    tool: str, arguments: JsonObject, key: str, kind: Kind
) -> None:
    node = compile_schema({"properties": arguments}, {}, tool=tool).member(key)
    assert node.kind is node.element().kind is kind


@pytest.mark.parametrize(
    ("tool", "outer", "inner", "kind"),
    [
        ("update", "sheet", "values", Kind.NEUTRAL),
        ("update", "spreadsheetId", "values", Kind.PAYLOAD),
        ("run", "query", "variables", Kind.NEUTRAL),
        ("run", "sql", "params", Kind.PAYLOAD),
    ],
)
def test_what_has_a_usual_name_tells_nothing_of_inner_arguments(
    tool: str, outer: str, inner: str, kind: Kind
) -> None:
    steps: Json = {"properties": {inner: {"type": "array"}}}
    schema: Json = {"properties": {outer: _TEXT, "step": steps}}
    node = compile_schema(schema, {}, tool=tool).member("step").member(inner)
    assert node.element().kind is kind


def test_a_command_in_an_object_of_this_machine_is_not_for_the_container() -> None:
    hook: Json = {"properties": {"command": _TEXT}}
    schema: Json = {"properties": {"image": _TEXT, "command": _TEXT, "on_host": hook, "x": hook}}
    shape = compile_schema(schema, {}, tool="create_container")
    assert shape.member("on_host").member("command").why != IN_CONTAINER
    assert shape.member("x").member("command").why == shape.member("command").why == IN_CONTAINER


@pytest.mark.parametrize(
    ("tool", "described", "elsewhere"),
    [
        ("ssh_exec", "Command to run", True),
        ("run_remote_command", "", False),
        ("run_ssh_or_local_command", "", False),
        ("run_git_over_ssh", "", False),
        ("adb_shell", "", True),
        ("adb_push", "", False),
        ("ssh_copy", "", False),
        ("run_on_ssh_host", "", False),
        ("run", "Command to execute on remote server", True),
        ("run", "Command to execute on the remote host", True),
        ("run", "The command to execute in the container", True),
        ("run", "Container command", True),
        ("run", "Command to run inside 'adb shell'", True),
        ("run", "Command to run in the container or here", False),
        ("run", "Command to run in the container, if one is named", False),
        ("run", "Local command to run on the device", False),
        ("run", "Command to run on the host of the container", False),
        ("run", "Command to run", False),
        ("run", "Command to run on the device", False),
        ("run", "Command to run in this container", False),
        ("run", "Command to run before files are copied in the container", False),
        ("run", "Shell command. Its output is shown on the emulator", False),
        ("run_bash", "Command to run in the container", False),
    ],
)
def test_a_command_may_be_run_elsewhere(tool: str, described: str, *, elsewhere: bool) -> None:
    schema: Json = {"properties": {"command": {**_TEXT, "description": described}}}
    node = compile_schema(schema, {}, tool=tool).member("command")
    assert node.kind is Kind.COMMAND
    assert (node.why == IN_CONTAINER) is elsewhere


@pytest.mark.parametrize(
    ("beside", "arguments", "elsewhere"),
    [
        ({"host": "web1", "port": 22}, {}, True),
        ({"host": "local.example", "x": ["web1", 5]}, {"x": {"host": "web1"}}, True),
        ({"host": None, "env": {"DATABASE": "localhost"}}, {}, True),
        ({"host": "localhost"}, {}, False),
        ({"host": "root@127.0.0.1"}, {}, False),
        ({"host": "[::1]:22"}, {}, False),
        ({"host": "::ffff:127.0.0.1"}, {}, False),
        ({"host": "ssh://LOCALHOST./"}, {}, False),
        ({"host": " localhost "}, {}, False),
        ({"host": "."}, {}, False),
        ({"connection": "local"}, {}, False),
        ({"hosts": ["web1", "localhost"]}, {}, False),
        ({"hosts": "web1,localhost"}, {}, False),
        ({"hosts": "localhost, web1"}, {}, False),
        ({"target": {"host": "localhost"}}, {}, False),
        ({}, {"host": "localhost"}, False),
        ({}, {"hosts": ["localhost"]}, False),
        ({"hosts": ["web1"] * 100}, {}, False),
        ({**{f"env{n}": "" for n in range(70)}, "host": "localhost"}, {}, False),
        ({f"host{n}": "web1" for n in range(70)}, {}, False),
    ],
)
def test_a_command_for_a_machine_that_is_this_one_is_run_here(
    beside: JsonObject, arguments: JsonObject, *, elsewhere: bool
) -> None:
    schema: Json = {"properties": {"command": _TEXT}}
    node = compile_schema(schema, {}, tool="ssh_exec").member("command")
    assert (node.in_call("ls", beside, arguments).why == IN_CONTAINER) is elsewhere


@pytest.mark.parametrize(("server", "kind"), [("web1", Kind.VIRTUAL), ("localhost", Kind.PATH)])
def test_a_path_on_a_machine_that_is_this_one_is_here(server: str, kind: Kind) -> None:
    schema: Json = {"properties": {"server": _TEXT, "file": _TEXT}, "required": ["server"]}
    node = compile_schema(schema, {}, tool="ssh_tail").member("file")
    call: JsonObject = {"server": server, "file": "/var/log/syslog"}
    assert node.in_call(call["file"], call, call).kind is kind


@pytest.mark.parametrize(
    ("host", "required", "elsewhere"),
    [
        (_TEXT, ["host"], True),
        (_TEXT, [], False),
        ({**_TEXT, "default": "localhost"}, ["host"], False),
        ({**_TEXT, "enum": ["web1", "localhost"]}, ["host"], False),
        ({**_TEXT, "description": "Host; it runs locally if empty"}, ["host"], False),
    ],
)
def test_a_remote_command_may_be_for_this_machine(
    host: Json, required: list[Json], *, elsewhere: bool
) -> None:
    schema: Json = {"properties": {"command": _TEXT, "host": host}, "required": required}
    node = compile_schema(schema, {}, tool="run_remote_command").member("command")
    assert (node.why == IN_CONTAINER) is elsewhere


@pytest.mark.parametrize(
    ("switch", "elsewhere"), [("local", False), ("use_ssh", False), ("localPath", True)]
)
def test_a_switch_may_say_that_a_command_is_run_here(switch: str, *, elsewhere: bool) -> None:
    schema: Json = {"properties": {"command": _TEXT, switch: _TEXT}}
    node = compile_schema(schema, {}, tool="ssh_exec").member("command")
    assert (node.why == IN_CONTAINER) is elsewhere


@pytest.mark.parametrize(
    ("tool", "beside", "kind"),
    [
        ("request", {"path": _TEXT, "method": _METHOD}, Kind.PAYLOAD),
        ("request", {"path": _TEXT, "method": _TEXT}, Kind.PATH),
        ("post_api", {"path": _TEXT}, Kind.PAYLOAD),
        ("update_api_comment", {"path": _TEXT}, Kind.PATH),
        ("call_chat_api", {"method": _TEXT}, Kind.PATH),
        ("api_upload_post", {"path": _TEXT}, Kind.PATH),
    ],
)
def test_the_body_of_a_request_goes_to_its_server(
    tool: str, beside: JsonObject, kind: Kind
) -> None:
    schema: Json = {"properties": {"body": {"type": "object"}, **beside}}
    assert compile_schema(schema, {}, tool=tool).member("body").member("path").kind is kind


@pytest.mark.parametrize(
    ("tool", "key", "described", "kind"),
    [
        ("godot_node_edit", "node_path", "Path to the AnimationPlayer", Kind.VIRTUAL),
        ("godot_find", "root_path", "Path to search root (defaults to scene root)", Kind.VIRTUAL),
        ("godot_scene", "scene_path", "Path to the scene", Kind.PATH),
        ("godot_run", "root_path", "Local folder of the project", Kind.PATH),
        ("godot_run", "root_path", "", Kind.PATH),
        ("godot_run", "project_root_path", "", Kind.PATH),
        ("godot_run", "node_path", "Path of the file with the node", Kind.PATH),
        ("set_up", "node_path", "", Kind.NEUTRAL),
        ("set_attribute", "primPath", "", Kind.NEUTRAL),
        ("set_attribute", "prim_path", "Path of the USD file", Kind.PATH),
        ("load_scene", "node_path", "", Kind.PATH),
        ("set_up", "node_file_path", "", Kind.PATH),
    ],
)
def test_a_node_of_a_scene_is_no_file(tool: str, key: str, described: str, kind: Kind) -> None:
    schema: Json = {"properties": {key: {**_TEXT, "description": described}}}
    assert compile_schema(schema, {}, tool=tool).member(key).kind is kind


@pytest.mark.parametrize(
    ("beside", "kind"),
    [("node_type", Kind.NEUTRAL), ("nodePath", Kind.NEUTRAL), ("name", Kind.PATH)],
)
def test_a_parent_beside_a_node_is_one_of_its_scene(beside: str, kind: Kind) -> None:
    schema: Json = {"properties": {"parent_path": _TEXT, beside: _TEXT}}
    assert compile_schema(schema, {}, tool="create").member("parent_path").kind is kind


@pytest.mark.parametrize(
    ("beside", "described", "kind"),
    [
        ({"value": {"type": "number"}}, "", Kind.NEUTRAL),
        ({"weight": {"type": "integer"}}, "", Kind.NEUTRAL),
        ({"value": _TEXT}, "", Kind.WEAK),
        ({"value": {}}, "", Kind.WEAK),
        ({"size": {"type": "number"}}, "", Kind.WEAK),
        ({"value": {"type": "number"}}, "The file that it comes from", Kind.PATH),
        ({"value": {"type": "number"}}, "One of the uploads", Kind.WEAK),
    ],
)
def test_beside_the_weight_of_an_edge_its_ends_are_no_files(
    beside: JsonObject, described: str, kind: Kind
) -> None:
    end: Json = {**_TEXT, "description": described}
    edges: Json = {"items": {"properties": {"source": end, "target": end, **beside}}}
    edge = compile_schema({"properties": {"data": edges}}, {}, tool="draw").member("data").element()
    assert edge.member("source").kind is edge.member("target").kind is kind


@pytest.mark.parametrize(
    ("repository", "described", "kind"),
    [
        ("repository", "Repository slug", Kind.NEUTRAL),
        ("repo", "The repo's slug, such as my-app", Kind.NEUTRAL),
        ("repoSlug", "", Kind.NEUTRAL),
        ("repository", "", Kind.PATH),
        ("repository", "Repository name", Kind.PATH),
        ("repository", "Slug, or the path of a folder", Kind.PATH),
        ("repository", "Slug or local path", Kind.PATH),
        ("slug", "Slug of the article", Kind.PATH),
    ],
)
def test_a_repository_with_a_slug_is_elsewhere(repository: str, described: str, kind: Kind) -> None:
    schema: Json = {"properties": {repository: {**_TEXT, "description": described}, "path": _TEXT}}
    assert compile_schema(schema, {}, tool="list_files").member("path").kind is kind


def test_what_is_attached_in_a_repository_is_a_file_of_this_machine() -> None:
    files: Json = {"items": {"properties": {"file_path": _TEXT}}}
    members: JsonObject = {"repoSlug": _TEXT, "attachments": files, "parts": files}
    shape = compile_schema({"properties": members}, {}, tool="create_comment")
    kinds = {key: shape.member(key).element().member("file_path").kind for key in members}
    assert (kinds["attachments"], kinds["parts"]) == (Kind.PATH, Kind.NEUTRAL)


def test_the_cells_of_a_table_are_no_files() -> None:
    rows: Json = {"properties": {"path": _TEXT, "data": {"type": "array", "items": _TEXTS}}}
    for tool in ("write_csv", "write", "merge_csv", "read_csv", "create_csv"):
        kind = Kind.PAYLOAD if tool == "write_csv" else Kind.NEUTRAL
        node = compile_schema(rows, {}, tool=tool)
        assert node.member("data").element().element().kind is kind
        assert node.member("path").kind is Kind.PATH


@pytest.mark.parametrize(
    ("tool", "names", "is_typed"),
    [
        ("send", ["text", "send_enter", "session_id"], True),
        ("write", ["data", "append_newline", "session"], True),
        ("send", ["text", "session_id"], False),
        ("send", ["text", "send_enter", "phone"], False),
        ("type", ["text", "press_enter", "selector", "sessionId"], False),
        ("send_message", ["text", "press_enter", "session", "chat_id"], False),
        ("type", ["text", "pressEnter", "x", "y", "session_id"], False),
    ],
)
def test_a_text_with_enter_behind_it_is_typed_into_the_session_of_a_terminal(
    tool: str, names: list[str], *, is_typed: bool
) -> None:
    told = compile_schema({"properties": dict.fromkeys(names, _TEXT)}, {}, tool=tool)
    assert (told.member(names[0]).why == TYPED) is is_typed


def test_what_stands_beside_the_number_of_a_cell_is_its_code() -> None:
    for which in ("cell_index", "cellNumber", "cell_type", "cell_id"):
        names = ["notebook_path", which, "source"]
        told = compile_schema({"properties": dict.fromkeys(names, _TEXT)}, {}, tool="edit_cell")
        assert told.member("source").kind is Kind.PAYLOAD
    names = ["notebook_path", "cells", "source"]
    told = compile_schema({"properties": dict.fromkeys(names, _TEXT)}, {}, tool="copy_notebook")
    assert told.member("source").kind is Kind.WEAK
