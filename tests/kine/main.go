// Command kine runs kine, which stores what kube-apiserver writes in place of
// etcd, and beside it etcd's JSON gateway, which kine lacks and the suites use
// to read and to compact the store.
//
//	kine GATEWAY-ADDRESS KINE-ADDRESS KINE-FLAG ...
//
// kine listens at KINE-ADDRESS, which its own flags must name too. k3s builds
// kine with cgo; without cgo kine uses a sqlite that is written in Go.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/k3s-io/kine/pkg/app"
	"go.etcd.io/etcd/api/v3/etcdserverpb/gw"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
)

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: kine GATEWAY-ADDRESS KINE-ADDRESS KINE-FLAG ...")
	}
	gateway, kine := os.Args[1], os.Args[2]
	go func() { log.Fatal(serve(gateway, kine)) }()
	arguments := append([]string{"kine"}, os.Args[3:]...)
	if err := app.New().Run(arguments); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// serve answers etcd's JSON requests at one address by asking kine at another.
func serve(address, kine string) error {
	connection, err := grpc.NewClient(kine, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	// The names of fields are written as etcd's own gateway writes them.
	marshaler := &runtime.HTTPBodyMarshaler{Marshaler: &runtime.JSONPb{
		MarshalOptions:   protojson.MarshalOptions{UseProtoNames: true},
		UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: true},
	}}
	requests := runtime.NewServeMux(runtime.WithMarshalerOption(runtime.MIMEWildcard, marshaler))
	for _, register := range []func(context.Context, *runtime.ServeMux, *grpc.ClientConn) error{
		gw.RegisterKVHandler,
		gw.RegisterWatchHandler,
	} {
		if err := register(context.Background(), requests, connection); err != nil {
			return err
		}
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// kine ends a watch when its requests end, and etcd does not.
		if r.URL.Path == "/v3/watch" {
			r.Body = io.NopCloser(io.MultiReader(r.Body, silence{r.Context()}))
		}
		requests.ServeHTTP(w, r)
	})
	server := http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

// silence is a body without bytes that ends with its request.
type silence struct{ request context.Context }

func (s silence) Read([]byte) (int, error) {
	<-s.request.Done()
	return 0, io.EOF
}
