"""Runs a command that must not outlive the test that started it.

usage: guard.py COMMAND...

The command gets a process group of its own. When standard input ends, because the test closed it or is gone, however it
went, the whole group is killed (vLLM has four processes). Ends when the command does.
"""

import os
import select
import signal
import subprocess
import sys

child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
select.select([0, os.pidfd_open(child.pid)], [], [])
try:
    os.killpg(child.pid, signal.SIGKILL)  # also what the command left behind when it ended by itself
except ProcessLookupError:
    pass
sys.exit(child.wait() & 0xFF)
