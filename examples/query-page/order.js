// The order that somebody chose by the heads of columns.

// The most that a query may have.
const MOST_KEYS = 8;

export class Order {
  #keys = [];

  // A column goes from ascending to descending to unsorted. The others stay if it is
  // added to them.
  turn(expression, isAdded) {
    const at = this.#keys.findIndex((key) => key.expression === expression);
    const before = this.#keys[at];
    const after = before?.descending ? [] : [{ expression, descending: Boolean(before) }];
    if (!isAdded) this.#keys = after;
    else if (before) this.#keys.splice(at, 1, ...after);
    else if (this.#keys.length < MOST_KEYS) this.#keys.push(...after);
  }

  clear() {
    this.#keys = [];
  }

  // Keeps what columns still show.
  keep(expressions) {
    this.#keys = this.#keys.filter((key) => expressions.includes(key.expression));
  }

  // What the head of a column shows: the place among the keys, and the direction.
  of(expression) {
    const at = this.#keys.findIndex((key) => key.expression === expression);
    return at < 0 ? null : { at, of: this.#keys.length, descending: this.#keys[at].descending };
  }

  spec() {
    return this.#keys.map((key) => ({ ...key }));
  }
}
