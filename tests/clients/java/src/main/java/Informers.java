import io.kubernetes.client.informer.SharedIndexInformer;
import io.kubernetes.client.informer.SharedInformerFactory;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ConfigMapList;
import io.kubernetes.client.util.generic.GenericKubernetesApi;
import java.util.Map;
import java.util.TreeMap;

/** What follows the second writer: the library's informer. */
final class Informers {
  /** The longest time that the informer may take for all changes. */
  private static final long PATIENCE_MS = 120_000;

  private final SharedInformerFactory factory;
  private final SharedIndexInformer<V1ConfigMap> informer;

  Informers(ApiClient client, String namespace) {
    factory = new SharedInformerFactory(client);
    var maps =
        new GenericKubernetesApi<>(
            V1ConfigMap.class, V1ConfigMapList.class, "", "v1", "configmaps", client);
    informer = factory.sharedIndexInformerFor(maps, V1ConfigMap.class, 0, namespace);
  }

  void follow() throws Exception {
    factory.startAllRegisteredInformers();
    waitFor("first");
    Runner.say(Map.of("step", "synced"));
    waitFor((String) Runner.hear().get("last"));
    Runner.say(Map.of("informers", Map.of("informer", contents())));
  }

  private void waitFor(String name) throws InterruptedException {
    long deadline = System.currentTimeMillis() + PATIENCE_MS;
    while (!contents().containsKey(name) && System.currentTimeMillis() < deadline) {
      Thread.sleep(50);
    }
  }

  private Map<String, String> contents() {
    Map<String, String> contents = new TreeMap<>();
    for (V1ConfigMap object : informer.getIndexer().list()) {
      var metadata = object.getMetadata();
      contents.put(metadata.getName(), metadata.getResourceVersion());
    }
    return contents;
  }
}
