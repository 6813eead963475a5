import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapList;
import io.fabric8.kubernetes.api.model.ListOptionsBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.ResourceNotFoundException;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.NonNamespaceOperation;
import io.fabric8.kubernetes.client.dsl.Resource;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The checks of errors. */
final class ErrorChecks {
  private final KubernetesClient client;
  private final Task task;
  private final NonNamespaceOperation<ConfigMap, ConfigMapList, Resource<ConfigMap>> maps;
  private final NonNamespaceOperation<ConfigMap, ConfigMapList, Resource<ConfigMap>> paged;

  ErrorChecks(KubernetesClient client, Task task) {
    this.client = client;
    this.task = task;
    this.maps = client.configMaps().inNamespace(task.namespace());
    this.paged = client.configMaps().inNamespace(task.pages());
  }

  void run() {
    Runner.check("404", this::missing);
    refused("409 exists", 409, "AlreadyExists", () -> create("crud", Map.of()));
    refused("409 conflict", 409, "Conflict", this::replaceStale);
    refused("410 page", 410, "Expired", this::continueExpired);
    Runner.check("410 watch", this::watchExpired);
    refused("422", 422, "Invalid", () -> create("invalid", Map.of("not valid", "")));
    Runner.check("429", this::evict);
  }

  private void missing() throws Exception {
    Resource<ConfigMap> missing = maps.withName("missing");
    Runner.expect(missing.get(), null);
    Runner.thrown(ResourceNotFoundException.class, missing::require);
  }

  private ConfigMap create(String name, Map<String, String> data) {
    return maps.resource(ObjectChecks.configMap(name, data)).create();
  }

  private ConfigMap replaceStale() {
    ConfigMap stale = ObjectChecks.configMap("crud", Map.of());
    stale.getMetadata().setResourceVersion("1");
    return maps.resource(stale).update();
  }

  private ConfigMapList continueExpired() {
    return paged.list(
        new ListOptionsBuilder()
            .withLimit((long) task.limit())
            .withContinue(task.expiredToken())
            .build());
  }

  private void watchExpired() throws Exception {
    var closed = new CompletableFuture<Boolean>();
    var watcher =
        new Watcher<ConfigMap>() {
          @Override
          public void eventReceived(Action action, ConfigMap object) {
            closed.completeExceptionally(new AssertionError("an event: " + action));
          }

          @Override
          public void onClose(WatcherException cause) {
            closed.complete(cause != null && cause.isHttpGone());
          }
        };
    var options = new ListOptionsBuilder().withResourceVersion(task.expiredVersion()).build();
    try (var watch = paged.watch(options, watcher)) {
      Runner.expect(closed.get(1, TimeUnit.MINUTES), true);
    }
  }

  /** The library says by false that an eviction is refused with 429. */
  private void evict() {
    var guarded = client.pods().inNamespace(task.namespace()).withName("guarded");
    Runner.expect(guarded.evict(), false);
    Runner.expect(guarded.get().getStatus().getPhase(), "Running");
  }

  private static void refused(String name, int code, String reason, Callable<?> action) {
    Runner.check(
        name,
        () -> {
          var error = Runner.thrown(KubernetesClientException.class, action);
          Runner.expect(error.getCode(), code);
          Runner.expect(error.getStatus().getReason(), reason);
        });
  }
}
