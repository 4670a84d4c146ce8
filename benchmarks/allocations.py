"""The peak of the memory that a job allocates.

torch's profiler reports every block that its CPU allocator hands out or takes back, in order, those inside operators
and in the backward pass included. The running sum of these events starts at 0, so that its largest value is the peak
beyond what was there before the job: data, weights, moments of the optimizer. Watching tensors instead (a dispatch
mode) would miss what a kernel allocates for itself; the memory of the process would show what the C library keeps.
"""

import json
import os
import tempfile
from pathlib import Path

from torch.profiler import ProfilerActivity, profile

from timing import Job


def peak_bytes(job: Job) -> int:
    """The most that torch held at a time while the job ran, beyond what it held before."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it writes to stderr that it began and ended
    with tempfile.TemporaryDirectory() as folder:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
            job()
        trace = Path(folder) / "trace.json"
        found.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    changes = [event for event in events if event["name"] == "[memory]" and event["args"]["Device Type"] == 0]
    live = peak = 0
    for event in sorted(changes, key=lambda event: event["ts"]):
        live += event["args"]["Bytes"]
        peak = max(peak, live)
    return peak
