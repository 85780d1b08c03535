"""Runs a server on stdin and stdout, and records its lines: tee.py LOG COMMAND… Each line of the log begins with `<` for
what the client has sent, and with `>` for what the server has."""

import subprocess
import sys
import threading

log_path, *command = sys.argv[1:]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
lock = threading.Lock()
log = open(log_path, "ab")


def pass_on(source, sink, mark):
    for line in source:
        with lock:
            log.write(mark + line)
            log.flush()
        try:
            sink.write(line)
            sink.flush()
        except OSError:
            break
    if mark == b"<":
        server.stdin.close()


threading.Thread(target=pass_on, args=(sys.stdin.buffer, server.stdin, b"<"), daemon=True).start()
pass_on(server.stdout, sys.stdout.buffer, b">")
sys.exit(server.wait())
