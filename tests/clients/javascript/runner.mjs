// The lines of JSON that this program and the runner say to each other.
import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';
import { ApiException } from '@kubernetes/client-node';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export async function hear() {
  return JSON.parse((await lines.next()).value);
}

export function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Makes a check, which fails if the action throws anything. */
export async function check(name, action) {
  try {
    await action();
    say({ check: name, ok: true });
  } catch (error) {
    console.error(name, error);
    say({ check: name, ok: false, detail: String(error) });
  }
}

/** Expects the library's error with this code and reason. */
export async function refused(action, code, reason) {
  try {
    await action();
  } catch (error) {
    assert(error instanceof ApiException, error);
    assert.equal(error.code, code);
    const status = typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
    assert.equal(status.reason, reason);
    return;
  }
  assert.fail(`no error ${code}`);
}
