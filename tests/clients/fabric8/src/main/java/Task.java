import java.io.IOException;
import java.util.Map;

/** The first line that the runner says. */
record Task(
    String kubeconfig,
    String namespace,
    String changes,
    String pages,
    int objects,
    int limit,
    String expiredToken,
    String expiredVersion) {

  static Task hear() throws IOException {
    Map<String, Object> line = Runner.hear();
    Map<?, ?> pages = (Map<?, ?>) line.get("pages");
    Map<?, ?> expired = (Map<?, ?>) line.get("expired");
    return new Task(
        (String) line.get("kubeconfig"),
        (String) line.get("namespace"),
        (String) line.get("changes"),
        (String) pages.get("namespace"),
        ((Number) pages.get("objects")).intValue(),
        ((Number) pages.get("limit")).intValue(),
        (String) expired.get("continue"),
        (String) expired.get("resourceVersion"));
  }
}
