#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
# One request to velad as a client of another kind would send it: ask.py SOCKET METHOD PATH [BODY] [NAME:VALUE]...
# Prints the status, the headers that say something (Location, ETag, Retry-After) and the body, a line each.
import http.client, socket, sys

class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("velad")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)

sock, method, path, *rest = sys.argv[1:]
body = rest.pop(0) if rest and (not rest[0] or rest[0][0] in "{[") else None
c = Unix(sock)
c.request(method, path, body or None, dict(h.split(":", 1) for h in rest))
r = c.getresponse()
print(r.status, *(f"{n}={r.headers[n]}" for n in ("Location", "ETag", "Retry-After") if n in r.headers))
print(r.read().decode())
