"use strict";
// Names of users and user agents come from callers. They reach the document as
// text only: by textContent and setAttribute, never as markup.

const POLL_MS = 3000;
const SHOWN_TALKERS = 15;
const CHART = { width: 240, height: 52, least: 60, most: 3600 };
const SVG = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);
const setText = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

// ---- figures ----

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const count = (n) => plain.format(n);
const rate = (n) => (n >= 100 ? count(n) : n.toFixed(n >= 10 ? 1 : 2));
const percent = (n) => (n === undefined || n === null ? "–" : (100 * n).toFixed(1) + " %");
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) {
    n /= 1024;
    at += 1;
  }
  return (at === 0 ? count(n) : n.toFixed(n < 100 ? 1 : 0)) + " " + units[at];
}
function seconds(n) {
  if (n === undefined || n === null) return "–";
  if (n < 10) return n.toFixed(1) + " s";
  if (n < 120) return n.toFixed(0) + " s";
  if (n < 7200) return (n / 60).toFixed(0) + " min";
  if (n < 172800) return (n / 3600).toFixed(1) + " h";
  return (n / 86400).toFixed(1) + " d";
}
const signed = (n) => (n < 0 ? "−" : "") + seconds(Math.abs(n));
const resourceName = (r) =>
  r.resource === "" ? "(all others)" : r.resource + (r.group ? "." + r.group : "") + " " + r.version;
const dottedName = (r) => ({ dotted: resourceName(r) });

// ---- tables ----

// A column is a name, what it shows of a row, and perhaps a kind: the row's
// `head`, a `number`, a `word`, or `wide`.
function makeTable(id, title, columns) {
  const table = byId(id);
  table.setAttribute("role", "table");
  const caption = table.createCaption();
  caption.className = "hidden";
  caption.textContent = title;
  const head = table.createTHead();
  head.setAttribute("role", "rowgroup");
  const row = head.insertRow();
  row.setAttribute("role", "row");
  for (const column of columns) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.setAttribute("role", "columnheader");
    cell.textContent = column.name;
    if (column.kind === "number") cell.className = "number";
    row.append(cell);
  }
  const body = table.createTBody();
  body.setAttribute("role", "rowgroup");
  return (items, nothing) => fill(body, columns, items, nothing);
}

// Changes what differs, so that a selection of text stays.
function fill(body, columns, items, nothing) {
  while (body.rows.length > Math.max(items.length, 1)) body.deleteRow(-1);
  if (items.length === 0) {
    body.replaceChildren();
    const row = body.insertRow();
    row.className = "empty";
    row.setAttribute("role", "row");
    const cell = row.insertCell();
    cell.setAttribute("role", "cell");
    cell.colSpan = columns.length;
    cell.className = "wide";
    cell.textContent = nothing;
    return;
  }
  if (body.rows[0] && body.rows[0].className === "empty") body.replaceChildren();
  items.forEach((item, at) => {
    const row = body.rows[at] || makeRow(body, columns);
    columns.forEach((column, n) => show(row.cells[n], column.show(item)));
  });
}

function makeRow(body, columns) {
  const row = body.insertRow();
  row.setAttribute("role", "row");
  for (const column of columns) {
    const cell = document.createElement(column.kind === "head" ? "th" : "td");
    if (column.kind === "head") {
      cell.scope = "row";
      cell.setAttribute("role", "rowheader");
    } else {
      cell.setAttribute("role", "cell");
      if (column.kind) cell.className = column.kind;
      if (column.kind !== "meter") cell.dataset.label = column.name;
    }
    row.append(cell);
  }
  return row;
}

// Shows a text, a name with dots, a text with a class, a count with its error, or a
// meter.
function show(cell, value) {
  if (typeof value === "string") {
    if (cell.firstElementChild) cell.replaceChildren();
    setText(cell, value);
  } else if (value.dotted !== undefined) {
    // A line may break after a dot.
    if (cell.textContent === value.dotted) return;
    const parts = value.dotted.split(/(?<=\.)/);
    cell.replaceChildren(...parts.flatMap((part) => [part, document.createElement("wbr")]));
  } else if (value.meter !== undefined) {
    let meter = cell.querySelector("meter");
    if (!meter) {
      meter = document.createElement("meter");
      cell.replaceChildren(meter);
    }
    meter.setAttribute("aria-label", value.label);
    meter.max = 1;
    meter.high = 0.9;
    meter.value = value.meter;
  } else {
    let main = cell.querySelector(".main");
    if (!main) {
      main = document.createElement("span");
      main.className = "main";
      const extra = document.createElement("span");
      extra.className = "error";
      cell.replaceChildren(main, extra);
    }
    setText(main, value.text);
    main.className = "main " + (value.className || "");
    setText(cell.lastElementChild, value.error || "");
    cell.lastElementChild.hidden = !value.error;
  }
}

