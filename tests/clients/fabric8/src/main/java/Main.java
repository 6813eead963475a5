import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.Version;
import java.io.File;
import java.util.Map;

/** Runs the scenario of ../README.md with fabric8's client. */
public class Main {
  public static void main(String[] arguments) throws Exception {
    Task task = Task.hear();
    Runner.say(Map.of("version", Version.clientVersion()));
    Config config = Config.fromKubeconfig(new File(task.kubeconfig()));
    // The library takes keys to be RSA unless it is told.
    config.setClientKeyAlgo("EC");
    // A request that is refused with 429 would be repeated for minutes.
    config.setRequestRetryBackoffLimit(0);
    try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
      new ObjectChecks(client, task).run();
      new ErrorChecks(client, task).run();
      new Informers(client, task.changes()).follow();
    }
    System.exit(0);
  }
}
