"use strict";
// What servers in Node make of a value before they open it. A line of JSON in, {cwd, env, texts};
// a line out: for each text what was reached, as [opener, path, device, inode].
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { fileURLToPath, pathToFileURL } = require("node:url");

const OPENERS = {
  "fs.statSync": (text) => text,
  "path.resolve": (text, at) => path.resolve(at.cwd, text),
  "path.normalize": (text) => path.normalize(text),
  "path.resolve after trim": (text, at) => path.resolve(at.cwd, text.trim()),
  "fs.realpathSync": (text, at) => fs.realpathSync.native(path.resolve(at.cwd, text)),
  decodeURIComponent: (text) => decodeURIComponent(text),
  "decodeURIComponent, path.resolve": (text, at) => path.resolve(at.cwd, decodeURIComponent(text)),
  "decodeURI": (text) => decodeURI(text),
  "decoded twice": (text) => decodeURIComponent(decodeURIComponent(text)),
  "new URL": (text) => fileURLToPath(new URL(text)),
  "fs.statSync of a URL": (text) => new URL(text),
  "new URL below the directory": (text, at) => fileURLToPath(new URL(text, pathToFileURL(`${at.cwd}/`))),
  "NFKC": (text, at) => path.resolve(at.cwd, text.normalize("NFKC")),
  "expanded ~": (text) => path.normalize(text.replace(/^~(?=$|[/\\])/, os.homedir())),
  "expanded $NAME": (text) => path.normalize(text.replace(/\$(?:(\w+)|\{(\w+)\})/g, (_, one, other) => process.env[one ?? other] ?? "")),
  "backslashes": (text, at) => path.posix.resolve(at.cwd, text.replaceAll("\\", "/")),
  "path.win32.normalize": (text, at) => path.resolve(at.cwd, path.win32.normalize(text).replaceAll("\\", "/")),
};

function identity(where, known) {
  const key = String(where);
  if (!known.has(key)) {
    const status = fs.statSync(where, { bigint: true, throwIfNoEntry: false });
    known.set(key, status && [String(status.dev), String(status.ino)]);
  }
  return known.get(key);
}

function reached(text, at, known) {
  const found = [];
  for (const [name, open] of Object.entries(OPENERS)) {
    try {
      const where = open(text, at);
      const what = identity(where, known);
      if (what) {
        found.push([name, String(where), ...what]);
      }
    } catch {
      // Not every text is a path, or a URI.
    }
  }
  return found;
}

require("node:readline")
  .createInterface({ input: process.stdin })
  .on("line", (line) => {
    const at = JSON.parse(line);
    process.chdir(at.cwd);
    Object.assign(process.env, at.env);
    const known = new Map();
    process.stdout.write(`${JSON.stringify(at.texts.map((text) => reached(text, at, known)))}\n`);
  });
