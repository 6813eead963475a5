// The panel of counts. A click on one adds it to the condition.
import { arrange } from "./arrange.js";
import { textOf } from "./cell.js";
import { equals } from "./condition.js";

// A query may have thousands of counts.
const MOST_SHOWN = 100;

const plain = new Intl.NumberFormat("en");

export class Counts {
  #panel;
  #list;
  #note;
  #shown = new Map();

  // `choose` gets a condition.
  constructor(panel, choose) {
    this.#panel = panel;
    this.#list = panel.querySelector("ul");
    this.#note = panel.querySelector("p");
    this.#list.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) choose(button.dataset.condition);
    });
  }

  show(counts, [expression]) {
    this.#panel.hidden = !expression;
    const before = this.#shown;
    this.#shown = new Map();
    for (const { values, count } of expression ? counts.slice(0, MOST_SHOWN) : []) {
      const key = JSON.stringify([expression, values]);
      const item = before.get(key) ?? makeItem(values[0], equals(expression, values[0]));
      const number = item.querySelector(".count");
      const text = plain.format(count);
      if (number.textContent !== text) number.textContent = text;
      this.#shown.set(key, item);
    }
    arrange(this.#list, [...this.#shown.values()]);
    const more = counts.length - MOST_SHOWN;
    this.#note.textContent = more > 0 ? `${plain.format(more)} smaller ones are not shown.` : "";
  }
}

function makeItem(value, condition) {
  const item = document.createElement("li");
  const [text, count] = [document.createElement("span"), document.createElement("span")];
  text.textContent = value === "" ? '""' : value === null ? "no value" : textOf(value);
  count.className = "count";
  const within = document.createElement(condition ? "button" : "div");
  if (condition) {
    within.type = "button";
    within.title = condition;
    within.dataset.condition = condition;
  }
  within.append(text, " ", count);
  item.append(within);
  return item;
}
