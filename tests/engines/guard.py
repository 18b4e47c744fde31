"""Runs a command that must not outlive the test that started it.

usage: guard.py COMMAND...

The command gets a process group of its own. When standard input ends, because the test closed it or is gone, however it
went, the whole group is killed (vLLM has four processes). A line on standard input, such as STOP, sends that signal to the
group. Ends as the command does.
"""

import os
import select
import signal
import subprocess
import sys

child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
ended = os.pidfd_open(child.pid)
while ended not in select.select([0, ended], [], [])[0]:
    orders = os.read(0, 4096).decode().split()
    for order in orders:
        os.killpg(child.pid, signal.Signals[f"SIG{order}"])
    if not orders:
        break
try:
    os.killpg(child.pid, signal.SIGKILL)  # also what the command left behind when it ended by itself
except ProcessLookupError:
    pass
sys.exit(child.wait() & 0xFF)
