import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.ConfigMapList;
import io.fabric8.kubernetes.api.model.Container;
import io.fabric8.kubernetes.api.model.ContainerBuilder;
import io.fabric8.kubernetes.api.model.ListOptionsBuilder;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.NonNamespaceOperation;
import io.fabric8.kubernetes.client.dsl.Resource;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/** The checks of reads and writes. */
final class ObjectChecks {
  private final KubernetesClient client;
  private final Task task;
  private final NonNamespaceOperation<ConfigMap, ConfigMapList, Resource<ConfigMap>> maps;

  ObjectChecks(KubernetesClient client, Task task) {
    this.client = client;
    this.task = task;
    this.maps = client.configMaps().inNamespace(task.namespace());
  }

  static ConfigMap configMap(String name, Map<String, String> data) {
    return new ConfigMapBuilder()
        .withNewMetadata()
        .withName(name)
        .addToLabels("app", name)
        .endMetadata()
        .withData(data)
        .build();
  }

  void run() {
    Runner.check("create", this::create);
    Runner.check("read", () -> holds("crud", Map.of("a", "1")));
    Runner.check("list", this::list);
    Runner.check("replace", this::replace);
    String replaced = "[{\"op\":\"replace\",\"path\":\"/data/a\",\"value\":\"3\"}]";
    Runner.check("patch json", () -> patch(PatchType.JSON, replaced, Map.of("a", "3")));
    String merged = "{\"data\":{\"a\":null,\"b\":\"1\"}}";
    Runner.check("patch merge", () -> patch(PatchType.JSON_MERGE, merged, Map.of("b", "1")));
    Runner.check("patch strategic", this::patchStrategic);
    Runner.check("apply", () -> apply("one"));
    Runner.check("apply conflict", this::applyConflict);
    Runner.check("apply by force", this::applyByForce);
    Runner.check("pages", this::pages);
    Runner.check("streaming list", this::streamingList);
    Runner.check("delete", this::delete);
  }

  private void holds(String name, Map<String, String> data) {
    Runner.expect(maps.withName(name).get().getData(), data);
  }

  private void create() {
    ConfigMap made = maps.resource(configMap("crud", Map.of("a", "1"))).create();
    Runner.expect(made.getData(), Map.of("a", "1"));
  }

  private void list() {
    List<ConfigMap> found = maps.withLabel("app", "crud").list().getItems();
    List<String> versions = found.stream().map(m -> m.getMetadata().getResourceVersion()).toList();
    ConfigMap read = maps.withName("crud").get();
    Runner.expect(versions, List.of(read.getMetadata().getResourceVersion()));
  }

  private void replace() {
    ConfigMap changed = maps.withName("crud").get();
    changed.setData(Map.of("a", "2"));
    maps.resource(changed).update();
    holds("crud", Map.of("a", "2"));
  }

  private void patch(PatchType type, String patch, Map<String, String> data) {
    maps.withName("crud").patch(PatchContext.of(type), patch);
    holds("crud", data);
  }

  private void patchStrategic() {
    Map<String, String> labels = Map.of("app", "strategic");
    Deployment made =
        new DeploymentBuilder()
            .withNewMetadata()
            .withName("strategic")
            .endMetadata()
            .withNewSpec()
            .withNewSelector()
            .withMatchLabels(labels)
            .endSelector()
            .withNewTemplate()
            .withNewMetadata()
            .withLabels(labels)
            .endMetadata()
            .withNewSpec()
            .withContainers(container("a"), container("b"))
            .endSpec()
            .endTemplate()
            .endSpec()
            .build();
    var deployments = client.apps().deployments().inNamespace(task.namespace());
    deployments.resource(made).create();
    String patch =
        "{\"spec\":{\"template\":{\"spec\":{\"containers\":"
            + "[{\"name\":\"b\",\"image\":\"example.test/image:2\"}]}}}}";
    deployments.withName("strategic").patch(PatchContext.of(PatchType.STRATEGIC_MERGE), patch);
    Deployment read = deployments.withName("strategic").get();
    List<Container> containers = read.getSpec().getTemplate().getSpec().getContainers();
    List<String> images = containers.stream().map(Container::getImage).toList();
    Runner.expect(images, List.of("example.test/image:1", "example.test/image:2"));
  }

  private static Container container(String name) {
    return new ContainerBuilder().withName(name).withImage("example.test/image:1").build();
  }

  private Resource<ConfigMap> applied(String manager) {
    ConfigMap applied = configMap("applied", Map.of("owner", manager));
    applied.getMetadata().setLabels(null);
    return maps.resource(applied);
  }

  private void apply(String manager) {
    applied(manager).fieldManager(manager).serverSideApply();
    holds("applied", Map.of("owner", manager));
  }

  private void applyConflict() throws Exception {
    var error = Runner.thrown(KubernetesClientException.class, () -> applyTwo());
    Runner.expect(error.getCode(), 409);
    Runner.expect(error.getStatus().getReason(), "Conflict");
  }

  private ConfigMap applyTwo() {
    return applied("two").fieldManager("two").serverSideApply();
  }

  private void applyByForce() {
    applied("two").fieldManager("two").forceConflicts().serverSideApply();
    holds("applied", Map.of("owner", "two"));
  }

  private void pages() {
    List<String> names = new ArrayList<>();
    int requests = 0;
    String more = null;
    do {
      var options =
          new ListOptionsBuilder().withLimit((long) task.limit()).withContinue(more).build();
      ConfigMapList page = client.configMaps().inNamespace(task.pages()).list(options);
      page.getItems().forEach(item -> names.add(item.getMetadata().getName()));
      more = page.getMetadata().getContinue();
      requests += 1;
    } while (more != null && !more.isEmpty());
    Runner.expect(names, expectedNames());
    Runner.expect(requests, (task.objects() + task.limit() - 1) / task.limit());
  }

  private List<String> expectedNames() {
    return IntStream.range(0, task.objects()).mapToObj(n -> "page-%02d".formatted(n)).toList();
  }

  private void streamingList() throws Exception {
    var names = new ConcurrentLinkedQueue<String>();
    client
        .configMaps()
        .inNamespace(task.pages())
        .streamingList(item -> names.add(item.getMetadata().getName()))
        .get(1, TimeUnit.MINUTES);
    Runner.expect(names.stream().sorted().toList(), expectedNames());
  }

  private void delete() {
    maps.resource(configMap("deleted", Map.of())).create();
    maps.withName("deleted").delete();
    Runner.expect(maps.withName("deleted").get(), null);
  }
}
