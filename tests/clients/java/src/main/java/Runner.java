import com.google.gson.Gson;
import com.google.gson.JsonObject;
import io.kubernetes.client.openapi.ApiException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Objects;

/** The lines of JSON that this program and the runner say to each other. */
final class Runner {
  private static final BufferedReader LINES =
      new BufferedReader(new InputStreamReader(System.in));
  private static final Gson JSON = new Gson();

  private Runner() {}

  @SuppressWarnings("unchecked")
  static Map<String, Object> hear() throws IOException {
    return JSON.fromJson(LINES.readLine(), Map.class);
  }

  static void say(Map<String, ?> line) {
    System.out.println(JSON.toJson(line));
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

  /** Expects the library's exception with this code and reason. */
  static void refused(int code, String reason, Action action) throws Exception {
    try {
      action.run();
    } catch (ApiException error) {
      expect(error.getCode(), code);
      JsonObject status = JSON.fromJson(error.getResponseBody(), JsonObject.class);
      expect(status.get("reason").getAsString(), reason);
      return;
    }
    throw new AssertionError("no error " + code);
  }
}
