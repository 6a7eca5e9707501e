"""
The loopback server as a program: ``python -m tests.loopback --port-file F --behaviour FILE [--record FILE]``.

FILE is a script (YAML or JSON), or a Python file with a function ``behave(body, index) -> Reply``. The port is written
to F in one step, once the server listens, and then said on stdout. Every request is appended to the record as one JSON
line. Ends on SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.loopback.behaviour import Behaviour, by_script
from tests.loopback.server import LoopbackServer, Recorded

if TYPE_CHECKING:
    from types import FrameType


def _load(path: Path) -> Behaviour:
    if path.suffix == ".py":
        behave: Behaviour = runpy.run_path(str(path))["behave"]
        return behave
    return by_script(yaml.safe_load(path.read_text()))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.loopback", description="an invented model provider")
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--behaviour", type=Path, required=True)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()

    def record(request: Recorded) -> None:
        if options.record is not None:
            with options.record.open("a") as file:
                file.write(json.dumps(request.__dict__) + "\n")

    server = LoopbackServer(_load(options.behaviour), port=options.port, on_request=record)

    def end(_signal: int, _frame: FrameType | None) -> None:
        # shutdown() waits for the loop that this very thread runs.
        threading.Thread(target=server.stop).start()

    signal.signal(signal.SIGTERM, end)
    half_written = options.port_file.with_suffix(".part")
    half_written.write_text(str(server.server_address[1]))
    os.replace(half_written, options.port_file)
    sys.stdout.write(f"listening on {server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever(poll_interval=0.05)
    return 0


if __name__ == "__main__":
    sys.exit(main())
