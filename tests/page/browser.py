"""A headless Chromium, driven over a pipe by the DevTools protocol; needs only the standard library."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

LIMIT_S = 30


def find():
    """The program of Debian's package chromium, or None."""
    return shutil.which("chromium")


class Failure(Exception):
    """The browser refused, ended, or did not reach the expected state."""


class Browser:
    """One process with one tab. Everything that a page wrote to its console is in `complaints`, every request in `requests`."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="carma-browser.")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def take_pipes():
            # The protocol reads commands from descriptor 3 and writes answers to descriptor 4, so other files at these numbers
            # are moved first.
            read, write = os.dup(to_browser), os.dup(from_browser)
            first, second = (os.dup(read), os.dup(write))
            os.dup2(first, 3)
            os.dup2(second, 4)

        self._process = subprocess.Popen(  # pylint: disable=subprocess-popen-preexec-fn
            [find(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--disable-extensions", "--disable-dev-shm-usage", "--force-color-profile=srgb", "--lang=en-GB",
             f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=take_pipes, pass_fds=(3, 4), close_fds=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._next = 0
        self._events = []
        self._session = None
        self.complaints = []
        self.requests = []
        target = self._command("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Emulation"):
            if domain != "Emulation":
                self._command(f"{domain}.enable")

    def close(self):
        """Stops the browser and removes its profile."""
        self._process.terminate()
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- the protocol ----

    def _read(self, until):
        """One message, or None at the deadline."""
        while b"\0" not in self._buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                return None
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise Failure("the browser has exited")
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def _take(self, message):
        method, of = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(of["exceptionDetails"].get("exception", {}).get("description", str(of)))
        elif method == "Runtime.consoleAPICalled" and of["type"] in ("error", "warning"):
            self.complaints.append(" ".join(str(arg.get("value", arg.get("description"))) for arg in of["args"]))
        elif method == "Log.entryAdded" and of["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{of['entry']['text']} {of['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(of["request"]["url"])
        elif method == "Network.loadingFinished":
            self._events.append((of["requestId"], of["encodedDataLength"]))

    def _command(self, method, **params):
        self._next += 1
        command = {"id": self._next, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        until = time.monotonic() + LIMIT_S
        while True:
            message = self._read(until)
            if message is None:
                raise Failure(f"{method}: no answer within {LIMIT_S} s")
            if message.get("id") != self._next:
                self._take(message)
            elif "error" in message:
                raise Failure(f"{method}: {message['error']['message']}")
            else:
                return message["result"]

    # ---- functions for tests ----

    def show(self, width, height=900, dark=False, scale=1):
        """Sets the size of the window and the colours that its user prefers."""
        self._command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                      mobile=width < 600)
        self._command("Emulation.setEmulatedMedia",
                      features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                                {"name": "prefers-reduced-motion", "value": "reduce"}])

    def set_zone(self, name):
        """Sets the user's time zone, such as "Asia/Kolkata"; empty: the machine's."""
        self._command("Emulation.setTimezoneOverride", timezoneId=name)

    def go(self, url):
        """Loads an address as if it had been typed."""
        self.received_bytes()
        self._command("Page.navigate", url=url)

    def run(self, expression):
        """The value of a JavaScript expression in the page, which may be a promise."""
        answer = self._command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Failure(f"{expression}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def until(self, expression, limit_s=LIMIT_S):
        """Evaluates the expression again until it is true; returns its value."""
        end = time.monotonic() + limit_s
        while True:
            try:
                value = self.run(expression)
            except Failure:
                value = None  # the page is being replaced
            if value:
                return value
            if time.monotonic() > end:
                raise Failure(f"never came true: {expression}")
            self._drain(0.05)

    def _drain(self, span_s):
        until = time.monotonic() + span_s
        while (message := self._read(until)) is not None:
            self._take(message)

    def click(self, selector):
        """Moves the mouse to the middle of an element and clicks there."""
        at = self.until(f"""(() => {{const e = document.querySelector({json.dumps(selector)}); if (!e) return null;
            e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();
            return b.width > 0 ? {{x: b.x + b.width / 2, y: b.y + b.height / 2}} : null}})()""")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._command("Input.dispatchMouseEvent", type=kind, x=at["x"], y=at["y"], button="left", clickCount=1)

    def key(self, key, text=None):
        """Presses and releases a key; a single character is typed."""
        code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, ord(key[0].upper()))
        typed = text if text is not None else (key if len(key) == 1 else "\r" if key == "Enter" else "")
        self._command("Input.dispatchKeyEvent", type="keyDown", key=key, text=typed, windowsVirtualKeyCode=code)
        self._command("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def write(self, text):
        """Types into the focused element."""
        self._command("Input.insertText", text=text)

    def received_bytes(self):
        """Bytes over the wire of the requests that have ended since the last call, headers included."""
        self._drain(0.2)
        total = sum(length for _, length in self._events)
        self._events = []
        return total

    def picture(self, path, whole=True):
        """Writes the page as PNG."""
        shot = self._command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
