import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;

/** What follows the second writer: the library's informers. */
final class Informers {
  /** The longest time that an informer may take for all changes. */
  private static final long PATIENCE_MS = 120_000;

  private final SharedIndexInformer<ConfigMap> informer;
  private final SharedIndexInformer<ConfigMap> paged;

  Informers(KubernetesClient client, String namespace) {
    var maps = client.configMaps().inNamespace(namespace);
    // Without it an informer gives up when the server is gone for long.
    informer = maps.runnableInformer(0).exceptionHandler((isStarted, error) -> true);
    paged = maps.withLimit(7L).runnableInformer(0).exceptionHandler((isStarted, error) -> true);
  }

  void follow() throws Exception {
    informer.run();
    paged.run();
    waitFor("first");
    Runner.say(Map.of("step", "synced"));
    waitFor((String) Runner.hear().get("last"));
    var held = Map.of("informer", contents(informer), "informer by pages", contents(paged));
    Runner.say(Map.of("informers", held));
    informer.stop();
    paged.stop();
  }

  private void waitFor(String name) throws InterruptedException {
    long deadline = System.currentTimeMillis() + PATIENCE_MS;
    while (!(contents(informer).containsKey(name) && contents(paged).containsKey(name))
        && System.currentTimeMillis() < deadline) {
      Thread.sleep(50);
    }
  }

  private static Map<String, String> contents(SharedIndexInformer<ConfigMap> informer) {
    Collection<ConfigMap> objects = informer.getStore().list();
    Map<String, String> contents = new TreeMap<>();
    for (ConfigMap object : objects) {
      var metadata = object.getMetadata();
      contents.put(metadata.getName(), metadata.getResourceVersion());
    }
    return contents;
  }
}
