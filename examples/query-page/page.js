// The page: a choice, the live answer to it, and the table that shows it.
import { showAges } from "./cell.js";
import { clearRefusal, readChoice, showRefusal } from "./choice.js";
import { both } from "./condition.js";
import { Counts } from "./counts.js";
import { follow } from "./live.js";
import { ObjectDialog } from "./object.js";
import { Order } from "./order.js";
import { find, names, pathOf, preset } from "./resources.js";
import { watchQuery } from "./server.js";
import { AGE, NAME, NAMESPACE, Table } from "./table.js";
import { QueryWindow } from "./window.js";

const PAGE_ROWS = 50;

const byId = (id) => document.getElementById(id);
const plain = new Intl.NumberFormat("en");

const order = new Order();
const dialog = new ObjectDialog(byId("object"));
const counts = new Counts(byId("counts"), (condition) => {
  byId("where").value = both(byId("where").value, condition);
  choose();
});
const table = new Table(
  byId("rows"),
  (expression, isAdded) => {
    order.turn(expression, isAdded);
    choose();
  },
  (row) => dialog.open(row.name, pathOf(shown.resource, row)),
);

// What is asked: the choice, as a text, and what ends it.
let asked = { text: "", isOpen: false, controller: new AbortController() };
// What the table shows, which may be the answer to an earlier choice.
let shown = { resource: null, total: 0 };
// The number of rows before the page.
let offset = 0;

function say(text, isGood) {
  byId("state").textContent = text;
  byId("state").className = isGood ? "good" : "bad";
}

// ---- what is asked ----

// Asks for the first page of another choice.
function choose() {
  ask(0);
}

// Asks, unless this is what is asked already.
function ask(from) {
  const choice = readChoice();
  const own = choice.columns.map((column) => column.expression);
  order.keep([NAMESPACE, NAME, ...(own.length ? own : [AGE])]);
  const { name, ...rest } = choice;
  const spec = { ...rest, orderBy: order.spec(), offset: from, limit: PAGE_ROWS };
  const text = JSON.stringify([name, spec]);
  if (asked.isOpen && asked.text === text) return;
  asked.controller.abort();
  offset = from;
  asked = { text, isOpen: true, controller: new AbortController() };
  say("Asking…", true);
  answer(asked, name, spec);
}

// Shows the live answer to one choice, until there is another one.
async function answer(own, name, spec) {
  const { signal } = own.controller;
  const seen = new QueryWindow();
  let resource = null;
  let isOther = true;
  async function* events() {
    resource = await find(name, signal);
    // Any state will do to begin with, since its changes follow.
    yield* watchQuery({ resource, resourceVersion: "0", ...spec }, signal);
  }
  const tell = {
    event(event) {
      own.isOpen = true;
      seen.take(event);
      shown = { resource, total: seen.total };
      draw(seen, spec, isOther);
      isOther = false;
    },
    pause(why, ms) {
      own.isOpen = false;
      say(`Not live. ${why} Asking again in ${Math.round(ms / 1000)} s.`, false);
    },
  };
  try {
    await follow(events, signal, tell);
  } catch (error) {
    if (signal.aborted) return;
    byId("refusal").textContent = showRefusal(error);
    say("Not live", false);
  }
  own.isOpen = false;
}

// ---- what is shown ----

function draw(seen, spec, isOther) {
  if (seen.total > 0 && offset >= seen.total) {
    // The page has gone.
    ask(lastOffset(seen.total));
    return;
  }
  if (isOther) {
    clearRefusal();
    byId("refusal").textContent = "";
  }
  say("Live", true);
  table.show(seen, order, isOther);
  counts.show(seen.counts, spec.countBy);
  byId("nothing").hidden = seen.rows.length > 0;
  showWarnings(seen.warnings);
  showTotal(seen);
}

function showWarnings(warnings) {
  byId("warnings").hidden = warnings.length === 0;
  const items = warnings.map((warning) => {
    const item = document.createElement("li");
    item.textContent = warning;
    return item;
  });
  byId("warnings").querySelector("ul").replaceChildren(...items);
}

const lastOffset = (total) => Math.floor(Math.max(total - 1, 0) / PAGE_ROWS) * PAGE_ROWS;

function showTotal({ total, rows }) {
  const [from, to] = [offset + 1, offset + rows.length].map((n) => plain.format(n));
  byId("total").textContent = rows.length ? `${from}–${to} of ${plain.format(total)}` : plain.format(total);
  byId("first").disabled = byId("previous").disabled = offset === 0;
  byId("next").disabled = byId("last").disabled = offset >= lastOffset(total);
}

// ---- what somebody does ----

function begin(name) {
  const { columns, countable } = preset(name);
  byId("resource").value = name;
  byId("columns").value = columns.join("\n");
  byId("count-by").value = columns.length ? countable[0] : "";
  byId("countable").replaceChildren(...countable.map((text) => new Option(text, text)));
  byId("where").value = "";
  order.clear();
}

byId("resources").replaceChildren(...names.map((name) => new Option(name, name)));
byId("choice").addEventListener("submit", (event) => {
  event.preventDefault();
  choose();
});
byId("choice").addEventListener("change", (event) => {
  if (event.target.id === "resource") begin(event.target.value.trim());
  choose();
});
const pages = {
  first: () => 0,
  previous: () => Math.max(0, offset - PAGE_ROWS),
  next: () => offset + PAGE_ROWS,
  last: () => lastOffset(shown.total),
};
for (const [id, to] of Object.entries(pages)) byId(id).addEventListener("click", () => ask(to()));

// A page that nobody looks at asks for nothing.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    ask(offset);
    return;
  }
  asked.controller.abort();
  asked.isOpen = false;
  say("Paused", true);
});
setInterval(() => showAges(byId("rows")), 1000);

begin(names[0]);
choose();
