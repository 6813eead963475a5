// A window: one page of a query's rows, and what its events change.

export class QueryWindow {
  resourceVersion = "";
  total = 0;
  columns = [];
  rows = [];
  counts = [];
  warnings = [];

  take({ type, object: { status } }) {
    if (type === "ADDED") this.#begin(status);
    else if (type === "MODIFIED") this.#update(status);
    // A bookmark has only these.
    this.resourceVersion = status.resourceVersion;
    this.total = status.total;
  }

  #begin(status) {
    this.columns = status.columns;
    this.rows = status.rows;
    this.counts = status.counts ?? [];
    this.warnings = status.warnings ?? [];
  }

  #update({ changes = [], counts }) {
    if (counts) this.counts = counts;
    this.rows = [...this.rows];
    for (const change of changes) this.#apply(change);
  }

  // Each index is about the rows as the changes before left them.
  #apply({ type, index, from, row }) {
    switch (type) {
      case "Removed":
        this.#out(index);
        break;
      case "Added":
        this.#in(index, row);
        break;
      case "Moved":
        this.#in(index, this.#out(from));
        break;
      case "Changed":
        this.#out(index);
        this.#in(index, row);
        break;
      default:
        throw new Error(`The server told an unknown change of rows: ${type}`);
    }
  }

  #out(index) {
    if (!(index < this.rows.length)) throw misfit();
    return this.rows.splice(index, 1)[0];
  }

  #in(index, row) {
    if (!(index <= this.rows.length)) throw misfit();
    this.rows.splice(index, 0, row);
  }
}

// The window is wrong then, and is asked for again.
const misfit = () => new Error("A change did not fit the rows.");