// ---- charts ----

const charts = [
  { id: "requests", name: "Requests/s", of: (s) => s.requestsPerSecond, format: rate },
  { id: "hits", name: "Hit rate", of: (s) => s.hitRate, format: percent, top: 1 },
  { id: "upstream", name: "Upstream requests/s", of: (s) => s.upstreamRequestsPerSecond, format: rate },
  { id: "watches", name: "Watches", of: (s) => s.watchers, format: count },
  { id: "cpu", name: "Busy cores", of: (s) => s.busyCores, format: (n) => n.toFixed(2) },
  { id: "memory", name: "Memory", of: (s) => s.residentMemoryBytes, format: bytes },
];

function element(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function makeCharts() {
  for (const chart of charts) {
    const figure = document.createElement("figure");
    figure.id = "chart-" + chart.id;
    const caption = document.createElement("figcaption");
    const name = document.createElement("span");
    name.textContent = chart.name;
    chart.now = document.createElement("strong");
    caption.append(name, chart.now);
    chart.area = element("path", { class: "area" });
    chart.curve = element("path", { class: "curve" });
    chart.svg = element(
      "svg",
      { role: "img", viewBox: `0 0 ${CHART.width} ${CHART.height}`, preserveAspectRatio: "none" },
      chart.area,
      chart.curve,
    );
    const scale = document.createElement("div");
    scale.className = "scale";
    chart.from = document.createElement("span");
    chart.most = document.createElement("span");
    scale.append(chart.from, chart.most);
    figure.append(caption, chart.svg, scale);
    byId("charts").append(figure);
  }
}

// A sample is a step from its beginning to its end. The curve is broken where a
// sample has no value.
function drawChart(chart, samples) {
  const values = samples.map(chart.of);
  const known = values.filter((value) => value !== null && value !== undefined);
  const most = known.length ? Math.max(...known) : 0;
  const top = chart.top || most || 1;
  const oldest = samples.length ? samples[0].secondsAgo + samples[0].seconds : 0;
  const span = Math.min(Math.max(oldest, CHART.least), CHART.most);
  const x = (ago) => (CHART.width * (1 - Math.min(ago, span) / span)).toFixed(1);
  const y = (value) => (CHART.height - 1 - (value / top) * (CHART.height - 3)).toFixed(1);
  let curve = "";
  let area = "";
  let open = false;
  samples.forEach((sample, at) => {
    const value = values[at];
    if (value === null || value === undefined) {
      open = false;
      return;
    }
    const [from, to] = [x(sample.secondsAgo + sample.seconds), x(sample.secondsAgo)];
    curve += `${open ? "L" : "M"}${from} ${y(value)}L${to} ${y(value)}`;
    area += `M${from} ${CHART.height}L${from} ${y(value)}L${to} ${y(value)}L${to} ${CHART.height}Z`;
    open = true;
  });
  chart.curve.setAttribute("d", curve);
  chart.area.setAttribute("d", area);
  const last = values.length ? values[values.length - 1] : null;
  const now = last === null || last === undefined ? "–" : chart.format(last);
  setText(chart.now, now);
  setText(chart.from, "−" + seconds(span));
  setText(chart.most, known.length ? "most " + chart.format(most) : "");
  const spoken = known.length ? `now ${now}, most ${chart.format(most)}` : "no samples yet";
  chart.svg.setAttribute("aria-label", `${chart.name} of the last hour: ${spoken}`);
}

// ---- the parts of the page ----

const showServers = makeTable("servers", "API servers and backends with their health", [
  { name: "Server", kind: "head", show: (s) => s.name },
  { name: "Part", show: (s) => s.part },
  {
    name: "Health",
    kind: "word",
    show: (s) =>
      s.healthy ? { text: "healthy", className: "good" } : { text: "not healthy", className: "bad" },
  },
]);

const showBudget = makeTable("budget", "What is used of the budget", [
  { name: "What", kind: "head", show: (b) => b.name },
  { name: "Used", kind: "number", show: (b) => b.format(b.used) },
  { name: "Budget", kind: "number", show: (b) => (b.of ? b.format(b.of) : "no limit") },
  {
    name: "Share",
    kind: "meter",
    show: (b) => (b.of ? { meter: b.used / b.of, label: `${b.name}: ${percent(b.used / b.of)}` } : ""),
  },
]);

const showResources = makeTable("resources", "Resources, the largest first", [
  { name: "Resource", kind: "head", show: dottedName },
  {
    name: "State",
    kind: "word",
    show: (r) => ({
      text: r.state === "notCached" ? "not cached" : r.state,
      className: r.state === "refused" ? "bad" : "",
    }),
  },
  { name: "Objects", kind: "number", show: (r) => count(r.objects) },
  { name: "Size", kind: "number", show: (r) => bytes(r.bytes) },
  { name: "Last event", kind: "number", show: (r) => seconds(r.stalenessSeconds) },
  {
    name: "Lost for",
    kind: "number",
    show: (r) => (r.lagSeconds > 0 ? { text: seconds(r.lagSeconds), className: "bad" } : "–"),
  },
  { name: "Watchers", kind: "number", show: (r) => count(r.watchers) },
  { name: "Hits", kind: "number", show: (r) => count(r.hits) },
  { name: "With a question", kind: "number", show: (r) => count(r.asked) },
  { name: "Forwarded", kind: "number", show: (r) => count(r.bypasses) },
  { name: "Hit rate", kind: "number", show: (r) => percent(r.hitRate) },
]);

const showBypasses = makeTable("bypasses", "Forwarded reads by resource and reason", [
  { name: "Resource", kind: "head", show: dottedName },
  { name: "Reason", kind: "word", show: (b) => b.reason },
  { name: "Reads", kind: "number", show: (b) => count(b.reads) },
  { name: "What to do", kind: "wide", show: (b) => b.advice || "" },
]);

const showShadow = makeTable("shadow", "Comparisons of shadow mode by resource", [
  { name: "Resource", kind: "head", show: dottedName },
  { name: "Mode", kind: "word", show: (r) => r.mode },
  { name: "Would answer", kind: "number", show: (r) => count(r.wouldAnswer) },
  { name: "Would forward", kind: "number", show: (r) => count(r.wouldForward) },
  { name: "The same", kind: "number", show: (r) => count(r.matches) },
  {
    name: "Different",
    kind: "number",
    show: (r) => (r.differences > 0 ? { text: count(r.differences), className: "bad" } : "–"),
  },
  { name: "Not comparable", kind: "number", show: (r) => count(r.notComparable) },
]);

function drawQueries(queries) {
  byId("queries").hidden = !queries;
  if (!queries) return;
  setText(
    byId("queries"),
    `Queries: ${count(queries.answered)} answered, ${count(queries.refused)} refused; ` +
      `${count(queries.orders)} orders kept (${bytes(queries.orderBytes)}), ${count(queries.liveAnswers)} live answers.`,
  );
}

function drawShadow(shadow) {
  byId("shadow-section").hidden = !shadow;
  if (!shadow) return;
  showShadow(shadow.resources, "Nothing was compared yet.");
  const omitted = shadow.resourcesOmitted ? ` ${count(shadow.resourcesOmitted)} resources are left out.` : "";
  const share = percent(shadow.samplingRatePerMillion / 1e6);
  const port = data.withheld ? " on the secure port" : "";
  setText(byId("shadow-note"), `Of all reads, ${share} are compared. Differences are listed at /debug/shadow${port}.${omitted}`);
}

// Whom and what a rule names. What it does not list is no condition.
const listed = (name, all) => (all.length ? [`${name} ${all.join(", ")}`] : []);
const named = (rule) =>
  [
    ...listed("users", rule.users),
    ...listed("groups", rule.groups),
    ...listed("programs", rule.userAgents),
    ...listed("resources", rule.resources),
  ].join("; ");

const showShapes = makeTable("shapes", "Answers without managedFields by rule", [
  { name: "Rule", kind: "head", show: (r) => r.name },
  { name: "For", kind: "wide", show: named },
  { name: "Answers", kind: "number", show: (r) => count(r.shaped) },
  { name: "Forwarded whole", kind: "number", show: (r) => count(r.whole) },
  { name: "Left out", kind: "number", show: (r) => bytes(r.leftOutBytes) },
]);

function drawShapes(shapes) {
  byId("shapes-section").hidden = !shapes;
  if (shapes) showShapes(shapes, "");
}

// The count of a name in a ranking, which lists only the largest.
function counted(entry, format) {
  if (!entry) return "–";
  const error = entry.maxError > 0 ? "up to " + format(entry.maxError) + " less" : "";
  return { text: format(entry.count), error };
}
const talkerColumns = (what) => [
  { name: what, kind: "head", show: (t) => t.name },
  { name: "Requests", kind: "number", show: (t) => counted(t.requests, count) },
  { name: "Sent", kind: "number", show: (t) => counted(t.bytesSent, bytes) },
  { name: "Watches", kind: "number", show: (t) => counted(t.watchesOpened, count) },
  { name: "From cache", kind: "number", show: (t) => counted(t.answersFromCache, count) },
  { name: "Cache bytes", kind: "number", show: (t) => counted(t.bytesFromCache, bytes) },
];
const showUsers = makeTable("users", "Users that cause the most work", talkerColumns("User"));
const showAgents = makeTable("agents", "User agents that cause the most work", talkerColumns("User agent"));

// A port without authentication has no talkers in its data.
function drawTalkers(talkers, mode) {
  byId("talkers").hidden = !talkers;
  byId("talkers-withheld").hidden = Boolean(talkers);
  if (!talkers) return;
  const nobody = mode === "front" ? "(not authenticated)" : "(whoever reaches the port)";
  setText(byId("talkers-span"), seconds(talkers.seconds));
  drawRankings(talkers.users, showUsers, "users-note", nobody);
  drawRankings(talkers.userAgents, showAgents, "agents-note", "(none)");
}

function drawRankings(rankings, draw, noteId, nobody) {
  const measure = byId("measure").value;
  const lookups = Object.entries(rankings).map(([name, ranking]) => [
    name,
    new Map(ranking.entries.map((entry) => [entry.name, entry])),
  ]);
  const entries = rankings[measure].entries;
  const rows = entries.slice(0, SHOWN_TALKERS).map((entry) => {
    const row = Object.fromEntries(lookups.map(([name, known]) => [name, known.get(entry.name)]));
    row.name = entry.name || nobody;
    return row;
  });
  draw(rows, "Nobody yet.");
  const others = entries.length - rows.length;
  setText(byId(noteId), others > 0 ? `${others} more are in status.json.` : "");
}

let data = null;

function draw() {
  setText(byId("version"), data.version);
  const ready = data.ready ? "ready" : "not ready";
  setText(byId("facts"), `${ready} · ${data.mode} · ${data.consistency} · up ${seconds(data.uptimeSeconds)}`);
  for (const chart of charts) drawChart(chart, data.history.samples);
  const { least, estimate, most } = data.totals.sparedUpstreamCpuSeconds;
  setText(
    byId("spared"),
    `Since the start, answers from memory spared the API server and etcd about ${signed(estimate)} of CPU time ` +
      `(an estimate: ${signed(least)} to ${signed(most)}; below zero they were asked more than that).`,
  );

  const servers = data.apiServers.map((s) => ({ ...s, part: "API server" }));
  for (const backend of data.backends) {
    const part = backend.name ? "backend " + backend.name : "backend";
    servers.push(...backend.servers.map((s) => ({ ...s, part, name: s.name || "(not named here)" })));
  }
  showServers(servers, "None.");

  const { usage, history } = data;
  const last = history.samples[history.samples.length - 1];
  showBudget([
    { name: "Cache", used: usage.cacheBytes + usage.cacheReadingBytes, of: usage.cacheMemoryLimitBytes, format: bytes },
    { name: "Process memory", used: usage.residentMemoryBytes, of: usage.memoryBytes, format: bytes },
    { name: "CPU cores", used: last ? last.busyCores : 0, of: usage.cpus, format: (n) => n.toFixed(Number.isInteger(n) ? 0 : 2) },
  ]);

  const wanted = byId("filter").value.trim().toLowerCase();
  const found = data.resources.filter((r) => resourceName(r).toLowerCase().includes(wanted));
  showResources(found, data.resources.length ? "No name contains that." : "None yet.");
  const omitted = data.resourcesOmitted ? `, ${count(data.resourcesOmitted)} left out` : "";
  setText(byId("resources-note"), `${found.length} of ${data.resources.length}${omitted}`);

  showBypasses(
    data.bypasses.map((b) => ({ ...b, advice: data.advice[b.reason] })),
    "None: the cache answered every read.",
  );
  setText(byId("bypasses-note"), data.bypassesOmitted ? `${count(data.bypassesOmitted)} more are left out.` : "");

  drawQueries(data.queries);
  drawShadow(data.shadow);
  drawShapes(data.shapes);

  drawTalkers(data.topTalkers, data.mode);
}

// ---- polling ----

const pause = byId("pause");
const state = byId("state");
const isPaused = () => pause.getAttribute("aria-pressed") === "true";
let timer = 0;
let isAsking = false;

function say(text, isBad) {
  setText(state, text);
  state.className = isBad ? "bad" : "good";
}

async function poll() {
  clearTimeout(timer);
  if (isAsking) return;
  isAsking = true;
  try {
    const answer = await fetch("status.json", { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error("HTTP " + answer.status);
    data = await answer.json();
    draw();
    say("Live", false);
  } catch (error) {
    say("No data: " + error.message, true);
  }
  isAsking = false;
  if (isPaused()) say("Paused", false);
  else if (!document.hidden) timer = setTimeout(poll, POLL_MS);
}

pause.addEventListener("click", () => {
  pause.setAttribute("aria-pressed", String(!isPaused()));
  clearTimeout(timer);
  if (isPaused()) say("Paused", false);
  else poll();
});
byId("filter").addEventListener("input", () => data && draw());
byId("measure").addEventListener("change", () => data && draw());
// A page that nobody looks at asks for nothing.
document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (!document.hidden && !isPaused()) poll();
});

makeCharts();
poll();
