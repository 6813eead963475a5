// The checks of reads and writes.
import assert from 'node:assert/strict';
import {
  AppsV1Api,
  CoreV1Api,
  KubernetesObjectApi,
  PatchStrategy,
  setHeaderOptions,
} from '@kubernetes/client-node';
import { check, refused } from './runner.mjs';

const patchAs = (strategy) => setHeaderOptions('Content-Type', strategy);

export async function checkObjects(config, task) {
  const core = config.makeApiClient(CoreV1Api);
  const { namespace } = task;
  const read = (name) => core.readNamespacedConfigMap({ name, namespace });
  const holds = async (name, data) => assert.deepEqual((await read(name)).data, data);
  const create = (name, data) =>
    core.createNamespacedConfigMap({
      namespace,
      body: { metadata: { name, labels: { app: name } }, data },
    });

  await check('create', async () => {
    assert.deepEqual((await create('crud', { a: '1' })).data, { a: '1' });
  });
  await check('read', () => holds('crud', { a: '1' }));
  await check('list', async () => {
    const list = await core.listNamespacedConfigMap({ namespace, labelSelector: 'app=crud' });
    const versions = list.items.map((item) => item.metadata.resourceVersion);
    assert.deepEqual(versions, [(await read('crud')).metadata.resourceVersion]);
  });
  await check('replace', async () => {
    const body = { ...(await read('crud')), data: { a: '2' } };
    await core.replaceNamespacedConfigMap({ name: 'crud', namespace, body });
    await holds('crud', { a: '2' });
  });
  const patch = async (strategy, body, data) => {
    await core.patchNamespacedConfigMap({ name: 'crud', namespace, body }, patchAs(strategy));
    await holds('crud', data);
  };
  await check('patch json', () =>
    patch(PatchStrategy.JsonPatch, [{ op: 'replace', path: '/data/a', value: '3' }], { a: '3' }),
  );
  await check('patch merge', () =>
    patch(PatchStrategy.MergePatch, { data: { a: null, b: '1' } }, { b: '1' }),
  );
  await check('patch strategic', () => patchStrategic(config, namespace));

  const apply = (fieldManager, force) =>
    core.patchNamespacedConfigMap(
      {
        name: 'applied',
        namespace,
        fieldManager,
        force,
        body: {
          apiVersion: 'v1',
          kind: 'ConfigMap',
          metadata: { name: 'applied' },
          data: { owner: fieldManager },
        },
      },
      patchAs(PatchStrategy.ServerSideApply),
    );
  await check('apply', () => apply('one'));
  await check('apply conflict', () => refused(() => apply('two'), 409, 'Conflict'));
  await check('apply by force', async () => {
    await apply('two', true);
    await holds('applied', { owner: 'two' });
  });
  await check('pages', () => pages(core, task.pages));
  await check('object list', async () => {
    const objects = KubernetesObjectApi.makeApiClient(config);
    const list = await objects.list('v1', 'ConfigMap', task.pages.namespace);
    assert.equal(list.items.length, task.pages.objects);
  });
  await check('delete', async () => {
    await create('deleted', {});
    await core.deleteNamespacedConfigMap({ name: 'deleted', namespace });
    await refused(() => read('deleted'), 404, 'NotFound');
  });
}

async function patchStrategic(config, namespace) {
  const apps = config.makeApiClient(AppsV1Api);
  const labels = { app: 'strategic' };
  const containers = ['a', 'b'].map((name) => ({ name, image: 'example.test/image:1' }));
  const template = { metadata: { labels }, spec: { containers } };
  const spec = { selector: { matchLabels: labels }, template };
  await apps.createNamespacedDeployment({
    namespace,
    body: { metadata: { name: 'strategic' }, spec },
  });
  const change = { name: 'b', image: 'example.test/image:2' };
  const body = { spec: { template: { spec: { containers: [change] } } } };
  await apps.patchNamespacedDeployment(
    { name: 'strategic', namespace, body },
    patchAs(PatchStrategy.StrategicMergePatch),
  );
  const found = await apps.readNamespacedDeployment({ name: 'strategic', namespace });
  const images = found.spec.template.spec.containers.map(({ name, image }) => [name, image]);
  assert.deepEqual(images, [
    ['a', 'example.test/image:1'],
    ['b', 'example.test/image:2'],
  ]);
}

async function pages(core, { namespace, objects, limit }) {
  const names = [];
  let requests = 0;
  let more;
  do {
    const page = await core.listNamespacedConfigMap({ namespace, limit, _continue: more });
    names.push(...page.items.map((item) => item.metadata.name));
    more = page.metadata._continue;
    requests += 1;
  } while (more);
  const expected = Array.from({ length: objects }, (_, n) => `page-${String(n).padStart(2, '0')}`);
  assert.deepEqual(names, expected);
  assert.equal(requests, Math.ceil(objects / limit));
}
