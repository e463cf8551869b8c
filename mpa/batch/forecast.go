package batch

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

const (
	day = 24 * time.Hour
	// after is the time after a midnight from which its day can be read, pause that between attempts.
	after, pause = 20 * time.Minute, 15 * time.Minute
	// outdated is the age of a forecast from which pods count at their requests.
	outdated = 4 * day
)

// A forecast is the p99 of cpu of workloads by slot, found anew each night.
type forecast struct {
	options Options
	client  client.Reader
	clock   clock.PassiveClock

	again    time.Time // no attempt before
	mu       sync.Mutex
	slots    map[string][usage.SlotCount]float64 // by workload
	midnight time.Time
}

// of is the expected use of a pod by slot, in cores: its request without a history.
func (f *forecast) of(p *v1.Pod, request float64, now time.Time) func(slot int) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	slots, ok := f.slots[workloadOf(p)]
	if !ok || now.Sub(f.midnight).Abs() > outdated {
		return func(int) float64 { return request }
	}
	return func(slot int) float64 { return slots[slot] }
}

// due reads the days that are due. A failure leaves the forecast of the nights before.
func (f *forecast) due(ctx context.Context) {
	now := f.clock.Now()
	due := now.Add(-after).UTC().Truncate(day)
	f.mu.Lock()
	done := f.midnight.Equal(due)
	f.mu.Unlock()
	if len(f.options.Prometheus) == 0 || done || now.Before(f.again) && f.again.Sub(now) <= pause {
		return
	}
	if err := f.read(ctx, now); err != nil && ctx.Err() == nil {
		f.again = now.Add(pause)
		log.FromContext(ctx).Error(err, "Cannot read the use of the last days", "again", pause)
	}
}

func (f *forecast) read(ctx context.Context, now time.Time) error {
	reader := prometheus.Reader{URLs: f.options.Prometheus, Match: f.options.Match, Folder: f.options.Folder, Keep: usage.Window + 2}
	record, err := reader.Read(ctx, now, usage.Window)
	if err != nil {
		return err
	}
	var pods v1.PodList
	if err := f.client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	names, requests := prometheus.Names{Pods: map[prometheus.Pod]string{}, There: map[string]bool{}}, map[string]usage.Amounts{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if w := workloadOf(p); w != "" && !podspec.Batch(p) && !podspec.Ended(p) {
			names.Pods[prometheus.Pod{Namespace: p.Namespace, Name: p.Name}], names.There[w] = w, true
			r := requests[w]
			r.CPU = max(r.CPU, float64(podspec.Demand(p)["cpu"])/1000)
			requests[w] = r
		}
	}
	slots := map[string][usage.SlotCount]float64{}
	midnight := time.Unix(record.Until*int64(day/time.Second), 0).UTC()
	err = record.Slots(ctx, record.Until, func(d *prometheus.Day, pod prometheus.Pod) string {
		if w := names.Name(d, pod); names.There[w] {
			return w
		}
		return ""
	}, func(workload string, h *usage.History, s *usage.Slots) {
		at := float64(midnight.Unix())
		size := usage.SizeOf(h, requests[workload], false, usage.LeastDays, at)
		slots[workload] = usage.SlotsOf(s, &size, usage.LeastDays, at)
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots, f.midnight = slots, midnight
	return nil
}
