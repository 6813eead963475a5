// What follows the second writer: the library's informer.
import { setTimeout as sleep } from 'node:timers/promises';
import { CoreV1Api, makeInformer } from '@kubernetes/client-node';
import { hear, say } from './runner.mjs';

// The longest time that the informer may take for all changes.
const PATIENCE_MS = 120_000;

export async function follow(config, namespace) {
  const core = config.makeApiClient(CoreV1Api);
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const informer = makeInformer(config, path, () => core.listNamespacedConfigMap({ namespace }));
  // The informer stops at an error: whoever uses it starts it again.
  informer.on('error', async () => {
    await sleep(200);
    await informer.start();
  });
  await informer.start();
  say({ step: 'synced' });
  const { last } = await hear();
  const deadline = Date.now() + PATIENCE_MS;
  while (!informer.get(last, namespace) && Date.now() < deadline) {
    await sleep(50);
  }
  const held = informer.list(namespace).map(({ metadata }) => [
    metadata.name,
    metadata.resourceVersion,
  ]);
  say({ informers: { informer: Object.fromEntries(held) } });
}
