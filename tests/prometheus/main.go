// Command prometheus evaluates metrics, queries and rules as Prometheus does:
// with its parser of the text format, its PromQL engine and its checks of rule
// files, without a server or a database. It reads one JSON document, the
// question, and writes another, the answer.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

type question struct {
	Scrapes []scrape `json:"scrapes"`
	// At is the time at which queries and rules are evaluated, in seconds.
	At      int64    `json:"at"`
	Queries []string `json:"queries"`
	// Rules is a rule file.
	Rules string `json:"rules"`
}

type answer struct {
	Queries []result     `json:"queries"`
	Rules   []ruleResult `json:"rules"`
	// Errors describe what is wrong with the scrapes and the rule file.
	Errors []string `json:"errors"`
}

// result is the result of a query. Its rows are sorted.
type result struct {
	Rows []row `json:"rows"`
	// Names are the names of the metrics that the query selects.
	Names []string `json:"names"`
	Error string   `json:"error"`
}

type row struct {
	Labels map[string]string
	Value  float64
}

// MarshalJSON writes the value as text: JSON has no NaN.
func (r row) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"labels": r.Labels,
		"value":  strconv.FormatFloat(r.Value, 'g', -1, 64),
	})
}

type ruleResult struct {
	Record string `json:"record"`
	Alert  string `json:"alert"`
	result
}

var queries = parser.NewParser(parser.Options{})

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		fmt.Fprintln(os.Stderr, "question:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(ask(asked)); err != nil {
		fmt.Fprintln(os.Stderr, "answer:", err)
		os.Exit(1)
	}
}

func ask(asked question) answer {
	said := answer{Queries: []result{}, Rules: []ruleResult{}, Errors: []string{}}
	all := series{}
	for _, scrape := range asked.Scrapes {
		if err := all.add(scrape); err != nil {
			said.Errors = append(said.Errors, err.Error())
		}
	}
	engine := newEngine(asked.At, all)
	for _, query := range asked.Queries {
		said.Queries = append(said.Queries, engine.evaluate(query))
	}
	if asked.Rules == "" {
		return said
	}
	groups, errs := rulefmt.Parse([]byte(asked.Rules), false, model.LegacyValidation, queries, promslog.NewNopLogger())
	for _, err := range errs {
		said.Errors = append(said.Errors, err.Error())
	}
	if groups == nil {
		return said
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			found := engine.evaluate(rule.Expr)
			if rule.Record != "" {
				// Later rules read what earlier ones recorded.
				all.record(rule, found.Rows, asked.At)
			}
			said.Rules = append(said.Rules, ruleResult{rule.Record, rule.Alert, found})
		}
	}
	return said
}

// names returns the names of the metrics that an expression selects.
func names(expression parser.Expr) []string {
	found := map[string]bool{}
	for _, selector := range parser.ExtractSelectors(expression) {
		for _, matcher := range selector {
			if matcher.Name == labels.MetricName && matcher.Type == labels.MatchEqual {
				found[matcher.Value] = true
			}
		}
	}
	sorted := []string{}
	for name := range found {
		sorted = append(sorted, name)
	}
	sort.Strings(sorted)
	return sorted
}
