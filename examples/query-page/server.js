// What the page asks of the API server.

// Where it is: empty for the origin that the page comes from.
const SERVER = "";

const VERSION = "query.apifront.dev/v1alpha1";

// A refusal, as the server's Status tells it.
export class Refusal extends Error {
  constructor(status) {
    super(status.message || "The server gave no reason.");
    this.code = status.code || 0;
    this.causes = status.details?.causes ?? [];
  }

  // Whether the same question may have an answer later.
  get mayPass() {
    return this.code === 410 || this.code === 429 || this.code >= 500;
  }
}

async function send(path, init) {
  const response = await fetch(SERVER + path, { cache: "no-store", ...init });
  if (response.ok) return response;
  const text = await response.text();
  let status;
  try {
    status = JSON.parse(text);
  } catch {
    // A proxy may answer in the server's place.
    status = { message: text.trim().slice(0, 500) };
  }
  throw new Refusal({ ...status, code: response.status });
}

export async function getJson(path, signal) {
  const response = await send(path, { headers: { accept: "application/json" }, signal });
  return response.json();
}

export async function getYaml(path, signal) {
  const response = await send(path, { headers: { accept: "application/yaml" }, signal });
  return response.text();
}

// Asks a Query, and returns the events of its live answer, until it ends.
export async function* watchQuery(spec, signal) {
  const headers = { accept: "application/json", "content-type": "application/json" };
  const body = JSON.stringify({ apiVersion: VERSION, kind: "Query", spec });
  const path = `/apis/${VERSION}/queries?watch=true`;
  const response = await send(path, { method: "POST", headers, body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) yield read(line);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function read(line) {
  const event = JSON.parse(line);
  if (event.type === "ERROR") throw new Refusal(event.object);
  if (!event.type) throw new Refusal({ message: "The server knows no live answers of queries." });
  return event;
}
