// A question that is asked again when its answer ends.
import { Refusal } from "./server.js";

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
// After an answer that lasted as long, the pauses begin anew.
const LASTED_MS = 10_000;

// Calls `ask` for events, until `signal` aborts. Throws a refusal that asking again
// would not change. `tell` has `event`, and `pause` for why the answer ended and when
// it is asked again.
export async function follow(ask, signal, tell) {
  let pause = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    let began = 0;
    let why = "The answer has ended.";
    try {
      for await (const event of ask(signal)) {
        if (signal.aborted) return;
        began ||= Date.now();
        tell.event(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal && !error.mayPass) throw error;
      why = error.message;
    }
    if (signal.aborted) return;
    if (began && Date.now() - began > LASTED_MS) pause = FIRST_PAUSE_MS;
    tell.pause(why, pause);
    await passed(pause, signal);
    pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
  }
}

function passed(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const stop = () => {
      clearTimeout(timer);
      resolve();
    };
    signal.addEventListener("abort", stop, { once: true });
  });
}
