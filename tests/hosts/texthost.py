# SPDX-License-Identifier: GPL-2.0-or-later
"""A text host: one machine's sysfs as one text file. README.md beside this file has the format.

The reader is strict: what the C reader refuses is refused here too, with the line number.
"""
import errno
import os
import re

MAGIC = "# velad text host 1"
ROW = re.compile(r" ([0-9a-f]{3}): ((?:[0-9a-f]{2}|--)(?: (?:[0-9a-f]{2}|--)){0,15})$")
ESCAPE = {"n": "\n", "t": "\t", "\\": "\\"}


class Link(str):
    """The target of a symbolic link."""


class Parts(bytearray):
    """Configuration space of which only some is known; the rest stays 0."""


class Bad(Exception):
    """A text host that breaks the format; carries the line number in its text."""


def unescape(text):
    """The content that a VALUE stands for, without its final newline."""
    def one(match):
        if match[1] not in ESCAPE:
            raise Bad(f"unknown escape \\{match[1]}")
        return ESCAPE[match[1]]
    return re.sub(r"\\(.?)", one, text)


def check_path(path):
    """A path stays below the root and is spelled in one way only."""
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise Bad(f"bad path {path!r}")


def parse_entry(line):
    """(path, kind, value) of one entry line; a binary file starts as zeros."""
    path, tab, value = line.partition("\t")
    if tab:
        check_path(path)
        if path.endswith("/config") and value.startswith("bytes "):
            if not re.fullmatch(r"bytes [1-9][0-9]{0,3}", value):
                raise Bad(f"bad size {value!r}")
            return path, "bytes", bytearray(int(value[6:]))
        if path.endswith("/config") and value.startswith("parts "):
            if not re.fullmatch(r"parts [0-9]{1,4}", value) or int(value[6:]) % 4:
                raise Bad(f"bad size {value!r}")
            return path, "bytes", Parts(int(value[6:]))
        return path, "text", unescape(value)
    path, arrow, target = line.partition(" -> ")
    if arrow and target:
        check_path(path)
        return path, "link", target
    path, bang, error = line.partition(" ! ")
    if bang:
        if not hasattr(errno, error):
            raise Bad(f"unknown error {error!r}")
        check_path(path)
        return path, "error", error
    if not line.endswith("/"):
        raise Bad(f"neither a file, a link nor a directory: {line!r}")
    check_path(line[:-1])
    return line[:-1], "dir", None


def add_row(data, line):
    """Put one ' OFF: xx xx' row into the binary file that it follows."""
    match = ROW.match(line)
    if not match or data is None:
        raise Bad(f"bad row {line!r}")
    if "--" in match[2] and not isinstance(data, Parts):
        raise Bad(f"row {match[1]}: only parts may have --")
    at, row = int(match[1], 16), bytes.fromhex(match[2].replace("--", "00"))
    if at % 16 or at + len(row) > len(data):
        raise Bad(f"row {match[1]} is out of place")
    data[at:at + len(row)] = row


def parse(text):
    """{path: (kind, value)} of a text host, kind being text, bytes, link or dir."""
    host, last, data = {}, "", None
    lines = text.split("\n")
    if lines.pop() or not lines or lines[0] != MAGIC:
        raise Bad(f"line 1: not '{MAGIC}', or no newline at the end")
    for number, line in enumerate(lines[1:], 2):
        try:
            if line.startswith("#"):
                continue
            if line.startswith(" "):
                add_row(data, line)
                continue
            path, kind, value = parse_entry(line)
            if path.encode() <= last.encode():
                raise Bad(f"{path} is not sorted after {last}")
            host[path], last = (kind, value), path
            data = value if kind == "bytes" else None
        except Bad as bad:
            raise Bad(f"line {number}: {bad}") from None
    check_tree(host)
    return host


def check_tree(host):
    """No entry lies below a file, a link or a directory said to be empty."""
    for path in host:
        parts = path.split("/")
        for n in range(1, len(parts)):
            above = "/".join(parts[:n])
            if above in host:
                raise Bad(f"{path} lies below {above}, which is a {host[above][0]}")


def escape(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def bytes_rows(data):
    rows = [f"bytes {len(data)}"]
    for at in range(0, len(data), 16):
        if any(data[at:at + 16]):
            rows.append(f" {at:03x}: {data[at:at + 16].hex(' ')}")
    return "\n".join(rows)


def render_entry(path, value):
    if value is None:
        return f"{path}/"
    if isinstance(value, Link):
        return f"{path} -> {value}"
    return f"{path}\t{bytes_rows(value) if isinstance(value, bytes) else escape(value)}"


def render(tree, about):
    """The text host of {path: text, bytes, Link or None for an empty directory}."""
    rows = [MAGIC] + [f"# {row}" for row in about]
    rows += [render_entry(path, tree[path]) for path in sorted(tree, key=str.encode)]
    return "\n".join(rows) + "\n"


def write(host, root):
    """Write a parsed host below root, a directory that is empty or not there yet."""
    os.makedirs(root, exist_ok=True)
    if os.listdir(root):
        raise Bad(f"{root} is not empty")
    for path, (kind, value) in host.items():
        if kind == "error":  # no tree of plain files can have it
            continue
        full = os.path.join(root, path)
        os.makedirs(full if kind == "dir" else os.path.dirname(full), exist_ok=True)
        if kind == "link":
            os.symlink(value, full)
        elif kind != "dir":
            with open(full, "xb") as file:
                file.write(value if kind == "bytes" else f"{value}\n".encode())
