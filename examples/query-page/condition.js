// Conditions: texts in CEL.

// A path that begins at the object.
const PATH = /^object(\.[A-Za-z_]\w*)+$/;

// Returns the condition that an expression has a value, or null if that cannot be said.
export function equals(expression, value) {
  const operand = PATH.test(expression) ? expression : `(${expression})`;
  if (value === null) {
    const steps = expression.split(".").join(".?");
    return PATH.test(expression) ? `!${steps}.hasValue()` : null;
  }
  // JSON's texts, numbers, booleans, lists and maps are written alike in CEL.
  return `${operand} == ${JSON.stringify(value)}`;
}

export function both(condition, other) {
  if (condition.trim() === "") return other;
  // Everything but these binds more tightly than &&.
  const isLoose = /\|\||\?/.test(condition);
  return `${isLoose ? `(${condition})` : condition} && ${other}`;
}
