// Gives an element these children, in this order. What is in its place already stays as
// it is, and the focus stays where it is.
export function arrange(parent, wanted) {
  const focused = document.activeElement;
  const kept = new Set(wanted);
  for (const child of [...parent.children]) {
    if (!kept.has(child)) child.remove();
  }
  wanted.forEach((child, at) => {
    const there = parent.children[at] ?? null;
    if (there !== child) parent.insertBefore(child, there);
  });
  if (focused !== document.activeElement && parent.contains(focused)) focused.focus();
}
