// One object, as YAML, in a dialog.
import { getYaml } from "./server.js";

export class ObjectDialog {
  #dialog;
  #title;
  #text;
  #asked = new AbortController();

  constructor(dialog) {
    this.#dialog = dialog;
    this.#title = dialog.querySelector("h2");
    this.#text = dialog.querySelector("pre");
    dialog.addEventListener("close", () => this.#asked.abort());
  }

  async open(name, path) {
    this.#asked.abort();
    const { signal } = (this.#asked = new AbortController());
    this.#title.textContent = name;
    this.#text.textContent = "Asking…";
    if (!this.#dialog.open) this.#dialog.showModal();
    let text;
    try {
      text = await getYaml(path, signal);
    } catch (error) {
      text = error.message;
    }
    if (!signal.aborted) this.#text.textContent = text;
  }
}
