//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

const (
	streamPeriod = 250 * time.Millisecond
	streamStands = 120 // pods that stand before the oldest is deleted
)

// A stream creates pods for Sigma at a constant rate, and deletes those that have run the
// longest, until it is stopped.
type stream struct {
	c    *e2e.Cluster
	ns   string
	stop func()

	mu     sync.Mutex
	names  []string // of all pods ever made, in order
	made   map[string]time.Time
	bound  map[string]boundPod
	failed error // of the API server; it ends the stream
}

type boundPod struct {
	uid, node string
	wait      time.Duration // from its creation, within a period
}

func startStream(t *testing.T, c *e2e.Cluster, ns string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &stream{c: c, ns: ns, made: map[string]time.Time{}, bound: map[string]boundPod{}}
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(streamPeriod)
		defer ticker.Stop()
		for ctx.Err() == nil && s.step(ctx) {
			<-ticker.C
		}
	})
	s.stop = func() {
		cancel()
		done.Wait()
	}
	t.Cleanup(s.stop)
	return s
}

// step creates a pod and may delete one. It returns false when the API server refuses that.
func (s *stream) step(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := e2e.Pod(s.ns, fmt.Sprintf("stream-%05d", len(s.names)), "100m", "128Mi")
	pod.Labels["stream"] = "yes"
	onSigma(pod)
	s.names = append(s.names, pod.Name)
	s.made[pod.Name] = time.Now()
	if _, err := s.c.Client.CoreV1().Pods(s.ns).Create(ctx, pod, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
		s.failed = err
		return false
	}
	stands := s.see()
	if len(stands) > streamStands {
		err := s.c.Client.CoreV1().Pods(s.ns).Delete(ctx, stands[0].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if err != nil && ctx.Err() == nil {
			s.failed = err
		}
	}
	return s.failed == nil
}

// see notes which pods have a node, and returns those that run, oldest first; the lock is
// held.
func (s *stream) see() (run []*v1.Pod) {
	for _, pod := range s.c.Pods(s.ns) {
		if pod.Labels["stream"] == "" || pod.Spec.NodeName == "" {
			continue
		}
		if b, known := s.bound[pod.Name]; !known {
			s.bound[pod.Name] = boundPod{string(pod.UID), pod.Spec.NodeName, time.Since(s.made[pod.Name])}
		} else if b.node != pod.Spec.NodeName || b.uid != string(pod.UID) {
			s.failed = fmt.Errorf("%s was on %s, is on %s", pod.Name, b.node, pod.Spec.NodeName)
		}
		if pod.Status.Phase == v1.PodRunning && pod.DeletionTimestamp == nil {
			run = append(run, pod)
		}
	}
	return run
}

// mark is a moment of the stream.
func (s *stream) mark() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names)
}

// await waits until n pods that were created after a mark have nodes, and all before.
func (s *stream) await(t *testing.T, mark, n int) {
	t.Helper()
	e2e.Wait(t, fmt.Sprintf("%d more pods placed", n), func() (string, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		require.NoError(t, s.failed)
		s.see()
		var waiting []string
		for _, name := range s.names[:min(mark+n, len(s.names))] {
			if _, ok := s.bound[name]; !ok {
				waiting = append(waiting, name)
			}
		}
		return fmt.Sprintf("%d made, waiting %v", len(s.names), waiting), len(s.names) >= mark+n && len(waiting) == 0
	})
}

// longest is the longest wait of the pods created since a mark.
func (s *stream) longest(mark int) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.names[mark:] {
		wait = max(wait, s.bound[name].wait)
	}
	return wait
}

// requireOnce ends the stream: every pod was placed, none twice.
func (s *stream) requireOnce(t *testing.T) {
	t.Helper()
	s.stop()
	s.await(t, s.mark(), 0)
	scheduled := map[string]int{}
	events := s.c.Kubectl(t, "", "get", "events.events.k8s.io", "-n", s.ns, "-o",
		`jsonpath={range .items[?(@.reason=="Scheduled")]}{.regarding.name} {.note}{"\n"}{end}`)
	for line := range strings.Lines(events) {
		name, note, _ := strings.Cut(strings.TrimSpace(line), " ")
		b, ours := s.bound[name]
		if !ours {
			continue
		}
		scheduled[name]++
		require.Equal(t, 1, scheduled[name], "%s was placed twice", name)
		require.True(t, strings.HasSuffix(note, " to "+b.node), "%s on %s: %s", name, b.node, note)
	}
	// A program that ends may not get rid of its last events.
	require.Greater(t, len(scheduled), len(s.names)*9/10)
	require.Len(t, s.bound, len(s.names))
	var waits []time.Duration
	for _, b := range s.bound {
		waits = append(waits, b.wait)
	}
	slices.Sort(waits)
	t.Logf("%d pods created, %d placed, none twice; wait: median %.1f s, longest %.1f s",
		len(s.names), len(s.bound), waits[len(waits)/2].Seconds(), waits[len(waits)-1].Seconds())
}
