# SPDX-License-Identifier: GPL-2.0-or-later
"""The life of the emulated host: start and stop its QEMU, run commands in it, talk to its monitor and its shell.

Commands go through files in share/cmd, which L1 sees as /lab/cmd; see l1/usr/lib/lab/agent for the other end.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
import tty

import machine

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
LAB = TOP / "build" / "lab"
LOGS = LAB / "logs"
RUN = LAB / "run"
SHARE = LAB / "share"
CMD = SHARE / "cmd"
PID_FILE = RUN / "qemu.pid"

TIMED_OUT = 124       # as timeout(1) says
LEAVE_SHELL = b"\x1d"  # Ctrl-]
BOOT_TRIES = 4
# On the console of a boot that will never end: on a busy machine an emulated processor now and then loses its timer.
LOST_TIMER = (b"kthread timer wakeup didn't happen", b"timer doesn't work through Interrupt-remapped IO-APIC")
REPLY_SECONDS = 20    # the agent and the monitor answer in milliseconds; more means that L1 hangs


class LabError(Exception):
    """Something that is the lab's fault or the caller's, not that of a command in L1."""


# ---- one QEMU --------------------------------------------------------------------------------------------

def log_tail(name, lines=15):
    path = LOGS / name
    text = path.read_text(errors="replace").splitlines() if path.exists() else []
    return "\n".join([f"the end of {path.relative_to(TOP)}:"] + [f"  {line}" for line in text[-lines:]])


def running_pid():
    """The process id of our QEMU, or None. A pid file that outlived its process does not count."""
    try:
        pid = int(PID_FILE.read_text())
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if b"velad-lab" in command else None


def require_running():
    if not running_pid():
        raise LabError("the emulated host is not running (tests/lab/run start)\n" + log_tail("qemu.log"))


def spawn(*machine_args):
    """Start QEMU in a session of its own; returns without waiting."""
    for folder in (RUN, CMD):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    (LOGS / "console.log").unlink(missing_ok=True)
    with open(LOGS / "qemu.log", "wb") as log:
        process = subprocess.Popen([HERE / "in-root"] + machine.qemu_command(*machine_args), stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, start_new_session=True)
    PID_FILE.write_text(f"{process.pid}\n")
    return process


def wait_ready(process, seconds):
    """Why L1 is not up, or None as soon as its agent is."""
    end = time.monotonic() + seconds
    console = LOGS / "console.log"
    while time.monotonic() < end:
        if process.poll() is not None:
            raise LabError(f"QEMU ended with status {process.returncode}\n" + log_tail("qemu.log"))
        if (CMD / "ready").exists():
            return None
        if console.exists() and any(text in console.read_bytes() for text in LOST_TIMER):
            return "a processor lost its timer"
        time.sleep(0.1)
    return f"not up after {seconds} s"


def start(*machine_args, seconds=90):
    """Boot L1, with the arguments of machine.qemu_command. There are more tries for boots that never end."""
    if not (LAB / "l1.img").exists():
        raise LabError("there is no image: run tests/lab/build")
    if running_pid():
        raise LabError("the emulated host is already running")
    for attempt in range(1, BOOT_TRIES + 1):
        begin = time.monotonic()
        try:
            trouble = wait_ready(spawn(*machine_args), seconds)
        except BaseException:  # the user's Ctrl-C included: no half-booted host stays behind
            stop()
            raise
        if not trouble:
            print(f"host up in {time.monotonic() - begin:.1f} s", flush=True)
            return
        stop()
        with contextlib.suppress(FileNotFoundError):
            (LOGS / "console.log").replace(LOGS / f"console-hung-{attempt}.log")
        print(f"boot {attempt} hung ({trouble})", file=sys.stderr)
    raise LabError("the emulated host does not boot\n" + log_tail(f"console-hung-{BOOT_TRIES}.log"))


def stop():
    """End QEMU. The disk is a snapshot, so there is nothing to shut down in order."""
    pid = running_pid()
    if pid:
        os.kill(pid, signal.SIGTERM)
        for _ in range(50):
            if not running_pid():
                break
            time.sleep(0.1)
        else:
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    PID_FILE.unlink(missing_ok=True)
    return pid


# ---- commands ---------------------------------------------------------------------------------------------

def connect(name, seconds=REPLY_SECONDS):
    require_running()
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(seconds)
    # A socket address is short: a checkout deep in the file system does not fit into it.
    folder = os.open(RUN, os.O_PATH)
    try:
        sock.connect(f"/proc/self/fd/{folder}/{name}")
    except OSError as error:
        raise LabError(f"cannot connect to {name} of QEMU: {error}") from error
    finally:
        os.close(folder)
    return sock


def ring(number, seconds):
    """Tell the agent of a new command and wait until it has seen it."""
    with open(RUN / "ctl.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # QEMU serves one client at a time
        with connect("ctl.sock") as sock:
            sock.sendall(f"{number} {seconds}\n".encode())
            reply = b""
            try:
                while f"{number}\n".encode() not in reply:
                    reply += sock.recv(4096)
            except TimeoutError:
                raise LabError("the agent in the emulated host does not answer\n" + log_tail("console.log")) from None


def copy_new(source, sink):
    data = source.read()
    if data:
        sink.write(data)
        sink.flush()


def execute(script, seconds=90, out=sys.stdout.buffer, err=sys.stderr.buffer):
    """Run SCRIPT with bash in L1, passing on its output as it comes; returns its exit status."""
    number = f"{os.getpid()}-{time.monotonic_ns()}"
    files = {kind: CMD / f"{number}.{kind}" for kind in ("sh", "out", "err", "rc")}
    require_running()
    files["sh"].write_text(script + "\n")
    for kind in ("out", "err"):
        files[kind].touch()
    try:
        ring(number, seconds)
        with open(files["out"], "rb") as out_file, open(files["err"], "rb") as err_file:
            end = time.monotonic() + seconds + REPLY_SECONDS
            done = False
            while not done:
                done = files["rc"].exists()
                copy_new(out_file, out)
                copy_new(err_file, err)
                require_running()
                if time.monotonic() > end:
                    raise LabError("the emulated host hangs\n" + log_tail("console.log"))
                time.sleep(0 if done else 0.05)
        status = int(files["rc"].read_text())
    finally:
        for path in files.values():
            path.unlink(missing_ok=True)
    if status == TIMED_OUT:
        print(f"tests/lab/run: the command was ended after {seconds} s", file=sys.stderr)
    return status


def monitor(command):
    """Run a command of QEMU's human monitor; returns what it prints."""
    with connect("qmp.sock") as sock, sock.makefile("rw") as stream:
        stream.readline()  # the greeting
        for execute_, arguments in (("qmp_capabilities", {}),
                                    ("human-monitor-command", {"command-line": command})):
            stream.write(json.dumps({"execute": execute_, "arguments": arguments}) + "\n")
            stream.flush()
            reply = next(r for r in map(json.loads, iter(stream.readline, "")) if "event" not in r)
            if "error" in reply:
                raise LabError(f"monitor: {reply['error']['desc']}")
    return reply["return"]


# ---- the shell ----------------------------------------------------------------------------------------------

def set_shell_size():
    size = os.get_terminal_size()
    execute(f"stty -F /dev/hvc0 rows {size.lines} columns {size.columns}")


def relay(sock):
    """Between the user's terminal and SOCK until Ctrl-] or the end of either."""
    while True:
        ready, _, _ = select.select([sys.stdin, sock], [], [])
        if sock in ready:
            data = sock.recv(65536)
            if not data:
                return
            os.write(sys.stdout.fileno(), data)
        if sys.stdin in ready:
            data = os.read(sys.stdin.fileno(), 4096)
            if not data or LEAVE_SHELL in data:
                return
            sock.sendall(data)


def shell():
    if not sys.stdin.isatty():
        raise LabError("shell needs a terminal; use exec")
    with connect("shell.sock") as sock:
        sock.settimeout(None)
        set_shell_size()
        print("root shell in the emulated host; Ctrl-] leaves it", flush=True)
        saved = termios.tcgetattr(sys.stdin)
        tty.setraw(sys.stdin)
        try:
            sock.sendall(b"\r")
            relay(sock)
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
    print("\nleft the shell; the emulated host is still running")
