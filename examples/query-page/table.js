// The table of a window's rows.
import { arrange } from "./arrange.js";
import { showValue } from "./cell.js";

const MARKED_MS = 1_000;

export const NAMESPACE = "object.metadata.namespace";
export const NAME = "object.metadata.name";
export const AGE = "object.metadata.creationTimestamp";

const keyOf = (row) => JSON.stringify([row.namespace, row.name, row.uid]);

export class Table {
  #head;
  #body;
  // The columns that are shown: their names, the expressions that they can be sorted
  // by, and the values that they show of a row.
  #columns = [];
  #shown = new Map();

  // `sort` gets an expression, and whether it is added to others; `open` gets a row.
  constructor(table, sort, open) {
    this.#head = table.tHead.rows[0];
    this.#body = table.tBodies[0];
    this.#head.addEventListener("click", (event) => {
      const head = event.target.closest("th");
      const column = head && event.target.closest("button") && this.#columns[head.cellIndex];
      if (column) sort(column.expression, event.shiftKey);
    });
    this.#body.addEventListener("click", (event) => {
      // Who selects text does not want to open something.
      if (!event.target.closest("button") && !getSelection().isCollapsed) return;
      const row = event.target.closest("tr");
      const shown = row && [...this.#shown.values()].find((shown) => shown.element === row);
      if (shown) open(shown.row);
    });
  }

  // Shows a window in an order. What differs from before is marked for a second, unless
  // it is another window.
  show(seen, order, isOther) {
    const columns = columnsOf(seen);
    const isSame = JSON.stringify(columns) === JSON.stringify(this.#columns);
    this.#columns = columns;
    if (!isSame) this.#head.replaceChildren(...columns.map(makeHead));
    columns.forEach((column, at) => showOrder(this.#head.cells[at], order.of(column.expression)));
    const before = isSame ? this.#shown : new Map();
    this.#shown = new Map();
    for (const row of seen.rows) {
      const shown = before.get(keyOf(row)) ?? { element: document.createElement("tr"), row: null };
      if (this.#fill(shown, row) && !isOther) mark(shown);
      this.#shown.set(keyOf(row), shown);
    }
    arrange(this.#body, [...this.#shown.values()].map((shown) => shown.element));
  }

  // Returns whether the row shows something else than before.
  #fill(shown, row) {
    const values = this.#columns.map((column) => valueOf(row, column));
    const before = shown.values ?? [];
    let differs = false;
    values.forEach((value, at) => {
      if (at in before && JSON.stringify(before[at]) === JSON.stringify(value)) return;
      differs = true;
      const cell = shown.element.cells[at] ?? makeCell(shown.element, this.#columns[at]);
      const button = cell.querySelector("button");
      if (button) button.textContent = value;
      else showValue(cell, value);
    });
    Object.assign(shown, { row, values });
    return differs;
  }
}

// A row has a namespace and a name anyway, so a Table's column for the name is left out.
function columnsOf({ columns, rows }) {
  const isNamespaced = rows.length === 0 || rows.some((row) => row.namespace);
  const own = columns.map(({ name, expression }, cell) => ({
    name,
    expression: expression || (name === "Age" ? AGE : ""),
    cell,
    isOfTable: !expression,
  }));
  return [
    ...(isNamespaced ? [{ name: "namespace", expression: NAMESPACE, part: "namespace" }] : []),
    { name: "name", expression: NAME, part: "name" },
    ...own.filter((column) => !(column.isOfTable && column.name === "Name")),
  ];
}

const valueOf = (row, { part, cell }) => (part ? (row[part] ?? "") : (row.cells[cell] ?? null));

function makeHead({ name, expression }) {
  const head = document.createElement("th");
  head.scope = "col";
  if (!expression) {
    head.textContent = name;
    return head;
  }
  const button = document.createElement("button");
  button.type = "button";
  button.title = expression;
  const [text, arrow, spoken] = ["span", "span", "span"].map((tag) => document.createElement(tag));
  text.textContent = name;
  arrow.setAttribute("aria-hidden", "true");
  spoken.className = "hidden";
  button.append(text, arrow, spoken);
  head.append(button);
  return head;
}

// aria-sort is for the one column that decides first. The others say it in words.
function showOrder(head, key) {
  const direction = key?.descending ? "descending" : "ascending";
  if (key?.at === 0) head.setAttribute("aria-sort", direction);
  else head.removeAttribute("aria-sort");
  const [, arrow, spoken] = head.querySelectorAll("span");
  if (!arrow) return;
  const place = key?.of > 1 ? ` ${key.at + 1}` : "";
  arrow.textContent = key ? ` ${key.descending ? "▼" : "▲"}${place}` : "";
  spoken.textContent = key?.at > 0 ? `, sorted ${direction}, place${place}` : "";
}

function makeCell(row, { part }) {
  if (part !== "name") return row.insertCell();
  const cell = document.createElement("th");
  cell.scope = "row";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "link";
  cell.append(button);
  row.append(cell);
  return cell;
}

function mark(shown) {
  clearTimeout(shown.timer);
  shown.element.classList.add("changed");
  shown.timer = setTimeout(() => shown.element.classList.remove("changed"), MARKED_MS);
}
