import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.util.ClientBuilder;
import io.kubernetes.client.util.KubeConfig;
import java.io.File;
import java.io.FileReader;
import java.nio.file.Path;
import java.util.Map;

/** Runs the scenario of ../README.md with the official Java client. */
public class Main {
  public static void main(String[] arguments) throws Exception {
    Task task = Task.hear();
    Runner.say(Map.of("version", version()));
    KubeConfig config = KubeConfig.loadKubeConfig(new FileReader(task.kubeconfig()));
    config.setFile(new File(task.kubeconfig()));
    ApiClient client = ClientBuilder.kubeconfig(config).build();
    new ObjectChecks(client, task).run();
    new ErrorChecks(client, task).run();
    new Informers(client, task.changes()).follow();
    System.exit(0);
  }

  /** Returns the version by the name of the library's file. */
  private static String version() throws Exception {
    var source = ApiClient.class.getProtectionDomain().getCodeSource().getLocation();
    String file = Path.of(source.toURI()).getFileName().toString();
    return file.replace("client-java-api-", "").replace(".jar", "");
  }
}
