#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A velad of canned answers for cli.sh: fake_velad.py SOCKET. What an instance's name says happens to it.

good      its create succeeds, after some polls
broken    its create fails at the hypervisor, and the steps are reverted
slow      its create never ends
full      409 no_capacity with two reasons
taken     409 exists
busy      DELETE: 409 busy
evil      escape sequences in every text
nonsense  an answer that is no JSON
"""
import http.server
import json
import os
import socketserver
import sys

STEPS = [("vfio", "vfio-pci", "absent", "loaded"), ("vf-count", "0000:1a:00.0", "0", "8"),
         ("bind", "0000:19:00.0", "nvidia", "vfio-pci"), ("bind", "0000:1a:00.1", "(new)", "vfio-pci"),
         ("domain", "good", "absent", "running")]
BUNDLE = {"gpus": [{"bdf": "0000:19:00.0", "numa_node": 0}],
          "vfs": [{"bdf": "0000:1a:00.1", "pf": "0000:1a:00.0", "index": 0, "gpu": "0000:19:00.0", "path": "PIX",
                   "exists": False}],
          "companions": [], "cells": [{"host_node": 0, "memory": 536870912, "vcpus": 2}], "worst_path": "PIX",
          "gpu_path": None}
OPS = {"good": 1, "broken": 2, "slow": 3, "long": 6, "evil": 4}
polls = {}
cancelled = set()


def steps(states):
    return [{"id": s[0], "target": s[1], "from": s[2], "to": s[3], "state": st} for s, st in zip(STEPS, states)]


def operation(number, kind="create"):
    n = polls[number] = polls.get(number, 0) + 1
    op = {"id": number, "kind": kind, "instance": "good", "state": "running", "created": "2026-11-29T10:00:00Z",
          "finished": None, "error": None}
    if number == 1 or number == 5:
        done, before = ("done", "pending") if kind == "create" else ("reverted", "done")
        op["steps"] = steps([done] * min(n, 5) + [before] * max(5 - n, 0))
        if kind == "delete":
            op["steps"].reverse()
            op["steps"] = [dict(s, state="reverted" if i < n else "done") for i, s in enumerate(op["steps"])]
        if n >= 6:
            op["state"], op["finished"] = "succeeded", "2026-11-29T10:00:03Z"
    elif number == 2:
        op["instance"] = "broken"
        op["steps"] = steps(["done", "done", "done", "done", "failed"] if n < 3
                            else ["done", "reverted", "reverted", "reverted", "failed"])
        op["started"], op["duration_us"] = "2026-11-29T09:59:59.900000Z", 40123456
        for i, (at, us) in enumerate([("59:59.900100", 850), ("59:59.950000", 38200000), ("59:59.950000", 9312), ("00:38.200000", 91000)]):
            op["steps"][i].update(started="2026-11-29T%s:%sZ" % ("10" if at < "1" else "09", at), duration_us=us,
                                  undo_us=7000 if i else None, deadline_ms=300000 if i == 1 else 60000)
        if n >= 3:
            op["state"], op["finished"] = "failed", "2026-11-29T10:00:03Z"
            op["error"] = {"code": "hypervisor", "detail": "step domain good: qemu said no"}
    elif number == 3:
        op["instance"] = "slow"
        op["steps"] = steps(["done", "begun", "pending", "pending", "pending"])
    elif number == 6:
        op["instance"] = "long"
        op["steps"] = steps(["done", "begun", "pending", "pending", "pending"])
        if 6 in cancelled:
            op["steps"] = steps(["done", "reverted", "pending", "pending", "pending"])
            op["state"], op["finished"] = "cancelled", "2026-11-29T10:00:03Z"
            op["error"] = {"code": "cancelled", "detail": "everything was given back"}
    elif number == 4:
        op.update(instance="\x1b[31mevil", state="failed", error={"code": "busy", "detail": "a\x1b[2Jb\nc"}, steps=[
            {"id": "\x1b[5m", "target": "x\r", "from": "\x07", "to": "\u009b1m", "state": "done"}])
    else:
        return None
    done = "reverted" if op["kind"] == "delete" else "done"
    op["progress"] = {"done": sum(x["state"] == done for x in op.get("steps", [])), "total": len(op.get("steps", []))}
    return op


def instance(name):
    evil = "\x1b[31m" if name == "evil" else ""
    return {"name": name + evil, "uuid": "c0ffee00-0000-4000-8000-000000000001", "state": "running", "error": evil or None,
            "created": "2026-11-29T10:00:00Z", "generation": 9, "topology_generation": 7, "operation": 1, "bundle": BUNDLE,
            "request": {"name": name, "gpus": 1, "vfs_per_gpu": 1, "vcpus": 2, "memory": 536870912,
                        "boot": {"kernel": "/boot/vmlinuz"}},
            "steps": steps(["done"] * 5)}


def brief(name):
    return dict({k: v for k, v in instance(name).items() if k not in ("bundle", "request", "steps", "topology_generation")},
                gpus=["0000:19:00.0"], vfs=["0000:1a:00.1"], nodes=[0, None], vcpus=2, memory=536870912, tags={"who": name})


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, doc, kind="application/json"):
        body = doc if isinstance(doc, bytes) else json.dumps(doc).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def problem(self, status, code, detail, reasons=()):
        self.answer(status, {"type": "about:blank", "title": "x", "status": status, "code": code, "detail": detail,
                             "reasons": list(reasons)}, "application/problem+json")

    def do_GET(self):
        path, _, query = self.path.partition("?")
        what = path.split("/")[2:]
        if what == ["instances"]:
            self.answer(200, {"instances": [] if os.path.exists(sys.argv[1] + ".empty") else
                              [brief(n) for n in ("good", "evil") if query in (
                                  "view=brief", "view=brief&state=running&tag=who%3d" + n)]})
        elif what[0] == "instances" and what[1] in ("good", "evil") and len(what) == 2:
            self.answer(200, instance(what[1]))
        elif what[0] == "instances" and what[1] == "nonsense":
            self.answer(200, b"<html>")
        elif what == ["operations"]:
            self.answer(200, {"operations": [operation(n) for n in (2, 1)], "next": None})
        elif what[0] == "operations" and what[1] in "123456":
            self.answer(200, operation(int(what[1]), "delete" if what[1] == "5" else "create"))
        elif what[0] == "instances" and what[2:3] == ["console"] and what[1] in ("good", "evil"):
            self.console()
        elif what[0] == "instances" and what[2:3] == ["console"]:
            self.problem(409, "busy", "instance %s is stopped" % what[1])
        elif what == ["topology"]:
            self.problem(503, "host", "cannot list the PCI bus")
        else:
            self.problem(404, "not_found", "there is no %s" % self.path)

    def console(self):
        """Of good: what it hears it says again, in capitals, until "off". Somebody else has that of evil."""
        self.send_response(101)
        self.send_header("Upgrade", "velad-console")
        self.end_headers()
        self.close_connection = True
        if "evil" in self.path:
            self.wfile.write(b"busy somebody else has it\n")
            return
        self.wfile.write(b"open\nlogin: ")
        while b"off" not in (heard := self.connection.recv(4096)):
            if not heard:
                with open(sys.argv[1] + ".left", "w", encoding="ascii"):
                    return
            self.wfile.write(heard.upper())

    def do_POST(self):
        if self.path.endswith("/cancel"):
            number = int(self.path.split("/")[3])
            if number == 3:
                return self.problem(409, "busy", "operation 3 cannot be cancelled")
            cancelled.add(number)
            return self.answer(202, operation(number))
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = request.get("name", "")
        if self.path == "/v1/plans":
            self.answer(200, {"fits": False, "generation": 7, "reasons": [
                {"rule": "device.taken", "device": "0000:19:00.0", "observed": "GPU is held by instance good",
                 "needed": "a free device", "text": "0000:19:00.0: GPU is held by instance good; needed: a free device"}],
                "bundle": None, "steps": [], "domain_xml": None, "nccl_topology": None})
        elif name == "full":
            self.problem(409, "no_capacity", "full does not fit", [
                {"rule": "device.taken", "text": "0000:19:00.0: held by instance good; needed: a free GPU"},
                {"rule": "nic.no-free-vf", "text": "0000:1a:00.0: no VF is free; needed: a free VF"}])
        elif name == "taken":
            self.problem(409, "exists", "the name taken is taken")
        elif name in OPS:
            polls.pop(OPS[name], None)
            cancelled.discard(OPS[name])
            self.answer(202, {"id": OPS[name], "kind": "create", "instance": name, "state": "queued", "steps": []})
        else:
            self.problem(403, "denied", "not for you")

    def do_DELETE(self):
        name = self.path.split("/")[3]
        if name == "busy":
            self.problem(409, "busy", "an operation runs on busy")
        elif name == "good":
            polls.pop(5, None)
            self.answer(202, {"id": 5, "kind": "delete", "instance": "good", "state": "queued", "steps": []})
        else:
            self.problem(404, "not_found", "there is no instance %s" % name)


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def get_request(self):
        request, _ = super().get_request()
        return request, ("local", 0)


Server(sys.argv[1], Handler).serve_forever()
