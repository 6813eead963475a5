import io.fabric8.kubernetes.client.utils.KubernetesSerialization;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;

/** The lines of JSON that this program and the runner say to each other. */
final class Runner {
  private static final BufferedReader LINES =
      new BufferedReader(new InputStreamReader(System.in));
  private static final KubernetesSerialization JSON = new KubernetesSerialization();

  private Runner() {}

  @SuppressWarnings("unchecked")
  static Map<String, Object> hear() throws IOException {
    return JSON.unmarshal(LINES.readLine(), Map.class);
  }

  static void say(Map<String, ?> line) {
    System.out.println(JSON.asJson(line));
    System.out.flush();
  }

  /** A part of the scenario. */
  interface Action {
    void run() throws Exception;
  }

  /** Makes a check, which fails if the action throws anything. */
  static void check(String name, Action action) {
    String detail = "";
    try {
      action.run();
    } catch (Exception | AssertionError error) {
      error.printStackTrace();
      detail = error.toString();
    }
    say(Map.of("check", name, "ok", detail.isEmpty(), "detail", detail));
  }

  static void expect(Object actual, Object expected) {
    if (!Objects.equals(actual, expected)) {
      throw new AssertionError(actual + " is not " + expected);
    }
  }

  /** Returns the exception of this type that the action throws. */
  static <E extends Exception> E thrown(Class<E> type, Callable<?> action) throws Exception {
    Object answer;
    try {
      answer = action.call();
    } catch (Exception error) {
      if (type.isInstance(error)) {
        return type.cast(error);
      }
      throw error;
    }
    throw new AssertionError("no error, but " + answer);
  }
}
