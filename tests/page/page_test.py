#!/usr/bin/env python3
"""The web page in headless Chromium, with real clicks and keys: page_test.py BIN_DIR. Exit status 77: there is no Chromium."""

import http.server
import json
import os
import pwd
import sys
import threading
import time
import unittest

import access
import browser
from carma_site import Forward, Site

PROGRAMS = None
USER = pwd.getpwuid(os.getuid()).pw_name
VIEWS = {"server": "#/", "tasks": "#/tasks?show=all", "users": "#/users", "history": "#/history?over=6h", "running": "#/task/1",
         "waiting": "#/task/3"}


class PageTest(unittest.TestCase):
    """One server with a running, a waiting and a held task, a foreign process and a closed GPU."""

    @classmethod
    def setUpClass(cls):
        cls.site = Site(PROGRAMS)
        cls.site.start()
        cls.site.train("resnet50", "--gpu-mem", "12G", "--time", "20d", memory_mib=11000)
        cls.site.carma("submit", "-J", "broken", "-o", "/dev/null", "--", "sh", "-c",
                       "echo 'FileNotFoundError: /data/train' >&2; exit 3")
        cls.site.train("big", "--exclusive", "-G", "4", "--gpu-mem", "30G")
        cls.site.train("<img src=x onerror=alert(1)>", "--hold", "--gpu-mem", "5G")
        cls.site.stranger(2, 9000)
        cls.site.carma("drain", "3", "--reason", "new fan", "--by", "2031-01-01T12:00")
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.site.close()

    def setUp(self):
        self.tab = self.browser
        self.tab.show(1280)
        self.tab.complaints.clear()
        self.tab.requests.clear()

    def open(self, view):
        """Reloads the page and waits for the view."""
        self.tab.go("about:blank")
        self.tab.go(self.site.address + VIEWS.get(view, view))
        self.tab.until("document.querySelector('main').dataset.shown")

    def text(self):
        """The visible text."""
        return self.tab.run("document.querySelector('main').innerText")

    def until_text(self, text):
        """Waits for words on the page."""
        self.tab.until(f"document.querySelector('main').innerText.includes({text!r})")

    # ---- what is shown ----

    def test_the_first_view_has_gpus_tasks_and_reasons(self):
        self.open("server")
        self.assertEqual(self.tab.run("document.querySelectorAll('.gpu').length"), 4)
        self.until_text("resnet50")
        self.until_text("needs GPU 0 to itself")
        self.until_text(f"drained by {USER}: new fan, must be empty by 1 Jan 2031, ")
        self.until_text("not sampled while it is drained")
        self.until_text("not a CARMA task")
        self.until_text("Held until it is released")
        self.until_text("of 12.0G")
        self.tab.until("document.title.startsWith('1 task running, ')")

    def test_a_name_is_text_and_nothing_else(self):
        self.open("server")
        self.until_text("<img src=x onerror=alert(1)>")
        self.assertEqual(self.tab.run("document.querySelectorAll('main img').length"), 0)

    def test_it_is_live_without_reloading(self):
        self.open("server")
        self.tab.run("window.unloaded = false; addEventListener('pagehide', () => { window.unloaded = true; })")
        number = self.site.train("newcomer", "--hold")
        self.until_text("newcomer")
        self.site.carma("cancel", str(number))
        self.tab.until("![...document.querySelectorAll('section[data-key=waiting] tr')].some((row) => row.innerText.includes('newcomer'))")
        self.assertFalse(self.tab.run("window.unloaded"))

    def test_what_the_reader_has_marked_and_focused_stays(self):
        self.open("server")
        self.until_text("resnet50")
        self.tab.run("window.link = document.querySelector('td.id a'); window.link.focus()")
        before = len(self.asked())
        self.tab.until("true")
        while len(self.asked()) < before + 3:
            self.tab.until("true")
            self.tab.received_bytes()
        self.assertTrue(self.tab.run("document.activeElement === window.link && window.link.isConnected"))

    def test_a_task_tells_its_life_its_memory_and_its_neighbours(self):
        self.open("running")
        self.until_text("running")
        for text in ("resnet50", "Promised", "12.0G", "None: it has its GPUs to itself", "launching", "at the latest (time limit)"):
            self.until_text(text)

    def test_an_ended_task_shows_how_it_ended(self):
        self.open("#/task/2")
        self.until_text("Last end")
        self.assertEqual(self.tab.run("[...document.querySelectorAll('dt')].find((e) => e.innerText === 'Last end').nextSibling.innerText"), "exit code 3")
        self.open("server")
        self.tab.until("document.querySelector('td[data-title=\"How it ended\"]') !== null")

    def test_a_waiting_task_says_what_each_gpu_answers(self):
        self.open("waiting")
        self.until_text("Why it waits")
        self.tab.until("document.querySelectorAll('section[data-key=why] tbody tr').length === 4")

    def rows(self, section, column):
        """The texts in one column of a list. column: its title."""
        return self.tab.run(f"[...document.querySelectorAll('section[data-key={section}] td[data-title=\"{column}\"]')].map((cell) => cell.innerText)")

    def test_waiting_tasks_stand_as_they_will_start(self):
        behind = self.site.train("behind", "--exclusive", "-G", "2", "--gpu-mem", "30G", "--time", "2h")
        first = self.site.train("first", "--exclusive", "-G", "2", "--gpu-mem", "30G", "--time", "1h", "--priority", "5")
        without = self.site.carma("submit", "--parsable", "-G", "0", "-J", "cpus", "--hold", "true").strip()
        self.open("server")
        self.until_text("behind")
        self.until_text("cpus")
        self.assertEqual(self.rows("waiting", "Name")[:3], ["first", "big", "behind"])
        self.assertEqual(self.rows("waiting", "Position")[:4], ["1", "2", "3", ""])
        self.assertIn("no GPU", self.rows("waiting", "Requests"))
        self.assertRegex(self.rows("waiting", "Starts")[0], r"^(by|about) (\d+ \w+ )?\d\d:\d\d$")
        self.assertRegex(self.rows("waiting", "Waits for")[0], r"^\d+ (s|min)$")
        # A higher priority changes the order without reloading.
        self.site.carma("priority", "9", str(behind))
        self.tab.until("document.querySelector('section[data-key=waiting] td[data-title=Name]').innerText === 'behind'")
        self.tab.click("section[data-key=waiting] tr[data-row] td[data-title=Starts]")
        self.tab.until(f"location.hash === '#/task/{behind}'")
        self.until_text("It is first in its queue.")
        self.until_text("It will start by")
        self.site.carma("cancel", str(behind), str(first), without)

    def test_a_reservation_stands_on_its_gpu_and_says_until_when(self):
        number = self.site.carma("reserve", "--for", USER, "--gpus", "1", "--for-time", "2h", "--why", "demo", "--json")
        self.open("server")
        self.until_text(f"reserved for {USER} until")
        self.until_text("(demo)")
        self.site.carma("reserve", "remove", str(json.loads(number)["id"]))
        self.tab.until("!document.querySelector('main').innerText.includes('(demo)')")

    def test_a_task_that_is_not_there_is_said_so(self):
        self.open("#/task/4711")
        self.until_text("No such task")

    def test_users_and_what_their_tasks_came_to(self):
        self.open("users")
        self.tab.until("document.querySelectorAll('section[data-key=now] tbody tr').length === 1")
        # The hours of the running task, which grow. They are read once per visit.
        end = time.monotonic() + browser.LIMIT_S
        while self.rows("past", "GPU hours") == ["0.0"] and time.monotonic() < end:
            self.open("users")
        self.assertRegex(self.rows("past", "GPU hours")[0], r"^(0\.[1-9]|[1-9]\d*\.\d)$")

    def test_history_is_the_report_that_carma_draws(self):
        self.open("history")
        for frame, words in (("GPUs over the chosen span", "Power"), ("Report of the tasks submitted in the chosen span", "Tasks on the GPUs")):
            page = f"document.querySelector('iframe[title=\"{frame}\"]').contentDocument"
            self.tab.until(f"{page}.querySelector('h1') !== null && {page}.body.innerText.includes('{words}')")
            self.assertEqual(self.tab.run(f"{page}.querySelectorAll('script').length"), 0)
        self.tab.until("[...document.querySelectorAll('iframe')].every((frame) => +frame.height > 300)")

    def test_history_needs_a_start_before_its_end(self):
        self.open("#/history?from=2026-01-02T00:00&to=2026-01-01T00:00")
        self.until_text("Choose a start before the end.")
        self.assertEqual(self.tab.run("document.querySelectorAll('iframe').length"), 0)

    def test_history_shows_why_a_report_is_refused(self):
        self.open("#/history?from=1960-01-01T00:00&to=1961-01-01T00:00")
        self.tab.until("[...document.querySelectorAll('iframe')].filter((frame) => frame.contentDocument.body.innerText.startsWith('?')).length === 2")
        self.assertIn("expected a whole number", self.tab.run("document.querySelector('iframe').contentDocument.body.innerText"))

    def test_the_reports_of_history_are_loaded_once(self):
        self.open("#/history")
        self.tab.until("document.querySelectorAll('iframe').length === 2")
        before = len(self.asked())
        while len(self.asked()) < before + 3:
            self.tab.received_bytes()
        self.assertEqual(len([url for url in self.tab.requests if ".html?" in url]), 2)

    def test_axes_of_history_show_the_readers_times_of_day(self):
        ticks = """[...document.querySelector('iframe[title="GPUs over the chosen span"]').contentDocument.querySelectorAll('text.tick')]
            .map((tick) => tick.textContent).filter((text) => text.includes(':'))"""
        shown = {}
        try:
            for zone, ahead in (("Asia/Kolkata", 330), ("America/St_Johns", None), ("UTC", 0)):
                self.tab.set_zone(zone)
                self.open("#/history?over=1h")
                self.tab.until(f"document.querySelector('iframe') && document.querySelector('iframe').contentDocument.querySelector('svg') && {ticks}.length > 3")
                shown[zone] = self.tab.run(ticks)[0]
                if ahead is not None:
                    self.assertIn(f"utc_offset_min={ahead}", self.tab.run("document.querySelector('iframe').src"))
        finally:
            self.tab.set_zone("")
        minutes = {zone: int(text[:2]) * 60 + int(text[3:5]) for zone, text in shown.items()}
        self.assertAlmostEqual((minutes["Asia/Kolkata"] - minutes["UTC"]) % 1440, 330, delta=10)

    # ---- how it is used ----

    def test_a_click_on_a_row_opens_the_task(self):
        self.open("server")
        self.until_text("resnet50")
        self.tab.click("section[data-key=running] tr[data-row] td:nth-child(3)")
        self.tab.until("location.hash === '#/task/1' && document.querySelector('main h1').innerText.includes('resnet50')")
        self.tab.click(".path a")
        self.tab.until("document.querySelector('main').dataset.shown === 'server'")

    def test_the_keyboard_alone_is_enough(self):
        self.open("server")
        self.until_text("resnet50")
        self.tab.key("j")
        self.tab.until("document.activeElement.hash === '#/task/1'")
        self.tab.key("Enter")
        self.tab.until("document.querySelector('main').dataset.shown === 'task'")
        self.tab.key("Escape")
        self.tab.until("document.querySelector('main').dataset.shown === 'server'")
        self.tab.key("2")
        self.tab.until("document.querySelector('main').dataset.shown === 'tasks'")
        self.tab.key("?")
        self.tab.until("document.querySelector('dialog[open]') !== null")
        self.tab.key("Escape")
        self.tab.until("!document.querySelector('dialog')")

    def test_the_list_of_tasks_is_filtered(self):
        self.open("tasks")
        self.until_text("resnet50")
        self.tab.click("input[name=name]")
        self.tab.write("big")
        self.tab.key("Enter")
        self.tab.until("document.querySelectorAll('tbody tr').length === 1 && document.querySelector('tbody').innerText.includes('big')")

    def test_fields_show_the_filter_in_force(self):
        self.open("tasks")
        self.tab.click("input[name=name]")
        self.tab.write("big")
        self.tab.key("Enter")
        self.tab.until("document.querySelectorAll('tbody tr').length === 1")
        self.tab.click("nav a[data-view=tasks]")
        self.tab.until("document.querySelectorAll('tbody tr').length > 1 && document.querySelector('input[name=name]').value === ''")

    # ---- requests of the page ----

    def asked(self):
        """Requests for the overview."""
        return [url for url in self.tab.requests if url.endswith("/v1/overview")]

    def test_a_hidden_tab_asks_for_nothing(self):
        self.open("server")
        self.tab.run("""Object.defineProperty(document, 'hidden', {configurable: true, get: () => true});
                        document.dispatchEvent(new Event('visibilitychange'))""")
        self.tab.until("document.getElementById('live').innerText === 'paused'")
        self.tab.received_bytes()
        before = len(self.asked())
        end = time.monotonic() + 2.5  # more than two periods, because only time shows that no request is sent
        while time.monotonic() < end:
            self.tab.received_bytes()
        self.assertEqual(len(self.asked()), before)
        self.tab.run("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        self.tab.until("document.getElementById('live').innerText === 'live'")
        self.tab.received_bytes()
        self.assertGreater(len(self.asked()), before)

    def test_nothing_is_asked_of_anybody_else_and_nothing_is_complained_of(self):
        for view in VIEWS:
            self.open(view)
            self.tab.received_bytes()
        self.assertEqual(self.tab.complaints, [])
        elsewhere = [url for url in self.tab.requests if not url.startswith((self.site.address, "data:", "about:"))]
        self.assertEqual(elsewhere, [])

    def test_a_script_that_is_not_the_pages_own_does_not_run(self):
        self.open("server")
        self.tab.run("""(() => { const script = document.createElement('script'); script.textContent = 'window.ran = true';
                        document.body.append(script); })()""")
        self.assertIsNone(self.tab.run("window.ran"))

    def test_a_daemon_that_was_away_is_waited_for(self):
        self.open("server")
        self.site.stop()
        self.tab.until("/^no response from the server for .*; trying again/.test(document.getElementById('live').innerText)")
        self.site.start()
        self.tab.until("document.getElementById('live').innerText === 'live'")

    def test_a_view_that_the_daemon_refuses_shows_why(self):
        self.open("server")
        self.tab.run("""window.fetch = ((ask) => (path, ...more) => !path.startsWith('/v1/tasks') ? ask(path, ...more) : Promise.resolve(
                        new Response('{"error":{"code":"unavailable","message":"no GPU: no driver"}}', {status: 503})))(window.fetch)""")
        self.tab.run("location.hash = '#/tasks'")
        self.until_text("no GPU: no driver")
        self.tab.run("location.hash = '#/task/1'")
        self.until_text("no GPU: no driver")
        self.assertNotIn("No such task", self.text())

    def test_a_daemon_that_hangs_is_not_live(self):
        self.open("server")
        self.site.freeze()
        try:
            self.tab.until("/^no response from the server for .*; trying again .data from /.test(document.getElementById('live').innerText)")
        finally:
            self.site.thaw()
        self.tab.until("document.getElementById('live').innerText === 'live'")

    def test_tasks_of_a_sweep_show_their_values_and_arrays_are_one_row(self):
        sweep = int(self.site.carma("submit", "--parsable", "--hold", "-J", "swept", "--param", "lr=0.1,0.2", "--", "echo", "{lr}").split("-")[0])
        array = int(self.site.carma("submit", "--parsable", "--hold", "-J", "many", "--array", "0-9", "-o", "/dev/null", "--", "true").split("-")[0])
        self.open("#/tasks?name=many")
        self.until_text("many [0–9]")
        self.assertEqual(self.tab.run("document.querySelectorAll('tbody tr').length"), 1)
        self.open("#/tasks?name=swept")
        self.until_text("swept [1] lr=0.2")
        self.open(f"#/task/{sweep + 1}")
        self.until_text("lr=0.2")
        self.site.carma("cancel", "--array", f"{sweep},{array}")

    # ---- acting ----

    def open_task(self, address, number):
        """The page of one task, by another address of the server."""
        self.tab.go("about:blank")
        self.tab.go(f"{address}#/task/{number}")
        self.tab.until("document.querySelector('main').dataset.shown === 'task'")
        self.tab.until("document.getElementById('who').innerText !== ''")

    def sign_in(self, token):
        """Logs in by hand."""
        self.tab.click("#who button[data-do=in]")
        self.tab.until("document.querySelector('dialog[open]') !== null")
        self.tab.click("dialog input")
        self.tab.write(token)
        self.tab.click("dialog button.strong")

    def test_without_identity_it_is_for_looking(self):
        self.open_task(self.site.address, 1)
        self.assertTrue(self.tab.run("document.getElementById('who').innerText.startsWith('read-only')"))
        self.assertEqual(self.tab.run("document.querySelectorAll('main button').length"), 0)
        self.until_text("carma logs 1")
        self.assertEqual(self.tab.run("fetch('/v1/tasks/1/cancel', {method: 'POST'}).then((answer) => answer.status)"), 403)
        self.assertEqual(self.site.task(1)["state"], "running")

    def test_with_a_token_of_his_a_user_acts_on_his_tasks(self):
        number = self.site.train("mine", "--hold")
        self.open_task(self.site.address, number)
        self.sign_in("carma_" + "0" * 64)
        self.tab.until("document.getElementById('told').innerText.includes('You are signed out: the token is unknown')")
        self.sign_in(self.site.carma("token", "create", "test").strip())
        self.tab.until(f"document.getElementById('who').innerText.startsWith('{USER}')")
        self.tab.click("button[data-act=release]")
        self.tab.until("document.querySelector('button[data-act=hold]') !== null")
        self.tab.click("button[data-act=hold]")
        self.tab.until("document.querySelector('button[data-act=release]') !== null")
        self.assertEqual(self.site.task(number)["reason"], "Held")
        self.tab.click("input[name=priority]")
        self.tab.run("document.querySelector('input[name=priority]').select()")
        self.tab.write("-5")
        self.tab.key("Enter")
        self.tab.until("document.getElementById('told').innerText.includes('has a new priority')")
        self.assertEqual(self.site.task(number)["priority"], -5)
        self.tab.run("document.querySelector('input[name=priority]').value = ''")  # an empty field is not priority 0
        self.tab.click("form[data-form=priority] button")
        self.tab.click("button[data-act=cancel]")
        self.tab.until("document.querySelector('dialog[open]') !== null")
        self.assertEqual(self.tab.run(access.NAMELESS), [])
        self.assertEqual(self.tab.run(access.FAINT), [])
        self.tab.click("dialog button.danger")
        self.until_text("cancelled")
        self.assertEqual(self.site.task(number)["state"], "cancelled")
        self.assertEqual(self.site.task(number)["priority"], -5)
        self.tab.click("#who button[data-do=out]")
        self.tab.until("document.querySelectorAll('main button').length === 0")

    def test_an_action_without_a_response_is_left_open(self):
        number = self.site.train("asked", "--hold")
        self.open_task(self.site.address, number)
        self.sign_in(self.site.carma("token", "create", "frozen").strip())
        self.tab.until("document.querySelector('button[data-act=release]') !== null")
        self.site.freeze()
        try:
            self.tab.click("button[data-act=release]")
            self.tab.until("document.getElementById('told').innerText.startsWith('The server does not respond.')")
        finally:
            self.site.thaw()
        self.site.carma("cancel", str(number))
        self.tab.click("#who button[data-do=out]")
        self.tab.until("document.querySelectorAll('main button').length === 0")

    def test_a_revoked_token_is_dropped_and_said_so(self):
        token = self.site.carma("token", "create", "short").strip()
        self.open_task(self.site.address, 1)
        self.sign_in(token)
        self.tab.until(f"document.getElementById('who').innerText.startsWith('{USER}')")
        listed = json.loads(self.site.carma("token", "list", "--json"))
        number = max(each["id"] for each in listed["tokens"])
        self.site.carma("token", "revoke", str(number))
        self.tab.until("document.getElementById('told').innerText.includes('signed out: the token is unknown, revoked')")
        self.tab.until("document.querySelector('#who button[data-do=in]') !== null")
        self.assertEqual(self.tab.run("sessionStorage.getItem('carma-token')"), None)

    def test_a_token_submits_nothing_and_makes_no_token(self):
        token = self.site.carma("token", "create").strip()
        self.open("server")
        for path in ("/v1/tasks", "/v1/tokens", "/v1/gpus/0/drain", "/v1/tasks/1/redo"):
            self.assertEqual(self.tab.run(f"""fetch('{path}', {{method: 'POST', headers: {{Authorization: 'Bearer {token}'}}, body: '{{}}'}})
                .then((answer) => answer.status)"""), 403, path)

    def test_over_a_forwarded_socket_the_connection_says_who_it_is(self):
        # This task comes before the head of the queue, which waits for all GPUs.
        number = self.site.carma("submit", "--parsable", "--priority", "1", "-J", "writes", "-o", "%j.log", "--", "sh", "-c",
                                 "echo first; echo '<b>last</b>'; exec sleep 1000").strip()
        forward = Forward(self.site.socket)
        try:
            self.open_task(forward.address, number)
            self.tab.until(f"document.getElementById('who').innerText === '{USER}'")
            self.tab.until("document.querySelector('pre.log') && document.querySelector('pre.log').innerText.includes('<b>last</b>')")
            self.tab.click("button[data-act=cancel]")
            self.tab.click("dialog button.danger")
            self.until_text("cancelled")
        finally:
            forward.close()

    def test_a_page_of_another_site_borrows_no_rights(self):
        number = self.site.train("target", "--hold")
        forward = Forward(self.site.socket)

        class Evil(http.server.BaseHTTPRequestHandler):
            """A malicious server."""

            def do_GET(self):  # pylint: disable=invalid-name
                """A page that posts to a server that is not its own."""
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(f"""<title>evil</title><form method=post action={forward.address}v1/tasks/{number}/cancel></form>
                    <script>fetch('{forward.address}v1/tasks/{number}/cancel', {{method: 'POST', mode: 'no-cors'}})
                      .finally(() => {{ document.title = 'tried'; }})</script>""".encode())

            def log_message(self, *_):  # pylint: disable=arguments-differ
                """Logs nothing."""

        evil = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil)
        threading.Thread(target=evil.serve_forever, daemon=True).start()
        try:
            self.tab.go(f"http://127.0.0.1:{evil.server_port}/")
            self.tab.until("document.title === 'tried'")
            self.assertEqual(self.site.task(number)["state"], "queued")
            self.tab.run("document.forms[0].submit()")
            self.tab.until("document.body.innerText.includes('requests from other sites are refused')")
            self.assertEqual(self.site.task(number)["state"], "queued")
        finally:
            evil.shutdown()
            evil.server_close()
            forward.close()
            self.site.carma("cancel", str(number))

    # ---- readers ----

    def test_a_long_user_name_stays_in_its_cell(self):
        self.tab.show(360)
        self.open("server")
        self.until_text("resnet50")
        self.assertLessEqual(self.tab.run("""(() => {
            const cell = document.querySelector('section[data-key=running] td[data-title=User]');
            cell.textContent = 'researchassistant2026';
            const text = document.createRange();
            text.selectNodeContents(cell);
            return text.getBoundingClientRect().right - cell.getBoundingClientRect().right;
        })()"""), 0)

    def test_everybody_can_read_it(self):
        for dark in (False, True):
            for width in (1280, 390):
                self.tab.show(width, dark=dark)
                for view in VIEWS:
                    with self.subTest(view=view, width=width, dark=dark):
                        self.open(view)
                        self.assertEqual(self.tab.run(access.FAINT), [])
                        self.assertEqual(self.tab.run(access.NAMELESS), [])
                        self.assertLessEqual(self.tab.run(access.TOO_WIDE), 0)


def main():
    """Reads the folder of programs and runs the tests."""
    global PROGRAMS  # pylint: disable=global-statement
    if not browser.find():
        print("skipped: needs Debian's packages chromium, chromium-driver")
        return 77
    PROGRAMS = sys.argv.pop(1)
    if not os.path.exists(os.path.join(PROGRAMS, "carmad")):
        print(f"page_test.py: no carmad in {PROGRAMS}", file=sys.stderr)
        return 2
    return 0 if unittest.main(exit=False, verbosity=1).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
