// node driver.mjs CHROMIUM: opens a page for a test that is written in another language.
// A line of the input is {"member", "parameters"}, with a method or a property of Page; a
// line of the output is {"result"} or {"error"}. It ends with its input.
import { createInterface } from "node:readline";
import { Browser } from "./devtools.mjs";

const browser = await Browser.start(process.argv[2]);
try {
  const page = await browser.openPage();
  const valueOf = (member, parameters) =>
    typeof page[member] === "function" ? page[member](...parameters) : page[member];
  for await (const line of createInterface({ input: process.stdin })) {
    const { member, parameters } = JSON.parse(line);
    let answer;
    try {
      answer = { result: (await valueOf(member, parameters)) ?? null };
    } catch (error) {
      answer = { error: error.message };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
} finally {
  await browser.stop();
}
process.exit(0);
