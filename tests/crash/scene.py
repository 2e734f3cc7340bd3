# SPDX-License-Identifier: GPL-2.0-or-later
# A real velad, with or without velad-helper, on a simulated host with libvirt's test driver, both under preload.c: what is done
# to them, and what must hold of them afterwards. One guest with a GPU and a VF, which comes and goes.
import contextlib, http.client, json, mmap, os, shutil, signal, socket, sqlite3, struct, subprocess, tempfile, time

COUNT, KILL, FAIL, HANG, STOP = range(5)
NOBODY = 65534
GUEST = {"name": "one", "gpus": 1, "vfs_per_gpu": 1, "vcpus": 1, "memory": 256 << 20, "gdr": "required", "require": ["0000:23:00.0"]}


class Wrong(Exception):
    pass


class Late(Wrong):
    pass


class Control:
    """struct control of preload.c."""
    AT = {"write": 0, "virt": 16}

    def __init__(self, path, directory):
        self.path = path
        with open(path, "wb") as f:
            f.write(struct.pack("=8IiIq64s32s", *[0] * 11, directory.encode(), b""))
        os.chmod(path, 0o666)
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 0)

    def arm(self, what, at, how, error=0, only=""):
        """only: the name of libvirt's call that counts; "": all do."""
        struct.pack_into("=32s", self.map, 112, only.encode())
        struct.pack_into("=iI", self.map, 32, error, 0)
        struct.pack_into("=4I", self.map, self.AT[what], 0, at, 0, how)

    def disarm(self):
        for what in self.AT:
            self.arm(what, 0, COUNT)
        struct.pack_into("=I", self.map, 36, 1)

    def no_more(self, what):
        """True if it has happened; else it will not any more."""
        struct.pack_into("=I", self.map, self.AT[what] + 4, 0)
        return self.fired(what)

    def calls(self, what):
        return struct.unpack_from("=I", self.map, self.AT[what])[0]

    def fired(self, what):
        return bool(struct.unpack_from("=I", self.map, self.AT[what] + 8)[0])

    def clock(self, seconds):
        struct.pack_into("=q", self.map, 40, seconds)


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("velad", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Scene:
    def __init__(self, build, helper=False, conf=(), host="tests/hosts/lab/sys.txt", libvirt="test:///default", start=True):
        self.build, self.helper, self.libvirt = os.path.realpath(build), helper, libvirt
        self.dir = tempfile.mkdtemp(prefix="velad-crash.")
        self.root = self.dir + "/root"
        self.sim = self.root + "/.hostsim/"
        self.velad = self.unit = None
        self.keys = self.started = 0
        os.mkdir(self.root)
        os.mkdir(self.dir + "/state")
        if helper:
            os.chmod(self.dir, 0o755)
            for d in (self.dir, self.dir + "/state"):
                os.chown(d, NOBODY, NOBODY)
        self.control = Control(self.dir + "/control", self.dir + "/state")
        self.helper_control = Control(self.dir + "/helper.control", self.dir + "/state")
        self.write_conf(conf)
        self.mount(host)
        if not start:
            return
        try:
            self.start()
            self.before = self.state()
        except Wrong:
            self.close()
            raise

    def close(self):
        self.fault("clear")
        self.control.disarm()
        self.stop(signal.SIGKILL)
        self.unmount()
        shutil.rmtree(self.dir)

    def mount(self, host):
        """A text host: its path, or a Host of host.py."""
        if not isinstance(host, str):
            host.write(self.dir + "/host.txt")
            host = self.dir + "/host.txt"
        subprocess.run([self.build + "/tests/hostsim/hostsim", "--guests", "--uevents", self.dir + "/uevents", host, self.root], check=True)
        os.chmod(self.dir + "/uevents", 0o666)
        pf = next(x for x in ("0000:25:00.0", "0000:2d:00.0") if os.path.exists(f"{self.root}/sys/bus/pci/devices/{x}"))
        for n in "10" if not os.path.exists(self.root + "/sys/kernel/iommu_groups") else "": # this text host has none: it comes with the first VF
            self.put(f"sys/bus/pci/devices/{pf}/sriov_numvfs", n)

    def unmount(self):
        self.stop_helper() # which may have files open below it
        self.await_that(lambda: subprocess.run(["umount", self.root], stderr=subprocess.DEVNULL).returncode == 0,
                        "processes of a velad that is gone end, too")
        os.unlink(self.dir + "/uevents")

    def write_conf(self, more):
        to = {"state_dir": self.dir + "/state", "console_dir": self.dir, "socket": self.dir + "/sock", "helper": self.dir + "/helper.sock",
              "keep_seconds": "1"}
        to.update(more)
        with open("conf/velad.conf") as f, open(self.dir + "/velad.conf", "w") as out:
            for line in f:
                key = line.split(" = ")[0].lstrip("#").strip()
                if " = " in line and key in to and not line.startswith("# "):
                    line = f"{key} = {to.pop(key)}\n"
                out.write(line.replace("nic = 8086:1591", "nic = 8086:10c9:0200 8086:1591"))

    # ---- the host
    def put(self, path, text):
        with open(f"{self.root}/{path}", "w") as f:
            f.write(text + "\n")

    def fault(self, rule):
        self.put(".hostsim/fault", rule)

    def read(self, name):
        return subprocess.run(["cat", self.sim + name], check=True, capture_output=True, text=True).stdout

    def state(self):
        return self.read("state")

    def differs(self, most=4):
        """What is not as it was at first, "" if nothing."""
        was, now = self.before.splitlines(), self.state().splitlines()
        return "; ".join(["-" + x for x in was if x not in set(now)][:most] + ["+" + x for x in now if x not in set(was)][:most])

    # ---- the processes
    def under(self, control):
        if not os.path.exists(f"{self.build}/tests/crash/preload.so"):
            raise Wrong("preload.so is not built: make build-tests") # the loader would only warn, and nothing be killed
        return ["/usr/bin/env", f"LD_PRELOAD={self.build}/tests/crash/preload.so", f"CRASH_CONTROL={control.path}",
                "ASAN_OPTIONS=verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")]

    def start_helper(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.dir + "/helper.sock")
        with open(self.dir + "/helper.log", "a") as log:
            self.unit = subprocess.Popen(
                ["tests/hostsim/socket-unit", self.dir + "/helper.sock", self.dir + "/helper.pid"] + self.under(self.helper_control) +
                [self.build + "/velad-helper", "--root", self.root, "--conf", self.dir + "/velad.conf", "--user", str(NOBODY), "--seccomp", "off",
                 "--keep", self.dir], stderr=log)
        self.await_that(lambda: os.path.exists(self.dir + "/helper.sock"), "socket-unit listens")

    def stop_helper(self):
        if self.unit:
            self.unit.terminate()
            try:
                self.unit.wait(30)
            except subprocess.TimeoutExpired:
                self.unit.kill()
                self.unit.wait()
                raise Wrong("velad-helper does not end")
            finally:
                self.unit = None

    def start(self, ready=True):
        if self.helper and not self.unit:
            self.start_helper()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.dir + "/sock")
        command = self.under(self.control) + [self.build + "/velad", "--root", self.root, "--uevents", self.dir + "/uevents", "--conf",
                                              self.dir + "/velad.conf", "--libvirt", self.libvirt, "--seccomp", "off"]
        if self.helper:
            command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
                       "--no-new-privs"] + command
        self.started = time.monotonic()
        with open(self.dir + "/velad.log", "a") as log:
            self.velad = subprocess.Popen(command, stderr=log)
        if ready:
            self.await_that(self.answers, "velad answers")

    def answers(self):
        if self.dead():
            with open(self.dir + "/velad.log") as log:
                raise Wrong("velad does not start: " + log.read()[-400:])
        return self.get("/v1/instances") is not None

    def dead(self):
        return self.velad is None or self.velad.poll() is not None

    def used(self):
        """Seconds of a processor that velad has used since it was started (proc(5), utime and stime)."""
        with open(f"/proc/{self.velad.pid}/stat") as f:
            return sum(int(x) for x in f.read().rsplit(")", 1)[1].split()[11:13]) / os.sysconf("SC_CLK_TCK")

    def stop(self, sig=signal.SIGTERM):
        if self.velad:
            self.velad.send_signal(sig)
            try:
                status = self.velad.wait(30)
            except subprocess.TimeoutExpired:
                self.velad.kill()
                self.velad.wait()
                raise Wrong("velad does not end")
            self.velad = None
            if status not in (0, -sig):
                raise Wrong(f"velad ended with {status}")

    # ---- requests
    def ask(self, method, path, body=None, key=None):
        """Status and document; None: nobody answered."""
        c = Unix(self.dir + "/sock")
        headers = {"Idempotency-Key": key} if key else {}
        try:
            c.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = c.getresponse()
            return answer.status, json.loads(answer.read() or "null")
        except (OSError, http.client.HTTPException):
            return None
        finally:
            c.close()

    def get(self, path):
        answer = self.ask("GET", path)
        return answer[1] if answer and answer[0] == 200 else None

    def key(self):
        self.keys += 1
        return f"key-{os.getpid()}-{self.keys}"

    def order(self, what, key=None):
        requests = {"create": ("POST", "/v1/instances", GUEST), "delete": ("DELETE", "/v1/instances/one"),
                    "start": ("POST", "/v1/instances/one/start"), "stop": ("POST", "/v1/instances/one/stop", {"force": True})}
        return self.ask(*requests[what], key=key)

    def await_that(self, fn, what, seconds=60):
        end = time.monotonic() + seconds
        while not fn():
            if time.monotonic() > end:
                raise Wrong(f"not within {seconds} s: {what() if callable(what) else what}")
            time.sleep(0.003)

    def operations(self):
        answer = self.get("/v1/operations?limit=12")
        return answer["operations"] if answer else None

    def settled(self):
        ops = self.operations()
        return ops is not None and all(o["finished"] for o in ops)

    def settle(self, seconds=60):
        """Until nothing is under way; False: velad died before."""
        self.await_that(lambda: self.dead() or self.settled(), "all operations end", seconds)
        return not self.dead()

    def instance(self):
        answer = self.ask("GET", "/v1/instances/one")
        if not answer:
            raise Wrong("velad does not answer")
        return answer[1] if answer[0] == 200 else None

    def do(self, what):
        answer = self.order(what)
        if not answer or answer[0] != 202: # busy: what was late has returned, and is undone
            raise (Late if answer and answer[1]["code"] == "busy" else Wrong)(f"{what}: {answer}")
        self.settle()
        op = self.get(f"/v1/operations/{answer[1]['id']}")
        if op["state"] != "succeeded":
            raise (Late if op["error"]["code"] in ("timeout", "busy") else Wrong)(f"{what}: {op['error']}")
        return op

    def bring(self, state):
        """The guest is absent, running or stopped; on the way it is absent, and the host as it was."""
        end = time.monotonic() + 120
        while True: # deadlines are short here, so that on a busy machine what is well may be late; and what is late ends some time
            try:
                self.bring_once(state)
                return
            except Late:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def bring_once(self, state):
        if self.instance():
            self.do("delete")
        for q in self.get("/v1/quarantine")["quarantine"]:
            self.ask("DELETE", f"/v1/quarantine/{q['bdf']}")
            self.settle()
        if self.get("/v1/quarantine")["quarantine"]:
            raise Late(f"not given back from quarantine: {self.get('/v1/quarantine')}")
        wrong = self.differs()
        if wrong:
            raise Wrong(f"deleted, and the host differs: {wrong}")
        if state != "absent":
            self.do("create")
        if state == "stopped":
            self.do("stop")
            if self.get("/v1/quarantine")["quarantine"]:
                raise Late(f"stopped, and not all is well: {self.get('/v1/quarantine')}")

    # ---- what must hold
    @contextlib.contextmanager
    def store_copy(self):
        with tempfile.TemporaryDirectory() as d:
            for name in os.listdir(self.dir + "/state"):
                if name.startswith("velad.db") and not name.endswith("-shm"):
                    shutil.copy(f"{self.dir}/state/{name}", d)
            with contextlib.closing(sqlite3.connect(d + "/velad.db")) as db:
                yield db

    def check_store(self):
        """What a dead velad left can be read, and is whole."""
        with self.store_copy() as db:
            found = db.execute("PRAGMA integrity_check").fetchone()[0]
            if found != "ok":
                raise Wrong(f"the store: {found}")

    def check(self, accepted=None):
        """Nothing is under way: each function is in exactly one place, and what was promised is there."""
        if accepted and not self.get(f"/v1/operations/{accepted}"):
            raise Wrong(f"operation {accepted} was accepted, and is not there")
        held = {}
        for i in self.get("/v1/instances")["instances"]:
            bundle = self.get(f"/v1/instances/{i['name']}")["bundle"]
            for f in bundle["gpus"] + bundle["vfs"] + bundle["companions"] + bundle["extras"]:
                if f["bdf"] in held:
                    raise Wrong(f"{f['bdf']} is held twice")
                held[f["bdf"]] = i["name"]
        sick = self.get("/v1/quarantine")["quarantine"]
        for q in sick:
            if not q["reason"]:
                raise Wrong(f"{q['bdf']} is in quarantine without a reason")
        if not held and not sick:
            wrong = self.differs()
            if wrong:
                raise Wrong(f"nobody holds anything, and the host differs: {wrong}")
        for bdf in held:
            link = f"{self.root}/sys/bus/pci/devices/{bdf}/driver"
            if self.get("/v1/instances")["instances"][0]["state"] == "running" and not os.path.realpath(link).endswith("/vfio-pci"):
                raise Wrong(f"the guest runs, and {bdf} is not with vfio-pci")
