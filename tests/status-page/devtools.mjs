// A browser, and one page in it, driven through the DevTools protocol. Messages
// are JSON texts that end with a zero byte, on the pipes 3 and 4 of the browser.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const WITHIN_MS = 20_000;

export class Browser {
  static async start(program) {
    const browser = new Browser();
    browser.folder = mkdtempSync(join(tmpdir(), "apifront-chromium-"));
    const flags = [
      "--headless=new",
      // Chromium's own sandbox needs rights that root in a container lacks. The
      // only page is apifront's.
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--force-prefers-reduced-motion",
      `--user-data-dir=${browser.folder}`,
      "--remote-debugging-pipe",
      "about:blank",
    ];
    const stdio = ["ignore", "ignore", "ignore", "pipe", "pipe"];
    browser.process = spawn(program, flags, { stdio });
    browser.waiting = new Map();
    browser.listeners = [];
    browser.last = 0;
    const failed = (why) => {
      for (const { reject } of browser.waiting.values()) reject(new Error(why));
      browser.waiting.clear();
    };
    browser.process.on("error", (error) => failed(String(error)));
    browser.process.on("exit", (code) => failed(`the browser ended with ${code}`));
    browser.process.stdio[3].on("error", () => {});
    let rest = "";
    browser.process.stdio[4].setEncoding("utf8").on("data", (text) => {
      const messages = (rest + text).split("\0");
      rest = messages.pop();
      for (const message of messages) browser.receive(JSON.parse(message));
    });
    return browser;
  }

  receive(message) {
    const waiting = this.waiting.get(message.id);
    if (!waiting) {
      for (const listener of this.listeners) listener(message);
      return;
    }
    this.waiting.delete(message.id);
    if (message.error) waiting.reject(new Error(`${waiting.method}: ${message.error.message}`));
    else waiting.resolve(message.result);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = ++this.last;
    const sent = new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, method });
      const late = () => reject(new Error(`${method}: no answer`));
      setTimeout(late, WITHIN_MS).unref();
    });
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    return sent;
  }

  async openPage() {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    this.listeners.push((message) => message.sessionId === sessionId && page.note(message));
    for (const domain of ["Page", "Runtime", "Log", "Network", "Accessibility"]) {
      await page.send(`${domain}.enable`);
    }
    return page;
  }

  async stop() {
    this.process.removeAllListeners("exit");
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    // A browser that is killed leaves processes that still write to the folder.
    this.send("Browser.close").catch(() => {});
    const late = setTimeout(() => this.process.kill("SIGKILL"), 5000);
    await ended;
    clearTimeout(late);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

class Page {
  constructor(browser, session) {
    this.browser = browser;
    this.session = session;
    // What the console shows, and the addresses that were asked for.
    this.console = [];
    this.requests = [];
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  note({ method, params }) {
    if (method === "Log.entryAdded") this.console.push(params.entry.text);
    if (method === "Runtime.consoleAPICalled") this.console.push(JSON.stringify(params.args));
    if (method === "Runtime.exceptionThrown") this.console.push(JSON.stringify(params.exceptionDetails));
    if (method === "Network.requestWillBeSent") this.requests.push(params.request.url);
  }

  async evaluate(expression) {
    const result = await this.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (result.exceptionDetails) throw new Error(`${expression}: ${result.exceptionDetails.text}`);
    return result.result.value;
  }

  async press(key, text = undefined) {
    const codes = { Tab: 9, Enter: 13, Escape: 27, ArrowDown: 40 };
    const code = codes[key] ?? key.toUpperCase().charCodeAt(0);
    const common = { key, code: key, windowsVirtualKeyCode: code, nativeVirtualKeyCode: code };
    await this.send("Input.dispatchKeyEvent", { type: text ? "keyDown" : "rawKeyDown", text, ...common });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...common });
  }

  async type(text) {
    for (const letter of text) await this.press(letter, letter);
  }

  resize(width, height, mobile) {
    return this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: mobile ? 2 : 1, mobile });
  }

  prefer(scheme) {
    const features = [{ name: "prefers-color-scheme", value: scheme }];
    return this.send("Emulation.setEmulatedMedia", { features });
  }

  // Returns the contrast of the first element of each selector with the page behind it.
  contrasts(selectors) {
    return this.evaluate(`(${contrasts})(${JSON.stringify(selectors)})`);
  }

  async screenshot() {
    const { data } = await this.send("Page.captureScreenshot", { captureBeyondViewport: true });
    return Buffer.from(data, "base64");
  }
}

// Runs in the page.
function contrasts(selectors) {
  const light = (color) => {
    const parts = color.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = light(getComputedStyle(document.body).backgroundColor);
  return selectors.map((selector) => {
    const text = light(getComputedStyle(document.querySelector(selector)).color);
    return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
  });
}
