// The resources that the page knows, and how it finds others.
import { getJson } from "./server.js";

const AGE = "age=object.metadata.creationTimestamp";

// Their first columns, and what may be worth to be counted.
const KNOWN = {
  pods: {
    group: "",
    version: "v1",
    columns: [
      "phase=object.status.phase",
      "node=object.spec.nodeName",
      "restarts=object.?status.?containerStatuses[?0].?restartCount.orValue(0)",
      AGE,
    ],
    countable: ["object.status.phase", "object.spec.nodeName", "object.metadata.namespace"],
  },
  "deployments.apps": {
    group: "apps",
    version: "v1",
    columns: [
      "wanted=object.spec.replicas",
      "ready=object.?status.?readyReplicas.orValue(0)",
      "image=object.spec.template.spec.containers[0].image",
      AGE,
    ],
    countable: ["object.metadata.namespace", "object.spec.template.spec.containers[0].image"],
  },
  nodes: {
    group: "",
    version: "v1",
    columns: [
      "ready=object.?status.?conditions.orValue([]).exists(c, c.type == 'Ready' && c.status == 'True')",
      "kubelet=object.status.nodeInfo.kubeletVersion",
      AGE,
    ],
    countable: ["object.status.nodeInfo.kubeletVersion"],
  },
  events: {
    group: "",
    version: "v1",
    columns: [
      "type=object.type",
      "reason=object.reason",
      "about=object.involvedObject.kind + '/' + object.involvedObject.name",
      "message=object.message",
      "last=object.lastTimestamp",
    ],
    countable: ["object.reason", "object.involvedObject.kind", "object.metadata.namespace"],
  },
};

export const names = Object.keys(KNOWN);

// Returns the columns, and the expressions to count by, that a choice begins with.
export function preset(name) {
  const { columns = [], countable = ["object.metadata.namespace"] } = known(name) ?? {};
  return { columns, countable };
}

const known = (name) => (Object.hasOwn(KNOWN, name) ? KNOWN[name] : undefined);

// Finds a resource by its name: `pods`, `deployments.apps`, `v1/pods` or
// `apps/v1/deployments`.
export async function find(name, signal) {
  const parts = name.split("/");
  if (parts.length === 3) return { group: parts[0], version: parts[1], resource: parts[2] };
  if (parts.length === 2) return { group: "", version: parts[0], resource: parts[1] };
  const [resource, ...rest] = name.split(".");
  const group = rest.join(".");
  const version = known(name)?.version ?? (await preferred(group, signal));
  return { group, version, resource };
}

async function preferred(group, signal) {
  if (group === "") return "v1";
  const found = await getJson(`/apis/${encodeURIComponent(group)}`, signal);
  return found.preferredVersion.version;
}

// Returns the path of an object.
export function pathOf({ group, version, resource }, { namespace, name }) {
  const root = group ? ["apis", group, version] : ["api", version];
  const within = namespace ? ["namespaces", namespace] : [];
  return "/" + [...root, ...within, resource, name].map(encodeURIComponent).join("/");
}
