// A cell: one value of an object. It is put in as text, never as markup.

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

// A time is shown as an age.
export function showValue(cell, value) {
  if (typeof value === "string" && TIME.test(value)) {
    const time = document.createElement("time");
    time.dateTime = value;
    time.title = value;
    time.textContent = age(value);
    cell.replaceChildren(time);
  } else {
    cell.textContent = textOf(value);
  }
}

export function textOf(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}

// Lets the ages grow.
export function showAges(within) {
  for (const time of within.querySelectorAll("time")) {
    const text = age(time.dateTime);
    if (time.textContent !== text) time.textContent = text;
  }
}

function age(time) {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}
