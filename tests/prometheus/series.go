package main

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// scrape is a target's answer to GET /metrics.
type scrape struct {
	// At is the time of the scrape in seconds.
	At int64 `json:"at"`
	// Labels are the labels of the target.
	Labels map[string]string `json:"labels"`
	Text   string            `json:"text"`
}

// series holds all samples in memory, by the text of their labels.
type series map[string]*oneSeries

type oneSeries struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func (s series) append(to labels.Labels, at int64, value float64) {
	key := to.String()
	if s[key] == nil {
		s[key] = &oneSeries{labels: to}
	}
	s[key].samples = append(s[key].samples, sample{at * 1000, value})
}

// add parses a scrape as Prometheus does.
func (s series) add(scraped scrape) error {
	parser, err := textparse.New([]byte(scraped.Text), "text/plain; version=0.0.4", nil, textparse.ParserOptions{})
	if err != nil {
		return err
	}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not the text format: %w", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var own labels.Labels
		parser.Labels(&own)
		_, _, value := parser.Series()
		all := labels.NewBuilder(own)
		for name, value := range scraped.Labels {
			all.Set(name, value)
		}
		s.append(all.Labels(), scraped.At, value)
	}
}

func (s series) record(rule rulefmt.Rule, rows []row, at int64) {
	for _, row := range rows {
		all := labels.NewBuilder(labels.FromMap(row.Labels)).Set(labels.MetricName, rule.Record)
		for name, value := range rule.Labels {
			all.Set(name, value)
		}
		s.append(all.Labels(), at, row.Value)
	}
}

func (s series) Querier(mint, maxt int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		var found []*oneSeries
		for _, one := range s {
			if matches(one.labels, matchers) {
				found = append(found, one)
			}
		}
		sort.Slice(found, func(i, j int) bool { return labels.Compare(found[i].labels, found[j].labels) < 0 })
		var set []storage.Series
		for _, one := range found {
			var within []chunks.Sample
			for _, sample := range one.samples {
				if sample.T() >= mint && sample.T() <= maxt {
					within = append(within, sample)
				}
			}
			set = append(set, storage.NewListSeries(one.labels, within))
		}
		return &seriesSet{series: set}
	}}, nil
}

func matches(of labels.Labels, matchers []*labels.Matcher) bool {
	for _, matcher := range matchers {
		if !matcher.Matches(of.Get(matcher.Name)) {
			return false
		}
	}
	return true
}

type seriesSet struct {
	series  []storage.Series
	current storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.series) == 0 {
		return false
	}
	s.current, s.series = s.series[0], s.series[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.current }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
