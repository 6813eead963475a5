import io.kubernetes.client.custom.V1Patch;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.apis.AppsV1Api;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ConfigMapList;
import io.kubernetes.client.openapi.models.V1Container;
import io.kubernetes.client.openapi.models.V1Deployment;
import io.kubernetes.client.openapi.models.V1DeploymentSpec;
import io.kubernetes.client.openapi.models.V1LabelSelector;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.openapi.models.V1PodSpec;
import io.kubernetes.client.openapi.models.V1PodTemplateSpec;
import io.kubernetes.client.util.PatchUtils;
import io.kubernetes.client.util.generic.GenericKubernetesApi;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** The checks of reads and writes. */
final class ObjectChecks {
  private final ApiClient client;
  private final CoreV1Api core;
  private final Task task;
  private final String namespace;

  ObjectChecks(ApiClient client, Task task) {
    this.client = client;
    this.core = new CoreV1Api(client);
    this.task = task;
    this.namespace = task.namespace();
  }

  static V1ConfigMap configMap(String name, Map<String, String> data) {
    var metadata = new V1ObjectMeta().name(name).putLabelsItem("app", name);
    return new V1ConfigMap().metadata(metadata).data(data);
  }

  void run() {
    Runner.check("create", this::create);
    Runner.check("read", () -> holds("crud", Map.of("a", "1")));
    Runner.check("list", this::list);
    Runner.check("replace", this::replace);
    String replaced = "[{\"op\":\"replace\",\"path\":\"/data/a\",\"value\":\"3\"}]";
    Runner.check(
        "patch json", () -> patch(V1Patch.PATCH_FORMAT_JSON_PATCH, replaced, Map.of("a", "3")));
    String merged = "{\"data\":{\"a\":null,\"b\":\"1\"}}";
    Runner.check(
        "patch merge", () -> patch(V1Patch.PATCH_FORMAT_JSON_MERGE_PATCH, merged, Map.of("b", "1")));
    Runner.check("patch strategic", this::patchStrategic);
    Runner.check("apply", () -> apply("one", null));
    Runner.check(
        "apply conflict", () -> Runner.refused(409, "Conflict", () -> apply("two", null)));
    Runner.check("apply by force", () -> apply("two", true));
    Runner.check("pages", this::pages);
    Runner.check("generic list", this::genericList);
    Runner.check("delete", this::delete);
  }

  private V1ConfigMap read(String name) throws ApiException {
    return core.readNamespacedConfigMap(name, namespace).execute();
  }

  private void holds(String name, Map<String, String> data) throws ApiException {
    Runner.expect(read(name).getData(), data);
  }

  private void create() throws ApiException {
    V1ConfigMap made = configMap("crud", Map.of("a", "1"));
    made = core.createNamespacedConfigMap(namespace, made).execute();
    Runner.expect(made.getData(), Map.of("a", "1"));
  }

  private void list() throws ApiException {
    V1ConfigMapList found =
        core.listNamespacedConfigMap(namespace).labelSelector("app=crud").execute();
    var versions = found.getItems().stream().map(m -> m.getMetadata().getResourceVersion());
    Runner.expect(versions.toList(), List.of(read("crud").getMetadata().getResourceVersion()));
  }

  private void replace() throws ApiException {
    V1ConfigMap changed = read("crud").data(Map.of("a", "2"));
    core.replaceNamespacedConfigMap("crud", namespace, changed).execute();
    holds("crud", Map.of("a", "2"));
  }

  private void patch(String format, String patch, Map<String, String> data) throws ApiException {
    var request = core.patchNamespacedConfigMap("crud", namespace, new V1Patch(patch));
    PatchUtils.patch(V1ConfigMap.class, () -> request.buildCall(null), format, client);
    holds("crud", data);
  }

  private void apply(String manager, Boolean force) throws ApiException {
    String applied =
        """
        {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"owner":"%s"}}"""
            .formatted(manager);
    var request =
        core.patchNamespacedConfigMap("applied", namespace, new V1Patch(applied))
            .fieldManager(manager)
            .force(force);
    PatchUtils.patch(
        V1ConfigMap.class,
        () -> request.buildCall(null),
        V1Patch.PATCH_FORMAT_APPLY_YAML,
        client);
    holds("applied", Map.of("owner", manager));
  }

  private void patchStrategic() throws ApiException {
    AppsV1Api apps = new AppsV1Api(client);
    Map<String, String> labels = Map.of("app", "strategic");
    var template =
        new V1PodTemplateSpec()
            .metadata(new V1ObjectMeta().labels(labels))
            .spec(new V1PodSpec().containers(List.of(container("a"), container("b"))));
    var spec =
        new V1DeploymentSpec()
            .selector(new V1LabelSelector().matchLabels(labels))
            .template(template);
    var made = new V1Deployment().metadata(new V1ObjectMeta().name("strategic")).spec(spec);
    apps.createNamespacedDeployment(namespace, made).execute();
    String patch =
        "{\"spec\":{\"template\":{\"spec\":{\"containers\":"
            + "[{\"name\":\"b\",\"image\":\"example.test/image:2\"}]}}}}";
    var request = apps.patchNamespacedDeployment("strategic", namespace, new V1Patch(patch));
    PatchUtils.patch(
        V1Deployment.class,
        () -> request.buildCall(null),
        V1Patch.PATCH_FORMAT_STRATEGIC_MERGE_PATCH,
        client);
    V1Deployment read = apps.readNamespacedDeployment("strategic", namespace).execute();
    List<V1Container> containers = read.getSpec().getTemplate().getSpec().getContainers();
    List<String> images = containers.stream().map(V1Container::getImage).toList();
    Runner.expect(images, List.of("example.test/image:1", "example.test/image:2"));
  }

  private static V1Container container(String name) {
    return new V1Container().name(name).image("example.test/image:1");
  }

  private void pages() throws ApiException {
    List<String> names = new ArrayList<>();
    int requests = 0;
    String more = null;
    do {
      V1ConfigMapList page =
          core.listNamespacedConfigMap(task.pages()).limit(task.limit())._continue(more).execute();
      page.getItems().forEach(item -> names.add(item.getMetadata().getName()));
      more = page.getMetadata().getContinue();
      requests += 1;
    } while (more != null && !more.isEmpty());
    var expected = IntStream.range(0, task.objects()).mapToObj(n -> "page-%02d".formatted(n));
    Runner.expect(names, expected.toList());
    Runner.expect(requests, (task.objects() + task.limit() - 1) / task.limit());
  }

  private void genericList() {
    var maps =
        new GenericKubernetesApi<>(
            V1ConfigMap.class, V1ConfigMapList.class, "", "v1", "configmaps", client);
    Runner.expect(maps.list(task.pages()).getObject().getItems().size(), task.objects());
  }

  private void delete() throws Exception {
    core.createNamespacedConfigMap(namespace, configMap("deleted", Map.of())).execute();
    core.deleteNamespacedConfigMap("deleted", namespace).execute();
    Runner.refused(404, "NotFound", () -> read("deleted"));
  }
}
