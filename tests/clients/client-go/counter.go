package main

import (
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// Counter counts the watches that begin with the state.
type counter struct{ watchLists atomic.Int64 }

func (c *counter) count(config *rest.Config) *rest.Config {
	counted := rest.CopyConfig(config)
	counted.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			asked := request.URL.Query().Get("sendInitialEvents") == "true"
			if asked && err == nil && response.StatusCode == http.StatusOK {
				c.watchLists.Add(1)
			}
			return response, err
		})
	}
	return counted
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
