// Runs the scenario of ../README.md with the official JavaScript client.
import { readFileSync } from 'node:fs';
import { KubeConfig } from '@kubernetes/client-node';
import { checkErrors } from './errors.mjs';
import { follow } from './informers.mjs';
import { checkObjects } from './objects.mjs';
import { hear, say } from './runner.mjs';

const task = await hear();
const manifest = new URL('node_modules/@kubernetes/client-node/package.json', import.meta.url);
say({ version: JSON.parse(readFileSync(manifest)).version });
const config = new KubeConfig();
config.loadFromFile(task.kubeconfig);
await checkObjects(config, task);
await checkErrors(config, task);
await follow(config, task.changes);
process.exit(0);
