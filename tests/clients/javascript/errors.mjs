// The checks of errors.
import assert from 'node:assert/strict';
import { CoreV1Api, Watch } from '@kubernetes/client-node';
import { check, refused } from './runner.mjs';

export async function checkErrors(config, task) {
  const core = config.makeApiClient(CoreV1Api);
  const { namespace, pages, expired } = task;
  const create = (name, data) =>
    core.createNamespacedConfigMap({ namespace, body: { metadata: { name }, data } });
  const asked = [
    ['404', 404, 'NotFound', () => core.readNamespacedConfigMap({ name: 'missing', namespace })],
    ['409 exists', 409, 'AlreadyExists', () => create('crud', {})],
    ['409 conflict', 409, 'Conflict', () =>
      core.replaceNamespacedConfigMap({
        name: 'crud',
        namespace,
        body: { metadata: { name: 'crud', resourceVersion: '1' } },
      })],
    ['410 page', 410, 'Expired', () =>
      core.listNamespacedConfigMap({
        namespace: pages.namespace,
        limit: pages.limit,
        _continue: expired.continue,
      })],
    ['422', 422, 'Invalid', () => create('invalid', { 'not valid': '' })],
    ['429', 429, 'TooManyRequests', () =>
      core.createNamespacedPodEviction({
        name: 'guarded',
        namespace,
        body: { metadata: { name: 'guarded' } },
      })],
  ];
  for (const [name, code, reason, ask] of asked) {
    await check(name, () => refused(ask, code, reason));
  }
  await check('410 watch', () => watchExpired(config, pages.namespace, expired.resourceVersion));
}

/** The library passes the error on as the object of an event. */
async function watchExpired(config, namespace, resourceVersion) {
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const heard = await new Promise((resolve, reject) => {
    const watch = new Watch(config);
    const each = (phase, object) => resolve([phase, object.code, object.reason]);
    watch.watch(path, { resourceVersion }, each, reject).catch(reject);
  });
  assert.deepEqual(heard, ['ERROR', 410, 'Expired']);
}
