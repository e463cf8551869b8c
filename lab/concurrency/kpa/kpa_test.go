package kpa

import (
	"math/rand/v2"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/serving/pkg/apis/autoscaling"
	"knative.dev/serving/pkg/autoscaler/scaling"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
)

const (
	histories = 10_000
	ticks     = 60
	tick      = 2 * time.Second
	stable    = 60 * time.Second
	short     = 6 * time.Second
)

// A cluster is what Knative's autoscaler asks: the metric, as means over its windows, and the ready pods.
type cluster struct {
	values []float64 // a tick each, the newest last
	ready  int
}

func (c *cluster) ReadyCount() (int, error) { return c.ready, nil }
func (c *cluster) NotReadyCount() (int, error) {
	return 0, nil
}

func (c *cluster) mean(window time.Duration) float64 {
	n := min(int(window/tick), len(c.values))
	sum := 0.0
	for _, v := range c.values[len(c.values)-n:] {
		sum += v
	}
	return sum / float64(n)
}

func (c *cluster) StableAndPanicConcurrency(types.NamespacedName, time.Time) (float64, float64, error) {
	return c.mean(stable), c.mean(short), nil
}

func (c *cluster) StableAndPanicRPS(types.NamespacedName, time.Time) (float64, float64, error) {
	return c.mean(stable), c.mean(short), nil
}

// TestKPA compares the replicas of each tick with those of knative.dev/serving's scaling.New, on drawn loads that
// rise, fall to nothing and jump, with pods that come late. Histories begin with one pod at most: with more, upstream
// begins in panic at the time of its own clock.
func TestKPA(t *testing.T) {
	d := rand.New(rand.NewPCG(1, 2))
	logger := zap.NewNop().Sugar()
	compared, panics, zero := 0, 0, 0
	for h := range histories {
		rps := d.IntN(2) == 0
		target := []float64{0, 1, 5, 20, 137}[d.IntN(5)]
		limit := int32(0)
		if !rps && target == 0 && d.IntN(2) == 0 {
			limit = []int32{1, 10, 64}[d.IntN(3)]
		}
		// The defaults of config-autoscaler: 100 requests at once or 200 a second, of which 70 %.
		total, metric := target, autoscaling.Concurrency
		switch {
		case rps:
			metric = autoscaling.RPS
			if total == 0 {
				total = 200
			}
		case limit > 0:
			total = float64(limit)
		case total == 0:
			total = 100
		}
		ours := agents.NewKPA(mpa.Target{Replicas: mpa.Range{Min: 1, Max: 1 << 30}}, agents.KPAConfig{Rate: rps, Target: target, Limit: limit})
		c := &cluster{ready: d.IntN(2)}
		theirs := scaling.New(attribute.Set{}, noop.NewMeterProvider(), "ns", "r", c, c, &scaling.DeciderSpec{
			MaxScaleUpRate: 1000, MaxScaleDownRate: 2, ScalingMetric: metric, TargetValue: .7 * total, TotalValue: total,
			TargetBurstCapacity: 211, PanicThreshold: 2, StableWindow: stable, Reachable: true,
		})
		now := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
		load, jump := d.Float64()*10*total, 0
		for k := range ticks {
			now = now.Add(tick)
			if jump--; jump <= 0 {
				jump = 1 + d.IntN(15)
				load = []float64{0, d.Float64() * total, d.Float64() * 10 * total, load * 3, load / 3}[d.IntN(5)]
			}
			c.values = append(c.values, load*(.5+d.Float64()))
			o := mpa.Observation{Time: now, Replicas: int32(max(1, c.ready))}
			for range c.ready {
				o.Pods = append(o.Pods, mpa.Pod{Phase: mpa.Running, Ready: true})
			}
			value := mpa.Metric{Value: c.values[len(c.values)-1], Time: now}
			if rps {
				o.Gates.Rate = value
			} else {
				o.Gates.Inside, o.Gates.Waiting = value, mpa.Metric{Time: now}
			}
			want := theirs.Scale(logger, now)
			if !want.ScaleValid {
				t.Fatalf("history %d, tick %d: no answer", h, k)
			}
			got := ours.Recommend(&o)
			if got.Replicas != max(1, want.DesiredPodCount) {
				t.Fatalf("history %d, tick %d: %d replicas (%s), want %d", h, k, got.Replicas, got.Reason, want.DesiredPodCount)
			}
			compared++
			if want.DesiredPodCount == 0 {
				zero++
			}
			if got.Reason[:5] == "panic" {
				panics++
			}
			if d.IntN(3) == 0 { // pods come and go late
				c.ready += int(want.DesiredPodCount-int32(c.ready)) / (1 + d.IntN(3))
				c.ready = min(c.ready, 500)
			}
		}
	}
	t.Logf("%d decisions are equal, %d in panic, %d to nothing", compared, panics, zero)
	if compared != histories*ticks || panics < compared/10 || zero == 0 {
		t.Fatal("the histories are too tame")
	}
}
