// The choice: what somebody asks for, as the fields of the form have it.

const field = (id) => document.getElementById(id);

// The field of the form for each field of the spec.
const FIELDS = {
  resource: "resource",
  namespaces: "namespaces",
  labelSelector: "labels",
  where: "where",
  columns: "columns",
  countBy: "count-by",
};

export function readChoice() {
  const text = (id) => field(id).value.trim();
  return {
    name: text("resource"),
    namespaces: text("namespaces").split(/[\s,]+/).filter(Boolean),
    labelSelector: text("labels"),
    where: text("where"),
    columns: text("columns").split("\n").filter((line) => line.trim()).map(column),
    countBy: text("count-by") ? [text("count-by")] : [],
  };
}

// A line without a name is a column with its expression as the name.
function column(line) {
  const [, name, expression] = /^\s*([^\s=.'"()[\]]+)\s*=(?!=)\s*(.*)$/.exec(line) ?? [];
  return { name: name ?? line.trim(), expression: (expression ?? line).trim() };
}

// Shows what is wrong at the fields. Returns what is about none of them.
export function showRefusal(refusal) {
  clearRefusal();
  const [named] = /^spec\.\w+/.exec(refusal.message) ?? [""];
  const causes = refusal.causes.length ? refusal.causes : [{ field: named, message: refusal.message }];
  const others = [];
  for (const { field: path = "", message } of causes) {
    const id = FIELDS[path.split(/[.[]/)[1]];
    const told = /^spec\.\w+$/.test(path) || !path ? message : `${path}: ${message}`;
    if (id) showAt(id, told);
    else others.push(told);
  }
  return others.join("; ");
}

function showAt(id, text) {
  field(id).setAttribute("aria-invalid", "true");
  const error = field(`${id}-error`);
  error.textContent = error.textContent ? `${error.textContent}; ${text}` : text;
  field(id).closest("details")?.setAttribute("open", "");
}

export function clearRefusal() {
  for (const id of Object.values(FIELDS)) {
    field(id).removeAttribute("aria-invalid");
    field(`${id}-error`).textContent = "";
  }
}
