#!/usr/bin/env python3
"""Measures the web page with 100 000 tasks in the database: first paint, bytes of the first view, and the load of 50 open pages on carmad.

usage: page_bench.py BIN_DIR [SECONDS [RESULTS]]     SECONDS: how long the 50 pages are watched (default 30)

Prints one figure per line, like the other benchmarks: KEY VALUE UNIT NOTE. RESULTS: a file to which the lines are also appended, for run.sh. Without
Chromium, the first two figures are left out.
"""

import glob
import http.client
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "tests", "page"))
import browser  # pylint: disable=wrong-import-position
from carma_site import Site  # pylint: disable=wrong-import-position

TASKS = 100_000
PAGES = 50
LOADS = 9


def tell(key, value, unit, note=""):
    """Prints one figure."""
    if len(sys.argv) > 3:
        with open(sys.argv[3], "a", encoding="utf-8") as results:
            results.write(f"{key}\t{value}\t{unit}\t{note}\n")
    print(f"  {key:<34} {value:>10} {unit:<8} {note}", flush=True)


def spent_ns(pid):
    """CPU time of all threads of the daemon, in nanoseconds."""
    return sum(int(open(path, encoding="ascii").read().split()[0]) for path in glob.glob(f"/proc/{pid}/task/*/schedstat"))


def share_of_core(pid, seconds, every_second=lambda: None):
    """The daemon's CPU use over this time, in percent of one core."""
    before = spent_ns(pid)
    begin = time.monotonic()
    for second in range(seconds):
        every_second()
        time.sleep(max(0, begin + second + 1 - time.monotonic()))
    return (spent_ns(pid) - before) / (time.monotonic() - begin) / 1e7


class Pages:
    """Imitates open pages as the daemon sees them: each has its own connection and sends one request a second."""

    def __init__(self, port):
        self.connections = [http.client.HTTPConnection("127.0.0.1", port) for _ in range(PAGES)]
        self.etags = [""] * PAGES
        self.answers = {200: 0, 304: 0}
        self.bytes = 0

    def ask(self):
        """Sends one request from each page, spread over a second."""
        begin = time.monotonic()
        for i, connection in enumerate(self.connections):
            time.sleep(max(0, begin + i / PAGES - time.monotonic()))
            headers = {"Accept-Encoding": "gzip"}
            if self.etags[i]:
                headers["If-None-Match"] = self.etags[i]
            connection.request("GET", "/v1/overview", headers=headers)
            answer = connection.getresponse()
            self.bytes += len(answer.read())
            self.answers[answer.status] += 1
            self.etags[i] = answer.getheader("ETag")


def first_view(site):
    """Time in milliseconds and size in bytes of the page when it is opened for the first time."""
    paints, views, sizes = [], [], []
    for _ in range(LOADS):
        with browser.Browser() as tab:  # a new browser each time, so that nothing is cached
            tab.show(1280)
            tab.go(site.address)
            tab.until("document.querySelector('main').dataset.shown && performance.getEntriesByName('first-contentful-paint')[0]"
                      ".startTime > 0")
            paints.append(tab.run("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            views.append(tab.run("performance.getEntriesByName('carma-shown')[0].startTime"))
            sizes.append(tab.run("""performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))
                .filter((each) => each.startTime < performance.getEntriesByName('carma-shown')[0].startTime)
                .reduce((sum, each) => sum + each.transferSize, 0)"""))
    spread = f"{min(paints):.0f}-{max(paints):.0f} of {LOADS} new browsers"
    tell("page.first_paint", f"{statistics.median(paints):.0f}", "ms", spread)
    tell("page.first_view", f"{statistics.median(views):.0f}", "ms", f"with all rows, {min(views):.0f}-{max(views):.0f}")
    tell("page.bytes", f"{statistics.median(sizes) / 1000:.1f}", "KB", "of the first view over the wire, headers included")


def main():
    """Measures everything on one simulated server of 8 GPUs, with two tasks on each GPU and some waiting tasks."""
    programs = sys.argv[1]
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    site = Site(programs, "8xA100-40GB", 1)
    subprocess.run([site.program("make_books"), os.path.join(site.folder, "state"), str(TASKS)], check=True)
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"page: {TASKS} tasks in the database (load {load})", flush=True)
    with site:
        first = site.train("run", "--array", "0-15", "--sm-share", "30%", "--gpu-mem", "9G", memory_mib=8000, sm_active=0.2)
        site.train("wait", "--array", "0-99", "--gpu-mem", "30G")
        limit = time.monotonic() + 120
        while site.task(first + 15)["state"] != "running" and time.monotonic() < limit:
            time.sleep(1)
        if browser.find():
            first_view(site)
        else:
            print("  no chromium: first paint and bytes are left out")
        alone = share_of_core(site.pid, seconds)
        pages = Pages(site.port)
        pages.ask()  # lets each page get its first answer
        with_pages = share_of_core(site.pid, seconds, pages.ask)
        tell("page.cpu.none", f"{alone:.2f}", "% core", "carmad without any page")
        tell("page.cpu.50", f"{with_pages:.2f}", "% core", f"with {PAGES} pages at 1 Hz: {pages.answers[200]} answers, "
             f"{pages.answers[304]} as before")
        tell("page.cpu.for_50", f"{with_pages - alone:.2f}", "% core", "what the pages cost")
        tell("page.bytes_per_s", f"{pages.bytes / PAGES / seconds / 1000:.1f}", "KB/s", "of one open page")


if __name__ == "__main__":
    main()
