package main

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// These are the defaults of Prometheus' command line.
const (
	maxSamples = 50_000_000
	timeout    = 2 * time.Minute
	lookback   = 5 * time.Minute
)

type engine struct {
	*promql.Engine
	at  time.Time
	all storage.Queryable
}

func newEngine(at int64, all storage.Queryable) engine {
	options := promql.EngineOpts{
		MaxSamples:           maxSamples,
		Timeout:              timeout,
		LookbackDelta:        lookback,
		EnableAtModifier:     true,
		EnableNegativeOffset: true,
		Parser:               queries,
	}
	return engine{promql.NewEngine(options), time.Unix(at, 0), all}
}

func (e engine) evaluate(query string) result {
	expression, err := queries.ParseExpr(query)
	if err != nil {
		return result{Rows: []row{}, Names: []string{}, Error: err.Error()}
	}
	rows, err := e.rows(query)
	if err != nil {
		return result{Rows: []row{}, Names: names(expression), Error: err.Error()}
	}
	return result{Rows: rows, Names: names(expression)}
}

func (e engine) rows(query string) ([]row, error) {
	ctx := context.Background()
	prepared, err := e.NewInstantQuery(ctx, e.all, nil, query, e.at)
	if err != nil {
		return nil, err
	}
	defer prepared.Close()
	evaluated := prepared.Exec(ctx)
	if evaluated.Err != nil {
		return nil, evaluated.Err
	}
	rows := []row{}
	switch value := evaluated.Value.(type) {
	case promql.Vector:
		for _, sample := range value {
			rows = append(rows, row{sample.Metric.Map(), sample.F})
		}
	case promql.Scalar:
		rows = append(rows, row{map[string]string{}, value.V})
	default:
		return nil, fmt.Errorf("%s is neither a vector nor a number", parser.DocumentedType(evaluated.Value.Type()))
	}
	sort.Slice(rows, func(i, j int) bool {
		return fmt.Sprint(rows[i].Labels) < fmt.Sprint(rows[j].Labels)
	})
	return rows, nil
}
