// cli-utils asks the API server as programs that are built on it do (Flux,
// cert-manager): does it have API Priority and Fairness? If not, they limit
// themselves to a few requests a second. Then it makes as many requests as its
// rounds, and its limits are those that follow from the answer.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cli-utils/pkg/flowcontrol"
)

const module = "sigs.k8s.io/cli-utils"

func say(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func check(name string, err error) {
	line := map[string]any{"check": name, "ok": err == nil}
	if err != nil {
		line["detail"] = err.Error()
	}
	say(line)
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == module {
				return dep.Version
			}
		}
	}
	return "unknown"
}

func main() {
	var task struct {
		Kubeconfig string
		Namespace  string
		Rounds     int
	}
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &task)
	}
	if err != nil {
		panic(err)
	}
	say(map[string]any{"version": version()})
	config, err := clientcmd.BuildConfigFromFlags("", task.Kubeconfig)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	enabled, err := flowcontrol.IsEnabled(ctx, config)
	if err == nil && !enabled {
		err = fmt.Errorf("the API server has no flow control")
	}
	check("flow control is found", err)
	if enabled {
		config.QPS = -1
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		panic(err)
	}
	for round := range task.Rounds {
		_, err := client.CoreV1().ConfigMaps(task.Namespace).List(ctx, metav1.ListOptions{})
		check(fmt.Sprintf("list %d", round+1), err)
	}
}
