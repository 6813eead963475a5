package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// Counts are what the clients of a group did.
type counts struct {
	// The calls of the library, and those that ended with an error.
	calls, failed int
	// The reads that were older than a write that ended before them.
	stale int
	// Requests of informers.
	lists, watches, watchLists int
	// The longest call.
	longest time.Duration
	// The requests of the library that failed, by cause. It repeats most of them.
	attempts map[string]int
	// The calls that failed, by cause.
	failures map[string]int
}

// Tally counts for one group of clients, since the last report and in all.
type tally struct {
	name       string
	lock       sync.Mutex
	since, sum counts
}

func newTally(name string) *tally { return &tally{name: name} }

func (t *tally) add(change func(*counts)) {
	t.lock.Lock()
	defer t.lock.Unlock()
	for _, c := range []*counts{&t.since, &t.sum} {
		if c.attempts == nil {
			c.attempts, c.failures = map[string]int{}, map[string]int{}
		}
		change(c)
	}
}

// Forget begins anew.
func (t *tally) forget() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.since, t.sum = counts{}, counts{}
}

// Call counts a call of the library.
func (t *tally) call(began time.Time, err error) {
	took := time.Since(began)
	t.add(func(c *counts) {
		c.calls++
		c.longest = max(c.longest, took)
		if err != nil {
			c.failed++
			c.failures[cause(err)]++
		}
	})
}

func (c counts) print(heading, name string) {
	fmt.Printf("%s %s", heading, name)
	if name == "informers" {
		fmt.Printf(" lists=%d watch_lists=%d watches=%d", c.lists, c.watchLists, c.watches)
	} else {
		fmt.Printf(" calls=%d failed=%d stale=%d longest_ms=%d", c.calls, c.failed, c.stale, c.longest.Milliseconds())
	}
	fmt.Printf(" attempts_failed=%s failures=%s\n", causes(c.attempts), causes(c.failures))
}

func causes(of map[string]int) string {
	if len(of) == 0 {
		return "none"
	}
	var all []string
	for _, cause := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s:%d", cause, of[cause]))
	}
	return strings.Join(all, ",")
}

// Cause is a short word for an error.
func cause(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case strings.Contains(text, "GOAWAY"):
		return "goaway"
	case strings.Contains(text, "http2: client connection lost"), strings.Contains(text, "client connection force closed"):
		return "lost"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(text, "EOF"):
		return "eof"
	case errors.Is(err, net.ErrClosed):
		return "closed"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == ',' {
			return '_'
		}
		return r
	}, text[:min(len(text), 160)])
}

type groups struct{ informers, writer, readers, newcomers *tally }

func (g groups) each() []*tally { return []*tally{g.informers, g.writer, g.readers, g.newcomers} }

func (g groups) report(name string) {
	for _, tally := range g.each() {
		tally.lock.Lock()
		tally.since.print(name, tally.name)
		tally.since = counts{}
		tally.lock.Unlock()
	}
	fmt.Println("reported", name)
}

func (g groups) total() {
	for _, tally := range g.each() {
		tally.lock.Lock()
		tally.sum.print("total", tally.name)
		tally.lock.Unlock()
	}
}

// Alone gives a client a connection of its own, and counts its requests.
func alone(config *rest.Config, tally *tally) *rest.Config {
	own := rest.CopyConfig(config)
	// Clients with equal functions share connections.
	own.Dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	own.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return counting{next, tally} }
	return own
}

// Counting counts the requests on their way.
type counting struct {
	next  http.RoundTripper
	tally *tally
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	c.tally.add(func(counts *counts) {
		switch {
		case query.Get("sendInitialEvents") == "true":
			counts.watchLists++
		case query.Get("watch") == "true":
			counts.watches++
		default:
			counts.lists++
		}
	})
	response, err := c.next.RoundTrip(request)
	switch {
	case request.Context().Err() != nil:
	case err != nil:
		c.tally.add(func(counts *counts) { counts.attempts[cause(err)]++ })
	case response.StatusCode >= http.StatusBadRequest:
		c.tally.add(func(counts *counts) { counts.attempts[fmt.Sprint(response.StatusCode)]++ })
	}
	return response, err
}
