package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
)

// Task is the first line that the runner says.
type task struct {
	Kubeconfig string `json:"kubeconfig"`
	Namespace  string `json:"namespace"`
	Changes    string `json:"changes"`
	Pages      struct {
		Namespace string `json:"namespace"`
		Objects   int    `json:"objects"`
		Limit     int64  `json:"limit"`
	} `json:"pages"`
	Expired struct {
		Continue        string `json:"continue"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"expired"`
}

var lines = bufio.NewReader(os.Stdin)

// Hear reads the next line that the runner says.
func hear(into any) {
	line, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, into)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the runner:", err)
		os.Exit(1)
	}
}

func say(line any) {
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		os.Exit(1)
	}
}

// Check makes a check, which fails if the action does.
func check(name string, action func() error) {
	detail := ""
	if err := action(); err != nil {
		detail = err.Error()
	}
	say(map[string]any{"check": name, "ok": detail == "", "detail": detail})
}

func expect(actual, expected any) error {
	if !reflect.DeepEqual(actual, expected) {
		return fmt.Errorf("%v is not %v", actual, expected)
	}
	return nil
}
