package main

import (
	"context"
	"fmt"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Elect lets two candidates ask for one lease. The second must lead when the
// first one stops, and not before.
func elect(ctx context.Context, client kubernetes.Interface, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	leads := make(chan string, 2)
	candidate := func(ctx context.Context, name string) *leaderelection.LeaderElector {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  meta.ObjectMeta{Namespace: namespace, Name: "election"},
				Client:     client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			},
			// Longer than the runner's machine may stand still.
			LeaseDuration:   20 * time.Second,
			RenewDeadline:   15 * time.Second,
			RetryPeriod:     200 * time.Millisecond,
			ReleaseOnCancel: true,
			Name:            name,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leads <- name },
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			panic(err)
		}
		go elector.Run(ctx)
		return elector
	}
	next := func() (string, error) {
		select {
		case name := <-leads:
			return name, nil
		case <-ctx.Done():
			return "", fmt.Errorf("nobody leads")
		}
	}
	first, stop := context.WithCancel(ctx)
	defer stop()
	candidate(first, "one")
	if name, err := next(); err != nil || name != "one" {
		return fmt.Errorf("%q leads: %v", name, err)
	}
	second := candidate(ctx, "two")
	for second.GetLeader() != "one" {
		if ctx.Err() != nil {
			return fmt.Errorf("two sees %q lead", second.GetLeader())
		}
		time.Sleep(20 * time.Millisecond)
	}
	if len(leads) != 0 {
		return fmt.Errorf("both lead")
	}
	stop()
	name, err := next()
	if err != nil {
		return err
	}
	return expect(name, "two")
}
