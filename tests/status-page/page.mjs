// node page.mjs CHROMIUM APIFRONT SCREENSHOTS: checks the status page. Each check
// prints a line; the first that fails ends the run.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Browser } from "./devtools.mjs";

const [chromium, apifront, shots] = process.argv.slice(2);
const MARKUP = "<script>window.harmed=1</script><img src=x onerror=window.harmed=1>";
const PODS = "/api/v1/pods?resourceVersion=0";
const started = Date.now();

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const checked = (what) => console.log(`${((Date.now() - started) / 1000).toFixed(1).padStart(5)} s  ${what}`);

async function eventually(what, condition, within = 20_000) {
  const end = Date.now() + within;
  let last;
  for (;;) {
    try {
      last = await condition();
      if (last === true) return;
    } catch (error) {
      last = error.message;
    }
    if (Date.now() > end) assert.fail(`${what}: ${JSON.stringify(last)}`);
    await pause(100);
  }
}

// Ports are handed out once, from a block whose first port this process listens on, as
// tests/harness/ports.rs does. Linux takes none of them for outgoing connections.
const BLOCK = 250;
const [FIRST, LAST] = [12_000, 32_000];
let block;

function listen(port) {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.on("error", () => resolve(null));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

async function claimBlock() {
  for (let tries = 0; tries < 200; tries++) {
    const first = FIRST + BLOCK * Math.floor((Math.random() * (LAST - FIRST)) / BLOCK);
    const claim = await listen(first);
    if (claim) return { claim: claim.unref(), next: first + 1, end: first + BLOCK };
  }
  assert.fail("no free block of ports");
}

async function freePort() {
  block ??= await claimBlock();
  while (block.next < block.end) {
    const port = block.next++;
    const server = await listen(port);
    if (server) {
      await new Promise((resolve) => server.close(resolve));
      return port;
    }
  }
  assert.fail("all ports of the block are taken");
}

const port = await freePort();
const origin = `http://127.0.0.1:${port}`;

// Asks with a user agent of its own. `open` leaves the answer open.
function ask(path, agent = "tester", open = false, from = origin) {
  return new Promise((resolve, reject) => {
    const request = http.get(from + path, { headers: { "user-agent": agent }, agent: false }, (answer) => {
      if (open) return resolve(request);
      let text = "";
      answer.setEncoding("utf8").on("data", (part) => (text += part));
      answer.on("end", () => resolve({ status: answer.statusCode, text }));
      answer.on("error", reject);
    });
    request.on("error", reject);
  });
}

async function metric(name, labels) {
  const { text } = await ask("/metrics");
  const lines = text.split("\n").filter((line) => line.startsWith(name + "{"));
  const its = lines.filter((line) => labels.every((label) => line.includes(label)));
  return its.reduce((sum, line) => sum + Number(line.split(" ").pop()), 0);
}

// Returns the cells of a row by their columns, as a person reads them.
const readRow = (table, name) => `(() => {
  const table = document.getElementById(${JSON.stringify(table)});
  const columns = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const row = [...table.tBodies[0].rows].find((row) => row.cells[0].innerText.trim() === ${JSON.stringify(name)});
  return row && Object.fromEntries([...row.cells].map((cell, at) => [columns[at], cell.innerText.trim()]));
})()`;

// The page's text, its dim text and its states.
const TEXTS = ["body", ".note", "thead th", ".good"];

// Returns the words in the cells of tables that have more than one line.
const BROKEN_WORDS = `(() => {
  const broken = [];
  for (const cell of document.querySelectorAll("#resources :is(td, th), #bypasses :is(td, th), #servers :is(td, th)")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      for (const word of texts.currentNode.data.matchAll(/\\S+/g)) {
        const range = document.createRange();
        range.setStart(texts.currentNode, word.index);
        range.setEnd(texts.currentNode, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map((line) => line.top)).size > 1) broken.push(word[0]);
      }
    }
  }
  return broken;
})()`;

const server = spawn(apifront, ["--insecure-port", String(port)], { stdio: "ignore" });
const browser = await Browser.start(chromium);
try {
  await check();
  checked(`all is well; screenshots are in ${shots}`);
} finally {
  server.kill("SIGKILL");
  await browser.stop();
}
process.exit(0);

async function check() {
  await eventually("apifront is ready", async () => (await ask("/readyz")).status === 200);
  await eventually("pods are cached", async () => {
    await ask(PODS);
    return (await metric("apifront_cache_requests_total", ['resource="pods"', 'result="hit"'])) > 0;
  });
  const watch = await ask("/api/v1/pods?watch=1&resourceVersion=0", "watcher", true);
  watch.on("error", () => {});
  for (let n = 0; n < 3; n += 1) await ask(PODS, MARKUP);
  await ask("/api/v1/events");

  const page = await browser.openPage();
  await page.resize(1280, 900, false);
  await page.prefer("light");
  await page.send("Page.navigate", { url: origin + "/status" });
  const state = () => page.evaluate("document.getElementById('state').textContent");
  await eventually("the page is live", async () => (await state()) === "Live");
  checked("the page loads");

  await numbersMatch(page);
  await changesShow(page);
  await textStaysText(page);
  await everythingHasAName(page);
  await shadowIsShown(page);
  await queriesAreShown(page);
  await shapesAreShown(page);
  await keyboardWorks(page);
  await eventually("a sample is drawn", () =>
    page.evaluate("document.querySelector('#chart-watches .curve').getAttribute('d').length > 10"),
  );
  await allFits(page);
  staysQuiet(page, origin);
  checked("nothing is in the console, nothing is loaded from elsewhere");
  await openPortNamesNobody();
  await page.send("Page.bringToFront");

  server.kill("SIGKILL");
  await eventually("a lost server is told", async () => (await state()).startsWith("No data"));
  checked("a lost server is told");
}

function staysQuiet(page, from) {
  assert.deepEqual(page.console, [], "the console");
  const foreign = page.requests.filter((url) => !url.startsWith(from + "/status") && !/^(data|about):/.test(url));
  assert.deepEqual(foreign, [], "requests elsewhere");
}

// The port without authentication has the page, without the names of callers. The
// demo is behind another apifront there, with authentication.
async function openPortNamesNobody() {
  const [insecurePort, openPort] = [await freePort(), await freePort()];
  const folder = mkdtempSync(join(tmpdir(), "apifront-status-"));
  const [file, kubeconfig] = [join(folder, "front.yaml"), join(folder, "kubeconfig")];
  const own = { name: "own", cluster: { server: origin }, user: {}, context: { cluster: "own", user: "own" } };
  const embedded = { apiVersion: "v1", kind: "Config", "current-context": "own" };
  writeFileSync(kubeconfig, JSON.stringify({ ...embedded, clusters: [own], users: [own], contexts: [own] }));
  const config = {
    apiVersion: "apifront.dev/v1alpha1",
    kind: "FrontConfiguration",
    serving: { securePort: 0, insecurePort },
    observability: { port: openPort },
    upstream: { kubeconfig },
    authentication: { tokenReview: { enabled: true } },
    identity: { mode: "PassThrough" },
    cache: { preload: ["pods"], mode: "Shadow" },
  };
  writeFileSync(file, JSON.stringify(config));
  const log = join(folder, "front.log");
  const front = spawn(apifront, ["--config", file], { stdio: ["ignore", "ignore", openSync(log, "w")] });
  let wasReady = false;
  try {
    const from = `http://127.0.0.1:${openPort}`;
    const askFront = (path, port) => ask(path, MARKUP, false, `http://127.0.0.1:${port}`);
    await eventually("the front is ready", async () => (await askFront("/readyz", openPort)).status === 200);
    wasReady = true;
    assert.equal((await askFront(PODS, insecurePort)).status, 401);
    const page = await browser.openPage();
    await page.resize(1280, 900, false);
    await page.send("Page.navigate", { url: from + "/status" });
    const state = () => page.evaluate("document.getElementById('state').textContent");
    await eventually("the page of the open port is live", async () => (await state()) === "Live");
    const row = await page.evaluate(readRow("resources", "pods v1"));
    assert.equal(row.State, "watching");
    assert.ok(Number(row.Objects) > 0);
    const servers = await page.evaluate("document.getElementById('servers').tBodies[0].innerText");
    assert.match(servers, /API server\s+healthy/);
    const text = await page.evaluate("document.body.innerText");
    assert.match(text, /names no users and no programs\. The secure port shows them/);
    assert.match(text, /Differences are listed at \/debug\/shadow on the secure port/);
    assert.ok(!text.includes("onerror") && !text.includes("Order by"), text);
    const shown = "[...document.querySelectorAll('#talkers, #users, #agents')].filter((e) => e.offsetParent).length";
    assert.equal(await page.evaluate(shown), 0);
    writeFileSync(join(shots, "open-port.png"), await page.screenshot());
    await page.resize(320, 844, true);
    await pause(200);
    assert.ok((await page.evaluate("document.documentElement.scrollWidth")) <= 320);
    staysQuiet(page, from);
    checked("the page of the open port names nobody, and says where the rest is");
  } finally {
    front.kill("SIGKILL");
    if (!wasReady) console.log(readFileSync(log, "utf8"));
    rmSync(folder, { recursive: true, force: true });
  }
}

async function numbersMatch(page) {
  await eventually("the page has the numbers of /debug/cache and /metrics", async () => {
    const row = await page.evaluate(readRow("resources", "pods v1"));
    const cache = JSON.parse((await ask("/debug/cache?resource=pods")).text).resources[0];
    const hits = await metric("apifront_cache_requests_total", ['resource="pods"', 'result="hit"']);
    const expected = [cache.state, cache.objects, cache.watchers, hits].map(String);
    const shown = [row.State, row.Objects, row.Watchers, row.Hits];
    return JSON.stringify(shown) === JSON.stringify(expected) || { shown, expected };
  });
  // The demo is healthy, and serves all that apifront needs for itself.
  assert.equal(await page.evaluate("document.querySelectorAll('#resources .bad').length"), 0);
  const bypass = await page.evaluate(readRow("bypasses", "events v1"));
  assert.equal(bypass.Reason, "excluded");
  assert.match(bypass["What to do"], /cache\.exclude/);
  const part = await page.evaluate("document.getElementById('servers').tBodies[0].innerText");
  assert.match(part, /API server\s+healthy/);
  const spared = await page.evaluate("document.getElementById('spared').textContent");
  assert.match(spared, /spared the API server and etcd about −?[0-9.]+ (s|min) of CPU time/);
  checked("numbers are those of /debug/cache and /metrics");
}

async function changesShow(page) {
  await page.evaluate("window.mark = 'not loaded again'");
  const before = Number((await page.evaluate(readRow("resources", "pods v1"))).Hits);
  for (let n = 0; n < 5; n += 1) await ask(PODS);
  await eventually("the page follows", async () => {
    const hits = Number((await page.evaluate(readRow("resources", "pods v1"))).Hits);
    return hits === before + 5 || hits;
  });
  assert.equal(await page.evaluate("window.mark"), "not loaded again");
  checked("changes show without a reload");
}

async function textStaysText(page) {
  await eventually("the user agent is shown as text", async () => {
    const row = await page.evaluate(readRow("agents", MARKUP));
    return row?.Requests === "3" || row;
  });
  const found = await page.evaluate(
    "[document.images.length, document.scripts.length, window.harmed ?? null]",
  );
  assert.deepEqual(found, [0, 1, null]);
  checked("markup in a user agent stays text");
}

// The tree that screen readers get: tables and images have names, cells are
// cells.
async function everythingHasAName(page) {
  const { nodes } = await page.send("Accessibility.getFullAXTree");
  const of = (role) => nodes.filter((node) => !node.ignored && node.role?.value === role);
  for (const role of ["table", "image", "button", "searchbox", "combobox", "meter"]) {
    const some = of(role);
    assert.ok(some.length > 0, `no ${role}`);
    for (const node of some) assert.ok(node.name?.value, `a ${role} without a name`);
  }
  assert.equal(of("table").length, 6);
  assert.ok(of("columnheader").length > 20 && of("rowheader").length > 5);
  assert.deepEqual([of("main").length, of("banner").length], [1, 1]);
  checked("tables, charts and controls have names");
}

// The demo has nothing in shadow mode. Its results are drawn where there are some.
async function shadowIsShown(page) {
  const isHidden = "document.getElementById('shadow-section').hidden";
  assert.equal(await page.evaluate(isHidden), true);
  const pods = { group: "", version: "v1", resource: "pods", mode: "Shadow", wouldAnswer: 7, wouldForward: 1 };
  const results = { ...pods, matches: 6, differences: 1, notComparable: 0 };
  const shadow = { samplingRatePerMillion: 100000, resources: [results], resourcesOmitted: 0 };
  await page.evaluate(`drawShadow(${JSON.stringify(shadow)})`);
  assert.equal(await page.evaluate(isHidden), false);
  const row = await page.evaluate(readRow("shadow", "pods v1"));
  assert.equal(row.Different, "1");
  assert.equal(await page.evaluate("document.querySelector('#shadow .bad').textContent"), "1");
  await page.evaluate("drawShadow(undefined)");
  assert.equal(await page.evaluate(isHidden), true);
  checked("results of shadow mode are shown");
}

// Nor does it answer queries.
async function queriesAreShown(page) {
  const isHidden = "document.getElementById('queries').hidden";
  assert.equal(await page.evaluate(isHidden), true);
  const queries = { answered: 12, refused: 1, orders: 2, orderBytes: 3 << 20, liveAnswers: 4 };
  await page.evaluate(`drawQueries(${JSON.stringify(queries)})`);
  assert.equal(await page.evaluate(isHidden), false);
  const text = await page.evaluate("document.getElementById('queries').textContent");
  assert.equal(text, "Queries: 12 answered, 1 refused; 2 orders kept (3.0 MiB), 4 live answers.");
  await page.evaluate("drawQueries(undefined)");
  assert.equal(await page.evaluate(isHidden), true);
  checked("queries are shown");
}

// Nor has it rules about shapes.
async function shapesAreShown(page) {
  const isHidden = "document.getElementById('shapes-section').hidden";
  assert.equal(await page.evaluate(isHidden), true);
  const who = { users: [], groups: ["monitors"], userAgents: ["ksm/"], resources: ["*.apps", "pods"] };
  const rule = { name: "exporters", ...who, shaped: 12, whole: 3, leftOutBytes: 5 << 20 };
  await page.evaluate(`drawShapes(${JSON.stringify([rule])})`);
  assert.equal(await page.evaluate(isHidden), false);
  const row = await page.evaluate(readRow("shapes", "exporters"));
  assert.equal(row.For, "groups monitors; programs ksm/; resources *.apps, pods");
  assert.deepEqual([row.Answers, row["Forwarded whole"], row["Left out"]], ["12", "3", "5.0 MiB"]);
  await page.evaluate("drawShapes(undefined)");
  assert.equal(await page.evaluate(isHidden), true);
  checked("rules about shapes are shown");
}

async function keyboardWorks(page) {
  const focused = () => page.evaluate("document.activeElement.id || document.activeElement.className");
  const outlined = () => page.evaluate("getComputedStyle(document.activeElement).outlineStyle !== 'none'");
  for (const expected of ["skip", "pause"]) {
    await page.press("Tab");
    assert.equal(await focused(), expected);
    assert.ok(await outlined(), `${expected} shows its focus`);
  }
  const state = () => page.evaluate("document.getElementById('state').textContent");
  await page.press("Enter", "\r");
  assert.equal(await state(), "Paused");
  await page.press("Enter", "\r");
  await eventually("the page goes on", async () => (await state()) === "Live");
  await page.press("Tab");
  assert.equal(await focused(), "filter");
  await page.type("pod");
  const names = "[...document.querySelectorAll('#resources tbody th')].map((cell) => cell.textContent)";
  assert.deepEqual(await page.evaluate(names), ["pods v1"]);
  await page.type("x");
  assert.match(await page.evaluate("document.querySelector('#resources tbody').innerText"), /No name/);
  await page.evaluate("document.getElementById('filter').select()");
  await page.send("Input.insertText", { text: "" });
  await page.press("Tab");
  assert.equal(await focused(), "measure");
  await page.press("ArrowDown");
  assert.equal(await page.evaluate("document.activeElement.value"), "bytesSent");
  assert.ok(await outlined());
  checked("the keyboard reaches and works everything");
}

async function allFits(page) {
  const keep = async (name) => writeFileSync(join(shots, name + ".png"), await page.screenshot());
  const backs = new Set();
  for (const scheme of ["light", "dark"]) {
    await page.prefer(scheme);
    backs.add(await page.evaluate("getComputedStyle(document.body).backgroundColor"));
    for (const contrast of await page.contrasts(TEXTS)) assert.ok(contrast >= 4.5, `${scheme}: ${contrast}`);
    await page.resize(1280, 900, false);
    await pause(200);
    await keep(scheme);
    for (const width of [390, 320]) {
      await page.resize(width, 844, true);
      await pause(200);
      const widest = await page.evaluate(
        "Math.max(...[...document.body.querySelectorAll('*:not(.skip, .hidden, thead, thead *)')].map((e) => e.getBoundingClientRect().right))",
      );
      const scrolls = await page.evaluate("document.documentElement.scrollWidth");
      assert.ok(scrolls <= width && widest <= width + 0.5, `${width}: ${scrolls}, ${widest}`);
      if (width === 390) await keep(scheme === "light" ? "narrow" : "narrow-dark");
    }
  }
  assert.equal(backs.size, 2, "light and dark differ");
  await page.resize(1280, 900, false);
  checked("light and dark can be read, and 390 and 320 pixels hold everything");
  for (const width of [1300, 1000]) {
    await page.resize(width, 900, false);
    await pause(200);
    assert.deepEqual(await page.evaluate(BROKEN_WORDS), [], `words broken at ${width} pixels`);
  }
  await page.resize(1280, 900, false);
  checked("no word is broken");
}
