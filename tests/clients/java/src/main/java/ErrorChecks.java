import com.google.gson.reflect.TypeToken;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1Eviction;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.util.Watch;
import java.util.Map;

/** The checks of errors. */
final class ErrorChecks {
  private final ApiClient client;
  private final CoreV1Api core;
  private final Task task;

  ErrorChecks(ApiClient client, Task task) {
    this.client = client;
    this.core = new CoreV1Api(client);
    this.task = task;
  }

  void run() {
    refused("404", 404, "NotFound", this::readMissing);
    refused("409 exists", 409, "AlreadyExists", () -> create("crud", Map.of()));
    refused("409 conflict", 409, "Conflict", this::replaceStale);
    refused("410 page", 410, "Expired", this::continueExpired);
    Runner.check("410 watch", this::watchExpired);
    refused("422", 422, "Invalid", () -> create("invalid", Map.of("not valid", "")));
    refused("429", 429, "TooManyRequests", this::evict);
  }

  private static void refused(String name, int code, String reason, Runner.Action action) {
    Runner.check(name, () -> Runner.refused(code, reason, action));
  }

  private void readMissing() throws ApiException {
    core.readNamespacedConfigMap("missing", task.namespace()).execute();
  }

  private void create(String name, Map<String, String> data) throws ApiException {
    V1ConfigMap made = ObjectChecks.configMap(name, data);
    core.createNamespacedConfigMap(task.namespace(), made).execute();
  }

  private void replaceStale() throws ApiException {
    V1ConfigMap stale = ObjectChecks.configMap("crud", Map.of());
    stale.getMetadata().setResourceVersion("1");
    core.replaceNamespacedConfigMap("crud", task.namespace(), stale).execute();
  }

  private void continueExpired() throws ApiException {
    core.listNamespacedConfigMap(task.pages())
        .limit(task.limit())
        ._continue(task.expiredToken())
        .execute();
  }

  private void watchExpired() throws Exception {
    var call =
        core.listNamespacedConfigMap(task.pages())
            .resourceVersion(task.expiredVersion())
            .watch(true)
            .buildCall(null);
    var type = new TypeToken<Watch.Response<V1ConfigMap>>() {}.getType();
    try (Watch<V1ConfigMap> watch = Watch.createWatch(client, call, type)) {
      Watch.Response<V1ConfigMap> event = watch.next();
      Runner.expect(event.type, "ERROR");
      Runner.expect(event.status.getCode(), 410);
      Runner.expect(event.status.getReason(), "Expired");
    }
  }

  private void evict() throws ApiException {
    var eviction = new V1Eviction().metadata(new V1ObjectMeta().name("guarded"));
    core.createNamespacedPodEviction("guarded", task.namespace(), eviction).execute();
  }
}
